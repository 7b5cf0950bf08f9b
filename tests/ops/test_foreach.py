"""Operators over lists of tensors: the same as the operators one by one, PyTorch's types of results and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.dispatch.core.foreach_schemas import BINARY, UNARY
from triten.dispatch.functions import foreach
from triten.dispatch.functions.foreach import FOREACH


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
        (lambda x: tt._foreach_sqrt([]), RuntimeError, "must have at least one tensor. .*_foreach_sqrt"),
        (
            lambda x: tt._foreach_sqrt(x[0]),
            TypeError,
            "'self' .position 1. must be tuple of Tensors, not Tensor",
        ),
        (lambda x: tt._foreach_sqrt([1]), TypeError, "expected Tensor as element 0, but got int"),
        (
            lambda x: tt._foreach_add(x, [1]),
            RuntimeError,
            "same number of elements as scalar list. \\(_foreach_add got 2 and 1",
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


@pytest.mark.parametrize("operator", [f"{name}_" for name in BINARY])
def test_in_place_forms_refuse_results_of_another_kind(operator: str) -> None:
    given = [tt.tensor([1, 2])]
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        getattr(tt, f"_foreach_{operator}")(given, [tt.tensor([2.5, 0.5])])
    assert given[0].tolist() == [1, 2]


def test_maximum_and_minimum_write_wider_kinds_in_place() -> None:
    given = [tt.tensor([1.0, 3.0], dtype=tt.float16)]
    tt._foreach_maximum_(given, [tt.tensor([2.5, 2.5], dtype=tt.float64)])
    tt._foreach_minimum_(given, [tt.tensor([2, 9])])
    assert given[0].dtype is tt.float16 and given[0].tolist() == [2.0, 3.0]


def test_every_one_is_public() -> None:
    for name, function in FOREACH.items():
        assert getattr(tt, name) is function
        assert function.__name__ == name
        assert function.__doc__


class _Names(tt.TensorDispatchMode):
    """The names of the operators that the mode sees."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __tensor_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("call", "name", "expected"),
    [
        (lambda x: tt._foreach_add(x, 1.0), "_foreach_add.Scalar", [[2.0, 3.0], [4.0]]),
        (lambda x: tt._foreach_add(x, x, alpha=2), "_foreach_add.List", [[3.0, 6.0], [9.0]]),
        (lambda x: tt._foreach_sub_(x, [1, 2]), "_foreach_sub_.ScalarList", [[0.0, 1.0], [1.0]]),
        (lambda x: tt._foreach_mul(x, x[1].sum()), "_foreach_mul.Tensor", [[3.0, 6.0], [9.0]]),
        (lambda x: tt._foreach_pow(2, x), "_foreach_pow.ScalarAndTensor", [[2.0, 4.0], [8.0]]),
        (lambda x: tt._foreach_addcmul(x, x, x, value=2), "_foreach_addcmul.Scalar", [[3.0, 10.0], [21.0]]),
        (
            lambda x: tt._foreach_addcdiv_(x, x, x, [1, 2]),
            "_foreach_addcdiv_.ScalarList",
            [[2.0, 3.0], [5.0]],
        ),
        (lambda x: tt._foreach_lerp(x, x, 0.5), "_foreach_lerp.Scalar", [[1.0, 2.0], [3.0]]),
        (lambda x: tt._foreach_norm(x, 1), "_foreach_norm.Scalar", [3.0, 3.0]),
        (lambda x: tt._foreach_neg_(x), "_foreach_neg_.default", [[-1.0, -2.0], [-3.0]]),
        (lambda x: tt._foreach_max(x), "_foreach_max.default", [2.0, 3.0]),
        (lambda x: tt._foreach_clone(x), "_foreach_clone.default", [[1.0, 2.0], [3.0]]),
        (lambda x: tt._foreach_copy_(x, [x[1], x[1]]), "_foreach_copy_.default", [[3.0, 3.0], [3.0]]),
        (lambda x: tt._foreach_zero_(x), "_foreach_zero_.default", [[0.0, 0.0], [0.0]]),
    ],
)
def test_a_mode_sees_the_operator_over_a_list(call: Any, name: str, expected: Any) -> None:
    for requires_grad in (False, True):
        x = [tt.tensor([1.0, 2.0]), tt.tensor([3.0])]
        if requires_grad:
            weight = tt.ones((), requires_grad=True)
            x = [each * weight for each in x]
        with _Names() as mode:
            made = call(x)
        assert [each.tolist() for each in made] == expected
        if not requires_grad:
            assert mode.names[-1] == f"aten.{name}"
            overload = name.partition(".")[2]
            assert overload in getattr(tt.ops.aten, name.partition(".")[0]).overloads()


def test_operators_over_lists_by_their_names() -> None:
    aten = tt.ops.aten
    x = [tt.tensor([1.0, 4.0], requires_grad=True), tt.tensor([9.0])]
    roots = aten._foreach_sqrt.default(x)
    assert isinstance(roots, list | tuple) and [each.tolist() for each in roots] == [[1.0, 2.0], [3.0]]
    roots[0].sum().backward()
    assert x[0].grad.tolist() == [0.5, 0.25]
    ys = [tt.ones(2), tt.ones(1)]
    assert aten._foreach_add_.List(ys, ys, alpha=3) is None
    assert [each.tolist() for each in ys] == [[4.0, 4.0], [4.0]]
    assert [each.tolist() for each in aten._foreach_mul(ys, [2, 3])] == [[8.0, 8.0], [12.0]]
    schema = "aten::_foreach_add.List(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> Tensor[]"
    assert str(aten._foreach_add.List._schema) == schema


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=str)
def test_norms_of_a_host_list_are_one_call(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, dtype: tt.dtype
) -> None:
    made: list[Any] = []
    call = foreach._ops._multi_tensor_norm
    monkeypatch.setattr(
        foreach._ops, "_multi_tensor_norm", lambda *args: made.append(call(*args)) or made[-1]
    )
    arrays = [rng.standard_normal(size) for size in [(3,), (), (4096,), (70, 130), (0,), (300, 300), (5, 6)]]
    given = [tt.from_numpy(np.asarray(each)).to(dtype) for each in arrays]
    given[-1] = given[-1].t()
    found = tt._foreach_norm(given)
    assert len(made) == 1
    for norm, array in zip(found, arrays, strict=True):
        assert norm.dtype is dtype and norm.shape == ()
        np.testing.assert_allclose(norm.item(), np.linalg.norm(array), rtol=4 * tt.finfo(dtype).eps)


def test_norms_of_a_host_list_keep_special_values() -> None:
    numbers = [[1.0, math.inf], [math.nan, 1.0], [3e38, 3e38], [0.0, -0.0]]
    found = tt._foreach_norm([tt.tensor(each) for each in numbers])
    assert [each.item() for each in found[:1]] == [math.inf] and found[1].isnan()
    assert [each.item() for each in found[2:]] == [math.inf, 0.0]
