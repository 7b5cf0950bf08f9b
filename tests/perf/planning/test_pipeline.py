"""Pipelines: the division of units and the schedule of stages equal counts made by hand."""

import pytest

from triten.perf.planning.parallel.pipeline import divide, held_microbatches, run, tasks


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "microbatches"), [(1, 1), (2, 3), (4, 4), (4, 8), (8, 2)])
def test_equal_stages_wait_as_long_as_the_formula_says(schedule: str, stages: int, microbatches: int) -> None:
    found = run(schedule, [2.0] * stages, [3.0] * stages, [0.0] * (stages - 1), microbatches)
    assert found.seconds == (microbatches + stages - 1) * 5.0
    assert found.bubble == pytest.approx((stages - 1) / (microbatches + stages - 1))


def test_messages_delay_the_first_and_the_last() -> None:
    assert run("gpipe", [1.0, 1.0], [1.0, 1.0], [10.0], 1).seconds == 1 + 10 + 1 + 1 + 10 + 1


def test_the_slowest_stage_decides() -> None:
    assert run("1f1b", [1.0, 5.0], [1.0, 5.0], [0.0], 10).seconds == 1 + 10 * 10 + 1


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("stage", range(4))
def test_a_stage_does_all_microbatches_and_holds_few(schedule: str, stage: int) -> None:
    found = tasks(schedule, stage, 4, 6)
    for kind in "FB":
        assert [number for which, number in found if which == kind] == list(range(6))
    living, most = set(), 0
    for kind, number in found:
        if kind == "F":
            living.add(number)
        else:
            living.remove(number)  # forward came before
        most = max(most, len(living))
    assert most == held_microbatches(schedule, stage, 4, 6) == (6 if schedule == "gpipe" else 4 - stage)


@pytest.mark.parametrize(
    ("seconds", "stages", "groups"),
    [
        ([1, 1, 1, 1], 2, [(0, 2), (2, 4)]),
        ([4, 1, 1, 1, 1], 2, [(0, 1), (1, 5)]),
        ([1, 2, 3], 3, [(0, 1), (1, 2), (2, 3)]),
        ([0, 0, 5], 2, [(0, 2), (2, 3)]),
    ],
)
def test_units_are_divided_so_that_the_slowest_group_is_fast(
    seconds: list[float], stages: int, groups: list[tuple[int, int]]
) -> None:
    found = divide(seconds, stages)
    assert max(sum(seconds[start:stop]) for start, stop in groups) == max(
        sum(seconds[i] for i in part) for part in found
    )
    assert [i for part in found for i in part] == list(range(len(seconds)))
    assert all(found)


def test_too_few_units_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"a pipeline of 4 ranks needs as many units .*, and the program has 2"
    ):
        divide([1, 1], 4)
