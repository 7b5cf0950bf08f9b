"""Worker processes: functions and commands, their results, leftovers, and errors."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from triten.distributed import run
from triten.distributed.elastic.multiprocessing import LogsSpecs, Std, start_processes
from triten.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure, record
from triten.distributed.elastic.multiprocessing.logs import WorkerLogs
from triten.distributed.elastic.signals import DeathSignals, SignalException
from triten.distributed.launcher import LaunchConfig, elastic_launch

SILENT = WorkerLogs(None, None, False, False, "")
LONG = 1 << 18
"""More bytes than a pipe holds."""


@pytest.fixture
def error_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    return tmp_path / "error.json"


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_functions_return_their_results_by_rank(start_method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_RANK", "of another launcher")
    config = LaunchConfig(1, 1, nproc_per_node=1, max_restarts=0, start_method=start_method)
    program = "[__import__('os').environ.get(name, '-') * (1 << 18) for name in ('RANK', 'PMI_RANK')]"
    assert elastic_launch(config, eval)(program) == {0: ["0" * LONG, "-" * LONG]}


def test_a_function_that_raises_is_told_of(tmp_path: Path, capfd) -> None:
    logs = LogsSpecs(str(tmp_path), redirects=Std.ALL)
    config = LaunchConfig(1, 1, 1, logs, max_restarts=0)
    with pytest.raises(ChildFailedError, match="invalid literal for int") as raised:
        elastic_launch(config, int)("three")
    _, failure = raised.value.get_first_failure()
    assert failure.exitcode == 1 and failure.error_file.endswith("attempt_0/0/error.json")
    assert "ValueError" in next(tmp_path.glob("*/attempt_0/0/stderr.log")).read_text()
    assert "ValueError" not in capfd.readouterr().err


def test_a_worker_that_does_not_end_is_killed(tmp_path: Path) -> None:
    program = f"""
trap '' TERM
if [ $RANK = 0 ]; then echo > {tmp_path}/started; while true; do sleep 0.05; done; fi
until [ -e {tmp_path}/started ]; do sleep 0.02; done; exit 2
"""
    config = LaunchConfig(1, 1, nproc_per_node=2, max_restarts=0, shutdown_timeout=0.3)
    with pytest.raises(ChildFailedError) as raised:
        elastic_launch(config, "sh")("-c", program)
    assert {rank: failure.exitcode for rank, failure in raised.value.failures.items()} == {1: 2, 0: -9}
    assert "Signal 9 (SIGKILL) received by PID" in str(raised.value)


def test_a_worker_is_killed_at_once_where_that_is_urgent(tmp_path: Path) -> None:
    program = f"trap '' TERM; echo > {tmp_path}/started; while true; do sleep 0.05; done"
    workers = start_processes("default", "sh", {0: ("-c", program)}, {0: {}}, {0: SILENT})
    while not (tmp_path / "started").exists():
        assert workers.wait(0.01) is None
    workers.close(timeout=600, is_urgent=lambda: True)
    assert workers.workers[0].exit_code == -9


def test_the_end_of_a_worker_is_seen_without_a_file_that_tells_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(pid: int) -> int:
        raise OSError("no such call")

    monkeypatch.setattr(os, "pidfd_open", fails, raising=False)
    workers = start_processes("default", "sh", {0: ("-c", "exit 3")}, {0: {}}, {0: SILENT})
    assert workers.handles() == []
    result = workers.wait(60, period=0.01)
    assert result is not None and result.failures[0].exitcode == 3


def test_what_a_worker_has_started_ends_with_it(tmp_path: Path) -> None:
    """Signals reach a worker's whole session: the pipe that its child holds open is at its end."""
    os.mkfifo(tmp_path / "pipe")
    reads = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    program = f"""
if [ $RANK = 0 ]; then sleep 600 > {tmp_path}/pipe & echo > {tmp_path}/started; wait; fi
until [ -e {tmp_path}/started ]; do sleep 0.02; done; exit 1
"""
    config = LaunchConfig(1, 1, nproc_per_node=2, max_restarts=0)
    with pytest.raises(ChildFailedError):
        elastic_launch(config, "sh")("-c", program)
    os.set_blocking(reads, True)
    assert os.read(reads, 1) == b""
    os.close(reads)


def test_a_program_that_is_not_there_is_told_of(capfd) -> None:
    with pytest.raises(ChildFailedError, match="exitcode  : 127"):
        run.main(["--no-python", "no-such-program"])
    assert "no-such-program: No such file or directory" in capfd.readouterr().err


def test_variables_of_another_launcher_are_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PMI_RANK", "PMI_FD", "OMPI_COMM_WORLD_RANK", "PMIX_NAMESPACE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("OMPI_MCA_btl", "self")  # settings, of which ranks need to know
    program = "env | grep -E '^(PMI|PMIX|OMPI)_' | grep -v MCA && exit 1; test $OMPI_MCA_btl = self"
    elastic_launch(LaunchConfig(1, 1, 1, max_restarts=0), "sh")("-c", program)


def test_ranks_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ValueError, match="expected args, envs and logs of the local ranks 0 to 1"):
        start_processes("default", "true", {0: (), 1: ()}, {0: {}}, {0: SILENT})


def test_an_exception_is_recorded_and_raised(error_file: Path) -> None:
    @record
    def main() -> None:
        raise ValueError("no data")

    with pytest.raises(ValueError, match="no data"):
        main()
    told = json.loads(error_file.read_text())["message"]
    assert told["message"] == "ValueError: no data"
    assert "in main" in told["extraInfo"]["py_callstack"]
    failure = ProcessFailure(0, 1, 1, str(error_file))
    assert failure.timestamp == int(told["extraInfo"]["timestamp"]) and "no data" in failure.traceback()


@pytest.mark.parametrize(
    "told",
    [
        b"\xff",
        b"[" * 100_000,
        b"{}",
        b'{"message": {"extraInfo": 1}}',
        b'{"message": {"extraInfo": {"timestamp": 1e999}}}',
        b'{"message": "", "timestamp": 1000000000000000000000}',
        b'{"message": [1]}',
    ],
)
def test_an_error_file_that_is_none_is_told_of(error_file: Path, told: bytes) -> None:
    error_file.write_bytes(told)
    failure = ProcessFailure(0, 1, 1, str(error_file))
    assert failure.timestamp_isoformat() and failure.traceback()
    assert "is no error file" in failure.traceback() or failure.traceback() == "[1]"


def test_an_agent_under_another_agent_hands_on_what_its_worker_recorded(
    error_file: Path, tmp_path: Path
) -> None:
    inner = tmp_path / "inner.json"
    inner.write_text('{"message": {"message": "ValueError: no data", "extraInfo": {"timestamp": "5"}}}')

    @record
    def agent() -> None:
        raise ChildFailedError("train.py", {3: ProcessFailure(0, 1, 7, str(inner))})

    with pytest.raises(ChildFailedError):
        agent()
    told = json.loads(error_file.read_text())["message"]
    assert (told["message"], told["errorCode"]) == ("ValueError: no data", 7)


def test_an_end_that_is_no_error_is_not_recorded(error_file: Path) -> None:
    assert record(sys.exit)(0) is None
    with pytest.raises(SystemExit):
        record(sys.exit)(3)
    assert not error_file.exists()


def test_a_file_that_is_no_error_file_is_told_of(error_file: Path) -> None:
    error_file.write_text("half of a li")
    assert "is no error file" in ProcessFailure(0, 1, 1, str(error_file)).traceback()
    assert ProcessFailure(0, 1, -11, "nowhere").traceback() == "Signal 11 (SIGSEGV) received by PID 1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", Std.NONE), ("3", Std.ALL), ("0:1,12:2", {0: Std.OUT, 12: Std.ERR})],
)
def test_streams_are_read(text: str, expected) -> None:
    assert Std.from_str(text) == expected


def test_a_directory_that_no_stream_went_to_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    config = LaunchConfig(1, 1, 1, max_restarts=0)
    elastic_launch(config, "true")()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ChildFailedError):
        elastic_launch(config, "false")()
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(NotADirectoryError, match=r"expected a directory, but .* is a file"):
        LogsSpecs(__file__)


def test_nohup_keeps_its_meaning() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with DeathSignals("SIGHUP,SIGTERM") as signals:
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(SignalException, match="got SIGTERM"):
                signals.wait(60)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_is_raised_where_it_is_waited_for() -> None:
    with DeathSignals("SIGUSR1") as signals:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert signals.has_come()
        with pytest.raises(SignalException, match="got SIGUSR1"):
            signals.wait(60)
        assert not signals.has_come()
        signals.wait(0)
