"""The registry: the effects of closing a handle, the state after a failed registration, and the messages."""

import itertools
import warnings
from collections.abc import Callable
from copy import copy
from typing import Any

import pytest

import triten as tt
from triten.dispatch.core import operator_entry
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.core.kernel_function import KernelFunction
from triten.library import Library, fallthrough_kernel

DISPATCHER = Dispatcher.singleton()
NAME = "t_registry::f"
SCHEMA = f"{NAME}(Tensor x) -> Tensor"
OVERRIDES = pytest.mark.filterwarnings("ignore:Warning only once for all operators")


def state() -> dict[str, Any]:
    """Return a copy of all state that a registration may change."""
    return {
        "operators": {
            name: (op.has_schema, op.source if op.has_schema else "", op.names, dict(op.kernels))
            for name, op in DISPATCHER._operators.items()
            if name.startswith("t_")
        },
        "packets": {name: names for name, names in DISPATCHER.packets.items() if name.startswith("t_")},
        "libraries": dict(DISPATCHER._libraries),
        "skipped": dict(DISPATCHER.skipped),
        "listeners": DISPATCHER._listeners,
        "fallbacks": dict(operator_entry.fallbacks),
    }


def kernel(label: str) -> KernelFunction:
    return KernelFunction(lambda x: x, source=label)


REGISTRATIONS: dict[str, Callable[[], Any]] = {
    "def": lambda: DISPATCHER.register_def(SCHEMA, "here"),
    "impl": lambda: DISPATCHER.register_impl(NAME, "CPU", kernel("one")),
    "second impl": lambda: DISPATCHER.register_impl(NAME, "CPU", kernel("two")),
    "alias impl": lambda: DISPATCHER.register_impl(NAME, "CompositeExplicitAutograd", kernel("three")),
    "name": lambda: DISPATCHER.register_name(NAME),
    "overload": lambda: DISPATCHER.register_def(f"{NAME}.other(Tensor x) -> Tensor", "there"),
    "fallback": lambda: DISPATCHER.register_fallback("IPU", kernel("fallback")),
    "library": lambda: DISPATCHER.register_library("t_registry", "here"),
}

REPEATABLE = {"impl", "second impl", "alias impl", "name"}
PAIRS = [
    (first, second)
    for first, second in itertools.product(REGISTRATIONS, repeat=2)
    if first != second or first in REPEATABLE
]


@OVERRIDES
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_each_handle_takes_back_its_own(first: str, second: str) -> None:
    """Close two registrations in the order of their making: the rest equals the state of the second alone."""
    before = state()
    a = REGISTRATIONS[first]()
    b = REGISTRATIONS[second]()
    a.close()
    left = state()
    b.close()
    assert state() == before
    alone = REGISTRATIONS[second]()
    expected = state()
    alone.close()
    assert described(left) == described(expected)


def described(found: dict[str, Any]) -> dict[str, Any]:
    """Return a state with kernels replaced by their labels."""
    operators = {
        name: (*rest, {key.name: [k.source for k in ks] for key, ks in kernels.items()})
        for name, (*rest, kernels) in found["operators"].items()
    }
    fallbacks = {key.name: k.source for key, k in found["fallbacks"].items()}
    return {**found, "operators": operators, "fallbacks": fallbacks}


@OVERRIDES
@pytest.mark.parametrize("order", list(itertools.permutations(range(5))))
def test_closed_in_any_order_nothing_is_left(order: tuple[int, ...]) -> None:
    before = state()
    names = ["impl", "second impl", "def", "name", "fallback"]
    handles = [REGISTRATIONS[name]() for name in names]
    for index in order:
        handles[index].close()
        handles[index].close()
    assert state() == before


@OVERRIDES
def test_one_kernel_registered_twice_is_two_registrations() -> None:
    shared, other = kernel("shared"), kernel("other")
    with DISPATCHER.register_def(SCHEMA, "here"):
        handles = [DISPATCHER.register_impl(NAME, "CPU", k) for k in (shared, other, shared)]
        op = DISPATCHER.find_schema_or_throw(NAME)
        handles[0].close()
        assert [k.source for ks in op.kernels.values() for k in ks] == ["other", "shared"]
        handles[2].close()
        assert [k.source for ks in op.kernels.values() for k in ks] == ["other"]
        handles[1].close()
        assert not op.kernels


def test_a_library_closed_before_its_fragment() -> None:
    before = state()
    library = Library("t_registry", "DEF")
    library.define("f(Tensor x) -> Tensor")
    fragment = Library("t_registry", "FRAGMENT")
    fragment.define("g(Tensor x) -> Tensor", lambda x: x + 2)
    fragment.impl("f", lambda x: x + 3, "Meta")
    library.close()
    assert tt.ops.t_registry.g(tt.zeros(1)).item() == 2.0
    assert DISPATCHER.find_schema(NAME) is None
    assert DISPATCHER.find_op(NAME) is not None
    with Library("t_registry", "DEF") as again:
        again.define("f(Tensor x) -> Tensor")
        assert tt.ops.t_registry.f(tt.zeros(1, device="meta")).is_meta
    fragment.close()
    assert state() == before


def test_a_closed_library_registers_nothing() -> None:
    library = Library("t_registry", "DEF")
    library.close()
    library.close()
    for register in (
        lambda: library.define("f(Tensor x) -> Tensor"),
        lambda: library.impl("f", lambda x: x, "CPU"),
    ):
        with pytest.raises(
            AssertionError, match=rf"destroyed: the library of t_registry made at {__file__}:\d+ is closed"
        ):
            register()


# --- an operator whose definition is taken back


def test_who_holds_a_retired_operator_is_told_so() -> None:
    with Library("t_registry", "DEF") as library:
        library.define("f(Tensor x) -> Tensor", lambda x: x)
        group, overload = tt.ops.t_registry.f, tt.ops.t_registry.f.default
        assert overload(tt.ones(1)).item() == 1.0
    for call in (group, overload):
        with pytest.raises(NotImplementedError, match="Could not run 't_registry::f'"):
            call(tt.ones(1))
    with pytest.raises(NotImplementedError, match=rf"its definition at {__file__}:\d+ was taken back"):
        overload(tt.ones(1))


def test_another_schema_under_the_same_name_is_another_operator() -> None:
    with DISPATCHER.register_impl(NAME, "CPU", KernelFunction(lambda *args: args[-1])):
        with DISPATCHER.register_def(SCHEMA, "one"):
            old = tt.ops.t_registry.f.default
            x = tt.ones(1)
            assert old(x) is x
        with DISPATCHER.register_def(f"{NAME}(Tensor x, int y) -> int", "two"):
            assert tt.ops.t_registry.f.default(x, 5) == 5
            with pytest.raises(NotImplementedError, match="its definition at one was taken back"):
                old(x)


def test_composites_follow_the_kernels_of_their_parts() -> None:
    """Plan `matmul` as a call of `mm`; the plan does not outlive mm's kernel."""
    x, matmul = tt.ones(2, 2), tt.ops.aten.matmul.default
    assert matmul(x, x).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    with warnings.catch_warnings(), Library("aten", "IMPL", "CPU") as override:
        warnings.simplefilter("ignore")
        override.impl("mm", lambda x, y: x * 100.0)
        assert matmul(x, x).tolist() == [[100.0, 100.0], [100.0, 100.0]]
    assert matmul(x, x).tolist() == [[2.0, 2.0], [2.0, 2.0]]


# --- second definitions and second kernels


def test_a_second_definition_changes_nothing() -> None:
    with DISPATCHER.register_def(SCHEMA, "here", frozenset({"core"})):
        before = state()
        with pytest.raises(RuntimeError, match=r"f\(Tensor y\).* First registered at here, again at there"):
            DISPATCHER.register_def(f"{NAME}(Tensor y) -> Tensor", "there")
        assert state() == before
        assert str(DISPATCHER.find_schema_or_throw(NAME).schema) == SCHEMA


def test_a_kernel_in_anothers_place_warns_once_with_both_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DISPATCHER, "_has_warned_of_override", False)
    with Library("t_registry", "DEF") as one, Library("t_registry", "FRAGMENT") as two:
        one.define("f(Tensor x) -> Tensor")
        one.impl("f", lambda x: x + 1, "CPU")
        with pytest.warns(UserWarning, match="Overriding a previously registered kernel") as caught:
            two.impl("f", lambda x: x + 2, "CPU")
        assert len(caught) == 1
        assert caught[0].filename == __file__
        message = str(caught[0].message)
        assert "operator: t_registry::f(Tensor x) -> Tensor" in message
        assert "dispatch key: CPU" in message
        assert message.count(f"{__file__}:") == 2
        assert tt.ops.t_registry.f(tt.zeros(1)).item() == 2.0
        with warnings.catch_warnings(), Library("t_registry", "FRAGMENT") as three:
            warnings.simplefilter("error")
            three.impl("f", lambda x: x + 3, "CPU")
            assert tt.ops.t_registry.f(tt.zeros(1)).item() == 3.0
        two.close()
        assert tt.ops.t_registry.f(tt.zeros(1)).item() == 1.0


def test_a_warning_that_is_an_error_refuses_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DISPATCHER, "_has_warned_of_override", False)
    with DISPATCHER.register_impl(NAME, "CPU", kernel("one")), warnings.catch_warnings():
        warnings.simplefilter("error")
        before = state()
        for _ in range(2):
            with pytest.raises(UserWarning, match="registered at two"):
                DISPATCHER.register_impl(NAME, "CPU", kernel("two"))
        assert state() == before


@OVERRIDES
@OVERRIDES
def test_a_second_python_kernel_is_refused_with_both_places_where_it_must_not_override() -> None:
    with Library("t_registry", "DEF") as library:
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x + 1, "CPU")
        library.impl("f", lambda x: x, "Meta")
        before = state()
        refused = rf"already a kernel registered from python .*{NAME}.* CPU .*{__file__}:\d+, again at {__file__}:\d+"
        with pytest.raises(RuntimeError, match=refused):
            library.impl("f", lambda x: x + 2, "CPU", allow_override=False)
        assert state() == before
        library.impl("f", lambda x: x + 3, "CPU")
        assert tt.ops.t_registry.f(tt.zeros(1)).item() == 3.0


def test_a_fallthrough_knows_who_registered_it() -> None:
    with Library("t_registry", "DEF") as library:
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", fallthrough_kernel, "AutogradCPU")
        (registered,) = DISPATCHER.find_schema_or_throw(NAME).kernels[tt.DispatchKey.AutogradCPU]
        assert registered.is_fallthrough
        assert __file__ in registered.source
    assert fallthrough_kernel.source == copy(fallthrough_kernel).source == "fallthrough"
