"""parallel_for, parallel_reduce, and the pool: coverage, nesting, errors, context, forks."""

import contextvars
import os
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from triten.runtime.parallel import (
    chunk_ranges,
    get_num_threads,
    get_thread_num,
    in_parallel_region,
    parallel_for,
    parallel_reduce,
    set_num_threads,
)
from triten.tests.shared.threads import PATIENCE, eventually, join


@pytest.fixture(params=[1, 4], autouse=True)
def threads(request):
    before = get_num_threads()
    set_num_threads(request.param)
    yield request.param
    set_num_threads(before)


@given(some.integers(0, 50), some.integers(0, 200), some.integers(0, 60), some.integers(1, 9))
def test_chunks_partition_the_range(begin, length, grain, most) -> None:
    chunks = chunk_ranges(begin, begin + length, grain, most)
    assert [i for first, last in chunks for i in range(first, last)] == list(range(begin, begin + length))
    assert len(chunks) <= most
    assert all(last - first >= grain for first, last in chunks[:-1])


def test_every_index_is_visited_once() -> None:
    seen = [0] * 1000

    def visit(begin: int, end: int) -> None:
        for i in range(begin, end):
            seen[i] += 1

    parallel_for(0, 1000, 10, visit)
    parallel_for(5, 5, 10, visit)
    assert seen == [1] * 1000


def test_chunks_run_on_several_threads_and_know_their_number(threads: int) -> None:
    barrier = threading.Barrier(threads)
    numbers, idents = set(), set()

    def meet(begin: int, end: int) -> None:
        barrier.wait(PATIENCE)
        numbers.add(get_thread_num())
        idents.add(threading.get_ident())

    parallel_for(0, threads, 1, meet)
    assert numbers == set(range(threads))
    assert len(idents) == threads
    assert not in_parallel_region()


def test_nested_calls_do_not_split(threads: int) -> None:
    inner = []

    def outer(begin: int, end: int) -> None:
        assert in_parallel_region() == (threads > 1)
        parallel_for(0, 100, 100, lambda i, j: inner.append((i, j)))
        if threads > 1:
            parallel_for(0, 100, 1, lambda i, j: inner.append((i, j)))

    parallel_for(0, 8, 1, outer)
    assert set(inner) == {(0, 100)}
    assert len(inner) == (16 if threads == 4 else 1)


def test_the_first_chunks_error_is_raised_after_all_ended(threads: int) -> None:
    ended = []

    def fail(begin: int, end: int) -> None:
        ended.append(begin)
        raise ValueError(f"chunk {begin}")

    with pytest.raises(ValueError, match="chunk 0"):
        parallel_for(0, 8, 2, fail)
    assert len(ended) == (4 if threads == 4 else 1)
    parallel_for(0, 8, 2, lambda i, j: ended.append(i))


def test_chunks_see_the_callers_context() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("caller's")
    seen = []
    parallel_for(0, 8, 1, lambda i, j: seen.append(variable.get()))
    assert set(seen) == {"caller's"}


def test_parallel_reduce_combines_in_order() -> None:
    text = parallel_reduce(
        0, 26, 3, "", lambda i, j, s: s + "".join(chr(97 + k) for k in range(i, j)), lambda a, b: a + b
    )
    assert text == "abcdefghijklmnopqrstuvwxyz"
    assert parallel_reduce(3, 3, 1, 7, lambda i, j, s: 0, lambda a, b: a + b) == 7


@pytest.mark.parametrize(
    ("value", "message"), [(0, "positive"), (-1, "positive"), ("2", "str"), (True, "bool")]
)
def test_bad_thread_counts_are_refused(value, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        set_num_threads(value)


def test_bad_grains_are_refused() -> None:
    with pytest.raises(RuntimeError, match="grain size"):
        parallel_for(0, 4, -1, lambda i, j: None)
    with pytest.raises(RuntimeError, match="grain size"):
        parallel_reduce(0, 4, 0, 0, lambda i, j, s: s, lambda a, b: a)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_makes_a_pool_of_its_own() -> None:
    parallel_for(0, 8, 1, lambda i, j: None)
    child = os.fork()
    if child == 0:
        seen = []
        parallel_for(0, 8, 1, lambda i, j: seen.append(j - i))
        os._exit(0 if sum(seen) == 8 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("threads", [4], indirect=True)
def test_threads_that_are_busy_elsewhere_are_not_waited_for(threads: int) -> None:
    all_hold, leave = threading.Barrier(threads + 1), threading.Event()

    def hold(begin: int, end: int) -> None:
        all_hold.wait(PATIENCE)
        assert leave.wait(PATIENCE)

    holder = threading.Thread(target=parallel_for, args=(0, threads, 1, hold))
    holder.start()
    all_hold.wait(PATIENCE)  # every thread of the pool is in there now
    seen = []
    parallel_for(0, 100, 1, lambda i, j: seen.append((i, j, get_thread_num())))
    assert sorted(k for i, j, _ in seen for k in range(i, j)) == list(range(100))
    assert {number for _, _, number in seen} == {0}
    leave.set()
    join(holder)


@pytest.mark.parametrize("threads", [4], indirect=True)
def test_an_interrupted_range_is_not_begun_further(threads: int) -> None:
    begun = []

    def interrupt(begin: int, end: int) -> None:
        begun.append(begin)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parallel_for(0, 1000, 1, interrupt)
    assert 1 <= len(begun) <= threads
    parallel_for(0, 1000, 1, lambda i, j: begun.extend(range(i, j)))
    assert set(begun) >= set(range(1000))


@pytest.mark.parametrize("threads", [4], indirect=True)
def test_threads_of_another_number_end(threads: int) -> None:
    parallel_for(0, threads, 1, lambda i, j: None)
    for number in (2, 5, 1, threads):
        set_num_threads(number)
        parallel_for(0, 8, 1, lambda i, j: None)
    assert eventually(lambda: _pool_threads() == threads - 1)


def _pool_threads() -> int:
    return sum(thread.name.startswith("triten-parallel") for thread in threading.enumerate())


def test_nothing_is_kept_of_what_was_done(threads: int) -> None:
    array = np.ones(8)
    kept = weakref.ref(array)

    def use(begin: int, end: int, array: np.ndarray = array) -> None:
        assert array.sum() == 8

    parallel_for(0, 64, 1, use)
    del use, array
    assert eventually(lambda: kept() is None)
