"""Parameters computed from others: functions registered by users, norms, orthogonal matrices, the hooks of old."""

import copy

import numpy as np
import pytest

import triten as tt

nn, parametrize, made = tt.nn, tt.nn.utils.parametrize, tt.nn.utils.parametrizations


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x):
        return x.triu()


class Doubled(nn.Module):
    calls = 0

    def forward(self, x):
        type(self).calls += 1
        return x * 2

    def right_inverse(self, x):
        return x / 2


class Product(nn.Module):
    def forward(self, a, b):
        return a @ b

    def right_inverse(self, x):
        return x, tt.eye(x.shape[-1])


class Wider(nn.Module):
    def forward(self, x):
        return tt.cat([x, x])


def test_a_function_of_a_parameter():
    layer = nn.Linear(3, 3)
    before = layer.weight
    assert parametrize.register_parametrization(layer, "weight", Symmetric()) is layer
    assert tt.equal(layer.weight, before.triu() + before.triu(1).mT)
    assert layer.parametrizations.weight.original is before and isinstance(layer, nn.Linear)
    assert (
        type(layer).__name__ == "ParametrizedLinear"
        and parametrize.type_before_parametrizations(layer) is nn.Linear
    )
    assert sorted(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    layer(tt.ones(2, 3)).sum().backward()
    assert before.grad is not None and before.grad.tril(-1).abs().max() == 0
    layer.weight = tt.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]])
    assert before.tolist() == [[1, 2, 3], [0, 4, 5], [0, 0, 6]] and layer.weight[1, 0].item() == 2


def test_two_functions_several_originals_and_removal():
    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Doubled())
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert len(layer.parametrizations.weight) == 2 and parametrize.is_parametrized(layer, "weight")
    layer.weight = tt.tensor([[2.0, 4.0], [4.0, 8.0]])
    assert layer.parametrizations.weight.original.tolist() == [[1, 2], [0, 4]]
    parametrize.register_parametrization(layer, "bias", Doubled())
    kept = layer.weight.detach()
    parametrize.remove_parametrizations(layer, "weight")
    assert tt.equal(layer.weight, kept) and isinstance(layer.weight, nn.Parameter)
    assert parametrize.is_parametrized(layer) and not parametrize.is_parametrized(layer, "weight")
    original = layer.parametrizations.bias.original.detach().clone()
    parametrize.remove_parametrizations(layer, "bias", leave_parametrized=False)
    assert tt.equal(layer.bias, original) and type(layer) is nn.Linear
    layer = parametrize.register_parametrization(nn.Linear(2, 3), "weight", Product())
    names = [name for name, _ in layer.named_parameters()]
    assert names == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    with pytest.raises(ValueError, match="sequence of tensors"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    layer.weight = tt.ones(3, 2)
    assert layer.weight.tolist() == [[1, 1]] * 3


def test_buffers_copies_and_the_cache():
    norm = nn.BatchNorm1d(2)
    parametrize.register_parametrization(norm, "running_mean", Doubled())
    norm.running_mean = tt.tensor([2.0, 4.0])
    assert [name for name, _ in norm.named_buffers()][-1] == "parametrizations.running_mean.original"
    other = copy.deepcopy(norm)
    other.running_mean = tt.tensor([6.0, 6.0])
    assert norm.running_mean.tolist() == [2, 4] and other.running_mean.tolist() == [6, 6]
    Doubled.calls = 0
    with parametrize.cached():
        with parametrize.cached():
            assert norm.running_mean is norm.running_mean
        assert other.running_mean is not norm.running_mean and Doubled.calls == 2
    _ = norm.running_mean
    assert Doubled.calls == 3
    with pytest.raises(RuntimeError, match="state_dict"):
        norm.__getstate__()
    plain = parametrize.transfer_parametrizations_and_params(
        made.weight_norm(nn.Linear(2, 2)), nn.Linear(2, 2)
    )
    assert parametrize.is_parametrized(plain, "weight")


class Inverse(nn.Module):
    """A parametrization whose inverse is of another kind."""

    def __init__(self, inverse):
        super().__init__()
        self.inverse = inverse

    def forward(self, x):
        return x

    def right_inverse(self, x):
        return self.inverse(x)


def test_inverses_keep_dtype_and_shape():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Doubled())
    for inverse, kind in ((tt.Tensor.bool, "dtype"), (lambda x: x[:1], "shape")):
        message = (
            f"right_inverse must have the same {kind} as module.weight, unless the `unsafe` flag is enabled"
        )
        with pytest.raises(ValueError, match=message):
            parametrize.register_parametrization(layer, "weight", Inverse(inverse))
    with pytest.raises(ValueError, match=r"right_inverse must return a tensor\. Got: int"):
        parametrize.register_parametrization(layer, "weight", Inverse(lambda x: 1))
    with pytest.raises(ValueError, match=r"unless the `unsafe` flag is enabled\.\nmodule\.weight\.shape"):
        parametrize.register_parametrization(layer, "weight", Wider())
    assert len(layer.parametrizations.weight) == 1


def test_refusals():
    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="does not have a parameter"):
        parametrize.register_parametrization(layer, "w", Doubled())
    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(layer, "weight", Wider())
    assert type(layer) is nn.Linear and layer.weight.shape == (2, 2)
    parametrize.register_parametrization(layer, "weight", Wider(), unsafe=True)
    assert layer.weight.shape == (4, 2)
    with pytest.raises(RuntimeError, match="Wider does not implement right_inverse"):
        layer.weight = tt.ones(4, 2)
    with pytest.raises(ValueError, match="does not have a parametrization on bias"):
        parametrize.remove_parametrizations(layer, "bias")
    with pytest.raises(ValueError, match="has no parameter or buffer with name 'w'"):
        made.weight_norm(layer, "w")


@pytest.mark.parametrize("hooks", [False, True])
@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(hooks, dim):
    layer = nn.Conv1d(3, 2, 4)
    before = layer.weight.detach().clone()
    (nn.utils if hooks else made).weight_norm(layer, dim=dim)
    magnitude = layer.weight_g if hooks else layer.parametrizations.weight.original0
    others = tuple(d for d in range(3) if d != dim)
    expected = (
        np.sqrt((before.numpy() ** 2).sum(others, keepdims=True))
        if dim is not None
        else before.norm().numpy()
    )
    np.testing.assert_allclose(magnitude.detach().numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(layer.weight.detach().numpy(), before.numpy(), rtol=1e-6)
    magnitude.data.mul_(2)
    x = tt.randn(1, 3, 5)
    np.testing.assert_allclose(
        layer(x).detach().numpy(), nn.functional.conv1d(x, before * 2, layer.bias).detach().numpy(), atol=1e-5
    )
    layer(x).sum().backward()
    assert magnitude.grad.shape == magnitude.shape
    if hooks:
        with pytest.raises(RuntimeError, match="two weight_norm hooks"):
            nn.utils.weight_norm(layer)
        nn.utils.remove_weight_norm(layer)
        assert not layer._forward_pre_hooks and isinstance(layer.weight, nn.Parameter)
        with pytest.raises(ValueError, match="weight_norm of 'weight' not found"):
            nn.utils.remove_weight_norm(layer)


def test_states_of_the_weight_norm_of_old_are_read():
    old, new = nn.utils.weight_norm(nn.Linear(3, 2)), made.weight_norm(nn.Linear(3, 2))
    new.load_state_dict(old.state_dict())
    assert tt.allclose(new.weight, old.weight)


@pytest.mark.parametrize("hooks", [False, True])
@pytest.mark.parametrize("make", [lambda: nn.Linear(4, 3), lambda: nn.ConvTranspose2d(2, 3, 2)])
def test_spectral_norm(hooks, make):
    layer = make()
    before = layer.weight.detach().clone()
    (nn.utils if hooks else made).spectral_norm(layer, n_power_iterations=60)
    x = tt.randn(1, 4) if before.ndim == 2 else tt.randn(1, 2, 3, 3)
    layer(x)
    matrix = before.numpy() if before.ndim == 2 else before.numpy().swapaxes(0, 1).reshape(3, -1)
    largest = np.linalg.svd(matrix, compute_uv=False)[0]
    np.testing.assert_allclose(layer.weight.detach().numpy(), before.numpy() / largest, atol=1e-4)
    layer.eval()
    first = layer(x)
    assert tt.equal(layer(x), first)
    first.sum().backward()
    if hooks:
        assert layer.weight_orig.grad is not None and sorted(layer.state_dict())[1:] == [
            "weight_orig", "weight_u", "weight_v",
        ]  # fmt: skip
        nn.utils.remove_spectral_norm(layer)
        np.testing.assert_allclose(layer.weight.detach().numpy(), before.numpy() / largest, atol=1e-4)
    for options, error in (({"n_power_iterations": 0}, ValueError), ({"dim": 9}, IndexError)):
        with pytest.raises(error):
            made.spectral_norm(make(), **options)


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("sizes", [(4, 4), (3, 5), (5, 3)])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal(kind, sizes, trivial):
    layer = nn.Linear(*sizes, bias=False, dtype=tt.float64)
    made.orthogonal(layer, orthogonal_map=kind, use_trivialization=trivial)

    def check(w):
        w = w if w.shape[0] >= w.shape[1] else w.mT
        np.testing.assert_allclose((w.mT @ w).detach().numpy(), np.eye(w.shape[1]), atol=1e-12)

    check(layer.weight)
    optimizer = tt.optim.SGD(layer.parameters(), lr=0.1)
    layer(tt.randn(2, sizes[0], dtype=tt.float64)).square().sum().backward()
    optimizer.step()
    check(layer.weight)
    target = nn.init.orthogonal_(tt.empty(sizes[1], sizes[0], dtype=tt.float64))
    if trivial or kind == "householder":
        layer.weight = target
        check(layer.weight)
        if trivial is False or sizes[0] == sizes[1]:
            np.testing.assert_allclose(abs(layer.weight.detach().numpy()), abs(target.numpy()), atol=1e-12)
    else:
        with pytest.raises(NotImplementedError, match="use_trivialization=False"):
            layer.weight = target
    with pytest.raises(ValueError, match="orthogonal_map has to be one of"):
        made.orthogonal(nn.Linear(2, 2), orthogonal_map="qr")
    with pytest.raises(ValueError, match="of 1 dimensions"):
        made.orthogonal(nn.Linear(2, 2), "bias")


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_norms_are_folded_into_layers(affine, bias):
    def norm(kind, features):
        found = kind(features, affine=affine)
        for each in (*found.parameters(), found.running_mean, found.running_var):
            each.detach().copy_(tt.rand(features) + 0.5)
        return found.eval()

    conv, turned = (
        nn.Conv2d(2, 4, 3, bias=bias, groups=2).eval(),
        nn.ConvTranspose2d(3, 4, 2, bias=bias).eval(),
    )
    linear = nn.Linear(3, 4, bias=bias).eval()
    for layer, after, x, options in (
        (conv, norm(nn.BatchNorm2d, 4), tt.randn(2, 2, 5, 5), {}),
        (turned, norm(nn.BatchNorm2d, 4), tt.randn(2, 3, 4, 4), {"transpose": True}),
        (linear, norm(nn.BatchNorm1d, 4), tt.randn(5, 3), None),
    ):
        fused = (
            nn.utils.fuse_linear_bn_eval(layer, after)
            if options is None
            else nn.utils.fuse_conv_bn_eval(layer, after, **options)
        )
        np.testing.assert_allclose(fused(x).detach().numpy(), after(layer(x)).detach().numpy(), atol=1e-5)
        assert fused is not layer and isinstance(fused.bias, nn.Parameter)
    with pytest.raises(AssertionError, match="only for eval"):
        nn.utils.fuse_conv_bn_eval(conv.train(), norm(nn.BatchNorm2d, 4))
    with pytest.raises(AssertionError, match="To fuse"):
        nn.utils.fuse_linear_bn_eval(linear, norm(nn.BatchNorm1d, 3))


def test_construction():
    layer = nn.utils.skip_init(nn.Conv2d, 2, 3, 3, dtype=tt.float64)
    assert layer.weight.device.type == "cpu" and layer.weight.dtype is tt.float64
    nn.utils.convert_conv2d_weight_memory_format(nn.Sequential(layer), tt.channels_last)
    assert layer.weight.stride() == (18, 1, 6, 2)
    with pytest.raises(RuntimeError, match="Expected a Module"):
        nn.utils.skip_init(len)
    with pytest.raises(RuntimeError, match="'device' arg"):
        nn.utils.skip_init(nn.ReLU)
