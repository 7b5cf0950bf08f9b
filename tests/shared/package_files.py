"""Source files of the package, without its tests: the folder `triten` and the folders that it links to."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "triten"


def package_folders() -> Iterator[Path]:
    """Yield the package's folder and every folder below it that holds Python modules."""
    yield PACKAGE
    for child in sorted(PACKAGE.iterdir()):
        if child.is_dir() and child.name != "tests":
            # `rglob` does not follow links that it meets, only the one that it starts at.
            yield from (folder for folder in (child, *child.rglob("*/")) if any(folder.glob("*.py")))


def module_name(path: Path) -> str:
    """Return a file's dotted name, ending in `.__init__` for a package, or a folder's.

    Example:
        >>> from triten.tests.shared.package_files import PACKAGE, module_name
        >>> module_name(PACKAGE / "nn" / "__init__.py"), module_name(PACKAGE / "runtime")
        ('triten.nn.__init__', 'triten.runtime')
    """
    return ".".join(("triten", *path.relative_to(PACKAGE).parts)).removesuffix(".py")


def path_of(module: str) -> Path:
    """Return the file of a module's dotted name."""
    return PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")


def package_files() -> list[Path]:
    """Return the files of all modules."""
    return sorted(path for folder in package_folders() for path in folder.glob("*.py"))
