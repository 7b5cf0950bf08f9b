"""Views that share out a tensor have one node, whose backward joins their gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import triten as tt

Split = Callable[[tt.Tensor], tuple[tt.Tensor, ...]]
SPLITS: dict[str, tuple[Split, str]] = {
    "split": (lambda x: x.split(2, 1), "SplitBackward0"),
    "split from the end": (lambda x: x.split(4, -1), "SplitBackward0"),
    "chunk": (lambda x: x.chunk(3, 0), "SplitBackward0"),
    "split of sizes": (lambda x: x.split([1, 0, 4], 1), "SplitWithSizesBackward0"),
    "split_with_sizes": (lambda x: x.split_with_sizes([2, 3], 1), "SplitWithSizesBackward0"),
    "unbind": (lambda x: x.unbind(), "UnbindBackward0"),
    "unbind from the end": (lambda x: x.unbind(-1), "UnbindBackward0"),
}


def made(device: str = "cpu") -> tt.Tensor:
    values = np.arange(30, dtype=np.float64).reshape(6, 5) / 7
    return tt.from_numpy(values).to(device).requires_grad_()


@pytest.mark.parametrize("name", SPLITS)
def test_all_views_have_one_node_of_pytorch_s_name(name: str) -> None:
    split, expected = SPLITS[name]
    parts = split(made())
    nodes = {part.grad_fn for part in parts}
    assert len(nodes) == 1
    assert nodes.pop().name() == expected
    assert [part.output_nr for part in parts] == list(range(len(parts)))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("used", [(0,), (-1,), (0, -1), (0, 1, -1)], ids=str)
@pytest.mark.parametrize("name", SPLITS)
def test_gradients_are_those_of_slices(name: str, used: tuple[int, ...], device: str) -> None:
    split, _ = SPLITS[name]
    x = made(device)
    where = split(tt.arange(30, device=device).view(6, 5))
    parts = split(x)
    change = tt.zeros(30, dtype=tt.float64, device=device)
    for number in {i % len(parts) for i in used}:
        change[where[number].flatten()] = 3 * x.detach().flatten()[where[number].flatten()] ** 2
    loss = sum(parts[number].pow(3).sum() for number in {i % len(parts) for i in used})
    (got,) = tt.autograd.grad(loss, x, create_graph=True)
    assert got.flatten().tolist() == pytest.approx(change.tolist(), rel=1e-12)
    (again,) = tt.autograd.grad(got.sum(), x)
    second = tt.where(change != 0, 6 * x.detach().flatten(), 0)
    assert again.flatten().tolist() == pytest.approx(second.tolist(), rel=1e-12)


@pytest.mark.parametrize("name", SPLITS)
def test_gradients_of_examples_and_of_functions(name: str) -> None:
    split, _ = SPLITS[name]

    def loss(x: tt.Tensor) -> tt.Tensor:
        parts = split(x)
        return (parts[0] ** 2).sum() * (parts[-1] ** 3).sum()

    x = tt.stack([made().detach(), made().detach() + 1])
    each = tt.stack([tt.func.grad(loss)(one) for one in x.unbind()])
    together = tt.vmap(tt.func.grad(loss))(x)
    np.testing.assert_allclose(together.numpy(), each.numpy(), 1e-12)
    jacobian = tt.func.jacrev(tt.func.grad(loss))(x[0]).reshape(30, 30)
    forward = tt.func.jacfwd(tt.func.grad(loss))(x[0]).reshape(30, 30)
    np.testing.assert_allclose(jacobian.numpy(), forward.numpy(), 1e-10)


def test_one_part_alone_and_none() -> None:
    x = made()
    whole = x.split(6)[0]
    assert whole.grad_fn.name() == "SplitBackward0"
    assert tt.autograd.grad((whole * 2).sum(), x)[0].tolist() == [[2.0] * 5] * 6
    assert tt.empty(0, 3, requires_grad=True).unbind() == ()
    with tt.no_grad():
        assert all(part.grad_fn is None for part in x.split(2))


def test_a_hook_on_one_view_sees_its_gradient_alone() -> None:
    x = made()
    first, second, _ = x.chunk(3)
    seen = []
    second.register_hook(lambda grad: seen.append(grad.tolist()))
    first.retain_grad()
    (2 * first + 5 * second).sum().backward()
    assert seen == [[[5.0] * 5] * 2]
    assert first.grad.tolist() == [[2.0] * 5] * 2
    assert x.grad.tolist() == [[2.0] * 5] * 2 + [[5.0] * 5] * 2 + [[0.0] * 5] * 2
