"""The engine delivers summed gradients, once and in order, for graphs of every shape."""

import gc
import random
from typing import Any

import pytest

import triten as tt
from triten.autograd import backward, grad
from triten.tests.shared.operands import leaf
from triten.tests.shared.threads import together


def matrix(*rows: list[float]) -> tt.Tensor:
    return tt.tensor([*rows] or [[1.0, 2.0], [3.0, 4.0]]).requires_grad_()


# --- the two doors


def test_backward_adds_to_leaves() -> None:
    x, y = leaf(), leaf()
    (x + (y + y + y)).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([1.0, 1.0], [3.0, 3.0])
    x.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_grad_returns_and_leaves_the_leaves_alone() -> None:
    x, y = leaf(), leaf()
    gx, gy = grad((x + (y + y + y)).sum(), (x, y))
    assert (gx.tolist(), gy.tolist()) == ([1.0, 1.0], [3.0, 3.0])
    assert x.grad is None
    assert y.grad is None
    assert not gx.requires_grad


def test_gradients_of_intermediates_and_of_the_root() -> None:
    x = leaf()
    y = x + x
    s = y.sum()
    gs, gy, gx = grad(s, [s, y, x])
    assert (gs.tolist(), gy.tolist(), gx.tolist()) == (1.0, [1.0, 1.0], [2.0, 2.0])


def test_the_same_input_twice() -> None:
    x = leaf()
    one, two = grad(x.sum(), [x, x])
    assert one.tolist() == two.tolist() == [1.0, 1.0]


def test_a_leaf_as_root() -> None:
    x = tt.tensor(2.0).requires_grad_()
    x.backward()
    assert x.grad.item() == 1.0
    x.backward(tt.tensor(3.0))
    assert x.grad.item() == 4.0
    assert grad(x, x, tt.tensor(5.0))[0].item() == 5.0


def test_roots_that_are_no_scalars() -> None:
    x = leaf()
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x + x).backward()
    (x + x).backward(tt.tensor([10.0, 20.0]))
    assert x.grad.tolist() == [20.0, 40.0]
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x + x).backward(tt.ones(3))
    with pytest.raises(TypeError, match="gradients can be either Tensors or None"):
        backward([x + x], [1.0])
    one = tt.ones(1, 1).requires_grad_()
    (one + 1).backward()
    assert one.grad.tolist() == [[1.0]]


def test_several_roots() -> None:
    x, y = leaf(), leaf()
    backward([x.sum(), x + y + y], [None, tt.ones(2)])
    assert (x.grad.tolist(), y.grad.tolist()) == ([2.0, 2.0], [2.0, 2.0])
    with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        backward([x.sum(), y.sum()], [None])


def test_one_root_twice() -> None:
    x = leaf()
    s = (x + x).sum()
    backward([s, s])
    assert x.grad.tolist() == [4.0, 4.0]


def test_a_root_that_is_an_ancestor_of_another() -> None:
    x = leaf()
    y = x + x
    backward([y.sum(), (y + y).sum(), y], [None, None, tt.ones(2)])
    assert x.grad.tolist() == [8.0, 8.0]


def test_a_gradient_of_another_dtype_is_cast() -> None:
    w = matrix()
    out = w.mm(tt.ones(2, 2))
    out.backward(tt.ones(2, 2, dtype=tt.float64))
    assert w.grad.dtype is tt.float32
    assert w.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    x = leaf()
    x.backward(tt.ones(2, dtype=tt.float64))
    assert x.grad.dtype is tt.float32


def test_mixed_dtypes() -> None:
    x = leaf()
    y = tt.tensor([1.0, 1.0], dtype=tt.float64).requires_grad_()
    (x + y).sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (tt.float32, tt.float64)


def test_broadcast_operands_get_gradients_of_their_own_shape() -> None:
    x, y, z = tt.ones(2, 3).requires_grad_(), tt.ones(3).requires_grad_(), tt.ones(2, 1).requires_grad_()
    s = tt.tensor(1.0).requires_grad_()
    (x + y + z + s).sum().backward()
    assert x.grad.shape == (2, 3)
    assert y.grad.tolist() == [2.0, 2.0, 2.0]
    assert z.grad.tolist() == [[3.0], [3.0]]
    assert s.grad.item() == 6.0


def test_nothing_requires_grad() -> None:
    message = "element 0 of tensors does not require grad and does not have a grad_fn"
    with pytest.raises(RuntimeError, match=message):
        tt.ones(1).backward()
    with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require grad"):
        grad(leaf().sum(), tt.ones(2))


def test_unused_inputs() -> None:
    x, unused = leaf(), leaf()
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        grad(x.sum(), [x, unused])
    gx, none = grad(x.sum(), [x, unused], allow_unused=True)
    assert gx.tolist() == [1.0, 1.0]
    assert none is None
    assert grad(x.sum(), unused, materialize_grads=True)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("call", [lambda s: grad(s, []), lambda s: s.backward(inputs=[])])
def test_no_inputs(call: Any) -> None:
    with pytest.raises(RuntimeError, match="cannot be empty"):
        call(leaf().sum())


def test_backward_towards_some_leaves_only() -> None:
    x, y = leaf(), leaf()
    (x + y).sum().backward(inputs=[x])
    assert x.grad.tolist() == [1.0, 1.0]
    assert y.grad is None
    (x + y).sum().backward(inputs=y)
    assert x.grad.tolist() == y.grad.tolist() == [1.0, 1.0]


def test_backward_towards_an_intermediate_accumulates_in_it() -> None:
    x = leaf()
    y = x + x
    (y + y).sum().backward(inputs=[y])
    assert y.grad.tolist() == [2.0, 2.0]
    assert x.grad is None


# --- keeping the graph


def test_a_second_backward_is_refused_where_something_was_saved() -> None:
    w = matrix()
    s = w.mm(w).sum()
    s.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        s.backward()


def test_retaining_the_graph() -> None:
    w = matrix()
    s = w.mm(w).sum()
    s.backward(retain_graph=True)
    first = w.grad.tolist()
    s.backward()
    assert w.grad.tolist() == [[2 * v for v in row] for row in first]
    with pytest.raises(RuntimeError, match="second time"):
        s.backward()


def test_grad_frees_too() -> None:
    w = matrix()
    s = w.mm(w).sum()
    grad(s, w, retain_graph=True)
    grad(s, w)
    with pytest.raises(RuntimeError, match="second time"):
        grad(s, w)


def test_parts_of_a_graph_that_a_grad_did_not_need_are_kept() -> None:
    w, v = matrix(), matrix()
    a, b = w.mm(w), v.mm(v)
    s = (a + b).sum()
    grad(s, w)
    assert grad(b.sum(), v)[0].shape == (2, 2)


def test_creating_a_graph_gives_second_derivatives() -> None:
    """Differentiate f = sum(w w) twice: the derivative is J wT + wT J, and that of its sum is constant."""
    w = matrix()
    first = grad(w.mm(w).sum(), w, create_graph=True)[0]
    assert first.requires_grad
    assert first.tolist() == [[7.0, 11.0], [9.0, 13.0]]
    second = grad(first.sum(), w)[0]
    assert second.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_third_derivatives() -> None:
    w = matrix([1.5])
    cube = w.mm(w).mm(w).sum()
    first = grad(cube, w, create_graph=True)[0]
    second = grad(first.sum(), w, create_graph=True)[0]
    third = grad(second.sum(), w)[0]
    assert (first.item(), second.item(), third.item()) == (6.75, 9.0, 6.0)


def test_backward_that_creates_a_graph_leaves_recorded_gradients() -> None:
    w = matrix([3.0])
    w.mm(w).sum().backward(create_graph=True)
    assert w.grad.requires_grad
    g = w.grad
    w.grad = None
    g.sum().backward()
    assert w.grad.item() == 2.0


def test_gradients_of_a_plain_backward_are_not_recorded() -> None:
    w = matrix()
    w.mm(w).sum().backward()
    assert not w.grad.requires_grad
    assert tt.is_grad_enabled()


def test_grad_mode_inside_a_hook_follows_create_graph() -> None:
    seen: list[bool] = []
    x = leaf()
    y = x + 1
    y.register_hook(lambda g: seen.append(tt.is_grad_enabled()))
    s = y.sum()
    s.backward(retain_graph=True)
    s.backward(create_graph=True)
    assert seen == [False, True]
    with tt.no_grad():
        grad(s, x, create_graph=True)
        assert not tt.is_grad_enabled()


# --- shapes of graphs


@pytest.mark.parametrize("length", [1, 10_000])
def test_deep_graphs(length: int) -> None:
    x = leaf(1.0)
    y = x
    for _ in range(length):
        y = y + 0.5
    y.sum().backward()
    assert x.grad.tolist() == [1.0]
    del y
    gc.collect()


def test_deep_graphs_that_save_and_are_never_run_backward_can_be_dropped() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = y.relu()
    del y
    assert x.sum().item() == 1.0


def test_deep_graphs_that_are_retained_can_be_dropped() -> None:
    w = matrix([1.0])
    y = w
    for _ in range(10_000):
        y = y.mm(w)
    s = y.sum()
    s.backward(retain_graph=True)
    assert w.grad.item() == 10_001.0
    del y, s


def test_wide_graphs() -> None:
    x = leaf(1.0)
    total = x
    for part in [x + 1 for _ in range(10_000)]:
        total = total + part
    total.sum().backward()
    assert x.grad.tolist() == [10_001.0]


def test_diamonds() -> None:
    """Visit nodes rather than paths: each level doubles, so paths would take 2**60 steps."""
    x = leaf(1.0)
    y = x
    for _ in range(60):
        left, right = y + 0.0, y + 0.0
        y = left + right
    y.sum().backward()
    assert x.grad.item() == 2.0**60


def test_diamonds_of_unequal_arms() -> None:
    x = leaf(1.0)
    short = x + 0
    long = x + 0
    for _ in range(10):
        long = (long + 0) + short
    (long + short).sum().backward()
    assert x.grad.item() == 12.0


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs(seed: int) -> None:
    """Combine sums, outputs of multi-output operators and views: each gradient is the exact sum over all
    paths.
    """
    draw = random.Random(seed)
    leaves = [tt.ones(2, dtype=tt.float64).requires_grad_() for _ in range(3)]
    made: list[Any] = list(leaves)
    # Coefficients of each tensor by leaf; small integers keep them exact.
    known = [[int(i == j) for j in range(3)] for i in range(3)]
    for _ in range(24):
        first, second = (draw.randrange(max(0, len(made) - 8), len(made)) for _ in range(2))
        a, b = made[first], made[second]
        scale = draw.choice((1, -1, 2))
        kind = draw.randrange(4)
        if kind == 0:
            new, of = (
                [a + scale * b],
                [[x + scale * y for x, y in zip(known[first], known[second], strict=True)]],
            )
        elif kind == 1:
            new, of = [a * scale], [[scale * x for x in known[first]]]
        elif kind == 2:
            new, of = list(tt.stack((a, b)).unbind()), [known[first], known[second]]
        else:
            new, of = [a.view(1, 2).t().reshape(2)], [known[first]]
        made += new
        known += of
    chosen = [draw.randrange(3, len(made)) for _ in range(3)]
    total = sum((made[i] for i in chosen), tt.zeros(2, dtype=tt.float64))
    (total * 1).sum().backward()
    for j, each in enumerate(leaves):
        expected = sum(known[i][j] for i in chosen)
        assert ([0.0, 0.0] if each.grad is None else each.grad.tolist()) == [expected, expected]


def test_a_node_used_by_two_roots_runs_once() -> None:
    runs: list[int] = []
    x = leaf(1.0)
    y = x + 0
    y.grad_fn.register_hook(lambda gi, go: runs.append(1))
    backward([(y + 1).sum(), (y + 2).sum(), (y + 3).sum()])
    assert runs == [1]
    assert x.grad.item() == 3.0


def test_a_leaf_in_several_places() -> None:
    w = matrix()
    (w.mm(w) + w + w.t()).sum().backward()
    assert w.grad.tolist() == [[9.0, 13.0], [11.0, 15.0]]


def test_the_same_tensor_twice_in_one_call() -> None:
    x = leaf()
    (x + x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    w = matrix([2.0])
    w.mm(w).sum().backward()
    assert w.grad.item() == 4.0


# --- accumulation


def test_two_leaves_never_share_a_gradient() -> None:
    x, y, z = leaf(), leaf(), leaf()
    ((x + y) + (z + z)).sum().backward()
    grads = [x.grad, y.grad, z.grad]
    assert len({g.data_ptr() for g in grads}) == 3
    x.grad.add_(100.0)
    assert (y.grad.tolist(), z.grad.tolist()) == ([1.0, 1.0], [2.0, 2.0])


@pytest.mark.parametrize("path", ["alias", "view", "view_as", "expand", "detach_root"])
def test_a_gradient_through_views_is_no_view_of_another(path: str) -> None:
    x, y = leaf(), leaf()
    takes = {
        "alias": lambda t: t.alias(),
        "view": lambda t: t.view(1, 2).view(2),
        "view_as": lambda t: t.unsqueeze(0).squeeze(0),
        "expand": lambda t: t.expand(3, 2),
        "detach_root": lambda t: t + 0,
    }
    take = takes[path]
    out = take(x) + take(y)
    seed = tt.ones(*out.shape)
    out.backward(seed)
    before = seed.tolist()
    x.grad.add_(100.0)
    y.grad.add_(10.0)
    assert seed.tolist() == before
    assert x.grad.tolist()[0] == y.grad.tolist()[0] + 90.0
    out2 = take(x) + take(y)
    out2.backward(seed)
    assert seed.tolist() == before


def test_a_users_seed_is_never_taken() -> None:
    x, seed = leaf(), tt.ones(2)
    x.backward(seed)
    x.backward(seed)
    assert seed.tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [2.0, 2.0]
    y = leaf()
    backward([y, y], [seed, seed])
    y.backward(seed)
    assert seed.tolist() == [1.0, 1.0]
    assert y.grad.tolist() == [3.0, 3.0]


def test_returned_gradients_are_never_accumulated_into() -> None:
    x = leaf()
    s = (x + 0).sum()
    (kept,) = grad(s, x, retain_graph=True)
    s.backward(retain_graph=True)
    s.backward()
    assert kept.tolist() == [1.0, 1.0]


def test_accumulation_is_in_place() -> None:
    x = leaf()
    x.sum().backward()
    kept = x.grad
    x.sum().backward()
    assert x.grad is kept
    assert kept.tolist() == [2.0, 2.0]


def test_a_gradient_set_by_hand_is_added_to() -> None:
    x = leaf()
    x.grad = tt.tensor([10.0, 20.0])
    x.sum().backward()
    assert x.grad.tolist() == [11.0, 21.0]
    del x.grad
    assert x.grad is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (tt.ones(3), "different size"),
        (tt.ones(2, dtype=tt.float64), "different type"),
        (tt.ones(2, device="meta"), "different device"),
    ],
)
def test_gradients_that_do_not_fit_are_refused(value: tt.Tensor, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        leaf().grad = value


def test_a_gradient_is_a_tensor() -> None:
    with pytest.raises(TypeError, match="expected to be a Tensor or None"):
        leaf().grad = 1.0


# --- what tensors say of their graph


def test_nodes_and_edges() -> None:
    x, y = leaf(), tt.ones(2)
    z = x + y
    node = z.grad_fn
    assert node.name() == "AddBackward0"
    (first, number), (second, _) = node.next_functions
    assert first.variable is x
    assert first.name() == "AccumulateGrad"
    assert (number, second) == (0, None)
    assert x.grad_fn is None
    assert (x.is_leaf, z.is_leaf, y.is_leaf) == (True, False, True)
    assert "AddBackward0" in repr(node)


def test_requires_grad_refusals() -> None:
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype"):
        tt.ones(1, dtype=tt.int64).requires_grad_()
    y = leaf() + 0
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad = False
    x = leaf()
    x.requires_grad = False
    assert not (x + 0).requires_grad


def test_out_forms_are_refused_under_autograd() -> None:
    x = leaf()
    with pytest.raises(RuntimeError, match=r"functions with out=\.\.\. arguments don't support automatic"):
        tt.add(x, x, out=tt.empty(2))
    with tt.no_grad():
        assert tt.add(x, x, out=tt.empty(2)).tolist() == [2.0, 4.0]


def test_detach() -> None:
    x = leaf()
    y = x + 0
    d = y.detach()
    assert (d.requires_grad, d.grad_fn, d.is_leaf) == (False, None, True)
    assert d.untyped_storage() is y.untyped_storage()
    y.detach_()
    assert (y.requires_grad, y.is_leaf) == (False, True)
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        (x + 0)[0].detach_()


# --- faults and threads


class Fault(Exception):
    """Exception that only the test raises."""


def test_an_exception_in_backward_leaves_the_runtime_usable() -> None:
    x = leaf()
    y = x + 0

    def fail(g: Any) -> None:
        raise Fault

    handle = y.register_hook(fail)
    s = (y + y).sum()
    for _ in range(2):
        with pytest.raises(Fault):
            s.backward(retain_graph=True)
        assert tt.is_grad_enabled()
    assert x.grad is None
    handle.remove()
    s.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_leaf_that_is_gone() -> None:
    x, y = leaf(), leaf()
    s = (x + y).sum()
    del x
    s.backward()
    assert y.grad.tolist() == [1.0, 1.0]


def test_threads_run_backward_at_once() -> None:
    def work() -> None:
        for _ in range(50):
            w = matrix()
            y = w.mm(w).relu() + w
            y.sum().backward()
            assert w.grad.tolist() == [[8.0, 12.0], [10.0, 14.0]]

    together(*[work] * 4)


def test_threads_on_one_retained_graph() -> None:
    w = matrix()
    s = w.mm(w).sum()

    def work() -> list[Any]:
        return [grad(s, w, retain_graph=True)[0].tolist() for _ in range(20)]

    assert together(*[work] * 4) == [[[[7.0, 11.0], [9.0, 13.0]]] * 20] * 4


def test_threads_adding_to_one_leaf() -> None:
    x = leaf()

    def work() -> None:
        for _ in range(200):
            x.sum().backward()

    together(*[work] * 4)
    assert x.grad.tolist() == [800.0, 800.0]


@pytest.mark.parametrize(
    ("leaf", "other", "fills_a_block"),
    [
        (lambda: tt.zeros(2, 3), lambda: tt.arange(6.0).view(3, 2).t(), True),
        (lambda: tt.zeros(3, 2).t(), lambda: tt.arange(6.0).view(2, 3), True),
        (lambda: tt.zeros(2, 6)[:, ::2], lambda: tt.arange(6.0).view(3, 2).t(), False),
        (lambda: tt.zeros(1, 2, 3).permute(2, 0, 1), lambda: tt.arange(6.0).view(3, 1, 2), True),
    ],
    ids=["contiguous", "transposed", "stepped", "with a size of 1"],
)
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_leafs_gradient_has_its_layout(
    leaf: Any, other: Any, fills_a_block: bool, create_graph: bool
) -> None:
    x = leaf().requires_grad_()
    w = other()
    (x * w).sum().backward(create_graph=create_graph)
    assert x.grad.tolist() == w.tolist()
    expected = x.stride() if fills_a_block else tt.empty(x.shape).stride()
    assert all(a == b or n == 1 for a, b, n in zip(x.grad.stride(), expected, x.shape, strict=True))


def test_a_retained_gradient_is_memory_of_its_own() -> None:
    x = tt.ones(3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.sum().backward()
    y.grad[0] = 5.0
    assert y.grad.tolist() == [5.0, 1.0, 1.0] and x.grad.tolist() == [2.0, 2.0, 2.0]


def test_complex_roots_need_a_gradient_of_their_dtype() -> None:
    z = tt.ones(2, dtype=tt.complex64, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"only for real scalar outputs but got triten\.complex64"):
        (z * z).sum().backward()
    with pytest.raises(RuntimeError, match=r"grad_output\[0\] has a dtype of triten\.float32"):
        (z * z).backward(tt.ones(2))
    x = tt.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"grad_output\[0\] has a dtype of triten\.complex64"):
        (x * x).backward(tt.ones(2, dtype=tt.complex64))
    assert z.grad is None and x.grad is None
    (z * z).sum().real.backward()
    assert z.grad.tolist() == [2 + 0j, 2 + 0j]


def test_gradients_of_nothing() -> None:
    x = tt.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Tensor at index 0 appears to not have been used"):
        grad([], [x])
    assert grad([], [x], allow_unused=True) == (None,)
    y = tt.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Tensor at index 1 appears to not have been used"):
        grad((x * x).sum(), [x, y])
    with pytest.raises(ValueError, match="allow_unused to be True or not passed"):
        grad((x * x).sum(), [x, y], allow_unused=False, materialize_grads=True)


def test_several_gradients_in_one_pass() -> None:
    x = tt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    unused = tt.ones(2, requires_grad=True)
    y = x**3
    found, none = grad(y, [x, unused], tt.eye(3), is_grads_batched=True, allow_unused=True, retain_graph=True)
    assert none is None and tt.equal(found, tt.diag(3 * x.detach() ** 2))
    found, zeros = grad(
        y, [x, unused], tt.eye(3), is_grads_batched=True, materialize_grads=True, create_graph=True
    )
    assert zeros.shape == (3, 2) and not zeros.any()
    (second,) = grad(found.sum(), x)
    assert second.tolist() == [6.0, 12.0, 18.0]
    with pytest.raises(RuntimeError, match="has a shape of"):
        grad(x**2, x, tt.ones(4, 2), is_grads_batched=True)


def test_what_leads_nowhere_warns() -> None:
    x = tt.ones(2, requires_grad=True)
    y = x * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
        assert y.grad is None
    with pytest.warns(UserWarning, match="create_graph=True will create a reference cycle"):
        (y * y).sum().backward(create_graph=True)
    x.grad = None


def test_data_and_requires_grad_are_checked_when_set() -> None:
    x = tt.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got int"):
        x.data = 5
    with pytest.raises(RuntimeError, match="must be floating point or complex"):
        x.data = tt.ones(2, dtype=tt.int64)
    assert x.tolist() == [1.0, 1.0] and x.dtype is tt.float32
    x.data = tt.zeros(3)
    assert x.tolist() == [0.0] * 3 and x.requires_grad
    y = x * 2
    for value in (True, False):
        with pytest.raises(RuntimeError, match="only change requires_grad flags of leaf"):
            y.requires_grad = value
    assert y.requires_grad_() is y
