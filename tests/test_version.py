"""The version of a checkout comes from its tags, that of an unpacked sdist from its metadata."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import triten as tt
from triten import _source_version
from triten._source_version import ROOT, source_version, version_of


@pytest.mark.parametrize(
    ("described", "version"),
    [
        ("v0.2.0-0-g1234567", "0.2.0"),
        ("v0.2.0-0-g1234567-dirty", "0.2.1.dev0+g1234567.dirty"),
        ("v0.2.9-12-gabcdef0", "0.2.10.dev12+gabcdef0"),
        ("v1-3-gabcdef0", "2.dev3+gabcdef0"),
        ("v1.0rc1-0-gabcdef0", None),
        ("nightly-0-gabcdef0", None),
    ],
)
def test_a_description_becomes_a_version(described: str, version: str | None) -> None:
    assert version_of(described) == version


@pytest.mark.parametrize(
    ("answers", "version"),
    [
        ({"describe": "v0.3.1-0-g1234567"}, "0.3.1"),
        ({"describe --always": "1234567", "rev-list": "40"}, "0.1.0.dev40+g1234567"),
        ({"describe --always": "1234567-dirty", "rev-list": "40"}, "0.1.0.dev40+g1234567.dirty"),
        ({}, None),
    ],
)
def test_a_checkout_asks_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, str], version: str | None
) -> None:
    def git(root: Path, *arguments: str) -> str | None:
        return answers.get("describe --always" if "--always" in arguments else arguments[0])

    (tmp_path / ".git").touch()
    monkeypatch.setattr(_source_version, "_git", git)
    assert source_version(tmp_path) == version


def test_an_sdist_has_the_version_of_its_metadata(tmp_path: Path) -> None:
    assert source_version(tmp_path) is None
    (tmp_path / "PKG-INFO").write_text(
        "Metadata-Version: 2.4\nName: triten\nVersion: 0.4.2\n\nVersion: none\n"
    )
    assert source_version(tmp_path) == "0.4.2"


def test_this_checkout_has_a_version_of_pep_440() -> None:
    assert tt.__version__ == tt.version.__version__ and "__version__" in tt.__all__
    for version in (tt.__version__, source_version(ROOT)):
        assert re.fullmatch(r"\d+(\.\d+)*(\.dev\d+(\+g[0-9a-f]+(\.dirty)?)?)?", version or "")


def test_an_installed_package_has_the_version_of_its_metadata(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "triten-0.4.2.dist-info").mkdir()
    (tmp_path / "triten_other-9.dist-info").mkdir()
    monkeypatch.setattr(tt.version, "__file__", str(tmp_path / "triten" / "version.py"))
    assert tt.version._installed_version() == "0.4.2"


def test_the_build_takes_the_version_from_the_file_alone() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["dynamic"]
    assert table["version"] == {"attr": "triten._source_version.VERSION"}
    program = "import runpy, sys; found = runpy.run_path(sys.argv[1]); print(found['__getattr__']('VERSION'))"
    command = [sys.executable, "-I", "-S", "-c", program, str(ROOT / "triten" / "_source_version.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == source_version(ROOT)
