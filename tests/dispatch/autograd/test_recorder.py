"""Recorders that are generated at plan time: their text, their known values, and support for every operator."""

import builtins
import dis
import importlib
import linecache
from types import CodeType
from typing import Any

import pytest

import triten as tt
from triten.dispatch.autograd import recorder
from triten.dispatch.autograd.recorder import RecorderText, RecordingPlanner, recorded
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.generated import FAMILIES
from triten.dispatch.generated.registrations.operator_index import OPERATORS

OPERATOR_OF = {
    f"plan_{name.removeprefix('aten::').replace('.', '_')}": name
    for names in OPERATORS.values()
    for name in names
}


def planners(family: str) -> dict[str, RecordingPlanner]:
    """Return the planners of a family's operators, by operator."""
    try:
        module = importlib.import_module(f"triten.dispatch.generated.autograd.{family}")
    except ModuleNotFoundError:
        return {}
    return {
        OPERATOR_OF[name]: getattr(value, "__wrapped__", value)
        for name, value in vars(module).items()
        if name.startswith("plan_")
    }


def texts(name: str, planner: RecordingPlanner) -> list[RecorderText]:
    """Return the recorders of an operator: with all runtime arguments, and without those that are baked."""
    op = Dispatcher.singleton().find_schema_or_throw(name)
    op.find_runtime_arguments()
    baked = {position for position, _ in op.bakeable}
    passed = {tuple(op.positions), tuple(i for i in op.positions if i not in baked)}
    return [RecorderText(planner.recording, op, positions) for positions in sorted(passed)]


def names_in(code: CodeType) -> set[str]:
    """Return the global names that code and the functions inside it read."""
    own = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return own.union(*(names_in(each) for each in code.co_consts if isinstance(each, CodeType)))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_recorder_of_a_family_can_be_written(family: str) -> None:
    for name, planner in planners(family).items():
        node = planner.recording.node
        slots = {slot for each in node.__mro__ for slot in getattr(each, "__slots__", ())}
        for text in texts(name, planner):
            code = compile(text.written("make"), name, "exec")
            known = {*recorder._GLOBALS, *vars(builtins), node.__name__}
            assert names_in(code) <= known, name
            made: dict[str, Any] = {}
            exec(code, made)
            record = made["make"](None, *text.variables)
            stored = {each[5:].split(" = ")[0] for each in text.lines() if each.startswith("node.")}
            assert stored <= slots, name
            assert set(record.__code__.co_freevars) <= {"inner", *text.variables}, name


def edge(name: str) -> str:
    """Return the edge of an input, as source."""
    known = f"({name}._autograd.edge if {name}._view_base is None else None)"
    return f"({known} or edge_of({name})) if needs_{name} else None"


def test_the_recorder_of_a_product() -> None:
    [text] = texts("aten::mul.Tensor", planners("pointwise")["aten::mul.Tensor"])
    assert (
        text.written("plan_mul_Tensor")
        == """\
def plan_mul_Tensor(inner, needs_self_, needs_other, other_is_tensor, self_is_tensor):
    def record(self_, other):
        if grad_disabled and not is_grad_enabled():
            return inner(self_, other)
        edges = EDGES
        out = inner(self_, other)
        node = MulBackward0()
        node.next_edges = edges
        node.sequence = next_sequence()
        node.hooks = None
        if needs_self_:
            node.other = other
            cell = other._version_cell if other_is_tensor else None
            node.other_version = 0 if cell is None else cell[0]
        if needs_other:
            node.self_ = self_
            cell = self_._version_cell if self_is_tensor else None
            node.self__version = 0 if cell is None else cell[0]
        spec = out._spec
        node.specs = (spec,)
        out._spec = spec.twin
        out._autograd = meta = AutogradMeta()
        meta.edge = (node, 0)
        meta.grad = None
        return out
    return record
""".replace("EDGES", f"({edge('self_')}, {edge('other')})")
    )


def test_an_in_place_form_saves_before_it_writes() -> None:
    [text] = texts("aten::mul_.Tensor", planners("pointwise")["aten::mul_.Tensor"])
    lines = text.lines()
    cloned = lines.index("original = clone_before_write(self_) if needs_other else None")
    assert lines.index("check_inplace(self_)") < cloned
    assert lines.index("    node.self_ = original") < lines.index("inner(self_, other)")
    assert lines.index("inner(self_, other)") < lines.index("rebase_history(self_, node)")


def test_a_recorder_is_written_once_and_has_lines() -> None:
    def names() -> list[str]:
        return [name for name in linecache.cache if name.startswith("<triten record aten::hypot #")]

    x = tt.ones(3, requires_grad=True)
    x.hypot(x)
    written = names()
    assert len(written) == 1 and "def plan_hypot(inner, " in linecache.getlines(written[0])[0]
    for dtype in (tt.float64, tt.float32):
        y = tt.ones(2, 5, dtype=dtype, requires_grad=True)
        y.hypot(y)
    assert names() == written


def test_scales_at_their_defaults_are_no_arguments_of_the_recorder() -> None:
    baked, given = texts("aten::add.Tensor", planners("pointwise")["aten::add.Tensor"])
    assert (baked.parameters, baked.variables[-1:]) == (["self_", "other"], ["alpha"])
    assert (given.parameters, given.variables) == (
        ["self_", "other", "alpha"],
        ["needs_self_", "needs_other"],
    )
    x = tt.ones(2, requires_grad=True)
    assert [tt.add(x, x, alpha=alpha).grad_fn.alpha for alpha in (1, 3)] == [1, 3]


def test_a_planner_belongs_to_the_module_of_its_node() -> None:
    planner = recorded(planners("pointwise")["aten::exp"].recording.node, inputs="self", results="result")
    assert planner.__module__ == "triten.dispatch.generated.autograd.pointwise"


def test_a_write_before_the_call_is_part_of_the_saved_version() -> None:
    w, factor = tt.ones(2, requires_grad=True), tt.ones(2)
    factor.add_(1.0)
    (w * factor).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [2.0, 2.0]
