"""HTTP server over a watcher: fixed routes, read-only, on loopback unless told otherwise.

| Route | Answer |
|---|---|
| `/`, `/live.css`, `/live.js` | the page |
| `/events` | server-sent events: the state now, and after every change |
| `/api/state` | runs, progress and errors, as JSON |
| `/api/runs/ID` | rows of one run, as JSON |
| `/report` | the report of all runs |

No path of a request is mapped to a file. Other methods, request bodies, long targets, and names other than
this host's (DNS rebinding) are refused. The answers allow no other origin.
"""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import tempfile
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..refusal import RefusalError
from ..report.data import report_data
from ..report.page import format_page
from .watching import Watcher, rows_of

FILES = {
    "/": ("live.html", "text/html; charset=utf-8"),
    "/live.css": ("live.css", "text/css; charset=utf-8"),
    "/live.js": ("live.js", "text/javascript; charset=utf-8"),
}
RUN = re.compile(r"/api/runs/([0-9a-f]{16})")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)
MAX_TARGET = 2048
MAX_CONNECTIONS = 64
MAX_STREAMS = 32
SOCKET_SECONDS = 30.0
HEARTBEAT_SECONDS = 15.0
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


class PerfServer(ThreadingHTTPServer):
    """Server of the page and its data.

    Args:
        address: Host and port; port 0 takes a free one.
        watcher: State to show. `server_close` closes it.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], watcher: Watcher) -> None:
        self.watcher = watcher
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.streams = threading.BoundedSemaphore(MAX_STREAMS)
        self.connections = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._report_lock = threading.Lock()
        self._report: tuple[int, str] = (-1, "")
        super().__init__(address, Handler)
        self.is_loopback = ipaddress.ip_address(str(self.server_address[0])).is_loopback

    @property
    def url(self) -> str:
        """Address of the page."""
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_address[1]}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; close the connection at once if there are too many."""
        if not self.connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave connections that the client broke off unreported."""

    def server_close(self) -> None:
        """Close the socket, and end the streams."""
        self.watcher.close()
        super().server_close()

    def report(self) -> str:
        """Return the report of all runs, made once for each state. Raises RefusalError."""
        version = self.watcher.state()[0]
        with self._report_lock:
            if self._report[0] != version:
                self._report = (version, _report_page(self.watcher))
            return self._report[1]


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: PerfServer
    timeout = SOCKET_SECONDS
    server_version = "triten"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer GET and HEAD."""
        refused = self._refusal()
        if refused is not None:
            self._send(refused, "text/plain; charset=utf-8", f"{refused.phrase}\n")
            return
        path = urlsplit(self.path).path
        run = RUN.fullmatch(path)
        if path in FILES:
            name, kind = FILES[path]
            text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
            self._send(HTTPStatus.OK, kind, text, policy=POLICY)
        elif path == "/events":
            self._stream()
        elif path == "/api/state":
            self._send_json(self.server.watcher.state()[1])
        elif path == "/report":
            self._send_report()
        elif run is not None and (result := self.server.watcher.result(run[1])) is not None:
            self._send_json({"id": run[1], "rows": rows_of(result)})
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", "Not Found\n")

    do_HEAD = do_GET

    def _refuse_method(self) -> None:
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", "Method Not Allowed\n")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse_method

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing."""

    def _refusal(self) -> HTTPStatus | None:
        if len(self.path) > MAX_TARGET:
            return HTTPStatus.REQUEST_URI_TOO_LONG
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        if self.server.is_loopback:
            # A page of another origin may have its name resolve to this host; the browser then sends that name.
            host = re.sub(r":\d+$", "", self.headers.get("Host", "localhost")).lower()
            if host not in (*LOOPBACK_NAMES, str(self.server.server_address[0])):
                return HTTPStatus.FORBIDDEN
        return None

    def _send_json(self, value: Any) -> None:
        self._send(HTTPStatus.OK, "application/json", json.dumps(value, allow_nan=False) + "\n")

    def _send_report(self) -> None:
        try:
            page = self.server.report()
        except RefusalError as error:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", f"{error}\n")
            return
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", page)

    def _send(self, status: HTTPStatus, kind: str, text: str, *, policy: str = "") -> None:
        body = text.encode("utf-8", "backslashreplace")
        self._head(status, kind, policy)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: HTTPStatus, kind: str, policy: str = "") -> None:
        self.send_response(status)
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        if policy:
            self.send_header("Content-Security-Policy", policy)

    def _stream(self) -> None:
        if not self.server.streams.acquire(blocking=False):
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", "Too many streams\n")
            return
        try:
            self._head(HTTPStatus.OK, "text/event-stream")
            self.end_headers()
            if self.command == "HEAD":
                return
            watcher, sent = self.server.watcher, -1
            while not watcher.is_closed:
                version, state = watcher.state()
                if version > sent:
                    text = json.dumps(state, allow_nan=False)
                    self.wfile.write(f"id: {version}\nevent: state\ndata: {text}\n\n".encode())
                    sent = version
                elif not watcher.wait(sent, HEARTBEAT_SECONDS):
                    self.wfile.write(b": keep-alive\n\n")
        except OSError:
            return  # the client has gone
        finally:
            self.server.streams.release()


def _report_page(watcher: Watcher) -> str:
    results = watcher.results()
    if not results:
        raise RefusalError("there is no run to report yet")
    with tempfile.TemporaryDirectory(prefix="triten-serve-") as folder:
        paths = []
        for number, result in enumerate(results):
            paths.append(Path(folder) / f"{number}.json")
            paths[-1].write_text(json.dumps(result.as_json()), encoding="utf-8")
        return format_page(report_data(paths))
