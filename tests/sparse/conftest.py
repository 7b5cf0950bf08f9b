"""What tests of sparse tensors share: tensors drawn with repeated coordinates and dense dimensions."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import triten as tt

Draw = Callable[..., tt.Tensor]


@pytest.fixture
def draw(rng: np.random.Generator, device: str) -> Draw:
    """``draw(size, dense_dim=0, nnz=7, dtype=tt.float32, coalesced=False)``: a sparse tensor on the test's device."""

    def make(
        size: Sequence[int],
        dense_dim: int = 0,
        nnz: int = 7,
        dtype: tt.dtype = tt.float32,
        coalesced: bool = False,
    ) -> tt.Tensor:
        sparse = list(size)[: len(size) - dense_dim]
        indices = np.stack([rng.integers(0, n, nnz) for n in sparse]).astype(np.int64)
        values = rng.integers(1, 9, (nnz, *list(size)[len(sparse) :])) * rng.choice(
            [-1, 1], (nnz,) + (1,) * dense_dim
        )
        made = tt.sparse_coo_tensor(
            tt.from_numpy(indices), tt.from_numpy(values).to(dtype), tuple(size), device=device
        )
        return made.coalesce() if coalesced else made

    return make
