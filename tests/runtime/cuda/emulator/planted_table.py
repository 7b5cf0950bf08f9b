"""Table of injected faults, `planted_faults.md`: how each is found, or why it changes nothing.

``python -P planted_table.py`` injects all of them, in processes of their own, and writes the table.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent
TABLE = FOLDER / "planted_faults.md"
TARGETS = ("80", "90", "100")

AWAITED = "every product was waited for before the loop's last tile was stored"
HARMLESS: dict[str, dict[tuple[str, str], str]] = {
    "80": {
        ("strided add", "missing mask of a load 1"): "what is read besides is the tensor's own, and dropped",
        (
            "sum of rows",
            "missing mask of a store 0",
        ): "all threads of a block hold its sum, and store the same",
        (
            "sum of short rows",
            "missing mask of a load 1",
        ): "what is read besides is the tensor's own, and dropped",
        (
            "sum of all",
            "missing mask of a store 0",
        ): "all threads of a block hold its sum, and store the same",
        (
            "sum of all",
            "missing mask of a store 1",
        ): "all threads of a block hold its sum, and store the same",
        (
            "sum of columns",
            "missing mask of a load 1",
        ): "what is read besides is the tensor's own, and dropped",
        ("cumsum", "missing barrier 1"): "nothing was in shared memory before it: a row is one tile",
        (
            "embedding",
            "missing mask of a load 0",
        ): "a line past the last index reads row 0, and stores nothing",
        ("var", "missing mask of a load 1"): "what is read besides is the tensor's own, and dropped",
    },
    "90": {
        ("mm", "missing wait for products 2"): AWAITED,
        ("mm", "missing wait for stores 0"): "a program has one tile: nothing was stored before",
        ("conv2d", "missing proxy fence 0"): "threads have read, not written, what the copy overwrites",
        ("conv2d", "missing wait for products 2"): AWAITED,
    },
    "100": {
        ("mm", "another number of columns freed 1"): "the call does not come there",
        ("mm", "barrier for one more 1"): "nobody waits for the barrier any more",
        **dict.fromkeys(
            (
                ("attention", "missing wait 1"),
                ("attention", "wrong parity 1"),
                ("attention", "wrong parity 2"),
                ("attention", "wrong parity 7"),
            ),
            "another wait stands behind it",
        ),
    },
}
"""Faults that change nothing which a kernel could be told by, and why: by target, call and fault."""


def planted(target: str, turn: int | None = None, always: Sequence[str] = ()) -> list[dict[str, str]]:
    """Return the result of each fault on a target; with a turn, of every other fault and of those in
    `always`.
    """
    options = [] if turn is None else ["--turn", str(turn), "--always", *always]
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "TRITEN_EMULATE")}
    done = subprocess.run(
        [sys.executable, "-P", str(FOLDER / "plant_faults.py"), *options],
        capture_output=True,
        text=True,
        env=environment | {"TRITEN_CUDA": "emulate", "TRITEN_EMULATE": target, "TRITEN_TUNING_STORE": "0"},
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def kind(found: str) -> str:
    """Return a finding without its kernel, numbers and neighbors in memory.

    Example:
        >>> kind("CUDA error: unspecified launch failure: race: 4 bytes at 0x10 of shared memory: kernel 'f', line 3")
        'race: n bytes at n of shared memory'
    """
    text = (
        found.removeprefix("CUDA error: ").removeprefix("unspecified launch failure: ").split(": kernel")[0]
    )
    text = re.sub(r"0x[0-9a-f]+|\d+", "n", text)
    return re.split(r", (?:n bytes (?:past|before)|in (?:the|no) )", text)[0]


def section(target: str, rows: list[dict[str, str]]) -> str:
    """Return the table of one target."""
    found = sum(bool(row["found"]) for row in rows)
    lines = [
        f"## sm_{target}: {found} of {len(rows)} found, {len(rows) - found} harmless",
        "",
        "| call | fault | found as |",
        "|---|---|---|",
        *(line(target, row) for row in rows),
    ]
    return "\n".join(lines) + "\n"


def line(target: str, row: dict[str, str]) -> str:
    """Return the row of one fault."""
    how = kind(row["found"]) or f"**not found**: {HARMLESS[target][row['call'], row['fault']]}"
    return f"| {row['call']} | {row['fault']} | {how} |"


def lines_of(target: str) -> list[str]:
    """Return the rows of a target's faults as the table has them."""
    _, _, rest = TABLE.read_text().partition(f"## sm_{target}: ")
    return [each for each in rest.partition("## sm_")[0].splitlines() if each.startswith("| ")][1:]


def written(sections: list[str]) -> str:
    """Return the text of the whole file."""
    head = f"""# Faults planted into compiled kernels

Written by `planted_table.py`, with Triton {importlib.metadata.version("triton")}. A fault is a change of a
kernel's PTX, at a place that its call executes, or of its launch. It is found as what the emulator says of it, with n
for numbers, or by a result that is not the CPU's any more.
"""
    return "\n".join([head, *sections])


if __name__ == "__main__":
    TABLE.write_text(written([section(target, planted(target)) for target in TARGETS]))
    print(TABLE)
