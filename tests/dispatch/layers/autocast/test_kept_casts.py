"""A parameter is cast once in the outermost region; its gradient has its dtype."""

import gc
import weakref

import numpy as np

import triten as tt
from triten.dispatch.layers.autocast.state import state as thread_state
from triten.tests.dispatch.layers.autocast.casts import casts_in

F = tt.nn.functional

NARROW = {"cpu": tt.bfloat16, "cuda": tt.float16}


def test_gradients_of_parameters_are_as_wide_as_they(device):
    x = tt.from_numpy(np.float32([[1, 2], [3, 4]])).to(device)
    w = tt.ones(2, 2, device=device).requires_grad_()
    with tt.autocast(device):
        y = x @ w
        assert y.dtype is NARROW[device] and y.requires_grad
        loss = (y * y).sum()
    loss.backward()
    assert w.grad.dtype is tt.float32
    np.testing.assert_array_equal(w.grad.cpu().numpy(), [[48, 48], [68, 68]])


def test_what_backward_needs_is_saved_narrow():
    x, w = tt.ones(2, 2), tt.ones(2, 2, requires_grad=True)
    with tt.autocast("cpu"):
        y = tt.mm(x, w)
    saved = [getattr(y.grad_fn, name, None) for name in type(y.grad_fn).__slots__]
    assert {s.dtype for s in saved if isinstance(s, tt.Tensor)} == {tt.bfloat16}


def test_a_parameter_is_cast_once_in_the_outermost_region(device):
    x, w = tt.ones(2, 2, device=device).to(NARROW[device]), tt.ones(2, 2, device=device).requires_grad_()
    with tt.autocast(device):
        assert casts_in(lambda: tt.mm(x, w)) == 1
        assert casts_in(lambda: tt.mm(x, w)) == 0
        with tt.autocast(device):
            assert casts_in(lambda: F.linear(x, w)) == 0
        assert casts_in(lambda: tt.mm(x, w)) == 0
        tt.clear_autocast_cache()
        assert casts_in(lambda: tt.mm(x, w)) == 1
    with tt.autocast(device):
        assert casts_in(lambda: tt.mm(x, w)) == 1


def test_only_float32_leaves_that_require_grad_are_kept():
    x, w = tt.ones(2, 2, dtype=tt.bfloat16), tt.ones(2, 2, requires_grad=True)
    for other in (tt.ones(2, 2), w * 1, w.t(), w.detach(), w.half().detach().requires_grad_()):
        with tt.autocast("cpu"):
            assert [casts_in(lambda other=other: tt.mm(x, other)) for _ in range(2)] == [1, 1]
    with tt.autocast("cpu", cache_enabled=False):
        assert not tt.is_autocast_cache_enabled()
        assert [casts_in(lambda: tt.mm(x, w)) for _ in range(2)] == [1, 1]
    with tt.autocast("cuda"):  # float32 is not where casts are kept
        v = tt.ones(2, device="cuda").half().requires_grad_()
        assert [casts_in(v.exp) for _ in range(2)] == [1, 1]


def test_kept_casts_of_different_dtypes_are_told_apart():
    x, w = tt.ones(2, 2), tt.ones(2, 2, requires_grad=True)
    with tt.autocast("cpu"):
        assert tt.mm(x, w).dtype is tt.bfloat16
        with tt.autocast("cpu", dtype=tt.float16):
            assert tt.mm(x, w).dtype is tt.float16


def test_a_cast_made_without_grad_mode_serves_where_it_is_on():
    x, w = tt.ones(2, 2), tt.ones(2, 2, requires_grad=True)
    with tt.autocast("cpu"):
        with tt.inference_mode():
            assert tt.mm(x, w).is_inference()
        with tt.no_grad():
            assert not tt.mm(x, w).requires_grad
        y = tt.mm(x, w)
    y.sum().backward()
    assert w.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_a_cast_that_is_not_kept_is_recorded_by_the_grad_mode_of_its_call():
    x, w = tt.ones(2, 2), tt.ones(2, 2, requires_grad=True)
    view = w.t()
    with tt.autocast("cpu"):
        with tt.no_grad():
            assert not tt.mm(x, view).requires_grad
        y = tt.mm(x, view)
        with tt.no_grad():
            assert not tt.mm(x, view).requires_grad
    y.sum().backward()
    assert w.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_a_kept_cast_does_not_serve_another_tensor_in_the_same_place():
    x, w, gone = tt.ones(2, 2), tt.ones(2, 2, requires_grad=True), tt.ones(1)
    with tt.autocast("cpu"):
        thread_state.casts[id(w), tt.bfloat16, True] = (weakref.ref(gone), tt.zeros(2, 2, dtype=tt.bfloat16))
        assert tt.mm(x, w)[0, 0].item() == 2.0
        assert thread_state.casts[id(w), tt.bfloat16, True][0]() is w


def test_two_backwards_may_go_through_one_kept_cast():
    x, w = tt.ones(2, 2), tt.ones(2, 2, requires_grad=True)
    with tt.autocast("cpu"):
        tt.mm(x, w).sum().backward()
        tt.mm(x, w).sum().backward()
    assert w.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_a_write_to_a_parameter_shows_after_the_region_as_in_pytorch():
    x, w = tt.ones(2, 2), tt.ones(2, 2, requires_grad=True)
    with tt.autocast("cpu"):
        tt.mm(x, w)
        with tt.no_grad():
            w.mul_(2)
        assert tt.mm(x, w)[0, 0].item() == 2.0
    with tt.autocast("cpu"):
        assert tt.mm(x, w)[0, 0].item() == 4.0


def test_neither_plans_nor_the_cache_keep_tensors_alive():
    x, w = tt.ones(3, 3), tt.ones(3, 3, requires_grad=True)
    half = tt.ones(3, 3, dtype=tt.bfloat16)
    with tt.autocast("cpu"):
        tt.mm(x, w), tt.mm(half, half), tt.cat([half, x]), F.mse_loss(half, x), F.linear(x, w)
    refs = [weakref.ref(t) for t in (x, w, half)]
    del x, w, half
    gc.collect()
    assert [r() for r in refs] == [None, None, None]
