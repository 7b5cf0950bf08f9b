"""Autocast runs matmuls in 16-bit floats and losses in float32, and leaves other operators as they are."""

import threading

import numpy as np
import pytest

import triten as tt
from triten.tests.dispatch.layers.autocast.casts import casts_in, state
from triten.tests.shared.threads import PATIENCE

F = tt.nn.functional

NARROW = {"cpu": tt.bfloat16, "cuda": tt.float16}


def test_products_are_narrow_losses_wide_and_the_rest_as_it_comes(device):
    a, b = tt.ones(2, 3, device=device), tt.ones(3, 2, device=device)
    with tt.autocast(device):
        product = a @ b
        assert product.dtype is NARROW[device]
        assert F.mse_loss(product, product).dtype is tt.float32
        assert product.relu().dtype is NARROW[device]
        assert (a + a).dtype is tt.float32
        assert (product + tt.ones(2, 2, device=device)).dtype is tt.float32
        assert F.cross_entropy(product, tt.tensor([0, 1], device=device)).dtype is tt.float32
    assert (a @ b).dtype is tt.float32
    np.testing.assert_array_equal(product.float().cpu().numpy(), np.full((2, 2), 3, np.float32))


def test_results_are_those_of_casts_by_hand(device):
    rng = np.random.default_rng(0)
    x = tt.from_numpy(rng.standard_normal((5, 7)).astype(np.float32)).to(device)
    w = tt.from_numpy(rng.standard_normal((3, 7)).astype(np.float32)).to(device)
    b = tt.from_numpy(rng.standard_normal(3).astype(np.float32)).to(device)
    with tt.autocast(device):
        got = F.linear(x, w, b)
    n = NARROW[device]
    want = F.linear(x.to(n), w.to(n), b.to(n))
    np.testing.assert_array_equal(got.float().cpu().numpy(), want.float().cpu().numpy())


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16])
def test_the_dtype_may_be_chosen(device, dtype):
    a = tt.ones(2, 2, device=device)
    with tt.autocast(device, dtype=dtype):
        assert tt.get_autocast_dtype(device) is dtype
        assert tt.mm(a, a).dtype is dtype


def test_other_dtypes_and_devices_are_never_cast():
    cpu, meta = tt.ones(2, 2), tt.ones(2, 2, device="meta")
    cuda, double = tt.ones(2, 2, device="cuda"), tt.ones(2, 2, dtype=tt.float64)
    whole = tt.ones(2, 2, dtype=tt.int64)
    with tt.autocast("cpu"):
        assert tt.mm(double, double).dtype is tt.float64
        assert tt.mm(whole, whole).dtype is tt.int64
        assert tt.stack([whole, whole]).dtype is tt.int64
        assert tt.mm(meta, meta).dtype is tt.float32
        assert tt.mm(cuda, cuda).dtype is tt.float32
        assert tt.cat([double, double]).dtype is tt.float64
        with pytest.raises(RuntimeError, match="dtype"):
            tt.mm(double, cpu)
    with tt.autocast("cuda"):
        assert tt.mm(cuda, cuda).dtype is tt.float16
        assert tt.mm(cpu, cpu).dtype is tt.float32
        assert cpu.half().sum().dtype is tt.float16
        assert cuda.half().sum().dtype is tt.float32
    with tt.autocast("cpu"), tt.autocast("cuda"):
        assert (tt.mm(cpu, cpu).dtype, tt.mm(cuda, cuda).dtype) == (tt.bfloat16, tt.float16)


def test_a_zero_dimensional_cpu_tensor_beside_cuda_ones_makes_a_cuda_call():
    cuda, number = tt.ones(2, device="cuda").half(), tt.tensor(2.0, dtype=tt.float64)
    with tt.autocast("cpu"):
        assert tt.pow(cuda, number).dtype is tt.float16
    with tt.autocast("cuda"):
        assert tt.pow(cuda, number).dtype is tt.float32
        # In a CUDA call autocast casts only the CUDA tensors.
        half = number.half()
        assert casts_in(lambda: tt.pow(cuda, half)) == 1


def test_in_place_and_out_forms_are_not_affected(device):
    a, out = tt.ones(2, 2, device=device), tt.empty(2, 2, device=device)
    with tt.autocast(device):
        assert tt.mm(a, a, out=out).dtype is tt.float32
        assert out.tolist() == [[2.0, 2.0], [2.0, 2.0]]
        assert tt.ones(2, 2, device=device).addmm_(a, a).dtype is tt.float32
        assert a.half().exp_().dtype is tt.float16


def test_a_dtype_that_is_given_stands():
    half = tt.ones(2, 2, device="cuda").half()
    with tt.autocast("cuda"):
        assert (
            half.sum().dtype is half.sum(0).dtype is half.softmax(0).dtype is half.prod().dtype is tt.float32
        )
        assert half.sum(dtype=tt.float16).dtype is tt.float16
        assert half.softmax(0, dtype=tt.float64).dtype is tt.float64
        assert half.long().sum().dtype is tt.int64
        assert half.double().sum().dtype is tt.float64


def test_promotion_takes_the_widest_dtype():
    wide, narrow, other = (tt.ones(2, dtype=d) for d in (tt.float32, tt.bfloat16, tt.float16))
    with tt.autocast("cpu"):
        assert tt.cat([wide, narrow]).dtype is tt.float32
        assert tt.cat([narrow, narrow]).dtype is tt.bfloat16
        assert tt.cat([wide, wide]).dtype is tt.float32
        assert tt.cat([narrow, tt.ones(2, dtype=tt.float64)]).dtype is tt.float64
        assert tt.cat([narrow, tt.ones(2, dtype=tt.int64)]).dtype is tt.bfloat16
        message = r"aten::cat: Unexpected floating ScalarType in autocast: argument 'tensors' is float16, expected bf"
        for tensors in ([narrow, other], [other, other]):
            with pytest.raises(RuntimeError, match=message):
                tt.cat(tensors)
        # Once float32 is among them the others no longer matter.
        assert tt.cat([wide, other]).dtype is tt.float32
        with pytest.raises(RuntimeError, match="Unexpected floating"):
            tt.cat([other, wide])


def test_regions_nest_and_inner_ones_may_switch_it_off(device):
    a = tt.ones(2, 2, device=device)
    with tt.autocast(device):
        with tt.autocast(device, enabled=False):
            assert not tt.is_autocast_enabled(device)
            assert tt.mm(a, a).dtype is tt.float32
            with tt.autocast(device, dtype=tt.bfloat16):
                assert tt.mm(a, a).dtype is tt.bfloat16
            assert tt.mm(a, a).dtype is tt.float32
        assert tt.mm(a, a).dtype is NARROW[device]


def test_one_context_may_be_entered_again_inside_itself():
    a, context = tt.ones(2, 2), tt.autocast("cpu")
    with context:
        with context:
            pass
        assert tt.mm(a, a).dtype is tt.bfloat16
    assert not tt.is_autocast_enabled("cpu")
    with pytest.raises(RuntimeError, match="has not entered"):
        context.__exit__(None, None, None)


def test_contexts_left_out_of_order_restore_what_each_found():
    first, second = tt.autocast("cpu"), tt.autocast("cpu", dtype=tt.float16)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not tt.is_autocast_enabled("cpu")
    second.__exit__(None, None, None)
    assert tt.is_autocast_enabled("cpu") and tt.get_autocast_dtype("cpu") is tt.bfloat16
    tt.set_autocast_enabled("cpu", False)


def test_an_exception_leaves_the_thread_as_it_was(device):
    before = state()
    a = tt.ones(2, 3, device=device)
    with pytest.raises(RuntimeError), tt.autocast(device, cache_enabled=False):
        tt.mm(a, a)
    assert state() == before
    with tt.autocast(device):
        within = state()
        with pytest.raises(RuntimeError):
            a.reshape(3, 2).t() @ tt.ones(7, 7, device=device)
        assert state() == within


def test_as_a_decorator_also_of_a_function_that_calls_itself():
    @tt.autocast("cpu", dtype=tt.float16)
    def power(a, n):
        """Doc."""
        return a if n == 1 else tt.mm(power(a, n - 1), a)

    assert power.__name__ == "power" and power.__doc__ == "Doc."
    assert power(tt.ones(2, 2), 3).dtype is tt.float16
    with pytest.raises(TypeError, match=r"autocast\(\)\(func\) requires a callable, but got int"):
        tt.autocast("cpu")(3)


def test_it_is_of_its_thread_alone():
    a, found = tt.ones(2, 2), []

    def other():
        found.append((tt.is_autocast_enabled("cpu"), tt.get_autocast_dtype("cpu"), tt.mm(a, a).dtype))

    with tt.autocast("cpu", dtype=tt.float16):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert found == [(False, tt.bfloat16, tt.float32)]


def test_threads_with_one_decorated_function_do_not_mix():
    decorated = tt.autocast("cpu")(lambda a, go, wait: (go.set(), wait.wait(PATIENCE), tt.mm(a, a).dtype)[2])
    first, second, found = threading.Event(), threading.Event(), []

    def work(dtype, go, wait):
        tt.set_autocast_dtype("cpu", dtype)
        found.append(decorated(tt.ones(2, 2), go, wait))
        found.append((tt.is_autocast_enabled("cpu"), tt.get_autocast_dtype("cpu")))

    threads = [
        threading.Thread(target=work, args=(tt.float16, first, second)),
        threading.Thread(target=work, args=(tt.float32, second, first)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.count(tt.bfloat16) == 2
    assert (False, tt.float16) in found and (False, tt.float32) in found
