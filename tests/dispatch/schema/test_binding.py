"""Binding of a call's arguments: the table of types, the defaults, and PyTorch's errors."""

from __future__ import annotations

from collections import UserList
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triten.dispatch.schema import (
    SchemaError,
    bind,
    matches,
    mismatch_reason,
    parse_schema,
    register_exact_type,
    register_type_check,
)
from triten.runtime.device import CPU
from triten.runtime.device import device as Device
from triten.runtime.generator import Generator
from triten.runtime.layout import strided
from triten.runtime.memory_format import channels_last, contiguous_format
from triten.runtime.scalar_type import bool_, complex128, dtype, float32, float64, int64
from triten.runtime.tensor_impl import TensorImpl
from triten.runtime.tensor_spec import TensorSpec


class Tensor(TensorImpl):
    """Tensor with `item`, the only method that binding needs."""

    __slots__ = ()

    def item(self) -> Any:
        return self._data.item()


def tensor(value: object, kind: dtype = float32, requires_grad: bool = False) -> Tensor:
    data = np.asarray(value, dtype=kind.np)
    spec = TensorSpec.contiguous(data.shape, kind, CPU).replace(requires_grad=requires_grad)
    return Tensor.from_data(data, spec)


X = tensor([1.0, 2.0])
Y = tensor([3.0, 4.0])
ZERO_DIM_INT = tensor(3, int64)
ZERO_DIM_FLOAT = tensor(2.5)
ZERO_DIM_GRAD = tensor(2.5, requires_grad=True)


class Index:
    def __index__(self) -> int:
        return 7


class Text(str):
    __slots__ = ()


ACCEPTED = [
    ("Tensor", X, X),
    ("Tensor?", None, None),
    ("Tensor[]", [X, Y], (X, Y)),
    ("Tensor[]", (), ()),
    ("Tensor?[]", [X, None], (X, None)),
    ("int", 3, 3),
    ("int", np.int32(3), 3),
    ("int", Index(), 7),
    ("int", ZERO_DIM_INT, 3),
    ("SymInt", 3, 3),
    ("DeviceIndex", 1, 1),
    ("int?", None, None),
    ("float", 2.5, 2.5),
    ("float", 2, 2.0),
    ("float", True, 1.0),
    ("float", np.float32(0.5), 0.5),
    ("float", ml_dtypes.bfloat16(0.5), 0.5),
    ("float", ZERO_DIM_FLOAT, 2.5),
    ("float", ZERO_DIM_INT, 3.0),
    ("Scalar", 2, 2),
    ("Scalar", True, True),
    ("Scalar", 2.5, 2.5),
    ("Scalar", 1j, 1j),
    ("Scalar", np.int8(2), 2),
    ("Scalar", np.bool_(True), True),
    ("Scalar", np.float64(2.5), 2.5),
    ("Scalar", np.float16(2.5), 2.5),
    ("Scalar", np.complex64(1j), 1j),
    ("Scalar", ml_dtypes.float8_e5m2(2.0), 2.0),
    ("Scalar", ZERO_DIM_FLOAT, 2.5),
    ("bool", True, True),
    ("SymBool", False, False),
    ("str", "mean", "mean"),
    ("str", Text("mean"), "mean"),
    ("ScalarType", float32, float32),
    ("ScalarType", float, float64),
    ("ScalarType", int, int64),
    ("ScalarType", bool, bool_),
    ("ScalarType", complex, complex128),
    ("Layout", strided, strided),
    ("MemoryFormat", channels_last, channels_last),
    ("Device", Device("meta"), Device("meta")),
    ("Device", "cuda:1", Device("cuda", 1)),
    ("Device", 0, Device("cuda", 0)),
    ("Dimname", "N", "N"),
    ("Any", X, X),
    ("int[]", [1, 2], (1, 2)),
    ("int[]", X.shape, (2,)),
    ("int[]", [np.int64(1), Index(), ZERO_DIM_INT], (1, 7, 3)),
    ("int[2]", 3, (3, 3)),
    ("int[2]", [1], (1,)),
    ("int[2]?", 3, (3, 3)),
    ("SymInt[3]", np.int64(2), (2, 2, 2)),
    ("float[]", [1, 2.5], (1.0, 2.5)),
    ("Scalar[]", [1, 2.5, True], (1, 2.5, True)),
    ("bool[2]", [True, False], (True, False)),
    ("Dimname[]", ["N", "C"], ("N", "C")),
    ("int[]", [2, True, np.int64(3)], (2, 1, 3)),
    ("SymInt[2]", (0, False), (0, 0)),
]


def same(left: object, right: object) -> bool:
    """Return True for equal values of equal classes, and for identical tensors."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, TensorImpl | Device | dtype):
        return left is right
    return type(left) in (type(right), Text) and left == right


@pytest.mark.parametrize(("type", "value", "expected"), ACCEPTED)
def test_accepted(type: str, value: object, expected: object) -> None:
    schema = parse_schema(f"f({type} x) -> ()")
    for bound in (bind(schema, (value,)), bind(schema, (), {"x": value})):
        assert same(bound, (expected,)), (type, value, bound)
    assert matches(schema, (value,))
    assert mismatch_reason(schema, (value,)) is None


REFUSED = [
    ("Tensor", 1, "Tensor, not int"),
    ("Tensor", None, "Tensor, not NoneType"),
    ("Tensor", np.ones(2), "Tensor, not numpy.ndarray"),
    ("Tensor[]", X, "tuple of Tensors, not Tensor"),
    ("Tensor[]", [X, None], "tuple of Tensors, but found element of type NoneType at pos 1"),
    ("Tensor?[]", [X, 1], "tuple of Tensors, but found element of type int at pos 1"),
    ("int", True, "int, not bool"),
    ("int", np.bool_(True), "int, not numpy.bool"),
    ("int", 1.0, "int, not float"),
    ("int", "1", "int, not str"),
    ("int", np.ones(2, np.int64), "int, not numpy.ndarray"),
    ("int", ZERO_DIM_FLOAT, "int, not Tensor"),
    ("int", X, "int, not Tensor"),
    ("int", None, "int, not NoneType"),
    ("float", 1j, "float, not complex"),
    ("float", "1", "float, not str"),
    ("float", ZERO_DIM_GRAD, "float, not Tensor"),
    ("float", np.complex64(1), "float, not numpy.complex64"),
    ("Scalar", "1", "Number, not str"),
    ("Scalar", X, "Number, not Tensor"),
    ("Scalar", ZERO_DIM_GRAD, "Number, not Tensor"),
    ("bool", 1, "bool, not int"),
    ("bool", np.bool_(True), "bool, not numpy.bool"),
    ("str", 1, "str, not int"),
    ("ScalarType", "float32", "triten.dtype, not str"),
    ("ScalarType", str, "triten.dtype, not type"),
    ("Layout", float32, "triten.layout, not triten.dtype"),
    ("MemoryFormat", strided, "triten.memory_format, not triten.layout"),
    ("Device", 1.5, "triten.device, not float"),
    ("Device", True, "triten.device, not bool"),
    ("Generator?", 1, "triten.Generator, not int"),
    ("Stream", 1, "triten.cuda.Stream, not int"),
    ("QScheme", 1, "triten.qscheme, not int"),
    ("Storage", X, "Storage, not Tensor"),
    ("Dimname", 1, "name, not int"),
    ("int[]", 1, "tuple of ints, not int"),
    ("int[]", [1, "a"], "tuple of ints, but found element of type str at pos 1"),
    ("int[]", [True], "tuple of ints, but found element of type bool at pos 0"),
    ("int[]", [1, True, np.True_], "tuple of ints, but found element of type numpy.bool at pos 2"),
    ("int[]", np.ones(2, np.int64), "tuple of ints, not numpy.ndarray"),
    ("int[]", UserList([1]), "tuple of ints, not UserList"),
    ("int[2]", 1.5, "tuple of ints, not float"),
    ("int[1]?", "a", "tuple of ints, not str"),
    ("bool[2]", [True], "tuple of bools of length 2, not of length 1"),
    ("bool[2]", True, "tuple of bools, not bool"),
    ("float[]", ["a"], "tuple of floats, but found element of type str at pos 0"),
    ("Scalar[]", [X], "tuple of Scalars, but found element of type Tensor at pos 0"),
]


@pytest.mark.parametrize(("type", "value", "reason"), REFUSED)
def test_refused(type: str, value: object, reason: str) -> None:
    schema = parse_schema(f"ns::f.o({type} x) -> ()")
    with pytest.raises(TypeError) as by_position:
        bind(schema, (value,))
    assert str(by_position.value) == f"f.o(): argument 'x' (position 1) must be {reason}"
    with pytest.raises(TypeError) as by_keyword:
        bind(schema, (), {"x": value})
    assert str(by_keyword.value) == f"f.o(): argument 'x' must be {reason}"
    assert not matches(schema, (value,))
    assert mismatch_reason(schema, (value,)) == str(by_position.value)


def test_instances_of_runtime_classes() -> None:
    generator = Generator("cpu")
    assert bind(parse_schema("f(*, Generator? generator=None) -> ()"), (), {"generator": generator}) == (
        generator,
    )


ADD = parse_schema("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
CONV = parse_schema(
    "conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, "
    "SymInt[2] dilation=1, SymInt groups=1) -> Tensor"
)
SUM = parse_schema(
    "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"
)


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((X, Y), {}, (X, Y, 1)),
        ((X, Y), {"alpha": 2}, (X, Y, 2)),
        ((X,), {"other": Y}, (X, Y, 1)),
        ((), {"other": Y, "self": X}, (X, Y, 1)),
        ((), {"other": Y, "input": X}, (X, Y, 1)),
        ((X,), {"x2": Y}, (X, Y, 1)),
    ],
)
def test_add_binds(args: tuple[Any, ...], kwargs: dict[str, Any], expected: tuple[Any, ...]) -> None:
    assert same(bind(ADD, args, kwargs), expected)


def test_defaults_are_filled_and_expanded() -> None:
    assert same(bind(CONV, (X, Y), {"padding": 1}), (X, Y, None, (1, 1), (1, 1), (1, 1), 1))
    assert same(bind(SUM, (X, None)), (X, None, False, None))
    assert same(bind(SUM, (X,), {"axis": 0, "keepdims": True}), (X, (0,), True, None))


def test_named_defaults_become_values() -> None:
    schema = parse_schema(
        "f(int a=Mean, ScalarType b=long, Layout c=strided, MemoryFormat d=contiguous_format, "
        "Device e='cpu', float g=0, int[2] h=[3,4], int[] i=[], Tensor j=None, Scalar k=1) -> ()"
    )
    expected = (1, int64, strided, contiguous_format, CPU, 0.0, (3, 4), (), None, 1)
    assert same(bind(schema, ()), expected)
    assert bind(schema, (), {"j": None})[8] is None


@pytest.mark.parametrize(
    "text", ["ScalarType x=lnog", "int x=Maen", "Layout x=layout", "MemoryFormat x=contiguous"]
)
def test_an_unknown_named_default_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match=f"argument 'x': '{text.partition('=')[2]}' names no"):
        bind(parse_schema(f"f({text}) -> ()"), ())


@pytest.mark.parametrize(
    ("args", "kwargs", "reason"),
    [
        ((), {}, "add.Tensor() missing 2 required positional arguments: 'input', 'other'"),
        ((X,), {}, "add.Tensor() missing 1 required positional argument: 'other'"),
        ((X,), {"foo": 1}, "add.Tensor() missing 1 required positional argument: 'other'"),
        ((X, Y, 2), {}, "add.Tensor() takes 2 positional arguments but 3 were given"),
        ((X, Y), {"foo": 1}, "add.Tensor() got an unexpected keyword argument 'foo'"),
        ((X, Y), {"other": Y}, "add.Tensor() got multiple values for argument 'other'"),
        ((X, Y), {"input": X}, "add.Tensor() got multiple values for argument 'input'"),
        ((), {"self": X, "input": X, "other": Y}, "add.Tensor() got multiple values for argument 'input'"),
        ((X, 3), {}, "add.Tensor(): argument 'other' (position 2) must be Tensor, not int"),
        ((X, Y), {"alpha": "s"}, "add.Tensor(): argument 'alpha' must be Number, not str"),
        (("s",), {"other": Y}, "add.Tensor(): argument 'input' (position 1) must be Tensor, not str"),
    ],
)
def test_add_refuses(args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError) as error:
        bind(ADD, args, kwargs)
    assert str(error.value) == reason
    assert mismatch_reason(ADD, args, kwargs) == reason


@pytest.mark.parametrize(
    ("text", "args", "reason"),
    [
        ("f(Tensor self) -> ()", (X, 1), "takes 1 positional argument but 2 were given"),
        ("f() -> ()", (1,), "takes 0 positional arguments but 1 was given"),
        ("f(int a, int b=1) -> ()", (1, 2, 3), "takes from 1 to 2 positional arguments but 3 were given"),
        ("f(*, int a) -> ()", (), "missing 1 required keyword-only argument: 'a'"),
    ],
)
def test_counts_of_arguments(text: str, args: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(TypeError, match=rf"^f\(\) {reason}$"):
        bind(parse_schema(text), args)


def test_numpy_names_do_not_hide_real_ones() -> None:
    schema = parse_schema("f(Tensor input, int x, int dim, int axis) -> ()")
    assert same(bind(schema, (), {"input": X, "x": 1, "dim": 2, "axis": 3}), (X, 1, 2, 3))
    with pytest.raises(TypeError, match="unexpected keyword argument 'axis'"):
        bind(parse_schema("mylib::f(int dim=0) -> ()"), (), {"axis": 1})


def test_varargs_follow_the_arguments() -> None:
    schema = parse_schema("f(str self, int n=1, ...) -> str")
    assert bind(schema, ("a",)) == ("a", 1)
    assert bind(schema, ("a", 2, X, None)) == ("a", 2, X, None)
    assert bind(schema, ("a",), {"n": 3}) == ("a", 3)
    with pytest.raises(TypeError, match="multiple values for argument 'n'"):
        bind(schema, ("a", 2, X), {"n": 3})


def test_the_name_in_errors_can_be_given() -> None:
    with pytest.raises(TypeError, match=r"^plus\(\) missing"):
        bind(ADD, (X,), name="plus")


def test_a_registered_check_reaches_schemas_already_compiled() -> None:
    class Event:
        pass

    class Special(Event):
        pass

    schema = parse_schema("f(QScheme x, QScheme[] y=[]) -> ()")
    event = Event()
    assert not matches(schema, (event,))
    try:
        register_type_check("QScheme", lambda v: isinstance(v, Event), lambda v: v.__class__, "event")
        assert bind(schema, (event, [event])) == (Event, (Event,))
        with pytest.raises(TypeError, match="argument 'y' \\(position 2\\) must be tuple of events, not int"):
            bind(schema, (event, 3))
        special = Special()
        register_exact_type("QScheme", Special)
        assert bind(schema, (special,)) == (special, ())
    finally:
        register_type_check("QScheme", lambda v: False, None, "triten.qscheme")
    assert not matches(schema, (event,))
    with pytest.raises(SchemaError, match="'Event' is no base type"):
        register_exact_type("Event", Event)


VALUES = st.sampled_from(
    [X, ZERO_DIM_INT, 1, 2.5, True, "s", None, [1, 2], [X], [None, X], (1.5,), float32, Index()]
)
TYPES = [
    "Tensor",
    "Tensor?",
    "Tensor[]",
    "Tensor?[]",
    "int",
    "float",
    "Scalar?",
    "bool",
    "str",
    "int[2]",
    "int[]?",
]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(TYPES), st.booleans()), max_size=4),
    st.integers(0, 4),
    st.lists(VALUES, max_size=5),
    st.dictionaries(st.sampled_from(["a0", "a1", "a2", "a3", "zz"]), VALUES, max_size=3),
)
def test_a_call_either_binds_or_has_a_reason(
    types: list[tuple[str, bool]], positional: int, args: list[Any], kwargs: dict[str, Any]
) -> None:
    parts = []
    optional = False
    for index, (type, wants_default) in enumerate(types):
        if index == positional:
            parts.append("*")
        optional = (wants_default or optional) if index < positional else wants_default
        optional = optional and (type.endswith("?"))
        parts.append(f"{type} a{index}" + ("=None" if optional else ""))
        if not optional and any("=" in part for part in parts[:positional]) and index < positional:
            return
    schema = parse_schema(f"f({', '.join(parts)}) -> ()")
    reason = mismatch_reason(schema, tuple(args), kwargs)
    if matches(schema, tuple(args), kwargs):
        assert reason is None
        assert len(bind(schema, tuple(args), kwargs)) == len(schema.arguments)
    else:
        assert reason is not None
        with pytest.raises(TypeError) as error:
            bind(schema, tuple(args), kwargs)
        assert str(error.value) == reason
