"""Lazy layers: shapes from the first input, and ordinary layers from then on."""

import copy
import pickle
from typing import Any

import pytest

import triten as tt

nn = tt.nn


def of_channels(kind, rank, *options, **named):
    """Return a maker of a lazy layer, the layer's final class, and the sizes of an input."""
    lazy = getattr(nn, f"Lazy{kind}{rank}d")
    sizes = (2, 6, *(4,) * rank)
    return lambda **others: lazy(*options, **named, **others), getattr(nn, f"{kind}{rank}d"), sizes


LAYERS = [
    (lambda **options: nn.LazyLinear(3, **options), nn.Linear, (2, 5)),
    *(of_channels(kind, rank, 4, 2, groups=2) for kind in ("Conv", "ConvTranspose") for rank in (1, 2, 3)),
    *(of_channels(kind, rank) for kind in ("BatchNorm", "InstanceNorm") for rank in (1, 2, 3)),
]


@pytest.mark.parametrize(("make", "kind", "sizes"), LAYERS)
@pytest.mark.parametrize("bias", [True, False])
def test_the_first_call_makes_an_ordinary_layer(make, kind, sizes, bias):
    layer = make(bias=bias)
    waiting = dict(layer.named_parameters())
    assert (layer.bias is None) != bias
    assert all(repr(each) == "<UninitializedParameter>" for each in waiting.values())
    x = tt.randn(*sizes)
    result = layer(x)
    assert type(layer) is kind and tt.equal(layer.eval()(x), layer(x)) and result.shape == layer(x).shape
    assert all(
        layer.get_parameter(name) is each and type(each) is nn.Parameter for name, each in waiting.items()
    )
    result.sum().backward()
    assert all(each.grad.shape == each.shape for each in waiting.values())
    assert "Lazy" not in repr(layer)


def test_sizes_are_as_of_a_layer_that_was_given_them():
    tt.manual_seed(3)
    layer = nn.LazyConv2d(4, 3, padding=1)
    layer(tt.zeros(1, 2, 5, 5))
    tt.manual_seed(3)
    other = nn.Conv2d(2, 4, 3, padding=1)
    assert repr(layer) == repr(other)
    assert all(tt.equal(a, b) for a, b in zip(layer.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("again", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
@pytest.mark.parametrize("make", [lambda: nn.LazyLinear(3), lambda: nn.LazyBatchNorm1d()])
def test_a_waiting_layer_is_copied_converted_and_called(make, again):
    layer = again(make().double())
    assert layer.has_uninitialized_params()
    assert layer(tt.ones(2, 4, dtype=tt.float64)).dtype is tt.float64
    assert {each.dtype for each in layer.parameters()} == {tt.float64}


def test_states_go_both_ways():
    made, waiting = nn.LazyLinear(3), nn.LazyLinear(3)
    waiting.load_state_dict(made.state_dict())
    assert waiting.has_uninitialized_params()
    made(tt.ones(1, 4))
    waiting.load_state_dict(made.state_dict())
    x = tt.randn(2, 4)
    assert tt.equal(waiting(x), made(x)) and repr(waiting) == repr(made)
    with pytest.raises(RuntimeError, match="shape of an uninitialized parameter or buffer"):
        made.load_state_dict(nn.LazyLinear(3).state_dict())


def test_an_optimizer_may_have_the_parameters_before():
    layer = nn.LazyLinear(2)
    optimizer = tt.optim.SGD(layer.parameters(), lr=1.0)
    layer(tt.ones(1, 3)).sum().backward()
    before = layer.weight.detach().clone()
    optimizer.step()
    assert tt.allclose(layer.weight, before - 1)


@pytest.mark.parametrize(
    "use", [lambda p: p + 1, lambda p: p.numel(), lambda p: tt.sum(p), lambda p: p.zero_()]
)
def test_what_needs_a_shape_is_refused(use):
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in"):
        use(nn.UninitializedParameter())


def test_other_refusals():
    with pytest.raises(RuntimeError, match="Can't access the shape"):
        _ = nn.UninitializedParameter().shape
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.LazyConv1d(4, 1, groups=2)(tt.ones(1, 3, 2))
    with pytest.raises(
        RuntimeError, match=r"Expected 2D \(unbatched\) or 3D \(batched\) input to LazyConv1d"
    ):
        nn.LazyConv1d(4, 1)(tt.ones(3))

    class Never(nn.modules.lazy.LazyModuleMixin):
        def __init__(self):
            super().__init__()
            self.weight = nn.UninitializedParameter()

        def initialize_parameters(self, input):
            pass

    with pytest.raises(RuntimeError, match="module Never has not been fully initialized"):
        Never()(tt.ones(1))
    with pytest.raises(
        NotImplementedError, match="initialize_parameters is not implemented for LazyModuleMixin"
    ):
        nn.modules.lazy.LazyModuleMixin()(tt.ones(1))


def test_a_lazy_module_of_ones_own_stays_what_it_is():
    class Scale(nn.modules.lazy.LazyModuleMixin):
        def __init__(self):
            super().__init__()
            self.weight = nn.UninitializedParameter()
            self.count = 0

        def initialize_parameters(self, input):
            self.count += 1
            self.weight.materialize(input.shape[-1:])
            nn.init.ones_(self.weight)

        def forward(self, input):
            return input * self.weight

    scale = Scale()
    assert scale(tt.full((2, 3), 2.0)).tolist() == scale(tt.full((2, 3), 2.0)).tolist() == [[2.0] * 3] * 2
    assert type(scale) is Scale and scale.count == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            tt.nn.utils.spectral_norm,
            ValueError,
            "module passed to `SpectralNorm` can't have uninitialized parameters",
        ),
        (
            tt.nn.utils.weight_norm,
            ValueError,
            "module passed to `WeightNorm` can't have uninitialized parameters",
        ),
        (
            lambda layer: layer.share_memory(),
            RuntimeError,
            "Can't share memory on an uninitialized parameter",
        ),
    ],
)
def test_a_waiting_layer_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(tt.nn.LazyLinear(3))
