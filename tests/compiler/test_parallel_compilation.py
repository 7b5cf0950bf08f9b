"""Kernels compiled in worker processes: the store's contents, errors, and machines without workers."""

import importlib.util
import subprocess
import sys
import warnings
from collections import deque
from pathlib import Path
from typing import Any

import pytest

import triten as tt
from triten.compiler.parallel import pool
from triten.compiler.triton.source_files import module_of
from triten.runtime.cuda.triton.compile import chosen_options
from triten.runtime.cuda.triton.cubin_store import store
from triten.runtime.cuda.triton.kernel_key import KernelRequest, kernel_key
from triten.tests.compiler.beside_eager import drawn

if sys.platform != "linux" and importlib.util.find_spec("triton") is None:
    pytest.skip("triton has no wheel for this platform", allow_module_level=True)

CUDA = 12080


@pytest.fixture(autouse=True)
def empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITEN_CACHE_DIR", str(tmp_path))


def request(function: Any, device: str = "cuda") -> KernelRequest:
    """Return the compilation request for the kernel of a function of two tensors."""
    found = tt.compiler.explain(function, drawn(64, device=device), drawn(64, device=device))
    ((name, text),) = found.sources.items()
    signature = {"a0": "*fp32", "a1": "*fp32", "b0": "*fp32", "n": "i32"}
    return KernelRequest(
        getattr(module_of(text), name),
        signature,
        {"BLOCK": 512},
        frozenset(signature),
        90,
        chosen_options({"num_warps": 4, "num_stages": 3, "enable_fp_fusion": False}),
    )


def requests() -> list[KernelRequest]:
    return [request(lambda a, b: (a + b) * a - 1), request(lambda a, b: (a - b).relu() * b)]


def is_stored(asked: KernelRequest) -> bool:
    kept, key = store(), kernel_key(asked, CUDA)
    assert kept is not None and key is not None
    return kept.read(key) is not None


def broken(asked: KernelRequest) -> KernelRequest:
    return asked._replace(signature={**asked.signature, "a1": "fp32"})  # which is no pointer


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the kernels that this process is asked to compile; it cannot compile them, because it
    interprets kernels.
    """
    names: list[str] = []

    def compile_request(asked: KernelRequest, cuda: int) -> str | None:
        names.append(asked.kernel.__name__)
        return None if asked.signature["a1"].startswith("*") else "CompilationError: no pointer"

    monkeypatch.setattr(pool, "compile_request", compile_request)
    return names


def test_this_process_names_what_does_not_compile(own: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    good, other = requests()
    with pytest.warns(
        RuntimeWarning, match="compile: kernel 'sub_relu_mul' does not compile: CompilationError"
    ):
        pool.compile_all([good, broken(other)], CUDA, 2)
    assert own == ["add_mul_sub", "sub_relu_mul"]
    assert capsys.readouterr().err == "", "no progress where stderr is no terminal"


def test_a_process_compiles_and_names_what_does_not() -> None:
    good, other = requests()
    errors: list[str] = []
    worker = pool._Worker(deque([good, broken(other)]), CUDA, pool._Progress(2), errors)
    worker.thread.join()
    worker.end()
    assert worker.is_ready and is_stored(good) and not is_stored(broken(other))
    assert len(errors) == 1 and errors[0].startswith("kernel 'sub_relu_mul' does not compile: ")


@pytest.mark.parametrize("start", [0.0, 1e9])
def test_processes_are_started_where_they_are_worth_it(
    start: float, own: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def refuse(*args: Any, **kwargs: Any) -> Any:
        started.append(1)
        raise OSError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(pool, "START", start)
    warned = "no process can be started to compile kernels: no more processes" if not start else None
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        pool.compile_all(requests(), CUDA, 2)
    assert bool(started) == (not start)
    assert [str(each.message) for each in found] == ([f"compile: {warned}"] if warned else [])
    assert len(own) == 2, "this process compiles what no other does"


def test_a_process_that_ends_at_its_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "WORKER", "no_such_module")
    errors: list[str] = []
    worker = pool._Worker(deque(requests()), CUDA, pool._Progress(2), errors)
    worker.thread.join()
    worker.end()
    assert errors == ["a process that was to compile kernels ended at its start"] and len(worker.waiting) == 2


def test_how_many_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    assert pool.thread_count() == 3
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    assert pool.thread_count() == 8
    monkeypatch.setenv("TRITEN_COMPILE_THREADS", "2")
    assert pool.thread_count() == 2
    monkeypatch.setenv("TRITEN_COMPILE_THREADS", "many")
    with pytest.raises(
        ValueError, match="TRITEN_COMPILE_THREADS: expected a number of processes, got 'many'"
    ):
        pool.thread_count()


def test_progress_is_a_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    class Terminal:
        write = staticmethod(written.append)

        @staticmethod
        def isatty() -> bool:
            return True

        @staticmethod
        def flush() -> None:
            pass

    monkeypatch.setattr(sys, "stderr", Terminal)
    progress = pool._Progress(2)
    progress.step()
    progress.end()
    assert written == ["\rcompiling kernels: 0 of 2", "\rcompiling kernels: 1 of 2", "\r\x1b[K"]


def test_a_kernel_whose_constants_are_no_text_is_compiled_here(
    own: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = requests()
    second = second._replace(constexprs={**second.constexprs, "COMBINE": max})
    asked: list[str] = []
    monkeypatch.setattr(pool, "START", 0.0)
    monkeypatch.setattr(
        pool,
        "_started",
        lambda count, waiting, *rest: asked.extend(each.kernel.__name__ for each in waiting) or [],
    )
    pool.compile_all([first, second], CUDA, 2)
    assert sorted(own) == sorted([first.kernel.__name__, second.kernel.__name__])
    assert own[0] == second.kernel.__name__ and asked == [first.kernel.__name__]
