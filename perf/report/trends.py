"""Trends of a suite or of all benchmarks: means over the runs, the state of the targets, and the last step.

state       met, partly, missed or none: of the targets
history     list, for each run null or: means (object by baseline: mean ratio over what runs have in common, see
            `linked_means`), count, met, missed, unsure, state
trend       object by baseline: base (index of the run before), ratio (the last mean over the one before), direction
            (better, worse or flat)
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ..suite.display import NEW_SHAPES
from ..suite.results import MET, MISSED, UNSURE, RowKey
from ..suite.workloads import MEAN_BARS
from .changes import MEDIAN_OF_NORMAL
from .linking import linked_means
from .runs import Run

ALL_MET, SOME_MISSED, MAX_MISSED, NO_TARGETS = "met", "partly", "missed", "none"
BETTER, WORSE, FLAT = "better", "worse", "flat"
# A mean's step counts as a change beyond this share, and beyond so many standard deviations of earlier steps.
MIN_STEP, DEVIATIONS = 0.02, 3.0
# Earlier steps that an estimate of their standard deviation needs.
MIN_STEPS = 4

Record = dict[str, Any]


def trends(
    keys: Sequence[RowKey],
    runs: Sequence[Run],
    named: Sequence[Mapping[RowKey, RowKey]],
    peers: Sequence[str],
    group: tuple[str, str] | None = None,
) -> Record:
    """Return state, history and trend of the current benchmarks of a group.

    Args:
        keys: The current benchmarks.
        runs: History, the oldest first.
        named: For each run, its own key of a benchmark by the benchmark's newest key.
        peers: Names of the baselines.
        group: Suite and device, if these benchmarks are of one suite.
    """
    counted = {key for key in keys if key.operator != NEW_SHAPES}
    counts_of_runs = [sum(key in names for key in keys) for names in named]
    named = [{} if is_partial(counts_of_runs, index) else names for index, names in enumerate(named)]
    means = {peer: _means(counted, runs, named, peer, group) for peer in peers}
    history: list[Record | None] = []
    for index, run in enumerate(runs):
        own = [run.benchmarks[named[index][key]] for key in keys if key in named[index]]
        verdicts = [each.verdict for each in own]
        counts = {
            "met": verdicts.count(MET),
            "missed": verdicts.count(MISSED),
            "unsure": verdicts.count(UNSURE),
        }
        of_run = {peer: mean for peer, trend_of in means.items() if (mean := trend_of[index]) is not None}
        misses = group is not None and _misses_mean(*group, of_run.get("torch"))
        history.append(
            {"means": of_run, "count": len(own), **counts, "state": target_state(counts, misses)} if own else None
        )  # fmt: skip
    present = [each for each in history if each is not None]
    trend_of = {peer: trend for peer in peers if (trend := _trend(means[peer], runs)) is not None}
    return {"state": present[-1]["state"] if present else NO_TARGETS, "history": history, "trend": trend_of}


def target_state(counts: Mapping[str, int], misses_mean: bool = False) -> str:
    """Summarize the targets of a suite.

    Example:
        >>> from triten.perf.report.trends import target_state
        >>> counts = [(3, 0), (3, 1), (1, 1), (0, 0)]
        >>> [target_state({"met": met, "missed": missed, "unsure": 0}) for met, missed in counts]
        ['met', 'partly', 'missed', 'none']
    """
    met, missed, unsure = counts["met"], counts["missed"], counts["unsure"]
    if misses_mean or (missed and missed >= met):
        return MAX_MISSED
    if missed:
        return SOME_MISSED
    return ALL_MET if met or unsure else NO_TARGETS


def is_partial(counts: Sequence[int], run: int) -> bool:
    """Return True if a run has less than half of the benchmarks that runs before it and after it have.

    A mean over few benchmarks of a group says little about the group. A group that grows or shrinks has no
    partial runs. The last run has no runs after it, and is compared with the run before it instead.

    Example:
        >>> from triten.perf.report.trends import is_partial
        >>> [is_partial([10, 2, 10, 10], run) for run in range(4)], is_partial([2, 10], 0), is_partial([10, 2], 1)
        ([False, True, False, False], False, True)
    """
    before, after = max(counts[: run + 1]), max(counts[run + 1 :], default=counts[max(run - 1, 0)])
    return 2 * counts[run] < min(before, after)


def _means(
    keys: set[RowKey],
    runs: Sequence[Run],
    named: Sequence[Mapping[RowKey, RowKey]],
    peer: str,
    group: tuple[str, str] | None,
) -> list[float | None]:
    """Return the mean ratio of each run; benchmarks that were dropped still link the runs that have them."""
    values = [
        {
            key: ratio.estimate
            for key, own in names.items()
            if (key.suite, key.device) == group or key in keys or (group is None and key.operator != NEW_SHAPES)
            if (ratio := run.benchmarks[own].ratios.get(peer)) is not None and key.operator != NEW_SHAPES
        }
        for run, names in zip(runs, named, strict=True)
    ]  # fmt: skip
    return linked_means(values, keys)


def _misses_mean(suite: str, device: str, mean: float | None) -> bool:
    return device == "cpu" and suite in MEAN_BARS and mean is not None and mean > MEAN_BARS[suite][0]


def _trend(means: Sequence[float | None], runs: Sequence[Run]) -> Record | None:
    """Return the last step of a mean, between the last two runs of one environment that have it."""
    indices = [index for index, mean in enumerate(means) if mean is not None]
    indices = [index for index in indices if runs[index].environment == runs[indices[-1]].environment]
    values = [mean for index in indices if (mean := means[index]) is not None]
    if len(values) < 2:
        return None
    steps = [math.log(after / before) for before, after in itertools.pairwise(values)]
    earlier = steps[:-1]
    noise = statistics.median(map(abs, earlier)) / MEDIAN_OF_NORMAL if len(earlier) >= MIN_STEPS else 0.0
    is_step = abs(steps[-1]) > max(MIN_STEP, DEVIATIONS * noise)
    direction = FLAT
    if is_step and not runs[indices[-1]].is_repeat_of(runs[indices[-2]]):
        direction = WORSE if steps[-1] > 0 else BETTER
    return {"base": indices[-2], "ratio": math.exp(steps[-1]), "direction": direction}
