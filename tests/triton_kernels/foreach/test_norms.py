"""Norms of lists: of each tensor, of all tensors, and gradient clipping by them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import triten as tt

ORDERS = [1.0, 2.0, math.inf, -math.inf]
DTYPES = [tt.float32, tt.float64, tt.float16, tt.bfloat16]
SHAPES = [(3,), (1,), (5, 7), (8192,), (20_011,), ()]


def tensors(rng, dtype=tt.float32, shapes=SHAPES):
    return [tt.from_numpy(np.asarray(rng.standard_normal(shape))).to(dtype).to("cuda") for shape in shapes]


def close(found, expected, dtype):
    rounding = {tt.float64: 1e-14, tt.float32: 1e-6}.get(dtype, float(tt.finfo(dtype).eps))
    assert found.dtype is dtype
    np.testing.assert_allclose(
        found.cpu().to(tt.float64).numpy(), np.asarray(expected), rtol=rounding, atol=0
    )


def reference(given, order):
    """Compute the norm in float64 by NumPy."""
    flat = np.concatenate([t.cpu().to(tt.float64).numpy().ravel() for t in given])
    return np.linalg.norm(flat, order)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_of_each_tensor_and_of_all(rng, launches, dtype, order):
    given = tensors(rng, dtype)
    before = launches.count
    found = tt._foreach_norm(given, order)
    assert launches.count - before == 2
    for norm, tensor in zip(found, given, strict=True):
        assert norm.shape == ()
        close(norm, reference([tensor], order), dtype)
    before = launches.count
    total = tt.nn.utils.get_total_norm(given, order)
    assert launches.count - before == 2
    close(total, reference(given, order), dtype)


def test_of_several_dtypes_at_odd_addresses_and_of_transposed_tensors(rng):
    given = [t[1:] for t in tensors(rng, tt.float32, [(9000,), (18_000,)])]
    given += [t[3:] for t in tensors(rng, tt.bfloat16, [(40_000,), (5,)])]
    given += [t.t() for t in tensors(rng, tt.float32, [(30, 40)])]
    for norm, tensor in zip(tt._foreach_norm(given), given, strict=True):
        close(norm, reference([tensor], 2), tensor.dtype)
    close(tt.nn.utils.get_total_norm(given), reference(given, 2), tt.float32)
    given += tensors(rng, tt.float64, [(33,)])
    total = tt.nn.utils.get_total_norm(given, 1.0)
    assert total.dtype is tt.float64
    assert total.item() == pytest.approx(reference(given, 1), rel=1e-6)  # the float32 ones are summed as such


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("order", ORDERS)
def test_what_is_not_finite_is_found(rng, order, value):
    given = tensors(rng)
    given[4][20_000] = value
    expected = [tt.linalg.vector_norm(t, order).item() for t in given]
    np.testing.assert_array_equal([norm.item() for norm in tt._foreach_norm(given, order)][4], expected[4])
    total = tt.nn.utils.get_total_norm(given, order).item()
    np.testing.assert_array_equal(np.isnan(total), math.isnan(value))
    if order != -math.inf and not math.isnan(value):
        assert total == math.inf
    with pytest.raises(RuntimeError, match="non-finite"):
        given[4][:] = value
        given[:] = [given[4]] * 2
        tt.nn.utils.get_total_norm(given, order, error_if_nonfinite=True)


def test_one_element_is_its_own_norm_and_nothing_has_none(rng):
    huge = tt.tensor([-1e30], device="cuda")
    assert [norm.item() for norm in tt._foreach_norm([huge, huge])] == [np.float32(1e30)] * 2
    given = [*tensors(rng, shapes=[(3,)]), tt.zeros(0, device="cuda")]
    found = tt._foreach_norm(given)
    assert found[1].item() == 0.0
    close(tt.nn.utils.get_total_norm(given), reference(given, 2), tt.float32)
    with pytest.raises(RuntimeError, match="cannot compute the inf norm on an empty tensor"):
        tt._foreach_norm(given, math.inf)


def test_tensors_with_gaps_and_other_orders_go_one_by_one(rng):
    given = [
        tt.ones(4, 6, device="cuda")[:, ::2],
        tt.ones(3, device="cuda").expand(2, 3),
        tt.ones(2, device="cuda"),
    ]
    assert tt.nn.utils.get_total_norm(given).item() == pytest.approx(math.sqrt(20))
    assert [norm.item() for norm in tt._foreach_norm(given, 1)] == [12.0, 6.0, 2.0]
    assert tt.nn.utils.get_total_norm(given, 3.0).item() == pytest.approx(20 ** (1 / 3))
    assert tt.nn.utils.get_total_norm(given, 0.0).item() == 3.0


@pytest.mark.parametrize("order", [1.0, 2.0, math.inf, 3.0])
@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16], ids=lambda d: d.name)
def test_clipping_is_that_of_the_single_steps(rng, launches, dtype, order):
    parameters = [t.requires_grad_() for t in tensors(rng, dtype)]
    twins = [p.detach().clone().requires_grad_() for p in parameters]
    for p, twin in zip(parameters, twins, strict=True):
        p.grad = p.detach() * 2
        twin.grad = p.grad.clone()
    before = launches.count
    total = tt.nn.utils.clip_grad_norm_(parameters, 0.5, order)
    if order != 3.0:
        assert launches.count - before == 3
    tt.nn.utils.clip_grads_with_norm_(twins, 0.5, total, foreach=False)
    for p, twin in zip(parameters, twins, strict=True):
        np.testing.assert_array_equal(p.grad.cpu().float().numpy(), twin.grad.cpu().float().numpy())
    single = tt.nn.utils.get_total_norm([p.grad for p in parameters], order, foreach=False)
    assert single.item() == pytest.approx(0.5, rel=2e-6 if dtype is tt.float32 else 2e-2)


def test_a_norm_below_the_bound_leaves_gradients_as_they_are(rng):
    parameters = [t.requires_grad_() for t in tensors(rng)]
    for p in parameters:
        p.grad = p.detach() * 2
    before = [p.grad.tolist() for p in parameters]
    tt.nn.utils.clip_grad_norm_(parameters, 1e9)
    assert [p.grad.tolist() for p in parameters] == before
    parameters[0].grad[0] = math.nan
    tt.nn.utils.clip_grad_norm_(parameters, 1.0)
    assert all(np.isnan(p.grad.cpu().numpy()).all() for p in parameters)


def test_clipping_by_value(rng, launches):
    parameters = [t.requires_grad_() for t in tensors(rng)]
    for p in parameters:
        p.grad = p.detach() * 2
    expected = [p.grad.clamp(-0.5, 0.5) for p in parameters]
    before = launches.count
    tt.nn.utils.clip_grad_value_(parameters, 0.5)
    assert launches.count - before == 1
    for p, wanted in zip(parameters, expected, strict=True):
        np.testing.assert_array_equal(p.grad.cpu().numpy(), wanted.cpu().numpy())


def test_refusals():
    with pytest.raises(RuntimeError, match="argument 'ord': expected one of 1, 2, inf, -inf, got '3'"):
        tt._multi_tensor_norm([tt.ones(2, device="cuda")], "3")
    total, coefficient = tt._multi_tensor_total_norm([tt.tensor([3.0]), tt.tensor([4.0])], "2", 1.0)
    assert (total.item(), coefficient.item()) == (5.0, pytest.approx(0.2))
