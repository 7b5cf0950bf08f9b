"""Matmuls for which one thread is as quick have one BLAS thread."""

from collections.abc import Callable

import pytest

import triten as tt
from triten.runtime import blas_threads

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
