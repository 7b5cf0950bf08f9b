"""Files and folders that texts name are there: whoever moves one hears of the sentences that still name it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path, PurePath

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`([A-Za-z_][\w.]*(?:/[\w.]+)*(?:/|/[\w.]+\.(?:py|yaml|md|txt|json)))`")
MADE = ("docs/_build", "dist", "build")
"""What is made and not kept."""
OF_READERS = {"mine/operators.py": "docs/tutorials/custom_operator.md"}
"""Files that a text has its reader write."""


def source_files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no git checkout")
    return listed.stdout.splitlines()


def test_named_files_exist():
    files = source_files()
    paths = set(files) | {str(folder) for file in files for folder in PurePath(file).parents}
    ends = {path[i + 1 :] for path in paths for i, letter in enumerate(path) if letter == "/"} | paths
    missing = []
    for file in files:
        if not file.endswith((".md", ".rst", ".py", ".yaml")) or file == "CHANGELOG.md":
            continue
        for name in NAMED.findall((ROOT / file).read_text()):
            is_made = name.startswith(MADE)
            if name.rstrip("/") not in ends and not is_made and OF_READERS.get(name) != file:
                missing.append(f"{file}: {name}")
    assert missing == []
    assert all(file in files for file in OF_READERS.values())
