"""Tensors of coordinates: made, looked at, coalesced, made dense, copied, on the CPU and on CUDA."""

import pytest

import triten as tt


def example(device: str) -> tt.Tensor:
    return tt.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 3), device=device)


def test_what_a_sparse_tensor_says_of_itself(device: str) -> None:
    x = example(device)
    assert x.layout is tt.sparse_coo
    assert x.is_sparse
    assert not x.is_sparse_csr
    assert x.shape == (2, 3)
    assert (x._nnz(), x.sparse_dim(), x.dense_dim(), x.is_coalesced()) == (3, 2, 0, False)
    keys = str(tt.DispatchKeySet.from_raw_repr(x._spec.key_set))
    assert f"Sparse{device.upper()}" in keys


def test_repeated_coordinates_add_up(device: str) -> None:
    x = example(device).coalesce()
    assert x.is_coalesced()
    assert x.indices().tolist() == [[0, 1], [2, 0]]
    assert x.values().tolist() == [3.0, 9.0]
    assert example(device).to_dense().tolist() == [[0.0, 0.0, 3.0], [9.0, 0.0, 0.0]]
    assert x.coalesce() is x


def test_dense_dimensions_lie_in_the_values(device: str) -> None:
    x = tt.arange(12.0, device=device).reshape(2, 3, 2).to_sparse(2)
    assert (x.sparse_dim(), x.dense_dim(), x._nnz()) == (2, 1, 6)
    assert x.to_dense().equal(tt.arange(12.0, device=device).reshape(2, 3, 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0, 2]], [1.0, 2.0], (2,)), "found index 2"),
        (([[0, -1]], [1.0, 2.0], (2,)), "negative index -1"),
        (([[0, 1]], [1.0], (2,)), "same nnz"),
        (([[0, 1]], [1.0, 2.0], (2, 2)), "len"),
        (([0, 1], [1.0, 2.0], (2,)), "sparse_dim x nnz"),
        (([[0]], [1.0], (2**40, 2**40)), "len"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    arguments: tuple[list[list[int]], list[float], tuple[int, ...]], message: str
) -> None:
    with pytest.raises(RuntimeError, match=message):
        tt.sparse_coo_tensor(*arguments)


def test_an_operator_without_a_sparse_kernel_is_refused(device: str) -> None:
    with pytest.raises(NotImplementedError, match=f"aten::exp.*Sparse{device.upper()}"):
        example(device).exp()
    with pytest.raises(NotImplementedError, match="aten::view"):
        example(device).view(6)


def test_it_prints_as_in_pytorch() -> None:
    assert repr(example("cpu")) == (
        "tensor(indices=tensor([[0, 1, 1],\n"
        "                       [2, 0, 0]]),\n"
        "       values=tensor([3., 4., 5.]),\n"
        "       size=(2, 3), nnz=3, layout=triten.sparse_coo)"
    )


def test_the_gradient_of_a_sparse_leaf_is_sparse(device: str) -> None:
    x = example(device).requires_grad_()
    weights = tt.arange(6.0, device=device).reshape(2, 3)
    (x.to_dense() * weights).sum().backward()
    assert x.grad is not None
    assert x.grad.layout is tt.sparse_coo
    assert x.grad.to_dense().tolist() == [[0.0, 0.0, 2.0], [3.0, 0.0, 0.0]]


def test_values_get_their_gradient_through_the_sparse_tensor(device: str) -> None:
    values = tt.tensor([3.0, 4.0, 5.0], device=device, requires_grad=True)
    x = tt.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], values, (2, 3), device=device)
    (x.to_dense() * tt.arange(6.0, device=device).reshape(2, 3)).sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == [2.0, 3.0, 3.0]


@pytest.mark.parametrize("convert", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_an_index_of_a_sparse_tensor_is_not_written_to(convert: str) -> None:
    x = getattr(tt.eye(2), convert)()
    for index in ((0, 0), 0, Ellipsis, slice(None)):
        with pytest.raises(TypeError, match="Cannot assign to a sparse tensor"):
            x[index] = 1.0
    assert x.to_dense().tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("num_sparse", [1, 2, 3])
def test_unbind_gives_the_slices(dim: int, num_sparse: int) -> None:
    dense = tt.arange(12.0).reshape(2, 2, 3) % 5
    sparse = dense.to_sparse(num_sparse)
    parts = sparse.unbind(dim)
    assert [part.to_dense().tolist() for part in parts] == [part.tolist() for part in dense.unbind(dim)]
    assert [part.to_dense().tolist() for part in sparse] == dense.tolist()
