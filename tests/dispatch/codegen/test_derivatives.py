"""`derivatives.yaml`: the values that a formula saves, and the errors."""

from pathlib import Path

import pytest

from triten.dispatch.codegen.__main__ import DISPATCH
from triten.dispatch.codegen.autograd import node_text, planner_row
from triten.dispatch.codegen.derivatives import Derivative, load_derivatives
from triten.dispatch.codegen.load import Operators, load_functions
from triten.dispatch.codegen.model import ModelError

FUNCTIONS = """
- func: f(Tensor self, Tensor other, int dim, *, Scalar alpha=1) -> Tensor
  dispatch: {CPU: f}
- func: pair(Tensor self) -> (Tensor values, Tensor indices)
  dispatch: {CPU: pair}
- func: cat(Tensor[] tensors, int dim=0) -> Tensor
  dispatch: {CPU: cat}
"""
F = "f(Tensor self, Tensor other, int dim, *, Scalar alpha=1) -> Tensor"
PAIR = "pair(Tensor self) -> (Tensor values, Tensor indices)"


@pytest.fixture
def operators(tmp_path: Path) -> Operators:
    folder = tmp_path / "native_functions"
    folder.mkdir()
    (folder / "family.yaml").write_text(FUNCTIONS)
    return load_functions(folder)


def load(tmp_path: Path, operators: Operators, text: str) -> list[Derivative]:
    path = tmp_path / "derivatives.yaml"
    path.write_text(text)
    return load_derivatives(path, operators)


def one(tmp_path: Path, operators: Operators, formulas: str, name: str = F) -> Derivative:
    lines = "".join(f"  {line}\n" for line in formulas.split("\n"))
    return load(tmp_path, operators, f"- name: {name}\n{lines}")[0]


def test_what_is_saved(tmp_path: Path, operators: Operators) -> None:
    formula = one(tmp_path, operators, "self: grad * other + scaled(result, alpha, dim)").formulas[0]
    assert formula.inputs == ("self",)
    assert formula.saves == ("other",)
    assert formula.results == ("result",)
    assert set(formula.statics) == {"alpha", "dim"}
    assert formula.specs == ()
    assert formula.calls == ("scaled",)
    assert not formula.uses_grads


@pytest.mark.parametrize("attribute", ["shape", "dtype", "ndim", "device", "sizes", "strides"])
def test_attributes_of_a_spec_save_no_tensor(tmp_path: Path, operators: Operators, attribute: str) -> None:
    formula = one(tmp_path, operators, f"self: helper(grad, self.{attribute})").formulas[0]
    assert (formula.saves, formula.specs) == ((), ("self",))


def test_a_tensor_needed_whole_and_for_its_shape_is_saved_once(tmp_path: Path, operators: Operators) -> None:
    formula = one(tmp_path, operators, "self: helper(grad, other.shape, other, other)").formulas[0]
    assert (formula.saves, formula.specs) == (("other",), ())


def test_methods_of_a_tensor_need_it_whole(tmp_path: Path, operators: Operators) -> None:
    assert one(tmp_path, operators, "self: grad.mm(other.t())").formulas[0].saves == ("other",)


def test_a_linear_formula_saves_nothing(tmp_path: Path, operators: Operators) -> None:
    derivative = one(tmp_path, operators, "self: grad\nother: -grad\nresult: auto_linear")
    assert all(f.saves == f.specs == f.statics == f.results == () for f in derivative.formulas)
    assert derivative.forward == {"result": "auto_linear"}
    assert derivative.inputs == ("self", "other")
    assert "release" not in node_text(derivative)


def test_several_inputs_of_one_formula(tmp_path: Path, operators: Operators) -> None:
    derivative = one(tmp_path, operators, "other, self: helper(grad, output_mask)")
    assert derivative.formulas[0].inputs == ("other", "self")
    assert derivative.inputs == ("self", "other")


def test_a_formula_of_several_beside_their_own_is_for_all_of_them(
    tmp_path: Path, operators: Operators
) -> None:
    derivative = one(
        tmp_path, operators, "self: grad * other\nother: grad * self\nself, other: both(grad, self, other)"
    )
    assert [f.inputs for f in derivative.joint] == [("self", "other")]
    assert [f.inputs for f in derivative.separate] == [("self",), ("other",)]
    text = node_text(derivative)
    together = "        if edges[0] is not None and edges[1] is not None:"
    assert text.index(together) < text.index("both(grad, self_, other)") < text.index("        else:")
    assert "            if edges[1] is not None:" in text
    assert "saves={'other': 'self', 'self': 'other'}" in planner_row(derivative)


def test_inputs_without_gradient(tmp_path: Path, operators: Operators) -> None:
    derivative = one(tmp_path, operators, "self: grad\nother: not_differentiable")
    assert derivative.inputs == ("self",)
    assert derivative.silent == ("other",)
    assert derivative.refused == ()
    derivative = one(tmp_path, operators, "self: grad")
    assert derivative.refused == ("other",)


def test_names_of_results(tmp_path: Path, operators: Operators) -> None:
    derivative = one(
        tmp_path, operators, "self: helper(grads[0], indices)\noutput_differentiability: [True, False]", PAIR
    )
    assert derivative.formulas[0].results == ("indices",)
    assert derivative.formulas[0].uses_grads
    assert derivative.differentiable_outputs == (True, False)


def test_names_of_nodes(tmp_path: Path, operators: Operators) -> None:
    derivative = one(tmp_path, operators, "self: grad", PAIR)
    assert derivative.node == "PairBackward0"
    assert derivative.differentiable_outputs == (True, True)


def test_comprehensions_have_names_of_their_own(tmp_path: Path, operators: Operators) -> None:
    name = "cat(Tensor[] tensors, int dim=0) -> Tensor"
    formula = one(
        tmp_path, operators, "tensors: '[grad.narrow(dim, 0, t) for t in sizes_of(tensors)]'", name
    ).formulas[0]
    assert formula.saves == ("tensors",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"- name: {F}\n  nothing: grad\n", "f has no argument 'nothing'"),
        (f"- name: {F}\n  self: grad *\n", r"formula 'grad \*' is no expression"),
        (f"- name: {F}\n  self: grad * othr\n", r"formula 'grad \* othr' uses 'othr', which f does not have"),
        (f"- name: {F}\n  self: values + grad\n", "uses 'values', which f does not have"),
        ("- name: g(Tensor self) -> Tensor\n  self: grad\n", "no operator g"),
        ("- name: f(Tensor self) -> Tensor\n  self: grad\n", "the declaration is '.*', here stands"),
        (
            f"- name: {F}\n  self: grad\n\n- name: {F}\n  self: grad\n",
            r"its derivative stands at .*derivatives.yaml:1 already",
        ),
        (
            f"- name: {PAIR}\n  self: grad\n  output_differentiability: [True]\n",
            "has 1 entries for 2 results",
        ),
        ("- func: f\n  self: grad\n", "needs a 'name'"),
    ],
)
def test_refusals_name_the_place(tmp_path: Path, operators: Operators, text: str, words: str) -> None:
    with pytest.raises(ModelError, match=rf"derivatives.yaml(: \w+|:\d): .*{words}"):
        load(tmp_path, operators, text)


def test_the_place_is_that_of_the_entry(tmp_path: Path, operators: Operators) -> None:
    with pytest.raises(ModelError, match=r"derivatives.yaml: f: "):
        load(
            tmp_path, operators, f"- name: {PAIR}\n  self: grads[0]\n\n# a comment\n- name: {F}\n  x: grad\n"
        )


def test_the_nodes_code(tmp_path: Path, operators: Operators) -> None:
    derivative = one(
        tmp_path, operators, "self: grad.mm(other)\nother: helper(grad, self.shape, alpha, result)"
    )
    text = node_text(derivative)
    for part in (
        "class FBackward0(Node):",
        "other = unpack(self, self.other, self.other_version)",
        "if edges[0] is not None:",
        "helper(grad, self.self_spec.shape, alpha, result)",
        "result = unpack_result(self, self.result, self.result_version, 0)",
        "self.other = self.result = FREED",
    ):
        assert part in text
    compile(text, "node", "exec")


@pytest.mark.parametrize(
    ("formulas", "row"),
    [
        ("self: grad\nother: grad", 'FBackward0, inputs="self other"'),
        (
            "self: grad * other + scaled(result, alpha)",
            'FBackward0, inputs="self", saves={\'other\': \'self\'}, statics="alpha", results="result", '
            'refused="other"',
        ),
        (
            "self: grad.new_zeros(self.shape)\nother: not_differentiable",
            'FBackward0, inputs="self", specs="self", has_silent_inputs=True',
        ),
    ],
)
def test_what_a_planner_records(tmp_path: Path, operators: Operators, formulas: str, row: str) -> None:
    assert planner_row(one(tmp_path, operators, formulas)) == f"plan_f = recorded({row})"


def test_results_without_gradient_are_named_in_the_planner(tmp_path: Path, operators: Operators) -> None:
    derivative = one(tmp_path, operators, "self: grads[0]\noutput_differentiability: [True, False]", PAIR)
    assert planner_row(derivative).endswith('inputs="self", differentiable=(True, False))')


def test_the_real_file() -> None:
    operators = load_functions(DISPATCH / "native_functions")
    derivatives = load_derivatives(DISPATCH / "derivatives.yaml", operators)
    by_name = {str(d.function.name): d for d in derivatives}
    assert by_name["relu"].formulas[0].results == ("result",)
    assert by_name["mm"].formulas[0].saves == ("mat2",)
    assert by_name["sum"].formulas[0].specs == ("self",)
    assert len({d.node for d in derivatives}) == len(derivatives)
