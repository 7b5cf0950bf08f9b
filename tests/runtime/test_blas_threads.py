"""NumPy's BLAS has one thread inside our parallel regions, its own number before and after, whatever overlaps."""

import subprocess
import sys

import pytest

import triten as tt
from triten.runtime import blas_threads
from triten.runtime.blas_threads import hold, numpy_threads, restore, set_blas_threads
from triten.runtime.parallel import parallel_for


class Blas:
    """Fake BLAS that counts its threads, as OpenBLAS does."""

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


def test_holds_that_overlap_restore_what_was_there(blas: Blas) -> None:
    first = numpy_threads()
    hold(first)
    second = numpy_threads()
    hold(second)
    assert (first, second, blas.threads) == (3, 1, 1)
    restore(first)
    assert blas.threads == 3
    restore(second)
    assert blas.threads == 3


def test_an_interrupt_while_it_is_told_loses_no_threads(blas: Blas, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tt.get_num_threads()
    tt.set_num_threads(2)
    blas.threads = 3
    told = blas.set

    def interrupted(threads: int) -> None:
        told(threads)
        if threads == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(blas, "set", interrupted)
    with pytest.raises(KeyboardInterrupt):
        parallel_for(0, 4, 1, lambda first, last: None)
    assert blas.threads == 3
    tt.set_num_threads(before)


def test_one_thread_is_not_told_again(blas: Blas) -> None:
    blas.threads = 1
    hold(numpy_threads())
    restore(numpy_threads())
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
    assert numpy_threads() == 1 and not set_blas_threads(2)
    hold(1)
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


def test_a_blas_that_comes_later_is_told() -> None:
    program = (
        "import triten as tt; from triten.runtime import blas_threads, lapack; tt.set_num_threads(1); lapack._scipy(); "
        "print({calls.get() for path in blas_threads.loaded() if (calls := blas_threads._calls(path))})"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("{1}", "set()")
