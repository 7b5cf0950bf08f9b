"""The examples of the docstrings run and print what they say; those of operators have `test_operator_docs.py`."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOT_PACKAGES = {"tests", "examples", "build", "dist"}
# Modules of backends whose packages have no wheel for every machine, and the programs of perf.
OPTIONAL = {"triton", "cupy"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules_with_examples() -> list[str]:
    """Return the dotted names of the modules that contain a doctest."""
    folders = [
        child
        for child in ROOT.iterdir()
        if (child / "__init__.py").exists() and child.name not in NOT_PACKAGES
    ]
    files = [*ROOT.glob("*.py"), *(path for folder in folders for path in folder.rglob("*.py"))]
    names = (
        ".".join(("triten", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        for path in files
        if path.name != "__main__.py" and "generated" not in path.parts and ">>> " in path.read_text()
    )
    return sorted(names)


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_run(name: str) -> None:
    # Imported under the package's name: doctest on the source file would import a second copy.
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in OPTIONAL:
            raise
        pytest.skip(f"{error.name} is not installed")
    result = doctest.testmod(module, optionflags=FLAGS)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples of {name} failed"
