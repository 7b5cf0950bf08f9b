"""vmap with autograd inside and outside, random numbers, custom operators and functions."""

import gc
import warnings
import weakref
from functools import partial

import numpy as np
import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.core.operator_entry import observers
from triten.dispatch.layers.batching import loop as loop_module
from triten.dispatch.layers.batching.table import LOOPED, REFUSED, RULES
from triten.runtime.dispatch_key import AUTOGRAD_BITS
from triten.runtime.local_dispatch_key_set import ExcludeDispatchKeyGuard, local
from triten.tests.shared import comparison

F = tt.nn.functional


same = partial(comparison.close, rtol=1e-4, atol=1e-5)


def normal(*sizes, seed=0):
    return tt.tensor(np.random.default_rng(seed).standard_normal(sizes).astype(np.float32))


def test_every_operator_is_accounted_for():
    """Account for every operator: it has a rule, is composite, runs example by example, or raises an error."""
    dispatcher = Dispatcher.singleton()
    names = [n for n in dispatcher.get_all_op_names() if n.startswith("aten::") and dispatcher.find_schema(n)]
    assert set(RULES) | set(LOOPED) | set(REFUSED) <= set(names)
    assert not set(RULES) & (set(LOOPED) | set(REFUSED))
    missing = []
    for name in names:
        op = dispatcher.find_schema(name)
        is_composite = any(k.name == "CompositeImplicitAutograd" for k in op.kernels)
        takes_no_tensor = not any("Tensor" in str(a.type) for a in op.schema.arguments)
        known = name in RULES or name in LOOPED or name in REFUSED or "pointwise" in op.tags
        if not (known or is_composite or takes_no_tensor or op.schema.out_arguments):
            missing.append(name)
    assert missing == []


class Net:
    """Small convolutional network as a function of its weights."""

    def __init__(self, device="cpu"):
        self.weights = [
            normal(4, 1, 3, 3, seed=1),
            normal(4, seed=2),
            normal(3, 16, seed=3),
            normal(3, seed=4),
        ]
        self.weights = [w.to(device) for w in self.weights]

    @staticmethod
    def loss(weights, image, label):
        kernel, bias, matrix, offset = weights
        hidden = F.max_pool2d(F.conv2d(image.unsqueeze(0), kernel, bias, padding=1).relu(), 2)
        return F.cross_entropy(F.linear(hidden.flatten(1), matrix, offset), label.unsqueeze(0))

    def gradients(self, weights, image, label):
        leaves = [w.detach().requires_grad_() for w in weights]
        return tt.autograd.grad(self.loss(leaves, image, label), leaves, create_graph=True)


def test_gradients_of_each_sample_of_a_network(device):
    net = Net(device)
    images, labels = normal(5, 1, 4, 4).to(device), tt.tensor([0, 2, 1, 1, 0]).to(device)
    got = tt.vmap(net.gradients, in_dims=(None, 0, 0))(net.weights, images, labels)
    for position, grad in enumerate(got):
        rows = [net.gradients(net.weights, images[i], labels[i])[position] for i in range(5)]
        assert grad.shape == (5, *net.weights[position].shape)
        same(grad, tt.stack(rows))


def test_an_ensemble_of_networks_on_one_batch():
    nets = [normal(3, 6, 4, seed=1), normal(3, 2, 6, seed=2)]
    x, y = normal(8, 4, seed=3), tt.tensor([0, 1] * 4)
    nets = [w.requires_grad_() for w in nets]

    def loss(first, second, x):
        return F.cross_entropy((x @ first.t()).tanh() @ second.t(), y)

    losses = tt.vmap(loss, in_dims=(0, 0, None))(*nets, x)
    grads = tt.autograd.grad(losses.sum(), nets)
    for i in range(3):
        own = [w[i].detach().requires_grad_() for w in nets]
        one = loss(*own, x)
        same(losses[i], one)
        for grad, expected in zip(grads, tt.autograd.grad(one, own), strict=True):
            same(grad[i], expected)


def test_a_jacobian_from_one_map_over_basis_vectors():
    def f(x):
        return (x.sin() * x.sum()).cumsum(0)

    x = normal(4).requires_grad_()
    y = f(x)
    rows = tt.vmap(lambda v: tt.autograd.grad(y, x, v, retain_graph=True)[0])(tt.eye(4))
    expected = tt.stack([tt.autograd.grad(y, x, v, retain_graph=True)[0] for v in tt.eye(4)])
    same(rows, expected)


def test_second_derivatives_map_in_two_levels():
    """Compute Hessians by mapping the gradients of a gradient, mapped again over points."""

    def value(x):
        return (x**3).sum() * x[0]

    def hessian(point):
        x = point.detach().requires_grad_()
        (slope,) = tt.autograd.grad(value(x), x, create_graph=True)
        return tt.vmap(lambda v: tt.autograd.grad(slope, x, v, retain_graph=True)[0])(tt.eye(3))

    points = normal(4, 3)
    got = tt.vmap(hessian)(points)
    same(got, tt.stack([hessian(p) for p in points]))
    same(got, got.mT)


def test_a_gradient_through_a_map_of_gradients():
    """Differentiate grad(vmap(grad)): inner operators are recorded although the map's own gradient builds no
    graph.
    """
    x = normal(5, 3).requires_grad_()

    def penalty(row):
        own = row.data.requires_grad_()
        (slope,) = tt.autograd.grad((own**3).sum(), own, create_graph=True)
        return (slope**2).sum()

    tt.vmap(penalty)(x).sum().backward()
    same(x.grad, 36 * x**3)


def test_backward_inside_accumulates_into_batched_leaves():
    def f(row):
        leaf = row.detach().requires_grad_()
        leaf.sum().backward()
        (leaf * row).sum().backward()
        return leaf.grad

    same(tt.vmap(f)(normal(3, 4)), 1 + normal(3, 4))


def test_hooks_and_detach_inside():
    x = normal(3, 4).requires_grad_()
    out = tt.vmap(lambda row: (row.detach() * row).sum())(x)
    same(tt.autograd.grad(out.sum(), x)[0], x)

    def hooked(row):
        leaf = row.detach().requires_grad_()
        leaf.register_hook(lambda grad: grad * 2)
        return tt.autograd.grad((leaf**2).sum(), leaf)[0]

    same(tt.vmap(hooked)(x), 4 * x)


def test_no_grad_inside_and_outside():
    w = normal(4).requires_grad_()

    def silent(row):
        with tt.no_grad():
            return row * w

    assert not tt.vmap(silent)(normal(3, 4)).requires_grad
    with tt.no_grad():
        assert not tt.vmap(lambda row: row * w)(normal(3, 4)).requires_grad
    assert tt.vmap(lambda row: row * w)(normal(3, 4)).requires_grad


def test_in_place_writes_are_differentiable_at_both_levels():
    x = normal(3, 4).requires_grad_()

    def f(row):
        out = row.clone()
        out[1:].mul_(row[:-1])
        out[0] = 0.0
        return out

    expected = tt.stack([f(x[i]) for i in range(3)])
    got = tt.vmap(f)(x)
    same(got, expected)
    same(tt.autograd.grad((got**2).sum(), x)[0], tt.autograd.grad((expected**2).sum(), x)[0])


def test_saved_tensors_are_checked_for_writes_inside():
    def f(row):
        leaf = row.detach().requires_grad_()
        y = leaf.sin()
        y.mul_(2.0)
        return tt.autograd.grad(y.sum(), leaf)[0]

    same(tt.vmap(f)(normal(3, 4)), 2 * normal(3, 4).cos())

    def stale(row):
        leaf = row.detach().requires_grad_()
        middle = leaf * 1.0
        y = (middle**2).sum()
        middle.mul_(2.0)
        return tt.autograd.grad(y, leaf)[0]

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        tt.vmap(stale)(normal(3, 4))


def test_nothing_is_kept_alive_by_a_map():
    kept = []
    x = normal(3, 4)
    gc.collect()
    gc.disable()
    try:

        def f(row):
            leaf = row.detach().requires_grad_()
            kept.append(weakref.ref(leaf))
            return tt.autograd.grad(leaf.sin().sum(), leaf)[0]

        tt.vmap(f)(x)
        assert kept[0]() is None
    finally:
        gc.enable()


# Random numbers.

DRAWS = {
    "rand": lambda x: tt.rand(2, 3),
    "randn": lambda x: tt.randn(3),
    "randint": lambda x: tt.randint(0, 1000, (4,)),
    "randperm": lambda x: tt.randperm(50),
    "normal sizes": lambda x: tt.normal(0.0, 1.0, (3,)),
    "rand_like": lambda x: tt.rand_like(x),
    "randint_like": lambda x: tt.randint_like(x, 1000),
    "uniform_": lambda x: x.clone().uniform_(),
    "normal_": lambda x: x.clone().normal_(),
    "random_": lambda x: x.clone().random_(0, 1000),
    "exponential_": lambda x: x.clone().exponential_(),
    "dropout": lambda x: F.dropout(x + 1.0, 0.5),
    "unbatched dropout": lambda x: F.dropout(tt.ones(50), 0.5),
    "unbatched bernoulli": lambda x: tt.bernoulli(tt.full((50,), 0.5)),
    "unbatched like": lambda x: tt.rand_like(tt.ones(2)),
    "unbatched normal": lambda x: tt.normal(tt.zeros(3), 1.0),
    "unbatched multinomial": lambda x: tt.multinomial(tt.ones(5, 100), 4),
}
OF_VALUES = {
    "bernoulli": lambda x: tt.bernoulli(x * 0 + 0.5),
    "normal": lambda x: tt.normal(x * 0, 1.0),
    "normal both": lambda x: tt.normal(x * 0, x * 0 + 1),
    "multinomial": lambda x: tt.multinomial((x * 0 + 1).repeat(4), 3),
    "multinomial rows": lambda x: tt.multinomial((x * 0 + 1).expand(2, -1), 3),
    "bernoulli_": lambda x: x.clone().bernoulli_(x * 0 + 0.5),
}


@pytest.mark.parametrize("name", [*DRAWS, *OF_VALUES])
def test_random_operators_are_refused_unless_asked_for(name):
    draw = {**DRAWS, **OF_VALUES}[name]
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        tt.vmap(draw)(tt.zeros(3, 40))


@pytest.mark.parametrize("name", [*DRAWS, *OF_VALUES])
def test_with_different_each_example_draws_for_itself(name):
    draw = {**DRAWS, **OF_VALUES}[name]
    tt.manual_seed(0)
    out = tt.vmap(draw, randomness="different")(tt.zeros(3, 40))
    plain = draw(tt.zeros(40))
    assert out.shape == (3, *plain.shape) and out.dtype is plain.dtype
    assert not np.array_equal(out[0].numpy(), out[1].numpy())


@pytest.mark.parametrize("name", DRAWS)
def test_with_same_all_examples_get_one_draw(name):
    tt.manual_seed(0)
    out = tt.vmap(DRAWS[name], randomness="same")(tt.zeros(3, 40))
    assert np.array_equal(out[0].numpy(), out[1].numpy()) and np.array_equal(out[0].numpy(), out[2].numpy())
    tt.manual_seed(0)
    same(out[0], DRAWS[name](tt.zeros(40)))


@pytest.mark.parametrize("name", OF_VALUES)
def test_with_same_an_operator_of_mapped_values_is_refused(name):
    with pytest.raises(RuntimeError, match="same randomness with a batched tensor input"):
        tt.vmap(OF_VALUES[name], randomness="same")(tt.zeros(3, 40))


def test_a_write_of_different_numbers_needs_a_mapped_tensor():
    with pytest.raises(
        RuntimeError, match="Cannot ask for different inplace randomness on an unbatched tensor"
    ):
        tt.vmap(lambda x: tt.zeros(2).uniform_(), randomness="different")(tt.zeros(3))


def test_no_observer_is_left_of_a_vmap():
    tt.vmap(lambda x: x + tt.rand(()), randomness="different")(tt.zeros(3))
    assert observers == []


def test_each_level_has_a_randomness_of_its_own():
    def f(inner, outer):
        return tt.vmap(lambda x: tt.vmap(lambda y: tt.rand(8), randomness=inner)(x), randomness=outer)(
            tt.zeros(2, 3)
        ).numpy()

    out = f("different", "same")
    assert np.array_equal(out[0], out[1]) and not np.array_equal(out[0, 0], out[0, 1])
    out = f("same", "different")
    assert np.array_equal(out[0, 0], out[0, 1]) and not np.array_equal(out[0, 0], out[1, 0])
    out = f("different", "different")
    assert len({row.tobytes() for row in out.reshape(6, 8)}) == 6
    with pytest.raises(RuntimeError, match="randomness error mode"):
        f("same", "error")


def test_no_randomness_is_asked_for_where_nothing_is_drawn():
    same(tt.vmap(lambda x: F.dropout(x, 0.5, training=False))(normal(3, 4)), normal(3, 4))
    tt.rand(2)


def test_chunks_draw_the_same_with_same():
    out = tt.vmap(lambda x: tt.rand(4), randomness="same", chunk_size=2)(tt.zeros(5)).numpy()
    assert all(np.array_equal(out[0], row) for row in out)


@pytest.mark.parametrize("options", [(0.5, False), (0.0, True), (1.0, True)])
@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"])
def test_dropout_that_drops_by_no_chance_needs_no_randomness(name, options):
    x = normal(2, 3, 4)
    for function in (getattr(tt, name), getattr(tt, f"{name}_")):
        call = lambda row: function(row.clone(), *options)  # noqa: B023, E731
        same(tt.vmap(call)(x), tt.stack([call(row) for row in x]))


@pytest.mark.parametrize(
    "layer", [tt.nn.Dropout1d, tt.nn.AlphaDropout, tt.nn.FeatureAlphaDropout, tt.nn.RReLU]
)
def test_random_layers_are_mapped_in_evaluation(layer):
    x = normal(2, 3, 4)
    evaluated = layer().eval()
    same(tt.vmap(evaluated)(x), evaluated(x))
    with pytest.raises(RuntimeError, match="randomness error mode"):
        tt.vmap(layer())(x)


def test_the_gradient_of_dropout_uses_its_own_mask():
    x = tt.ones(3, 50).requires_grad_()
    for randomness in ("same", "different"):
        out = tt.vmap(lambda row: F.dropout(row, 0.5), randomness=randomness)(x)
        same(tt.autograd.grad(out.sum(), x)[0], out)


# The loop, and rules of one's own.


@pytest.fixture
def library():
    with tt.library.Library("vmaptest", "DEF") as lib:
        yield lib
    loop_module._warned.clear()


def test_an_operator_without_rule_runs_example_by_example_and_warns_once(library):
    library.define("flipped(Tensor x, Tensor[] more, *, int by=1) -> (Tensor, Tensor)")
    library.impl("flipped", lambda x, more, by: (x.flip(0) * by, x + more[0]), "CPU")
    op = tt.ops.vmaptest.flipped
    x, y = normal(3, 4), normal(4, 3, seed=1)
    with pytest.warns(
        UserWarning,
        match="performance drop because we have not yet implemented the batching rule for vmaptest::flipped",
    ):
        first, second = tt.vmap(lambda a, b: op(a, [b], by=2), (0, 1))(x, y)
    same(first, x.flip(1) * 2)
    same(second, x + y.t())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tt.vmap(lambda a: op(a, [a])[0])(x)
    with pytest.raises(RuntimeError, match="does not support vmap over dims of size 0"):
        tt.vmap(lambda a: op(a, [a])[0])(x[:0])


def test_the_loop_writes_through_the_examples(library):
    library.define("bump_(Tensor(a!) x, Tensor y) -> Tensor(a!)")
    library.impl("bump_", lambda x, y: x.add_(y), "CPU")
    op = tt.ops.vmaptest.bump_
    x = tt.zeros(4, 3)
    with pytest.warns(UserWarning, match="performance drop"):
        out = tt.vmap(op, (1, 0))(x, tt.tensor([1.0, 2.0, 3.0]))
    assert x[0].tolist() == [1.0, 2.0, 3.0]
    same(out, x.t())
    with pytest.raises(RuntimeError, match="vmaptest::bump_\\(self, \\*extra_args\\) is not possible"):
        tt.vmap(op, (None, 0))(tt.zeros(4), tt.ones(3))


def test_the_loop_serves_operators_that_the_library_leaves_to_it():
    weight = normal(3, 5, 4)
    expected = tt.stack(
        [tt.ops.aten.embedding_renorm_.default(w.clone(), tt.tensor([0, 2]), 1.0, 2.0) for w in weight]
    )
    loop_module._warned.discard("aten::embedding_renorm_")
    with pytest.warns(UserWarning, match="aten::embedding_renorm_"):
        tt.vmap(lambda w: tt.ops.aten.embedding_renorm_.default(w, tt.tensor([0, 2]), 1.0, 2.0))(weight)
    same(weight, expected)


def test_the_loop_is_differentiable_outside(library):
    library.define("cubed(Tensor x) -> Tensor")
    library.impl("cubed", lambda x: x * x * x, "CompositeExplicitAutograd")
    tt.library.register_autograd(
        "vmaptest::cubed",
        lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        lib=library,
    )
    x = normal(3, 2).requires_grad_()
    with pytest.warns(UserWarning):
        out = tt.vmap(tt.ops.vmaptest.cubed)(x)
    same(tt.autograd.grad(out.sum(), x)[0], 3 * x**2)

    def inside(row):
        leaf = row.detach().requires_grad_()
        return tt.autograd.grad(tt.ops.vmaptest.cubed(leaf).sum(), leaf)[0]

    same(tt.vmap(inside)(x), 3 * x**2)

    def penalty(row):
        leaf = row.data.requires_grad_()
        (slope,) = tt.autograd.grad(tt.ops.vmaptest.cubed(leaf).sum(), leaf, create_graph=True)
        return (slope * tt.ops.vmaptest.cubed(leaf)).sum()

    # Recorded outside although it is recorded inside as well.
    same(tt.autograd.grad(tt.vmap(penalty)(x).sum(), x)[0], 15 * x**4)


def test_a_composition_needs_no_rule(library):
    library.define("twice(Tensor x) -> Tensor", lambda x: x + x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(tt.vmap(tt.ops.vmaptest.twice)(normal(3)), 2 * normal(3))


def test_a_compositions_own_autograd_kernel_counts_inside_a_map(library):
    """Decompose composites below autograd, at the batching rules, and not above it."""
    library.define("steep(Tensor x) -> Tensor", lambda x: x * x)
    library.impl("steep", lambda x: x * 100, "AutogradCPU")

    def inside(row):
        leaf = row.detach().requires_grad_()
        return tt.autograd.grad(tt.ops.vmaptest.steep(leaf).sum(), leaf)[0]

    same(tt.vmap(inside)(normal(3, 4)), tt.full((3, 4), 100.0))


def make_custom_op():
    calls = []

    @tt.library.custom_op("vmaptest2::scaled", mutates_args=())
    def scaled(x: tt.Tensor, y: tt.Tensor, factor: float = 2.0) -> tt.Tensor:
        return x * y * factor

    @scaled.register_vmap
    def _(info, in_dims, x, y, factor):
        calls.append((info.batch_size, info.randomness, in_dims))
        x = x if in_dims[0] is None else x.movedim(in_dims[0], 0)
        y = y if in_dims[1] is None else y.movedim(in_dims[1], 0)
        return scaled(x, y, factor), 0

    return scaled, calls


def test_a_registered_rule_is_called_with_all_examples():
    scaled, calls = make_custom_op()
    x, y = normal(4, 3), normal(4, seed=1)
    same(tt.vmap(scaled, (1, None), randomness="same")(x, y), x.t() * y * 2)
    assert calls == [(3, "same", (1, None, None))]
    x, y = normal(2, 4, 3), normal(4, 2, 3, seed=1)
    same(tt.vmap(tt.vmap(scaled), (0, 1))(x, y), x * y.transpose(0, 1) * 2)
    assert [c[0] for c in calls[1:]] == [4, 2]


@pytest.mark.parametrize(
    "returned, text",
    [
        (lambda x: x, r"expected \(output, out_dims\), got"),
        (lambda x: (x, 5), "names no dimension of a tensor of 2 dimensions"),
    ],
)
def test_a_rule_that_returns_something_else_is_refused(returned, text):
    scaled, _ = make_custom_op()
    scaled.register_vmap(lambda info, in_dims, x, y, factor: returned(x))
    with pytest.raises(RuntimeError, match=text):
        tt.vmap(scaled)(normal(3, 4), normal(3, 4))


def test_rules_may_be_registered_for_operators_by_name(library):
    library.define("summed(Tensor x) -> Tensor")
    library.impl("summed", lambda x: x.sum(), "CompositeExplicitAutograd")
    tt.library.register_vmap(
        "vmaptest::summed", lambda info, in_dims, x: (x.sum(1 - in_dims[0]), 0), lib=library
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(tt.vmap(tt.ops.vmaptest.summed, 1)(normal(3, 4)), normal(3, 4).sum(0))


class Cube(tt.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return x**3 * w, x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g, h):
        x, w = ctx.saved_tensors
        return 3 * x**2 * w * g + 2 * h, x**3 * g


def plain_cube(x, w):
    return x**3 * w, x * 2


def twice_differentiated(function):
    def f(*values):
        leaves = [v.detach().clone().requires_grad_() for v in values]
        a, b = function(*leaves)
        first = tt.autograd.grad((a**2).sum() + b.sin().sum(), leaves, create_graph=True)
        return *first, *tt.autograd.grad(sum((g**2).sum() for g in first), leaves)

    return f


@pytest.mark.parametrize("dims", [(0, None), (0, 0), (None, 0), (1, 0)])
def test_a_function_with_a_generated_rule(dims):
    values = [
        normal(*((4,) if d is None else (3, 4) if d == 0 else (4, 3)), seed=i) for i, d in enumerate(dims)
    ]
    for wrap in (
        lambda f: tt.vmap(f, dims),
        lambda f: twice_differentiated(tt.vmap(f, dims)),
        lambda f: tt.vmap(twice_differentiated(f), dims),
    ):
        for got, expected in zip(wrap(Cube.apply)(*values), wrap(plain_cube)(*values), strict=True):
            same(got, expected, rtol=1e-3)


@pytest.mark.parametrize("sizes", [((3, 4, 5), (3, 5)), ((3, 5), (3, 1)), ((3, 5), (3,))])
def test_a_generated_rule_sums_the_gradient_of_an_example_that_forward_broadcasts(sizes):
    values = [normal(*each, seed=i) for i, each in enumerate(sizes)]
    wide = [tt.stack([values[0], -values[0]]), values[1]]
    mapped = lambda f: twice_differentiated(tt.vmap(f))  # noqa: E731
    for got, expected in zip(mapped(Cube.apply)(*values), mapped(plain_cube)(*values), strict=True):
        same(got, expected, rtol=1e-3)
    nested = lambda f: tt.vmap(mapped(f), (0, None))  # noqa: E731
    for got, expected in zip(nested(Cube.apply)(*wide), nested(plain_cube)(*wide), strict=True):
        same(got, expected, rtol=1e-3)


def test_a_generated_rule_in_two_levels():
    x, w = normal(2, 3, 4), normal(4, seed=1)
    nested = lambda f: twice_differentiated(tt.vmap(tt.vmap(f, (0, None)), (0, None)))  # noqa: E731
    for got, expected in zip(nested(Cube.apply)(x, w), nested(plain_cube)(x, w), strict=True):
        same(got, expected, rtol=1e-3)


def test_a_function_with_a_rule_of_its_own():
    calls = []

    class Double(tt.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def vmap(info, in_dims, x):
            calls.append((info.batch_size, in_dims))
            return Double.apply(x), in_dims[0]

    x = normal(4, 3).requires_grad_()
    out = tt.vmap(Double.apply, 1, 1)(x)
    assert calls == [(3, (1,))]
    same(out, 2 * x)
    same(tt.autograd.grad(out.sum(), x)[0], tt.full((4, 3), 2.0))


def test_functions_without_rule_are_refused():
    class Old(tt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    class NoRule(tt.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    class Both(NoRule):
        generate_vmap_rule = True

        @staticmethod
        def vmap(info, in_dims, x):
            return x, 0

    for function, text in (
        (Old, "must override the setup_context staticmethod"),
        (NoRule, "does not have vmap support"),
        (Both, "both generate_vmap_rule=True and an overriden vmap"),
    ):
        with pytest.raises(RuntimeError, match=text):
            tt.vmap(function.apply)(normal(3))


def test_rules_record_for_the_outside_even_where_a_kernel_has_excluded_autograd(library):
    x = normal(3, 4).requires_grad_()

    def f(row):
        with ExcludeDispatchKeyGuard(AUTOGRAD_BITS):
            out = row * row
            assert local.excluded & AUTOGRAD_BITS
        return out.sum()

    out = tt.vmap(f)(x)
    assert local.excluded == 0
    same(tt.autograd.grad(out.sum(), x)[0], 2 * x)


def test_a_kernel_for_the_batched_key_gets_batched_tensors(library):
    seen = []
    library.define("shape_of(Tensor x) -> Tensor")
    library.impl("shape_of", lambda x: x.clone(), "CPU")
    library.impl("shape_of", lambda x: seen.append(tuple(x.shape)) or x * 2, "Batched")
    same(tt.vmap(tt.ops.vmaptest.shape_of)(normal(3, 4)), 2 * normal(3, 4))
    assert seen == [(4,)]
    same(tt.ops.vmaptest.shape_of(normal(3)), normal(3))


def test_a_kernel_registered_for_the_batching_key_takes_the_rules_place(library):
    library.define("own(Tensor x) -> Tensor")
    library.impl("own", lambda x: x.clone(), "CPU")
    library.impl("own", lambda x: x + 1, "FuncTorchDynamicLayerBackMode")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(tt.vmap(tt.ops.vmaptest.own)(normal(3, 4)), normal(3, 4) + 1)


def test_an_element_is_written_where_each_example_says():
    def f(row, i):
        row = row.clone()
        row[i] = 7.0
        return row

    out = tt.vmap(f)(tt.zeros(3, 4), tt.tensor([1, 3, 0]))
    assert out.argmax(1).tolist() == [1, 3, 0] and out.sum().item() == 21.0


def test_a_map_inside_an_autograd_function_and_a_checked_gradient():
    def f(x):
        return tt.vmap(lambda row: (row.sin() * row.sum()).cumsum(0), out_dims=1)(x)

    x = tt.tensor(np.random.default_rng(0).standard_normal((3, 4))).requires_grad_()
    assert tt.autograd.gradcheck(f, (x,))
    assert tt.autograd.gradgradcheck(f, (x,))
