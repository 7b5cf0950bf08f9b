"""A graph runs while the values that the function read are unchanged; otherwise the function is captured
again.
"""

import dataclasses
import gc
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, graphs, same

factor: Any = 2.0
weight = tt.ones(3)


@pytest.fixture(autouse=True)
def globals_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore this module's globals."""
    monkeypatch.setitem(globals(), "factor", 2.0)
    monkeypatch.setitem(globals(), "weight", tt.ones(3))


def set_global(name: str, value: Any) -> None:
    globals()[name] = value


@dataclasses.dataclass
class Config:
    """Settings in a dict of attributes."""

    power: Any = 2
    unread: Any = None


class Slotted:
    """Settings in slots."""

    __slots__ = ("power", "unread")

    def __init__(self) -> None:
        self.power: Any = 2
        self.unread: Any = None


class Holder(tt.nn.Module):
    """Module that reads every kind of attribute of a module."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = tt.nn.Linear(3, 3)
        self.layers = tt.nn.ModuleList([tt.nn.Tanh()])
        self.dropout = tt.nn.Dropout(0.5)
        self.config, self.slots = Config(), Slotted()
        self.scales: list[Any] = [1.0, 2.0]
        self.named: dict[str, Any] = {"bias": 1.0}
        self.unread: Any = None
        self.register_buffer("shift", tt.zeros(3))

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        x = self.linear(x) ** self.config.power + self.slots.power
        for layer in self.layers:
            x = layer(x)
        for scale in self.scales:
            x = x * scale
        for name, value in self.named.items():
            x = x + value if name == "bias" else x - value
        return self.dropout(x) + self.shift


# Each changes a module; the second says whether that needs another graph.
CHANGES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "a config's attribute": (lambda m: setattr(m.config, "power", 3), True),
    "another class of number": (lambda m: setattr(m.config, "power", 2.0), True),
    "another config": (lambda m: setattr(m, "config", Config(4)), True),
    "a slot": (lambda m: setattr(m.slots, "power", 3), True),
    "a list's element": (lambda m: m.scales.__setitem__(0, 5.0), True),
    "a list's length": (lambda m: m.scales.append(3.0), True),
    "a dict's value": (lambda m: m.named.update(bias=2.0), True),
    "a dict's keys": (lambda m: m.named.update(more=2.0), True),
    "eval": (lambda m: m.eval(), True),
    "a part's mode": (lambda m: m.dropout.eval(), True),
    "a part's attribute": (lambda m: setattr(m.dropout, "p", 0.1), True),
    "a new layer": (lambda m: m.layers.append(tt.nn.ReLU()), True),
    "another layer": (lambda m: m.layers.__setitem__(0, tt.nn.Sigmoid()), True),
    "a hook": (lambda m: m.linear.register_forward_hook(lambda *given: given[-1] * 3), True),
    "a parameter's dtype": (lambda m: m.linear.to(tt.float64) and setattr(m, "unread", 1), True),
    "a parameter without gradient": (lambda m: m.linear.weight.requires_grad_(False), True),
    "a parameter's strides": (lambda m: setattr(m.linear, "weight", tt.nn.Parameter(tt.rand(3, 3).t())), True),
    "no bias": (lambda m: m.linear.register_parameter("bias", None), True),
    "a parameter's values": (lambda m: m.linear.weight.data.mul_(2), False),
    "another parameter": (lambda m: setattr(m.linear, "weight", tt.nn.Parameter(tt.rand(3, 3))), False),
    "another buffer": (lambda m: setattr(m, "shift", tt.rand(3)), False),
    "a state dict": (lambda m: m.load_state_dict(Holder().state_dict()), False),
    "the same values": (lambda m: (setattr(m, "scales", m.scales), setattr(m.config, "power", 2), m.train()), False),
    "an unread attribute": (lambda m: setattr(m, "unread", 1), False),
    "an unread slot": (lambda m: setattr(m.slots, "unread", 1), False),
    "a gradient": (lambda m: setattr(m.linear.weight, "grad", tt.rand(3, 3)), False),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_module_holds(name: str) -> None:
    change, matters = CHANGES[name]
    eager = Holder()
    compiled = tt.compile(eager, fullgraph=True)

    def compare() -> None:
        x = drawn(2, 3, dtype=eager.linear.weight.dtype)
        tt.manual_seed(1)
        expected = eager(x)
        tt.manual_seed(1)
        same(compiled(x), expected, name)

    compare()
    change(eager)
    compare()
    compare()
    assert graphs(compiled) == 1 + matters


@pytest.mark.parametrize(
    ("name", "value", "matters"),
    [
        ("factor", 3.0, True),
        ("factor", 2, True),
        ("factor", tt.ones(3), True),
        ("weight", tt.zeros(3), False),
        ("weight", tt.zeros(1), True),
        ("unread", 3, False),
    ],
)
def test_globals(name: str, value: Any, matters: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = tt.compile(lambda x: x * factor + weight, fullgraph=True)
    same(compiled(drawn(3)), drawn(3) * 2.0 + tt.ones(3))
    monkeypatch.setitem(globals(), name, value)
    for _ in range(2):
        same(compiled(drawn(3)), drawn(3) * factor + weight)
    assert graphs(compiled) == 1 + matters


def test_globals_of_functions_that_are_called() -> None:
    def inner(x: tt.Tensor) -> tt.Tensor:
        return x * factor

    compiled = tt.compile(lambda x: inner(x) + 1, fullgraph=True)
    same(compiled(drawn(3)), drawn(3) * 2.0 + 1)
    set_global("factor", 4.0)
    same(compiled(drawn(3)), drawn(3) * 4.0 + 1)


def test_the_collector_s_callbacks_are_not_the_program() -> None:
    def reads_a_global(phase: str, info: dict[str, int]) -> None:
        set_global("factor", factor + 1)

    def f(x: tt.Tensor) -> tt.Tensor:
        gc.collect()
        return x * 2

    gc.callbacks.append(reads_a_global)
    try:
        compiled = tt.compile(f, fullgraph=True)
        for _ in range(3):
            same(compiled(drawn(3)), drawn(3) * 2)
            gc.collect()
    finally:
        gc.callbacks.remove(reads_a_global)
    assert factor > 3 and graphs(compiled) == 1
    assert not any("_Collector" in repr(each) for each in gc.callbacks)


def test_closures() -> None:
    power, tensor, function = 2, tt.ones(3), tt.relu

    def f(x: tt.Tensor) -> tt.Tensor:
        return function(x) ** power + tensor

    compiled = tt.compile(f, fullgraph=True)
    for wanted, change in enumerate(("", "power", "function", "tensor"), 1):
        if change == "power":
            power = 3
        elif change == "function":
            function = tt.abs
        elif change == "tensor":
            tensor = tt.zeros(3)
        same(compiled(drawn(3)), f(drawn(3)), change)
        assert graphs(compiled) == min(wanted, 3), "another tensor that looks the same needs no graph"


def test_attributes_of_classes_and_arguments_that_are_objects() -> None:
    class Scaled:
        by = 2

        def __init__(self, shift: float) -> None:
            self.shift = shift

        def of(self, x: tt.Tensor) -> tt.Tensor:
            return x * self.by + self.shift

    compiled = tt.compile(lambda x, scaled: scaled.of(x), fullgraph=True)
    one = Scaled(1.0)
    for change in (lambda: None, lambda: setattr(Scaled, "by", 5), lambda: setattr(one, "shift", 2.0)):
        change()
        for _ in range(2):
            same(compiled(drawn(3), one), one.of(drawn(3)))
    assert graphs(compiled) == 3
    same(compiled(drawn(3), Scaled(7.0)), drawn(3) * 5 + 7.0)


LOOKS: dict[str, Callable[[], tt.Tensor]] = {
    "sizes": lambda: drawn(4, 4),
    "rank": lambda: drawn(3),
    "dtype": lambda: drawn(4, 3, dtype=tt.float64),
    "strides": lambda: drawn(3, 4).t(),
    "expanded": lambda: drawn(3).expand(4, 3),
    "requires_grad": lambda: drawn(4, 3, grad=True),
    "a parameter": lambda: tt.nn.Parameter(drawn(4, 3), requires_grad=True),
}


@pytest.mark.parametrize("look", LOOKS)
def test_looks_of_arguments(look: str) -> None:
    compiled = tt.compile(lambda x: (x.relu() + 1).sum(0) + x.shape[0], fullgraph=True, dynamic=False)
    same(compiled(drawn(4, 3)), compiled._torchdynamo_orig_callable(drawn(4, 3)))
    for _ in range(2):
        same(compiled(LOOKS[look]()), compiled._torchdynamo_orig_callable(LOOKS[look]()), look)
    assert graphs(compiled) == 2


def test_what_does_not_matter_in_arguments() -> None:
    compiled = tt.compile(lambda x: x * 2 + 1, fullgraph=True)
    base = drawn(6, 3)
    for x in (drawn(2, 3, seed=1), base[4:], base[:2], drawn(3, 2).t().contiguous(), drawn(2, 3)):
        same(compiled(x), x * 2 + 1)
    assert graphs(compiled) == 1


def test_grad_mode_and_default_dtype() -> None:
    compiled = tt.compile(lambda x: x + tt.ones(3), fullgraph=True)
    x = drawn(3, grad=True)
    assert compiled(x).requires_grad
    with tt.no_grad():
        assert not compiled(x).requires_grad
    tt.set_default_dtype(tt.float64)
    try:
        assert compiled(x).dtype is tt.float64
    finally:
        tt.set_default_dtype(tt.float32)
    assert compiled(x).dtype is tt.float32


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_as_it_was_after_a_capture(enabled: bool) -> None:
    was_enabled = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(tt.compiler.Unsupported):
            tt.compile(lambda x: print(x), fullgraph=True)(tt.ones(2))
        tt.compile(lambda x: x + 1, fullgraph=True)(tt.ones(2))
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_what_a_mode_of_the_programs_reads_is_guarded() -> None:
    class Scaled(tt.TensorDispatchMode):
        factor = 2

        def __tensor_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            return made * self.factor if func is tt.ops.aten.exp.default else made

    def function(x: tt.Tensor) -> tt.Tensor:
        with Scaled():
            return x.exp()

    compiled = tt.compile(function)
    for factor in (2, 3, 4):
        Scaled.factor = factor
        same(compiled(drawn(3)), function(drawn(3)))


def test_guards_do_not_print_tensors_that_are_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = tt.nn.Parameter(drawn(3))
    states = {weight: {"step": 2}}

    def function(x: tt.Tensor) -> tt.Tensor:
        return x * states[weight]["step"]

    monkeypatch.setattr(tt.nn.Parameter, "__repr__", lambda self: pytest.fail("a tensor is printed"))
    compiled = tt.compile(function, fullgraph=True)
    for step in (2, 3):
        states[weight]["step"] = step
        same(compiled(drawn(3)), function(drawn(3)))
    assert graphs(compiled) == 2
