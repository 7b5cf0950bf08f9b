"""Operators over lists of tensors: the same as the operators one by one, PyTorch's types of results and refusals."""

from __future__ import annotations

from typing import Any

import pytest

import triten as tt
from triten.dispatch.functions.foreach import BINARY, FOREACH, UNARY


def _lists(device: str) -> list[tt.Tensor]:
    return [tt.tensor([0.25, 0.5], device=device), tt.tensor([[0.75]], device=device)]


def _values(tensors: Any) -> list[Any]:
    return [each.tolist() for each in tensors]


@pytest.mark.parametrize("operator", UNARY)
def test_operators_of_one_list(operator: str, device: str) -> None:
    expected = [getattr(t, operator)().tolist() for t in _lists(device)]
    given = _lists(device)
    made = getattr(tt, f"_foreach_{operator}")(given)
    assert type(made) is tuple
    assert _values(made) == expected
    assert _values(given) == _values(_lists(device))
    written = getattr(tt, f"_foreach_{operator}_")(given)
    assert written is given
    assert _values(given) == expected


@pytest.mark.parametrize("operator", BINARY)
@pytest.mark.parametrize("kind", ["number", "numbers", "tensor", "tensors"])
def test_operators_of_a_list_and_another_operand(operator: str, kind: str, device: str) -> None:
    numbers = [0.5, 2.0]
    others: Any = {
        "number": 0.5,
        "numbers": numbers,
        "tensor": tt.tensor(0.5, device=device),
        "tensors": [t * 2 for t in _lists(device)],
    }[kind]
    each = list(others) if isinstance(others, list) else [others] * 2
    expected = []
    for t, other in zip(_lists(device), each, strict=True):
        operand = other if isinstance(other, tt.Tensor) else tt.tensor(other, device=device)
        expected.append(getattr(t, operator)(operand).tolist())
    given = _lists(device)
    made = getattr(tt, f"_foreach_{operator}")(given, others)
    assert type(made) is tuple
    assert _values(made) == expected
    assert getattr(tt, f"_foreach_{operator}_")(given, others) is given
    assert _values(given) == expected


def test_numbers_beside_three_lists(device: str) -> None:
    a, b = _lists(device), [tt.full_like(t, 2.0) for t in _lists(device)]
    assert _values(tt._foreach_addcmul(a, b, b, value=2)) == [[8.25, 8.5], [[8.75]]]
    assert _values(tt._foreach_addcmul(a, b, b, [1, 2])) == [[4.25, 4.5], [[8.75]]]
    assert _values(tt._foreach_addcdiv(a, b, b, tt.tensor([1.0, 2.0]))) == [[1.25, 1.5], [[2.75]]]
    assert _values(tt._foreach_lerp(a, b, 0.5)) == [[1.125, 1.25], [[1.375]]]
    assert _values(tt._foreach_lerp(a, b, [0.0, 1.0])) == [[0.25, 0.5], [[2.0]]]
    assert _values(tt._foreach_add(a, b, alpha=3)) == [[6.25, 6.5], [[6.75]]]
    assert tt._foreach_addcmul_(a, b, b) is a
    assert _values(a) == [[4.25, 4.5], [[4.75]]]


def test_reductions_copies_and_zeros(device: str) -> None:
    given = [tt.tensor([3.0, -4.0], device=device), tt.tensor([[2.0]], device=device)]
    assert _values(tt._foreach_norm(given)) == [5.0, 2.0]
    assert _values(tt._foreach_norm(given, 1)) == [7.0, 2.0]
    assert _values(tt._foreach_powsum(given, 2)) == [25.0, 4.0]
    assert _values(tt._foreach_max(given)) == [3.0, 2.0]
    assert _values(tt._foreach_pow(2, given)) == [[8.0, 0.0625], [[4.0]]]
    kept = tt._foreach_clone(given)
    assert tt._foreach_zero_(given) is given
    assert _values(given) == [[0.0, 0.0], [[0.0]]]
    assert tt._foreach_copy_(given, kept) is given
    assert _values(given) == [[3.0, -4.0], [[2.0]]]
    leaf = tt.ones(2, device=device, requires_grad=True)
    sum(t.sum() for t in tt._foreach_mul([leaf, leaf], [2.0, 3.0])).backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [5.0, 5.0]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: tt._foreach_sqrt([]), RuntimeError, "_foreach_sqrt.*must have at least one tensor"),
        (
            lambda x: tt._foreach_sqrt(x[0]),
            TypeError,
            "'self' .position 1. must be tuple of Tensors, not Tensor",
        ),
        (lambda x: tt._foreach_sqrt([1]), TypeError, "expected Tensor as element 0, but got int"),
        (
            lambda x: tt._foreach_add(x, [1]),
            RuntimeError,
            "same number of elements as scalar list, got 2 and 1",
        ),
        (lambda x: tt._foreach_add_(x, x[:1]), RuntimeError, "same number of tensors, got 2 and 1"),
        (lambda x: tt._foreach_mul(x, tt.ones(2)), RuntimeError, "scalar tensor expected to be 0 dim"),
        (lambda x: tt._foreach_mul(x, 2, alpha=2), TypeError, "alpha"),
        (lambda x: tt._foreach_lerp(x, x[:1], 1), RuntimeError, "same number of tensors, got 2 and 1"),
    ],
)
def test_refusals(call: Any, error: type[Exception], words: str) -> None:
    given = _lists("cpu")
    with pytest.raises(error, match=words):
        call(given)
    assert _values(given) == _values(_lists("cpu"))


def test_every_one_is_public() -> None:
    for name, function in FOREACH.items():
        assert getattr(tt, name) is function
        assert function.__name__ == name
        assert function.__doc__
