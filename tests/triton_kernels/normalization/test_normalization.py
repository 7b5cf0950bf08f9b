"""layer_norm, rms_norm, batch_norm and group_norm on the device against float64 on the host, forward and backward."""

import math

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels.normalization import channel_norm, group_norm, row_norm

F = tt.nn.functional
aten = tt.ops.aten
FLOATS = [tt.float64, tt.float32, tt.bfloat16, tt.float16]
ROUNDING = {tt.float64: 2.0**-53, tt.float32: 2.0**-24, tt.bfloat16: 2.0**-8, tt.float16: 2.0**-11}


@pytest.fixture(params=["whole rows", "rows in blocks"])
def tiles(request, monkeypatch):
    """Run both bodies of the programs, the second with small blocks and in several parts."""
    if request.param == "rows in blocks":
        monkeypatch.setattr(row_norm, "INTERPRETED_ROW", 32)
        monkeypatch.setattr(channel_norm, "INTERPRETED_BLOCK", 64)
        monkeypatch.setattr(group_norm, "INTERPRETED_GROUP", 0)
    return request.param


def check(rng, function, *operands, tolerance=64):
    """Compare results and gradients on the device with float64, within roundings of the operands' dtype."""
    wide = [t.to(tt.float64).clone().requires_grad_() for t in operands]
    expected = function(*wide)
    change = tt.from_numpy(rng.standard_normal(expected.shape)).to(operands[0].dtype)
    expected.backward(change.to(tt.float64))
    leaves = [t.detach().to("cuda").requires_grad_() for t in operands]
    got = function(*leaves)
    assert got.is_cuda and got.dtype is operands[0].dtype
    got.backward(change.to("cuda"))
    pairs = [(got, expected), *((a.grad, b.grad) for a, b in zip(leaves, wide, strict=True))]
    bound = tolerance * ROUNDING[operands[0].dtype]
    for place, (a, b) in enumerate(pairs):
        scale = max(1.0, float(b.detach().abs().max().item())) if b.numel() else 1.0
        values = a.detach().cpu().to(tt.float64).numpy()
        np.testing.assert_allclose(values, b.detach().numpy(), rtol=0, atol=bound * scale, err_msg=f"{place}")
    return got


def tensor(rng, *sizes, dtype=tt.float32, shift=0.5):
    return tt.from_numpy(rng.standard_normal(sizes) * 2 + shift).to(dtype)


ROWS = [(1, 1), (2, 3, 17), (5, 64), (2, 131), (37, 3), (0, 4)]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_rows(rng, tiles, dtype):
    in_blocks = tiles == "rows in blocks"
    if in_blocks and dtype is tt.float16:
        pytest.skip("bfloat16 takes this body")
    for i, sizes in enumerate(ROWS[2:5] if in_blocks else ROWS):
        n = sizes[-1] + (tiles == "rows in blocks")  # Plans are kept by shape.
        x = tensor(rng, *sizes[:-1], n, dtype=dtype)
        w, b = tensor(rng, n, dtype=dtype), tensor(rng, n, dtype=dtype)
        check(rng, lambda x, w, b, n=n: F.layer_norm(x, [n], w, b, 0.1), x, w, b)
        check(rng, lambda x, w, n=n: F.rms_norm(x, [n], w, 0.1), x, w)
        if i % 3 == 2:
            check(rng, lambda x, n=n: F.layer_norm(x, [n], None, None, 0.1), x)
            check(rng, lambda x, w, n=n: F.layer_norm(x, [n], w, None, 0.1), x, w)
            check(rng, lambda x, n=n: F.rms_norm(x, [n], None, 0.1), x)


def test_any_strides_and_several_dimensions(rng, tiles):
    n = 6 + 2 * (tiles == "rows in blocks")
    x, w = tensor(rng, 4, n, 6), tensor(rng, 2 * n)
    for view in (
        lambda x: x.transpose(0, 2),
        lambda x: x[::2, :, 1:5],
        lambda x: x[:, :1].expand(4, 5, 6),
        lambda x: x[:, 1::2],
    ):
        shape = view(x).shape
        check(rng, lambda x, v=view, s=shape: F.layer_norm(v(x), s[-1:], None, None, 0.1), x)
        check(rng, lambda x, v=view, s=shape: F.rms_norm(v(x), s[-2:], None, 0.1), x)
    check(rng, lambda x, w: F.layer_norm(x.permute(2, 0, 1), [n], w[::2], w[1::2], 0.1), x, w)


def test_rows_far_apart_start_beyond_32_bits(rng, monkeypatch):
    monkeypatch.setattr("triten.triton_kernels.launch.INT32_MAX", 40)
    x, w = tensor(rng, 7, 13), tensor(rng, 13)
    check(rng, lambda x, w: F.layer_norm(x, [13], w, w, 0.1), x, w)
    check(rng, lambda x, w: F.batch_norm(x, None, None, w, w, True, eps=0.1), x, w)
    check(rng, lambda x, w: F.group_norm(x[:, :, None], 1, w, w, 0.1), x, w)


@pytest.mark.parametrize("dtype", [tt.bfloat16, tt.float16], ids=lambda d: d.name)
def test_narrow_inputs_with_float32_weights(rng, dtype):
    x, w = tensor(rng, 3, 20, dtype=dtype), tensor(rng, 20)
    for function in (
        lambda x, w: F.layer_norm(x, [20], w, w, 0.1),
        lambda x, w: F.rms_norm(x, [20], w, 0.1),
        lambda x, w: F.batch_norm(x, None, None, w, w, True, eps=0.1),
        lambda x, w: F.group_norm(x, 2, w, w, 0.1),
    ):
        check(rng, function, x, w)
    _, mean, rstd = tt.native_layer_norm(x.to("cuda"), [20], None, None, 1e-5)
    assert mean.dtype is tt.float32 and rstd.dtype is tt.float32


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_spoils_what_it_does_on_the_host(same, tiles, value):
    for place in range(2):
        x = tt.arange(60.0).reshape(3, 2, 10) if tiles == "whole rows" else tt.arange(240.0).reshape(3, 2, 40)
        x[1, 1, place * 9] = value
        n = x.shape[2]
        for function in (
            lambda x, n=n: F.layer_norm(x, [n]),
            lambda x, n=n: F.rms_norm(x, [n]),
            lambda x: F.batch_norm(x, None, None, training=True),
            lambda x: F.group_norm(x, 2),
        ):
            same(function(x.to("cuda")), function(x), 2e-5)


def test_numbers_far_from_zero_keep_their_variance(rng, tiles):
    n = 300 + (tiles == "rows in blocks")
    x = tensor(rng, 2, n, shift=4096.0)
    for function in (
        lambda x: F.layer_norm(x, [n]),
        lambda x: F.group_norm(x[:, :, None], 1),
        lambda x: F.batch_norm(x.t(), None, None, training=True),
    ):
        got = function(x.to("cuda")).cpu().to(tt.float64)
        expected = function(x.to(tt.float64))
        np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=2e-3)


def test_rows_of_nothing(same):
    for make in (
        lambda d: tt.native_layer_norm(tt.ones(3, 0, device=d), [0], None, None, 1e-5),
        lambda d: tt.native_layer_norm(tt.ones(0, 4, device=d), [4], tt.ones(4, device=d), None, 1e-5),
    ):
        for got, expected in zip(make("cuda"), make("cpu"), strict=True):
            same(got, expected)
    w = tt.ones(4, device="cuda", requires_grad=True)
    F.layer_norm(tt.ones(0, 4, device="cuda"), [4], w, w).sum().backward()
    assert w.grad.tolist() == [0.0] * 4
    assert F.group_norm(tt.ones(0, 4, 2, device="cuda"), 2).shape == (0, 4, 2)


IMAGES = [(5, 6), (3, 6, 1), (2, 6, 7), (3, 6, 4, 5), (2, 6, 2, 3, 4)]


def formats(x):
    yield x
    if x.ndim in (4, 5):
        yield x.contiguous(memory_format=tt.channels_last if x.ndim == 4 else tt.channels_last_3d)
        yield x.permute(*range(x.ndim - 1, -1, -1)).contiguous().permute(*range(x.ndim - 1, -1, -1))


@pytest.mark.parametrize("dtype", [tt.float64, tt.float32, tt.bfloat16], ids=lambda d: d.name)
def test_channels(rng, tiles, dtype):
    in_blocks = tiles == "rows in blocks"
    if in_blocks and dtype is not tt.float32:
        pytest.skip("the blocks of one dtype are as good as those of another")
    for sizes in IMAGES[3:4] if in_blocks else IMAGES if dtype is tt.float32 else IMAGES[::3]:
        sizes = (sizes[0] + 2 * in_blocks, *sizes[1:])
        w, b = tensor(rng, 6, dtype=dtype), tensor(rng, 6, dtype=dtype)
        var = b * b + 1
        for x in formats(tensor(rng, *sizes, dtype=dtype)):
            got = check(rng, lambda x, w, b: F.batch_norm(x, None, None, w, b, True, eps=0.1), x, w, b)
            assert got.stride() == F.batch_norm(x, None, None, training=True).stride()
            check(rng, lambda x, w: F.group_norm(x, 2, w, None, 0.1), x, w)
        check(rng, lambda x, b: F.batch_norm(x, None, None, None, b, True, eps=0.1), x, b)
        check(
            rng,
            lambda x, w, b, v=var: F.batch_norm(
                x, w.detach().to(x.dtype), v.to(device=x.device, dtype=x.dtype), w, b, eps=0.1
            ),
            *(x, w, b),
        )
        for groups in (1, 6) if len(sizes) > 2 and sizes[2] > 1 else (1,):
            check(rng, lambda x, w, b, g=groups: F.group_norm(x, g, w, b, 0.1), x, w, b)
            check(rng, lambda x, g=groups: F.group_norm(x, g, None, None, 0.1), x)


def test_running_statistics(rng, same, tiles):
    for x in formats(tensor(rng, 3 + (tiles == "rows in blocks"), 6, 4, 5)):
        results = []
        for device in ("cuda", "cpu"):
            mean, var = (t.to(device) for t in (tt.arange(6.0), tt.arange(6.0) + 1))
            out = F.batch_norm(x.to(device), mean, var, training=True, momentum=0.25)
            # Statistics that are strided are written where they lie.
            wide = tt.zeros(6, 2, device=device)
            F.batch_norm(x.to(device), wide[:, 0], wide[:, 1], training=True)
            results.append((out, mean, var, wide))
        for got, expected in zip(*results, strict=True):
            same(got, expected, 3e-6)


def test_results_do_not_depend_on_the_run(rng):
    x = tensor(rng, 40, 300).to("cuda")
    w = tensor(rng, 300).to("cuda").requires_grad_()
    seen = set()
    for _ in range(3):
        y = F.layer_norm(x.detach().requires_grad_(), [300], w)
        (gradient,) = tt.autograd.grad(y, w, tt.ones_like(y))
        seen.add(gradient.cpu().numpy().tobytes())
    assert len(seen) == 1


def test_one_pass_over_gradient_and_input_gives_all_three_gradients(rng, launches):
    """Count one launch for forward; for backward one, and one for each sum over the programs' parts."""
    x, w = tensor(rng, 4, 16).to("cuda"), tensor(rng, 16).to("cuda")
    before = launches.count
    y, mean, rstd = tt.native_layer_norm(x, [16], w, w, 1e-5)
    assert launches.count - before == 1
    before = launches.count
    aten.native_layer_norm_backward(y, x, [16], mean, rstd, w, w, [True, True, True])
    assert launches.count - before <= 3


def test_a_group_that_fits_is_read_once_in_any_layout(rng, launches):
    """Count one launch for forward; for backward one, and one for each sum over samples, without copies."""
    w = tensor(rng, 6).to("cuda")
    images = [x.to("cuda") for x in formats(tensor(rng, 3, 6, 2, 5))][:2]
    for x in (*images, tensor(rng, 3, 10, 6).to("cuda").transpose(1, 2)):
        before = launches.count
        y, mean, rstd = tt.native_group_norm(x, w, w, 3, 6, x.numel() // 18, 2, 1e-5)
        assert launches.count - before == 1
        before = launches.count
        aten.native_group_norm_backward(y, x, mean, rstd, w, 3, 6, x.numel() // 18, 2, [True] * 3)
        assert launches.count - before == 3


def test_integers_are_refused():
    with pytest.raises(NotImplementedError, match="LayerNormKernelImpl"):
        F.layer_norm(tt.zeros(3, 4, dtype=tt.int64, device="cuda"), [4])
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        F.layer_norm(tt.zeros(3, 4, device="cuda"), [4], tt.ones(4))
