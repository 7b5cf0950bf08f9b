"""`tt.futures`: values that will be there later."""

import threading

import pytest

import triten as tt
from triten.futures import Future, collect_all, wait_all


def test_several_are_completed_with_the_last_of_them():
    several = [Future() for _ in range(3)]
    all_of_them = collect_all(several)
    for index in (1, 0):
        several[index].set_result(index)
    assert not all_of_them.done()
    several[2].set_result(2)
    assert [each.value() for each in all_of_them.wait()] == [0, 1, 2]
    assert collect_all([]).wait() == [] and wait_all(several) == [0, 1, 2]


def test_an_error_is_that_of_the_future_and_not_of_the_collection():
    good, bad = Future(), Future()
    both = collect_all([good, bad])
    bad.set_exception(ValueError("no"))
    good.set_result(1)
    assert both.wait()[0].value() == 1
    with pytest.raises(ValueError, match="no"):
        wait_all([good, bad])


def test_one_that_another_thread_completes_is_waited_for():
    future = tt.futures.Future()
    thread = threading.Thread(target=lambda: future.set_result(tt.ones(2)))
    following = future.then(lambda done: done.value() + 1)
    thread.start()
    assert following.wait().tolist() == [2.0, 2.0]
    thread.join()
