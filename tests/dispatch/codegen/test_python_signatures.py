"""`inspect.signature` of generated functions and methods agrees with their stubs.

A name with several overloads has one signature: each parameter's type is the union of the overloads' types,
and a parameter that some overload lacks has a default. Names whose overloads share no signature take
``*args`` and list their overloads.
"""

import ast
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

import triten as tt
from triten.dispatch.codegen.check_docs import WRAPPED
from triten.dispatch.codegen.signature import members_of, united
from triten.dispatch.generated import functions
from triten.dispatch.generated import methods as tensor_methods

EMPTY = inspect.Parameter.empty
POSITIONAL = {"view": {"dtype"}}
"""Parameters of overloads that are called by position, too; there they are named as their types."""

VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def overloads_of(body: list[ast.stmt]) -> dict[str, list[ast.FunctionDef]]:
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


def stub_of(module) -> list[ast.stmt]:
    return ast.parse(Path(module.__file__).with_suffix(".pyi").read_text()).body


IN_STUB = {
    "tt": overloads_of(stub_of(functions)),
    "tt.Tensor": overloads_of(
        next(node.body for node in stub_of(tensor_methods) if isinstance(node, ast.ClassDef))
    ),
}


NAMED_RESULTS = {
    f"return_types.{node.name}": ast.unparse(node.bases[0])
    for node in ast.parse(Path(functions.__file__).parents[1].joinpath("return_types.pyi").read_text()).body
    if isinstance(node, ast.ClassDef)
}


def returns_of(node: ast.FunctionDef) -> str:
    """Return the type of the results; that of named ones is the tuple of which their class is one."""
    written = ast.unparse(node.returns)
    return NAMED_RESULTS.get(written, written)


def parameters_of(node: ast.FunctionDef) -> dict[str, tuple[str, bool]]:
    """Return the types by name, and whether each parameter has a default."""
    given = node.args
    positional = given.posonlyargs + given.args
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    pairs = [*zip(positional, defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    found = {
        a.arg: ("" if a.annotation is None else ast.unparse(a.annotation), d is not None) for a, d in pairs
    }
    if given.vararg is not None:
        found[given.vararg.arg] = (ast.unparse(given.vararg.annotation), False)
    return found


def generated(place: str) -> list[tuple[str, str, Callable[..., object]]]:
    if place == "tt":
        return [(place, name, getattr(functions, name)) for name in IN_STUB[place]]
    classes = tensor_methods.TensorMethods.__bases__
    methods = {name: method for each in classes for name, method in vars(each).items()}
    return [
        (place, n, method) for n, method in methods.items() if inspect.isfunction(method) and n[:2] != "__"
    ]


EVERY = [*generated("tt"), *generated("tt.Tensor")]


def is_general(function: Callable[..., object]) -> bool:
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())


@pytest.mark.parametrize("place", ["tt", "tt.Tensor"])
def test_the_stub_has_every_name(place: str) -> None:
    names = {name for where, name, _ in EVERY if where == place}
    assert names == {name for name in IN_STUB[place] if not name.startswith("__")}


def test_the_stub_has_the_summaries_and_no_more_of_the_docstrings() -> None:
    shown = {
        (place, name): text
        for place, stub in IN_STUB.items()
        for name, nodes in stub.items()
        if (text := ast.get_docstring(nodes[0]))
    }
    docstrings = {(place, name): inspect.getdoc(function) or "" for place, name, function in EVERY}
    assert shown == {each: text.partition("\n")[0] for each, text in docstrings.items() if "Example:" in text}


@pytest.mark.parametrize(
    ("place", "name", "function"),
    [pytest.param(*each, id=f"{each[0]}.{each[1]}") for each in EVERY if not is_general(each[2])],
)
def test_the_signature_is_that_of_the_stub(place: str, name: str, function: Callable[..., object]) -> None:
    signature = inspect.signature(function)
    # One signature serves the function and the method, each of which may have overloads of its own.
    # But methods alone take sizes one by one, where functions take them of a tensor in a tuple, or `out`.
    nodes = [node for stub in IN_STUB.values() for node in stub.get(name, [])]
    if place == "tt" and "sizes" not in signature.parameters:
        nodes = [node for node in nodes if "sizes" not in parameters_of(node)]
    overloads = [
        {("input" if n == "self" else n): each for n, each in parameters_of(node).items()} for node in nodes
    ]
    runtime = {("input" if n == "self" else n): p for n, p in signature.parameters.items() if n != "more"}
    known = {n for overload in overloads for n in overload}
    assert set(runtime) - {"out"} == known - {"out"}
    assert ("out" in runtime) == ("out" in known and place == "tt")
    for each in known & set(runtime):
        parameter = runtime[each]
        types = [overload[each][0] for overload in overloads if each in overload]
        optional = not all(each in overload and not overload[each][1] for overload in overloads)
        if parameter.kind not in VARIADIC and each != "input":
            assert (parameter.default is not EMPTY) == optional, each
        if parameter.annotation is EMPTY:
            assert parameter.name == "self"
            continue
        written = set(members_of(parameter.annotation))
        if parameter.default is None:
            assert "None" in written, each
        expected = {*members_of(united(*filter(None, types))), *POSITIONAL.get(name, set())} - {
            "None",
            "self",
        }
        assert written - {"None"} == expected, each
    functional = [node for node in nodes if "out" not in parameters_of(node)] or nodes
    results = united(*(returns_of(node) for node in functional))
    assert set(members_of(signature.return_annotation)) == set(members_of(results))


GENERAL = [each for each in EVERY if is_general(each[2]) and each[1] not in WRAPPED and each[1][0] != "_"]


@pytest.mark.parametrize(
    ("place", "name", "function"), [pytest.param(*e, id=f"{e[0]}.{e[1]}") for e in GENERAL]
)
def test_names_without_one_signature_list_their_overloads(place: str, name: str, function) -> None:
    text = inspect.getdoc(function)
    short = name.removeprefix("linalg_")
    assert f".{short}(" in text.partition("Signatures::")[2]
    for parameter in {n for node in IN_STUB[place][name] for n in parameters_of(node)} - {"self"}:
        assert parameter in text


def test_a_signature_as_users_see_it() -> None:
    assert str(inspect.signature(tt.softmax)).replace("'", "") == (
        "(input: Tensor, dim: int | str, dtype: dtype | None = None, *, out: Tensor | None = None) -> Tensor"
    )
    assert list(inspect.signature(tt.Tensor.view).parameters) == ["self", "sizes", "size", "dtype"]
    assert inspect.signature(tt.zeros).parameters["requires_grad"].default is False
