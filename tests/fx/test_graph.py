"""Graphs and nodes by hand: making, moving, replacing, erasing, checking, printing (torch.fx.Graph, torch.fx.Node)."""

import copy
import math
import operator
import re
from typing import Any

import pytest

import triten as tt
from triten import nn
from triten.fx.immutable_collections import immutable_dict, immutable_list

fx = tt.fx


class Program:
    """x, y = 3; add(x, y), add.relu(), and both returned."""

    def __init__(self):
        self.graph = fx.Graph()
        self.x = self.graph.placeholder("x")
        self.y = self.graph.placeholder("y", default_value=3)
        self.add = self.graph.call_function(tt.add, (self.x, self.y))
        self.relu = self.graph.call_method("relu", (self.add,))
        self.output = self.graph.output([self.relu, {"k": self.add}])


@pytest.fixture
def program() -> Program:
    return Program()


def names(graph: fx.Graph) -> list[str]:
    return [node.name for node in graph.nodes]


# Nodes


def test_users_and_inputs_follow_arguments(program: Program) -> None:
    add, relu, x, y = program.add, program.relu, program.x, program.y
    assert (list(add.users), add.all_input_nodes) == ([relu, program.output], [x, y])
    add.args = (x, x)
    assert (add.all_input_nodes, list(y.users), list(x.users)) == ([x], [], [add])
    add.kwargs = {"alpha": y}
    assert (add.all_input_nodes, list(y.users)) == ([x, y], [add])
    add.update_kwarg("alpha", 2)
    add.update_arg(1, y)
    add.insert_arg(0, 7)
    assert (add.args, add.kwargs) == ((7, x, y), {"alpha": 2})
    with pytest.raises(AssertionError, match="idx must be between 0 and"):
        add.insert_arg(9, 1)


def test_nodes_are_found_in_containers_and_slices() -> None:
    graph = fx.Graph()
    a, b, c = map(graph.placeholder, "abc")
    node = graph.call_function(tt.add, ([a, (b,)], slice(None, c, None)), {"d": {"e": a}})
    assert node.all_input_nodes == [a, b, c]
    assert isinstance(node.args[0], immutable_list)
    assert isinstance(node.kwargs, immutable_dict)


def test_arguments_cannot_be_changed_in_place(program: Program) -> None:
    program.add.args = ([program.x],)
    with pytest.raises(TypeError, match="'immutable_list' object does not support mutation"):
        program.add.args[0].append(1)
    with pytest.raises(TypeError, match="'immutable_dict' object does not support mutation"):
        program.add.kwargs.update(alpha=1)
    with pytest.raises(TypeError, match="does not support mutation"):
        program.add.kwargs["alpha"] = 1


def test_replace_all_uses_with(program: Program) -> None:
    changed = program.add.replace_all_uses_with(program.x)
    assert changed == [program.relu, program.output]
    assert (list(program.add.users), program.relu.args) == ([], (program.x,))
    assert program.output.args[0] == [program.relu, {"k": program.x}]


def test_replace_some_uses_with_meta(program: Program) -> None:
    program.add.meta["note"] = 1
    changed = program.add.replace_all_uses_with(
        program.x, lambda user: user.op == "output", propagate_meta=True
    )
    assert (changed, program.relu.args, program.x.meta) == ([program.output], (program.add,), {"note": 1})
    with pytest.raises(AssertionError, match=r"already has \.meta keys"):
        program.add.replace_all_uses_with(program.x, propagate_meta=True)


def test_replace_input_with(program: Program) -> None:
    program.output.replace_input_with(program.relu, program.y)
    assert program.output.args[0] == [program.y, {"k": program.add}]
    assert not program.relu.users


def test_nodes_move(program: Program) -> None:
    program.x.append(program.relu)
    program.output.prepend(program.y)
    assert names(program.graph) == ["x", "relu", "add", "y", "output"]
    assert (program.x.next, program.x.next.next.prev) == (program.relu, program.relu)
    with pytest.warns(UserWarning, match="no effect"):
        program.x.prepend(program.x)
    with pytest.raises(AssertionError, match="a node of another graph"):
        program.x.prepend(Program().x)


def test_nodes_are_ordered_as_they_run(program: Program) -> None:
    assert program.x < program.add <= program.add < program.relu
    assert program.output > program.x
    program.x.append(program.relu)
    assert program.relu < program.add
    assert sorted([program.output, program.add, program.relu]) == [program.relu, program.add, program.output]


@pytest.mark.parametrize(
    ("op", "target", "error", "message"),
    [
        ("no_such", "x", AssertionError, "op 'no_such' is not one of"),
        ("call_function", "x", ValueError, "target x has type str but a Callable is expected"),
        ("call_method", tt.add, ValueError, "but a str is expected"),
    ],
)
def test_nodes_are_checked(op: str, target: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fx.Graph().create_node(op, target)


def test_arguments_have_their_classes() -> None:
    with pytest.raises(AssertionError, match="args must be a tuple"):
        fx.Graph().create_node("call_function", tt.add, [1])
    with pytest.raises(AssertionError, match="kwargs must be a dict"):
        fx.Graph().create_node("call_function", tt.add, (), (1,))


def test_format_node(program: Program) -> None:
    assert [node.format_node() for node in program.graph.nodes] == [
        "%x : [num_users=1] = placeholder[target=x]",
        "%y : [num_users=1] = placeholder[target=y](default=3)",
        "%add : [num_users=2] = call_function[target=triten.add](args = (%x, %y), kwargs = {})",
        "%relu : [num_users=1] = call_method[target=relu](args = (%add,), kwargs = {})",
        "return [relu, {'k': add}]",
    ]
    node = program.graph.call_function(operator.getitem, (program.x, slice(0, None)), type_expr=int)
    assert node.format_node() == (
        "%getitem : int [num_users=0] = call_function[target=operator.getitem]"
        "(args = (%x, slice(0, None, None)), kwargs = {})"
    )


# Making and erasing


def test_names() -> None:
    graph = fx.Graph()
    wanted = [
        "x",
        "x",
        "X",
        "camelCase",
        "1a",
        "a.b",
        "class",
        "print",
        "triten",
        "x_1",
        "x_01",
        "_",
        "a-b--c",
        "inf",
        "device",
    ]
    assert [graph.placeholder(name).name for name in wanted] == [
        *(
            "x",
            "x_1",
            "x_2",
            "camel_case",
            "_1a",
            "a_b",
            "class_1",
            "print_1",
            "triten_1",
            "x_3",
            "x_01",
            "_",
        ),
        *("a_b_c", "inf_1", "device_1"),
    ]


def test_the_insertion_point(program: Program) -> None:
    graph = program.graph
    with graph.inserting_before(program.relu):
        graph.call_function(tt.neg, (program.add,))
    with graph.inserting_after(program.x):
        graph.call_function(tt.abs, (program.x,))
        graph.call_function(tt.sqrt, (program.x,))
    with graph.inserting_before():
        graph.placeholder("first")
    with graph.inserting_after():
        graph.call_function(tt.exp, (program.x,))
    graph.call_function(tt.log, (program.x,))
    assert names(graph) == ["first", "x", "sqrt", "abs_1", "y", "add", "neg", "relu", "output", "exp", "log"]
    for inserting in (graph.inserting_before, graph.inserting_after):
        with pytest.raises(AssertionError, match="a node of another graph"):
            inserting(Program().x)


def test_erase_node(program: Program) -> None:
    graph = program.graph
    with pytest.raises(RuntimeError, match="Tried to erase Node add but it still had 2 users"):
        graph.erase_node(program.add)
    with pytest.raises(RuntimeError, match="Attempting to remove output from wrong graph"):
        graph.erase_node(Program().output)
    graph.erase_node(program.output)
    graph.erase_node(program.relu)
    assert (names(graph), len(graph.nodes), list(program.add.users)) == (["x", "y", "add"], 3, [])
    with pytest.warns(UserWarning, match="already erased"):
        graph.erase_node(program.relu)


def test_the_nodes_may_be_erased_while_they_are_walked() -> None:
    graph = fx.symbolic_trace(lambda x: x.a().b().c()).graph
    seen = []
    for node in graph.nodes:
        seen.append(node.name)
        if node.op == "call_method":
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    assert (seen, names(graph)) == (["x", "a", "b", "c", "output"], ["x", "output"])
    assert [node.name for node in reversed(graph.nodes)] == ["output", "x"]


def test_find_nodes(program: Program) -> None:
    graph = program.graph
    assert graph.find_nodes(op="call_function", target=tt.add) == [program.add]
    assert graph.find_nodes(op="placeholder") == [program.x, program.y]
    assert graph.find_nodes(op="call_method", target="exp") == []
    assert graph.output_node() is program.output
    with pytest.raises(AssertionError, match="target must not be None"):
        graph.find_nodes(op="call_function")
    with pytest.raises(AssertionError, match="expected the last node to be an output"):
        fx.Graph().output_node()


def test_copies(program: Program) -> None:
    program.add.meta["note"] = [1]
    made = copy.deepcopy(program.graph)
    assert str(made) == str(program.graph)
    assert not {*made.nodes} & {*program.graph.nodes}
    assert made.find_nodes(op="call_function", target=tt.add)[0].meta == {"note": [1]}
    other = fx.Graph()
    x = other.placeholder("given")
    values = {program.x: x}
    result = other.graph_copy(program.graph, values)
    assert result == [values[program.relu], {"k": values[program.add]}]
    assert names(other) == ["given", "y", "add", "relu"]
    copied = other.node_copy(program.add, lambda node: x)
    assert (copied.name, copied.args) == ("add_1", (x, x))


# Dead code


def test_dead_code_goes() -> None:
    def program(x):
        x.exp().log()
        tt.relu(x)
        return x

    graph = fx.symbolic_trace(program).graph
    assert graph.eliminate_dead_code()
    assert names(graph) == ["x", "output"]
    assert not graph.eliminate_dead_code()


@pytest.mark.parametrize(
    ("function", "stays"),
    [
        (tt.rand_like, True),
        (tt.bernoulli, True),
        (operator.setitem, True),
        (tt.ops.aten.add_.Tensor, True),
        (tt.ops.aten.rand_like.default, True),
        (tt.ops.aten.add.Tensor, False),
        (tt.add, False),
    ],
)
def test_what_has_effects_stays(function: Any, stays: bool) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(function, (x,))
    graph.output(x)
    assert node.is_impure() is stays
    assert graph.eliminate_dead_code() is not stays
    assert len(graph.nodes) == 2 + stays


def test_who_decides_what_has_effects_may_be_given(program: Program) -> None:
    program.output.args = (None,)
    program.graph.eliminate_dead_code(lambda node: node.op in ("output", "call_function"))
    assert names(program.graph) == ["x", "y", "add", "output"]


def test_modules_may_be_impure() -> None:
    class Printing(nn.Module):
        _is_impure = True

        def forward(self, x):
            return x

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.p, self.relu = Printing(), nn.ReLU()

        def forward(self, x):
            self.relu(x)
            self.p(x)
            return x

    class Leaves(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    model = Model()
    module = fx.GraphModule(model, Leaves().trace(model))
    assert module.graph.eliminate_dead_code()
    assert names(module.graph) == ["x", "p", "output"]


def test_has_side_effect() -> None:
    @fx.has_side_effect
    def effective(x):
        return x

    graph = fx.Graph()
    assert graph.call_function(effective, (1,)).is_impure()


# Checks


def test_lint_finds_a_use_before_the_definition(program: Program) -> None:
    program.graph.lint()
    program.add.prepend(program.relu)
    with pytest.raises(
        RuntimeError, match="Argument 'add' of Node 'relu' was used before it has been defined"
    ):
        program.graph.lint()


def test_lint_finds_nodes_of_other_graphs(program: Program) -> None:
    program.relu.args = (Program().x,)
    with pytest.raises(RuntimeError, match="Argument 'x' of Node 'relu' does not belong to this Graph"):
        program.graph.lint()


def test_lint_finds_names_that_two_nodes_have(program: Program) -> None:
    program.relu.name = "add"
    with pytest.raises(RuntimeError, match="Node redefined name add"):
        program.graph.lint()


def test_lint_finds_targets_that_the_module_lacks() -> None:
    module = fx.symbolic_trace(nn.Sequential(nn.ReLU()))
    node = module.graph.find_nodes(op="call_module")[0]
    node.target = "1"
    with pytest.raises(RuntimeError, match="target 1 references nonexistent attribute 1"):
        module.graph.lint()
    node.target = "training"
    with pytest.raises(RuntimeError, match=r"does not reference an nn\.Module"):
        module.graph.lint()


# Text


def text(graph: fx.Graph, root: str = "self") -> list[str]:
    return [line.strip() for line in graph.python_code(root).src.strip().splitlines() if line.strip()]


def test_operators_and_assignments_are_written_as_such() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    added = graph.call_function(operator.iadd, (x, 1))
    graph.call_function(operator.setitem, (added, (0, slice(None, x, 2)), 5))
    odd = graph.call_function(getattr, (x, "a b"))
    default = graph.call_function(getattr, (x, "k", 3))
    graph.output((odd, default))
    assert text(graph) == [
        "def forward(self, x):",
        "x += 1;  iadd = x",
        "iadd[(0, slice(None, x, 2))] = 5;  setitem = iadd;  iadd = setitem = None",
        "getattr_1 = getattr(x, 'a b')",
        "getattr_2 = getattr(x, 'k', 3);  x = None",
        "return (getattr_1, getattr_2)",
    ]


def test_dotted_names_that_are_no_identifiers() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_module("a.0.b", (x,))
    graph.output(graph.get_attr("1.w"))
    assert text(graph, "root") == [
        "def forward(self, x):",
        'a_0_b = getattr(root.a, "0").b(x);  x = a_0_b = None',
        '_1_w = getattr(root, "1").w',
        "return _1_w",
    ]


def test_constants() -> None:
    graph = fx.Graph()
    values = (
        math.inf,
        -math.inf,
        tt.float16,
        tt.device("cpu"),
        tt.channels_last,
        tt.strided,
        [1.5, "a"],
        ...,
    )
    graph.output(graph.call_function(tt.add, values, {"other": {"k": (1,)}}))
    code = graph.python_code("self")
    assert text(graph)[1] == (
        "add = triten.add(inf, -inf, triten.float16, device(type='cpu'), triten.channels_last, triten.strided, "
        "[1.5, 'a'], Ellipsis, other = {'k': (1,)})"
    )
    call = re.search(r"triten.add\((.*)\)", code.src)[1]
    args, kwargs = eval(f"(lambda *args, **kwargs: (args, kwargs))({call})", code.globals)
    assert (args, kwargs) == (values, {"other": {"k": (1,)}})


def test_an_empty_graph_is_written() -> None:
    assert text(fx.Graph()) == ["def forward(self):", "pass"]


def test_print_tabular_needs_tabulate(
    program: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys
    from types import ModuleType

    monkeypatch.setitem(sys.modules, "tabulate", None)
    with pytest.raises(ImportError):
        program.graph.print_tabular()
    assert "`print_tabular` relies on the library `tabulate`" in capsys.readouterr().out
    stand_in: Any = ModuleType("tabulate")
    stand_in.tabulate = lambda rows, headers: "\n".join(map(str, [headers, *rows[:1]]))
    monkeypatch.setitem(sys.modules, "tabulate", stand_in)
    program.graph.print_tabular()
    assert capsys.readouterr().out == (
        "['opcode', 'name', 'target', 'args', 'kwargs']\n['placeholder', 'x', 'x', (), {}]\n"
    )


def test_the_lines_may_be_rewritten() -> None:
    module = fx.symbolic_trace(lambda x: x + 1)
    with module.graph.on_generate_code(lambda before: lambda body: ["x = x * 10\n", *body]):
        module.recompile()
        assert module(1) == 11
    module.recompile()
    assert module(1) == 2


# Proxies by hand


def test_proxies_of_nodes_add_to_the_graph() -> None:
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    result = tt.nn.functional.relu(2 - x[0] @ x.T)
    graph.output(result.node)
    assert text(graph)[1:-1] == [
        "getitem = x[0]",
        "getattr_1 = x.T;  x = None",
        "matmul = getitem @ getattr_1;  getitem = getattr_1 = None",
        "sub = 2 - matmul;  matmul = None",
        "relu = triten.nn.functional.relu(sub, inplace = False);  sub = None",
    ]


def test_proxies_of_two_graphs_do_not_mix() -> None:
    first, second = (fx.Proxy(fx.Graph().placeholder("x")) for _ in range(2))
    with pytest.raises(RuntimeError, match="Found multiple different tracers"):
        tt.add(first, second)


def test_map_arg_wants_a_function() -> None:
    with pytest.raises(AssertionError, match="fn must be a callable"):
        fx.map_arg((), 3)


def test_dead_code_elimination_keeps_assertions():
    def function(a, b):
        tt._assert(a.shape[0] > 0, "no rows")
        return b + 1

    graph = tt.fx.symbolic_trace(function).graph
    graph.eliminate_dead_code()
    assert any(node.target is tt._assert for node in graph.nodes)


def test_immutable_arguments_are_nodes_of_trees() -> None:
    from triten.fx._pytree import tree_flatten_spec
    from triten.fx.immutable_collections import immutable_dict, immutable_list
    from triten.utils import _pytree as pytree

    tree = immutable_list([3, immutable_dict(b=4, a=[5, 6])])
    leaves, spec = pytree.tree_flatten(tree)
    assert leaves == [3, 4, 5, 6]
    rebuilt = pytree.tree_unflatten(leaves, spec)
    assert rebuilt == tree and type(rebuilt) is immutable_list and type(rebuilt[1]) is immutable_dict
    paths = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(tree)[0]]
    assert paths == ["[0]", "[1]['b']", "[1]['a'][0]", "[1]['a'][1]"]
    shallow = pytree.tree_structure(immutable_list([0, immutable_dict(b=0, a=0)]))
    assert tree_flatten_spec(tree, shallow) == [3, 4, [5, 6]]


def test_trees_of_proxies_are_taken_apart_by_position() -> None:
    from triten.fx import PH

    traced = tt.fx.symbolic_trace(lambda x: x[0] + x[1], concrete_args={"x": [PH, PH]})
    again = tt.fx.symbolic_trace(traced)
    assert again([tt.ones(1), tt.ones(1)]).tolist() == traced([tt.ones(1), tt.ones(1)]).tolist() == [2.0]
