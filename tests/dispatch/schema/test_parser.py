"""ATen's schema text round-trips, and a malformed one raises an error with its position."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triten.dispatch.schema import (
    AliasInfo,
    Argument,
    BaseType,
    FunctionSchema,
    ListType,
    OperatorName,
    OptionalType,
    Return,
    SchemaError,
    Symbol,
    Type,
    parse_name,
    parse_schema,
    parse_type,
)

ATEN_SCHEMAS = [
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
    "add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
    "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    "relu(Tensor self) -> Tensor",
    "detach(Tensor(a) self) -> Tensor(a)",
    "view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
    "view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)",
    "reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
    "permute(Tensor(a) self, int[] dims) -> Tensor(a)",
    "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
    "transpose.Dimname(Tensor(a) self, Dimname dim0, Dimname dim1) -> Tensor(a)",
    "as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
    "as_strided_(Tensor(a!) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a!)",
    "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)"
    " -> Tensor(a)",
    "select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)",
    "split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
    "chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]",
    "unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
    "squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
    "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) max_values)"
    " -> (Tensor(a!) values, Tensor(b!) indices)",
    "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
    "var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
    "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
    "norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
    "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
    "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    "index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)",
    "cat(Tensor[] tensors, int dim=0) -> Tensor",
    "cat.out(Tensor[] tensors, int dim=0, *, Tensor(a!) out) -> Tensor(a!)",
    "einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
    "conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, "
    "SymInt[2] dilation=1, SymInt groups=1) -> Tensor",
    'conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, str padding="valid", '
    "SymInt[2] dilation=1, SymInt groups=1) -> Tensor",
    "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, "
    "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, "
    "SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    "max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, "
    "bool ceil_mode=False) -> Tensor",
    "upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
    "float[]? scale_factors) -> Tensor",
    "fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor",
    "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
    "bool sparse=False) -> Tensor",
    "nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100)"
    " -> Tensor",
    "gelu(Tensor self, *, str approximate='none') -> Tensor",
    "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
    "cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
    'linalg_eigh(Tensor self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)',
    "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
    "bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor",
    "_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, "
    "Tensor(b!) running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
    "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
    "lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "
    "bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)",
    "_foreach_add.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]",
    "_foreach_add_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()",
    "_foreach_add.Scalar_out(Tensor[] self, Scalar scalar, *, Tensor(a!)[] out) -> ()",
    "to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    "bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None)"
    " -> Tensor(a)",
    "contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
    "randperm(SymInt n, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None, "
    "bool? pin_memory=None) -> Tensor",
    "bernoulli.out(Tensor self, *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)",
    "randn.names(SymInt[] size, *, Dimname[]? names, ScalarType? dtype=None) -> Tensor",
    "normal_(Tensor(a!) self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor(a!)",
    "record_stream(Tensor(a!) self, Stream s) -> ()",
    "set_.source_Storage(Tensor(a!) self, Storage source) -> Tensor(a!)",
    "qscheme(Tensor self) -> QScheme",
    "_cufft_get_plan_cache_size(DeviceIndex device_index) -> int",
    "cudnn_grid_sampler(Tensor self, Tensor grid) -> Tensor output",
    "__iadd__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
    "_is_any_true(Any value, int[2]? pads=None) -> bool",
    "lift_mixed(Tensor(a|b) x, Tensor(b! -> a) y, Tensor(*) z) -> Tensor(a|b)",
    "mylib::write_(Tensor! result, Tensor input) -> ()",
    "prim::Print(...) -> ()",
    "mylib::format(str self, ...) -> ...",
    "nested::name::op.overload(int[] x=[1, 2], float[] y=[1.0,-2.5], bool[2] z=[True,False]) -> (int, ...)",
    "mylib::floats(float a=inf, float b=-inf, float c=nan, Scalar d=True, Device e='cpu') -> ()",
]


@pytest.mark.parametrize("text", ATEN_SCHEMAS, ids=lambda text: text.partition("(")[0])
def test_round_trip(text: str) -> None:
    schema = parse_schema(text)
    assert str(schema) == text
    assert parse_schema(str(schema)) == schema
    assert hash(parse_schema(text)) == hash(schema)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f( Tensor  self,int dim = 0 )->Tensor", "f(Tensor self, int dim=0) -> Tensor"),
        ("f(Tensor? [] x) -> (Tensor)", "f(Tensor?[] x) -> Tensor"),
        ("f(Tensor(a->*) x) ->\n Tensor(a)[]", "f(Tensor(a -> *) x) -> Tensor(a)[]"),
    ],
)
def test_spacing_is_normalised(text: str, expected: str) -> None:
    assert str(parse_schema(text)) == expected


def test_parts() -> None:
    schema = parse_schema("aten::std.c(Tensor(a!)[] self, int[2]? d=1, *, str m='a\\'b') -> (Tensor v, int)")
    assert schema.operator_name == OperatorName("aten::std", "c")
    assert (schema.name, schema.overload_name, schema.operator_name.namespace) == ("aten::std", "c", "aten")
    first, second, third = schema.arguments
    assert first == Argument("self", ListType(BaseType("Tensor")), alias_info=AliasInfo(("a",), ("a",), True))
    assert (second.type, second.default) == (OptionalType(ListType(BaseType("int"), 2)), 1)
    assert (third.default, third.kwarg_only, first.kwarg_only) == ("a'b", True, False)
    assert schema.returns == (Return(BaseType("Tensor"), "v"), Return(BaseType("int")))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("int x=3", 3),
        ("int x=-3", -3),
        ("float x=1e-05", 1e-05),
        ("float x=0.", 0.0),
        ("float x=-inf", -math.inf),
        ("bool x=True", True),
        ("int? x=None", None),
        ("int[] x=[]", ()),
        ("int[2] x=[0,1]", (0, 1)),
        ('str x="a\\n\\"b"', 'a\n"b'),
        ("ScalarType x=long", Symbol("long")),
        ("Tensor x=None", None),
    ],
)
def test_default(text: str, value: object) -> None:
    default = parse_schema(f"f({text}) -> ()").arguments[0].default
    assert default == value
    assert type(default) is type(value)


def test_equality_is_of_meaning_not_of_spelling() -> None:
    assert parse_schema("f(str x='a') -> ()") == parse_schema('f(str x="a") -> ()')
    assert parse_schema("f(Scalar x=1) -> ()") != parse_schema("f(Scalar x=1.0) -> ()")
    assert parse_schema("f(int x) -> ()") != parse_schema("f(SymInt x) -> ()")
    assert parse_schema("f(int x) -> ()", "a.yaml:1") == parse_schema("f(int x) -> ()", "b.yaml:2")


def test_namespace_is_added_once() -> None:
    name = parse_name("add.Tensor")
    assert (name.namespace, str(name.with_namespace("aten"))) == ("", "aten::add.Tensor")
    assert name.with_namespace("aten").with_namespace("mylib").namespace == "aten"
    schema = parse_schema("relu(Tensor self) -> Tensor").with_namespace("aten")
    assert str(schema) == "aten::relu(Tensor self) -> Tensor"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("add(Tensor self) -> Tensor", "functional"),
        ("add_(Tensor(a!) self) -> Tensor(a!)", "inplace"),
        ("__ior__(Tensor(a!) self, Tensor other) -> Tensor(a!)", "inplace"),
        ("__init__(Tensor self) -> Tensor", "functional"),
        ("add_(Tensor self) -> Tensor", "functional"),
        ("add.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", "out"),
        ("_foreach_x.out(Tensor[] self, *, Tensor(a!)[] out) -> ()", "out"),
        ("step(Tensor self, Tensor(a!) state) -> Tensor", "mutable"),
        ("step(Tensor self, *, Tensor(a!) state) -> Tensor", "mutable"),
        ("scratch.out(Tensor self, *, Tensor(a!) out, Tensor(b!) _scratch_x) -> Tensor(a!)", "out"),
    ],
)
def test_kind(text: str, kind: str) -> None:
    schema = parse_schema(text)
    assert schema.kind == kind
    assert schema.is_mutable == ("!" in text)
    assert schema.is_inplace == (kind == "inplace")


@pytest.mark.parametrize(
    ("text", "reason", "underlined"),
    [
        ("f(Tensr x) -> Tensor", "unknown type 'Tensr'", "Tensr"),
        ("f(Tensor x -> Tensor", "expected ',', found '->'", "->"),
        ("f(Tensor x)", "expected '->', found the end of the text", ""),
        ("f(Tensor) -> Tensor", "expected an argument's name, found ')'", ")"),
        ("f(Tensor x,) -> Tensor", "expected a type, found ')'", ")"),
        ("f(int x=) -> Tensor", "expected a default value, found ')'", ")"),
        ("f(int x=[1,]) -> Tensor", "expected a default value, found ']'", "]"),
        ("f(int[-1] x) -> Tensor", "expected a list's size, found '-1'", "-1"),
        ("f(int[0] x) -> Tensor", "a list's size must be at least 1, not 0", "int[0]"),
        ("f(int[2][] x) -> Tensor", "int[2][] is a list of lists", "int[2][]"),
        ("f(int[]?[] x) -> Tensor", "int[]?[] is a list of lists", "int[]?[]"),
        ("f(int?? x) -> Tensor", "int?? is optional twice", "int??"),
        ("f(Tensor(a! x) -> Tensor", "expected ')', found 'x'", "x"),
        ("f(Tensor(a|a) x) -> Tensor", "names a set twice", "(a|a)"),
        ("f(Tensor() x) -> Tensor", "expected an alias set, found ')'", ")"),
        ("f(int(a!) x) -> Tensor", "only tensors can be aliased or written", "int(a!) x"),
        ("f(..., Tensor x) -> Tensor", "'...' must be the last of the arguments", ","),
        ("f() -> (..., Tensor)", "'...' must be the last of the returns", ","),
        ("f(Tensor x, *, *, Tensor y) -> Tensor", "'*' stands twice", "*"),
        ("f(Tensor x, *) -> Tensor", "'*' must be followed by an argument", ")"),
        ("f(Tensor x) -> Tensor y z", "expected the end of the text, found 'z'", "z"),
        ("f.a.b(Tensor x) -> Tensor", "expected '(', found '.'", "."),
        ("1f(Tensor x) -> Tensor", "expected an operator's name, found '1'", "1"),
        ("f(Tensor x; int y) -> Tensor", "unexpected character", ";"),
        ("f(str x='a) -> Tensor", "this string is not closed", "'"),
        ("f(int x='a') -> Tensor", "'a' is no default for type int", "int x='a'"),
        ("f(int x=1.5) -> Tensor", "1.5 is no default for type int", "int x=1.5"),
        ("f(int x=True) -> Tensor", "True is no default for type int", "int x=True"),
        ("f(int x=None) -> Tensor", "None is no default for type int", "int x=None"),
        ("f(int[] x=1) -> Tensor", "1 is no default for type int[]", "int[] x=1"),
        ("f(bool[2] x=[True]) -> Tensor", "(True,) is no default for type bool[2]", "bool[2] x=[True]"),
        ("f(str x=1) -> Tensor", "1 is no default for type str", "str x=1"),
        ("f(str x=Mean) -> Tensor", "Symbol('Mean') is no default for type str", "str x=Mean"),
    ],
)
def test_malformed_text_is_refused_with_its_place(text: str, reason: str, underlined: str) -> None:
    with pytest.raises(SchemaError) as error:
        parse_schema(text, source="ops.yaml:7")
    head, line, caret = str(error.value).split("\n")
    assert head.startswith("ops.yaml:7: ")
    assert reason in head
    assert line == text
    start = len(caret) - len(caret.lstrip())
    assert line[start : start + len(caret.strip())] == underlined


def test_the_caret_stands_under_its_own_line() -> None:
    with pytest.raises(SchemaError, match=r"unknown type 'Foo'\n  Foo y\) -> Tensor\n  \^\^\^$"):
        parse_schema("f(Tensor x,\n  Foo y) -> Tensor")


@pytest.mark.parametrize("text", ["", "a.", "a::", "a b", "a(int x) -> ()"])
def test_malformed_names_are_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        parse_name(text)


@pytest.mark.parametrize(
    "text", ["Tensor", "Tensor?", "Tensor[]", "Tensor?[]", "SymInt[]", "int[2]?", "bool[3]", "Dimname[]?"]
)
def test_type_round_trip(text: str) -> None:
    assert str(parse_type(text)) == text


def test_a_type_alone_has_no_alias() -> None:
    with pytest.raises(SchemaError, match="no alias annotation"):
        parse_type("Tensor(a)")


IDENTS = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)
ELEMENTS: dict[str, st.SearchStrategy[object]] = {
    "int": st.integers(-(10**9), 10**9),
    "SymInt": st.integers(-(10**9), 10**9),
    "float": st.floats(allow_nan=False),
    "Scalar": st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans()),
    "bool": st.booleans(),
    "str": st.text(st.characters(codec="ascii"), max_size=8),
    "ScalarType": st.sampled_from(["long", "float32", "bool"]).map(Symbol),
}


@st.composite
def arguments(draw: st.DrawFn, name: str, kwarg_only: bool, needs_default: bool, index: int) -> Argument:
    base = draw(st.sampled_from([*ELEMENTS, "Tensor", "Device", "Generator"]))
    type: Type = BaseType(base)
    default = ELEMENTS.get(base)
    shape = draw(st.sampled_from(["", "?", "[]", "[]?", "?[]"]))
    if shape in ("[]", "[]?"):
        type = ListType(type)
        default = st.lists(default, max_size=3).map(tuple) if default is not None else None
    if shape == "?[]":
        type = ListType(OptionalType(BaseType(base)))
        default = st.just(())
    if shape in ("?", "[]?"):
        type = OptionalType(type)
        default = st.none() if default is None else st.one_of(st.none(), default)
    if needs_default and default is None:
        type, default = OptionalType(BaseType(base)), st.none()
    alias = None
    if base == "Tensor" and draw(st.booleans()):
        after = draw(st.sampled_from([(f"a{index}",), ("*",)]))
        alias = AliasInfo((f"a{index}",), after, draw(st.booleans()) and not kwarg_only)
    if default is not None and (needs_default or draw(st.booleans())):
        return Argument(name, type, draw(default), kwarg_only, alias)  # type: ignore[arg-type]
    return Argument(name, type, kwarg_only=kwarg_only, alias_info=alias)


@st.composite
def schemas(draw: st.DrawFn) -> FunctionSchema:
    names = draw(st.lists(IDENTS, unique=True, max_size=6))
    positional = draw(st.integers(0, len(names)))
    made: list[Argument] = []
    for index, name in enumerate(names):
        seen_default = index < positional and any(a.has_default for a in made)
        made.append(draw(arguments(name, index >= positional, seen_default, index)))
    sets = [a.alias_info for a in made if a.alias_info]
    returns = []
    for name in draw(st.lists(st.one_of(st.none(), IDENTS), max_size=3, unique_by=lambda n: n or object())):
        alias = draw(st.sampled_from([None, *sets]))
        alias = alias and AliasInfo(alias.before_set, alias.before_set, alias.is_write)
        returns.append(Return(BaseType("Tensor"), name, alias))
    operator = OperatorName(
        draw(st.sampled_from(["", "ns::"])) + "op_" + draw(IDENTS), draw(st.sampled_from(["", "x"]))
    )
    is_vararg = positional == len(names) and draw(st.booleans())
    return FunctionSchema(operator, tuple(made), tuple(returns), is_vararg, draw(st.booleans()))


@settings(max_examples=150, deadline=None)
@given(schemas())
def test_generated_schemas_round_trip(schema: FunctionSchema) -> None:
    parsed = parse_schema(str(schema))
    assert parsed == schema
    assert str(parsed) == str(schema)
    assert [a.default for a in parsed.arguments] == [a.default for a in schema.arguments]
