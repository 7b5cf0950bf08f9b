"""The graph's public interface: edges instead of tensors, hooks on several tensors, versions."""

import gc
import weakref

import pytest

import triten as tt

graph = tt.autograd.graph


def test_edges_stand_for_tensors():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    edge = graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn and edge.output_nr == 0
    loss = (y * 3).sum()
    assert tt.autograd.grad(loss, edge, retain_graph=True)[0].tolist() == [3.0, 3.0]
    assert tt.autograd.grad(edge, x, grad_outputs=tt.ones(2), retain_graph=True)[0].tolist() == [2.0, 4.0]
    tt.autograd.backward(loss, inputs=[graph.get_gradient_edge(x)], retain_graph=True)
    assert x.grad.tolist() == [6.0, 12.0]
    tt.autograd.backward((edge,), (tt.ones(2),))
    assert x.grad.tolist() == [8.0, 16.0]
    with pytest.raises(RuntimeError, match="gradient edge for a Tensor that does not require gradients"):
        graph.get_gradient_edge(tt.ones(1))


def test_a_hook_on_several_tensors_waits_for_those_that_are_reached():
    a, b = (tt.ones(2, requires_grad=True) for _ in range(2))
    c, d = a * b, a * b
    seen = []
    handle = graph.register_multi_grad_hook(
        (a, b, c, d), lambda grads: seen.append([g is not None for g in grads])
    )
    c.sum().backward(retain_graph=True)
    c.sum().backward(inputs=(a,), retain_graph=True)
    (c + d).sum().backward(retain_graph=True)
    tt.autograd.grad(d.sum(), b, retain_graph=True)
    assert seen == [[True] * 3 + [False], [True, False, True, False], [True] * 4, [False, True, False, True]]
    (c * 2).sum().backward(inputs=(a, d), retain_graph=True)  # asks for what it does not reach
    assert seen[4:] == [[True, False, True, False]]
    handle.remove()
    c.sum().backward(retain_graph=True)
    assert len(seen) == 5


def test_a_hook_on_any_of_several_tensors_is_called_once_in_a_backward():
    a, b = (tt.ones(2, requires_grad=True) for _ in range(2))
    c = a * b
    seen = []
    with graph.register_multi_grad_hook((a, b, c), lambda grad: seen.append(grad.tolist()), mode="any"):
        for _ in range(2):
            (3 * c).sum().backward(retain_graph=True)
    assert seen == [[3.0, 3.0]] * 2
    with pytest.raises(ValueError, match="Expects mode to be one of"):
        graph.register_multi_grad_hook((a,), print, mode="some")


def test_a_hook_sees_no_gradient_that_nobody_asked_for():
    a, b = (tt.ones(2, requires_grad=True) for _ in range(2))
    seen = []
    b.register_hook(seen.append)
    tt.autograd.grad((a * b).sum(), a)
    assert not seen
    tt.autograd.grad((a * b).sum(), b)
    assert len(seen) == 1


def test_versions_are_raised_by_hand():
    x = tt.ones(2, requires_grad=True)
    y = x * 1
    z = y.sin()
    graph.increment_version(y)
    graph.increment_version([y, x.detach()])
    assert y._version == 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


M = tt.arange(12.0).reshape(2, 6)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("StackBackward0", lambda x: tt.stack([x, x[:, ::1]], -1)),
        ("RollBackward0", lambda x: x.roll(1)),
        ("RepeatBackward0", lambda x: x.repeat(2, 1)),
        ("GluBackward0", lambda x: tt.nn.functional.glu(x)),
        ("MaskedSelectBackward0", lambda x: x.masked_select(x > 2)),
        ("LinalgCrossBackward0", lambda x: tt.cross(x[:, :3], x[:, 3:], dim=1)),
        (
            "BinaryCrossEntropyWithLogitsBackward0",
            lambda x: tt.nn.functional.binary_cross_entropy_with_logits(x, (M > 2).float()),
        ),
    ],
)
def test_a_composite_with_a_derivative_is_one_node(name, call):
    x = M.clone().requires_grad_()
    y = call(x)
    assert type(y.grad_fn).__name__ == name
    assert y._base is None
    # The calls of the composite are not recorded: the next node is that of an operand, or the leaf's.
    leaf = x.grad_fn or graph.get_gradient_edge(x).node
    seen, nodes = set(), [y.grad_fn]
    while nodes:
        node = nodes.pop()
        seen.add(type(node).__name__)
        nodes += [following for following, _ in node.next_functions if following is not None]
    assert type(leaf).__name__ in seen
    assert seen <= {name, "AccumulateGrad", "SliceBackward0", "BasicIndexBackward0"}


def test_parts_are_mapped_where_one_operand_is_not():
    x, y = (
        tt.arange(float(n)).reshape(shape).requires_grad_() for n, shape in ((30, (5, 2, 3)), (6, (2, 3)))
    )
    for call in (lambda a, b: tt.stack([b, a], -1), lambda a, b: a * b.roll(1), tt.linalg.cross):
        mapped = tt.func.vmap(call, (0, None))(x, y)
        apart = tt.stack([call(each, y) for each in x])
        assert mapped.tolist() == apart.tolist()
        weights = tt.arange(float(mapped.numel())).reshape(mapped.shape)
        for got, want in zip(
            tt.autograd.grad((mapped * weights).sum(), (x, y)),
            tt.autograd.grad((apart * weights).sum(), (x, y)),
            strict=True,
        ):
            assert got.tolist() == want.tolist()


@pytest.mark.usefixtures("no_collector")
def test_a_graph_keeps_a_freed_modules_parameters():
    module = tt.nn.Linear(2, 3)
    module.weight.tag = "kept"
    seen = []
    module.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    references = [weakref.ref(p) for p in module.parameters()]
    out = module(tt.tensor([[1.0, 2.0]])).sum()
    del module
    leaves = {f.variable.ndim: f for f, _ in out.grad_fn.next_functions[0][0].next_functions if _is_leaf(f)}
    transposed = out.grad_fn.next_functions[0][0].next_functions[-1][0]
    weight = transposed.next_functions[0][0].variable
    assert weight is references[0]() and weight.tag == "kept" and weight.is_leaf
    assert leaves[1].variable is references[1]()
    assert tt.autograd.grad(out, weight, retain_graph=True)[0].tolist() == [[1.0, 2.0]] * 3
    out.backward()
    assert seen == [[[1.0, 2.0]] * 3] and leaves[1].variable.grad.tolist() == [1.0] * 3
    del out, transposed, leaves, weight
    assert [r() for r in references] == [None, None]


def _is_leaf(node):
    return type(node).__name__ == "AccumulateGrad"


@pytest.mark.usefixtures("no_collector")
def test_a_parameter_that_only_its_graph_holds_is_used_again():
    parameter = tt.nn.Parameter(tt.tensor([2.0]))
    parameter.register_hook(lambda grad: grad * 10)
    out = (parameter * 3).sum()
    reference = weakref.ref(parameter)
    del parameter
    node = out.grad_fn.next_functions[0][0].next_functions[0][0]
    again = (node.variable * node.variable).sum()
    again.backward()
    assert node.variable.grad.tolist() == [40.0]
    assert graph.get_gradient_edge(node.variable).node is node
    del out, again
    assert node.variable is reference()
    del node
    assert reference() is None
    unused = tt.nn.Parameter(tt.ones(1))
    reference = weakref.ref(unused)
    del unused
    assert reference() is None


@pytest.fixture
def no_collector():
    """Without the cycle collector, as these objects are to be freed by their reference counts."""
    gc.disable()
    yield
    gc.enable()
