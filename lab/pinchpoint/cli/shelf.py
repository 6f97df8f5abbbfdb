"""Where studies stand: in the installed package, or in the repository it runs from."""

from importlib import resources
from pathlib import Path

from pinchpoint.model.errors import InputError

_PACKAGED = Path(str(resources.files("pinchpoint"))) / "studies"
_REPOSITORY = Path(__file__).parents[3] / "studies"


def folders() -> dict[str, Path]:
    """The folder of every shipped study, by name."""
    shelf = next((path.resolve() for path in (_PACKAGED, _REPOSITORY) if path.is_dir()), None)
    if shelf is None:
        return {}
    return {path.name: path for path in sorted(shelf.iterdir()) if path.is_dir() and any(path.glob("*.toml"))}


def find(name: str) -> Path:
    """The folder of a shipped study by its name, or of one's own by its path. Raises InputError."""
    shipped = folders()
    if name in shipped:
        return shipped[name]
    if name and Path(name).is_dir():
        return Path(name)
    hint = f"shipped: {', '.join(shipped)}; or the path of a folder of your own"
    raise InputError(f"{name}: no such study", hint)
