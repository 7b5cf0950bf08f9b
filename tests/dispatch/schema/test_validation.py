"""Rules of a schema, each with a schema that breaks it, however the schema is made."""

from __future__ import annotations

import pytest

from triten.dispatch.schema import (
    AliasInfo,
    Argument,
    BaseType,
    FunctionSchema,
    OperatorName,
    SchemaError,
    parse_schema,
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("f(Tensor x, Tensor x) -> Tensor", "argument 'x' is declared twice"),
        ("f(Tensor x) -> (Tensor v, Tensor v)", "return 'v' is declared twice"),
        ("f(Tensor x, int y=1, Tensor z) -> Tensor", "argument 'z' has no default but follows one that has"),
        ("f(Tensor x) -> Tensor(a)", "return 0: alias annotation (a) matches no argument"),
        (
            "f(Tensor(a) x) -> (Tensor(a), Tensor(b) v)",
            "return 'v': alias annotation (b) matches no argument",
        ),
        ("f(Tensor(a) x) -> Tensor(a!)", "alias annotation (a!) is written, but no argument is"),
        ("f(Tensor(a) x) -> int(a)", "alias annotation (a) on int; only tensors alias"),
        ("f(Tensor x, *, int y, ...) -> ()", "'...' takes positional arguments"),
        ("f.dim_out(Tensor x, *, Tensor out) -> Tensor", "overload 'dim_out' has no out argument"),
        (
            "f.out(Tensor x, *, Tensor(a!) u, Tensor(b!) v) -> Tensor(a!)",
            "returns its out arguments in order, (u, v), not (u)",
        ),
        (
            "f.out(Tensor x, *, Tensor(a!) u, Tensor(b!) v) -> (Tensor(b!), Tensor(a!))",
            "returns its out arguments in order, (u, v), not (v, u)",
        ),
        (
            "f.out(Tensor x, *, Tensor(a!) u) -> (Tensor(a!), Tensor)",
            "returns its out arguments in order, (u), not (u, a fresh value)",
        ),
    ],
)
def test_a_broken_rule_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SchemaError) as error:
        parse_schema(text, source="ops.yaml:7")
    head, _, shown = str(error.value).partition("\n")
    assert head.startswith("ops.yaml:7: ")
    assert reason in head
    assert shown == text


@pytest.mark.parametrize(
    "text",
    [
        "f(Tensor x, int y=1, *, Tensor z) -> Tensor",
        "f(Tensor x) -> Tensor(*)",
        "f(Tensor A, Tensor! out) -> ()",
        "f.out(Tensor A, Tensor! out) -> ()",
        "f.out(Tensor x, Tensor(a!) out) -> Tensor(a!)",
        "f(Tensor! x, Tensor! y) -> (Tensor!, Tensor!)",
        "f(Tensor x) -> Tensor!",
        "f(Tensor(a) x) -> Tensor(a|fresh)",
        "f(Tensor(a -> b) x) -> Tensor(b)",
        "f.out(Tensor x, *, Tensor(a!) out) -> ()",
        "f(Tensor x, Tensor(a!) out) -> ()",
    ],
)
def test_what_looks_odd_but_is_allowed(text: str) -> None:
    assert str(parse_schema(text)) == text


def test_a_schema_made_by_hand_is_checked() -> None:
    tensor = BaseType("Tensor")
    with pytest.raises(SchemaError, match="positional argument 'y' follows a keyword-only one"):
        FunctionSchema(OperatorName("f"), (Argument("x", tensor, kwarg_only=True), Argument("y", tensor)), ())


@pytest.mark.parametrize(
    ("before", "after", "is_write", "reason"),
    [
        (("a", "a"), ("a",), False, "names a set twice"),
        (("a",), (), False, "one side of the arrow"),
        ((), (), False, "at least one set"),
    ],
)
def test_a_malformed_alias_is_refused(
    before: tuple[str, ...], after: tuple[str, ...], is_write: bool, reason: str
) -> None:
    with pytest.raises(SchemaError, match=reason):
        AliasInfo(before, after, is_write)


def test_an_unknown_base_type_is_refused() -> None:
    with pytest.raises(SchemaError, match="unknown type 'Tensr'"):
        BaseType("Tensr")
