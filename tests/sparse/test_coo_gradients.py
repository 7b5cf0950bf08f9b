"""Gradients of sparse tensors, of the parts that they are made of, and of rows that were looked up."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt

from .conftest import Draw

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "to_dense": lambda x: x.to_dense(),
    "sparse.sum": lambda x: tt.sparse.sum(x),
    "sparse.sum over one": lambda x: tt.sparse.sum(x, 0).to_dense(),
    "times two": lambda x: (x * 2).to_dense(),
    "times itself": lambda x: (x * x).to_dense(),
    "times a dense one": lambda x: (x * tt.arange(4.0, dtype=x.dtype, device=x.device)).to_dense(),
    "added": lambda x: (x + x).to_dense(),
    "taken away": lambda x: (2 * x - x).to_dense(),
    "negative": lambda x: (-x).to_dense(),
    "abs": lambda x: x.abs().to_dense(),
    "relu": lambda x: x.relu().to_dense(),
    "pow": lambda x: (x**3).to_dense(),
    "div": lambda x: (x / 3).to_dense(),
    "log1p": lambda x: (x.abs().log1p()).to_dense(),
    "transpose": lambda x: x.t().to_dense(),
    "unsqueeze": lambda x: x.unsqueeze(0).to_dense(),
    "cat": lambda x: tt.cat([x, x]).to_dense(),
    "stack": lambda x: tt.stack([x, x]).to_dense(),
    "item": lambda x: x[1].to_dense(),
    "softmax": lambda x: tt.sparse.softmax(x, 1).to_dense(),
    "log_softmax": lambda x: tt.sparse.log_softmax(x, 0).to_dense(),
    "coalesce": lambda x: x.coalesce().to_dense(),
    "values": lambda x: x.coalesce().values(),
    "clone": lambda x: x.clone().to_dense(),
    "sparse_mask": lambda x: x.sparse_mask(x.detach().coalesce()).to_dense(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_differences(draw: Draw, name: str) -> None:
    check = tt.sparse.as_sparse_gradcheck(tt.autograd.gradcheck)
    x = draw((3, 4), dtype=tt.float64, coalesced=True).requires_grad_()
    assert check(FUNCTIONS[name], (x,), masked=True)


def test_gradients_of_values_have_no_history_of_their_own(draw: Draw) -> None:
    # As in PyTorch: the constructor's derivative is not recorded.
    x = draw((3, 4), dtype=tt.float64, coalesced=True)
    indices, values = x.indices(), x.values().clone().requires_grad_()
    made = tt.sparse_coo_tensor(indices, values, (3, 4), is_coalesced=True)
    (found,) = tt.autograd.grad((made * made).to_dense().sum(), values, create_graph=True)
    assert not found.requires_grad and tt.equal(found, 2 * values.detach())


def test_repeated_coordinates_have_one_gradient(device: str) -> None:
    x = tt.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,), device=device).requires_grad_()
    tt.sparse.sum(x * 3).backward()
    assert x.grad is not None
    assert x.grad.to_dense().tolist() == [3.0, 0.0]


def test_sparse_and_dense_gradients_add_up(device: str) -> None:
    for order in (lambda x: x.sum() + tt.sparse.sum(x), lambda x: tt.sparse.sum(x) + x.sum()):
        x = tt.sparse_coo_tensor([[0]], [1.0], (2,), device=device).requires_grad_()
        order(x).backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2.0, 1.0]


def test_without_a_mask_the_gradient_of_to_dense_is_whole(device: str) -> None:
    x = tt.sparse_coo_tensor([[0]], [1.0], (2,), device=device).requires_grad_()
    x.to_dense(masked_grad=False).sum().backward()
    assert x.grad is not None
    assert x.grad.to_dense().tolist() == [1.0, 1.0]


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "coo": lambda x: x.to_sparse(),
    "bsr": lambda x: x.to_sparse_bsr((2, 1)),
    "bsc": lambda x: x.to_sparse_bsc((2, 1)),
}


@pytest.mark.parametrize("is_masked", (True, False))
@pytest.mark.parametrize("target", ("strided", *CONVERSIONS))
@pytest.mark.parametrize("source", ("bsr", "bsc"))
def test_gradients_have_the_block_size_of_their_tensor(
    device: str, source: str, target: str, is_masked: bool
) -> None:
    dense = tt.tensor(
        [[1.0, 0, 2, 0], [3, 0, 0, 0], [0, 0, 0, 4], [0, 0, 0, 5]], dtype=tt.float64, device=device
    )
    x = CONVERSIONS[source](dense).requires_grad_()
    y = x if target == "strided" else CONVERSIONS[target](x)
    weights = tt.arange(16.0, dtype=tt.float64, device=device).reshape(4, 4)
    (y.to_dense(masked_grad=is_masked) * weights).sum().backward()
    assert x.grad is not None and x.grad.layout is x.layout
    assert x.grad.values().shape[-2:] == (2, 1)
    in_blocks = [[0.0, 0, 2, 0], [4, 0, 6, 0], [0, 0, 0, 11], [0, 0, 0, 15]]
    assert x.grad.to_dense().tolist() == (in_blocks if is_masked else weights.tolist())


def test_embedding(device: str) -> None:
    weight = tt.arange(8.0, device=device).reshape(4, 2).requires_grad_()
    rows = tt.tensor([[1, 3, 1]], device=device)
    (tt.nn.functional.embedding(rows, weight, padding_idx=3, sparse=True) * 2).sum().backward()
    assert weight.grad is not None
    assert weight.grad.layout is tt.sparse_coo
    assert weight.grad._indices().tolist() == [[1, 1]]
    assert weight.grad.to_dense().tolist() == [[0, 0], [4, 4], [0, 0], [0, 0]]
    (weight * 1).sum().backward()
    assert weight.grad.tolist() == [[1, 1], [5, 5], [1, 1], [1, 1]]
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported"):
        tt.nn.functional.embedding(rows, weight, scale_grad_by_freq=True, sparse=True).sum().backward()


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_embedding_bag(device: str, mode: str) -> None:
    grads = []
    for sparse in (True, False):
        weight = tt.ones(4, 2, device=device, requires_grad=True)
        bags = tt.tensor([[1, 3], [1, 0]], device=device)
        tt.nn.functional.embedding_bag(bags, weight, mode=mode, sparse=sparse).sum().backward()
        assert weight.grad is not None
        grads.append(weight.grad)
    assert grads[0].layout is tt.sparse_coo
    assert grads[0].to_dense().equal(grads[1])


def test_gather(device: str) -> None:
    x = tt.arange(6.0, device=device).reshape(3, 2).requires_grad_()
    tt.gather(x, 0, tt.tensor([[1, 1], [2, 1]], device=device), sparse_grad=True).sum().backward()
    assert x.grad is not None
    assert x.grad.layout is tt.sparse_coo
    assert x.grad.to_dense().tolist() == [[0, 0], [1, 2], [1, 0]]


@pytest.mark.parametrize(
    "make",
    [
        lambda p: tt.optim.SGD(p, lr=0.1),
        lambda p: tt.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: tt.optim.Adagrad(p, lr=0.1),
    ],
    ids=["SGD", "momentum", "Adagrad"],
)
def test_optimizers_take_sparse_gradients(device: str, make: Callable[[Any], tt.optim.Optimizer]) -> None:
    found = []
    for sparse in (True, False):
        weight = tt.ones(4, 2, device=device, requires_grad=True)
        optimizer = make([weight])
        for step in range(3):
            optimizer.zero_grad()
            rows = tt.tensor([1, 2, 1], device=device)
            (tt.nn.functional.embedding(rows, weight, sparse=sparse) * (step + 1)).sum().backward()
            optimizer.step()
        found.append(weight.detach())
    tt.testing.assert_close(found[0], found[1])


def test_sparse_adam(device: str) -> None:
    weight = tt.ones(4, 2, device=device, requires_grad=True)
    other = tt.ones(4, 2, device=device, requires_grad=True)
    sparse, whole = tt.optim.SparseAdam([weight], lr=0.1), tt.optim.Adam([other], lr=0.1)
    for _ in range(3):
        for parameter, optimizer, kind in ((weight, sparse, True), (other, whole, False)):
            optimizer.zero_grad()
            rows = tt.tensor([1, 2, 1], device=device)
            tt.nn.functional.embedding(rows, parameter, sparse=kind).sum().backward()
            optimizer.step()
    tt.testing.assert_close(weight, other)
    assert weight[0].tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="dense gradients"):
        weight.grad = tt.ones(4, 2, device=device)
        sparse.step()
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        other.grad = tt.ones(4, 2, device=device).to_sparse()
        whole.step()
    with pytest.raises(ValueError, match="Sparse params at indices"):
        tt.optim.SparseAdam([tt.eye(2, device=device).to_sparse()])
