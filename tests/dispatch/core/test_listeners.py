"""Listeners are notified of every definition and its removal, and of nothing else."""

from collections.abc import Iterator

import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.core.kernel_function import KernelFunction
from triten.dispatch.core.operator_entry import OperatorEntry
from triten.library import Library

NAME = "t::f"
SCHEMA = "t::f(Tensor x) -> Tensor"


class Listener:
    """Listener that records its events in `heard`, and raises at the events in `refuses`."""

    def __init__(self, heard: list[str] | None = None, label: str = "", refuses: str = "") -> None:
        self.heard = [] if heard is None else heard
        self.label = label
        self.refuses = refuses

    def note(self, event: str, op: OperatorEntry) -> None:
        self.heard.append(f"{self.label}{event} {op.name}")
        if event == self.refuses:
            raise ValueError(f"{self.label}refuses")

    def on_operator_registered(self, op: OperatorEntry) -> None:
        assert op.has_schema
        self.note("+", op)

    def on_operator_deregistered(self, op: OperatorEntry) -> None:
        assert not op.is_retired
        assert str(op.schema)
        self.note("-", op)


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    """Yield a separate registry that is empty before and after the test."""
    made = Dispatcher()
    yield made
    assert made.get_all_op_names() == []
    assert made.packets == {}
    assert made._listeners == ()


def test_definitions_are_heard_and_kernels_and_names_are_not(dispatcher: Dispatcher) -> None:
    listener = Listener()
    with dispatcher.add_listener(listener):
        impl = dispatcher.register_impl(NAME, "CPU", KernelFunction(lambda x: x))
        name = dispatcher.register_name(NAME)
        assert listener.heard == []
        definition = dispatcher.register_def(SCHEMA, "here")
        assert listener.heard == ["+ t::f"]
        impl.close()
        assert listener.heard == ["+ t::f"]
        definition.close()
        definition.close()
        assert listener.heard == ["+ t::f", "- t::f"]
        name.close()
        dispatcher.register_def(SCHEMA, "there").close()
        assert listener.heard == ["+ t::f", "- t::f"] * 2


def test_what_is_defined_already_is_heard_at_once(dispatcher: Dispatcher) -> None:
    listener = Listener()
    with (
        dispatcher.register_def(SCHEMA, "here"),
        dispatcher.register_def("t::g(Tensor x) -> Tensor", "here"),
        dispatcher.register_impl("t::undefined", "CPU", KernelFunction(lambda x: x)),
    ):
        with dispatcher.add_listener(listener):
            assert listener.heard == ["+ t::f", "+ t::g"]
        assert listener.heard == ["+ t::f", "+ t::g"]
    assert listener.heard == ["+ t::f", "+ t::g"]


def test_a_refused_definition_is_not_heard(dispatcher: Dispatcher) -> None:
    listener = Listener()
    with dispatcher.add_listener(listener), dispatcher.register_def(SCHEMA, "here"):
        with pytest.raises(RuntimeError, match="multiple times"):
            dispatcher.register_def(SCHEMA, "there")
        assert listener.heard == ["+ t::f"]


def test_one_listener_twice_hears_twice_and_each_handle_is_its_own(dispatcher: Dispatcher) -> None:
    listener = Listener()
    first, second = dispatcher.add_listener(listener), dispatcher.add_listener(listener)
    dispatcher.register_def(SCHEMA, "here").close()
    assert listener.heard == ["+ t::f", "+ t::f", "- t::f", "- t::f"]
    first.close()
    first.close()
    dispatcher.register_def(SCHEMA, "here").close()
    assert listener.heard[4:] == ["+ t::f", "- t::f"]
    second.close()
    dispatcher.register_def(SCHEMA, "here").close()
    assert len(listener.heard) == 6


def test_a_listener_that_raises_refuses_the_definition(dispatcher: Dispatcher) -> None:
    """Notify earlier listeners that the operator is gone, and keep the kernels registered before it."""
    heard: list[str] = []
    listeners = [Listener(heard, "1"), Listener(heard, "2", refuses="+"), Listener(heard, "3")]
    handles = [dispatcher.add_listener(listener) for listener in listeners]
    with dispatcher.register_impl(NAME, "CPU", KernelFunction(lambda x: x, source="early")):
        with pytest.raises(ValueError, match="2refuses"):
            dispatcher.register_def(SCHEMA, "here")
        assert heard == ["1+ t::f", "2+ t::f", "1- t::f"]
        assert dispatcher.find_schema(NAME) is None
        assert dispatcher.get_registrations_for_dispatch_key("CPU") == [NAME]
        handles[1].close()
        with dispatcher.register_def(SCHEMA, "here"):
            x = tt.ones(1)
            assert dispatcher.call(dispatcher.find_schema_or_throw(NAME), x) is x
    for handle in handles:
        handle.close()


def test_a_listener_that_raises_cannot_keep_an_operator(dispatcher: Dispatcher) -> None:
    heard: list[str] = []
    handles = [
        dispatcher.add_listener(Listener(heard, str(i), refuses="-" if i == 1 else "")) for i in range(3)
    ]
    definition = dispatcher.register_def(SCHEMA, "here")
    with pytest.raises(ValueError, match="1refuses"):
        definition.close()
    assert sorted(heard[3:]) == ["0- t::f", "1- t::f", "2- t::f"]
    assert dispatcher.find_op(NAME) is None
    for handle in handles:
        handle.close()


def test_a_listener_that_raises_at_once_is_not_added(dispatcher: Dispatcher) -> None:
    listener = Listener(refuses="+")
    with dispatcher.register_def(SCHEMA, "here"):
        with pytest.raises(ValueError, match="refuses"):
            dispatcher.add_listener(listener)
        dispatcher.register_def("t::g(Tensor x) -> Tensor", "here").close()
    assert listener.heard == ["+ t::f"]


def test_a_listener_may_register(dispatcher: Dispatcher) -> None:
    """Register in a listener, as code that derives operators does; each new operator is notified once."""

    class Deriving(Listener):
        def on_operator_registered(self, op: OperatorEntry) -> None:
            super().on_operator_registered(op)
            if not op.name.endswith("_copy"):
                made.append(dispatcher.register_def(f"{op.name}_copy(Tensor x) -> Tensor", "derived"))

    made: list[object] = []
    listener = Deriving()
    with dispatcher.register_def(SCHEMA, "here"), dispatcher.add_listener(listener):
        assert listener.heard == ["+ t::f", "+ t::f_copy"]
        with dispatcher.register_def("t::g(Tensor x) -> Tensor", "here"):
            assert listener.heard[2:] == ["+ t::g", "+ t::g_copy"]
    for handle in made:
        handle.close()


def test_the_process_has_one_registry_that_tells_of_libraries() -> None:
    listener = Listener()
    with Dispatcher.singleton().add_listener(listener):
        assert "+ aten::add.Tensor" in listener.heard
        assert len(listener.heard) == len(Dispatcher.singleton().get_all_op_names())
        listener.heard.clear()
        with Library("t_listened", "DEF") as library:
            library.define("f(Tensor x) -> Tensor", lambda x: x)
        assert listener.heard == ["+ t_listened::f", "- t_listened::f"]
