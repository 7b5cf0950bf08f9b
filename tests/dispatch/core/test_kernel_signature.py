"""Python kernels get their arguments as in PyTorch; registration checks only boxed kernels."""

from typing import Any

import pytest

import triten as tt
from triten.dispatch.core import operator_entry
from triten.library import Library

SCHEMA = (
    "f(Tensor x, int y=3, int[2] z=0, *, int n=4, float? w=None, ScalarType d=float, Scalar s=1, "
    "MemoryFormat f=contiguous_format, Device v=cpu) -> Tensor"
)
CALLS: list[tuple[tuple[Any, ...], dict[str, Any], tuple[Any, ...], dict[str, Any]]] = [
    ((), {}, (), {}),
    ((3, (0, 0)), {"n": 4, "w": None, "d": tt.float32, "s": 1.0}, (), {}),
    ((4,), {}, (4,), {}),
    ((3, 1), {}, (3, (1, 1)), {}),
    ((), {"w": 2.0, "d": tt.int32}, (), {"w": 2.0, "d": tt.int32}),
    (
        (),
        {"s": 2, "f": tt.channels_last, "v": "meta"},
        (),
        {"s": 2, "f": tt.channels_last, "v": tt.device("meta")},
    ),
]


@pytest.mark.parametrize(("args", "kwargs", "placed", "named"), CALLS)
def test_arguments_that_equal_their_defaults_are_left_out(
    args: tuple[Any, ...], kwargs: dict[str, Any], placed: tuple[Any, ...], named: dict[str, Any]
) -> None:
    seen: list[Any] = []

    def kernel(x: tt.Tensor, *args: Any, **kwargs: Any) -> tt.Tensor:
        seen.append((args, kwargs))
        return x

    with Library("t_signature", "DEF") as library:
        library.define(SCHEMA)
        library.impl("f", kernel, "CPU")
        tt.ops.t_signature.f(tt.ones(1), *args, **kwargs)
    assert seen == [(placed, named)]


def test_a_kernel_whose_parameters_have_other_names_serves_until_they_are_needed() -> None:
    with Library("aten", "IMPL") as library:
        library.impl("multinomial", lambda p, n, r=False, *, gen=None: p + n + r, "CPU")
        assert tt.multinomial(tt.zeros(1), 2).item() == 2.0
        assert tt.multinomial(tt.zeros(1), 2, True).item() == 3.0
        with pytest.raises(TypeError, match="generator"):
            tt.multinomial(tt.zeros(1), 2, generator=tt.Generator())


def test_a_boxed_kernel_that_takes_something_else_is_refused() -> None:
    with Library("t_signature", "DEF") as library:
        library.define("f(Tensor x) -> Tensor")
        with pytest.raises(
            RuntimeError, match=rf"kernel of t_signature::f at {__file__}:\d+ cannot take \(op, key"
        ):
            library.impl("f", lambda x: x, "CPU", boxed=True)
        assert not tt.ops.t_signature.f.default.has_kernel_for_dispatch_key(tt.DispatchKey.CPU)


@pytest.mark.parametrize(
    ("function", "with_keyset"),
    [
        (lambda x, y, z: x + y + z, False),
        (lambda x, *, y, z: x + y + z, False),
        (lambda x, y, *, z: x + y + z, False),
        (lambda x, **named: x + named.get("y", 1) + named["z"], False),
        (lambda keys, x, y, z: x + y + z, True),
        (lambda keys, x, *, y, z: x + y + z, True),
    ],
    ids=["by position", "by name", "one by name", "any names", "key set", "key set and by name"],
)
def test_keyword_only_arguments_come_as_the_kernel_asks(function: Any, with_keyset: bool) -> None:
    with Library("t_signature", "DEF") as library:
        library.define("f(Tensor x, *, int y=1, int z=2) -> Tensor")
        library.impl("f", function, "CPU", with_keyset=with_keyset)
        assert tt.ops.t_signature.f(tt.zeros(1), z=10).item() == 11.0
        assert tt.ops.t_signature.f(tt.zeros(1), z=20, y=5).item() == 25.0


def test_a_fallback_that_is_no_boxed_kernel() -> None:
    before = dict(operator_entry.fallbacks)
    with (
        Library("_", "IMPL", "VE") as library,
        pytest.raises(RuntimeError, match=rf"fallback at {__file__}:\d+ cannot take \(op, key_set, stack\)"),
    ):
        library.fallback(lambda op: None)
    assert operator_entry.fallbacks == before
