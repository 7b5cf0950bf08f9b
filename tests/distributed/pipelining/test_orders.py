"""Each schedule has the order in the papers' figures."""

from __future__ import annotations

import pytest

from triten.distributed.pipelining.actions import (
    Action,
    Computation,
    gpipe_order,
    interleaved_1f1b_order,
    one_forward_one_backward_order,
)
from triten.distributed.pipelining.timetable import timetable


def short(order: list[Action | None]) -> str:
    """Format a rank's row of a figure: forwards as numbers, backwards as letters."""
    return "".join(
        "."
        if each is None
        else (
            str(each.microbatch) if each.computation is Computation.FORWARD else "abcdefgh"[each.microbatch]
        )
        for each in order
    )


def test_gpipe_as_in_figure_2_of_the_paper() -> None:
    """With the backwards of microbatches in their order, where the figure has it reversed."""
    table = timetable([gpipe_order(rank, 4) for rank in range(4)], {rank: rank for rank in range(4)})
    assert [short([step[rank] for step in table]) for rank in range(4)] == [
        "0123......abcd",
        ".0123....abcd.",
        "..0123..abcd..",
        "...0123abcd...",
    ]


def test_1f1b_as_in_figure_4_of_megatron() -> None:
    """4 devices and 8 microbatches, a backward as long as a forward."""
    orders = [one_forward_one_backward_order(rank, 4, 8) for rank in range(4)]
    assert [short(list(order)) for order in orders] == [
        "0123a4b5c6d7efgh",
        "012a3b4c5d6e7fgh",
        "01a2b3c4d5e6f7gh",
        "0a1b2c3d4e5f6g7h",
    ]
    table = timetable(orders, {rank: rank for rank in range(4)})
    assert len(table) == 2 * (8 + 4 - 1), "as many steps as GPipe takes"


def test_interleaved_as_in_figure_4_of_megatron() -> None:
    """4 devices with 2 stages each, and 8 microbatches: the first device's row."""
    order = interleaved_1f1b_order(0, 4, 2, 8)
    stages = "".join(
        "-" if each.stage < 4 else "+" for each in order if each.computation is Computation.FORWARD
    )
    assert stages == "----++++----++++"
    assert short(list(order)) == "01230123454a5b6c7d4a5b6c7d"[:10] + "6a7b4c5d6a7bcdefghefgh"
    assert [str(each) for each in order[8:14]] == ["0F4", "0F5", "0F6", "4B0", "0F7", "4B1"]
    # 2 m v forwards and backwards, and a bubble of p - 1 forwards and backwards of the small stages.
    table = timetable(
        [interleaved_1f1b_order(rank, 4, 2, 8) for rank in range(4)], {n: n % 4 for n in range(8)}
    )
    assert len(table) == 2 * 8 * 2 + 2 * (4 - 1)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("microbatches", [1, 2, 3, 4, 6, 8])
def test_all_orders_are_whole_and_can_be_carried_out(size: int, microbatches: int) -> None:
    one = {rank: rank for rank in range(size)}
    cases = [
        ([gpipe_order(rank, microbatches) for rank in range(size)], one),
        ([one_forward_one_backward_order(rank, size, microbatches) for rank in range(size)], one),
    ]
    if microbatches % max(1, microbatches // size) == 0:
        stages = {number: number % size for number in range(3 * size)}
        cases.append(([interleaved_1f1b_order(rank, size, 3, microbatches) for rank in range(size)], stages))
    for orders, rank_of in cases:
        table = timetable(orders, rank_of)
        done = [each for step in table for each in step if each is not None]
        assert len(done) == len(set(done)) == 2 * microbatches * len(rank_of)


def test_1f1b_holds_no_more_microbatches_than_there_are_stages_behind() -> None:
    for rank in range(4):
        held = most = 0
        for action in one_forward_one_backward_order(rank, 4, 8):
            held += 1 if action.computation is Computation.FORWARD else -1
            most = max(most, held)
        assert most == 4 - rank


def test_orders_that_cannot_be_carried_out() -> None:
    with pytest.raises(ValueError, match="multiple of the number of rounds"):
        interleaved_1f1b_order(0, 2, 2, 5)
    with pytest.raises(ValueError, match="deadlocks"):
        timetable([list(reversed(gpipe_order(0, 1)))], {0: 0})
    with pytest.raises(ValueError, match="rank 0 has no stage 1"):
        timetable([gpipe_order(1, 1)], {0: 0})
