"""Batches that other processes fetch: the same ones, seeds, errors, deaths, and nothing left behind."""

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import triten as tt
from triten.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    dataloader,
    get_worker_info,
    worker_batches,
)
from triten.utils.data.transport import SMALL, receive, send
from triten.utils.data.worker import WorkerInfo

pytestmark = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="needs processes that are forked"
)


class Rows(Dataset):
    """Rows of so many elements, filled with their index."""

    def __init__(self, count=11, size=3):
        self.count, self.size = count, size

    def __getitem__(self, index):
        return tt.full((self.size,), float(index)), {"index": index}

    def __len__(self):
        return self.count


class Calling(Dataset):
    """Dataset that calls a function for each index."""

    def __init__(self, function, count=6):
        self.function, self.count = function, count

    def __getitem__(self, index):
        return self.function(index)

    def __len__(self):
        return self.count


class Shares(IterableDataset):
    """Numbers up to a count, each by one of the workers; by all of them if they do not share."""

    def __init__(self, count, sharing=True):
        self.count, self.sharing = count, sharing

    def __iter__(self):
        info = get_worker_info()
        if info is None or not self.sharing:
            return iter(range(self.count))
        return iter(range(info.id, self.count, info.num_workers))


def forked(dataset, **options):
    return DataLoader(dataset, **{"num_workers": 2, "multiprocessing_context": "fork", **options})


def plain(batches):
    return [(rows.tolist(), more["index"].tolist()) for rows, more in batches]


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    gc.collect()
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("size", [3, SMALL])
@pytest.mark.parametrize("options", [{}, {"batch_size": 4}, {"batch_size": 4, "drop_last": True}])
def test_the_batches_are_those_without_workers(size, options):
    rows = Rows(size=size)
    assert plain(forked(rows, **options)) == plain(DataLoader(rows, **options))


def test_started_anew_too():
    rows = TensorDataset(tt.rand(5, SMALL), tt.arange(5))  # A class that other processes can import.
    there = DataLoader(rows, batch_size=2, num_workers=1, multiprocessing_context="spawn")
    for found, expected in zip(there, DataLoader(rows, batch_size=2), strict=True):
        assert all(map(tt.equal, found, expected))


def test_samples_by_themselves():
    found = [row.tolist() for row, _ in forked(Rows(), batch_size=None)]
    assert found == [[float(i)] * 3 for i in range(11)]


def test_the_order_of_a_seed_is_that_without_workers():
    orders = []
    for workers in (0, 1, 2):
        tt.manual_seed(5)
        given = {"num_workers": workers} | ({"multiprocessing_context": "fork"} if workers else {})
        shuffled = DataLoader(range(20), batch_size=3, shuffle=True, **given)
        orders.append([batch.tolist() for _ in range(2) for batch in shuffled])
    assert orders[0] == orders[1] == orders[2]


def test_more_batches_than_may_be_underway_and_empty_data_sets():
    assert len(list(forked(range(50), prefetch_factor=1))) == 50
    assert list(forked(Rows(0))) == []
    assert list(forked(Shares(0))) == []


def test_a_stream_is_shared_by_its_workers():
    together = forked(Shares(11), batch_size=2)
    assert [batch.tolist() for batch in together] == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9]]
    assert [b.tolist() for b in forked(Shares(11), batch_size=2, drop_last=True)] == [
        [0, 2],
        [1, 3],
        [4, 6],
        [5, 7],
        [8, 10],
    ]
    assert sorted(b.item() for b in forked(Shares(3, sharing=False))) == [0, 0, 1, 1, 2, 2]


def test_a_stream_that_workers_do_not_share_is_longer_than_it_says(monkeypatch):
    monkeypatch.setattr(Shares, "__len__", lambda self: self.count, raising=False)
    loader = forked(Shares(3, sharing=False))
    list(loader)
    assert len(loader) == 3
    with pytest.warns(
        UserWarning, match="samples have been fetched. For multiprocessing data-loading"
    ) as told:
        list(loader)
    assert [
        f"but {count} samples" in str(each.message) for count, each in zip((4, 5, 6), told, strict=True)
    ] == [True] * 3


class Odd(Dataset):
    """Numbers, of which the odd ones raise."""

    def __getitem__(self, index):
        if index % 2:
            raise NotImplementedError(f"{index} is odd")
        return index

    def __len__(self):
        return 6


@pytest.mark.parametrize("workers", [0, 2])
def test_after_an_error_of_the_data_set_the_next_batch_follows(workers):
    loader = forked(Odd()) if workers else DataLoader(Odd())
    batches, seen = iter(loader), []
    while True:
        try:
            seen.append(next(batches).item())
        except NotImplementedError:
            seen.append(None)
        except StopIteration:
            break
    assert seen == [0, None, 2, None, 4, None]


def test_the_workers_are_processes():
    batches = iter(forked(range(3)))
    assert [worker.is_alive() for worker in batches._workers] == [True, True]
    batches._shutdown_workers()
    assert not any(worker.is_alive() for worker in batches._workers)


def test_as_they_are_ready():
    found = sorted(int(b.item()) for b in forked(range(30), in_order=False))
    assert found == list(range(30))


def test_each_worker_has_seeds_of_its_own_that_the_programs_seed_decides():
    def drawn(index):
        info = get_worker_info()
        assert info.num_workers == 2 and info.dataset.function is drawn
        assert tt.initial_seed() == info.seed
        return info.id, tt.rand(()).item(), random.random(), np.random.rand()

    def run(seed):
        tt.manual_seed(seed)
        return [tuple(each) for each in forked(Calling(drawn, 2), batch_size=None)]

    first = run(1)
    assert first == run(1) != run(2)
    assert [row[0] for row in first] == [0, 1]
    assert all(a != b for a, b in zip(first[0][1:], first[1][1:], strict=True))
    assert get_worker_info() is None


@pytest.mark.parametrize("name", ["id", "other"])
def test_the_information_of_a_worker_is_read_only(name):
    info = WorkerInfo(1, 2, seed=3, dataset=[4])
    with pytest.raises(RuntimeError, match="Cannot assign attributes to WorkerInfo objects"):
        setattr(info, name, 5)
    assert repr(info) == "WorkerInfo(id=1, num_workers=2, seed=3, dataset=[4])"


def test_a_worker_is_prepared_and_has_one_thread():
    seen = []
    prepared = forked(Calling(lambda index: (seen[0], tt.get_num_threads())), worker_init_fn=seen.append)
    assert [[int(each) for each in pair] for pair in prepared] == [[number % 2, 1] for number in range(6)]
    assert seen == []


class Awkward(Exception):
    def __init__(self, one, other):
        super().__init__(one, other)


def raising(error):
    def function(index):
        if index == 3:
            raise error
        return index

    return Calling(function)


@pytest.mark.parametrize(
    ("dataset", "kind", "message"),
    [
        (
            raising(ValueError("no third")),
            ValueError,
            "Caught ValueError in DataLoader worker process 1.\nOriginal ",
        ),
        (raising(KeyError("third")), KeyError, "Caught KeyError in DataLoader worker process 1.\nOriginal "),
        (raising(StopIteration()), RuntimeError, "Caught StopIteration in DataLoader"),
        (raising(Awkward(1, 2)), RuntimeError, "Caught Awkward in DataLoader worker process 1"),
        (Calling(lambda index: threading.Lock()), TypeError, "default_collate: batch must contain"),
    ],
)
def test_an_error_is_raised_where_batches_are_asked_for(dataset, kind, message):
    with pytest.raises(kind, match=message):
        list(forked(dataset))


def test_the_workers_traceback_is_in_the_message():
    with pytest.raises(KeyError) as raised:
        list(forked(raising(KeyError("third"))))
    assert "raise error\nKeyError: 'third'" in str(raised.value)


def test_what_cannot_be_sent_is_an_error():
    with pytest.raises((TypeError, AttributeError), match="pickle"):
        list(forked(Calling(lambda index: threading.Lock()), collate_fn=lambda batch: batch[0]))
    recorded = Calling(lambda index: tt.ones(3, requires_grad=True) * 2)
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        list(forked(recorded, batch_size=None))


def test_a_tensor_of_the_gpu_is_refused():
    pytest.importorskip("triton")
    connections = multiprocessing.Pipe()
    with pytest.raises(RuntimeError, match="a tensor on cuda:0 cannot leave its process"):
        send(connections[0], tt.ones(3, device="cuda"))


def test_an_error_while_a_worker_is_prepared():
    def fail(number):
        raise LookupError(f"worker {number}")

    with pytest.raises(LookupError, match="worker 0"):
        list(forked(Rows(), worker_init_fn=fail))


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "is killed by signal: Killed"),
        (lambda: os._exit(7), "exited unexpectedly with exit code 7"),
    ],
)
def test_a_worker_that_dies_is_an_error(end, message):
    with pytest.raises(RuntimeError, match=rf"DataLoader worker \(pid\(s\) \d+\) {message}"):
        list(forked(Calling(lambda index: end() if index == 3 else index)))


def test_an_idle_worker_that_died_is_an_error():
    batches = iter(forked(range(100), num_workers=1, prefetch_factor=1))
    next(batches)
    [child] = multiprocessing.active_children()
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    with pytest.raises(RuntimeError, match="is killed by signal"):
        list(batches)
    with pytest.raises(StopIteration):
        next(batches)


def test_a_batch_that_does_not_come_is_an_error(monkeypatch):
    monkeypatch.setattr(worker_batches, "GRACE", 0.01)
    for_ever = Calling(lambda index: time.sleep(1000))
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.01 seconds"):
        list(forked(for_ever, timeout=0.01))


def test_workers_that_stay():
    staying = forked(Calling(lambda index: os.getpid()), persistent_workers=True)
    first = {int(pid) for pid in staying}
    assert len(first) == 2
    begun = iter(staying)
    next(begun)
    assert {int(pid) for pid in staying} == first  # The loop that had begun is dropped.
    assert len(multiprocessing.active_children()) == 2
    for child in multiprocessing.active_children():
        os.kill(child.pid, signal.SIGKILL)
        child.join()
    with pytest.raises(RuntimeError, match="is killed by signal"):
        list(staying)
    assert {int(pid) for pid in staying}.isdisjoint(first)


def test_streams_begin_anew_with_workers_that_stay():
    staying = forked(Shares(5), persistent_workers=True)
    assert [[b.item() for b in staying] for _ in range(3)] == [[0, 1, 2, 3, 4]] * 3


def test_a_loop_that_is_left_ends_its_workers():
    for _batch in forked(range(100)):
        break
    del _batch
    gc.collect()
    assert multiprocessing.active_children() == []


PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
import triten as tt

class Rows(tt.utils.data.Dataset):
    def __getitem__(self, index):
        return tt.full((10000,), float(index))
    def __len__(self):
        return 1000

batches = iter(tt.utils.data.DataLoader(Rows(), num_workers=2, multiprocessing_context="fork"))
next(batches)
try:
    {act}
    while True:
        time.sleep(1)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    ("act", "code", "printed"),
    [
        ("os.killpg(0, signal.SIGINT)", 0, "interrupted\n"),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
        ("sys.exit(3)", 3, ""),
    ],
)
def test_no_process_is_left_when_the_program_ends(act, code, printed):
    # The pipes of its output end with the last process that holds them.
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM.format(act=act)],
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, printed, "")


def over_a_pipe(value):
    ours, theirs = multiprocessing.Pipe()

    def sending():
        with theirs:  # Closed on failure, so that no thread waits.
            send(theirs, value)

    thread = threading.Thread(target=sending)
    thread.start()
    received = receive(ours)
    thread.join()
    return received


def blocks():
    with open("/proc/self/maps") as maps:
        return sum("memfd:triten" in line for line in maps)


@pytest.mark.parametrize(
    "dtype", [tt.float32, tt.bfloat16, tt.float8_e4m3fn, tt.bool, tt.int64, tt.complex64], ids=str
)
@pytest.mark.parametrize("size", [(0, 3), (), (2, 3), (SMALL, 2)])
def test_tensors_of_all_sizes_arrive(dtype, size):
    sent = tt.rand(size).to(dtype)
    received = over_a_pipe(sent)
    assert received.dtype is dtype and received.stride() == sent.stride() and tt.equal(received, sent)


def test_views_share_what_they_shared():
    base = tt.rand(SMALL)
    received, reversed_ = over_a_pipe([base, base.view(2, -1).t()])
    received[0] = 7
    assert reversed_[0, 0] == 7 and reversed_.stride() == (1, SMALL // 2)


def test_a_part_of_much_does_not_bring_it_along():
    row = over_a_pipe(tt.rand(100, SMALL)[3])
    assert row.untyped_storage().nbytes() == 4 * SMALL


def test_arrays_and_parameters_arrive():
    array, parameter = over_a_pipe([np.arange(SMALL), tt.nn.Parameter(tt.ones(SMALL))])
    array[0] = 5
    assert array[:3].tolist() == [5, 1, 2]
    assert isinstance(parameter, tt.nn.Parameter) and parameter.requires_grad


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs /proc")
def test_large_tensors_lie_in_memory_that_goes_with_the_last_of_them():
    before, files = blocks(), len(os.listdir("/proc/self/fd"))
    kept = [over_a_pipe(tt.rand(SMALL)) for _ in range(5)]
    assert blocks() == before + 5
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == files
    part = kept[2][1:]
    del kept
    gc.collect()
    assert blocks() == before + 1 and part.shape == (SMALL - 1,)
    del part
    gc.collect()
    assert blocks() == before


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"prefetch_factor": -1}, ValueError, "prefetch_factor option should be non-negative"),
        ({"multiprocessing_context": "thread"}, ValueError, "should specify a valid start method in"),
        ({"multiprocessing_context": 3}, TypeError, "should be a valid context object or a string"),
        (
            {"num_workers": 0},
            ValueError,
            "multiprocessing_context can only be used with multi-process loading",
        ),
    ],
)
def test_bad_options_are_refused(options, kind, message):
    with pytest.raises(kind, match=message):
        forked(Rows(), **options)


def test_defaults_are_pytorchs():
    assert forked(Rows()).prefetch_factor == 2 and DataLoader(Rows()).prefetch_factor is None
    assert forked(Rows()).multiprocessing_context.get_start_method() == "fork"
    assert DataLoader(Rows(), num_workers=2).multiprocessing_context is None


def test_more_workers_than_cores_are_warned_of(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    with pytest.warns(UserWarning, match="Our suggested max number of worker in current system is 1"):
        list(forked(Rows()))


def test_pinned_memory_without_a_gpu_is_warned_of(monkeypatch):
    monkeypatch.setattr(dataloader, "is_available", lambda: False)
    with pytest.warns(UserWarning, match="no accelerator is found"):
        assert plain(forked(Rows(), pin_memory=True)) == plain(DataLoader(Rows()))
