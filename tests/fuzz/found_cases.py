"""Found cases of each fuzz target: a JSON line for each, with the finding's text and date."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("found")


@dataclass(frozen=True)
class FoundCase:
    """A minimised case (with what the oracle gave, where there is one), what was wrong with it, and when."""

    campaign: str
    case: Any
    kind: str
    message: str
    date: str


def read(campaign: str, folder: Path = FOLDER) -> list[FoundCase]:
    """Return the cases of one fuzz target; empty if it has no file."""
    path = folder / f"{campaign}.jsonl"
    if not path.exists():
        return []
    return [FoundCase(campaign, **json.loads(line)) for line in path.read_text().splitlines() if line]


def read_all(folder: Path = FOLDER) -> Iterator[FoundCase]:
    """Yield the cases of every fuzz target."""
    for path in sorted(folder.glob("*.jsonl")):
        yield from read(path.stem, folder)


def append(path: Path, found: FoundCase) -> None:
    """Write one more line to `path`."""
    line = {"case": found.case, "kind": found.kind, "message": found.message, "date": found.date}
    with path.open("a") as file:
        print(json.dumps(line), file=file)
