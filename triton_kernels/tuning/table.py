"""The shipped tables, one for each capability: ``tables/sm_90.json``, made by ``python -m triten.perf tune``.

A table says in ``origin`` where its entries come from; one without entries leaves every choice to the kernels' own
heuristics. An entry that was measured for another version of its kernel counts for nothing, so that a table can grow
old but not wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .entry import FORMAT, Entry, read_entry

FOLDER = Path(__file__).with_name("tables")


def table_path(capability: int, folder: Path = FOLDER) -> Path:
    """Return the path of a capability's table."""
    return folder / f"sm_{capability}.json"


def read_table(path: Path) -> list[Entry]:
    """Return the entries of a table, or none if there is no file.

    Raises:
        ValueError: for a file that is no table, or has an entry that is none: it comes with the package.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    try:
        table: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
    if (
        not isinstance(table, dict)
        or table.get("format") != FORMAT
        or not isinstance(table.get("origin"), str)
        or not isinstance(table.get("entries"), list)
    ):
        raise ValueError(f"{path}: expected a table of format {FORMAT} with its origin and entries")
    entries = [read_entry(each) for each in table["entries"]]
    readable = [entry for entry in entries if entry is not None]
    if len(readable) != len(entries):
        raise ValueError(f"{path}: entry {entries.index(None)} is damaged")
    return readable


def table_text(capability: int, origin: str, entries: Iterable[Entry]) -> str:
    """Return the text of a table's file, the same for the same entries."""
    listed: Sequence[Entry] = sorted(entries, key=lambda e: (e.kernel, e.dtype, e.shape))
    table = {
        "format": FORMAT,
        "capability": capability,
        "origin": origin,
        "entries": [entry.as_json() for entry in listed],
    }
    return json.dumps(table, indent=1) + "\n"
