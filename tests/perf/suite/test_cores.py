"""A run pins threads to cores while it measures, including those of a new thread pool, and releases them afterwards."""

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

import triten as tt
from triten.perf import __main__ as command
from triten.perf.suite import cores
from triten.perf.suite.cores import Cores, available_cores, settle
from triten.perf.suite.display import format_head
from triten.perf.suite.libraries import Library
from triten.perf.suite.measurement import Effort, Measurement
from triten.perf.suite.results import OURS, Result, read_results
from triten.perf.suite.workload import Workload
from triten.runtime import blas_threads as blas
from triten.tests.shared.threads import eventually

CALLER = 7
pinning = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system pins no threads")
two_cores = pytest.mark.skipif(len(available_cores()) < 2, reason="pinning apart takes two cores")


class System:
    """A system of four cores: its threads by number, and the cores that each may use."""

    def __init__(self, tasks: Path, *threads: int) -> None:
        self.tasks = tasks
        self.allowed: dict[int, set[int]] = {}
        for thread in (CALLER, *threads):
            self.start(thread)

    def start(self, thread: int) -> None:
        (self.tasks / str(thread)).mkdir()
        self.allowed[thread] = set(self.allowed.get(CALLER, range(4)))

    def end(self, thread: int) -> None:
        (self.tasks / str(thread)).rmdir()

    def sched_setaffinity(self, thread: int, allowed: set[int]) -> None:
        if not (self.tasks / str(thread)).exists():
            raise ProcessLookupError
        self.allowed[thread] = set(allowed)

    def sched_getaffinity(self, thread: int) -> set[int]:
        return self.allowed[thread]


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    made = System(tmp_path, 8, 9, 10)
    monkeypatch.setattr(cores, "TASKS", tmp_path)
    monkeypatch.setattr(os, "sched_setaffinity", made.sched_setaffinity, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", made.sched_getaffinity, raising=False)
    monkeypatch.setattr(threading, "get_native_id", lambda: CALLER)
    return made


@pytest.fixture
def freed() -> Iterator[None]:
    """Check that the process's affinity and its threads in triten and the BLAS are restored."""
    before, threads = available_cores(), tt.get_num_threads()
    yield
    now = available_cores()
    tt.set_num_threads(threads)
    blas.set_blas_threads(len(before) or 1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, before)
    assert now == before


def test_the_caller_has_the_first_core_and_the_threads_of_a_pool_one_of_the_others_each(
    system: System,
) -> None:
    with Cores(range(4)) as held:
        assert held.held == [0, 1, 2, 3]
        assert system.allowed == {CALLER: {0}, 8: {1}, 9: {2}, 10: {3}}
    assert all(allowed == {0, 1, 2, 3} for allowed in system.allowed.values())


def test_a_pool_that_grows_one_by_one_does_not_crowd_a_core(system: System) -> None:
    for thread in (8, 9, 10):
        system.end(thread)
    with Cores(range(4)) as held:
        for thread in (20, 21, 22):
            system.start(thread)
            held.hold_new_threads()
        assert [system.allowed[thread] for thread in (20, 21, 22)] == [{1}, {2}, {3}]
        system.end(21)
        system.start(23)
        held.hold_new_threads()
        assert system.allowed[23] == {2}


def test_fewer_threads_than_cores_leave_the_others_alone(system: System) -> None:
    with Cores(range(2)):
        assert system.allowed == {CALLER: {0}, 8: {1}, 9: {1}, 10: {1}}
    with Cores([3]):
        assert all(allowed == {3} for allowed in system.allowed.values())


def test_threads_are_given_back_what_each_had(system: System) -> None:
    system.allowed[9] = {2}
    with Cores(range(4)):
        system.end(8)
        system.start(30)
    assert (system.allowed[9], system.allowed[10], system.allowed[30]) == ({2}, {0, 1, 2, 3}, {0, 1, 2, 3})


@pytest.mark.parametrize("leaving", [ValueError, KeyboardInterrupt, SystemExit])
def test_whatever_ends_the_block_frees_the_threads(system: System, leaving: type[BaseException]) -> None:
    with pytest.raises(leaving), Cores(range(4)):
        assert system.allowed[CALLER] == {0}
        raise leaving
    assert system.allowed[CALLER] == {0, 1, 2, 3}


def test_an_interrupt_while_threads_are_being_held_frees_them(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def interrupted(thread: int, allowed: set[int]) -> None:
        calls.append(thread)
        if len(calls) == 2:
            raise KeyboardInterrupt
        system.sched_setaffinity(thread, allowed)

    monkeypatch.setattr(os, "sched_setaffinity", interrupted)
    with pytest.raises(KeyboardInterrupt), Cores(range(4)):
        pass
    assert system.allowed[CALLER] == {0, 1, 2, 3}


def test_a_process_begins_with_all_cores(system: System) -> None:
    with Cores(range(2)) as held:
        with held.released():
            assert system.allowed[CALLER] == {0, 1, 2, 3}
        assert system.allowed[CALLER] == {0}
    with held.released():
        assert system.allowed[CALLER] == {0, 1, 2, 3}


def test_where_the_system_cannot_nothing_is_held_and_the_head_says_so(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(thread: int, allowed: set[int]) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refused)
    with Cores(range(4)) as held:
        held.hold_new_threads()
        assert held.held == []
    monkeypatch.delattr(os, "sched_setaffinity")
    with Cores(range(4)) as held, held.released():
        assert held.held == []
    with Cores(()) as held:
        assert held.held == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cores": [2, 0, 5]}, "of each library, pinned: the caller's to core 2, the others to 0, 5; garbage"),
        ({"cores": [1]}, "of each library, pinned to core 1; garbage"),
        ({"cores": None}, "of each library, not pinned: this system has no call for it, or refuses it; garbage"),
        ({}, "of each library; garbage"),
        ({"cores": [1], "blas_held": False}, "of each library, but not of NumPy's BLAS, which has no call for it"),
    ],
)  # fmt: skip
def test_the_head_says_how_threads_are_pinned(settings: dict[str, object], said: str) -> None:
    assert said in format_head(Result({}, {}, {"threads": 3, **settings}))


@pytest.mark.parametrize("tells_states", [True, False])
def test_settling_waits_while_a_thread_runs_and_no_longer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tells_states: bool
) -> None:
    now, used, spinning = 0.0, 0.0, 5
    monkeypatch.setattr(cores, "TASKS", tmp_path if tells_states else tmp_path / "none")
    if tells_states:
        monkeypatch.setattr(cores, "_others_run", lambda: spinning >= 0)

    def sleep(seconds: float) -> None:
        nonlocal now, used, spinning
        now += seconds
        spinning -= 1
        used += seconds if spinning >= 0 else 0

    monkeypatch.setattr(cores.time, "sleep", sleep)
    monkeypatch.setattr(cores.time, "perf_counter", lambda: now)
    monkeypatch.setattr(cores.time, "process_time", lambda: used)
    settle()
    assert now == pytest.approx(6 * cores.STEP)
    now, spinning = 0.0, 10**9
    settle()
    assert now == pytest.approx(cores.MAX_WAIT, abs=2 * cores.STEP)


@pinning
def test_a_thread_that_runs_is_seen_at_once_and_one_that_waits_is_not() -> None:
    begin, end = threading.Event(), threading.Event()

    def run() -> None:
        begin.wait()
        while not end.is_set():
            hashlib.sha256(bytes(1 << 20))  # without the GIL

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert eventually(lambda: cores._others_run() is False)
        begin.set()
        assert eventually(lambda: cores._others_run() is True)
    finally:
        begin.set()
        end.set()
        thread.join()


@contextmanager
def pool(size: int) -> Iterator[list[int]]:
    """Start waiting threads and yield their thread IDs."""
    end, numbers, started = threading.Event(), [], threading.Barrier(size + 1)

    def wait() -> None:
        numbers.append(threading.get_native_id())
        started.wait()
        end.wait()

    with ThreadPoolExecutor(size) as executor:
        for _ in range(size):
            executor.submit(wait)
        started.wait()
        try:
            yield numbers
        finally:
            end.set()


@pinning
@two_cores
def test_a_pool_that_a_library_makes_anew_is_held_before_it_is_timed(freed: None) -> None:
    first, second = available_cores()[:2]
    seen: list[list[frozenset[int]]] = []

    def prepare(library: Library) -> Callable[[int], float]:
        calls = 0

        def work(count: int) -> float:
            nonlocal calls
            calls += 1
            if calls == 4:  # as a library does whose number of threads is set to another one
                pools.enter_context(pool(1))
                return 99.0  # its threads are not held yet
            seen.append([frozenset(os.sched_getaffinity(thread)) for thread in cores._threads()])
            return 1e-6

        return work

    workload = Workload("s", "o", "n", "1", "", compared=False, counted=False, prepare=prepare, repetitions=1)
    with ExitStack() as pools, Cores([first, second]) as held:
        pools.enter_context(pool(1))
        measured = Measurement(
            [Library(OURS, "cpu"), Library("numpy", "cpu")], Effort(rounds=6), 2, cores=held
        ).row(workload)
        assert len(measured.samples[OURS]) == 6
        assert 99.0 not in [*measured.samples[OURS], *measured.samples["numpy"]]
        assert set(seen[-1]) == {frozenset([first]), frozenset([second])}
        assert [held_to.count(frozenset([first])) for held_to in seen] == [1] * len(seen)


@pinning
@two_cores
def test_the_threads_of_pytorch_are_held_again_when_their_number_changes(freed: None) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: it has no pool to hold")
    before = torch.get_num_threads()
    x = torch.ones(1 << 20)
    try:
        with Cores(available_cores()[:2]) as held:
            for threads in (2, 1, 2):
                torch.set_num_threads(threads)
                x + x
                held.hold_new_threads()
                assert {len(os.sched_getaffinity(thread)) for thread in cores._threads()} == {1}
                assert available_cores() == held.held[:1]
    finally:
        torch.set_num_threads(before)


@pinning
@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=two_cores)])
def test_a_run_pins_says_so_and_frees(
    freed: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    threads: int,
) -> None:
    path, expected = tmp_path / "r.json", available_cores()[:threads]
    program = ["-c", "import os, sys; sys.stdout.write(str(sorted(os.sched_getaffinity(0))))"]
    seen: list[str] = []

    def import_seconds(statement: str, setup: str, python: str) -> float:
        seen.append(subprocess.run([sys.executable, *program], capture_output=True, text=True).stdout)
        return 0.1

    monkeypatch.setattr("triten.perf.suite.workloads.imports.import_seconds", import_seconds)
    monkeypatch.setattr(
        sys, "argv",
        ["perf", "run", "--rehearse", "--suite", "import", "matmul", "--rows", "import|mm a @ b 16", "--peers", "numpy",
         "--threads", str(threads), "-o", str(path)],
    )  # fmt: skip
    free = str(available_cores())
    assert command.main() == 0
    assert set(seen) == {free}
    found = read_results(path)
    assert found.settings["cores"] == expected
    assert found.settings["threads"] == threads
    assert f"pinned{' to core' if threads == 1 else ': the'}" in capsys.readouterr().err


def test_numpys_blas_is_held_to_the_number_of_threads(freed: None) -> None:
    if not blas.set_blas_threads(1):
        pytest.skip("NumPy's BLAS is not OpenBLAS")
    asked = [calls.get() for path in blas.loaded() if (calls := blas._calls(path)) is not None]
    assert asked and set(asked) == {1}
    a = np.ones((64, 64))
    assert np.array_equal(a @ a, np.full((64, 64), 64.0))


def test_a_blas_without_the_call_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "loaded", list)
    assert Library(OURS, "cpu").set_threads(tt.get_num_threads()) is False
    assert Library("numpy", "cpu").set_threads(1) is False
