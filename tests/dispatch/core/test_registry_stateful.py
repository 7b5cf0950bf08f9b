"""Any sequence of registrations, closings, look-ups and calls against a model of plain dictionaries."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

import triten as tt
from triten.dispatch.core import operator_entry
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.core.kernel_function import KernelFunction
from triten.dispatch.core.operator_entry import OperatorEntry
from triten.dispatch.core.registration import RegistrationHandle

DISPATCHER = Dispatcher.singleton()
NAMES = ["t_model::f", "t_model::f.other", "t_model::g"]
SCHEMAS = ["(Tensor x) -> str", "(Tensor x, int y=0) -> str"]
CALLED = ["CPU", "IPU", "VE"]
KEYS = [*CALLED, "CompositeExplicitAutograd", "CompositeImplicitAutograd", "Autograd"]
NAMESPACES = ["t_model", "t_other"]


@dataclass
class Model:
    """Model of the registry as dictionaries, in the order of registration."""

    schemas: dict[str, tuple[str, str]] = field(default_factory=dict)
    kernels: list[tuple[str, str, str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    fallbacks: dict[str, str] = field(default_factory=dict)
    libraries: dict[str, str] = field(default_factory=dict)

    def known(self) -> set[str]:
        return {*self.schemas, *(name for name, _, _ in self.kernels), *self.names}

    def serving(self, name: str, key: str) -> str | None:
        """Return the label of the kernel that a call of an operator at a backend's key reaches."""
        for each in (key, "CompositeExplicitAutograd", "CompositeImplicitAutograd"):
            labels = [label for n, k, label in self.kernels if (n, k) == (name, each)]
            if labels:
                return labels[-1]
        return self.fallbacks.get(key)


class Listener:
    def __init__(self) -> None:
        self.present: list[str] = []

    def on_operator_registered(self, op: OperatorEntry) -> None:
        self.present.append(op.name)

    def on_operator_deregistered(self, op: OperatorEntry) -> None:
        self.present.remove(op.name)


def served_by(op: OperatorEntry, key: str) -> str | None:
    """Return the label of the kernel that a key selects, or None."""
    try:
        return op.lookup(getattr(tt.DispatchKey, key).bits).source
    except NotImplementedError:
        return None


def snapshot() -> dict[str, Any]:
    """Return the parts of the registry that this test may change."""
    return {
        "operators": [n for n in DISPATCHER.get_all_op_names() if n.startswith("t_")],
        "packets": [n for n in DISPATCHER.packets if n.startswith("t_")],
        "libraries": dict(DISPATCHER._libraries),
        "fallbacks": dict(operator_entry.fallbacks),
        "listeners": DISPATCHER._listeners,
        "skipped": dict(DISPATCHER.skipped),
    }


class Registry(RuleBasedStateMachine):
    """Stateful test of the registry; `handles` has each open registration with the step that undoes it in
    the model.
    """

    handles = Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.before = snapshot()
        self.model = Model()
        self.labels = itertools.count()
        self.listener = Listener()
        self.open: list[RegistrationHandle] = []
        self.retired: list[OperatorEntry] = []
        self.x = tt.ones(1)
        self.listening = DISPATCHER.add_listener(self.listener)

    def kept(self, handle: RegistrationHandle, undo: Any) -> tuple[RegistrationHandle, Any]:
        self.open.append(handle)
        return handle, undo

    def label(self, what: str) -> str:
        return f"{what} {next(self.labels)}"

    @rule(target=handles, name=st.sampled_from(NAMES), arguments=st.sampled_from(SCHEMAS))
    def define(self, name: str, arguments: str) -> tuple[RegistrationHandle | None, Any]:
        source = self.label("definition")
        if name in self.model.schemas:
            with pytest.raises(RuntimeError) as raised:
                DISPATCHER.register_def(name + arguments, source)
            assert self.model.schemas[name][1] in str(raised.value)
            assert source in str(raised.value)
            return None, None
        handle = DISPATCHER.register_def(name + arguments, source)
        self.model.schemas[name] = (name + arguments, source)
        op = DISPATCHER.find_schema_or_throw(name)

        def undo() -> None:
            del self.model.schemas[name]
            self.retired.append(op)

        return self.kept(handle, undo)

    @rule(target=handles, name=st.sampled_from(NAMES), key=st.sampled_from(KEYS))
    def impl(self, name: str, key: str) -> tuple[RegistrationHandle, Any]:
        label = self.label("kernel")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            handle = DISPATCHER.register_impl(name, key, KernelFunction(lambda *args: label, source=label))
        self.model.kernels.append((name, key, label))
        return self.kept(handle, lambda: self.model.kernels.remove((name, key, label)))

    @rule(target=handles, key=st.sampled_from(["IPU", "VE"]))
    def fallback(self, key: str) -> tuple[RegistrationHandle | None, Any]:
        label = self.label("fallback")

        def boxed(op: OperatorEntry, keys: tt.DispatchKeySet, stack: list[Any]) -> None:
            del stack[len(stack) - len(op.schema.arguments) :]
            stack.append(label)

        kernel = KernelFunction(boxed, boxed=True, source=label)
        if key in self.model.fallbacks:
            with pytest.raises(RuntimeError, match=f"{self.model.fallbacks[key]}, new registration {label}"):
                DISPATCHER.register_fallback(key, kernel)
            return None, None
        handle = DISPATCHER.register_fallback(key, kernel)
        self.model.fallbacks[key] = label
        return self.kept(handle, lambda: self.model.fallbacks.pop(key))

    @rule(target=handles, name=st.sampled_from(NAMES))
    def name(self, name: str) -> tuple[RegistrationHandle, Any]:
        handle = DISPATCHER.register_name(name)
        self.model.names.append(name)
        return self.kept(handle, lambda: self.model.names.remove(name))

    @rule(target=handles, namespace=st.sampled_from(NAMESPACES))
    def library(self, namespace: str) -> tuple[RegistrationHandle | None, Any]:
        source = self.label("library")
        if namespace in self.model.libraries:
            with pytest.raises(RuntimeError, match=f"{self.model.libraries[namespace]}, again at {source}"):
                DISPATCHER.register_library(namespace, source)
            return None, None
        handle = DISPATCHER.register_library(namespace, source)
        self.model.libraries[namespace] = source
        return self.kept(handle, lambda: self.model.libraries.pop(namespace))

    @rule(registered=consumes(handles), times=st.integers(1, 2))
    def close(self, registered: tuple[RegistrationHandle | None, Any], times: int) -> None:
        handle, undo = registered
        if handle is None:
            return
        for _ in range(times):
            handle.close()
        self.open.remove(handle)
        undo()

    @rule(name=st.sampled_from(NAMES), key=st.sampled_from(CALLED))
    def call(self, name: str, key: str) -> None:
        op = DISPATCHER.find_schema(name)
        if op is None:
            return
        args = (self.x, 3)[: len(op.schema.arguments)]
        expected = self.model.serving(name, key)
        keys = tt.DispatchKeySet(getattr(tt.DispatchKey, key))
        if expected is None:
            with pytest.raises(NotImplementedError, match=f"Could not run '{name}' .*'{key}' backend"):
                DISPATCHER.redispatch(op, keys, *args)
        else:
            assert DISPATCHER.redispatch(op, keys, *args) == expected
            assert op.dump().count(expected) >= 1
            if key == "CPU":
                assert DISPATCHER.call(op, *args) == expected
                overload = getattr(tt.ops.t_model, op.name.partition("::")[2].partition(".")[0])
                assert getattr(overload, op.schema.overload_name or "default")(self.x) == expected

    @precondition(lambda self: self.retired)
    @rule()
    def call_retired(self) -> None:
        """Reject a call of an operator whose definition is gone, though a caller still holds it."""
        op = self.retired[-1]
        with pytest.raises(NotImplementedError, match=f"Could not run '{op.name}': its definition at"):
            op.call(*(self.x, 3)[: len(op.schema.arguments)])

    @invariant()
    def agrees(self) -> None:
        model = self.model
        for name in NAMES:
            op, defined = DISPATCHER.find_op(name), DISPATCHER.find_schema(name)
            assert (op is not None) == (name in model.known())
            assert (defined is not None) == (name in model.schemas)
            if defined is not None:
                assert (str(defined.schema), defined.source) == model.schemas[name]
                # After every step, so that each meets what an earlier one has memoised.
                assert {key: served_by(defined, key) for key in CALLED} == {
                    key: model.serving(name, key) for key in CALLED
                }
            if op is not None:
                registered = {k.name: [each.source for each in kernels] for k, kernels in op.kernels.items()}
                expected: dict[str, list[str]] = {}
                for n, key, label in model.kernels:
                    if n == name:
                        expected.setdefault(key, []).append(label)
                assert registered == expected
        assert {n for n in DISPATCHER.get_all_op_names() if n.startswith("t_")} == model.known()
        assert {
            n for group in DISPATCHER.packets.values() for n in group if n.startswith("t_")
        } == model.known()
        assert {
            k.name: f.source for k, f in operator_entry.fallbacks.items() if k.name in CALLED
        } == model.fallbacks
        for key in KEYS:
            having = {n for n in DISPATCHER.get_registrations_for_dispatch_key(key) if n.startswith("t_")}
            assert having == {n for n, k, _ in model.kernels if k == key}
        assert {n: s for n, s in DISPATCHER._libraries.items() if n in NAMESPACES} == model.libraries
        heard = [n for n in self.listener.present if n.startswith("t_")]
        assert sorted(heard) == sorted(model.schemas)

    def teardown(self) -> None:
        for handle in self.open:
            handle.close()
        self.listening.close()
        assert snapshot() == self.before


TestRegistry = Registry.TestCase
TestRegistry.settings = settings(
    max_examples=30, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
