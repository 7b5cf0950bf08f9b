"""The watchdog decides correctly for simulated communications, under a clock that the test controls."""

from __future__ import annotations

import math
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from triten.distributed.backends.nccl import watchdog
from triten.distributed.backends.nccl.health import GroupHealth
from triten.distributed.backends.nccl.watchdog import Watchdog, Watched, _Watch
from triten.distributed.errors import DistBackendError
from triten.distributed.failures import ASK_AFTER
from triten.distributed.process_group import GroupSpec
from triten.distributed.stores.hash_store import HashStore

LIMIT = 10.0
WHO = "rank 0 of 3 in group 'g' (words)"


class Place:
    """An event that the test lets happen."""

    def __init__(self) -> None:
        self.is_done, self.asked = False, 0
        self.error: RuntimeError | None = None

    def query(self) -> bool:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.is_done


class Told:
    """Status of the other processes, as the test sets it."""

    def __init__(self) -> None:
        self.lost: str | None = None
        self.said: list[tuple[str, str]] = []

    def gone(self, ranks: Any) -> str | None:
        return self.lost

    def waits(self, key: str, what: str) -> None:
        self.said.append((key, what))

    def missing(self, key: str, what: str, ranks: Any) -> str:
        return f"rank 2 was not heard of at {key}"


class World:
    """One communication, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, simulated: bool = False) -> None:
        self.now = 100.0
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(watchdog, "time", clock)
        monkeypatch.setattr("triten.distributed.backends.nccl.health.time", clock)
        monkeypatch.setattr(watchdog, "is_simulated", lambda: simulated)
        self.told: Any = Told()
        limit = timedelta(seconds=LIMIT)
        spec = GroupSpec("g", (0, 1, 2), 0, HashStore(), limit, 0, "words", None, self.told)
        self.health = GroupHealth(spec)
        self.start, self.end = Place(), Place()
        issued: Any = SimpleNamespace(start=self.start, end=self.end)
        self.watch = _Watch(Watched("all_reduce", "all ranks to call it", 7, issued, LIMIT, self.health))

    def at(self, seconds: float) -> bool:
        """Return True if the communication has timed out `seconds` after its start."""
        return self.watch.is_over(100.0 + seconds)


def test_what_ends_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    assert not world.at(0.1)
    world.end.is_done = True
    assert world.at(0.2) and world.health.error is None


def test_what_does_not_end_fails_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.start.is_done = True
    assert not world.at(LIMIT)
    assert world.at(LIMIT + 0.1)
    text = f"all_reduce: {WHO} waited 10 s for all ranks to call it; rank 2 was not heard of at nccl/g/7"
    assert str(world.health.error) == text
    with pytest.raises(
        DistBackendError, match=r"broadcast: rank 0 of 3 .* an earlier communication failed: all_reduce"
    ):
        world.health.check("broadcast")
    assert world.watch.is_over(0.0), "others of the group are let go"


def test_what_has_not_begun_has_as_long_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    assert not world.at(LIMIT + 1)
    world.start.is_done = True
    assert not world.at(2 * LIMIT)
    assert world.at(2 * LIMIT + 2) and world.health.error is not None


def test_others_are_told_once_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.start.is_done = True
    assert not world.at(ASK_AFTER / 2) and world.told.said == []
    for seconds in (ASK_AFTER + 0.1, ASK_AFTER + 0.2):
        assert not world.at(seconds)
    assert world.told.said == [("nccl/g/7", "all_reduce")] and world.watch.question == math.inf


def test_a_process_that_is_gone_is_named_at_the_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.start.is_done = True
    world.told.lost = "rank 1 is gone, without a word"
    assert not world.at(ASK_AFTER + 0.1), "what it has sent may be under way"
    assert not world.at(ASK_AFTER + 0.2), "the store is asked once in a while"
    assert world.at(2 * ASK_AFTER + 0.2)
    text = f"all_reduce: {WHO} waited for all ranks to call it; rank 1 is gone, without a word"
    assert str(world.health.error) == text


def test_a_simulated_stream_is_not_asked_before_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, simulated=True)
    world.start.is_done = True
    assert not world.at(LIMIT) and world.start.asked == world.end.asked == 0
    assert world.at(LIMIT + 0.1) and world.health.error is not None


def test_an_error_of_the_device_is_the_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.end.error = RuntimeError("CUDA error: an illegal memory access was encountered")
    assert Watchdog._is_over(world.watch)
    assert (
        str(world.health.error) == f"all_reduce: {WHO}: CUDA error: an illegal memory access was encountered"
    )


def test_an_error_that_comes_up_later_names_the_communication(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    aborted: list[bool] = []
    broken: Any = SimpleNamespace(late_error=lambda: "remote error", abort=lambda: aborted.append(True))
    world.health._communicators.append(broken)
    world.told.lost = "rank 1 ended by KeyError: 'x'"
    world.health.look("all_reduce")
    world.health.look("broadcast")
    assert str(world.health.error) == f"all_reduce: {WHO}: remote error; rank 1 ended by KeyError: 'x'"
    assert aborted == [True]
