"""`tt.futures`: values that will be there later."""

import pickle
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


def test_a_collection_has_the_error_of_its_first_failed_future():
    good, bad, worse = Future(), Future(), Future()
    all_of_them = collect_all([good, bad, worse])
    bad.set_exception(ValueError("no"))
    worse.set_exception(KeyError("later"))
    assert not all_of_them.done()
    good.set_result(1)
    with pytest.raises(ValueError, match="no"):
        all_of_them.wait()
    with pytest.raises(ValueError, match="no"):
        wait_all([good, bad])


def test_an_error_of_then_is_a_runtime_error_with_its_cause():
    def fails(future):
        raise ValueError("Expected error")

    future = Future()
    following = future.then(fails)
    further = following.then(lambda done: done.value())
    future.set_result(5)
    message = "^Got the following error when running the callback: ValueError: Expected error"
    with pytest.raises(RuntimeError, match=message) as raised:
        following.wait()
    assert isinstance(raised.value.__cause__, ValueError)
    with pytest.raises(RuntimeError, match="callback: RuntimeError: Got the following error"):
        further.wait()
    assert future.wait() == 5


@pytest.mark.parametrize("before", [True, False])
def test_an_error_of_a_callback_is_logged(before, caplog):
    def fails(future):
        raise ValueError("Expected error")

    future, called = Future(), []
    if not before:
        future.set_result(5)
    future.add_done_callback(fails)
    future.add_done_callback(lambda done: called.append(done.value()))
    if before:
        future.set_result(5)
    assert called == [5] and "error when running the callback: ValueError: Expected error" in caplog.text


def test_none_and_pickling_are_refused():
    for call in (
        tt.jit.wait,
        lambda future: wait_all((future,)),
        lambda future: collect_all((Future(), future)),
    ):
        with pytest.raises(RuntimeError, match="Future can't be None"):
            call(None)
        with pytest.raises(TypeError, match="expected a Future, got int"):
            call(3)
    with pytest.raises(RuntimeError, match="Can not pickle"):
        pickle.dumps(Future())


def test_one_that_another_thread_completes_is_waited_for():
    future = tt.futures.Future()
    thread = threading.Thread(target=lambda: future.set_result(tt.ones(2)))
    following = future.then(lambda done: done.value() + 1)
    thread.start()
    assert following.wait().tolist() == [2.0, 2.0]
    thread.join()
