"""The committed list of what differs from PyTorch on purpose."""

import itertools
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("known_differences.txt")


@dataclass(frozen=True)
class KnownDifference:
    """An operator that differs in one mode, or in one kind of its cases, and why."""

    mode: str
    operator: str
    reason: str


def reason_for(known: dict[tuple[str, str], KnownDifference], mode: str, label: str, operator: str) -> str:
    """Return why `operator` differs in a case of that label; empty if it should not."""
    kind = f"{mode}/{label.removeprefix(mode).strip().replace(' ', '-')}"
    found = known.get((mode, operator)) or known.get((kind, operator))
    return found.reason if found else ""


def read(path: Path = FILE) -> dict[tuple[str, str], KnownDifference]:
    """By mode and operator; the mode of one kind of case is ``out/on-meta``.

    A line may name several kinds of cases and several operators, with commas: it stands for each of them.

    Raises ValueError, naming the line, for a difference that has no reason.
    """
    found = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split(maxsplit=2)
        if len(words) < 3:
            raise ValueError(
                f"{path.name}, line {number}: mode, operator and reason expected, {line!r} given"
            )
        modes, operators, reason = words
        mode, slash, kinds = modes.partition("/")
        for kind, operator in itertools.product(kinds.split(","), operators.split(",")):
            found[mode + slash + kind, operator] = KnownDifference(mode + slash + kind, operator, reason)
    return found
