"""Guards on values that are easy to miss: names in strings, classes, containers, functions, other modules."""

import collections
import functools
import types
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, graphs, same


def seen(function: Callable[..., Any], change: Callable[[], Any], *args: Any) -> None:
    """Raise AssertionError unless a change is seen by the calls after it."""
    compiled = tt.compile(function)
    for step in (lambda: None, change):
        step()
        for _ in range(2):
            same(compiled(drawn(3), *args), function(drawn(3), *args))


class Scale(tt.nn.Module):
    """Module whose class has attributes that its objects may have."""

    by = 2

    def of(self, x: tt.Tensor) -> tt.Tensor:
        return x * self.by

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        return self.of(x)


class Larger(Scale):
    """Replacement class for the same object."""

    def of(self, x: tt.Tensor) -> tt.Tensor:
        return x * 7


@pytest.mark.parametrize("what", ["attribute", "method", "method of the class", "class"])
def test_what_an_object_has_in_place_of_its_class(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = Scale()
    changes: dict[str, Callable[[], Any]] = {
        "attribute": lambda: setattr(module, "by", 3),
        "method": lambda: setattr(module, "of", lambda x: x * 5),
        "method of the class": lambda: monkeypatch.setattr(Scale, "of", lambda self, x: x * 5),
        "class": lambda: setattr(module, "__class__", Larger),
    }
    seen(module, changes[what])


NAMES: dict[str, Callable[[Any, Any], Any]] = {
    "getattr": lambda x, o: x * getattr(o, "flag", 1),
    "hasattr": lambda x, o: x * 2 if hasattr(o, "flag") else x,
    "made": lambda x, o: x * getattr(o, f"scale{0}"),
}


@pytest.mark.parametrize("form", NAMES)
def test_attributes_whose_names_are_strings(form: str) -> None:
    settings = types.SimpleNamespace(scale0=2)
    seen(NAMES[form], lambda: vars(settings).update(flag=3, scale0=5), settings)


CONTAINERS: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], Any], Callable[[Any], Any]]] = {
    "set": (lambda: {"a"}, lambda x, o: x * 2 if "a" in o else x, lambda o: o.clear()),
    "deque": (lambda: collections.deque([2]), lambda x, o: x * o[0], lambda o: o.appendleft(5)),
    "array": (lambda: np.ones(1), lambda x, o: x * float(o[0]), lambda o: o.fill(5)),
    "missing key": (dict, lambda x, o: x * o.get("a", 1), lambda o: o.update(a=4)),
    "nest": (
        lambda: {"a": [{"b": (1, 2)}]}, lambda x, o: x * o["a"][0]["b"][0], lambda o: o["a"][0].update(b=(7,)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("where", ["closure", "attribute"])
@pytest.mark.parametrize("kind", CONTAINERS)
def test_containers(kind: str, where: str) -> None:
    make, function, change = CONTAINERS[kind]
    held = make()
    holder = types.SimpleNamespace(held=held)
    closure, attribute = (lambda x: function(x, held)), (lambda x: function(x, holder.held))
    seen(closure if where == "closure" else attribute, lambda: change(held))


@pytest.mark.parametrize("what", ["flag", "settings", "function"])
def test_what_another_module_holds(what: str) -> None:
    module = types.ModuleType("settings_of_a_program")
    module.__file__ = __file__
    vars(module).update(flag=2, settings=types.SimpleNamespace(power=2), function=lambda x: x * 2)
    functions: dict[str, tuple[Callable[[Any], Any], Callable[[], Any]]] = {
        "flag": (lambda x: x * module.flag, lambda: setattr(module, "flag", 3)),
        "settings": (lambda x: x**module.settings.power, lambda: setattr(module.settings, "power", 3)),
        "function": (lambda x: module.function(x), lambda: setattr(module, "function", lambda x: x * 3)),
    }
    seen(*functions[what])


def test_defaults_of_functions() -> None:
    def f(x: tt.Tensor, by: int = 2) -> tt.Tensor:
        return x * by

    seen(f, lambda: setattr(f, "__defaults__", (5,)))


def test_the_sign_of_a_zero() -> None:
    settings = types.SimpleNamespace(zero=0.0)
    seen(lambda x: x.abs() * settings.zero, lambda: setattr(settings, "zero", -0.0))


HELD = tt.ones(3)


def test_tensors_are_found_where_functions_hold_them() -> None:
    def default(x: tt.Tensor, w: tt.Tensor = HELD) -> tt.Tensor:
        return x * w

    class Gate:
        def __init__(self) -> None:
            self.w = tt.ones(3)

        @tt.no_grad()
        def decorated(self, x: tt.Tensor) -> tt.Tensor:
            return x * self.w

    labels = tt.tensor([0, 2, 1])

    class Loss(tt.nn.Module):
        def forward(self, x: tt.Tensor) -> tt.Tensor:
            return x[labels]

    for function in (default, functools.partial(tt.add, HELD), Gate().decorated, Loss()):
        compiled = tt.compile(function, fullgraph=True)
        for number in (1, 2):
            HELD.fill_(number)
            same(compiled(drawn(3)), function(drawn(3)))
        assert graphs(compiled) == 1


class Settings:
    """Class that functions read and instantiate."""

    scale: float = 2.0
    sizes: ClassVar[list[int]] = [2]
    calls = 0

    def of(self) -> float:
        """Return an attribute that the object inherits from its class."""
        return self.scale

    @property
    def twice(self) -> float:
        """Read an attribute through the object's class."""
        return type(self).scale * 2

    @classmethod
    def own(cls) -> float:
        """Return an attribute of the class."""
        return cls.scale

    @staticmethod
    def fixed() -> float:
        """Read an attribute through a global name."""
        return Settings.scale


class Special(Settings):
    """Class that inherits all attributes."""


READS: dict[str, Callable[[Any], Any]] = {
    "attribute": lambda x: x * Settings.scale,
    "inherited": lambda x: x * Special.scale,
    "new object": lambda x: x * Settings().of(),
    "property of a new object": lambda x: x * Special().twice,
    "class method": lambda x: x * Special.own(),
    "static method": lambda x: x * Settings.fixed(),
    "in a dict": lambda x, known={"settings": Settings}: x * known["settings"].scale,  # type: ignore[misc]
    "container": lambda x: x * sum(Special.sizes),
}


@pytest.mark.parametrize("of_the_special", [False, True])
@pytest.mark.parametrize("name", READS)
def test_what_a_class_has(name: str, of_the_special: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    function = READS[name]
    compiled = tt.compile(function, fullgraph=True)
    for scale in (2.0, 3.0, 4.0):
        monkeypatch.setattr(Special if of_the_special else Settings, "scale", scale)
        monkeypatch.setattr(Settings, "sizes", [1] * int(scale))
        for _ in range(2):
            same(compiled(drawn(3)), function(drawn(3)))


def test_a_class_counts_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: tt.Tensor) -> tt.Tensor:
        Settings.calls += 1
        return x + 1

    monkeypatch.setattr(Settings, "calls", 0)
    compiled = tt.compile(function)
    for call in range(1, 6):
        same(compiled(drawn(3)), drawn(3) + 1)
        assert Settings.calls == call
