"""`python -m triten.distributed.run`: options, the workers' environment, and how workers and agent end."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from triten.distributed import launch, run
from triten.distributed.elastic.multiprocessing.errors import ChildFailedError
from triten.tests.distributed.ranks import needs_mpi

LIMIT = 60.0
"""Seconds after which what should have come is missed."""

COMMAND = [sys.executable, "-P", "-m", "triten.distributed.run"]

REPORT = """
import json, os, sys
print(json.dumps({"argv": sys.argv[1:], **os.environ}))
"""


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith(("PET_", "TORCHELASTIC_")) or name == "OMP_NUM_THREADS":
            monkeypatch.delenv(name)


@pytest.fixture
def script(tmp_path: Path):
    """Write a worker program, and return its path."""

    def write(text: str) -> str:
        path = tmp_path / "worker.py"
        path.write_text(text)
        return str(path)

    return write


def reports(logs: Path, attempt: str = "attempt_0") -> list[dict]:
    """Return the output of a run's workers by local rank; the run has the directory for itself."""
    (found,) = logs.iterdir()
    ranks = sorted((found / attempt).iterdir())
    return [json.loads((rank / "stdout.log").read_text()) for rank in ranks]


def test_workers_know_their_ranks(script, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    options = [
        "--standalone",
        "--nproc-per-node=2",
        "--role=trainer",
        "--max-restarts=4",
        "-r=1",
        f"--log-dir={logs}",
    ]
    run.main([*options, script(REPORT), "--lr=1", "a b"])
    first, second = reports(logs)
    for rank, told in enumerate((first, second)):
        expected = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "GROUP_RANK": 0,
            "ROLE_RANK": rank,
            "ROLE_NAME": "trainer",
        }
        expected |= {"LOCAL_WORLD_SIZE": 2, "WORLD_SIZE": 2, "GROUP_WORLD_SIZE": 1, "ROLE_WORLD_SIZE": 2}
        expected |= {"TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": 4, "OMP_NUM_THREADS": 1}
        expected |= {"TORCHELASTIC_USE_AGENT_STORE": True, "MASTER_ADDR": "127.0.0.1"}
        assert {name: told[name] for name in expected} == {
            name: str(value) for name, value in expected.items()
        }
        assert told["argv"] == ["--lr=1", "a b"]
    assert first["MASTER_PORT"] == second["MASTER_PORT"] != "0"
    assert first["TORCHELASTIC_RUN_ID"] == second["TORCHELASTIC_RUN_ID"]
    assert first["TORCHELASTIC_ERROR_FILE"] != second["TORCHELASTIC_ERROR_FILE"]


def test_the_agent_serves_the_store_of_its_workers(script, tmp_path: Path) -> None:
    """Check that workers exchange values through the agent's store, whose address the environment gives."""
    waiting = """
import os, socket, struct, sys
def message(*fields):
    body = b"".join(struct.pack("!I", len(field)) + field for field in fields)
    return struct.pack("!I", len(body)) + body
store = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
store.sendall(message(b"set", b"rank " + os.environ["RANK"].encode(), b"here"))
store.recv(100)
other = b"rank 1" if os.environ["RANK"] == "0" else b"rank 0"
store.sendall(message(b"get", b"60", other))
sys.exit(0 if b"here" in store.recv(100) else 1)
"""
    run.main(["--nproc-per-node=2", script(waiting)])


def test_options_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PET_NPROC_PER_NODE", "3")
    monkeypatch.setenv("PET_STANDALONE", "1")
    monkeypatch.setenv("PET_MAX_RESTARTS", "7")
    args = run.get_args_parser().parse_args(["--max_restarts=2", "train.py", "--standalone"])
    assert (args.nproc_per_node, args.standalone, args.max_restarts) == ("3", True, 2)
    assert args.training_script_args == ["--standalone"]


def command_of(*words: str) -> list[str]:
    _, program, arguments = run.config_from_args(run.get_args_parser().parse_args([*words]))
    return [program, *arguments]


def test_the_program_is_a_script_a_module_or_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert command_of("train.py", "-x") == [sys.executable, "-u", "train.py", "-x"]
    assert command_of("-m", "train", "-x") == [sys.executable, "-u", "-m", "train", "-x"]
    assert command_of("--no-python", "train", "-x") == ["train", "-x"]
    monkeypatch.setenv("PYTHON_EXEC", "python9")
    assert command_of("train.py") == ["python9", "-u", "train.py"]


def test_one_node_needs_no_address_and_several_have_one() -> None:
    def rendezvous(*words: str):
        config, *_ = run.config_from_args(run.get_args_parser().parse_args([*words, "train.py"]))
        made = config.rendezvous()
        return made.backend, made.host, made.port, made.min_nodes, made.max_nodes, made.node_rank

    assert rendezvous() == ("c10d", "127.0.0.1", 0, 1, 1, 0)
    assert rendezvous("--master-port=7") == ("static", "127.0.0.1", 7, 1, 1, 0)
    static = rendezvous("--nnodes=2", "--node-rank=1", "--master-addr=node0")
    assert static == ("static", "node0", 29500, 2, 2, 1)
    assert rendezvous("--nnodes=2", "--master-addr=fe80::1")[1:3] == ("fe80::1", 29500)
    c10d = rendezvous("--nnodes=1:4", "--rdzv-backend=c10d", "--rdzv-endpoint=node0")
    assert c10d == ("c10d", "node0", 29400, 1, 4, 0)


def test_as_many_workers_as_cores() -> None:
    assert run.determine_local_world_size("cpu") == len(os.sched_getaffinity(0))
    assert run.determine_local_world_size("3") == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nnodes=2:1"], "nnodes: expected 0 < MIN <= MAX, but got 2:1"),
        (["--nnodes=two"], "nnodes: expected a number or MIN:MAX, but got 'two'"),
        (["--nnodes=1:2"], "nnodes: expected one number for a static rendezvous, but got 1:2"),
        (["--nproc-per-node=all"], "nproc-per-node: expected a number, cpu, gpu or auto, but got 'all'"),
        (["--nproc-per-node=0"], "nproc-per-node: expected 1 or more, but got 0"),
        (["--rdzv-backend=etcd"], "rdzv-backend: expected 'static' or 'c10d', but got 'etcd'"),
        (["--nnodes=2", "--node-rank=2"], "node-rank: expected 0 to 1, but got 2"),
        (["--standalone", "--nnodes=2"], "standalone: expected one node, but nnodes is 2"),
        (["--rdzv-conf=join_timeout"], "rdzv-conf: expected key=value,key=value, but got 'join_timeout'"),
        (["--rdzv-conf=join_timeout=soon"], "expected a positive number for join_timeout, but got 'soon'"),
        (["--rdzv-backend=c10d", "--rdzv-endpoint=a:b"], "rdzv-endpoint: expected a port from 0 to 65535"),
        (["-r=5"], "streams: expected 0 .none., 1 .stdout., .* but got '5'"),
        (["--local-ranks-filter=a"], "local-ranks-filter: expected numbers with commas, but got 'a'"),
        (["--signals-to-handle=SIGKILL"], "signals-to-handle: expected names of signals .* got 'SIGKILL'"),
        (["--no-python", "-m"], "no-python: cannot be combined with --module"),
    ],
)
def test_options_that_make_no_sense_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run.main([*words, "train.py"])


def test_a_worker_that_fails_ends_the_others_and_all_begin_again(script, tmp_path: Path) -> None:
    """Rank 1 fails once, while rank 0 would wait for ever; the second attempt ends well."""
    fails = (
        REPORT
        + """
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    if os.environ["RANK"] == "1":
        sys.exit(3)
    sys.stdout.flush()
    import signal
    signal.pause()
"""
    )
    logs = tmp_path / "logs"
    run.main(["--nproc-per-node=2", "--max-restarts=1", "-r=1", f"--log-dir={logs}", script(fails)])
    again = reports(logs, "attempt_1")
    assert [told["RANK"] for told in again] == ["0", "1"]
    assert {told["TORCHELASTIC_RESTART_COUNT"] for told in again} == {"1"}


def test_failures_are_told_with_what_the_worker_wrote(script) -> None:
    """Rank 1 fails, and rank 0 is ended by a signal."""
    fails = """
import json, os, signal, sys
if os.environ["RANK"] == "0":
    signal.pause()
extra = {"py_callstack": "Traceback ...\\nValueError: no data", "timestamp": "1"}
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    json.dump({"message": {"message": "ValueError: no data", "extraInfo": extra}}, file)
sys.exit(5)
"""
    path = script(fails)
    with pytest.raises(ChildFailedError) as raised:
        run.main(["--nproc-per-node=2", path])
    rank, failure = raised.value.get_first_failure()
    assert (rank, failure.local_rank, failure.exitcode, failure.timestamp) == (1, 1, 5, 1)
    assert raised.value.failures[0].signal_name() == "SIGTERM"
    text = str(raised.value)
    root = text.index("Root Cause (first observed failure):")
    assert f"{path} FAILED" in text[:root] and "(SIGTERM)" in text[:root]
    for line in (
        "rank      : 1 (local_rank: 1)",
        f"exitcode  : 5 (pid: {failure.pid})",
        "ValueError: no data",
    ):
        assert line in text[root:]


def test_output_is_shown_with_the_workers_name_and_kept(script, tmp_path: Path, capsys) -> None:
    logs = tmp_path / "logs"
    says = "import os, sys; print('out', os.environ['RANK']); sys.stderr.write('err, no end of line')"
    run.main(["--nproc-per-node=2", "-t=0:1,1:3", "-r=0:2", f"--log-dir={logs}", script(says)])
    shown = capsys.readouterr()
    assert sorted(shown.out.splitlines()) == ["[default0]:out 0", "[default1]:out 1"]
    assert "[default1]:err, no end of line" in shown.err.splitlines() and "[default0]" not in shown.err
    assert (next(logs.glob("*/attempt_0/0/stderr.log"))).read_text() == "err, no end of line"


def test_ranks_that_are_filtered_out_show_nothing(script, capfd) -> None:
    says = "import os; os.write(1, b'I am ' + os.environ['RANK'].encode() + b'\\n')"
    run.main(["--nproc-per-node=2", "--local-ranks-filter=1", script(says)])
    assert capfd.readouterr().out == "I am 1\n"


def test_launch_gives_local_ranks_as_arguments(script, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    path = script(REPORT)
    launch.main(["--nproc-per-node=2", "-r=1", f"--log-dir={logs}", path, "-x"])
    assert [told["argv"] for told in reports(logs)] == [["--local-rank=0", "-x"], ["--local-rank=1", "-x"]]
    with pytest.raises(ValueError, match="pass --use-env, which sets LOCAL_RANK"):
        launch.main(["--no-python", path])


def test_each_worker_may_see_its_own_gpu_alone(
    script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    logs = tmp_path / "logs"
    run.main(["--virtual-local-rank", "--nproc-per-node=2", "-r=1", f"--log-dir={logs}", script(REPORT)])
    told = [(each["RANK"], each["LOCAL_RANK"], each["CUDA_VISIBLE_DEVICES"]) for each in reports(logs)]
    assert told == [("0", "0", "4"), ("1", "0", "7")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_workers_end_with_their_agent(number: signal.Signals, script, tmp_path: Path) -> None:
    """Check that both workers end, which closes their pipe, after a signal has ended their agent."""
    os.mkfifo(tmp_path / "pipe")
    waits = "import os, signal, sys; os.write(os.open(sys.argv[1], os.O_WRONLY), b'!'); signal.pause()"
    words = ["--nproc-per-node=2", script(waits), str(tmp_path / "pipe")]
    agent = subprocess.Popen([*COMMAND, *words], stderr=subprocess.PIPE)
    pipe = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    def read() -> bytes:
        assert select.select([pipe], [], [], LIMIT)[0]
        return os.read(pipe, 1)

    assert read() + read() == b"!!"
    agent.send_signal(number)
    _, said = agent.communicate(timeout=LIMIT)
    assert agent.returncode == (1 if number is signal.SIGTERM else -signal.SIGKILL)
    assert read() == b""
    if number is signal.SIGTERM:
        assert b"SignalException" in said and b"Traceback" not in said
    os.close(pipe)


def test_the_program_fails_where_a_worker_does(script) -> None:
    ended = subprocess.run([*COMMAND, script("raise SystemExit(9)")], capture_output=True, timeout=LIMIT)
    assert ended.returncode == 1
    assert b"exitcode  : 9" in ended.stderr and b"Traceback" not in ended.stderr


@needs_mpi
def test_ranks_add_their_numbers(capfd) -> None:
    """Run the example over MPI and the agent's store."""
    hello = Path(__file__).resolve().parents[2] / "examples" / "distributed" / "hello.py"
    run.main(["--nproc-per-node=2", str(hello)])
    assert capfd.readouterr().out == "2 processes, whose ranks are 1 in all\n"


def test_nothing_of_it_is_imported_before_it_is_used() -> None:
    program = """
import sys, triten.distributed
late = tuple(f"triten.distributed.{name}" for name in ("elastic", "launch", "launcher", "run"))
print([name for name in sys.modules if name in ("argparse", "logging") or name.startswith(late)])
"""
    said = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"
