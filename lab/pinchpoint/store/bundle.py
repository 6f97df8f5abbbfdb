"""Bundles: one run in one file, to be read or repeated elsewhere; a zip with a manifest as its first member.

The same folder makes the same bytes with the same zlib: members are sorted, and have no times and no owners. Pages
(HTML) are not part of it: they are made anew from the data, so that no page from elsewhere runs a script here.

A bundle is hostile until it was read: names, sizes, kinds and digests are checked before and while a file is written.
Members are deflated or stored: zipfile bounds what it expands at once for no other method.
"""

import hashlib
import os
import re
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pinchpoint.model.errors import InputError, StoreError
from pinchpoint.store.codec import SCHEMA, Codec
from pinchpoint.store.folder import RunFolder, storing

MANIFEST: Final = "bundle.json"
MOST_BYTES: Final = 4 << 30  # of all files
MOST_FILES: Final = 10_000
MOST_RATIO: Final = 200  # of a bundle's files to the bundle; those of real runs are 3 to 30 times as large
_MANIFEST_BYTES: Final = 4 << 20
_FILES: Final = frozenset(
    {"run.json", "result.json", "trials.jsonl", "measurements.jsonl", "slices.jsonl", "comparison.json", "engine.log"}
)
_ATTACHMENT: Final = re.compile(r"attachments/[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,255}")
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_BROKEN: Final = (
    zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError, EOFError, ValueError,
    OverflowError, KeyError, IndexError, MemoryError,
)  # fmt: skip


@dataclass(frozen=True)
class Packed:
    """One file of a bundle."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What the member `bundle.json` holds."""

    schema: int
    run_id: str
    pinchpoint: str  # version that packed it
    anonymous: bool  # addresses and names of hosts were replaced
    files: Mapping[str, Packed]


_CODEC = Codec.of(Manifest)


def files_of(folder: RunFolder) -> dict[str, bytes]:
    """The files of a run that belong in a bundle, by name. Raises StoreError, InputError for a link."""
    files: dict[str, bytes] = {}
    attachments = folder.path / "attachments"
    inner = sorted(attachments.iterdir()) if attachments.is_dir() else []
    for path in (*(folder.path / name for name in sorted(_FILES)), *inner):
        name = path.relative_to(folder.path).as_posix()
        if path.is_symlink() or attachments.is_symlink():
            raise InputError(f"{path} is a link", "a link may lead outside; put the file itself there")
        if path.is_file() and (name in _FILES or _ATTACHMENT.fullmatch(name)):
            try:
                files[name] = path.read_bytes()
            except OSError as error:
                raise StoreError(f"cannot read {path}: {error.strerror}") from error
    return files


def pack(run_id: str, files: Mapping[str, bytes], version: str, target: Path, *, anonymous: bool = False) -> int:
    """Write a bundle; returns its bytes. Raises InputError if `target` exists, StoreError if it cannot be written."""
    packed = {name: Packed(len(data), hashlib.sha256(data).hexdigest()) for name, data in sorted(files.items())}
    manifest = _CODEC.encode(Manifest(SCHEMA, run_id, version, anonymous, packed), MANIFEST)
    if target.exists():
        raise InputError(f"{target}: exists already", "give -o another name")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with zipfile.ZipFile(partial, "x", zipfile.ZIP_DEFLATED, compresslevel=6) as out:
            for name, data in ((MANIFEST, manifest + b"\n"), *sorted(files.items())):
                out.writestr(_member(name), data)
        partial.rename(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StoreError(f"cannot write {target}: {error.strerror}", "give -o another place") from error
    return target.stat().st_size


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, _EPOCH)
    member.compress_type, member.create_system = zipfile.ZIP_DEFLATED, 3  # Unix
    member.external_attr = (stat.S_IFREG | 0o644) << 16
    return member


def unpack(path: Path, root: Path) -> RunFolder:
    """Make the run folder `root/RUN_ID` of a bundle, whole or not at all.

    Raises InputError for a bundle that is damaged, hostile or larger than it may be, or if the folder exists;
    StoreError if it cannot be written.
    """
    with _opened(path) as bundle:
        manifest = _manifest(bundle, path)
        target = root / manifest.run_id
        if target.exists() or target.is_symlink():
            raise InputError(f"{target}: exists already", "give -o another folder")
        with storing(root, "give -o another place"):
            root.mkdir(parents=True, exist_ok=True)
            _require_space(manifest, root)
            new = Path(tempfile.mkdtemp(prefix=".unpack-", dir=root))
        try:
            _extract(bundle, manifest, new, path)
            _require_readable(RunFolder(new), manifest, path)
            new.chmod(0o755)
            new.rename(target)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
    return RunFolder.open(target)


@contextmanager
def opened(path: Path) -> Iterator[RunFolder]:
    """A run folder, or a bundle unpacked into a folder that is removed afterwards. Raises as `unpack` does."""
    if path.is_dir():
        yield RunFolder.open(path)
        return
    with tempfile.TemporaryDirectory(prefix="pinchpoint-") as folder:
        yield unpack(path, Path(folder))


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The bundle; whatever is wrong with it becomes an InputError that names the file."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: larger than {MOST_BYTES >> 30} GiB", "pack one run a bundle")
        with zipfile.ZipFile(path) as bundle:
            yield bundle
    except _BROKEN as error:
        raise InputError(f"{path}: not a bundle, or damaged: {error}", "make one: pinchpoint pack RUN") from error
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error


def _manifest(bundle: zipfile.ZipFile, path: Path) -> Manifest:
    members = bundle.infolist()
    if not members or members[0].filename != MANIFEST:
        raise InputError(f"{path}: not a bundle: its first member is not {MANIFEST}", "make one: pinchpoint pack RUN")
    for member in members:
        if member.compress_type not in _METHODS:
            what = f"{path}: {member.filename}: expected deflated or stored, found method {member.compress_type}"
            raise InputError(what, "let its owner make it again: pinchpoint pack RUN")
    manifest = _CODEC.decode(_content(bundle, members[0], _MANIFEST_BYTES, path), f"{path}: {MANIFEST}")
    if not _RUN_ID.fullmatch(manifest.run_id):
        raise InputError(f"{path}: {MANIFEST}: run_id: {manifest.run_id!r} cannot be the name of a folder")
    names = [member.filename for member in members[1:]]
    for name in (*names, *manifest.files):
        if name not in _FILES and not _ATTACHMENT.fullmatch(name):
            hint = "unpack only bundles that you trust by their origin"
            raise InputError(f"{path}: {name!r} is no file of a run", hint)
    if sorted(names) != sorted(manifest.files) or "run.json" not in manifest.files:
        raise InputError(f"{path}: its files are not those that {MANIFEST} names")
    _require_sizes(members[1:], manifest, path)
    return manifest


def _require_sizes(members: list[zipfile.ZipInfo], manifest: Manifest, path: Path) -> None:
    """Raises InputError for a bundle that would fill the disk, links, and sizes that contradict each other."""
    total = sum(file.bytes for file in manifest.files.values())
    if len(members) > MOST_FILES or total > MOST_BYTES or any(file.bytes < 0 for file in manifest.files.values()):
        most = f"{MOST_BYTES:,} or {MOST_FILES:,}"
        raise InputError(f"{path}: {total:,} bytes in {len(members):,} files: more than {most}")
    if total > MOST_RATIO * path.stat().st_size:
        raise InputError(f"{path}: its files are more than {MOST_RATIO} times as large as the bundle: a zip bomb")
    for member in members:
        kind = stat.S_IFMT(member.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise InputError(f"{path}: {member.filename}: a link or a device, not a file")
        if member.file_size != manifest.files[member.filename].bytes:
            size = f"{member.file_size:,} bytes, but {MANIFEST} has another number"
            raise InputError(f"{path}: {member.filename}: {size}")


def _require_space(manifest: Manifest, root: Path) -> None:
    total, free = sum(file.bytes for file in manifest.files.values()), shutil.disk_usage(root).free
    if total > free:
        raise StoreError(f"{root}: {total:,} bytes do not fit: {free:,} are free", "give -o another place")


def _content(bundle: zipfile.ZipFile, member: zipfile.ZipInfo, most: int, path: Path) -> bytes:
    with bundle.open(member) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise InputError(f"{path}: {member.filename}: more than {most:,} bytes")
    return data


def _extract(bundle: zipfile.ZipFile, manifest: Manifest, new: Path, path: Path) -> None:
    for name, packed in manifest.files.items():
        digest, written = hashlib.sha256(), 0
        target = new / name
        target.parent.mkdir(exist_ok=True)
        with bundle.open(name) as file, target.open("xb") as out:
            while piece := file.read(1 << 20):
                written += len(piece)
                if written > packed.bytes:
                    break
                digest.update(piece)
                out.write(piece)
        if written != packed.bytes or digest.hexdigest() != packed.sha256:
            raise InputError(f"{path}: {name}: damaged: its content is not what {MANIFEST} says")


def _require_readable(folder: RunFolder, manifest: Manifest, path: Path) -> None:
    """Raises InputError if the data are not those of a run, or of another one."""
    info = folder.read_info()
    if info.run_id != manifest.run_id:
        raise InputError(f"{path}: run.json is of {info.run_id}, but {MANIFEST} of {manifest.run_id}")
    folder.read_result()
