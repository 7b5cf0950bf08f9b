"""Overviews of the reference: which families and names each page of `reference/` lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

REFERENCE = Path(__file__).parents[1] / "reference"
_NAMES = re.compile(r"^\.\. names:: (\S+)\n((?:   .*\n|\n)*)", re.MULTILINE)
_FAMILIES = re.compile(r"^\.\. (\w+)::.*\n   :families: (.*)", re.MULTILINE)


@cache
def texts() -> dict[str, str]:
    """Return the text of each overview, by its document's name."""
    return {f"reference/{path.stem}": path.read_text() for path in sorted(REFERENCE.glob("*.rst"))}


def families_of_pages(directive: str) -> set[str]:
    """Return the families that some page lists by a directive."""
    return {family for _, family in _families(directive)}


def names_of_pages(namespace: str) -> tuple[set[str], set[str]]:
    """Return the names of a namespace that some page lists, and the modules whose names it lists."""
    lines = [line for _, line in _name_lines(namespace)]
    names = {name for line in lines if not line.startswith(":") for name in line.split()}
    homes = {home for line in lines if line.startswith(":home:") for home in line.split()[1:]}
    return names, homes


@cache
def overview_of(name: str, family: str | None) -> str:
    """Return the overview of a name of the root: that of its family, that which names it, or the rest."""
    by_family = (page for page, each in _families("operators") if each == family)
    by_name = (page for page, line in _name_lines("triten") if name in line.split())
    return next(by_family, None) or next(by_name, None) or "reference/others"


def _families(directive: str) -> Iterator[tuple[str, str]]:
    for page, text in texts().items():
        for kind, families in _FAMILIES.findall(text):
            if kind == directive:
                yield from ((page, family) for family in families.split())


def _name_lines(namespace: str) -> Iterator[tuple[str, str]]:
    for page, text in texts().items():
        for named, block in _NAMES.findall(text):
            if named == namespace:
                yield from ((page, line.strip()) for line in block.splitlines())
