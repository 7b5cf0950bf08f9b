"""A thread's memory is lent to one caller at a time, kept while it is small, and another thread's is another."""

import threading

from triten.runtime.cpu import workspace
from triten.runtime.cpu.workspace import KEPT, borrow, give_back


def test_what_is_given_back_is_lent_again() -> None:
    room = borrow(1000)
    give_back(room)
    assert borrow(10) is room
    assert borrow(10) is not room
    give_back(room)
    assert borrow(room.size + 1) is not room


def test_large_memory_is_not_kept() -> None:
    give_back(borrow(KEPT + 1))
    kept = workspace._kept.room
    assert kept is None or kept.size <= KEPT


def test_threads_have_their_own() -> None:
    room, seen = borrow(100), []
    give_back(room)
    thread = threading.Thread(target=lambda: seen.append(borrow(10)))
    thread.start()
    thread.join()
    assert seen[0] is not room
