"""The parts of a batch norm over several batches: together they are a batch norm of all of them."""

import pytest

import triten as tt

RELATIVE = {tt.float32: 1e-5, tt.float64: 1e-12, tt.float16: 4e-3, tt.bfloat16: 4e-2}


def close(one, other, dtype):
    return tt.allclose(one.double(), other.double(), rtol=RELATIVE[dtype], atol=RELATIVE[dtype])


@pytest.mark.parametrize("dtype", RELATIVE)
@pytest.mark.parametrize("sizes", [(3, 5), (2, 4)])
@pytest.mark.parametrize("affine", [True, False])
def test_parts_together_are_a_batch_norm(device, dtype, sizes, affine):
    tt.manual_seed(0)
    eps, momentum = 1e-5, 0.3
    x = (tt.randn(sum(sizes), 3, 2, 2, device=device) * 2 + 5).to(dtype)
    weight, bias = (tt.randn(3, device=device) if affine else None for _ in range(2))
    grad = tt.randn(*x.shape, device=device).to(dtype)
    running_mean, running_var = tt.ones(3, device=device), tt.full((3,), 2.0, device=device)

    wide = x.double().clone().requires_grad_()
    factors = [None if each is None else each.double().requires_grad_() for each in (weight, bias)]
    expected_mean, expected_var = running_mean.double(), running_var.double()
    expected = tt.nn.functional.batch_norm(wide, expected_mean, expected_var, *factors, True, momentum, eps)
    expected.backward(grad.double())

    batches, gradients = x.split(sizes), grad.split(sizes)
    found = [tt.batch_norm_stats(batch, eps) for batch in batches]
    counts = tt.tensor([4.0 * n for n in sizes], device=device)
    mean, invstd = tt.batch_norm_gather_stats_with_counts(
        x,
        tt.stack([each[0] for each in found]),
        tt.stack([each[1] for each in found]),
        running_mean,
        running_var,
        momentum,
        eps,
        counts,
    )
    kind = tt.float32 if dtype in (tt.float16, tt.bfloat16) else dtype
    assert mean.dtype is invstd.dtype is kind
    assert close(running_mean, expected_mean, tt.float32) and close(running_var, expected_var, tt.float32)
    out = tt.cat([tt.batch_norm_elemt(batch, weight, bias, mean, invstd, eps) for batch in batches])
    assert out.dtype is dtype and close(out, expected, dtype)

    sums = [
        tt.batch_norm_backward_reduce(one, batch, mean, invstd, weight, True, affine, affine)
        for one, batch in zip(gradients, batches, strict=True)
    ]
    sum_dy, sum_dy_xmu = (sum(each[i] for each in sums) for i in range(2))
    if affine:
        for place, factor in enumerate(factors):
            kept = tt.float32 if dtype is tt.float64 else dtype  # a gradient has the dtype of its weight
            assert close(sum(each[2 + place] for each in sums), factor.grad, kept)
    grad_input = tt.cat(
        [
            tt.batch_norm_backward_elemt(one, batch, mean, invstd, weight, sum_dy, sum_dy_xmu, counts.int())
            for one, batch in zip(gradients, batches, strict=True)
        ]
    )
    assert grad_input.dtype is dtype and close(grad_input, wide.grad, dtype)


def test_batches_of_one_size(device):
    x = tt.randn(4, 2, 3, device=device)
    found = [tt.batch_norm_stats(batch, 1e-3) for batch in x.split(2)]
    mean, invstd = (tt.stack(each) for each in zip(*found, strict=True))
    together = tt.batch_norm_gather_stats(x, mean, invstd, None, None, 0.1, 1e-3, 6)
    assert all(map(tt.allclose, together, tt.batch_norm_stats(x, 1e-3)))


def test_running_statistics_move(device):
    x = tt.tensor([[1.0, 0.0], [3.0, 4.0], [5.0, 5.0]], device=device)
    running_mean, running_var = tt.zeros(2, device=device), tt.ones(2, device=device)
    mean, var = tt.batch_norm_update_stats(x, running_mean, running_var, 0.1)
    assert mean.tolist() == [3.0, 3.0] and var.tolist() == pytest.approx([8 / 3, 14 / 3])
    assert running_mean.tolist() == pytest.approx([0.3, 0.3])
    assert running_var.tolist() == pytest.approx([1.3, 1.6])
    half = tt.batch_norm_update_stats(x.half(), None, None, 0.1)[1]
    assert half.dtype is (tt.float16 if device == "cpu" else tt.float32)


def test_what_is_not_needed_is_not_given(device):
    x = tt.ones(2, 3, device=device)
    mean, invstd = tt.batch_norm_stats(x, 1.0)
    found = tt.batch_norm_backward_reduce(x, x, mean, invstd, None, False, False, True)
    assert found[:3] == (None, None, None) and found[3].tolist() == [2.0, 2.0, 2.0]


def test_other_inputs_are_refused(device):
    with pytest.raises(RuntimeError, match=r"batch_norm_stats: expected input of at least 2 dimensions"):
        tt.batch_norm_stats(tt.ones(3, device=device), 0.1)
    with pytest.raises(NotImplementedError, match="\"batch_norm_stats\" not implemented for 'Int'"):
        tt.batch_norm_stats(tt.ones(3, 2, dtype=tt.int32, device=device), 0.1)
    stats = tt.ones(2, device=device)
    with pytest.raises(RuntimeError, match=r"expected mean to have 2 dimensions, but got shape \[2\]"):
        tt.batch_norm_gather_stats(stats, stats, stats, None, None, 0.1, 0.1, 2)
