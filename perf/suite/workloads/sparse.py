"""Sparse tensors: products of compressed rows with dense matrices, products at given places, coordinates added up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..workload import Array, Operand, Scale, Workload, normal

COLUMNS = 64


def drawn(side: int, share: float, part: str) -> Callable[[], Array]:
    """Return a factory of ``crow`` or ``col`` of a random square CSR matrix with equally many elements per
    row.
    """

    def make() -> Array:
        count = max(int(side * share), 1)
        if part == "crow":
            return np.arange(side + 1, dtype=np.int64) * count
        rng = np.random.default_rng(side)
        rows = [np.sort(rng.choice(side, count, replace=False)) for _ in range(side)]
        return np.concatenate(rows).astype(np.int64)

    return make


def places(side: int, count: int) -> Callable[[], Array]:
    """Return a factory of coordinates with duplicates."""
    return lambda: np.random.default_rng(count).integers(0, side, (2, count))


def workloads(scale: Scale) -> Iterator[Workload]:
    """Rows by what is specified."""
    side = scale.side(10_000, 2_000, 64)
    for share in (0.001, 0.01):
        count = max(int(side * share), 1) * side
        size = f"{side}x{side} {share:.1%} @ {side}x{COLUMNS}"
        parts = {
            "r": Operand(drawn(side, share, "crow"), "int64"),
            "c": Operand(drawn(side, share, "col"), "int64"),
            "v": Operand(normal(count), "float32"),
        }
        made = f"tt.sparse_compressed_tensor(r, c, v, ({side}, {side}), layout=tt.sparse_csr, check_invariants=False)"
        yield Workload(
            "sparse", "mm", "rows by a matrix", size, "float32", f"{made} @ x",
            operands=parts | {"x": Operand(normal(side, COLUMNS), "float32")}, counted=False,
        )  # fmt: skip
        yield Workload(
            "sparse", "sparse_sampled_addmm", "at given places", size, "float32",
            f"tt.sparse.sampled_addmm({made}, x, y).values()",
            operands=parts
            | {"x": Operand(normal(side, COLUMNS), "float32"), "y": Operand(normal(COLUMNS, side), "float32")},
            counted=False,
        )  # fmt: skip
    count, side = scale.side(1_000_000, 100_000, 500), scale.side(2_000, 1_000, 32)
    coordinates = {
        "i": Operand(places(side, count), "int64"),
        "v": Operand(normal(count), "float32"),
    }
    made = f"tt.sparse_coo_tensor(i, v, ({side}, {side}), check_invariants=False)"
    for operator, statement in (
        ("_coalesce", f"{made}.coalesce().values()"),
        ("_sparse_sum", f"tt.sparse.sum({made}, 0).to_dense()"),
        ("_to_dense", f"{made}.to_dense()"),
    ):
        yield Workload(
            "sparse", operator, "coordinates", f"{count} in {side}x{side}", "float32", statement,
            operands=coordinates, counted=False,
        )  # fmt: skip
