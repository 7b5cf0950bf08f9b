"""Documentation of operators: the errors, the names that one entry documents, and the text of a docstring."""

from pathlib import Path
from typing import Any

import pytest

from triten.dispatch.codegen.check_docs import faults_of
from triten.dispatch.codegen.docs import OperatorDocs
from triten.dispatch.codegen.docstrings import Docstrings
from triten.dispatch.codegen.documentation import documentation_of
from triten.dispatch.codegen.examples import failures_of, in_place_example, renamed
from triten.dispatch.codegen.functions import signatures_of
from triten.dispatch.codegen.load import Operators, load_functions
from triten.dispatch.codegen.location import Location, ModelError

HERE = Location("native_functions/example.yaml", 7, "f")
FIELDS: dict[str, Any] = {
    "summary": "Compute what the name says.",
    "args": {"input": "A tensor.", "p": "A number."},
    "returns": "A tensor.",
    "raises": {"IndexError": "`p` is out of range."},
    "example": ">>> tt.f(tt.ones(2))\ntensor([1., 1.])\n",
}
SOFTMAX = """
- func: softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
  variants: function, method
  autogen: softmax.int_out
  docs:
    summary: Exponentials along one dimension, divided by their sum.
    formula: exp(x_i) / sum_j exp(x_j)
    args:
      input: A tensor of any shape.
      dim: The dimension along which the results sum to 1.
    returns: A tensor of `input`'s shape.
    raises:
      IndexError: "`dim` is out of range."
    lacks: Complex numbers.
    notes: The maximum is subtracted first.
    source: "`torch.softmax`; Bridle, Training stochastic model recognition algorithms (1989)."
    example: |
      >>> x = tt.tensor([0.0, 1.0])
      >>> tt.softmax(x, 0)
      tensor([0.2689, 0.7311])
"""
RELU = """
- func: relu(Tensor self) -> Tensor
  variants: function, method
  autogen: relu_
  docs:
    summary: The larger of 0 and each element.
    args: {input: A tensor of real numbers.}
    returns: A tensor of `input`'s shape and dtype.
    example: |
      >>> tt.relu(tt.tensor([-1.0, 1.0]))
      tensor([0., 1.])
- func: rectify(Tensor self) -> Tensor
  autogen: rectify_
  docs: {alias_of: relu}
"""


def load(folder: Path, text: str) -> Operators:
    (folder / "family.yaml").write_text(text)
    return load_functions(folder)


def docstring(folder: Path, text: str, name: str) -> str:
    operators = load(folder, text)
    return Docstrings(signatures_of(operators), documentation_of(operators.functions)).of(name)


# --- an entry


def test_an_entry_round_trips() -> None:
    docs = OperatorDocs.from_fields(FIELDS, HERE)
    assert docs.args == (("input", "A tensor."), ("p", "A number."))
    assert OperatorDocs.from_fields(docs.to_fields(), HERE) == docs
    assert list(docs.to_fields()) == ["summary", "args", "returns", "raises", "example"]
    alias = OperatorDocs.from_fields({"alias_of": "mul"}, HERE)
    assert (alias.alias_of, alias.to_fields()) == ("mul", {"alias_of": "mul"})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sumary": "A typo."}, r"unknown fields \['sumary'\]"),
        ({"summary": None}, "have no summary; write\ndocs:\n  summary: Compute what the name says"),
        ({"returns": "", "example": ""}, "have no returns and no example; write"),
        ({"summary": "No full stop"}, "one sentence of at most 110 characters with a full stop"),
        ({"summary": "x" * 110 + "."}, "got 111: x"),
        ({"args": "a tensor"}, "args is a mapping to text, got 'a tensor'"),
        ({"args": {"p": 1}}, "args: p is text, got 1; quote it"),
        ({"raises": {"no name": "It fails."}}, "raises names exceptions, not 'no name'"),
        ({"example": "tt.f(1)"}, "example starts with '>>> '"),
        ({"alias_of": "g"}, "docs with alias_of have no other fields"),
    ],
)
def test_refusals_name_the_place(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelError, match=rf"(?s)^native_functions/example.yaml: f: .*{words}"):
        OperatorDocs.from_fields({**FIELDS, **changed}, HERE)
    with pytest.raises(ModelError, match="docs are fields such as\ndocs:"):
        OperatorDocs.from_fields("text", HERE)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "      input: A tensor of any shape.\n",
            "",
            "the argument input of softmax is not described in args",
        ),
        ("      dim:", "      dims:", "the argument dim of softmax is not described in args"),
        (
            "    returns:",
            "      axis: Its axis.\n    returns:",
            r"args: axis is no argument of softmax: \['input',",
        ),
        (
            "- func: softmax.int(",
            "- func: softmax.first(Tensor self) -> Tensor\n- func: softmax.int(",
            "the docs of softmax belong on its first entry, softmax.first",
        ),
        (
            "- func: softmax.int(",
            "- func: g(Tensor self) -> Tensor\n  docs: {alias_of: nothing}\n- func: softmax.int(",
            "g: docs: alias_of nothing, a name without docs of its own",
        ),
        (
            "- func: softmax.int(",
            "- func: g(Tensor self, int q) -> Tensor\n  docs: {alias_of: softmax}\n- func: softmax.int(",
            "g: docs of softmax: the argument q of g is not described",
        ),
    ],
)
def test_docs_that_do_not_fit_the_operators_are_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    assert old in SOFTMAX
    with pytest.raises(ModelError, match=words):
        load(tmp_path, SOFTMAX.replace(old, new))


# --- which names it documents


def test_one_entry_documents_the_in_place_form_and_aliases(tmp_path: Path) -> None:
    found = documentation_of(load(tmp_path, RELU).functions)
    assert {n: (d.written_for, d.is_in_place, d.alias_of) for n, d in found.items()} == {
        "relu": ("relu", False, None),
        "rectify": ("relu", False, "relu"),
        "relu_": ("relu", True, None),
        "rectify_": ("relu", True, "relu_"),
    }


def test_derived_forms_hold_no_docs_of_their_own(tmp_path: Path) -> None:
    assert [str(f.name) for f in load(tmp_path, RELU).functions if f.docs] == ["relu", "rectify"]


# --- docstrings


def test_a_docstring(tmp_path: Path) -> None:
    assert (
        docstring(tmp_path, SOFTMAX, "softmax")
        == """\
Exponentials along one dimension, divided by their sum (`torch.softmax`).

    exp(x_i) / sum_j exp(x_j)

Args:
    input: A tensor of any shape. The method's `self`.
    dim: The dimension along which the results sum to 1.
    dtype: The result's dtype; by default that of `input`.
    out: The tensor that takes the result and is returned: of the result's shape, or empty and then
        resized.

Returns:
    A tensor of `input`'s shape.

Raises:
    IndexError: `dim` is out of range.

Note:
    The maximum is subtracted first.

    Not supported: Complex numbers.

References:
    Bridle, Training stochastic model recognition algorithms (1989).

Example:
    >>> import triten as tt
    >>> x = tt.tensor([0.0, 1.0])
    >>> tt.softmax(x, 0)
    tensor([0.2689, 0.7311])

Schema::

    softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    )


def test_the_docstring_of_an_in_place_form(tmp_path: Path) -> None:
    assert (
        docstring(tmp_path, RELU, "relu_")
        == """\
In-place version of `tt.relu` (`torch.Tensor.relu_`).

Example:
    >>> import triten as tt
    >>> x = tt.tensor([-1.0, 1.0])
    >>> x.relu_()
    tensor([0., 1.])"""
    )


def test_the_docstring_of_an_alias(tmp_path: Path) -> None:
    text = docstring(tmp_path, RELU, "rectify")
    assert text.startswith(
        "The larger of 0 and each element (`torch.rectify`).\n\nAnother name of `tt.relu`.\n"
    )
    assert "    >>> tt.rectify(tt.tensor([-1.0, 1.0]))\n" in text
    assert "rectify(Tensor self) -> Tensor" in text
    assert "    >>> x.rectify_()\n" in docstring(tmp_path, RELU, "rectify_")


def test_names_of_a_namespace_are_the_public_ones(tmp_path: Path) -> None:
    entry = """
- func: linalg_det(Tensor self) -> Tensor
  docs:
    summary: The determinant.
    args: {input: A square matrix.}
    returns: A number.
    example: |
      >>> tt.linalg.det(tt.eye(2))
      tensor(1.)
- func: det(Tensor self) -> Tensor
  variants: function, method
  docs: {alias_of: linalg_det}
"""
    assert docstring(tmp_path, entry, "linalg_det").startswith("The determinant (`torch.linalg.det`).")
    assert ">>> tt.det(tt.eye(2))" in docstring(tmp_path, entry, "det")


def test_overloads_are_listed_as_python_signatures(tmp_path: Path) -> None:
    entry = """
- func: most(Tensor self) -> Tensor
  variants: function, method
  docs:
    summary: The largest element.
    args: {input: A tensor., dim: A dimension., other: A tensor.}
    returns: A tensor.
    example: |
      >>> tt.most(tt.ones(2))
      tensor(1.)
- func: most.dim(Tensor self, int dim=-1) -> (Tensor values, Tensor indices)
  variants: function, method
  autogen: most.dim_out
- func: most.other(Tensor self, Tensor other) -> Tensor
"""
    out = "out: tuple[Tensor, Tensor] | None = None"
    assert f"""
Signatures::

    tt.most(input: Tensor) -> Tensor
    tt.most(input: Tensor, dim: int = -1, *, {out}) -> tuple[Tensor, Tensor]
    tt.most(input: Tensor, other: Tensor) -> Tensor
""" in docstring(tmp_path, entry, "most")


def test_without_documentation_the_declarations_stand_alone(tmp_path: Path) -> None:
    entry = "- func: f(Tensor x) -> Tensor\n- func: f.int(int x) -> Tensor\n"
    assert docstring(tmp_path, entry, "f") == (
        "Call the overload that the arguments match.\n\n"
        "Schemas::\n\n    f(Tensor x) -> Tensor\n    f.int(int x) -> Tensor"
    )
    assert docstring(tmp_path, entry.partition("\n")[0], "f") == "Call ``f(Tensor x) -> Tensor``."


# --- examples


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        (">>> tt.f(tt.ones(2))\ntensor(0)", ">>> x = tt.ones(2)\n>>> x.f_()\ntensor(0)"),
        (">>> a = 1\n>>> tt.f(a, 2, p=3)\n4", ">>> a = 1\n>>> a.f_(2, p=3)\n4"),
        (">>> tt.f(1)\n2\n>>> tt.f(3, *[1], **{})\n4", ">>> tt.f(1)\n2\n>>> x = 3\n>>> x.f_(*[1], **{})\n4"),
        (">>> tt.nn.functional.f(y)\n1", ">>> y.f_()\n1"),
        (">>> y.f(2)\n1", ">>> y.f_(2)\n1"),
        (">>> tt.ones(2).f()\n1", ">>> x = tt.ones(2)\n>>> x.f_()\n1"),
        (">>> tt.f(x).shape\n(2,)", None),
        (">>> y = tt.f(x)", None),
        (">>> tt.g(x)\n1", None),
        (">>> tt.f()\n1", None),
        ("no example", None),
    ],
)
def test_the_in_place_example_follows_from_the_last_call(example: str, expected: str | None) -> None:
    assert in_place_example(example, "f", "tt.f", method=True) == expected


def test_the_in_place_example_of_a_function_alone() -> None:
    assert in_place_example(">>> tt.f(2)\n1", "f", "tt.f", method=False) == ">>> x = 2\n>>> tt.f_(x)\n1"


def test_an_alias_is_called_by_its_name() -> None:
    example = ">>> tt.f(x).f()\n>>> tt.nn.functional.f(x)\n>>> tt.ff(x)"
    assert renamed(example, "tt.f", "ns_g", "tt.ns.g") == (
        ">>> tt.ns.g(x).ns_g()\n>>> tt.ns.g(x)\n>>> tt.ff(x)"
    )


def test_an_in_place_form_whose_example_does_not_follow_asks_for_one(tmp_path: Path) -> None:
    text = RELU.replace(">>> tt.relu(tt.tensor([-1.0, 1.0]))\n", ">>> tt.relu(tt.zeros(2)).shape\n")
    with pytest.raises(ModelError, match=r"family.yaml: relu: .*relu_ would follow: write example_in_place"):
        docstring(tmp_path, text, "relu_")


def test_failures_are_reported() -> None:
    assert failures_of(">>> 1 + 1\n2", "f") == ""
    assert "Expected:\n    3\nGot:\n    2" in failures_of(">>> 1 + 1\n3", "f")


def test_names_that_lack_documentation_are_found(tmp_path: Path) -> None:
    text = RELU.replace("tensor([0., 1.])", "tensor([1., 0.])") + "- func: relu6(Tensor self) -> Tensor\n"
    missing, reports, count = faults_of(load(tmp_path, text), ["family"])
    assert [signature.name for signature in missing] == ["relu6"]
    assert count == 4 and len(reports) == 4
    assert "The example of relu_ was made of that of relu: write example_in_place." in reports[1]
