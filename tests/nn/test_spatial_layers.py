"""Convolutions, pooling and normalisation as layers, against their functions and against PyTorch's text."""

import inspect

import numpy as np
import pytest

import triten as tt
import triten.nn.functional as F

nn = tt.nn
SIZES = {1: (2, 4, 9), 2: (2, 4, 9, 7), 3: (2, 4, 5, 6, 7)}


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions(rank):
    x = tt.randn(*SIZES[rank])
    layer = getattr(nn, f"Conv{rank}d")(4, 6, 3, stride=2, padding=1, groups=2)
    function = getattr(F, f"conv{rank}d")
    assert tt.equal(layer(x), function(x, layer.weight, layer.bias, 2, 1, 1, 2))
    assert layer.weight.shape == (6, 2) + (3,) * rank
    bound = 1 / (2 * 3**rank) ** 0.5
    assert layer.weight.abs().max().item() <= bound and layer.bias.abs().max().item() <= bound
    same = getattr(nn, f"Conv{rank}d")(4, 2, 3, padding="same", bias=False)
    assert same(x).shape == (2, 2, *x.shape[2:]) and same.bias is None

    transposed = getattr(nn, f"ConvTranspose{rank}d")(4, 6, 3, stride=2, padding=1)
    function = getattr(F, f"conv_transpose{rank}d")
    assert tt.equal(transposed(x), function(x, transposed.weight, transposed.bias, 2, 1))
    wanted = [2 * size for size in x.shape[2:]]
    assert transposed(x, output_size=wanted).shape[2:] == tuple(wanted)
    with pytest.raises(ValueError, match="requested an output size of"):
        transposed(x, output_size=[3 * size for size in x.shape[2:]])
    with pytest.raises(ValueError, match=f"must have {rank} or {rank + 2} elements"):
        transposed(x, output_size=[1] * 9)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"groups": 0}, ValueError, "groups must be a positive integer"),
        ({"groups": 3}, ValueError, "in_channels must be divisible by groups"),
        ({"padding": "full"}, ValueError, "Invalid padding string 'full'"),
        ({"padding": "same", "stride": 2}, ValueError, "not supported for strided convolutions"),
        ({"padding_mode": "odd"}, ValueError, "padding_mode must be one of"),
    ],
)
def test_convolutions_refuse(options, error, message):
    with pytest.raises(error, match=message):
        nn.Conv2d(4, 8, 3, **options)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pooling(rank):
    x = tt.randn(*SIZES[rank])
    window = (3, 2, 1)
    assert tt.equal(getattr(nn, f"MaxPool{rank}d")(*window)(x), getattr(F, f"max_pool{rank}d")(x, *window))
    assert tt.equal(getattr(nn, f"AvgPool{rank}d")(*window)(x), getattr(F, f"avg_pool{rank}d")(x, *window))
    both = getattr(nn, f"MaxPool{rank}d")(2, return_indices=True)(x)
    assert len(both) == 2 and both[1].dtype is tt.int64
    for kind in ("avg", "max"):
        layer = getattr(nn, f"Adaptive{kind.capitalize()}Pool{rank}d")(3)
        assert tt.equal(layer(x), getattr(F, f"adaptive_{kind}_pool{rank}d")(x, 3))
    assert tt.equal(
        getattr(nn, f"LPPool{rank}d")(2, 2)(x.abs()), getattr(F, f"lp_pool{rank}d")(x.abs(), 2, 2)
    )


def test_normalisation_of_rows_and_groups():
    x = tt.randn(2, 4, 6)
    layer = nn.LayerNorm((4, 6))
    tt.nn.init.normal_(layer.weight), tt.nn.init.normal_(layer.bias)
    assert tt.equal(layer(x), F.layer_norm(x, (4, 6), layer.weight, layer.bias))
    assert list(nn.LayerNorm(6, bias=False).state_dict()) == ["weight"]
    assert list(nn.LayerNorm(6, elementwise_affine=False).state_dict()) == []
    assert tt.equal(nn.RMSNorm(6)(x), F.rms_norm(x, (6,), tt.ones(6)))
    assert tt.equal(nn.GroupNorm(2, 4)(x), F.group_norm(x, 2, tt.ones(4), tt.zeros(4)))
    assert tt.equal(nn.LocalResponseNorm(3, k=2.0)(x), F.local_response_norm(x, 3, k=2.0))
    with pytest.raises(ValueError, match=r"num_channels \(4\) must be divisible by num_groups \(3\)"):
        nn.GroupNorm(3, 4)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_batch_norm_keeps_running_statistics(rank):
    x = tt.randn(*SIZES[rank]) * 3 + 1
    layer = getattr(nn, f"BatchNorm{rank}d")(4)
    dims = [0, *range(2, rank + 2)]
    out = layer(x)
    assert out.mean(dims).abs().max().item() < 1e-5 and layer.num_batches_tracked.item() == 1
    assert tt.allclose(layer.running_mean, 0.1 * x.mean(dims), atol=1e-6)
    assert tt.allclose(layer.running_var, 0.9 + 0.1 * x.var(dims), atol=1e-5)
    before = layer.running_mean.clone()
    layer.eval()
    assert tt.equal(
        layer(x), F.batch_norm(x, layer.running_mean, layer.running_var, layer.weight, layer.bias)
    )
    assert tt.equal(layer.running_mean, before) and layer.num_batches_tracked.item() == 1
    with pytest.raises(ValueError, match=f"got {rank + 4}D input"):
        layer(tt.ones((1,) * (rank + 4)))
    plain = getattr(nn, f"BatchNorm{rank}d")(4, affine=False, track_running_stats=False).eval()
    assert list(plain.state_dict()) == [] and tt.allclose(plain(x), out, atol=1e-5)


def test_batch_norm_by_the_mean_of_all_batches_and_from_an_older_state():
    layer = nn.BatchNorm1d(2, momentum=None)
    batches = [tt.randn(8, 2) for _ in range(3)]
    for batch in batches:
        layer(batch)
    assert tt.allclose(layer.running_mean, tt.stack([b.mean(0) for b in batches]).mean(0), atol=1e-6)
    old = {key: value for key, value in layer.state_dict().items() if key != "num_batches_tracked"}
    nn.BatchNorm1d(2).load_state_dict(old)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_instance_norm_takes_samples_alone(rank):
    x = tt.randn(*SIZES[rank])
    layer = getattr(nn, f"InstanceNorm{rank}d")(4)
    assert tt.equal(layer(x), F.instance_norm(x)) and tt.allclose(layer(x[0]), layer(x)[0], atol=1e-6)
    kept = getattr(nn, f"InstanceNorm{rank}d")(4, affine=True, track_running_stats=True)
    kept(x)
    assert kept.running_mean.abs().max().item() > 0 and len(kept.state_dict()) == 5


def test_instance_norm_without_momentum_leaves_its_statistics():
    layer = nn.InstanceNorm1d(4, momentum=None, track_running_stats=True)
    assert layer(tt.randn(2, 4, 5)).shape == (2, 4, 5)
    assert tt.equal(layer.running_mean, tt.zeros(4)) and tt.equal(layer.running_var, tt.ones(4))


@pytest.mark.parametrize(
    ("layer", "function"),
    [
        (lambda: nn.LayerNorm(6, eps=0.3), lambda x: F.layer_norm(x, (6,), eps=0.3)),
        (lambda: nn.LayerNorm((4, 6), eps=0.3), lambda x: F.layer_norm(x, (4, 6), eps=0.3)),
        (lambda: nn.RMSNorm(6, eps=0.3), lambda x: F.rms_norm(x, (6,), eps=0.3)),
        (lambda: nn.GroupNorm(2, 4, eps=0.3), lambda x: F.group_norm(x, 2, eps=0.3)),
        (lambda: nn.InstanceNorm1d(4, eps=0.3), lambda x: F.instance_norm(x, eps=0.3)),
        (
            lambda: nn.BatchNorm1d(4, eps=0.3, momentum=0.7),
            lambda x: F.batch_norm(x, tt.zeros(4), tt.ones(4), training=True, eps=0.3),
        ),
        (
            lambda: nn.LocalResponseNorm(3, 0.5, 0.6, 2.0),
            lambda x: F.local_response_norm(x, 3, 0.5, 0.6, 2.0),
        ),
    ],
)
def test_options_of_normalisation_reach_the_function(layer, function):
    x = tt.randn(2, 4, 6)
    tt.testing.assert_close(layer()(x), function(x))
    assert not tt.allclose(function(x), type(layer())(*NORMALISED[type(layer()).__name__])(x))


NORMALISED = {
    "LayerNorm": (6,),
    "RMSNorm": (6,),
    "GroupNorm": (2, 4),
    "InstanceNorm1d": (4,),
    "BatchNorm1d": (4,),
    "LocalResponseNorm": (3,),
}
"""Arguments of the layers with every option at its default."""

ARGUMENTS = {"Conv": (4, 6, 3, 2, 1), "ConvTranspose": (4, 6, 3, 2, 1), "MaxPool": (3,), "AvgPool": (3,)}
ARGUMENTS |= {"LPPool": (2, 3), "AdaptiveAvgPool": (3,), "AdaptiveMaxPool": ((3,),)}
ARGUMENTS |= {"BatchNorm": (4,), "InstanceNorm": (4,)}
NAMES = [(f"{family}{rank}d", arguments) for family, arguments in ARGUMENTS.items() for rank in (1, 2, 3)]
NAMES += [("LayerNorm", ((3, 4),)), ("RMSNorm", (3,)), ("GroupNorm", (2, 4)), ("LocalResponseNorm", (3,))]


@pytest.mark.parametrize(("name", "arguments"), NAMES, ids=[name for name, _ in NAMES])
def test_signatures_and_text_are_pytorchs(name, arguments):
    torch = pytest.importorskip("torch")
    ours, theirs = getattr(nn, name), getattr(torch.nn, name)
    first, second = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
    assert list(first) == list(second)
    assert [p.default for p in first.values()] == [p.default for p in second.values()]
    assert repr(ours(*arguments)) == repr(theirs(*arguments))
    assert list(ours(*arguments).state_dict()) == list(theirs(*arguments).state_dict())


def test_a_pool_of_the_whole_stays_channels_last():
    x = tt.randn(2, 3, 4, 5).to(memory_format=tt.channels_last)
    assert tt.nn.AdaptiveAvgPool2d(1)(x).stride() == (3, 1, 3, 3)
    assert tt.nn.AdaptiveAvgPool2d(1)(x.contiguous()).stride() == (3, 1, 1, 1)


def test_circular_padding_is_contiguous():
    x = tt.randn(2, 3, 4, 5).to(memory_format=tt.channels_last)
    padded = tt.nn.CircularPad3d(1)(x)
    assert padded.is_contiguous() and tt.equal(padded, tt.nn.CircularPad3d(1)(x.contiguous()))


@pytest.mark.parametrize(
    "layer",
    [
        lambda n: nn.Conv2d(n(2), n(4), n(3), n(1), n(1), groups=n(2)),
        lambda n: nn.ConvTranspose2d(n(2), n(4), n(2)),
        lambda n: nn.MaxPool2d(n(2), n(2)),
        lambda n: nn.AdaptiveAvgPool2d(n(2)),
        lambda n: nn.FractionalMaxPool2d(n(2), n(3)),
        lambda n: nn.ZeroPad2d(n(1)),
        lambda n: nn.LayerNorm(n(6)),
        lambda n: nn.RMSNorm(n(6)),
        lambda n: nn.Upsample(n(8)),
    ],
)
def test_sizes_may_be_integers_of_numpy(layer):
    x = tt.randn(1, 2, 6, 6)
    assert layer(np.int64)(x).shape == layer(int)(x).shape


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_transposed_convolution_takes_the_size_of_an_unbatched_output(rank: int) -> None:
    layer = getattr(tt.nn, f"ConvTranspose{rank}d")(3, 2, 3, stride=2)
    x = tt.ones(3, *[5] * rank)
    assert layer(x, output_size=(2, *[12] * rank)).shape == (2, *[12] * rank)
    with pytest.raises(
        ValueError, match=f"for {rank + 1}D input, output_size must have {rank} or {rank + 1} elements"
    ):
        layer(x, output_size=(1, 2, *[12] * rank))
