"""Profiles that others publish, from a folder that an option names: none of them is part of the project."""

from pathlib import Path

import pytest

from pinchpoint.cli.main import main
from pinchpoint.scenario import load_sweep

pytestmark = pytest.mark.tier2("command:import")

AIMS = {"Python profiles": 0.80, "YAML profiles": 0.74}  # shares of those of one release


@pytest.fixture
def folder(request):
    """The folder `scripts` of a release of TRex."""
    if (path := request.config.getoption("--trex")) is None:
        pytest.skip("--trex FOLDER names no `scripts` of a TRex release")
    return Path(path).absolute()


@pytest.fixture
def refusal(tmp_path, capsys):
    """Why a profile is not imported; nothing if it is. What is imported passes `check`."""

    def make(path):
        out = tmp_path / "imported.toml"
        out.unlink(missing_ok=True)
        code = main(["import", str(path), "-o", str(out)])
        told = capsys.readouterr().err.partition("pinchpoint: ")[2]
        if code == 0:
            assert load_sweep(out).scenarios[0].streams, path
            return ""
        assert code == 2 and str(path) in told, f"{path}: {told}"
        return told.splitlines()[0].removeprefix(f"{path}: ")

    return make


def test_trex_profiles_are_imported_or_refused_with_their_reason(folder, refusal, capsys):
    kinds = {
        "Python profiles": sorted((folder / "stl").rglob("*.py")),
        "YAML profiles": [path for name in ("avl", "cap2") for path in sorted((folder / name).glob("*.yaml"))],
    }
    shares = {}
    for kind, paths in kinds.items():
        assert paths, f"{folder} has no {kind}"
        told = {path: why for path in paths if (why := refusal(path))}
        shares[kind] = 1 - len(told) / len(paths)
        with capsys.disabled():
            print(f"\n{len(paths) - len(told)} of {len(paths)} {kind} are imported; refused:")
            print("\n".join(f"  {path.relative_to(folder)}: {why}" for path, why in told.items()))
    assert all(shares[kind] >= aim for kind, aim in AIMS.items()), shares
