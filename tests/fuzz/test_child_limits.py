"""Limits of a fork that computes or waits for too long."""

import signal
import time

import pytest

from triten.tests.shared import interrupts
from triten.tests.shared.interrupts import HANGS, in_child


def _spin() -> None:
    while True:
        pass


def test_a_child_that_computes_too_long_is_a_hang() -> None:
    assert in_child(_spin, 1) == ("death", -signal.SIGPROF)
    assert -signal.SIGPROF in HANGS


def test_a_child_that_waits_too_long_is_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "WAITS_PER_SECOND", 1)
    assert in_child(lambda: time.sleep(3600), 1) == ("death", -signal.SIGALRM)
    assert -signal.SIGALRM in HANGS


def test_waiting_is_no_computation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a child may wait longer than it may compute."""
    monkeypatch.setattr(interrupts, "WAITS_PER_SECOND", 3600)
    assert in_child(lambda: time.sleep(1.5), 1) == ("value", None)
