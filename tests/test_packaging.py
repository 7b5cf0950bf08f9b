"""The installed files are those of the tree, each once, and importing the package stays cheap."""

import importlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

import triten as tt

ROOT = Path(__file__).parents[1]
NOT_PACKAGES = {"tests", "examples", "docs", "build", "dist"}
DATA_SUFFIXES = {".yaml", ".pyi", ".typed"}
HEAVY = ("triton", "cupy", "scipy", "yaml", "plotly", "rich", "torch")


def package_folders(folder: Path = ROOT) -> Iterator[Path]:
    """Yield the root and every folder below it that holds Python modules of the package."""
    if any(folder.glob("*.py")):
        yield folder
    for child in sorted(folder.iterdir()):
        hidden = child.name.startswith((".", "__")) or child.name.endswith(".egg-info")
        environment = (child / "pyvenv.cfg").exists()
        if child.is_dir() and not hidden and not environment and child.name not in NOT_PACKAGES:
            yield from package_folders(child)


def dotted(folder: Path) -> str:
    return ".".join(("triten", *folder.relative_to(ROOT).parts))


def setuptools_table() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_the_imported_package_is_this_checkout() -> None:
    assert Path(tt.__file__).parent.resolve() == ROOT.resolve()


def test_setup_finds_the_folders_with_modules() -> None:
    """Check the folders; those without `__init__.py` are named after standard modules or a package that they use."""
    folders = list(package_folders())
    without = [folder.name for folder in folders if not (folder / "__init__.py").exists()]
    assert without == sorted(set(without) & (sys.stdlib_module_names | {"onnx", "safetensors"}))
    program = "import setuptools; setuptools.setup = lambda packages: print(*packages); import setup"
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert sorted(found) == sorted(dotted(folder) for folder in folders)


def test_package_data_covers_every_data_file() -> None:
    patterns = setuptools_table()["package-data"]["triten"]
    files = [
        path.relative_to(ROOT).as_posix()
        for folder in [ROOT, *(child for child in ROOT.iterdir() if child in set(package_folders()))]
        for path in (folder.iterdir() if folder == ROOT else folder.rglob("*"))
        if path.suffix in DATA_SUFFIXES and not path.name.startswith(".")
    ]
    assert "py.typed" in files
    assert [name for name in files if not any(fnmatch(name, pattern) for pattern in patterns)] == []


def test_no_second_copy_of_the_package_is_imported() -> None:
    folders = {str(folder) for folder in package_folders()}
    strays = {
        name: module.__file__
        for name, module in sys.modules.copy().items()
        if (file := getattr(module, "__file__", None))
        and str(Path(file).parent) in folders
        and name.partition(".")[0] not in ("triten", "conftest")
    }
    assert strays == {}
    assert ROOT.name == "triten" or ROOT.name not in sys.modules


@pytest.mark.parametrize("cuda", ["interpret", None])
def test_import_loads_no_heavy_module(cuda: str | None, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITEN_CUDA"}
    if cuda is not None:
        environment["TRITEN_CUDA"] = cuda
    program = f"import sys, triten; print(*[name for name in {HEAVY} if name in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-I", "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []
    assert run.stderr == ""


def test_a_program_on_the_cpu_loads_nothing_of_the_cuda_runtime(tmp_path: Path) -> None:
    program = """
import sys, triten as tt
(tt.ones(3, requires_grad=True) * 2).sum().backward()
print(*sorted(name for name in sys.modules if name.startswith("triten.runtime.cuda.")))
"""
    run = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    # The choice of the driver is registered, and has chosen nothing; composites know of the question that they ask.
    own = ["choose", "provider", "value_reading"]
    assert run.stdout.split() == [f"triten.runtime.cuda.{name}" for name in own]


SHARED_NAMES = sorted(
    folder.name for folder in package_folders() if folder != ROOT and not (folder / "__init__.py").exists()
)
"""Public packages with names of Python's own modules."""


@pytest.mark.parametrize("name", SHARED_NAMES)
def test_a_name_of_python_s_own_means_python_s_module_in_the_root(name: str) -> None:
    program = f"import {name}; print({name}.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert not Path(found.strip()).is_relative_to(ROOT / name)


@pytest.mark.parametrize("name", SHARED_NAMES)
def test_such_a_package_is_imported_and_its_names_are_those_of_its_stub(name: str) -> None:
    module = importlib.import_module(f"triten.{name}")
    assert module is getattr(tt, name) and module.__doc__
    content = importlib.import_module(f"triten.{name}.namespace")
    assert all(getattr(module, each) is getattr(content, each) for each in content.__all__)
    stub = (ROOT / name / "__init__.pyi").read_text()
    assert "from .namespace import *" in stub or all(f"{each} as {each}" in stub for each in content.__all__)


def test_a_type_checker_finds_such_packages(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "triten").symlink_to(ROOT)
    (tmp_path / "program.py").write_text(
        "import random\n"
        "import types\n"
        "import triten.random\n"
        "from triten.signal.windows import hann\n"
        "from triten.types import Number\n"
        "x: Number = random.random()\n"
        "namespace = types.SimpleNamespace()\n"
        "window = hann(4)\n"
        "triten.random.manual_seed(0)\n"
    )
    command = [sys.executable, "-P", "-m", "mypy", "--follow-imports=silent", "program.py"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
