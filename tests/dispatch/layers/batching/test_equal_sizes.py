"""Rules of linear algebra where the batch is as large as the matrices, so that dimensions can be mistaken."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.tests.shared import comparison

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "solve": tt.linalg.solve,
    "solve from the right": lambda a, b: tt.linalg.solve(a, b, left=False),
    "solve_triangular": lambda a, b: tt.linalg.solve_triangular(a, b, upper=True),
    "cholesky_solve": lambda a, b: tt.cholesky_solve(b, a),
    "lu_solve": lambda a, b: tt.linalg.lu_solve(*tt.linalg.lu_factor(a), b),
    "lstsq": lambda a, b: tt.linalg.lstsq(a, b).solution,
    "matmul": tt.matmul,
    "inverse": lambda a, b: tt.linalg.inv(a) + b,
    "determinant": lambda a, b: tt.linalg.det(a) * b,
    "diag_embed": lambda a, b: tt.diag_embed(a[0]) + b,
    "select_scatter": lambda a, b: a.select_scatter(b[0], 0, 1),
    "slice_scatter": lambda a, b: a.slice_scatter(b[:2], 0, 1),
    "diagonal_scatter": lambda a, b: a.diagonal_scatter(b[0]),
    "copy": lambda a, b: tt.ops.aten.copy(a, b),
    "outer": lambda a, b: tt.outer(a[0], b[1]),
    "cross": lambda a, b: tt.linalg.cross(a, b),
    "vecdot": lambda a, b: tt.linalg.vecdot(a, b),
    "cdist": tt.cdist,
    "tensordot": lambda a, b: tt.tensordot(a, b, 2),
}


def matrices(rng: np.random.Generator, *shape: int) -> Any:
    return tt.from_numpy(rng.standard_normal(shape) + 4 * np.eye(3))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("mapped", ["a", "b", "both", "a within b", "b within a"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_mapped_call_is_that_of_each_example(name: str, mapped: str, rng) -> None:
    function = FUNCTIONS[name]
    first = matrices(rng, *((3, 3) if mapped == "b" else (3, 3, 3)))
    second = matrices(rng, *((3, 3) if mapped == "a" else (3, 3, 3)))
    if " within " in mapped:
        outer, inner = ((None, 0), (0, None)) if mapped == "a within b" else ((0, None), (None, 0))
        made = tt.vmap(tt.vmap(function, inner), outer)(first, second)
        rows, columns = (second, first) if mapped == "a within b" else (first, second)
        wanted = [
            tt.stack([function(c, r) if mapped == "a within b" else function(r, c) for c in columns])
            for r in rows
        ]
    else:
        dims = (None if mapped == "b" else 0, None if mapped == "a" else 0)
        made = tt.vmap(function, dims)(first, second)
        wanted = [
            function(first if mapped == "b" else first[i], second if mapped == "a" else second[i])
            for i in range(3)
        ]
    comparison.close(made, tt.stack(wanted), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [2, 3])
def test_derivatives_of_factorizations_are_mapped_over_as_many_as_there_are_rows(size: int, rng) -> None:
    a = rng.standard_normal((size, size))
    x = tt.from_numpy(a @ a.T + np.eye(size))
    direction = tt.from_numpy(rng.standard_normal((size, size)))
    functions: tuple[Callable[[Any], Any], ...] = (
        lambda a: tt.linalg.cholesky((a + a.mT) / 2),
        lambda a: tt.linalg.qr(a)[1],
        lambda a: tt.linalg.lu(a)[2],
        lambda a: tt.linalg.lu_factor(a)[0],
    )
    for function in functions:
        jacobian = tt.func.jacrev(function)
        step = 1e-6
        moved = (jacobian(x + step * direction) - jacobian(x - step * direction)) / (2 * step)
        for outer in (tt.func.jacrev, tt.func.jacfwd):
            for inner in (tt.func.jacrev, tt.func.jacfwd):
                second = outer(inner(function))(x)
                comparison.close((second * direction).sum((-2, -1)), moved, rtol=1e-5, atol=1e-6)
