"""The schema language: what parses, prints back, is refused with a place, and binds a call's arguments."""

import pytest

import triten as tt
from triten.dispatch import SchemaError, parse_schema

TEXTS = (
    "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
    "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
    "aten::split(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
    "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
    "ns::f(Tensor? x, int[2] size=[1, 1], float eps=1e-05, str mode='a', bool flag=False, int? n=None) -> ()",
    "ns::g(Tensor[] xs, Tensor?[] ys, Device d, ScalarType? dtype=None, *, Generator? generator=None) -> Tensor[]",
    "ns::h(Tensor x) -> (Tensor values, Tensor indices)",
    "ns::v(Tensor x, ...) -> ...",
)


@pytest.mark.parametrize("text", TEXTS)
def test_schemas_round_trip(text: str) -> None:
    schema = parse_schema(text)
    assert parse_schema(str(schema)) == schema
    assert str(schema) == text or "SymInt" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f(Tensor x", "expected"),
        ("f(Tenso x) -> Tensor", "Tenso"),
        ("f(Tensor x, Tensor x) -> Tensor", "x"),
        ("f(int a=1, int b) -> Tensor", "default"),
        ("f(*, Tensor x, * , int y) -> Tensor", r"\*"),
        ("f(Tensor x) -> Tensor(a!)", "a"),
        ("f(Tensor x) Tensor", "->"),
        ("", "name"),
    ],
)
def test_bad_schemas_are_refused_with_their_place(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        parse_schema(text)


def test_arguments_are_bound_by_the_schema() -> None:
    add = tt.ops.aten.add.Tensor
    x = tt.ones(1)
    assert add(x, x).item() == add(self=x, other=x).item() == 2
    assert add(x, other=x, alpha=3).item() == 4
    for call, message in (
        (lambda: add(x), "other"),
        (lambda: add(x, x, 3), "positional"),
        (lambda: add(x, x, beta=1), "beta"),
        (lambda: add(x, "y"), "other"),
        (lambda: add(x, x, self=x), "self"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()


def test_operators_show_their_schema() -> None:
    schema = tt.ops.aten.max.dim._schema
    assert schema.name == "aten::max"
    assert schema.overload_name == "dim"
    assert [a.name for a in schema.arguments] == ["self", "dim", "keepdim"]
    assert [str(r.type) for r in schema.returns] == ["Tensor", "Tensor"]
