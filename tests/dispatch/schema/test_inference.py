"""Schemas from type hints, as torch.library.infer_schema gives them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional, Union

import pytest

from triten.dispatch.schema import infer_schema, parse_schema
from triten.runtime.device import device
from triten.runtime.scalar_type import dtype, float32
from triten.runtime.tensor_impl import TensorImpl as Tensor


def numbers(x: Tensor, a: int, b: float, c: bool, d: str, e: int | float | bool) -> Tensor: ...


def containers(
    x: list[Tensor], y: Sequence[Tensor | None], z: Sequence[int] | None, w: list[int | float | bool]
) -> list[Tensor]: ...


def typing_spellings(x: Optional[Tensor], n: Optional[Union[int, float, bool]]) -> tuple[Tensor, int]: ...  # noqa: UP045, UP007


def defaults(
    x: Tensor,
    a: int = 1,
    b: float = float("inf"),
    *,
    c: str = "x'y",
    d: dtype = float32,
    e: device = device("cpu"),  # noqa: B008
    f: int | None = None,
    g: bool = True,
) -> None: ...


@pytest.mark.parametrize(
    ("function", "mutates_args", "expected"),
    [
        (numbers, (), "(Tensor x, SymInt a, float b, bool c, str d, Scalar e) -> Tensor"),
        (containers, (), "(Tensor[] x, Tensor?[] y, SymInt[]? z, Scalar[] w) -> Tensor[]"),
        (typing_spellings, (), "(Tensor? x, Scalar? n) -> (Tensor, SymInt)"),
        (
            defaults,
            (),
            '(Tensor x, SymInt a=1, float b=inf, *, str c="x\'y", ScalarType d=float32, Device e="cpu", '
            "SymInt? f=None, bool g=True) -> ()",
        ),
        (containers, {"y"}, "(Tensor[] x, Tensor(a1!)?[] y, SymInt[]? z, Scalar[] w) -> Tensor[]"),
        (containers, "unknown", "(Tensor(a0!)[] x, Tensor(a1!)?[] y, SymInt[]? z, Scalar[] w) -> Tensor[]"),
    ],
)
def test_inferred(function: Callable[..., Any], mutates_args: Iterable[str] | str, expected: str) -> None:
    assert infer_schema(function, mutates_args=mutates_args) == expected
    named = infer_schema(function, mutates_args=mutates_args, op_name="mylib::f")
    assert named == f"mylib::f{expected}"
    assert str(parse_schema(named)) == named


def no_hint(x) -> Tensor: ...  # type: ignore[no-untyped-def]
def no_return(x: Tensor): ...  # type: ignore[no-untyped-def]
def variadic(*x: Tensor) -> Tensor: ...
def positional_only(x: Tensor, /) -> Tensor: ...
def mapping(x: dict[str, int]) -> Tensor: ...
def two_types(x: int | str) -> Tensor: ...
def strings(x: list[str]) -> Tensor: ...
def returns_str(x: Tensor) -> str: ...
def returns_any_number(x: Tensor) -> tuple[Tensor, ...]: ...
def tuple_default(x: Sequence[int] = (1,)) -> Tensor: ...


@pytest.mark.parametrize(
    ("function", "mutates_args", "reason"),
    [
        (no_hint, (), "Parameter x must have a type annotation"),
        (no_return, (), "No return type annotation"),
        (variadic, (), "positional-only args, varargs"),
        (positional_only, (), "positional-only args, varargs"),
        (mapping, (), "Parameter x has unsupported type dict"),
        (two_types, (), "Parameter x has unsupported type int | str"),
        (strings, (), "Parameter x has unsupported type list"),
        (returns_str, (), "Return has unsupported type <class 'str'>"),
        (returns_any_number, (), "Return has unsupported type tuple"),
        (tuple_default, (), "unsupported default value type <class 'tuple'>"),
        (numbers, {"q"}, "['q'] in mutates_args are not parameters"),
        (numbers, {"a"}, "Parameter a is in mutates_args but only Tensors"),
        (numbers, "x", "mutates_args must be names or 'unknown'"),
    ],
)
def test_refused(function: Callable[..., Any], mutates_args: Iterable[str] | str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"^infer_schema\(func\)") as error:
        infer_schema(function, mutates_args=mutates_args)
    assert reason in str(error.value)


def add_(x: Tensor, y: Tensor) -> Tensor: ...
def add_out(x: Tensor, *, out: Tensor) -> Tensor: ...
def two_outs(x: Tensor, *, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]: ...


@pytest.mark.parametrize(
    ("function", "mutates_args", "tags", "expected"),
    [
        (add_, {"x"}, "inplace", "(Tensor(a0!) x, Tensor y) -> Tensor(a0!)"),
        (add_out, {"out"}, ["out", "pointwise"], "(Tensor x, *, Tensor(a1!) out) -> Tensor(a1!)"),
        (
            two_outs,
            {"a", "b"},
            ("out",),
            "(Tensor x, *, Tensor(a1!) a, Tensor(a2!) b) -> (Tensor(a1!), Tensor(a2!))",
        ),
        (add_, {"x"}, "pointwise", "(Tensor(a0!) x, Tensor y) -> Tensor"),
    ],
)
def test_tags_that_say_what_is_returned(
    function: Callable[..., Any], mutates_args: set[str], tags: Any, expected: str
) -> None:
    inferred = infer_schema(function, mutates_args=mutates_args, tags=tags)
    assert inferred == expected
    assert str(parse_schema(f"f{inferred}")) == f"f{expected}"


@pytest.mark.parametrize(
    ("function", "mutates_args", "tags"),
    [
        (add_, (), "inplace"),
        (add_, {"y"}, "inplace"),
        (add_, {"x", "y"}, "inplace"),
        (defaults, (), "inplace"),
        (add_out, (), "out"),
        (add_, {"x"}, "out"),
        (two_outs, {"a"}, "out"),
        (add_out, {"out"}, ("inplace", "out")),
    ],
)
def test_tags_that_do_not_fit(function: Callable[..., Any], mutates_args: Any, tags: Any) -> None:
    with pytest.raises(ValueError, match=r"the tag '(inplace|out)' requires|mutually exclusive"):
        infer_schema(function, mutates_args=mutates_args, tags=tags)


def test_a_hint_that_cannot_be_resolved() -> None:
    def f(x: Missing) -> Tensor: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ValueError, match="Unsupported type annotation: name 'Missing' is not defined"):
        infer_schema(f)


def test_importing_the_schema_folder_loads_no_backend() -> None:
    program = (
        "import sys, triten.dispatch.schema; "
        "print([m for m in ('triton', 'cupy', 'scipy', 'yaml', 'torch') if m in sys.modules])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd="/"
    )
    assert printed.stdout.strip() == "[]"
