"""A graph is data: built, walked, rewritten, checked, printed, copied."""

import copy
import operator
import pickle

import pytest

import triten as tt
from triten.func import Graph, make_graph

aten = tt.ops.aten


def chain():
    """Return the graph x, exp, neg, add(neg, exp), output."""
    graph = Graph()
    x = graph.placeholder("x")
    a = graph.call_function(aten.exp.default, (x,))
    b = graph.call_function(aten.neg.default, (a,))
    c = graph.call_function(aten.add.Tensor, (b, a), {"alpha": 2})
    graph.output((c,))
    return graph, x, a, b, c


def names(graph):
    return [n.name for n in graph.nodes]


def test_nodes_know_their_arguments_and_users():
    graph, x, a, b, c = chain()
    assert names(graph) == ["x", "exp", "neg", "add", "output"]
    assert list(x.users) == [a] and list(a.users) == [b, c]
    assert c.all_input_nodes == [b, a] and c.kwargs == {"alpha": 2}
    assert a.next is b and b.prev is a and len(graph.nodes) == 5
    assert graph.output_node.args == ((c,),)
    graph.lint()


def test_arguments_can_be_replaced():
    graph, x, a, b, c = chain()
    assert a.replace_all_uses_with(x) == [b, c]
    assert b.args == (x,) and c.args == (b, x) and not a.users and list(x.users) == [a, b, c]
    graph.erase_node(a)
    assert list(x.users) == [b, c]
    c.args = (x, x)
    assert not b.users and c in x.users
    graph.lint()
    c.kwargs = {}
    assert c.kwargs == {}


def test_nodes_are_inserted_and_moved():
    graph, _x, a, b, c = chain()
    with graph.inserting_before(b):
        first = graph.call_function(aten.sin.default, (a,))
        second = graph.call_function(aten.cos.default, (first,))
    assert names(graph) == ["x", "exp", "sin", "cos", "neg", "add", "output"]
    with graph.inserting_after(c):
        graph.call_function(aten.abs.default, (c,))
    with graph.inserting_before(), graph.inserting_after(second):
        graph.call_function(aten.tan.default, (second,))
    assert names(graph) == ["x", "exp", "sin", "cos", "tan", "neg", "add", "abs_1", "output"]
    b.append(first)
    assert names(graph)[2:6] == ["cos", "tan", "neg", "sin"]
    with pytest.raises(RuntimeError, match=r"%cos uses %sin, which is defined after it"):
        graph.lint()
    second.prepend(first)
    graph.lint()


def test_a_walk_may_erase_and_insert():
    graph, _x, _a, _b, c = chain()
    seen = []
    for node in graph.nodes:
        seen.append(node.name)
        if node.name == "neg":
            with graph.inserting_after(node):
                graph.call_function(aten.sin.default, (node,))
        if node.name == "sin":
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    assert seen == ["x", "exp", "neg", "sin", "add", "output"]
    assert c.name in names(graph) and "sin" not in names(graph)


def test_nodes_in_use_and_foreign_nodes_are_refused():
    graph, x, a, *_ = chain()
    other, y, *_ = chain()
    with pytest.raises(RuntimeError, match="Tried to erase Node exp but it still had 2 users"):
        graph.erase_node(a)
    with pytest.raises(ValueError, match="cannot erase %x, a node of another graph"):
        graph.erase_node(y)
    with pytest.raises(ValueError, match="%x is a node of another graph than %exp"):
        a.replace_all_uses_with(y)
    with pytest.raises(ValueError, match="argument %x of %sin is a node of another graph"):
        graph.call_function(aten.sin.default, (y,))
    assert list(y.users) == [y.next] and names(graph) == ["x", "exp", "neg", "add", "output"]
    with pytest.raises(ValueError, match="cannot move %x"):
        x.append(y)
    with pytest.raises(ValueError, match="cannot insert beside %x"), graph.inserting_before(y):
        pass
    with pytest.raises(TypeError, match=r"target must be an OpOverload .* got <function"):
        graph.call_function(lambda: 0)
    with pytest.raises(
        ValueError, match="op is one of placeholder, get_attr, call_function, output, got 'call'"
    ):
        graph.create_node("call", "f")
    assert other is y.graph


def test_names_are_unique_identifiers():
    graph = Graph()
    made = [
        graph.placeholder(name).name for name in ("x", "x", "a.b", "1", "self", "class", "sum", "x_1", "x")
    ]
    assert made == ["x", "x_1", "a_b", "_1", "_self", "_class", "sum_1", "x_1_1", "x_2"]


def broken(change):
    graph, *nodes = chain()
    change(graph, *nodes)
    return graph


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g, x, a, b, c: g.output(c), "%output_1 stands after the output"),
        (lambda g, x, a, b, c: setattr(b, "name", "exp"), "%exp: a node before it has the same name"),
        (lambda g, x, a, b, c: a.users.pop(c), "%exp does not know its user %add"),
        (lambda g, x, a, b, c: x.users.update({c: None}), "%x names %add as a user, which does not take it"),
        (
            lambda g, x, a, b, c: setattr(c, "kwargs", {"beta": 1}),
            "%add: aten.add.Tensor does not take these",
        ),
        (lambda g, x, a, b, c: setattr(b, "args", ()), "%neg: aten.neg.default does not take these"),
        (lambda g, x, a, b, c: setattr(b, "op", "call"), "%neg has the unknown kind 'call'"),
        (
            lambda g, x, a, b, c: setattr(b, "target", len),
            "%neg calls <built-in function len>, which is no operator",
        ),
        (
            lambda g, x, a, b, c: x.append(g.get_attr("w")),
            "%w names the constant 'w', which the graph does not have",
        ),
        (lambda g, x, a, b, c: b.append(g.placeholder("y")), "%y is an input after a step that is none"),
        (lambda g, *_: g.erase_node(g.output_node), "the graph has no output"),
    ],
)
def test_lint_names_what_is_wrong(change, message):
    with pytest.raises(RuntimeError, match=message):
        broken(change).lint()


def test_lint_checks_results_taken_out_of_several():
    graph = make_graph(lambda x: x.max(0).values)(tt.ones(2, 3)).graph
    node = next(n for n in graph.nodes if n.target is operator.getitem)
    graph.lint()
    node.args = (node.args[0], 2)
    with pytest.raises(RuntimeError, match="%getitem takes result 2 of %max_1, which has 2"):
        graph.lint()


def test_dead_code_goes_but_for_writes_and_draws():
    constant = tt.ones(2)

    def f(x):
        x.exp()
        (x.sin() + constant).cos()
        y = x.clone()
        y[0].zero_()
        tt.rand(2)
        tt.native_dropout(x, 0.5, True)
        return x.neg()

    traced = make_graph(f)(tt.ones(2))
    assert traced.graph.eliminate_dead_code()
    kept = [n.target._opname for n in traced.graph.nodes if n.op == "call_function"]
    assert kept == ["clone", "select", "zero_", "rand", "native_dropout", "neg"]
    assert traced.graph.constants == {}
    assert not traced.graph.eliminate_dead_code()
    traced.graph.lint()
    assert [n.name for n in traced.graph.find_nodes(op="call_function", target=aten.neg.default)] == ["neg"]


def test_rewriting_and_recompiling_changes_what_runs():
    traced = make_graph(lambda x: x.exp() + 1)(tt.zeros(2))
    assert traced(tt.zeros(2)).tolist() == [2.0, 2.0]
    for node in traced.graph.find_nodes(op="call_function", target=aten.exp.default):
        with traced.graph.inserting_before(node):
            other = traced.graph.call_function(aten.cos.default, node.args, val=node.val)
        node.replace_all_uses_with(other)
        traced.graph.erase_node(node)
    traced.graph.lint()
    traced.recompile()
    assert traced(tt.zeros(2)).tolist() == [2.0, 2.0] and "cos" in traced.code and "exp" not in traced.code
    assert traced(tt.full((2,), 3.0)).tolist() == pytest.approx((tt.cos(tt.full((2,), 3.0)) + 1).tolist())


def test_text_shows_shapes_devices_constants_and_special_values(device):
    w = tt.ones(2, device=device)

    def f(x):
        y = tt.cat([x, w]).to(tt.float64).clamp(min=float("-inf"))
        return {"y": y.view(2, 2).contiguous(memory_format=tt.contiguous_format), "n": None}

    traced = make_graph(f)(tt.zeros(2, device=device))
    where = "" if device == "cpu" else " cuda:0"
    assert str(traced.graph).splitlines() == [
        f"graph(%x : float32[2]{where}):",
        f"    %_tensor_constant0 : float32[2]{where} = self._tensor_constant0",
        f"    %cat : float32[4]{where} = aten.cat([%x, %_tensor_constant0])",
        f"    %_to_copy : float64[4]{where} = aten._to_copy(%cat, dtype=float64, device="
        f"{'cpu' if device == 'cpu' else 'cuda:0'})",
        f"    %clamp : float64[4]{where} = aten.clamp(%_to_copy, -inf)",
        f"    %view : float64[2, 2]{where} = aten.view(%clamp, [2, 2])",
        "    return [%view, None]",
    ]
    assert "float('-inf')" in traced.code and "dtype=tt.float64" in traced.code
    assert traced(tt.zeros(2, device=device))["y"].tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_copies_and_pickles_are_graphs_of_their_own():
    w = tt.arange(6.0).view(2, 3).t()
    g = tt.Generator().manual_seed(3)

    def f(x, scale):
        values, _ = (x * scale + w).max(0)
        return values + tt.rand(2, generator=g), tt.empty(0, dtype=tt.int32)

    traced = make_graph(f)(tt.ones(3, 2), 2)
    state = g.get_state()
    expected = traced(tt.ones(3, 2), 2)[0].tolist()
    for made in (copy.copy(traced), copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        made.graph.lint()
        assert str(made.graph) == str(traced.graph) and made.code == traced.code
        held = made.graph.constants
        assert held["_tensor_constant0"].stride() == w.stride()
        held["_constant0"].set_state(state)
        assert made(tt.ones(3, 2), 2)[0].tolist() == expected
        made.graph.erase_node(made.graph.output_node)
        assert traced.graph.output_node.op == "output"
    assert copy.copy(traced).graph.constants["_tensor_constant0"] is w
    assert copy.deepcopy(traced).graph.constants["_tensor_constant0"] is not w
