"""Thirty runs made of the committed H200 file: seeded noise, and known changes.

- The times of run `i` are the file's, times a noise of 1 %.
- Runs 7 and 18 are partial: they have the first three suites only.
- The suite `attention` is new in run 12.
- The suite `softmax` has its name from run 10 on.
- From run 15 on, `norms` takes half the time.
- In the last run, the benchmarks of `argmax` take 1.3 times as long.
"""

import json
import math
import random
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "perf" / "results" / "nvidia-h200-2026-11-26.json"
RUNS = 30
PARTIAL = (7, 18)
NOISE = 0.01
SLOWER = 1.3


def write_history(folder: Path, runs: int = RUNS, seed: int = 0) -> list[Path]:
    """Write the files of the last `runs` runs, the oldest first."""
    content = json.loads(SOURCE.read_text())
    chance = random.Random(seed)
    paths = []
    for run in range(RUNS):
        rows = [_row(row, run, chance) for row in content["rows"] if _has(run, row["suite"])]
        if run >= RUNS - runs:
            paths.append(folder / f"{run:02d}.json")
            commit = {
                "hash": f"{chance.getrandbits(160):040x}",
                "time": f"2026-10-{run + 1:02d}T10:00:00+00:00",
                "dirty": False,
            }
            kept = {name: value for name, value in content.items() if name not in ("bench", "check")}
            paths[-1].write_text(json.dumps(kept | {"rows": rows, "commit": commit}))
    return paths


def write_repeat(source: Path, target: Path, seed: int = 1, **head: Any) -> Path:
    """Write a run of the same code: each time differs by a noise of 2 %, and `relu` by a whole 5 %."""
    content = json.loads(source.read_text()) | head
    chance = random.Random(seed)
    for row in content["rows"]:
        factor = 0.95 if row["operator"] == "relu" else math.exp(chance.gauss(0, 2 * NOISE))
        row["samples"]["triten"] = [factor * sample for sample in row["samples"]["triten"]]
    target.write_text(json.dumps(content))
    return target


def _has(run: int, suite: str) -> bool:
    if run in PARTIAL:
        return suite in ("yardstick", "training step", "matmul, cubes")
    return run >= 12 or suite != "attention"


def _row(row: dict[str, Any], run: int, chance: random.Random) -> dict[str, Any]:
    factor = math.exp(chance.gauss(0, NOISE))
    if row["suite"] == "norms" and run >= 15:
        factor /= 2
    if row["operator"].startswith("argmax") and run == RUNS - 1:
        factor *= SLOWER
    samples = dict(row["samples"])
    samples["triten"] = [factor * sample for sample in samples["triten"]]
    suite = "old softmax" if row["suite"] == "softmax" and run < 10 else row["suite"]
    return {**row, "suite": suite, "samples": samples}
