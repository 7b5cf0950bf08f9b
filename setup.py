"""The packages of the wheel: the root of the repository is `triten`, its folders are what lies below it.

Everything else about the project stands in `pyproject.toml`, which cannot give the packages that it finds a prefix.
"""

from pathlib import Path

from setuptools import find_namespace_packages, setup

ROOT = Path(__file__).parent
# Folders without `__init__.py` count too: packages that share a name with Python's own library have none.
FOLDERS = [
    folder
    for folder in find_namespace_packages(
        str(ROOT), exclude=["build*", "dist", "dist.*", "docs*", "examples*", "tests*"]
    )
    if any(ROOT.joinpath(*folder.split(".")).glob("*.py"))
]

setup(packages=["triten", *(f"triten.{folder}" for folder in FOLDERS)])
