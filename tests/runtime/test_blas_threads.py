"""NumPy's BLAS has one thread during our products, its own number before and after, whatever overlaps."""

import threading

import numpy as np
import pytest

import triten as tt
from triten.dispatch.iterator.parallel import parallel_for
from triten.runtime import blas_threads
from triten.runtime.blas_threads import MATRIX_WORK, alone, hold, restore, set_blas_threads


class Blas:
    """Counts its threads, as OpenBLAS does."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.told: list[int] = []

    def get(self) -> int:
        return self.threads

    def set(self, threads: int) -> None:
        self.threads = threads
        self.told.append(threads)


@pytest.fixture
def blas(monkeypatch: pytest.MonkeyPatch) -> Blas:
    made = Blas(3)
    monkeypatch.setattr(blas_threads, "_numpys", made)
    monkeypatch.setattr(blas_threads, "_is_found", True)
    return made


def test_a_large_product_has_one_thread_and_a_small_one_is_not_touched(blas: Blas) -> None:
    def function(add: int) -> int:
        return blas.threads + add

    assert alone(function, MATRIX_WORK) is function
    assert alone(function, MATRIX_WORK + 1)(10) == 11
    assert blas.threads == 3


def test_threads_come_back_after_an_exception(blas: Blas) -> None:
    def refuses() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        alone(refuses, MATRIX_WORK + 1)()
    assert blas.threads == 3


def test_holds_that_overlap_restore_what_was_there(blas: Blas) -> None:
    first, second = hold(), hold()
    assert (first, second, blas.threads) == (3, 1, 1)
    restore(first)
    assert blas.threads == 3
    restore(second)
    assert blas.threads == 3


def test_one_thread_is_not_told_again(blas: Blas) -> None:
    blas.threads = 1
    restore(hold())
    assert blas.told == []


def test_inside_a_parallel_region_it_has_one(blas: Blas) -> None:
    before, seen = tt.get_num_threads(), []
    tt.set_num_threads(2)
    blas.threads = 3
    parallel_for(0, 4, 1, lambda first, last: seen.append(blas.threads))
    assert seen == [1] * 4 and blas.threads == 3
    parallel_for(0, 4, 8, lambda first, last: seen.append(blas.threads))
    assert seen[4:] == [3]
    tt.set_num_threads(before)


def test_another_blas_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas_threads, "loaded", list)
    monkeypatch.setattr(blas_threads, "_is_found", False)
    monkeypatch.setattr(blas_threads, "_numpys", None)
    assert hold() == 1 and not set_blas_threads(2)
    restore(1)


def test_set_num_threads_rules_it() -> None:
    before = tt.get_num_threads()
    calls = [calls for path in blas_threads.loaded() if (calls := blas_threads._calls(path)) is not None]
    if not calls:
        pytest.skip("NumPy's BLAS is not OpenBLAS")
    try:
        for threads in (1, 2):
            tt.set_num_threads(threads)
            assert {each.get() for each in calls} == {threads}
            tt.mm(tt.ones(300, 300), tt.ones(300, 300))
            assert {each.get() for each in calls} == {threads}
    finally:
        tt.set_num_threads(before)


def test_products_in_several_threads_leave_it_as_it_was() -> None:
    calls = blas_threads._find()
    if calls is None:
        pytest.skip("NumPy's BLAS is not OpenBLAS")
    before = calls.get()
    a = tt.from_numpy(np.ones((80, 80), np.float32))
    threads = [threading.Thread(target=lambda: [tt.mm(a, a) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls.get() == before
