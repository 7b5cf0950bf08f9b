"""Layers: each is its function of its options, prints as PyTorch's does, and has PyTorch's signature."""

import inspect

import pytest

import triten as tt
import triten.nn.functional as F

nn = tt.nn

LAYERS = {
    "CELU": ((2.0,), lambda x: F.celu(x, 2.0)),
    "ELU": ((0.5,), lambda x: F.elu(x, 0.5)),
    "GELU": (("tanh",), lambda x: F.gelu(x, approximate="tanh")),
    "GLU": ((1,), lambda x: F.glu(x, 1)),
    "Hardshrink": ((0.3,), lambda x: F.hardshrink(x, 0.3)),
    "Hardsigmoid": ((), F.hardsigmoid),
    "Hardswish": ((), F.hardswish),
    "Hardtanh": ((-0.5, 0.25), lambda x: x.clamp(-0.5, 0.25)),
    "Identity": ((1, 2), lambda x: x),
    "LeakyReLU": ((0.2,), lambda x: F.leaky_relu(x, 0.2)),
    "LogSigmoid": ((), F.logsigmoid),
    "LogSoftmax": ((1,), lambda x: F.log_softmax(x, 1)),
    "Mish": ((), F.mish),
    "ReLU": ((), F.relu),
    "ReLU6": ((), F.relu6),
    "SELU": ((), F.selu),
    "SiLU": ((), F.silu),
    "Sigmoid": ((), tt.sigmoid),
    "Softmax": ((0,), lambda x: F.softmax(x, 0)),
    "Softmin": ((1,), lambda x: F.softmin(x, 1)),
    "Softplus": ((2.0, 1.0), lambda x: F.softplus(x, 2.0, 1.0)),
    "Softshrink": ((0.4,), lambda x: F.softshrink(x, 0.4)),
    "Softsign": ((), F.softsign),
    "Tanh": ((), tt.tanh),
    "Tanhshrink": ((), F.tanhshrink),
    "Threshold": ((0.1, 20.0), lambda x: F.threshold(x, 0.1, 20.0)),
    "Flatten": ((0,), lambda x: x.reshape(-1)),
    "Unflatten": ((1, (2, 3)), lambda x: x.reshape(4, 2, 3)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_its_function(name):
    arguments, function = LAYERS[name]
    layer = getattr(nn, name)(*arguments)
    x = tt.randn(4, 6)
    assert tt.equal(layer(x), function(x))
    assert list(layer.state_dict()) == []


@pytest.mark.parametrize("name", sorted(LAYERS.keys() - {"Identity"}))
def test_an_unknown_argument_is_refused(name):
    arguments, _ = LAYERS[name]
    with pytest.raises(TypeError, match="unexpected keyword argument 'unknown'"):
        getattr(nn, name)(*arguments, unknown=1)


@pytest.mark.parametrize("name", ["ReLU", "ELU", "LeakyReLU", "SiLU", "Hardtanh", "Mish", "Threshold"])
def test_in_place_layers_write_their_input(name):
    arguments, function = LAYERS[name]
    layer = getattr(nn, name)(*arguments, inplace=True)
    x = tt.randn(4, 6)
    expected = function(x.clone())
    assert layer(x) is x and tt.equal(x, expected) and "inplace=True" in repr(layer)


@pytest.mark.parametrize(
    "name", [*LAYERS, "Linear", "Embedding", "Dropout", "PReLU", "Softmax2d", "PixelShuffle"]
)
def test_signatures_and_text_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    ours, theirs = getattr(nn, name), getattr(torch.nn, name)
    arguments, _ = LAYERS.get(name, ((), None))
    arguments = arguments or {"Linear": (3, 4), "Embedding": (5, 2, 1), "PixelShuffle": (2,)}.get(name, ())
    assert repr(ours(*arguments)) == repr(theirs(*arguments))
    wanted = [p for p in inspect.signature(theirs).parameters if p not in ("min_value", "max_value")]
    have = list(inspect.signature(ours).parameters)
    assert have == wanted or set(wanted) == {"args", "kwargs"}


def test_linear_and_its_first_values():
    tt.manual_seed(0)
    layer = nn.Linear(100, 50)
    assert layer.weight.shape == (50, 100) and layer.weight.abs().max().item() <= 0.1
    assert layer.weight.abs().max().item() > 0.09 and layer.bias.abs().max().item() <= 0.1
    x = tt.randn(2, 3, 100)
    assert tt.equal(layer(x), F.linear(x, layer.weight, layer.bias))
    bare = nn.Linear(2, 3, bias=False, dtype=tt.float64)
    assert bare.bias is None and [n for n, _ in bare.named_parameters()] == ["weight"]
    assert bare.weight.dtype is tt.float64 and repr(bare).endswith("bias=False)")
    assert nn.Linear(0, 3)(tt.ones(2, 0)).shape == (2, 3)


def test_dropout_follows_the_mode():
    layer, x = nn.Dropout(0.5), tt.ones(1000)
    tt.manual_seed(1)
    kept = layer(x)
    assert set(kept.tolist()) == {0.0, 2.0} and 400 < (kept == 0).sum().item() < 600
    assert tt.equal(layer.eval()(x), x)
    with pytest.raises(ValueError, match=r"between 0 and 1, but got 1\.5"):
        nn.Dropout(1.5)


def test_embeddings_look_rows_up():
    layer = nn.Embedding(5, 3, padding_idx=-1)
    assert layer.padding_idx == 4 and layer.weight[4].tolist() == [0.0] * 3
    out = layer(tt.tensor([[0, 4]]))
    out.sum().backward()
    assert tt.equal(out[0, 0], layer.weight[0]) and layer.weight.grad.sum(1).tolist() == [3, 0, 0, 0, 0]
    frozen = nn.Embedding.from_pretrained(tt.ones(2, 2))
    assert not frozen.weight.requires_grad and frozen(tt.tensor(1)).tolist() == [1.0, 1.0]
    for arguments in ((5, 3, 5), (5, 3, -6)):
        with pytest.raises(AssertionError, match="within num_embeddings"):
            nn.Embedding(*arguments)
    with pytest.raises(AssertionError, match="2-dimensional"):
        nn.Embedding.from_pretrained(tt.ones(2))


def test_layers_refuse_what_their_functions_cannot_take():
    with pytest.raises(ValueError, match="expected input to be 3D or 4D"):
        nn.Softmax2d()(tt.ones(2, 2))
    with pytest.raises(AssertionError, match="must be greater"):
        nn.Hardtanh(1.0, 0.0)
    with pytest.raises(TypeError, match="tuple of ints"):
        nn.Unflatten(0, "ab")
    assert nn.PReLU(3)(-tt.ones(2, 3)).tolist() == [[-0.25] * 3] * 2


def test_inverted_residuals_with_activations_in_place_train():
    def block(channels, made, stride, expansion):
        hidden = channels * expansion
        return nn.Sequential(
            nn.Conv2d(channels, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, made, 1, bias=False),
            nn.BatchNorm2d(made),
        )

    model = nn.Sequential(block(3, 4, 2, 2), block(4, 4, 1, 3), nn.Flatten(), nn.Linear(4 * 16, 5))
    with tt.no_grad():
        for number, parameter in enumerate(model.parameters()):
            values = tt.sin(tt.arange(parameter.numel(), dtype=tt.float32) * 0.7 + number)
            parameter.copy_(values.reshape(parameter.shape) * 0.5 + 0.1)
    optimizer = tt.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x = tt.sin(tt.arange(2 * 3 * 64, dtype=tt.float32) * 0.37).reshape(2, 3, 8, 8)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), tt.tensor([1, 3]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == pytest.approx([1.7576, 1.0669], abs=2e-3)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 9])
def test_cross_map_normalization_sums_squares_of_near_channels(size):
    x = tt.randn(2, 6, 2, 3, dtype=tt.float64, requires_grad=True)
    reach = (size - 1) // 2 + 1
    squares = x.detach().square()
    sums = tt.zeros_like(squares)
    for channel in range(6):
        near = {0, *range(max(channel - reach + 1, 0), min(channel + reach, 6))}
        sums[:, channel] = squares[:, sorted(near)].sum(1)
    layer = nn.CrossMapLRN2d(size, alpha=0.3, beta=0.6, k=2)
    tt.testing.assert_close(layer(x).detach(), x.detach() / (2 + 0.3 / size * sums) ** 0.6)
    assert tt.autograd.gradcheck(layer, (x,))
    assert repr(layer) == f"CrossMapLRN2d({size}, alpha=0.3, beta=0.6, k=2)"
    with pytest.raises(ValueError, match="4D, got 3D"):
        layer(x[0])


@pytest.mark.parametrize("shape", [(4, 5, 2, 2), (5, 2, 2)])
def test_instance_norm_checks_the_number_of_channels(shape: tuple[int, ...]) -> None:
    dim = len(shape) - 3
    with pytest.raises(ValueError, match=rf"size at dim={dim} to match num_features \(3\), but got: 5"):
        tt.nn.InstanceNorm2d(3, affine=True)(tt.ones(shape))
    with pytest.warns(UserWarning, match=f"size at dim={dim} does not match num_features"):
        assert tt.nn.InstanceNorm2d(3)(tt.ones(shape)).shape == shape
