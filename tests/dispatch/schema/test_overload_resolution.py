"""Choosing among overloads, and the errors when none fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from triten.dispatch.schema import FunctionSchema, parse_schema, resolve
from triten.runtime.device import CPU
from triten.runtime.scalar_type import float32
from triten.runtime.tensor_impl import TensorImpl
from triten.runtime.tensor_spec import TensorSpec


class Tensor(TensorImpl):
    """Tensor with `item`."""

    __slots__ = ()

    def item(self) -> Any:
        return self._data.item()


def tensor(value: object) -> Tensor:
    data = np.asarray(value, dtype=np.float32)
    return Tensor.from_data(data, TensorSpec.contiguous(data.shape, float32, CPU))


X, Y, ZERO_DIM = tensor([1.0]), tensor([2.0]), tensor(2.5)


def family(*texts: str) -> list[FunctionSchema]:
    return [parse_schema(text) for text in texts]


ADD = family(
    "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
)
MAX = family(
    "max(Tensor self) -> Tensor",
    "max.unary_out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)",
    "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) max_values)"
    " -> (Tensor(a!) values, Tensor(b!) indices)",
    "max.other(Tensor self, Tensor other) -> Tensor",
)
BMM = family(
    "bmm(Tensor self, Tensor mat2) -> Tensor",
    "bmm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)",
)
CLAMP = family(
    "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
    "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
)
WHERE = family(
    "where(Tensor condition) -> Tensor[]",
    "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
    "where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor",
)


@pytest.mark.parametrize(
    ("schemas", "args", "kwargs", "overload", "bound"),
    [
        (ADD, (X, Y), {}, "Tensor", (X, Y, 1)),
        (ADD, (X, 2), {}, "Scalar", (X, 2, 1)),
        (ADD, (X, 2), {"alpha": 3}, "Scalar", (X, 2, 3)),
        (ADD, (X, ZERO_DIM), {}, "Tensor", (X, ZERO_DIM, 1)),
        (ADD, (X, Y), {"out": X}, "out", (X, Y, 1, X)),
        (ADD, (X, Y), {"out": None, "alpha": 2}, "Tensor", (X, Y, 2)),
        (ADD, (), {"input": X, "other": Y}, "Tensor", (X, Y, 1)),
        (MAX, (X,), {}, "", (X,)),
        (MAX, (X,), {"out": Y}, "unary_out", (X, Y)),
        (MAX, (X, 0), {}, "dim", (X, 0, False)),
        (MAX, (X, 0), {"out": (X, Y)}, "dim_max", (X, 0, False, X, Y)),
        (MAX, (X,), {"dim": 0, "max": X, "max_values": Y}, "dim_max", (X, 0, False, X, Y)),
        (MAX, (X, Y), {}, "other", (X, Y)),
        (CLAMP, (X, ZERO_DIM, 1.0), {}, "", (X, 2.5, 1.0)),
        (CLAMP, (X, ZERO_DIM), {"max": Y}, "Tensor", (X, ZERO_DIM, Y)),
        (CLAMP, (X, 0), {}, "", (X, 0, None)),
    ],
)
def test_first_fitting_overload(
    schemas: list[FunctionSchema],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    overload: str,
    bound: tuple[Any, ...],
) -> None:
    schema, values = resolve(schemas, args, kwargs, schemas[0].name)
    assert schema.overload_name == overload
    assert values == bound
    assert [type(v) for v in values] == [type(v) for v in bound]


@pytest.mark.parametrize(
    ("schemas", "args", "kwargs", "message"),
    [
        (BMM, (X, None), {}, "bmm(): argument 'mat2' (position 2) must be Tensor, not NoneType"),
        (BMM, (X,), {}, "bmm() missing 1 required positional argument: 'mat2'"),
        (BMM, (X, Y, X), {}, "bmm() takes 2 positional arguments but 3 were given"),
        (BMM, (X, Y), {"out": 3}, "bmm(): argument 'out' must be Tensor, not int"),
        (BMM[:1], (X, Y), {"out": X}, "bmm() got an unexpected keyword argument 'out'"),
        (MAX, (X, 0, True, 3), {}, "max() takes from 2 to 3 positional arguments but 4 were given"),
        (
            MAX,
            (X, 0, 1),
            {"out": (X,)},
            "max(): argument 'out' must be tuple of 2 Tensors, not tuple of (Tensor,)",
        ),
        (
            MAX,
            (X, "q"),
            {},
            "max() received an invalid combination of arguments - got (Tensor, str), but expected one of:\n"
            " * (Tensor input, *, Tensor out = None)\n"
            " * (Tensor input, int dim, bool keepdim = False, *, tuple of Tensors out = None)\n"
            " * (Tensor input, Tensor other)\n"
            "      didn't match because some of the arguments have invalid types: (Tensor, !str!)\n",
        ),
        (
            ADD,
            (X, "s"),
            {"foo": [1, X]},
            "add() received an invalid combination of arguments - got (Tensor, str, "
            "foo=list of [int, Tensor]), but expected one of:\n"
            " * (Tensor input, Number other, Number alpha = 1)\n"
            "      didn't match because some of the keywords were incorrect: foo\n"
            " * (Tensor input, Tensor other, *, Number alpha = 1, Tensor out = None)\n"
            "      didn't match because some of the keywords were incorrect: foo\n",
        ),
        (
            WHERE,
            (X, "2", 3),
            {},
            "where() received an invalid combination of arguments - got (Tensor, str, int), "
            "but expected one of:\n"
            " * (Tensor condition)\n"
            " * (Tensor condition, Tensor self, Tensor other)\n"
            "      didn't match because some of the arguments have invalid types: (Tensor, !str!, !int!)\n"
            " * (Tensor condition, Number self, Tensor other)\n"
            "      didn't match because some of the arguments have invalid types: (Tensor, !str!, !int!)\n",
        ),
    ],
)
def test_no_overload_fits(
    schemas: list[FunctionSchema], args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError) as error:
        resolve(schemas, args, kwargs, schemas[0].name)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("schemas", "args", "message"),
    [
        (BMM, (X, "s"), "bmm(): argument 'mat2' (position 1) must be Tensor, not str"),
        (BMM, (X,), "bmm() missing 1 required positional argument: 'mat2'"),
        (BMM, (X, Y, Y), "bmm() takes 1 positional argument but 2 were given"),
        (
            CLAMP,
            (X, "s"),
            "clamp() received an invalid combination of arguments - got (str), but expected one of:\n"
            " * (Tensor min = None, Tensor max = None)\n"
            " * (Number min = None, Number max = None)\n",
        ),
    ],
)
def test_a_method_does_not_count_its_object(
    schemas: list[FunctionSchema], args: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(TypeError) as error:
        resolve(schemas, args, {}, schemas[0].name, method=True)
    assert str(error.value) == message


def test_strings_are_quoted_and_lists_shown_in_signatures() -> None:
    schemas = family(
        'f.a(Tensor self, str mode="same", int[2] dim=[-2,-1], Device? d=None) -> Tensor',
        "f.b(int n, ...) -> ()",
    )
    with pytest.raises(TypeError) as error:
        resolve(schemas, ("x",), None, "f")
    assert str(error.value).splitlines()[1:] == [
        ' * (Tensor input, str mode = "same", tuple of ints dim = [-2, -1], triten.device d = None)',
        " * (int n, ...)",
        "      didn't match because some of the arguments have invalid types: (!str!)",
    ]
