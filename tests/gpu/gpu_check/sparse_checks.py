"""Sparse tensors on the device beside dense arithmetic on the host: what no table of dense arguments reaches."""

from __future__ import annotations

from typing import Any

import numpy as np

import triten as tt

from .first_checks import check, fresh_numbers, is_rehearsal, require, some_of

DTYPES = (tt.float32, tt.float64, tt.bfloat16, tt.float16)
TOLERANCES = {tt.float32: 2e-5, tt.float64: 1e-12, tt.bfloat16: 2e-2, tt.float16: 4e-3}


def drawn(rng: np.random.Generator, dtype: tt.dtype, rows: int, columns: int, share: float) -> Any:
    """Return a random matrix on the host with the given density."""
    whole = rng.standard_normal((rows, columns)) * (rng.random((rows, columns)) < share)
    whole[rows // 2] = rng.standard_normal(columns)  # a row that is cut into pieces
    return tt.from_numpy(whole.astype(np.float32)).to(dtype)


def near(what: str, found: Any, expected: Any, dtype: tt.dtype) -> None:
    """Raise unless two dense tensors agree."""
    got = found.detach().cpu().to(tt.float64).numpy()
    wanted = expected.to(tt.float64).numpy()
    scale = max(float(np.abs(wanted).max(initial=0.0)), 1.0)
    error = float(np.abs(got - wanted).max(initial=0.0))
    require(error <= TOLERANCES[dtype] * scale, f"{what} of {dtype}: off by {error:.3g} of {scale:.3g}")


@check("sparse: products with compressed rows, blocks and coordinates agree with dense ones")
def sparse_products() -> str:
    rng, checked = fresh_numbers(), 0
    rows, columns, width = (12, 1100, 24) if is_rehearsal() else (3000, 5000, 200)
    for dtype in some_of(DTYPES):
        whole = drawn(rng, dtype, rows, columns, 0.02)
        dense = tt.from_numpy(rng.standard_normal((columns, width)).astype(np.float32)).to(dtype)
        expected = (whole.double() @ dense.double()).to(dtype)
        device = whole.to("cuda")
        for made in (
            device.to_sparse(),
            device.to_sparse_csr(),
            device.to_sparse_csc(),
            device.to_sparse_bsr((4, 10)),
        ):
            near(f"product of {made.layout}", made @ dense.to("cuda"), expected, dtype)
            checked += 1
    return f"{checked} products"


@check("sparse: products at given places, and gradients of sparse operands")
def sampled_products() -> str:
    rng = fresh_numbers()
    rows, columns, width = (30, 50, 40) if is_rehearsal() else (2000, 3000, 300)
    for dtype in some_of((tt.float32, tt.float64)):
        whole = drawn(rng, dtype, rows, columns, 0.05)
        a = tt.from_numpy(rng.standard_normal((rows, width))).to(dtype)
        b = tt.from_numpy(rng.standard_normal((width, columns))).to(dtype)
        places = whole.to("cuda").to_sparse_csr()
        found = tt.sparse.sampled_addmm(places, a.to("cuda"), b.to("cuda"), beta=0)
        near("sampled product", found.to_dense(), (a @ b) * (whole != 0), dtype)
        leaf = whole.to("cuda").to_sparse().requires_grad_()
        (tt.sparse.mm(leaf, b.t().contiguous().to("cuda"))).sum().backward()
        require(leaf.grad is not None and leaf.grad.layout is tt.sparse_coo, "the gradient is not sparse")
        ones = tt.ones(rows, width, dtype=dtype)
        near("gradient", leaf.grad.to_dense(), (ones @ b) * (whole != 0), dtype)
    return "products and gradients"


@check(
    "sparse: coordinates are sorted, added up, summed, normalised and joined as on the host", composed=True
)
def coordinates() -> str:
    rng = fresh_numbers()
    count, side = (500, 20) if is_rehearsal() else (200_000, 700)
    indices = tt.from_numpy(rng.integers(0, side, (2, count)))
    for dtype in some_of((tt.float32, tt.int64)):
        values = tt.from_numpy(rng.integers(-9, 9, count)).to(dtype)
        host = tt.sparse_coo_tensor(indices, values, (side, side))
        device = host.to("cuda")
        calls: dict[str, Any] = {
            "coalesce": lambda x: x.coalesce(),
            "sum": lambda x: tt.sparse.sum(x, 0),
            "add": lambda x: x + x,
            "mul": lambda x: x * x,
            "times dense": lambda x: x * tt.arange(side, device=x.device).to(x.dtype),
            "transpose": lambda x: x.t().coalesce(),
            "select": lambda x: x[3],
            "index_select": lambda x: x.index_select(1, tt.tensor([3, 1, 3], device=x.device)),
            "cat": lambda x: tt.cat([x, x], 1),
        }
        if dtype.is_floating_point:
            calls["softmax"] = lambda x: tt.sparse.softmax(x, 1)
        for name, call in calls.items():
            found, expected = call(device).to_dense().cpu(), call(host).to_dense()
            if dtype.is_floating_point:
                near(name, found, expected, dtype)
            else:
                require(found.equal(expected), f"{name} of {dtype} differs")
    return "sums, products, shapes"
