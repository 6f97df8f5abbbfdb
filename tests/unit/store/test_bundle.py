"""Bundles: the same folder makes the same file, what comes back is what went in, and hostile ones are refused."""

import hashlib
import json
import shutil
import stat
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pinchpoint.model.errors import InputError, StoreError
from pinchpoint.store import bundle
from pinchpoint.store.folder import RunFolder

GOLDEN = Path(__file__).parents[3] / "tests" / "golden" / "run"
RUN_ID = "synthetic-sample-20260102T030405Z"
QUIET = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "run"
    shutil.copytree(GOLDEN, path)
    (path / "attachments").mkdir()
    (path / "attachments" / "switch.log").write_text("a line\n")
    (path / "report.html").write_text("<script>")
    return RunFolder.open(path)


@pytest.fixture
def packed(run, tmp_path):
    target = tmp_path / "run.zip"
    bundle.pack(RUN_ID, bundle.files_of(run), "0.1.0", target)
    return target


def forged(tmp_path, members, manifest=None, mode=stat.S_IFREG | 0o644, methods=(zipfile.ZIP_DEFLATED,) * 2):
    """A bundle of these members; the manifest fits them unless it is given."""
    members = {"run.json": (GOLDEN / "run.json").read_bytes(), **members}
    files = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in members.items()}
    plain = {"schema": 1, "run_id": RUN_ID, "pinchpoint": "1", "anonymous": False, "files": files, **(manifest or {})}
    path = tmp_path / "forged.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("bundle.json", json.dumps(plain), methods[0])
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type, info.external_attr = methods[1], mode << 16
            out.writestr(info, data)
    return path


def test_what_is_unpacked_is_what_was_packed_without_pages(run, packed, tmp_path):
    again = bundle.unpack(packed, tmp_path / "out")
    assert again.path == tmp_path / "out" / RUN_ID
    assert bundle.files_of(again) == bundle.files_of(run)
    assert not (again.path / "report.html").exists()


def test_the_same_folder_makes_the_same_bytes(run, packed, tmp_path):
    bundle.pack(RUN_ID, bundle.files_of(run), "0.1.0", tmp_path / "second.zip")
    assert (tmp_path / "second.zip").read_bytes() == packed.read_bytes()


def test_nothing_is_overwritten(run, packed, tmp_path):
    with pytest.raises(InputError, match="exists already"):
        bundle.pack(RUN_ID, {}, "0.1.0", packed)
    bundle.unpack(packed, tmp_path / "out")
    with pytest.raises(InputError, match="exists already"):
        bundle.unpack(packed, tmp_path / "out")


def test_a_link_in_a_run_folder_is_not_packed(run):
    (run.path / "engine.log").symlink_to("/etc/hostname")
    with pytest.raises(InputError, match="is a link"):
        bundle.files_of(run)


@pytest.mark.parametrize(
    "name",
    [
        "../run.json",
        "/etc/passwd",
        "attachments/../../x",
        "attachments/a/b",
        "report.html",
        ".hidden",
        "attachments/.x",
    ],
)
def test_names_that_lead_elsewhere_are_refused(tmp_path, name):
    with pytest.raises(InputError, match="is no file of a run"):
        bundle.unpack(forged(tmp_path, {name: b"x"}), tmp_path / "out")
    assert not list((tmp_path / "out").glob("*"))


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFDIR])
def test_links_and_devices_are_refused(tmp_path, kind):
    path = forged(tmp_path, {"engine.log": b"/etc/passwd"}, mode=kind | 0o644)
    with pytest.raises(InputError, match="a link or a device"):
        bundle.unpack(path, tmp_path / "out")


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path):
    path = forged(tmp_path, {"engine.log": bytes(3_000_000)})
    with pytest.raises(InputError, match="zip bomb"):
        bundle.unpack(path, tmp_path / "out")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("name", ["bundle.json", "run.json"])
def test_compression_whose_expansion_is_not_bounded_is_refused_unread(tmp_path, monkeypatch, method, name):
    methods = [method if member == name else zipfile.ZIP_STORED for member in ("bundle.json", "run.json")]
    path = forged(tmp_path, {}, methods=methods)
    monkeypatch.setattr(zipfile.ZipFile, "open", None)
    with pytest.raises(InputError, match=rf"{name}: expected deflated or stored, found method {method}"):
        bundle.unpack(path, tmp_path / "out")


def test_stored_members_are_read(tmp_path):
    path = forged(tmp_path, {}, methods=(zipfile.ZIP_STORED,) * 2)
    assert bundle.unpack(path, tmp_path / "out").read_info().run_id == RUN_ID


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ({"run_id": "../x"}, "cannot be the name of a folder"),
        ({"run_id": "other"}, "run.json is of"),
        ({"files": {}}, "its files are not those"),
        ({"files": {"run.json": {"bytes": 1, "sha256": ""}}}, "has another number"),
        ({"schema": 99}, "reads up to"),
        ({"more": 1}, "unknown field"),
    ],
)
def test_a_manifest_that_contradicts_the_files_is_refused(tmp_path, manifest, words):
    with pytest.raises(InputError, match=words):
        bundle.unpack(forged(tmp_path, {}, manifest), tmp_path / "out")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_content_that_is_not_what_the_digest_says_is_refused(tmp_path):
    data = (GOLDEN / "run.json").read_bytes()
    files = {"run.json": {"bytes": len(data), "sha256": "0" * 64}}
    with pytest.raises(InputError, match="damaged"):
        bundle.unpack(forged(tmp_path, {}, {"files": files}), tmp_path / "out")


@QUIET
@given(where=st.integers(0, 10**9), byte=st.integers(0, 255), cut=st.booleans())
def test_a_damaged_bundle_is_refused_or_gives_the_run_and_leaves_nothing(packed, tmp_path, where, byte, cut):
    data, out = bytearray(packed.read_bytes()), tmp_path / "out"
    data[where % len(data)] = byte
    bad = tmp_path / "bad.zip"
    bad.write_bytes(data[: where % len(data)] if cut else data)
    try:
        folder = bundle.unpack(bad, out)
    except (InputError, StoreError):
        assert not out.exists() or not list(out.iterdir())
    else:
        assert folder.read_info().run_id == RUN_ID
        shutil.rmtree(out)


@QUIET
@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(tmp_path, data):
    path = tmp_path / "any.zip"
    path.write_bytes(data)
    with pytest.raises(InputError):
        bundle.unpack(path, tmp_path / "out")
