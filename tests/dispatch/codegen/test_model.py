"""Declarations of operators: parsing ATen's format, round trips, errors with their position."""

from pathlib import Path
from typing import Any

import pytest

from triten.dispatch import codegen
from triten.dispatch.codegen.load import load_functions, read_entries
from triten.dispatch.codegen.model import Location, ModelError, NativeFunction
from triten.dispatch.schema import SchemaError

HERE = Location("native_functions/example.yaml", 7, "f.int")
FOLDER = Path(codegen.__file__).parent.parent / "native_functions"


def parse(func: str, **fields: Any) -> NativeFunction:
    return NativeFunction.from_fields({"func": func, **fields}, "example", HERE)


ADD = "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
ADD_OUT = "add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"


def test_an_entry_of_atens_own() -> None:
    add = parse(
        ADD,
        device_check="NoCheck",
        structured_delegate="add.out",
        variants="function, method",
        dispatch={"SparseCPU, SparseCUDA": "add_sparse", "MkldnnCPU": "mkldnn_add", "ZeroTensor": "add_zero"},
        tags=["core", "pointwise"],
    )
    assert str(add.name) == "add.Tensor"
    assert (add.base, add.identifier, add.family, add.form) == ("add", "add_Tensor", "example", "functional")
    assert add.variants == {"function", "method"}
    assert add.structured_delegate == "add.out"
    assert not add.structured
    assert add.device_check == "NoCheck"
    assert add.dispatch == (("SparseCPU", "add_sparse"), ("SparseCUDA", "add_sparse"))
    assert add.tags == {"core", "pointwise"}


def test_a_structured_out_form() -> None:
    out = parse(ADD_OUT, structured=True, structured_inherits="TensorIteratorBase")
    assert (out.structured, out.structured_inherits, out.form) == (True, "TensorIteratorBase", "out")
    assert not out.is_view


def test_precomputed_and_python_module() -> None:
    pool = parse(
        "avg_pool2d.out(Tensor self, int[2] kernel_size, int[2] stride=[], *, Tensor(a!) out) -> Tensor(a!)",
        structured=True,
        python_module="nn",
        precomputed=["kernel_size -> int kH, int kW", "stride -> int dH, int dW"],
        dispatch={"CPU": "cpu", "CUDA": "cuda"},
    )
    assert pool.python_module == "nn"
    assert pool.precomputed == ("kernel_size -> int kH, int kW", "stride -> int dH, int dW")
    assert pool.dispatch == (("CPU", "cpu"), ("CUDA", "cuda"))


def test_views() -> None:
    view = parse(
        "view(Tensor(a) self, SymInt[] size) -> Tensor(a)", structured_inherits="ViewBase", structured=True
    )
    assert view.is_view


def test_an_entry_without_kernels_is_an_implicit_composite() -> None:
    made = parse("twice(Tensor self) -> Tensor")
    assert made.dispatch == (("CompositeImplicitAutograd", "twice"),)


def test_defaults() -> None:
    made = parse("f(Tensor x) -> Tensor", dispatch={"CPU": "f"})
    assert made.variants == {"function"}
    assert (made.device_guard, made.python_binding, made.wrapped_numbers) == (True, True, False)
    assert parse("f(Tensor x) -> Tensor", device_guard=False).device_guard is False


@pytest.mark.parametrize(
    ("func", "form"),
    [
        (ADD, "functional"),
        (ADD_OUT, "out"),
        ("add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", "inplace"),
        ("view(Tensor(a) self, int[] size) -> Tensor(a)", "functional"),
    ],
)
def test_forms(func: str, form: str) -> None:
    assert parse(func).form == form


# --- what autogen derives


@pytest.mark.parametrize(
    ("func", "name", "expected"),
    [
        (ADD, "add_.Tensor", "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"),
        (ADD, "add.out", ADD_OUT),
        ("relu(Tensor self) -> Tensor", "relu_", "relu_(Tensor(a!) self) -> Tensor(a!)"),
        (
            "aminmax(Tensor self) -> (Tensor min, Tensor max)",
            "aminmax.out",
            "aminmax.out(Tensor self, *, Tensor(a!) min, Tensor(b!) max) -> (Tensor(a!) min, Tensor(b!) max)",
        ),
        (
            "native_dropout(Tensor input, float p) -> (Tensor, Tensor)",
            "native_dropout.out",
            "native_dropout.out(Tensor input, float p, *, Tensor(a!) out0, Tensor(b!) out1) "
            "-> (Tensor(a!), Tensor(b!))",
        ),
    ],
)
def test_derived_forms(func: str, name: str, expected: str) -> None:
    base = parse(func, structured=True, autogen=name)
    derived = base.derive(name)
    assert str(derived.schema) == expected
    assert base.autogen == (name,)
    assert derived.autogen == ()
    assert derived.meta == base.base
    assert derived.stub == f"{base.base}_stub"


def test_a_form_that_cannot_be_derived() -> None:
    with pytest.raises(
        ModelError, match=r"example.yaml: f.int: autogen sub.out is neither add_ nor an out= form of add"
    ):
        parse(ADD, structured=True).derive("sub.out")


# --- round trips


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_declaration_round_trips(path: Path) -> None:
    for fields, location in read_entries(path):
        made = NativeFunction.from_fields(fields, path.stem, location)
        again = NativeFunction.from_fields(made.to_fields(), path.stem, location)
        assert again == made, location
        assert again.to_fields() == made.to_fields(), location
        assert str(made.schema) == " ".join(fields["func"].split()), location


def test_fields_at_their_defaults_are_left_out() -> None:
    assert parse("f(Tensor x) -> Tensor", dispatch={"CPU": "f"}, variants="function").to_fields() == {
        "func": "f(Tensor x) -> Tensor",
        "dispatch": {"CPU": "f"},
    }


def test_declarations_are_immutable() -> None:
    with pytest.raises(AttributeError):
        parse(ADD).family = "other"


# --- refusals


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"func": "f(Tensor x) -> Tensor", "kernel": "f"}, r"unknown fields \['kernel'\]"),
        ({"variants": "function"}, "needs a 'func'"),
        (
            {"func": "f(Tensor x) -> Tensor", "variants": "class"},
            r"variants are function and method, got \['class'\]",
        ),
        ({"func": "f(Tensor x) -> Tensor", "variants": "method"}, "a method needs an argument 'self'"),
        (
            {"func": "f(Tensor x) -> Tensor", "structured": True, "structured_delegate": "f.out"},
            "f is structured and delegates",
        ),
        ({"func": "f(Tensor x) -> Tensor", "dispatch": {"CPU, GPU": "f"}}, "dispatch of f names no key: GPU"),
    ],
)
def test_refusals_name_the_place(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelError, match=rf"^native_functions/example.yaml: f.int: .*{words}"):
        NativeFunction.from_fields(fields, "example", HERE)


def test_a_malformed_schema_names_the_place() -> None:
    with pytest.raises(SchemaError, match=r"native_functions/example.yaml: f.int: "):
        parse("f(Tensor x -> Tensor")


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_places_in_a_file(tmp_path: Path) -> None:
    text = "# a comment\n\n- func: f(Tensor x) -> Tensor\n\n- func: g.int(int x) -> Tensor\n  tags: core\n"
    write(tmp_path, one=text)
    places = [location for _, location in read_entries(tmp_path / "one.yaml")]
    assert [place.line for place in places] == [3, 5]
    assert [str(place) for place in places] == [
        f"{tmp_path.name}/one.yaml: {name}" for name in ("f", "g.int")
    ]
    assert str(Location("one.yaml", 3)) == "one.yaml:3"


def test_a_folder(tmp_path: Path) -> None:
    structured = (
        f"- func: {ADD}\n  structured: True\n  autogen: add_.Tensor, add.out\n  variants: function, method\n"
    )
    operators = load_functions(write(tmp_path, b=structured, a="- func: f(Tensor x) -> Tensor\n"))
    assert [str(f.name) for f in operators.functions] == ["f", "add.Tensor", "add_.Tensor", "add.out"]
    assert operators.families() == ["a", "b"]
    assert [f.form for f in operators.of_family("b")] == ["functional", "inplace", "out"]
    assert sorted(operators.packets()) == ["add", "add_", "f"]


def test_a_delegate_takes_over_meta_and_stub(tmp_path: Path) -> None:
    text = (
        f"- func: {ADD}\n  structured_delegate: add.out\n"
        f"- func: {ADD_OUT}\n  structured: True\n  structured_inherits: TensorIteratorBase\n  meta: binary\n"
    )
    delegating, target = load_functions(write(tmp_path, a=text)).functions
    assert (delegating.meta, delegating.stub) == ("binary", "add_stub")
    assert delegating.structured_inherits == target.structured_inherits == "TensorIteratorBase"


def test_a_dangling_delegate(tmp_path: Path) -> None:
    write(tmp_path, a=f"- func: {ADD}\n  structured_delegate: add.nothing\n")
    with pytest.raises(
        ModelError, match=r"a.yaml: add.Tensor: structured_delegate add.nothing is no structured operator"
    ):
        load_functions(tmp_path)


@pytest.mark.parametrize("second", [f"- func: {ADD}\n", f"\n- func: {ADD_OUT}\n"])
def test_an_operator_declared_twice_names_both_places(tmp_path: Path, second: str) -> None:
    write(tmp_path, a=f"- func: {ADD}\n  structured: True\n  autogen: add.out\n", b=second)
    with pytest.raises(ModelError, match=r"b.yaml: add\.\w+: add\.\w+ is declared at .*a.yaml:1 already"):
        load_functions(tmp_path)
