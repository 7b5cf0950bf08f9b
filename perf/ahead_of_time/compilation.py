"""Requests compiled in worker processes, and results kept in a folder by their key."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from ..result_file import write_whole
from .disassembly import count_instructions, disassemble_together
from .request import Request
from .schedule import schedule_of, with_tensor_memory

BATCH = 64
"""How many kernels are disassembled together."""
SECONDS = 300
"""Time limit of one compilation."""
TAIL = 1000
"""Characters of a dead worker's error output to report."""


def default_cache() -> Path:
    """Return the cache folder: ``$XDG_CACHE_HOME/triten/aot``, by default under ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "triten" / "aot"


def compiling_environment() -> dict[str, str]:
    """Return this process's environment without the interpreter, which defines kernels that cannot be compiled.

    Triton leaves out line numbers, which no result has: compilations take 7% less time.
    """
    variables = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    return variables | {"TRITON_DISABLE_LINE_INFO": "1"}


class Cache:
    """Results by key, each a file; safe under several processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the cached result, or None. A damaged file counts as missing."""
        try:
            result = json.loads(self._path(key).read_text())
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        return result if isinstance(result, dict) else None

    def put(self, key: str, result: dict[str, Any]) -> None:
        """Store a result atomically: a concurrent reader sees all of it or nothing."""
        write_whole(self._path(key), json.dumps(result))


class Worker:
    """A compiling process, started again after each death."""

    def __init__(self, samples: str, seconds: float) -> None:
        self._samples, self._seconds = samples, seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    def compile(self, request: Request) -> dict[str, Any]:
        """Return the worker's answer. A crash or a timeout is returned as ``error``."""
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(asdict(request)).encode() + b"\n")
            process.stdin.flush()
            line = self._line(process.stdout)
        except BrokenPipeError:
            line = b""
        if line:
            return json.loads(line)  # type: ignore[no-any-return]
        return {"error": self._bury(process, late=line is None)}

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", f"{__package__}.worker", self._samples],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=compiling_environment(),
        )
        return self._process

    def _line(self, stream: IO[bytes]) -> bytes | None:
        """Return the next line, an empty one at the end of the stream, or None after a timeout."""
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            if not selector.select(self._seconds):
                return None
        return stream.readline()

    def _bury(self, process: subprocess.Popen[bytes], late: bool) -> str:
        if late:
            process.kill()
        code = process.wait()
        assert self._errors is not None
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip()[-TAIL:]
        self.close()
        if late:
            return f"the compiler took more than {self._seconds:g} s"
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return f"the compiler's process died ({how}): {words}"

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            process.wait()
            process.stdout.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None


def tools() -> Path:
    """Return the folder of ``nvdisasm`` in Triton's wheel. Raise ModuleNotFoundError without Triton."""
    spec = importlib.util.find_spec("triton")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'triton'", name="triton")
    return Path(spec.submodule_search_locations[0]) / "backends" / "nvidia" / "bin"


def with_code(answers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the findings in the machine code to the workers' answers.

    Code that the disassembler cannot read yields a result with ``error``.
    """
    try:
        texts = disassemble_together([base64.b64decode(each["cubin"]) for each in answers], tools())
    except subprocess.CalledProcessError as error:
        if len(answers) > 1:
            return [result for each in answers for result in with_code([each])]
        return [{"error": f"the disassembler failed: {error.stderr.strip()[-TAIL:]}"}]
    return [_with_sass(each["found"], sass) for each, sass in zip(answers, texts, strict=True)]


def _with_sass(properties: dict[str, Any], sass: str) -> dict[str, Any]:
    """Merge the properties that PTX shows with those that SASS shows."""
    operations = properties.pop("tensor_memory_operations")
    instructions = count_instructions(sass)
    schedule = with_tensor_memory(schedule_of(sass), operations, properties["threads"])
    return {
        **properties,
        "spills": instructions.spills,
        "matrix": instructions.matrix,
        "widths": {
            opcode: {str(bits): n for bits, n in counts.items()}
            for opcode, counts in instructions.widths.items()
        },
        "schedule": schedule.as_json(),
    }


def compile_all(
    requests: Iterable[Request],
    samples: str,
    cache: Cache,
    workers: int,
    seconds: float = SECONDS,
    done: Callable[[Request], None] = lambda _: None,
) -> dict[str, dict[str, Any]]:
    """Return the result of each request by its key, from the cache or newly compiled.

    Errors are not cached, since the machine may cause them.
    """
    results: dict[str, dict[str, Any]] = {}
    missing: queue.SimpleQueue[Request] = queue.SimpleQueue()
    for request in requests:
        cached = cache.get(request.key)
        if cached is None:
            missing.put(request)
        else:
            results[request.key] = cached
            done(request)

    def settle(compiled: list[tuple[Request, dict[str, Any]]]) -> None:
        answers = with_code([answer for _, answer in compiled]) if compiled else []
        for (request, _), result in zip(compiled, answers, strict=True):
            results[request.key] = result
            if "error" not in result:
                cache.put(request.key, result)
            done(request)
        compiled.clear()

    def work() -> None:
        worker = Worker(samples, seconds)
        compiled: list[tuple[Request, dict[str, Any]]] = []
        try:
            while True:
                try:
                    request = missing.get_nowait()
                except queue.Empty:
                    return settle(compiled)
                answer = worker.compile(request)
                if "error" in answer:
                    results[request.key] = answer
                    done(request)
                    continue
                compiled.append((request, answer))
                if len(compiled) == BATCH:
                    settle(compiled)
        finally:
            worker.close()

    threads = [threading.Thread(target=work) for _ in range(min(workers, missing.qsize()))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
