"""Show runs in a browser as they arrive, with the progress of a running benchmark.

The server listens on this machine alone. It has neither passwords nor encryption: `--host` for another
address lets everyone who reaches it read the results.
"""

from __future__ import annotations

import argparse
import ipaddress
import sys
import threading
from pathlib import Path

from ..history import History
from ..refusal import RefusalError, require_positive
from .server import PerfServer
from .watching import Watcher

PORT = 8765
POLL_SECONDS = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf serve`."""
    parser.add_argument(
        "paths", nargs="*", type=Path, metavar="RESULT.json|FOLDER",
        help="result files, also future ones, and folders of result files; default: the current folder",
    )  # fmt: skip
    parser.add_argument("--history", type=Path, metavar="FILE", help="show the runs of this store too")
    parser.add_argument("--port", type=int, default=PORT, help="0 takes a free one (default %(default)s)")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="IP address to listen on (default %(default)s)"
    )
    parser.add_argument(
        "--poll", type=float, default=POLL_SECONDS, metavar="SECONDS",
        help="how often files are looked at (default %(default)s)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C. Raises RefusalError."""
    require_positive(arguments, "poll")
    if not 0 <= arguments.port <= 65535:
        raise RefusalError(f"--port must be between 0 and 65535, got {arguments.port}")
    try:
        address = ipaddress.ip_address(arguments.host)
    except ValueError:
        raise RefusalError(
            f"--host must be an IP address, such as 127.0.0.1, got {arguments.host!r}"
        ) from None
    if arguments.history is not None:
        History(arguments.history).close()
    watcher = Watcher(arguments.paths or ([] if arguments.history else [Path(".")]), arguments.history)
    watcher.poll()
    try:
        server = PerfServer((arguments.host, arguments.port), watcher)
    except OSError as error:
        raise RefusalError(
            f"cannot listen on {arguments.host} port {arguments.port}: {error.strerror}; --port 0 takes a free one"
        ) from None
    if not address.is_loopback:
        print("serve: everyone who reaches this address can read the results", file=sys.stderr)
    print(server.url, flush=True)
    stop = threading.Event()
    poller = threading.Thread(target=_poll, args=(watcher, stop, arguments.poll), daemon=True)
    poller.start()
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
        finally:
            stop.set()
    return 0


def _poll(watcher: Watcher, stop: threading.Event, seconds: float) -> None:
    while not stop.wait(seconds):
        watcher.poll()
