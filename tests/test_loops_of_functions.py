"""`scan` and `while_loop` of `triten._higher_order_ops`: values, gradients and refusals."""

import pytest

import triten as tt
from triten._higher_order_ops import scan, while_loop


def running(total, x):
    return total + x, total * x


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scan_beside_a_loop(dim: int, reverse: bool) -> None:
    xs = tt.arange(6.0).reshape(2, 3)
    slices = list(xs.unbind(dim))
    total, outputs = tt.zeros_like(slices[0]), []
    for x in reversed(slices) if reverse else slices:
        outputs.append(total * x)
        total = total + x
    last, stacked = scan(running, tt.zeros_like(slices[0]), xs, dim=dim, reverse=reverse)
    assert tt.equal(last, total)
    assert tt.equal(stacked, tt.stack(outputs[::-1] if reverse else outputs, dim))


def test_scan_of_trees_and_its_gradient() -> None:
    xs = tt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    state, (outputs,) = scan(
        lambda state, x: ({"sum": state["sum"] + x["x"]}, [state["sum"] * x["x"]]),
        {"sum": tt.tensor(1.0)},
        {"x": xs},
    )
    assert state["sum"].item() == 7.0 and outputs.tolist() == [1.0, 4.0, 12.0]
    outputs.sum().backward()
    assert xs.grad.tolist() == [6.0, 5.0, 4.0]


def test_what_scan_refuses() -> None:
    with pytest.raises(RuntimeError, match="must have a scan dimension > 0"):
        scan(running, tt.zeros(3), tt.ones(0, 3))
    with pytest.raises(RuntimeError, match="must return a state of the structure"):
        scan(lambda total, x: (total.sum(), x), tt.zeros(3), tt.ones(2, 3))
    with pytest.raises(RuntimeError, match="xs must be a tensor or a tree of tensors"):
        scan(running, tt.zeros(3), [])
    with pytest.raises(RuntimeError, match="must have the same size in dimension 0"):
        scan(lambda total, x: (total, x), tt.zeros(3), [tt.ones(2), tt.ones(3)])


def test_while_loop() -> None:
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    count, y = while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y * 2], (tt.tensor(0), x))
    y.sum().backward()
    assert count.item() == 3 and y.tolist() == [8.0, 16.0] and x.grad.tolist() == [8.0, 8.0]
    assert while_loop(lambda i: False, lambda i: i, (5,)) == (5,)


def test_what_while_loop_refuses() -> None:
    with pytest.raises(RuntimeError, match="carried_inputs must be a tuple, got Tensor"):
        while_loop(lambda i: True, lambda i: i, tt.ones(1))
    with pytest.raises(RuntimeError, match="cond_fn must return a bool"):
        while_loop(lambda i: tt.ones(2), lambda i: (i,), (tt.ones(1),))
    with pytest.raises(RuntimeError, match="body_fn must return values of the structure"):
        while_loop(lambda i: i < 3, lambda i: (i + 1.5,), (tt.tensor(0),))
