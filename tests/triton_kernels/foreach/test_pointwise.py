"""Pointwise foreach operators: bitwise identical to single operators, one launch for each dtype, and the
exceptions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt

DTYPES = [tt.float32, tt.float64, tt.float16, tt.bfloat16]
SHAPES = [(3,), (0,), (1,), (5, 7), (1031,), ()]
Tensors = list[Any]

OPERATORS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add a number": (lambda a, b, c: tt._foreach_add(a, 0.1), lambda a, b, c: a + 0.1),
    "add an int": (lambda a, b, c: tt._foreach_add(a, 3), lambda a, b, c: a + 3),
    "add": (lambda a, b, c: tt._foreach_add(a, b), lambda a, b, c: a + b),
    "add scaled": (lambda a, b, c: tt._foreach_add(a, b, alpha=0.3), lambda a, b, c: tt.add(a, b, alpha=0.3)),
    "sub": (lambda a, b, c: tt._foreach_sub(a, b, alpha=2), lambda a, b, c: tt.sub(a, b, alpha=2)),
    "mul": (lambda a, b, c: tt._foreach_mul(a, b), lambda a, b, c: a * b),
    "div": (lambda a, b, c: tt._foreach_div(a, b), lambda a, b, c: a / b),
    "div by a number": (lambda a, b, c: tt._foreach_div(a, 0.3), lambda a, b, c: a / 0.3),
    "maximum": (lambda a, b, c: tt._foreach_maximum(a, b), lambda a, b, c: tt.maximum(a, b)),
    "minimum of a number": (lambda a, b, c: tt._foreach_minimum(a, 0.1), lambda a, b, c: a.clamp_max(0.1)),
    "clamp_min": (lambda a, b, c: tt._foreach_clamp_min(a, b), lambda a, b, c: a.clamp_min(b)),
    "addcmul": (
        lambda a, b, c: tt._foreach_addcmul(a, b, c, value=0.3),
        lambda a, b, c: tt.addcmul(a, b, c, value=0.3),
    ),
    "addcdiv": (lambda a, b, c: tt._foreach_addcdiv(a, b, c), lambda a, b, c: tt.addcdiv(a, b, c)),
    "lerp by a number": (lambda a, b, c: tt._foreach_lerp(a, b, 0.7), lambda a, b, c: tt.lerp(a, b, 0.7)),
    "lerp by weights": (lambda a, b, c: tt._foreach_lerp(a, b, c), lambda a, b, c: tt.lerp(a, b, c)),
    **{
        name: (
            lambda a, b, c, n=name: getattr(tt, f"_foreach_{n}")(a),
            lambda a, b, c, n=name: getattr(a, n)(),
        )
        for name in (
            *("abs", "ceil", "exp", "floor", "log", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign"),
            *("sqrt", "tanh", "trunc"),
        )
    },
}


def lists(rng: np.random.Generator, dtype: tt.dtype, shapes: Any = SHAPES) -> list[Tensors]:
    """Return three lists on the device, with NaN, infinities and zeros of both signs."""
    made = []
    for place in range(3):
        arrays = [np.asarray(rng.standard_normal(shape)) for shape in shapes]
        for array in arrays:
            if array.size > 9:
                array.flat[place : place + 5] = [np.nan, np.inf, -np.inf, -0.0, 0.0]
        made.append([tt.from_numpy(array).to(dtype).to("cuda") for array in arrays])
    return made


def same_bits(found: Any, expected: Any) -> None:
    for got, wanted in zip(found, expected, strict=True):
        assert got.dtype is wanted.dtype
        assert got.stride() == wanted.stride()
        a, b = (t.cpu().to(tt.float64).numpy() for t in (got, wanted))
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a)[~np.isnan(a)], np.signbit(b)[~np.isnan(b)])


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_values_are_those_of_the_operator_for_one_tensor(rng, launches, dtype, name):
    over_lists, over_one = OPERATORS[name]
    a, b, c = lists(rng, dtype)
    before = launches.count
    found = over_lists(a, b, c)
    assert launches.count - before == 1
    same_bits(found, [over_one(*row) for row in zip(a, b, c, strict=True)])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_in_place_by_numbers_lists_and_an_element(rng, launches, dtype):
    a, b, c = lists(rng, dtype)
    share = tt.tensor(0.3, device="cuda", dtype=dtype)
    expected = [x.clone() for x in a]
    for x, y, z in zip(expected, b, c, strict=True):
        x.mul_(0.3).add_(y, alpha=-2.0).addcdiv_(y, z, value=0.5).mul_(share)
    versions = [x._version for x in a]
    before = launches.count
    tt._foreach_mul_(a, 0.3)
    tt._foreach_add_(a, b, alpha=-2.0)
    tt._foreach_addcdiv_(a, b, c, value=0.5)
    tt._foreach_mul_(a, share)
    assert launches.count - before == 4
    same_bits(a, expected)
    assert [x._version for x in a] == [version + 4 for version in versions]


def test_an_element_of_another_dtype_widens_what_has_no_dimensions():
    a = [tt.tensor([0.5, 1.5], device="cuda"), tt.tensor(0.5, device="cuda")]
    element = tt.tensor(0.1, dtype=tt.float64, device="cuda")
    same_bits(tt._foreach_mul(a, element), [x * element for x in a])


def test_copies_and_zeros(rng, launches):
    a, b, _ = lists(rng, tt.bfloat16)
    before = launches.count
    assert tt._foreach_copy_(a, b) is a
    assert launches.count - before == 1
    same_bits(a, b)
    tt._foreach_zero_(a)
    assert launches.count - before == 2
    same_bits(a, [tt.zeros_like(x) for x in b])


def test_rows_that_do_not_lie_alike_are_computed_one_by_one(rng):
    a = [tt.ones(4, 6, device="cuda")[:, ::2], tt.ones(3, 5, device="cuda").t(), tt.ones(2, device="cuda")]
    b = [tt.ones(4, 3, device="cuda"), tt.ones(5, 3, device="cuda"), tt.ones(2, device="cuda")]
    b[1] = tt.arange(15.0, device="cuda").reshape(5, 3)
    wider = [*a, tt.ones(2, device="cuda", dtype=tt.int64)]
    same_bits(tt._foreach_add(wider, [*b, b[2]]), [x + y for x, y in zip(wider, [*b, b[2]], strict=True)])
    assert tt._foreach_mul_(a, b) is a
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x.cpu().numpy(), y.cpu().numpy())


def test_rows_that_share_memory_are_computed_in_their_order():
    once = tt.ones(4, device="cuda")
    tt._foreach_add_([once, once], 1.0)
    assert once.tolist() == [3.0] * 4
    whole = tt.tensor([1.0, 2.0, 3.0], device="cuda")
    tt._foreach_add_([whole[:1], whole[1:2]], [whole[1:2], whole[2:]])
    assert whole.tolist() == [3.0, 5.0, 3.0]
    a, b = tt.tensor([1.0], device="cuda"), tt.tensor([10.0], device="cuda")
    tt._foreach_add_([a, b], [b, a])
    assert (a.item(), b.item()) == (11.0, 21.0)


def test_whole_blocks_tails_and_odd_addresses(rng, monkeypatch):
    """Use blocks of the size of a GPU."""
    from triten.triton_kernels.optimizers import fused

    monkeypatch.setattr(fused, "interpreted", lambda: False)
    for dtype in (tt.float32, tt.bfloat16):
        wide = lists(rng, dtype, [(2 * 1024 + 5,), (1025,), (1024 + 2,), (1030,)])
        shifts = [(0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]
        a, b, c = (
            [t[o : o + t.numel() - 1] for o, t in zip(shift, row, strict=True)]
            for shift, row in zip(shifts, wide, strict=True)
        )
        found = tt._foreach_addcmul(a, b, c, value=0.3)
        same_bits(found, [tt.addcmul(*row, value=0.3) for row in zip(a, b, c, strict=True)])


def test_gradients_are_recorded_as_by_single_operators():
    leaf = tt.ones(3, device="cuda", requires_grad=True)
    first, second = tt._foreach_mul([leaf, leaf], 2.0)
    (first + second).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [4.0] * 3
    with tt.no_grad():
        tt._foreach_add_([leaf], 1.0)
    assert leaf.tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="leaf"):
        tt._foreach_add_([leaf], 1.0)


def test_modes_see_the_operator_over_a_list():
    seen = []

    class Mode(tt.utils._python_dispatch.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **kwargs or {})

    given = [tt.ones(2, device="cuda") for _ in range(3)]
    with Mode():
        tt._foreach_add_(given, 1.0)
    assert seen == ["aten._foreach_add_.Scalar"]
    assert [t.tolist() for t in given] == [[2.0, 2.0]] * 3


def test_elsewhere_the_operator_takes_tensors_one_by_one():
    given = [tt.ones(2), tt.ones(3)]
    tt._multi_tensor_pointwise_(given, "add", given, [], 2.0)
    assert [t.tolist() for t in given] == [[3.0] * 2, [3.0] * 3]
    assert [t.tolist() for t in tt._multi_tensor_pointwise(given, "sqrt", [], [])] == [
        t.sqrt().tolist() for t in given
    ]
    assert tt._multi_tensor_pointwise([tt.ones(2, device="meta")], "neg", [], [])[0].is_meta


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: tt._multi_tensor_pointwise_(t, "add", [], [], "1"), "number"),
        (lambda t: tt._multi_tensor_pointwise_(t, "erf", [], []), "expected one of abs, add.*got 'erf'"),
        (lambda t: tt._multi_tensor_pointwise(t, "add", t[:1], []), "same number of tensors, got 2 and 1"),
    ],
)
def test_refusals(call, words):
    with pytest.raises((RuntimeError, TypeError, NotImplementedError), match=words):
        call([tt.ones(2, device="cuda"), tt.ones(3, device="cuda")])
