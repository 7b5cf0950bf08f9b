"""`tt.multiprocessing`: tensors in other processes. Each program runs by itself, and is ended if it hangs."""

import os
import pickle
import subprocess
import sys
import tempfile
import uuid
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

import triten as tt
import triten.multiprocessing as mp
from triten import nn
from triten.multiprocessing.spawn import ProcessContext
from triten.runtime import shared_memory

pytestmark = pytest.mark.skipif(not shared_memory.CAN_SHARE, reason="this system shares no memory")

HEAD = """
import os, signal, sys, time
import triten as tt
import triten.multiprocessing as mp
mark = {mark!r}
"""


def processes_with(mark):
    """Return the processes whose command or environment contains a text."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and folder.name != str(os.getpid()):
            try:
                text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            except OSError:
                continue
            if mark.encode() in text:
                found.append(folder.name)
    return found


def run(program, tmp_path, code=0):
    """Run a program, check that it leaves no process, block or file, and return its output."""
    mark = f"triten-test-{uuid.uuid4().hex}"
    path = tmp_path / "program.py"
    path.write_text(HEAD.format(mark=mark) + program)
    blocks = set(os.listdir(shared_memory.FOLDER))
    # Sockets lie in the folder of temporary files, and the path of one has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="triten-", dir="/tmp") as temporary:
        return _run(path, mark, blocks, temporary, code)


def _run(path, mark, blocks, temporary, code):
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(tt.__file__).parents[1]),
        "MARK_OF_A_TEST": mark,
        "TMPDIR": temporary,
    }
    done = subprocess.run(
        [sys.executable, "-P", str(path)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert processes_with(mark) == []
    # The program's processes are gone: a block whose maker still runs is another test's, at the same time.
    left = {
        name
        for name in os.listdir(shared_memory.FOLDER)
        if name.startswith(shared_memory.PREFIX) and not Path("/proc", name.split("_")[1]).exists()
    }
    assert not left - blocks
    assert not [name for name in os.listdir(temporary) if name.startswith("triten-error")]
    return done.stdout


def sent(value):
    """Return a value as another process would receive it."""
    return pickle.loads(bytes(ForkingPickler.dumps(value)))


def test_a_tensor_that_is_sent_is_shared():
    x = tt.ones(4)
    y, z = sent([x, x[1:]])
    y[1] = 7
    assert x.is_shared() and y.is_shared() and x.tolist() == [1, 7, 1, 1] and z.tolist() == [7, 1, 1]
    assert y.untyped_storage() is x.untyped_storage()
    assert sent(x.untyped_storage()) is x.untyped_storage()


def test_what_a_tensor_is_beside_its_bytes_is_kept():
    parameter = sent(nn.Parameter(tt.ones(2)))
    assert type(parameter) is nn.Parameter and parameter.requires_grad and parameter.is_shared()
    leaf = tt.ones(2, requires_grad=True)
    leaf.grad = tt.ones(2)
    assert sent(leaf).requires_grad and sent(leaf).grad is None
    assert sent(tt.ones(3, 2).t()).stride() == (1, 2)
    assert sent(tt.empty(3, device="meta")).is_meta and sent(tt.empty(0)).shape == (0,)
    model = sent(nn.Linear(2, 3))
    assert model.weight.is_shared()


def test_what_cannot_be_sent_is_refused():
    with pytest.raises(
        RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"
    ):
        sent(tt.ones(2, requires_grad=True) * 2)
    with pytest.raises(RuntimeError, match="Cannot pickle meta storage; try pickling a meta tensor instead"):
        sent(tt.empty(3, device="meta").untyped_storage())
    x = tt.ones(2, requires_grad=True)
    x.register_hook(lambda grad: grad)
    with pytest.warns(UserWarning, match="on tensor will not be serialized"):
        sent(x)


def test_names_of_python_s_module_are_here():
    import multiprocessing

    assert mp.Queue == multiprocessing.Queue and mp.cpu_count() == multiprocessing.cpu_count()
    assert mp is tt.multiprocessing and mp.spawn is tt.multiprocessing.spawn and callable(mp.spawn)


def test_strategies():
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    assert mp.get_sharing_strategy() == "file_descriptor"
    with pytest.raises(AssertionError, match="invalid sharing strategy 'x'"):
        mp.set_sharing_strategy("x")


PROGRAM = """
def work(index, shared, inbox, outbox, pipe, end):
    mp.set_sharing_strategy({strategy!r})
    shared[index] = index + 1
    given = inbox.get(timeout=200)
    given += 1
    outbox.put((index, tt.full((3,), float(index)), given.sum().item()))
    pipe.send(tt.ones(2) * 5)
    assert end.wait(200)  # what was sent is kept until it has arrived

if __name__ == "__main__":
    mp.set_sharing_strategy({strategy!r})
    context = mp.get_context({method!r})
    shared = tt.zeros(2).share_memory_()
    inbox, outbox = context.Queue(), context.Queue()
    end = context.Event()
    ours, theirs = context.Pipe()
    started = mp.start_processes(
        work, (shared, inbox, outbox, theirs, end), nprocs=2, join=False, start_method={method!r})
    assert len(started.pids()) == 2
    x = tt.zeros(10000)
    inbox.put(x)
    inbox.put(x)
    found = sorted((i, t.tolist(), s > 0) for i, t, s in (outbox.get(timeout=200) for _ in range(2)))
    print(found, ours.recv().tolist(), ours.recv().tolist())
    end.set()
    while not started.join(200):
        pass
    print(shared.tolist(), x.max().item() >= 1)
"""


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_see_what_the_others_write(tmp_path, method, strategy):
    printed = run(PROGRAM.format(method=method, strategy=strategy), tmp_path).splitlines()
    assert printed == [
        "[(0, [0.0, 0.0, 0.0], True), (1, [1.0, 1.0, 1.0], True)] [5.0, 5.0] [5.0, 5.0]",
        "[1.0, 2.0] True",
    ]


def test_a_pool_takes_and_gives_tensors(tmp_path):
    program = """
def double(x):
    return x * 2

if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as pool:
        print([t.tolist() for t in pool.map_async(double, [tt.ones(2), tt.arange(3)]).get(200)])
"""
    assert run(program, tmp_path) == "[[2.0, 2.0], [0, 2, 4]]\n"


def test_a_model_is_trained_by_several(tmp_path):
    program = """
def train(index, model):
    optimizer = tt.optim.SGD(model.parameters(), 0.1)
    model(tt.ones(2)).sum().backward()
    optimizer.step()

if __name__ == "__main__":
    model = tt.nn.Linear(2, 1, bias=False).share_memory()
    before = model.weight.detach().clone()
    mp.spawn(train, (model,), nprocs=1)
    print((before - model.weight).tolist())
"""
    assert run(program, tmp_path).startswith(("[[0.1000", "[[0.0999"))


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        ("raise ValueError('own error')", "ProcessRaisedException", "ValueError: own error"),
        ("sys.exit(3)", "ProcessExitedException", "process 1 terminated with exit code 3"),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            "ProcessExitedException",
            "process 1 terminated with signal SIGKILL",
        ),
    ],
)
def test_processes_fail_together(tmp_path, act, error, message):
    program = f"""
def work(index, ready):
    if index == 1:
        {act}
    time.sleep(1000)

if __name__ == "__main__":
    try:
        mp.start_processes(work, (None,), nprocs=2, start_method="fork")
    except mp.ProcessException as error:
        print(type(error).__name__, error.error_index, getattr(error, "exit_code", None))
        print(error)
"""
    printed = run(program, tmp_path)
    assert printed.startswith(f"{error} 1 ") and message in printed


def test_arguments_that_cannot_be_pickled_leave_no_process(tmp_path):
    program = """
def work(index, given):
    time.sleep(1000)

if __name__ == "__main__":
    try:
        mp.spawn(work, (lambda: None,), nprocs=2)
    except Exception as error:
        print("pickle" in str(error).lower())
"""
    assert run(program, tmp_path) == "True\n"


def test_a_program_that_is_killed_leaves_no_block(tmp_path):
    program = """
if __name__ == "__main__":
    mp.set_sharing_strategy("file_system")
    x = [tt.ones(10).share_memory_() for _ in range(3)]
    names = [name for name in os.listdir("/dev/shm") if f"_{os.getpid()}_" in name]
    print(os.getpid(), len(names), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    mark = tmp_path / "program.py"
    mark.write_text(HEAD.format(mark="") + program)
    environment = {**os.environ, "PYTHONPATH": str(Path(tt.__file__).parents[1])}
    # The tracker, which deletes them, holds the pipe of errors: it has ended when the call returns.
    done = subprocess.run(
        [sys.executable, "-P", str(mark)], env=environment, capture_output=True, text=True, timeout=300
    )
    pid, count = done.stdout.split()
    assert (done.returncode, count) == (-9, "3") and "leaked shared_memory" in done.stderr
    assert [
        name for name in os.listdir(shared_memory.FOLDER) if name.startswith(f"{shared_memory.PREFIX}{pid}_")
    ] == []


def test_other_start_methods_of_spawn_warn():
    with pytest.warns(FutureWarning, match="only supports start_method=spawn"):
        assert mp.spawn(print, nprocs=0, start_method="fork") is None


def test_errors_of_processes_are_pickled():
    error = mp.ProcessExitedException("text", 1, 2, -9, "SIGKILL")
    again = pickle.loads(pickle.dumps(error))
    assert (again.error_index, again.error_pid, again.exit_code, again.signal_name) == (1, 2, -9, "SIGKILL")
    assert ProcessContext([], []).join() is True
