"""Trends over runs that do not all have the same benchmarks: renames, and means over what runs have in common."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from ..suite.results import RowKey
from .runs import Run

# Largest ratio of the baseline's medians before and after a rename: the workload must have stayed the same.
SAME_BASELINE = 1.15

Key = TypeVar("Key")


def linked_means(
    values: Sequence[Mapping[Key, float]], keys: Iterable[Key] | None = None
) -> list[float | None]:
    """Compute a geometric mean for each run, although runs have different benchmarks.

    The run that has the most of the keys has their plain geometric mean. From there, each step to the run before
    or after is the geometric mean of the steps of the benchmarks that both runs have (a chained index). If all
    runs have the same benchmarks, every mean is the plain one.

    Args:
        values: For each run, positive values by benchmark; a run may have none.
        keys: Benchmarks whose mean it is. Default: those of the last run.

    Returns:
        A mean for each run; None for a run without benchmarks, or without a link to the others.

    Example:
        >>> from triten.perf.report.linking import linked_means
        >>> [round(mean, 3) for mean in linked_means([{"a": 1.0, "b": 4.0}, {"a": 2.0}, {"a": 2.0, "c": 8.0}])]
        [2.0, 4.0, 4.0]
    """
    logs = [{key: math.log(value) for key, value in run.items()} for run in values]
    averaged = set(logs[-1] if keys is None else keys)
    start = max(range(len(logs)), key=lambda run: (len(averaged & logs[run].keys()), run))
    held = averaged & logs[start].keys()
    if not held:
        return [None] * len(logs)
    means: dict[int, float] = {start: math.fsum(logs[start][key] for key in held) / len(held)}
    for run in [*range(start - 1, -1, -1), *range(start + 1, len(logs))]:
        for other in sorted(means, key=lambda each: abs(each - run)):
            common = logs[run].keys() & logs[other].keys()
            if common:
                step = math.fsum(logs[run][key] - logs[other][key] for key in common) / len(common)
                means[run] = means[other] + step
                break
    return [math.exp(means[run]) if run in means else None for run in range(len(logs))]


def renames(runs: Sequence[Run]) -> dict[RowKey, RowKey]:
    """Find benchmarks that were renamed, and return the new key by the old key.

    A pair is a rename if all of these hold, and if neither key fits another pair:

    - The old key's last run is before the new key's first run.
    - Size, dtype, device and direction agree, and two of suite, operator and name.
    - A baseline took the same time for both, within `SAME_BASELINE`.
    """
    first: dict[RowKey, int] = {}
    last: dict[RowKey, int] = {}
    for index, run in enumerate(runs):
        for key in run.benchmarks:
            first.setdefault(key, index)
            last[key] = index
    ended = [key for key in last if last[key] < len(runs) - 1]
    begun = [key for key in first if first[key] > 0]
    pairs = [
        (old, new)
        for old in ended
        for new in begun
        if last[old] < first[new]
        and _is_similar(old, new)
        and _is_same_work(runs[last[old]], old, runs[first[new]], new)
    ]
    olds, news = Counter(old for old, _ in pairs), Counter(new for _, new in pairs)
    return {old: new for old, new in pairs if olds[old] == 1 and news[new] == 1}


def current_key(key: RowKey, renamed: Mapping[RowKey, RowKey]) -> RowKey:
    """Follow renames to the newest name of a benchmark."""
    while key in renamed:
        key = renamed[key]
    return key


def _is_similar(old: RowKey, new: RowKey) -> bool:
    alike = ((old.suite, new.suite), (old.operator, new.operator), (old.name, new.name))
    return old[3:] == new[3:] and sum(before == after for before, after in alike) >= 2


def _is_same_work(before: Run, old: RowKey, after: Run, new: RowKey) -> bool:
    if before.environment != after.environment:
        return False
    earlier, later = before.benchmarks[old].baseline_seconds, after.benchmarks[new].baseline_seconds
    common: Iterable[str] = earlier.keys() & later.keys()
    ratios = [later[name] / earlier[name] for name in common]
    return bool(ratios) and all(1 / SAME_BASELINE <= ratio <= SAME_BASELINE for ratio in ratios)
