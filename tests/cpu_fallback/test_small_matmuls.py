"""Matmuls for which one thread is as quick have one BLAS thread."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

import triten as tt
from triten.runtime import blas_threads

from .small_matmuls import OPERATORS

F = tt.nn.functional
CALLS: dict[str, Callable[[tt.Tensor, tt.Tensor, tt.Tensor], tt.Tensor]] = {
    "mm": lambda x, w, b: x @ w.t(),
    "addmm": lambda x, w, b: tt.addmm(b, x, w.t()),
    "linear": lambda x, w, b: F.linear(x, w, b),
    "linear of a batch": lambda x, w, b: F.linear(x[None], w, b),
    "matmul of a batch": lambda x, w, b: tt.matmul(x[None], w.t()),
}


@pytest.mark.parametrize("name", CALLS)
def test_small_matmuls_hold_blas_to_one_thread(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    monkeypatch.setattr(blas_threads, "numpy_threads", lambda: 2)
    monkeypatch.setattr(blas_threads, "hold", held.append)
    monkeypatch.setattr(blas_threads, "restore", lambda threads: held.append(-threads))
    for rows, wanted in ((4, []), (90, [2, -2]), (1000, [])):
        x, w, b = tt.randn(rows, 100), tt.randn(70, 100), tt.randn(70)
        held.clear()
        found = CALLS[name](x, w, b)
        assert held == wanted, rows
        exact = x.double() @ w.double().t() + (b if name in ("addmm", "linear", "linear of a batch") else 0)
        tt.testing.assert_close(found.double().reshape(exact.shape), exact, rtol=1e-4, atol=1e-4)


def test_the_count_of_threads_is_restored_after_an_error() -> None:
    def fail(x: tt.Tensor) -> None:
        raise ValueError("no")

    before = blas_threads.numpy_threads()
    with pytest.raises(ValueError, match="no"):
        blas_threads.on_one_thread(fail)(tt.ones(1))
    assert blas_threads.numpy_threads() == before


@pytest.fixture(scope="module")
def matmuls_of() -> dict[str, dict[str, list[int]]]:
    """Return the multiplications of small matmuls inside operators, by operator and by whether BLAS was held."""
    program = "from triten.tests.cpu_fallback.small_matmuls import main; main()"
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    found: dict[str, dict[str, list[int]]] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize("name", OPERATORS)
def test_small_matmuls_inside_operators_hold_blas_to_one_thread(
    name: str, matmuls_of: dict[str, dict[str, list[int]]]
) -> None:
    assert matmuls_of[name]["held"]
    assert not matmuls_of[name]["free"]


@pytest.mark.parametrize("count", [2, 40])
def test_batches_of_small_matrices_are_shared_or_held(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    monkeypatch.setattr(blas_threads, "numpy_threads", lambda: 2)
    monkeypatch.setattr(blas_threads, "hold", held.append)
    x, y = tt.randn(count, 70, 103), tt.randn(count, 103, 70)
    out = tt.empty(count, 70, 70)
    tt.bmm(x, y, out=out)
    assert held
    tt.testing.assert_close(out.double(), x.double() @ y.double(), rtol=1e-4, atol=1e-4)
    tt.testing.assert_close(tt.matmul(x, y), out, rtol=0, atol=0)
    before = tt.get_num_threads()
    try:
        tt.set_num_threads(1)
        tt.testing.assert_close(tt.bmm(x, y), out, rtol=0, atol=0)
    finally:
        tt.set_num_threads(before)
