"""`associative_scan`: running results of one tensor and of trees, their gradients, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

import triten as tt
from triten._higher_order_ops.associative_scan import associative_scan


def modes(device: str) -> list[str]:
    return ["generic", "pointwise"] if device == "cuda" else ["generic"]


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 13])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
def test_sums(length: int, dim: int, reverse: bool, device: str) -> None:
    x = tt.arange(2.0 * length, device=device).reshape((length, 2) if dim == 0 else (2, length))
    expected = x.flip(dim).cumsum(dim).flip(dim) if reverse else x.cumsum(dim)
    for mode in modes(device):
        result = associative_scan(lambda a, b: a + b, x, dim, reverse, mode)
        tt.testing.assert_close(result, expected)


def test_trees_and_gradients(device: str) -> None:
    factors = (tt.arange(12.0, device=device).reshape(2, 6) / 12).requires_grad_()
    terms = tt.ones(2, 6, device=device, requires_grad=True)

    def step(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        return {"a": left["a"] * right["a"], "b": right["a"] * left["b"] + right["b"]}

    states, state = [], tt.zeros(2, device=device)
    for n in range(6):
        state = factors[:, n] * state + terms[:, n]
        states.append(state)
    expected = tt.stack(states, 1)
    wanted = tt.autograd.grad(expected.square().sum(), (factors, terms))
    for mode in modes(device):
        result = associative_scan(step, {"a": factors, "b": terms}, 1, combine_mode=mode)
        tt.testing.assert_close(result["a"], factors.cumprod(1))
        tt.testing.assert_close(result["b"], expected)
        tt.testing.assert_close(tt.autograd.grad(result["b"].square().sum(), (factors, terms)), wanted)


def test_elements_have_the_other_dimensions_in_generic_mode(device: str) -> None:
    matrices = (tt.arange(20.0, device=device).reshape(2, 5, 2) % 3).movedim(1, 0)[:, None].expand(5, 2, 2, 2)
    result = associative_scan(lambda a, b: a @ b, matrices[:, 0], 0, combine_mode="generic")
    expected = [matrices[0, 0]]
    for matrix in matrices[1:, 0]:
        expected.append(expected[-1] @ matrix)
    tt.testing.assert_close(result, tt.stack(expected))


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ((3, tt.ones(2), 0), ValueError, "must be a callable"),
        ((min, tt.ones(2), 0.0), ValueError, "Dim must be an int"),
        ((min, tt.ones(2), 0, 1), RuntimeError, "Reverse must be a bool"),
        ((min, tt.ones(2), 0, False, "fast"), ValueError, "but got fast"),
        ((min, tt.ones(2), 0), ValueError, "need to be on CUDA"),
        ((min, [], 0, False, "generic"), ValueError, "at least 1 xs leaf"),
        ((min, [3], 0, False, "generic"), ValueError, "must be a Tensor"),
        ((min, tt.ones(2), 1, False, "generic"), IndexError, "Dimension out of range"),
        (
            (min, tt.ones(2, 0), 1, False, "generic"),
            ValueError,
            r"scan dimension > 0, got the shapes \(2, 0\)",
        ),
        ((lambda a, b: (a, b), tt.ones(2), 0, False, "generic"), RuntimeError, "to return a tree as xs"),
        (
            (lambda a, b: a.double(), tt.ones(2), 0, False, "generic"),
            RuntimeError,
            "to return tensors as it takes",
        ),
        (
            (lambda a, b: a.sum(), tt.ones(2, 3), 0, False, "generic"),
            RuntimeError,
            "to return tensors as it takes",
        ),
    ],
)
def test_refusals(args: tuple[Any, ...], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        associative_scan(*args)
