"""The dispatcher: definitions, kernels, handles, listeners, calls of every form, and the table."""

import threading
from typing import Any

import pytest

import triten as tt
from triten.dispatch import Dispatcher, ExcludeDispatchKeyGuard, IncludeDispatchKeyGuard

NS = "t_feature"


@pytest.fixture
def dispatcher() -> Any:
    found = Dispatcher.singleton()
    before = found.get_all_op_names()
    yield found
    assert found.get_all_op_names() == before


def test_registration_and_search(dispatcher: Dispatcher) -> None:
    name = f"{NS}::twice"
    assert dispatcher.find_op(name) is None
    with (
        dispatcher.register_library(NS, "here"),
        dispatcher.register_def(f"{name}(Tensor x, *, int times=2) -> Tensor"),
        dispatcher.register_impl(name, "CPU", lambda x, times: x * times),
    ):
        op = dispatcher.find_schema_or_throw(name)
        assert dispatcher.find_op(name) is op
        assert name in dispatcher.get_all_op_names()
        assert name in dispatcher.get_registrations_for_dispatch_key("CPU")
        assert name not in dispatcher.get_registrations_for_dispatch_key("CUDA")
        assert dispatcher.call(op, tt.ones(2)).tolist() == [2.0, 2.0]
        assert dispatcher.call(op, tt.ones(2), times=5).tolist() == [5.0, 5.0]
    with pytest.raises(RuntimeError, match="Could not find schema for t_feature::twice"):
        dispatcher.find_schema_or_throw(name)


def test_a_name_without_schema_is_found_as_a_name_alone(dispatcher: Dispatcher) -> None:
    with dispatcher.register_name(f"{NS}::named"):
        assert dispatcher.find_op(f"{NS}::named") is not None
        assert dispatcher.find_schema(f"{NS}::named") is None


@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
def test_handles_restore_the_state_in_any_order(dispatcher: Dispatcher) -> None:
    name = f"{NS}::f"
    early = dispatcher.register_impl(name, "CPU", lambda x: x + 1)
    definition = dispatcher.register_def(f"{name}(Tensor x) -> Tensor")
    late = dispatcher.register_impl(name, "CPU", lambda x: x + 2)
    op = dispatcher.find_schema_or_throw(name)
    assert op.call(tt.zeros(1)).item() == 2
    early.close()
    assert op.call(tt.zeros(1)).item() == 2
    late.close()
    with pytest.raises(NotImplementedError, match="Could not run 't_feature::f'"):
        op.call(tt.zeros(1))
    definition.close()
    definition.close()


def test_a_second_definition_names_both_places(dispatcher: Dispatcher) -> None:
    with (
        dispatcher.register_def(f"{NS}::f(Tensor x) -> Tensor", "first.py:1"),
        pytest.raises(RuntimeError, match=r"First registered at first\.py:1, again at second\.py:2"),
    ):
        dispatcher.register_def(f"{NS}::f(Tensor x) -> Tensor", "second.py:2")


def test_listeners_hear_of_definitions(dispatcher: Dispatcher) -> None:
    heard: list[str] = []

    class Listener:
        def on_operator_registered(self, op: Any) -> None:
            heard.append(f"+{op.name}")

        def on_operator_deregistered(self, op: Any) -> None:
            heard.append(f"-{op.name}")

    with dispatcher.add_listener(Listener()):
        assert "+aten::relu" in heard
        heard.clear()
        with dispatcher.register_impl(f"{NS}::f", "CPU", lambda x: x):
            assert heard == []
            dispatcher.register_def(f"{NS}::f(Tensor x) -> Tensor").close()
    assert heard == [f"+{NS}::f", f"-{NS}::f"]


def test_tags() -> None:
    with tt.library.Library(NS, "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor", tags=(tt.Tag.pointwise, tt.Tag.core))
        assert tt.ops.t_feature.f.default.tags == {tt.Tag.pointwise, tt.Tag.core}


def test_every_form_of_a_call(dispatcher: Dispatcher) -> None:
    relu = dispatcher.find_schema_or_throw("aten::relu")
    x = tt.tensor([-1.0, 2.0])
    assert dispatcher.call(relu, x).tolist() == [0.0, 2.0]
    assert dispatcher.redispatch(relu, tt.DispatchKeySet(tt.DispatchKey.CPU), x).tolist() == [0.0, 2.0]
    assert dispatcher.call_with_dispatch_key(relu, "CPU", x).tolist() == [0.0, 2.0]
    for boxed in (
        dispatcher.call_boxed,
        lambda op, stack: dispatcher.redispatch_boxed(op, tt.DispatchKeySet(tt.DispatchKey.CPU), stack),
    ):
        stack = ["below", x]
        boxed(relu, stack)
        assert stack[0] == "below"
        assert stack[1].tolist() == [0.0, 2.0]


def test_boxed_and_unboxed_kernels_are_interchangeable(dispatcher: Dispatcher) -> None:
    def boxed(op: Any, key_set: Any, stack: list[Any]) -> None:
        y = stack.pop()
        x = stack.pop()
        stack.append(x + y)

    with tt.library.Library(NS, "DEF") as lib:
        lib.define("f(Tensor x, Tensor y) -> Tensor")
        lib.impl("f", boxed, "CPU", boxed=True)
        op = dispatcher.find_schema_or_throw(f"{NS}::f")
        stack = [tt.ones(1), tt.ones(1)]
        dispatcher.call_boxed(op, stack)
        assert stack[0].item() == tt.ops.t_feature.f(tt.ones(1), tt.ones(1)).item() == 2.0


def test_kernels_may_ask_for_the_key_set_and_redispatch() -> None:
    seen: list[str] = []
    with tt.library.Library(NS, "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x + 1, "CPU")

        def traced(key_set: Any, x: Any) -> Any:
            seen.append(str(key_set.highestPriorityTypeId()))
            return tt.ops.t_feature.f.default.redispatch(
                key_set - tt.DispatchKeySet(tt.DispatchKey.Tracer), x
            )

        lib.impl("f", traced, "Tracer", with_keyset=True)
        assert tt.ops.t_feature.f(tt.ones(1)).item() == 2.0
        with IncludeDispatchKeyGuard(tt.DispatchKeySet(tt.DispatchKey.Tracer)):
            assert tt.ops.t_feature.f(tt.ones(1)).item() == 2.0
            with ExcludeDispatchKeyGuard(tt.DispatchKeySet(tt.DispatchKey.Tracer)):
                tt.ops.t_feature.f(tt.ones(1))
    assert seen == ["Tracer"]


def test_the_table_falls_through_and_back() -> None:
    """Check the order of kernels: the key's own, an alias key's, the key's fallback, the next key's."""
    with tt.library.Library(NS, "DEF") as lib, tt.library.Library("_", "IMPL") as every:
        lib.define("f(Tensor x) -> str")
        lib.impl("f", lambda x: "composite", "CompositeExplicitAutograd")
        lib.impl("f", lambda x: "cpu", "CPU")
        f = tt.ops.t_feature.f.default
        assert f(tt.ones(1)) == "cpu"
        assert f(tt.ones(1, device="meta")) == "composite"
        lib.impl("f", tt.library.fallthrough_kernel, "AutogradCPU")
        assert f(tt.ones(1, requires_grad=True)) == "cpu"

        def fallback(op: Any, key_set: Any, stack: list[Any]) -> None:
            stack[:] = [f"fallback for {op.name}"]

        every.fallback(fallback, "HPU")
        with IncludeDispatchKeyGuard(tt.DispatchKeySet(tt.DispatchKey.HPU)):
            assert f(tt.ones(1)) == "composite"
        text = f.dump()
        assert "CPU: own" in text
        assert "alias CompositeExplicitAutograd" in text
        assert "AutogradCPU: own, fallthrough" in text


def test_registration_while_other_threads_call() -> None:
    stop = threading.Event()
    wrong: list[Any] = []

    def call() -> None:
        x = tt.ones(4)
        while not stop.is_set():
            if (x + x).tolist() != [2.0] * 4:
                wrong.append("sum")

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(50):
        with tt.library.Library(f"{NS}_{number}", "DEF") as lib:
            lib.define("f(Tensor x) -> Tensor")
            lib.impl("f", lambda x: x + 1, "CPU")
            if getattr(tt.ops, f"{NS}_{number}").f(tt.zeros(1)).item() != 1:
                wrong.append(number)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
