"""Fragments of the changelog are well formed, and towncrier builds them."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "changes"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
KINDS = "|".join(kind["directory"] for kind in SETTINGS["type"])
NAME = re.compile(rf"\+[a-z0-9]+(?:-[a-z0-9]+)*\.(?:{KINDS})\.md")


def faults(name: str, text: str) -> list[str]:
    """Return what is wrong with a fragment."""
    found = [] if NAME.fullmatch(name) else [f"name it +SUBJECT.KIND.md, with a KIND of {KINDS}"]
    lines = text.splitlines()
    if len(lines) != 1 or not text.endswith("\n"):
        found.append("write one line")
    if not re.fullmatch(r"[A-Z0-9`].*\.", lines[0] if lines else ""):
        found.append("write sentences, without the sign of a list")
    return found


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_a_fragment_is_well_formed(path: Path) -> None:
    assert faults(path.name, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("+a.fixes.md", "It works.\n"),
        ("a.fixed.md", "It works.\n"),
        ("+a.fixed.md", "It works"),
        ("+a.fixed.md", "- It works.\n"),
        ("+a.fixed.md", "It works.\n\nIt does.\n"),
    ],
)
def test_a_malformed_fragment_is_refused(name: str, text: str) -> None:
    assert faults("+a.fixed.md", "It works.\n") == []
    assert faults(name, text)


def test_the_changelog_says_where_releases_begin() -> None:
    assert SETTINGS["start_string"] in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_fragments_become_a_part_of_the_changelog(tmp_path: Path) -> None:
    pytest.importorskip("towncrier", reason="builds the changelog")
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    folder = tmp_path / SETTINGS["directory"]
    folder.mkdir(parents=True)
    (folder / "+a-fix.fixed.md").write_text("`x` is right.\n")
    (folder / "+a-feature.added.md").write_text("`y` is there.\n")
    command = [
        sys.executable,
        "-P",
        "-m",
        "towncrier",
        "build",
        "--yes",
        "--version",
        "9.0",
        "--date",
        "2030-01-01",
    ]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    expected = "## 9.0 (2030-01-01)\n\n### Added\n\n- `y` is there.\n\n### Fixed\n\n- `x` is right.\n"
    assert expected in (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")
