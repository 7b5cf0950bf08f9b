"""The installed files are those of the tree, each once, and importing the package stays cheap."""

import importlib
import os
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from setuptools import find_packages

import triten as tt
from triten.tests.shared.package_files import PACKAGE, ROOT, module_name, package_folders

DATA_SUFFIXES = {".yaml", ".pyi", ".typed"}
HEAVY = ("triton", "cupy", "scipy", "yaml", "rich", "torch")
ENTRIES = 22
"""At most this many entries has the root of the repository."""


def setuptools_table() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    return table


def tracked_files() -> list[str]:
    """Return the paths that git tracks; skips the test outside a checkout."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "-C", str(ROOT), "ls-files"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_imported_package_is_this_checkout() -> None:
    assert Path(tt.__file__).parent == PACKAGE


def test_setuptools_finds_the_folders_with_modules() -> None:
    folders = list(package_folders())
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []
    table = setuptools_table()["packages"]["find"]
    found = find_packages(str(ROOT), include=table["include"], exclude=table["exclude"])
    assert sorted(found) == sorted(map(module_name, folders))


def test_package_data_covers_every_data_file() -> None:
    patterns = setuptools_table()["package-data"]["triten"]
    files = [
        path.relative_to(PACKAGE).as_posix()
        for folder in package_folders()
        for path in (*folder.iterdir(), *(folder / "native_functions").glob("*"))
        if path.suffix in DATA_SUFFIXES
    ]
    assert "py.typed" in files and "dispatch/tensor.pyi" in files
    assert [name for name in files if not any(fnmatch(name, pattern) for pattern in patterns)] == []


def test_mypy_checks_every_module_but_the_benchmarks_and_tests() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    is_excluded = re.compile(table["exclude"]).search
    folders = [folder.relative_to(PACKAGE.parent).as_posix() + "/" for folder in package_folders()]
    excluded = [folder for folder in folders if is_excluded(folder)]
    assert table["packages"] == [PACKAGE.name]
    assert excluded == [each for each in folders if each.startswith(("triten/perf/", "triten/tests/"))]


def test_the_root_shows_the_architecture() -> None:
    entries = {path.partition("/")[0] for path in tracked_files()}
    assert len(entries) <= ENTRIES, sorted(entries)
    assert {"runtime", "dispatch", "cpu_fallback", "triton_kernels", "compiler", "triten"} <= entries
    python_own = {entry.removesuffix(".py") for entry in entries} & sys.stdlib_module_names
    assert python_own == set(), "a program that runs in the root would import these in place of Python's"


@pytest.mark.parametrize("name", ["compiler", "cpu_fallback", "dispatch", "distributed", "perf", "runtime"])
def test_folders_of_the_root_are_linked_into_the_package(name: str) -> None:
    link = PACKAGE / name
    if not link.is_symlink():
        pytest.skip("these are folders of their own in an archive of the sources")
    assert os.readlink(link) == f"../{name}"


def test_no_second_copy_of_a_module_is_imported() -> None:
    names: dict[str, set[str]] = {}
    modules = {name: module for name, module in sys.modules.copy().items() if name != "__main__"}
    for name, module in modules.items():
        file = getattr(module, "__file__", None)
        path = os.path.realpath(file or "")
        # pytest imports tests as `tests.ops.test_sort`, and other tests import some as `triten.tests.ops.test_sort`.
        outside = (f"{ROOT}{os.sep}tests", f"{ROOT}{os.sep}.")
        if path.startswith(f"{ROOT}{os.sep}") and not path.startswith(outside):
            names.setdefault(path, set()).add(name)
    # An alias is one module under two names.
    twice = {file: found for file, found in names.items() if len({id(modules[each]) for each in found}) > 1}
    assert twice == {}


def test_modules_of_other_libraries_are_not_found_in_the_package() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"triten\.numpy"):
        importlib.import_module("triten.numpy")


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


def test_a_compiled_program_on_the_cpu_loads_no_triton_kernels(tmp_path: Path) -> None:
    program = """
import sys, triten as tt
layer = tt.nn.Linear(3, 4)
tt.compile(lambda x: layer(x).relu().sum())(tt.ones(2, 3)).backward()
folders = "triten.compiler.triton", *(f"triten.triton_kernels.{name}" for name in ("products", "convolution"))
print(*sorted(name for name in sys.modules if name.startswith(folders)))
"""
    run = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == []


@pytest.mark.parametrize("name", ["multiprocessing", "random", "signal", "types"])
def test_a_name_of_python_s_own_means_python_s_module_in_the_root(name: str) -> None:
    program = f"import {name}, triten.{name}; print({name}.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert not Path(found.strip()).is_relative_to(ROOT)


PROGRAM = """
import random
import triten as tt
import triten.random
from triten.signal.windows import hann
from triten.types import Number

x: Number = random.random()
window: tt.Tensor = hann(4)
rate: float = tt.optim.SGD([window], lr=0.1).param_groups[0]["lr"]
triten.random.manual_seed(0)
reveal_type(tt.compile)
reveal_type(tt.device)
"""


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_type_checker_resolves_the_install(checker: str, tmp_path: Path) -> None:
    """Check a program beside the environment's own install: no path is given."""
    pytest.importorskip(checker)
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ["--follow-imports=silent"] if checker == "mypy" else ["--pythonpath", sys.executable]
    checked = subprocess.run(
        [sys.executable, "-m", checker, *options, "program.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
    assert "Unknown" not in checked.stdout and "Any" not in checked.stdout.partition("reveal")[2]
