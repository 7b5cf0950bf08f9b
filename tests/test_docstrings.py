"""The examples of the docstrings run and print what they say; those of operators have `test_operator_docs.py`."""

import doctest
import importlib

import pytest

from triten.tests.shared.package_files import module_name, package_files

# Modules of backends whose packages have no wheel for every machine, and the programs of perf.
OPTIONAL = {"triton", "cupy"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules_with_examples() -> list[str]:
    """Return the dotted names of the modules that contain a doctest."""
    return sorted(
        module_name(path).removesuffix(".__init__")
        for path in package_files()
        if path.name != "__main__.py" and "generated" not in path.parts and ">>> " in path.read_text()
    )


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
