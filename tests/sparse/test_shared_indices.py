"""Results of sparse operators own their indices, as their values; aliases and in-place forms keep them."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt

OPERATORS: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,
    "sin": tt.sin,
    "mul by a number": lambda x: x * 2,
    "mul by itself": lambda x: x * x,
    "relu": tt.relu,
}
COO = {
    "mul by dense": lambda x: x * tt.ones(2, 3),
    "div": lambda x: x / 2,
    "pow": lambda x: x**2,
    "softmax": lambda x: tt.sparse.softmax(x, 1),
    "sparse_mask": lambda x: tt.ones(2, 3).sparse_mask(x),
}
COMPRESSED = {"ones_like": tt.ones_like, "add": lambda x: x + x}


def dense() -> tt.Tensor:
    return tt.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])


@pytest.mark.parametrize("name", [*OPERATORS, *COO])
def test_writes_to_indices_reach_one_tensor(name: str) -> None:
    x = dense().to_sparse()
    out = {**OPERATORS, **COO}[name](x)
    expected = out.to_dense()
    out._indices().fill_(0)
    assert tt.equal(x.to_dense(), dense())
    again = {**OPERATORS, **COO}[name](x)
    x._indices().fill_(0)
    assert tt.equal(again.to_dense(), expected)


@pytest.mark.parametrize("name", [*OPERATORS, *COMPRESSED])
@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_writes_to_compressed_indices_reach_one_tensor(name: str, layout: str) -> None:
    x = getattr(dense(), f"to_sparse_{layout}")()
    out = {**OPERATORS, **COMPRESSED}[name](x)
    (out.col_indices() if layout == "csr" else out.row_indices()).fill_(0)
    (out.crow_indices() if layout == "csr" else out.ccol_indices()).fill_(0)
    assert tt.equal(x.to_dense(), dense())


def test_in_place_forms_and_aliases_keep_the_indices() -> None:
    x = dense().to_sparse()
    indices = x._indices()
    assert x.mul_(2)._indices().data_ptr() == indices.data_ptr()
    assert x.sin_()._indices().data_ptr() == indices.data_ptr()
    assert x.detach()._indices().data_ptr() == indices.data_ptr()
    assert x.coalesce()._indices().data_ptr() == indices.data_ptr()
    assert x.to_sparse()._values().data_ptr() == x._values().data_ptr()
