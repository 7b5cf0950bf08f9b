"""`python -m triten.as_torch --install`: a `torch` distribution in a scratch environment, where torch is triten."""

import csv
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

import triten as tt
from triten import _torch_distribution as local

VERSION = "2.13.0+triten.0.1.0"
OWN_VERSION = f"2.13.0+triten.{tt.__version__.replace('+', '.')}"
PROGRAM = """
import concurrent.futures, importlib.metadata, multiprocessing, subprocess, sys

def double(x):
    import torch
    return torch.ones(2) * x

if __name__ == "__main__":
    before = importlib.metadata.version("torch")
    assert "torch" not in sys.modules and "triten" not in sys.modules
    import functorch
    import torch.nn as nn, torch
    import triten
    assert torch is triten and nn is triten.nn and sys.modules["torch.nn"] is nn
    assert functorch.vmap is torch.vmap
    assert importlib.metadata.version("torch") == before == torch.__version__
    assert importlib.metadata.packages_distributions()["torch"] == ["torch"]
    assert len(importlib.metadata.files("torch")) == 9
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(double, 3).result().tolist() == [3, 3]
    code = "import sys; from torch.nn.functional import relu; print(sys.modules['torch'] is sys.modules['triten'])"
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
"""


def run(*command: str | Path, code: int = 0, cwd: Path | None = None, **variables: str) -> str:
    """Return the output and errors of a process without a PYTHONPATH of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=cwd, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Virtual environment that sees this package and what it needs, and has nothing of its own."""
    folder = tmp_path_factory.mktemp("environment") / "with a space"
    venv.create(folder, symlinks=True, with_pip=False)
    site = Path(
        run(folder / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    parent = Path(tt.__file__).parents[1]
    lines = [
        f"import site; site.addsitedir({each!r})" for each in (str(parent), sysconfig.get_path("purelib"))
    ]
    (site / "needed.pth").write_text("\n".join(lines) + "\n")
    return folder


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_programs_pip_and_commands_of_the_environment_see_torch(environment: Path, tmp_path: Path) -> None:
    python = environment / "bin" / "python"
    before = contents(environment)
    for _ in range(2):  # the second call writes the same files
        assert f"torch {OWN_VERSION} is triten in" in run(python, "-P", "-m", "triten.as_torch", "--install")
    (tmp_path / "program.py").write_text(PROGRAM)
    assert "True" in run(python, "program.py", cwd=tmp_path)
    assert "--nproc-per-node" in run(environment / "bin" / "torchrun", "--help")

    # A requirement is met, offline, by an environment that pip finds whole.
    wheel = "needs_torch-1.0-py3-none-any.whl"
    write_wheel(tmp_path / wheel, requires="torch >= 2, == 2.13.0")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    run(*pip, "install", "--no-index", "--no-compile", wheel, cwd=tmp_path)
    run(*pip, "check")
    run(*pip, "uninstall", "-y", "needs-torch")

    assert f"removed torch {OWN_VERSION}" in run(python, "-P", "-m", "triten.as_torch", "--uninstall")
    assert contents(environment) == before


def write_wheel(path: Path, requires: str) -> None:
    """Write a wheel of one module with one requirement."""
    info = "needs_torch-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("needs_torch.py", "import torch\n")
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: needs-torch\nVersion: 1.0\nRequires-Dist: {requires}\n",
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Site folder of an environment, for calls in this process."""
    folder = tmp_path / "lib" / "site-packages"
    folder.mkdir(parents=True)
    paths = {"purelib": str(folder), "scripts": str(tmp_path / "bin"), "stdlib": str(tmp_path / "lib")}
    monkeypatch.setattr(sysconfig, "get_path", paths.__getitem__)
    monkeypatch.setattr(sys, "path", [str(folder)])
    yield folder


def test_every_file_is_in_record_with_its_hash_and_size(site: Path) -> None:
    local.install(VERSION)
    torch = local.installed()
    assert isinstance(torch, PathDistribution) and local.is_local(torch) and torch.version == VERSION
    recorded = {Path(os.path.normpath(site / str(file))) for file in torch.files or ()}
    assert recorded == {path for path in site.parents[1].rglob("*") if path.is_file()}
    with open(site / f"torch-{VERSION}.dist-info" / "RECORD", newline="") as file:
        assert all(int(size) == (site / name).stat().st_size for name, _, size in csv.reader(file) if size)
    assert not torch.requires or torch.requires == ["triten"]


def test_an_earlier_version_is_replaced_and_files_of_others_stay(site: Path) -> None:
    local.install("2.12.0+triten.0.0.9")
    local.install(VERSION)
    assert [path.name for path in site.glob("*.dist-info")] == [f"torch-{VERSION}.dist-info"]
    kept = site / "torch" / "extension.py"
    kept.write_text("")
    local.uninstall()
    assert contents(site) == {"torch", "torch/extension.py"}
    assert "nothing to remove" in local.uninstall()
    local.install(VERSION)  # a folder that another program left is no package


def pytorch(site: Path) -> str:
    info = site / "torch-2.9.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.9.1\n")
    (info / "INSTALLER").write_text("pip\n")
    return r"PyTorch 2\.9\.1 is installed in .*-m pip uninstall torch.*virtual environment"


def unowned(site: Path) -> str:
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("")
    return r"`import torch` imports .*torch/__init__\.py.*remove it"


def managed(site: Path) -> str:
    (site.parent / "EXTERNALLY-MANAGED").write_text("")
    return "package manager owns .*virtual environment"


def read_only(site: Path) -> str:
    (site.parents[1] / "bin").write_text("")  # root may write everywhere, but no folder below a file
    return "cannot write to .*bin.*virtual environment"


@pytest.mark.parametrize("plant", [pytorch, unowned, managed, read_only])
def test_an_environment_that_cannot_have_it_is_refused_and_stays(
    plant: Callable[[Path], str], site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    message = plant(site)
    before = contents(site.parents[1])
    with pytest.raises(local.InstallError, match=message):
        local.install(VERSION)
    assert contents(site.parents[1]) == before


def test_pytorch_itself_is_not_removed(site: Path) -> None:
    pytorch(site)
    with pytest.raises(local.InstallError, match=r"torch 2\.9\.1 in .* is PyTorch"):
        local.uninstall()
    assert local.installed() is not None
