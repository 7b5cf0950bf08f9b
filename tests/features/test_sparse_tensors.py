"""Sparse tensors on the CPU, on CUDA and on Meta: create, coalesce, to_dense, add, mul, mm."""

import pytest

import triten as tt

LAYOUTS = (tt.sparse_coo, tt.sparse_csr)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_create_and_make_dense(device: str, layout: tt.layout) -> None:
    whole = tt.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]], device=device)
    x = whole.to_sparse(layout=layout)
    assert x.layout is layout
    assert x.device == whole.device
    assert x._nnz() == 3
    assert x.to_dense().equal(whole)
    assert x.values().tolist() == [2.0, 3.0, 4.0]


def test_coalesce(device: str) -> None:
    x = tt.sparse_coo_tensor([[1, 0, 1], [2, 1, 2]], [1.0, 2.0, 3.0], (2, 3), device=device)
    assert not x.is_coalesced()
    x = x.coalesce()
    assert x.indices().tolist() == [[0, 1], [1, 2]]
    assert x.values().tolist() == [2.0, 4.0]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_add_mul_and_mm(device: str, layout: tt.layout) -> None:
    a = tt.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]], device=device)
    b = tt.tensor([[1.0, 5.0, 0.0], [0.0, 0.0, 6.0]], device=device)
    c = tt.arange(6.0, device=device).reshape(3, 2)
    x, y = a.to_sparse(layout=layout), b.to_sparse(layout=layout)
    assert (x + y).layout is layout
    assert (x + y).to_dense().equal(a + b)
    assert (x * y).to_dense().equal(a * b)
    assert (x @ c).equal(a @ c)
    assert tt.mm(x, c).layout is tt.strided


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_meta(layout: tt.layout) -> None:
    x = tt.zeros(2, 3, layout=layout, device="meta")
    assert (x + x).layout is layout
    assert (x * 2).shape == (2, 3)
    product = x @ tt.empty(3, 4, device="meta")
    assert product.is_meta
    assert product.shape == (2, 4)
    assert product.layout is tt.strided


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_gradients(device: str, layout: tt.layout) -> None:
    x = tt.tensor([[0.0, 2.0], [3.0, 0.0]], device=device).to_sparse(layout=layout).requires_grad_()
    w = tt.ones(2, 2, device=device, requires_grad=True)
    tt.sparse.mm(x, w).sum().backward()
    assert x.grad is not None
    assert w.grad is not None
    assert x.grad.layout is layout
    assert x.grad.to_dense().tolist() == [[0.0, 2.0], [2.0, 0.0]]
    assert w.grad.tolist() == [[3.0, 3.0], [2.0, 2.0]]


def test_sparse_keys_stand_for_dense_ones() -> None:
    coo, csr = tt.eye(2).to_sparse(), tt.eye(2).to_sparse_csr()
    for x, key in ((coo, tt.DispatchKey.SparseCPU), (csr, tt.DispatchKey.SparseCsrCPU)):
        keys = tt.DispatchKeySet.from_raw_repr(x._spec.key_set)
        assert keys.has(key)
        assert not keys.has(tt.DispatchKey.CPU)
