"""make_graphed_callables: the same values and gradients as the functions themselves, and PyTorch's refusals."""

import pytest

pytest.importorskip("triton", reason="triton has no wheel for this platform")

import triten as tt
import triten.nn.functional as F

graphed = tt.cuda.make_graphed_callables


def tensor(*sizes, seed=0, requires_grad=False):
    generator = tt.Generator("cuda").manual_seed(seed)
    made = tt.randn(*sizes, device="cuda", generator=generator)
    return made.requires_grad_() if requires_grad else made


class Linear:
    """A callable with parameters, as a module is."""

    def __init__(self):
        self.weight, self.bias = (
            tensor(4, 3, seed=1, requires_grad=True),
            tensor(4, seed=2, requires_grad=True),
        )

    def parameters(self):
        return [self.weight, self.bias]

    def __call__(self, x):
        return F.relu(F.linear(x, self.weight, self.bias))


def test_values_and_gradients_are_those_of_the_function():
    def function(x, y):
        return (x * y).sin(), x + y

    fast = graphed(function, (tensor(2, 3, seed=9, requires_grad=True), tensor(2, 3, seed=8)))
    for seed in (1, 2):
        x, y = tensor(2, 3, seed=seed, requires_grad=True), tensor(2, 3, seed=seed + 10)
        other = x.detach().clone().requires_grad_()
        ours, theirs = fast(x, y), function(other, y)
        assert [o.tolist() for o in ours] == [t.tolist() for t in theirs]
        (ours[0].sum() * 3 + ours[1].sum()).backward()
        (theirs[0].sum() * 3 + theirs[1].sum()).backward()
        assert x.grad.tolist() == other.grad.tolist()


def test_parameters_get_gradients_and_may_change():
    layer, plain = Linear(), Linear()
    fast = graphed(layer, (tensor(2, 3, seed=9),))
    assert layer.weight.grad is None, "the warm-up leaves no gradients"
    for seed in (1, 2):
        x = tensor(2, 3, seed=seed)
        fast(x).sum().backward()
        plain(x).sum().backward()
        for ours, theirs in zip(layer.parameters(), plain.parameters(), strict=True):
            assert ours.grad.tolist() == theirs.grad.tolist()
            with tt.no_grad():
                ours.sub_(ours.grad)
                theirs.sub_(theirs.grad)
    assert layer.weight.tolist() == plain.weight.tolist()


def test_several_functions_run_one_after_the_other():
    first, second = Linear(), (lambda x: x * x)
    sample = tensor(2, 4, seed=7, requires_grad=True)
    one, two = graphed((first, second), ((tensor(2, 3, seed=9),), (sample,)))
    plain = Linear()
    for seed in (1, 2):
        x = tensor(2, 3, seed=seed)
        ours, theirs = two(one(x)), second(plain(x))
        assert ours.tolist() == theirs.tolist()
        first.weight.grad = plain.weight.grad = None
        ours.sum().backward()
        theirs.sum().backward()
        assert first.weight.grad.tolist() == plain.weight.grad.tolist()


def test_dropout_draws_anew_in_the_sequence_of_eager_calls():
    x = tt.ones(6, device="cuda", requires_grad=True)
    fast = graphed(lambda x: F.dropout(x * 2, 0.5), (tt.ones(6, device="cuda", requires_grad=True),))
    tt.manual_seed(3)
    eager = [F.dropout(x * 2, 0.5).tolist() for _ in range(3)]
    tt.manual_seed(3)
    for expected in eager:
        x.grad = None
        y = fast(x)
        assert y.tolist() == expected
        y.sum().backward()
        assert x.grad.tolist() == expected, "backward uses the mask of its own forward"


def test_structures_go_in_and_out():
    def function(pair):
        return {"sum": pair[0] + pair[1], "one": pair[0] * 1}

    fast = graphed(function, ((tensor(3), tensor(3, seed=1)),))
    a, b = tensor(3, seed=5), tensor(3, seed=6)
    found = fast((a, b))
    assert found["sum"].tolist() == (a + b).tolist()
    assert found["one"].tolist() == a.tolist()
    assert not found["sum"].requires_grad


def test_gradients_flow_on_into_what_came_before():
    w = tensor(3, requires_grad=True)
    fast = graphed(lambda x: x * x, (tensor(3, seed=1, requires_grad=True),))
    fast(w * 2).sum().backward()
    assert w.grad.tolist() == pytest.approx((8 * w).tolist())


def test_an_unused_input_is_refused_unless_allowed():
    samples = (tensor(3, requires_grad=True), tensor(3, seed=1, requires_grad=True))
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        graphed(lambda x, y: x * 2, samples)
    fast = graphed(lambda x, y: x * 2, samples, allow_unused_input=True)
    x, y = tensor(3, seed=2, requires_grad=True), tensor(3, seed=3, requires_grad=True)
    fast(x, y).sum().backward()
    assert x.grad.tolist() == [2.0] * 3
    assert y.grad is None


def test_it_differentiates_once():
    fast = graphed(lambda x: x * x * x, (tensor(3, requires_grad=True),))
    x = tensor(3, seed=1, requires_grad=True)
    scale = tt.ones(3, device="cuda", requires_grad=True)
    (grad,) = tt.autograd.grad(fast(x), x, grad_outputs=scale * 1, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        grad.sum().backward()


def test_what_cannot_be_captured_is_refused_and_forgotten():
    with pytest.raises(RuntimeError, match="host cannot read"):
        graphed(lambda x: x * x.sum().item(), (tensor(3),))
    assert graphed(lambda x: x * 2, (tensor(3),))(tt.ones(3, device="cuda")).tolist() == [2.0] * 3


@pytest.mark.parametrize(
    ("callables", "samples", "error", "message"),
    [
        (lambda x: x, (3.0,), AssertionError, "must contain only Tensors"),
        (lambda x: x, (tt.ones(2),), RuntimeError, "expected CUDA tensors"),
        (lambda x: x, tt.ones(2), TypeError, "sample_args must be a tuple"),
        ((abs, abs), ((tt.ones(2),),), TypeError, "for each of 2 callables"),
        (3, (tt.ones(2),), TypeError, "expected callables, got int"),
    ],
)
def test_arguments_are_checked(callables, samples, error, message):
    with pytest.raises(error, match=message):
        graphed(callables, samples)


def test_calls_are_checked():
    fast = graphed(lambda x: x * 2, (tensor(3),))
    for args, error, message in (
        ((), TypeError, "expected 1 tensors as arguments, got 0"),
        ((1.0,), TypeError, "must be Tensor, not float"),
        ((tensor(4),), RuntimeError, "argument 0: expected shape .*3.*got .*4"),
        ((tensor(3).double(),), RuntimeError, "expected dtype"),
        ((tt.ones(3),), RuntimeError, "expected device"),
    ):
        with pytest.raises(error, match=message):
            fast(*args)


def test_the_cache_of_autocast_must_be_off():
    with tt.autocast("cuda"), pytest.raises(RuntimeError, match="does not support the autocast caching"):
        graphed(lambda x: x, (tensor(3),))
    with tt.autocast("cuda", cache_enabled=False):
        fast = graphed(lambda x: x @ x, (tensor(3, 3),))
    assert fast(tensor(3, 3)).dtype is tt.float16


def test_they_share_a_pool_with_others():
    pool = tt.cuda.graph_pool_handle()
    fast = graphed(lambda x: x * 2, (tensor(3),), pool=pool)
    graph = tt.cuda.CUDAGraph()
    x = tensor(3)
    x * 3
    with tt.cuda.graph(graph, pool=pool):
        y = x * 3
    graph.replay()
    assert (y.tolist(), fast(x).tolist()) == ((x * 3).tolist(), (x * 2).tolist())
