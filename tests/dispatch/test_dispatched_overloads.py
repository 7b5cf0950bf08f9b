"""Modes, subclasses and kernels that users write get the overload that PyTorch dispatches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import triten as tt

Call = Callable[[Any], Any]


class Seen(tt.TensorDispatchMode):
    """Mode that records the operators that it sees."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __tensor_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.name().removeprefix("aten::"))
        return func(*args, **(kwargs or {}))


class Wrapped(tt.Tensor):
    """Subclass that records the operators that it sees, and computes with plain tensors.

    The default handler of calls converts results to this class.
    """

    names: list[str]

    @classmethod
    def __tensor_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__tensor_function__(func, types, args, kwargs)

    @classmethod
    def __tensor_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.names.append(func.name().removeprefix("aten::"))
        plain = tt.utils._pytree.tree_map(
            lambda each: each.as_subclass(tt.Tensor) if isinstance(each, Wrapped) else each, args
        )
        return func(*plain, **(kwargs or {}))


CALLS: dict[str, tuple[Call, str]] = {
    "x == 1": (lambda x: x == 1, "eq.Scalar"),
    "1 - x": (lambda x: 1 - x, "rsub.Scalar"),
    "x % 2": (lambda x: x % 2, "remainder.Scalar"),
    "2 % x": (lambda x: 2 % x, "remainder.Scalar_Tensor"),
    "x & 3": (lambda x: x & 3, "bitwise_and.Scalar"),
    "x << 1": (lambda x: x << 1, "__lshift__.Scalar"),
    "x >> x": (lambda x: x >> x, "__rshift__.Tensor"),
    "1 << x": (lambda x: 1 << x, "bitwise_left_shift.Scalar_Tensor"),
    "bitwise_left_shift(x, 1)": (lambda x: tt.bitwise_left_shift(x, 1), "bitwise_left_shift.Tensor_Scalar"),
    "x + 1": (lambda x: x + 1, "add.Tensor"),
    "x.lt(x)": (lambda x: x.lt(x), "lt.Tensor"),
    "x.greater(1)": (lambda x: x.greater(1), "gt.Scalar"),
    "stack": (lambda x: tt.stack([x, x]), "stack"),
    "roll": (lambda x: x.roll(1), "roll"),
    "repeat": (lambda x: x.repeat(2), "repeat"),
    "full_like": (lambda x: tt.full_like(x, 2), "full_like"),
    "unbind": (lambda x: x.unbind(), "unbind.int"),
    "chunk": (lambda x: x.chunk(2), "split.Tensor"),
    "std": (lambda x: x.to(tt.float64).std(0), "std.correction"),
    "var": (lambda x: x.to(tt.float64).var(), "var.correction"),
    "x.eq_(1)": (lambda x: x.clone().eq_(1), "eq_.Scalar"),
    "eq(x, 1, out)": (lambda x: tt.eq(x, 1, out=tt.empty(0, dtype=tt.bool)), "eq.Scalar_out"),
}


def operand() -> tt.Tensor:
    return tt.tensor([1, 2, 3, 4])


def values(result: Any) -> Any:
    """Return results as lists."""
    results = result if isinstance(result, tuple | list) else (result,)
    return [each.as_subclass(tt.Tensor).tolist() for each in results]


@pytest.mark.parametrize("name", CALLS)
def test_a_mode(name: str) -> None:
    call, overload = CALLS[name]
    expected = values(call(operand()))
    x = operand()
    with Seen() as seen:
        result = call(x)
    assert overload in seen.names
    assert values(result) == expected


@pytest.mark.parametrize("name", CALLS)
def test_a_mode_around_a_mode(name: str) -> None:
    call, overload = CALLS[name]
    x = operand()
    with Seen() as outer, Seen() as inner:
        call(x)
    assert inner.names == outer.names
    assert overload in outer.names


@pytest.mark.parametrize("name", [name for name in CALLS if "out" not in name])
def test_a_subclass(name: str) -> None:
    call, overload = CALLS[name]
    expected = values(call(operand()))
    Wrapped.names = []
    result = call(operand().as_subclass(Wrapped))
    assert overload in Wrapped.names
    assert values(result) == expected


@contextmanager
def overriding(overload: str, key: str = "CPU") -> Iterator[list[tuple[Any, ...]]]:
    """Register a kernel for a key, the CPU's by default, until the block ends. Yields its calls."""
    calls: list[tuple[Any, ...]] = []
    library = tt.library.Library("aten", "IMPL")
    found = tt.ops.aten
    base, _, which = overload.partition(".")
    count = len(getattr(getattr(found, base), which or "default")._schema.returns)

    def kernel(*args: Any, **_: Any) -> Any:
        calls.append(args)
        made = next(
            a
            for each in args
            for a in (each if isinstance(each, tuple | list) else (each,))
            if isinstance(a, tt.Tensor)
        )
        return made.clone() if count == 1 else (made.clone(),) * count

    library.impl(overload, kernel, key)
    try:
        yield calls
    finally:
        library._destroy() if hasattr(library, "_destroy") else library.close()


SERVED = [name for name in CALLS if name not in ("unbind", "chunk", "eq(x, 1, out)", "x.eq_(1)")]


@pytest.mark.filterwarnings("ignore:Warning only once")
@pytest.mark.parametrize("name", SERVED)
def test_a_kernel_of_a_user(name: str) -> None:
    call, overload = CALLS[name]
    call(operand())  # Plans that were made before must not serve.
    with overriding(overload) as calls:
        call(operand())
        call(operand())
    assert len(calls) == 2
    before = len(calls)
    call(operand())
    assert len(calls) == before


@pytest.mark.filterwarnings("ignore:Warning only once")
@pytest.mark.parametrize("key", ["CompositeExplicitAutograd", "CompositeImplicitAutograd", "Autograd"])
def test_a_kernel_of_a_user_for_an_alias_key(key: str) -> None:
    x = operand()
    with overriding("eq.Scalar", key):
        assert (x == 1).tolist() == [True, False, False, False], "the backend's own kernel comes first"


@pytest.mark.filterwarnings("ignore:Warning only once")
def test_a_kernel_for_tensors_gets_no_numbers() -> None:
    x = operand()
    with overriding("eq.Tensor") as calls:
        assert (x == 1).tolist() == [True, False, False, False]
        assert not calls
        x == x  # noqa: B015
    assert len(calls) == 1


@pytest.mark.filterwarnings("ignore:Warning only once")
def test_a_kernel_for_where_gets_tensors() -> None:
    x = tt.tensor([1.0, 2.0])
    with overriding("where.self") as calls:
        tt.where(x > 1, x, 7)
        tt.where(x > 1, 7, x)
    for _, first, second in calls:
        assert first.dtype is second.dtype is tt.float32
        assert {first.dim(), second.dim()} == {0, 1}
    assert len(calls) == 2


GRADIENTS: dict[str, Call] = {
    "stack": lambda x: tt.stack([x, 2 * x], 1),
    "roll": lambda x: x.roll((1, -2), (0, 1)),
    "roll, flat": lambda x: x.roll(3),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "repeat, once": lambda x: x.repeat(1, 1),
    "repeat, none": lambda x: x.repeat(0, 1),
    "glu": lambda x: tt.nn.functional.glu(x, 1),
    "rsub": lambda x: tt.rsub(x, 3, alpha=2),
    "remainder": lambda x: x % 2,
    "remainder of a number": lambda x: 7 % x,
    "fmod": lambda x: tt.fmod(x, 2),
    "where": lambda x: tt.where(x > 2, x, 1),
    "copysign": lambda x: tt.copysign(x, -1),
    "xlogy": lambda x: tt.xlogy(x, 3.0),
    "chunk": lambda x: x.chunk(2)[1],
    "index_fill": lambda x: x.index_fill(0, tt.tensor([1]), 0),
    "x[...] = 1": lambda x: _assigned(x.clone()),
}


def _assigned(x: tt.Tensor) -> tt.Tensor:
    x[0] = 1
    x[x > 5] = 2
    return x


def gradient(call: Call, x: tt.Tensor) -> list[Any]:
    """Return a call's result and its gradient, weighted so that places differ."""
    leaf = x.detach().clone().requires_grad_()
    result = call(leaf)
    weights = tt.arange(float(result.numel())).reshape(result.shape) + 1
    (result * weights).sum().backward()
    return [result.tolist(), leaf.grad.tolist()]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_without_a_mode(name: str) -> None:
    x = (tt.arange(8.0) + 0.5).reshape(2, 4)
    expected = gradient(GRADIENTS[name], x)
    with Seen():
        found = gradient(GRADIENTS[name], x)
    assert found == expected


@pytest.mark.filterwarnings("ignore:Warning only once")
@pytest.mark.parametrize(
    "overload, call", [("rsub.Scalar", GRADIENTS["rsub"]), ("fmod.Scalar", GRADIENTS["fmod"])]
)
def test_a_kernel_of_a_user_is_differentiated(overload: str, call: Call) -> None:
    x = (tt.arange(8.0) + 0.5).reshape(2, 4)
    expected = gradient(call, x)[1]
    with overriding(overload) as calls:
        assert gradient(call, x)[1] == expected
    assert calls


def test_without_grad_a_mode_sees_composites_whole() -> None:
    x = tt.ones(2, 3, requires_grad=True)
    with Seen() as seen, tt.no_grad():
        x.diag_embed()
        x.unbind(1)
    assert seen.names == ["diag_embed", "unbind.int"]
