"""The server shows runs and their progress as they change, and refuses everything but reads of its routes."""

import json
import os
import platform
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from triten.perf import __main__ as command
from triten.perf.serve import server as server_module
from triten.perf.serve.server import PerfServer
from triten.perf.serve.watching import Watcher
from triten.perf.suite import processes
from triten.perf.suite import run as run_module
from triten.perf.suite.progress_file import ProgressFile, is_running, progress_path, read_progress
from triten.tests.perf.history.stored_runs import a_history, a_result, commit

PATIENCE = 60.0  # only a failure waits for so long


@pytest.fixture
def served(tmp_path: Path) -> Iterator[PerfServer]:
    """Yield a running server over a folder with one run and a store with another."""
    a_result(1, {"a": [1.0, 1.1, 0.9]}).write(tmp_path / "one.json")
    (tmp_path / "package.json").write_text("{}")
    watcher = Watcher([tmp_path], a_history(tmp_path / "h.sqlite", [a_result(2, {"b": [1.0]})]))
    watcher.poll()
    server = PerfServer(("127.0.0.1", 0), watcher)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def get(
    server: PerfServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, str, dict[str, str]]:
    connection = HTTPConnection(*server.server_address[:2], timeout=PATIENCE)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), dict(answer.getheaders())
    connection.close()
    return found


def raw(server: PerfServer, request: bytes) -> bytes:
    """Return the answer to bytes that no client would send."""
    with socket.create_connection(server.server_address[:2], timeout=PATIENCE) as connection:
        parts = []
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(1 << 16):
                parts.append(part)
        except OSError:  # the server closed the connection before it had read everything
            pass
        return b"".join(parts)


class Stream:
    """Server-sent events of a server, one at a time."""

    def __init__(self, server: PerfServer) -> None:
        self._connection = socket.create_connection(server.server_address[:2], timeout=PATIENCE)
        self._connection.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self._file = self._connection.makefile("r", encoding="utf-8")
        self.head = "".join(iter(self._file.readline, "\n"))

    def state(self) -> dict[str, Any] | None:
        """Return the next state; None at the end."""
        for line in self._file:
            if line.startswith("data: "):
                return json.loads(line.removeprefix("data: "))
        return None

    def close(self) -> None:
        self._file.close()
        self._connection.close()


def test_the_page_and_its_parts_are_served_under_a_policy(served: PerfServer) -> None:
    status, page, headers = get(served, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert '<script src="/live.js"' in page
    assert get(served, "/live.js")[2]["Content-Type"].startswith("text/javascript")
    assert get(served, "/live.css")[0] == 200
    status, body, headers = get(served, "/", "HEAD")
    assert (status, body) == (200, "")
    assert int(headers["Content-Length"]) == len(page.encode())


def test_runs_of_files_and_of_the_store_are_listed(served: PerfServer) -> None:
    state = json.loads(get(served, "/api/state")[1])
    assert [(run["commit"], run["name"], run["timed"]) for run in state["runs"]] == [
        (commit(2)[:9], "", 1),
        (commit(1)[:9], "one.json", 1),
    ]
    assert (state["progress"], state["errors"]) == ([], [])
    [row] = json.loads(get(served, f"/api/runs/{state['runs'][1]['id']}")[1])["rows"]
    assert (row["title"], row["seconds"]) == ("overhead: a 64x64 float32", 1.0)
    assert row["ratios"]["torch"][0] == 1.0


def test_new_runs_and_progress_arrive_in_the_stream(served: PerfServer, tmp_path: Path) -> None:
    stream = Stream(served)
    assert "text/event-stream" in stream.head
    first = stream.state()
    assert first is not None
    assert (len(first["runs"]), first["progress"]) == (2, [])
    result = a_result(3, {"a": [1.0]})
    replace(result, complete=False).write(tmp_path / "new.json")
    with ProgressFile(progress_path(tmp_path / "new.json")) as progress:
        progress.write(title="overhead: a", done=1, total=4)
        assert served.watcher.poll()
        second = stream.state()
        assert second is not None
        assert second["progress"] == [
            {"file": "new.json", "title": "overhead: a", "done": 1, "total": 4, "part": ""}
        ]
        assert [run["complete"] for run in second["runs"] if run["name"] == "new.json"] == [False]
        assert not served.watcher.poll()
    result.write(tmp_path / "new.json")
    assert served.watcher.poll()
    third = stream.state()
    assert third is not None
    assert (third["progress"], third["runs"][0]["complete"]) == ([], True)
    stream.close()


def test_streams_end_with_the_server(served: PerfServer) -> None:
    stream = Stream(served)
    assert stream.state() is not None
    served.watcher.close()
    assert stream.state() is None
    stream.close()


def test_streams_are_bounded(served: PerfServer) -> None:
    served.streams = threading.BoundedSemaphore(1)
    stream = Stream(served)
    assert stream.state() is not None
    assert get(served, "/events")[0] == 503
    stream.close()


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/live.js/../server.py", "/server.py", "//etc/passwd",
        "/live.html", "/one.json", "/api/runs/../state", "/api/runs/zzzz", f"/api/runs/{'0' * 16}", "/.", "*",
        "http://example.org/", "/api/state\\..",
    ],
)  # fmt: skip
def test_other_paths_are_not_found(served: PerfServer, path: str) -> None:
    answer = raw(served, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    status = int(answer.split()[1])
    assert status == (200 if path == "http://example.org/" else 404), answer
    assert b"root:" not in answer


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_other_methods_are_refused(served: PerfServer, method: str) -> None:
    status, _, headers = get(served, "/", method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 413),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"x: y\r\n" * 200 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nx: " + b"y" * 70_000 + b"\r\n\r\n", 431),
        (b"SING / HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
        (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", 505),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
    ],
)
def test_bad_and_huge_requests_are_refused(served: PerfServer, request_bytes: bytes, status: int) -> None:
    answer = raw(served, request_bytes)
    assert str(status).encode() in answer.split(b"\r\n")[0] or f"code: {status}".encode() in answer, answer[
        :300
    ]
    assert get(served, "/api/state")[0] == 200


def test_names_of_other_hosts_are_refused(served: PerfServer) -> None:
    port = served.server_address[1]
    assert get(served, "/", Host=f"evil.example:{port}")[0] == 403
    for name in (f"localhost:{port}", f"127.0.0.1:{port}", "LOCALHOST", f"[::1]:{port}"):
        assert get(served, "/", Host=name)[0] == 200


def test_a_client_that_goes_away_leaves_the_server_up(served: PerfServer) -> None:
    for request in (b"", b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET / HT"):
        with socket.create_connection(served.server_address[:2], timeout=PATIENCE) as connection:
            connection.sendall(request)
    assert get(served, "/api/state")[0] == 200


def test_connections_are_bounded(served: PerfServer) -> None:
    served.connections = threading.BoundedSemaphore(1)
    stream = Stream(served)
    assert stream.state() is not None
    assert raw(served, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
    stream.close()


def test_the_report_covers_all_runs_and_is_made_once_for_a_state(
    served: PerfServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[int] = []

    def page(data: Any) -> str:
        made.append(len(data["files"]))
        return "<p>page</p>"

    monkeypatch.setattr(server_module, "format_page", page)
    assert get(served, "/report")[1] == get(served, "/report")[1] == "<p>page</p>"
    assert made == [2]
    a_result(3, {"a": [1.0]}).write(tmp_path / "new.json")
    served.watcher.poll()
    get(served, "/report")
    assert made == [2, 3]


def test_without_a_run_there_is_no_report_and_damaged_files_are_named(tmp_path: Path) -> None:
    watcher = Watcher([tmp_path / "damaged.json", tmp_path / "none.json"])
    (tmp_path / "damaged.json").write_text("{")
    assert watcher.poll()
    assert "damaged.json: damaged, or no result file" in watcher.state()[1]["errors"][0]
    with PerfServer(("127.0.0.1", 0), watcher) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        status, text, _ = get(server, "/report")
        server.shutdown()
    assert (status, text) == (503, "there is no run to report yet\n")


def test_a_run_of_the_store_whose_file_is_watched_is_shown_once(tmp_path: Path) -> None:
    whole = a_result(1, {"a": [1.0], "b": [1.0]})
    partial = replace(whole, rows=whole.rows[:1], complete=False)
    whole.write(tmp_path / "one.json")
    watcher = Watcher([tmp_path], a_history(tmp_path / "h.sqlite", [partial, a_result(2, {"a": [1.0]})]))
    watcher.poll()
    runs = watcher.state()[1]["runs"]
    assert [(run["name"], run["rows"]) for run in runs] == [("", 1), ("one.json", 2)]
    assert len(watcher.results()) == 2


def test_progress_of_ended_and_foreign_runs(tmp_path: Path) -> None:
    path = tmp_path / "r.json.progress"
    state = {"title": "t", "done": 0, "total": 1, "part": "", "pid": os.getpid(), "host": platform.node()}
    path.write_text(json.dumps(state))
    found = read_progress(path)
    assert found is not None
    assert is_running(found)
    for pid in (2**22 + 1, 0, -1, 10**30):
        assert not is_running(found | {"pid": pid})
    assert is_running(found | {"pid": 0, "host": "another"})
    for text in ("", "[]", "{}", json.dumps({**state, "done": "x"})):
        path.write_text(text)
        assert read_progress(path) is None


def test_a_process_keeps_the_file_of_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.json.progress"
    with ProgressFile(path) as parent:
        parent.write(part="process 2 of 7")
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: -5)
            with ProgressFile(path) as child:
                child.write(title="a", done=1, total=3)
        found = read_progress(path)
        assert found is not None
        assert (found["part"], found["title"], found["pid"]) == ("process 2 of 7", "a", os.getpid())
    assert not path.exists()


def test_a_run_writes_its_progress_and_removes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, seen = tmp_path / "r.json", []
    row = run_module.Measurement.row

    def watched(self: Any, workload: Any) -> Any:
        found = read_progress(progress_path(output))
        assert found is not None
        seen.append((found["title"] == workload.title, found["done"], found["total"]))
        return row(self, workload)

    monkeypatch.setattr(run_module.Measurement, "row", watched)
    cores = os.sched_getaffinity(0)
    argv = [
        "perf",
        "run",
        "--suite",
        "allocator",
        "--rehearse",
        "--peers",
        "--threads",
        "1",
        "-o",
        str(output),
    ]
    monkeypatch.setattr(sys, "argv", argv)
    command.main()
    os.sched_setaffinity(0, cores)
    assert seen == [(True, number, len(seen)) for number in range(len(seen))]
    assert seen
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_processes_of_a_run_share_one_progress_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, parts = tmp_path / "r.json", []

    def run_one(arguments: list[str]) -> int:
        assert arguments[arguments.index("--progress") + 1] == str(progress_path(output))
        found = read_progress(progress_path(output))
        assert found is not None
        parts.append(found["part"])
        a_result(1, {"a": [1.0]}).write(Path(arguments[-1]))
        return 0

    monkeypatch.setattr(processes, "_run", run_one)
    argv = ["perf", "run", "--suite", "allocator", "--peers", "--processes", "2", "-o", str(output)]
    monkeypatch.setattr(sys, "argv", argv)
    assert command.main() == 0
    assert parts == ["process 1 of 2", "process 2 of 2"]
    assert not progress_path(output).exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "70000"], "--port must be between 0 and 65535, got 70000"),
        (["--host", "example.org"], "--host must be an IP address"),
        (["--poll", "0"], "--poll must be positive"),
        (["--history", "none.sqlite"], "none.sqlite: no such file"),
        (["--host", "192.0.2.1", "--port", "0"], "cannot listen on 192.0.2.1 port 0"),
    ],
)
def test_bad_arguments_are_refused_with_status_2(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["perf", "serve", *arguments])
    assert command.main() == 2
    assert message in capsys.readouterr().err


def test_the_command_prints_its_address_and_ends_at_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def interrupted(self: PerfServer) -> None:
        assert self.url.startswith("http://127.0.0.1:")
        raise KeyboardInterrupt

    monkeypatch.setattr(PerfServer, "serve_forever", interrupted)
    monkeypatch.setattr(sys, "argv", ["perf", "serve", str(tmp_path), "--port", "0"])
    assert command.main() == 0
    assert capsys.readouterr().out.startswith("http://127.0.0.1:")
