"""Matrix functions in one CPU kernel agree with their composites, strides included."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.dispatch.structured import stub
from triten.dispatch.structured.record_kernels import record_kernels


def large(x: Any, rows: int, columns: int) -> Any:
    """Return a larger matrix of full rank."""
    return x.repeat(20, 20)[:rows, :columns] + 9 * tt.eye(rows, columns, dtype=x.dtype)


MATRICES = {
    "det": lambda a, b: tt.linalg.det(a),
    "_linalg_det": lambda a, b: tt.ops.aten._linalg_det(a),
    "slogdet": lambda a, b: tt.linalg.slogdet(a),
    "_linalg_slogdet": lambda a, b: tt.ops.aten._linalg_slogdet(a),
    "logdet": lambda a, b: tt.logdet(a),
    "inv": lambda a, b: tt.linalg.inv(a),
    "inv_ex": lambda a, b: tt.linalg.inv_ex(a),
    "solve": lambda a, b: tt.linalg.solve(a, b),
    "solve a vector": lambda a, b: tt.linalg.solve(a, b[:, 0]),
    "solve_ex": lambda a, b: tt.linalg.solve_ex(a, b),
    "_linalg_solve_ex": lambda a, b: tt.ops.aten._linalg_solve_ex(a, b),
    "lu_factor": lambda a, b: tt.linalg.lu_factor(b),
    "lu": lambda a, b: tt.linalg.lu(b),
    "lu of a wide one": lambda a, b: tt.linalg.lu(b.mT),
    "lu_unpack": lambda a, b: tt.lu_unpack(*tt.linalg.lu_factor(b)),
    "lu of a large one": lambda a, b: tt.linalg.lu(large(a, 72, 120)),
    "lu_unpack of a large one": lambda a, b: tt.lu_unpack(*tt.linalg.lu_factor(large(b, 120, 80))),
    "lu_solve": lambda a, b: tt.linalg.lu_solve(*tt.linalg.lu_factor(a), b),
    "lu_solve, adjoint": lambda a, b: tt.linalg.lu_solve(*tt.linalg.lu_factor(a), b, adjoint=True),
    "lu_solve of two": lambda a, b: tt.linalg.lu_solve(
        *tt.linalg.lu_factor(tt.stack([a, a.mT])), tt.stack([b, b]), adjoint=True
    ),
    "qr": lambda a, b: tt.linalg.qr(b),
    "qr of a wide one": lambda a, b: tt.qr(b.mT),
    "cholesky": lambda a, b: tt.linalg.cholesky(a @ a.mH),
    "cholesky, upper": lambda a, b: tt.cholesky(a @ a.mH, upper=True),
    "cholesky_solve": lambda a, b: tt.cholesky_solve(b, a),
    "cholesky_solve, upper": lambda a, b: tt.cholesky_solve(b, a, upper=True),
    "cholesky_inverse": lambda a, b: tt.cholesky_inverse(tt.linalg.cholesky(a @ a.mH)),
    "cholesky_inverse, upper": lambda a, b: tt.cholesky_inverse(tt.linalg.cholesky(a @ a.mH).mH, upper=True),
    "triangular_solve": lambda a, b: tt.triangular_solve(b, a, transpose=True),
    "eigvalsh": lambda a, b: tt.linalg.eigvalsh(a, "U"),
    "svdvals": lambda a, b: tt.linalg.svdvals(b),
    "matrix_rank": lambda a, b: tt.linalg.matrix_rank(b),
    "matrix_rank, hermitian": lambda a, b: tt.linalg.matrix_rank(a, hermitian=True),
    "cond": lambda a, b: tt.linalg.cond(b),
    "ldl_factor": lambda a, b: tt.linalg.ldl_factor(a, hermitian=True),
    "lstsq": lambda a, b: tt.linalg.lstsq(b.mT, b.mT, driver="gels"),
    "lstsq of two": lambda a, b: tt.linalg.lstsq(tt.stack([a, a.mT]), tt.stack([b, b]), driver="gels"),
    **{f"matrix_power {n}": lambda a, b, n=n: tt.linalg.matrix_power(a, n) for n in (0, 1, 2, 7, -2)},
    "pinv": lambda a, b: tt.linalg.pinv(b),
    "pinv, hermitian": lambda a, b: tt.linalg.pinv(a, hermitian=True),
    "pinverse": lambda a, b: tt.pinverse(b),
    "tensorinv": lambda a, b: tt.linalg.tensorinv(a.reshape(2, 3, 6), ind=2),
    "tensorsolve": lambda a, b: tt.linalg.tensorsolve(a.reshape(2, 3, 6), b[:, 0].reshape(2, 3)),
}
BATCHED = (
    *(
        "det",
        "slogdet",
        "logdet",
        "inv",
        "inv_ex",
        "solve",
        "solve_ex",
        "_linalg_solve_ex",
        "lu_factor",
        "lu",
    ),
    *("lu of a wide one", "lu_unpack", "lu_solve", "qr", "qr of a wide one", "cholesky", "cholesky, upper"),
    *(
        "cholesky_solve",
        "cholesky_inverse",
        "cholesky_inverse, upper",
        "triangular_solve",
        "eigvalsh",
        "svdvals",
    ),
    *(
        "matrix_rank",
        "matrix_rank, hermitian",
        "cond",
        "matrix_power 7",
        "pinv",
        "pinv, hermitian",
        "pinverse",
    ),
)


def of_batch(call: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return a function that calls another with a batch of matrices, the last of which are the given ones."""
    eye = tt.eye(6)

    def called(a: Any, b: Any) -> Any:
        whole = eye.to(a.dtype)
        return call(tt.stack([whole * 2, a.mT, a])[None], tt.stack([whole[:, :4], b + 1, b])[None])

    return called


MATRICES |= {f"{name}, batched": of_batch(MATRICES[name]) for name in BATCHED}
BASES = {
    "eigh": lambda a, b: tt.linalg.eigh(a),
    "svd": lambda a, b: tt.linalg.svd(b),
    "torch.svd": lambda a, b: tt.svd(b),
}
"""What is given up to signs: held to its shapes and strides alone."""


def operands(dtype: Any, seed: int = 0) -> tuple[Any, Any]:
    generator = tt.Generator().manual_seed(seed)
    a = tt.randn(6, 6, dtype=dtype, generator=generator)
    return a + 4 * tt.eye(6, dtype=dtype), tt.randn(6, 4, dtype=dtype, generator=generator)


def flat(results: Any) -> list[Any]:
    return [results] if isinstance(results, tt.Tensor) else list(results)


def both(call: Callable[..., Any], *given: Any) -> tuple[list[Any], list[Any]]:
    """Return the results of the kernels, and those of the composites, which run under `record_kernels`."""
    with record_kernels():
        composed = flat(call(*given))
    return flat(call(*given)), composed


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.complex64, tt.complex128], ids=str)
@pytest.mark.parametrize("name", [*MATRICES, *BASES])
def test_a_matrix_is_done_as_the_composition_does_it(name: str, dtype: Any) -> None:
    given = operands(dtype)
    for mine, theirs in zip(*both((MATRICES | BASES)[name], *given), strict=True):
        assert (mine.dtype, mine.shape, mine.stride()) == (theirs.dtype, theirs.shape, theirs.stride())
        assert mine._data.shape == mine.shape
        assert not mine.numel() or mine._data.strides == tuple(
            step * mine.element_size() for step in mine.stride()
        )
        if name in MATRICES:
            eps = tt.finfo(dtype).eps
            np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=2000 * eps, atol=2000 * eps)


@pytest.mark.parametrize("kind", ["singular", "nan", "infinite"])
@pytest.mark.parametrize("name", [*MATRICES, *BASES])
def test_a_bad_matrix_is_done_as_the_composition_does_it(name: str, kind: str) -> None:
    a, b = operands(tt.float64)
    if kind == "singular":
        a, b = tt.zeros(6, 6, dtype=tt.float64), tt.zeros(6, 4, dtype=tt.float64)
    else:
        a[2, 2] = b[2, 2] = math.nan if kind == "nan" else math.inf
    call = (MATRICES | BASES)[name]
    try:
        with record_kernels():
            expected = flat(call(a, b))
    except RuntimeError as error:
        with pytest.raises(type(error)) as raised:
            call(a, b)
        assert str(raised.value) == str(error)
        return
    for mine, theirs in zip(flat(call(a, b)), expected, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-12, atol=1e-12)


def test_the_kernels_serve_plain_calls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counting(call: stub.StructuredCall) -> None:
        seen.append(len(call.args))

    monkeypatch.setitem(stub._stubs, "linalg_inv_host_stub", {"cpu": counting})
    a = tt.eye(7) * 2
    assert tt.linalg.inv(a).tolist() == (tt.eye(7) / 2).tolist()
    assert seen == [1]
    b = a.clone().requires_grad_()
    tt.linalg.inv(b).sum().backward()
    assert seen == [1]
    assert b.grad is not None


def test_a_vmap_that_draws_leaves_plain_calls_their_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    tt.vmap(tt.rand_like, randomness="different")(tt.ones(3))
    seen: list[int] = []
    leave = {"cpu": lambda call: seen.append(len(call.args))}
    monkeypatch.setitem(stub._stubs, "linalg_inv_host_stub", leave)
    assert tt.linalg.inv(tt.eye(9)).tolist() == tt.eye(9).tolist()
    assert seen == [1]
