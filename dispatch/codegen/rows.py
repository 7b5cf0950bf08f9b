"""Tables in generated modules: rows of names that the formatter leaves alone."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping

WIDTH = 110


def names_list(names: Iterable[str]) -> str:
    """Return a list literal of strings, filled; ``# fmt: skip`` is to follow."""
    return parted("[", (f'"{name}"' for name in names), "]")


def imported(module: str, names: Iterable[str]) -> str:
    """Return the import of many names from a module, filled."""
    statement = f"from {module} import {parted('(', names, ')')}"
    return f"# isort: off\n# fmt: off\n{statement}\n# fmt: on\n# isort: on\n"


def parted(start: str, items: Iterable[str], end: str) -> str:
    """Return items between brackets, as many in a line as fit."""
    text = ", ".join(items)
    return f"{start}\n{_filled(text)},\n{end}" if text else start + end


def words_by_key(words: Mapping[str, Iterable[str]]) -> str:
    """Return a dictionary literal from each key to its words, as one text."""
    rows = (f'    "{key}": """\n{_filled(" ".join(key_words))}""",\n' for key, key_words in words.items())
    return "{\n" + "".join(rows) + "}"


def _filled(text: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent="    ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


__all__ = ["imported", "names_list", "parted", "words_by_key"]
