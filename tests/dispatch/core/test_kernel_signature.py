"""Kernels are held against the schema, whichever comes first; a refused one leaves nothing behind."""

from typing import Any

import pytest

import triten as tt
from triten.dispatch.core import operator_entry
from triten.dispatch.core.dispatcher import Dispatcher
from triten.library import Library

DISPATCHER = Dispatcher.singleton()


def state() -> dict[str, Any]:
    """The definitions and kernels of this file's namespace, and the fallbacks."""
    operators = {n: op for n, op in DISPATCHER._operators.items() if n.startswith("t_signature::")}
    return {
        "kernels": {name: dict(op.kernels) for name, op in operators.items()},
        "defined": {name for name, op in operators.items() if op.has_schema},
        "fallbacks": dict(operator_entry.fallbacks),
    }


def test_a_definition_with_a_kernel_that_does_not_fit_defines_nothing() -> None:
    with Library("t_signature", "DEF") as library:
        before = state()
        with pytest.raises(RuntimeError, match=rf"kernel at {__file__}:\d+ .* defined at {__file__}:\d+"):
            library.define("f(Tensor x) -> Tensor", lambda x, y: x)
        assert state() == before
        library.define("f(Tensor x) -> Tensor", lambda x: x)


@pytest.mark.parametrize(
    ("wrong", "options"),
    [
        (lambda x, y: x, {}),
        (lambda x: x, {"with_keyset": True}),
        (lambda x: x, {"boxed": True}),
        (lambda x, *, y: x, {}),
    ],
    ids=["unboxed", "with key set", "boxed", "by name"],
)
@pytest.mark.parametrize("definition_first", [True, False])
def test_a_kernel_that_does_not_fit(wrong: Any, options: dict[str, bool], definition_first: bool) -> None:
    refused = pytest.raises(RuntimeError, match="cannot take")
    with Library("t_signature", "DEF") as library:
        if definition_first:
            library.define("f(Tensor x) -> Tensor")
        else:
            library.impl("f", wrong, "CPU", **options)
        before = state()
        with refused:
            if definition_first:
                library.impl("f", wrong, "CPU", **options)
            else:
                library.define("f(Tensor x) -> Tensor")
        assert state() == before


@pytest.mark.parametrize(
    ("function", "with_keyset"),
    [
        (lambda x, y, z: x + y + z, False),
        (lambda x, *, y, z: x + y + z, False),
        (lambda x, y, *, z: x + y + z, False),
        (lambda x, **named: x + named["y"] + named["z"], False),
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
    before = state()
    with (
        Library("_", "IMPL", "VE") as library,
        pytest.raises(RuntimeError, match=rf"fallback at {__file__}:\d+ cannot take \(op, key_set, stack\)"),
    ):
        library.fallback(lambda op: None)
    assert state() == before
