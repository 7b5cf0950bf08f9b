"""Every public callable can be overridden by a mode and by its arguments; the exceptions are listed."""

import inspect
import types
from typing import ClassVar

import pytest

import triten as tt
from triten import overrides
from triten.dispatch.layers.overrides import overridable

TAKEN = object()
"""What every handler here returns."""


FIRST_IS_A_LIST = {
    "pad_sequence",
    "_amp_foreach_non_finite_check_and_unscale_",
    "_fused_adam_",
    "_fused_adamw_",
    "_fused_sgd_",
    "_multi_tensor_norm",
    "_multi_tensor_pointwise",
    "_multi_tensor_pointwise_",
    "_multi_tensor_total_norm",
    "_linalg_check_errors",
    "_empty_per_channel_affine_quantized",
}
"""Functions of lists, and one that has a keyword without a default."""


class Foreign:
    """Override class that is no tensor."""

    asked: ClassVar = []

    @classmethod
    def __tensor_function__(cls, func, types, args=(), kwargs=None):
        Foreign.asked.append(func)
        return TAKEN


class Sub(tt.Tensor):
    """Tensor subclass."""

    @classmethod
    def __tensor_function__(cls, func, types, args=(), kwargs=None):
        Foreign.asked.append(func)
        return TAKEN


class Mode(overrides.TensorFunctionMode):
    def __tensor_function__(self, func, types, args=(), kwargs=None):
        Foreign.asked.append(func)
        return TAKEN


def keywords(call):
    """Return values for a function's required keyword-only arguments."""
    if getattr(call, "__name__", "") not in (*FIRST_IS_A_LIST, "nonzero_static"):
        return {}
    parameters = inspect.signature(call).parameters.values()
    return {p.name: 1 for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty}


def taken(call, *args):
    """Return the function that a call passed to a handler, None if there was no override, or the error
    raised before.
    """
    Foreign.asked.clear()
    try:
        result = call(*args, **keywords(call))
    except Exception as error:  # the assertion names it
        return error
    if call in (setattr, delattr, tt.autograd.backward):
        result = TAKEN
    return Foreign.asked[0] if result is TAKEN and len(Foreign.asked) == 1 else None


FUNCTIONS = [
    (f"{namespace}.{name}", name, function)
    for namespace, name, function in overridable.public_functions()
    if name not in overridable.UNSEEN
]
BY_ARGUMENTS = [each for each in FUNCTIONS if each[1] not in overridable.MODES_ONLY]
ATTRIBUTES = list(overridable.overridable_attributes())
METHODS = [(name, method) for name, method in ATTRIBUTES if not isinstance(method, property)]
PROPERTIES = [(name, each) for name, each in ATTRIBUTES if isinstance(each, property)]


def required(function, value, first=True):
    """Return a function's required positional arguments: the value in one position, numbers in the others."""
    parameters = list(inspect.signature(function).parameters.values())
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    if not positional:
        return [value] if first else [None, value]
    needed = [p for p in positional if p.default is p.empty]
    place = 0 if first else 1
    if positional[min(place, len(positional) - 1)].name == "tensors" or function.__name__ in FIRST_IS_A_LIST:
        value = [value]
    return [value if i == place else 1 for i in range(max(len(needed), place + 1))]


def takes_more_than_self(method):
    """Return True if a method has positional arguments besides self."""
    kinds = [p.kind for p in inspect.signature(method).parameters.values()][1:]
    return any(
        kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL) for kind in kinds
    )


def test_the_lists_are_not_empty():
    assert len(BY_ARGUMENTS) > 300 and len(METHODS) > 300 and len(PROPERTIES) > 20


def test_a_mode_sees_every_function():
    with Mode():
        missed = {name: got for name, _, f in FUNCTIONS if (got := taken(f)) is not f}
    assert missed == {}


def test_a_mode_sees_every_method_property_and_operator():
    x = tt.ones(2)
    with Mode():
        missed = {name: got for name, f in METHODS if (got := taken(f, x)) != overridable.presented(name)}
        for name, each in PROPERTIES:
            for accessor, _, func in overridable.accessors(each):
                got = taken(func, x, None) if accessor == "__set__" else _accessed(func, x)
                if got != func and not (accessor != "__get__" and Foreign.asked == [func]):
                    missed[f"{name}.{accessor}"] = got
    assert missed == {}


def _accessed(func, x):
    return taken(func, x)


@pytest.mark.parametrize("value", [Foreign(), tt.ones(2, 2).as_subclass(Sub)], ids=["foreign", "subclass"])
def test_every_function_asks_the_arguments_that_it_takes(value):
    missed = {name: got for name, _, f in BY_ARGUMENTS if (got := taken(f, *required(f, value))) is not f}
    assert missed == {}


@pytest.mark.parametrize("value", [Foreign(), tt.ones(2, 2).as_subclass(Sub)], ids=["foreign", "subclass"])
def test_every_function_asks_the_arguments_that_it_takes_under_guards(value):
    with tt.inference_mode():
        missed = {name: got for name, _, f in BY_ARGUMENTS if (got := taken(f, *required(f, value))) is not f}
    assert missed == {}


def test_every_attribute_of_a_subclass_asks_it():
    x = tt.ones(2, 2).as_subclass(Sub)
    missed = {
        name: got
        for name, f in METHODS
        if (got := taken(getattr(x, name), *([1] if name.startswith("__r") and name != "__repr__" else [])))
        != overridable.presented(name)
        and name != "__reversed__"
    }
    for name, each in PROPERTIES:
        for accessor, _, func in overridable.accessors(each):
            if accessor == "__get__":
                got = taken(getattr, x, name)
            elif accessor == "__set__":
                got = taken(setattr, x, name, 1)
            else:
                got = taken(delattr, x, name)
            if got != func:
                missed[f"{name}.{accessor}"] = got
    assert missed == {}
    assert taken(reversed, x) is tt.Tensor.__reversed__


@pytest.mark.parametrize("value", [Foreign(), tt.ones(2, 2).as_subclass(Sub)], ids=["foreign", "subclass"])
def test_every_method_of_operators_asks_its_other_arguments(value):
    x = tt.ones(2, 2)
    packets = {name for name, f in METHODS if f.__module__.startswith("triten.dispatch.generated")}
    missed = {}
    for name, f in METHODS:
        if name not in packets or not takes_more_than_self(f):
            continue
        got = taken(getattr(x, name), *required(f, value, first=False)[1:])
        if got != overridable.presented(name):
            missed[name] = got
    assert missed == {}


def test_ignored_and_overridable_functions_are_disjoint_and_cover_what_is_public():
    ignored = overrides.get_ignored_functions()
    found = overrides.get_overridable_functions()
    listed = {f for functions in found.values() for f in functions}
    assert not ignored & listed
    assert set(found) >= {tt, tt.nn.functional, tt.autograd, tt.Tensor}
    public = {getattr(tt, name) for name in tt.__all__ if isinstance(getattr(tt, name), types.FunctionType)}
    assert public <= ignored | listed
    assert {tt.ones, tt.tensor, tt.manual_seed, tt.Tensor.as_subclass, tt.Tensor.__hash__} <= ignored
    assert {tt.add, tt.Tensor.add, tt.nn.functional.softmax, tt.autograd.grad, tt.Tensor.__len__} <= listed


def test_names_lead_back_to_what_they_name():
    wrong = {}
    for functions in overrides.get_overridable_functions().values():
        for f in functions:
            name = overrides.resolve_name(f)
            if name is None or eval(name, {"triten": tt}) != f:
                wrong[f] = name
    assert wrong == {}
    assert overrides.resolve_name(tt.ops.aten.add.Tensor) == "aten.add.Tensor"
    assert overrides.resolve_name(len) is None and overrides.resolve_name([]) is None


def test_the_lists_of_exceptions_name_what_there_is():
    names = {name for _, name, _ in overridable.public_functions()}
    assert names >= overridable.UNSEEN
    assert not overridable.UNSEEN & overridable.MODES_ONLY
    absent = {name for name in overridable.IGNORED_METHODS if not hasattr(tt.Tensor, name)}
    assert absent == set()


def test_functions_have_no_free_variables_so_that_their_code_can_be_exchanged():
    bound = [name for name, _, f in FUNCTIONS if f.__code__.co_freevars]
    bound += [name for name, f in METHODS if f.__code__.co_freevars]
    bound += [
        name for name, p in PROPERTIES for _, f, _ in overridable.accessors(p) if f.__code__.co_freevars
    ]
    assert bound == []
