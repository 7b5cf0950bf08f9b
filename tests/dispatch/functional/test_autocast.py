"""Autocast: narrow products, float32 where precision matters, in this thread and on its device type alone."""

import gc
import io
import threading
import warnings
import weakref
from typing import ClassVar

import numpy as np
import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.functional.autocast.state import state as thread_state
from triten.runtime.local_dispatch_key_set import ExcludeDispatchKeyGuard, local, modes

F = tt.nn.functional
NARROW = {"cpu": tt.bfloat16, "cuda": tt.float16}


def state():
    return (
        list(modes),
        local.autocast,
        local.included,
        local.excluded,
        [(tt.is_autocast_enabled(d), tt.get_autocast_dtype(d)) for d in ("cpu", "cuda")],
        tt.is_autocast_cache_enabled(),
    )


@pytest.fixture(autouse=True)
def leaves_no_trace():
    before = state()
    yield
    assert state() == before
    assert tt.autocast_increment_nesting() == 1
    tt.autocast_decrement_nesting()


def casts_in(call):
    """How many casts a call makes, as the dispatch trace shows them."""
    file = io.StringIO()
    with tt.dispatch.show_trace(file):
        call()
    return sum("[call] op=[aten::_to_copy]" in line for line in file.getvalue().splitlines())


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
        # Of a CUDA call it is the CUDA tensors that are cast.
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
    decorated = tt.autocast("cpu")(lambda a, go, wait: (go.set(), wait.wait(10), tt.mm(a, a).dtype)[2])
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


def test_composites_are_cast_as_a_whole_and_once():
    x, w, b = tt.ones(4, 3), tt.ones(2, 3), tt.ones(2)
    file = io.StringIO()
    with tt.autocast("cpu"), tt.dispatch.show_trace(file):
        F.linear(x, w, b)
    lines = file.getvalue().splitlines()
    assert lines[0].startswith(" [call] op=[aten::linear], key=[AutocastCPU] (float32[4, 3]@cpu")
    assert [line.strip().split("(")[0].strip() for line in lines if "_to_copy" in line] == [
        "[call] op=[aten::_to_copy], key=[CPU]"
    ] * 3
    assert any("[redispatch] op=[aten::linear], key=[CPU] (bfloat16[4, 3]" in line for line in lines)
    assert sum("Autocast" in line for line in lines) == 1


def test_excluding_the_key_switches_it_off():
    a = tt.ones(2, 2)
    with tt.autocast("cpu"):
        with ExcludeDispatchKeyGuard(tt.DispatchKeySet(tt.DispatchKey.AutocastCPU)):
            assert tt.mm(a, a).dtype is tt.float32
        assert tt.mm(a, a).dtype is tt.bfloat16


def test_modes_below_see_the_casts():
    seen = []

    class Log(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.name().removeprefix("aten::"))
            return func(*args, **(kwargs or {}))

    x, w = tt.ones(2, 2), tt.ones(2, 2, requires_grad=True)
    with tt.autocast("cpu"), Log():
        tt.mm(x, w)
        y = F.linear(x, w)
    assert seen == ["_to_copy", "_to_copy", "mm", "_to_copy", "t", "mm"]
    assert y.dtype is tt.bfloat16
    y.sum().backward()
    assert w.grad.dtype is tt.float32


def test_kernels_of_a_users_own_stand_above_the_lists_until_they_are_taken_back():
    a = tt.ones(2, 2)
    with tt.library.Library("aten", "IMPL", "AutocastCPU") as lib:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # once in a process, an override is warned of
            lib.impl("mm", lambda self, mat2: tt.full((1,), 7.0))
        with tt.autocast("cpu"):
            assert tt.mm(a, a).tolist() == [7.0]
        with tt.autocast("cuda"):
            assert tt.mm(a, a).dtype is tt.float32
    with tt.autocast("cpu"):
        assert tt.mm(a, a).dtype is tt.bfloat16


def test_listed_operators_are_covered_as_soon_as_they_are_defined():
    with tt.autocast("cpu"):
        pass
    x = tt.ones(2, dtype=tt.float16)
    for _ in range(2):
        with tt.library.Library("aten", "FRAGMENT") as lib:
            lib.define("linalg_cond(Tensor self, Scalar? p=None) -> Tensor")
            lib.impl("linalg_cond", lambda self, p: self.clone(), "CompositeExplicitAutograd")
            with tt.autocast("cpu"):
                assert tt.ops.aten.linalg_cond(x).dtype is tt.float32
            assert tt.ops.aten.linalg_cond(x).dtype is tt.float16
    assert Dispatcher.singleton().find_op("aten::linalg_cond") is None


def test_a_users_kernel_that_came_before_the_definition_serves():
    with tt.autocast("cpu"):
        pass
    with tt.library.Library("aten", "FRAGMENT") as lib:
        lib.impl("linalg_cond", lambda self, p: self.double(), "AutocastCPU")
        lib.define("linalg_cond(Tensor self, Scalar? p=None) -> Tensor")
        with tt.autocast("cpu"):
            assert tt.ops.aten.linalg_cond(tt.ones(2)).dtype is tt.float64


def test_what_a_composite_calls_is_not_cast_again():
    with tt.library.Library("aten", "FRAGMENT") as lib:
        lib.define("pinverse(Tensor self) -> Tensor", lambda self: tt.mm(self, self))
        lib.define("polar(Tensor self) -> Tensor")
        lib.impl("polar", lambda self: tt.mm(self, self), "CompositeExplicitAutograd")
        for x in (tt.ones(2, 2), tt.ones(2, 2, dtype=tt.float16), tt.ones(2, 2, requires_grad=True)):
            with tt.autocast("cpu"):
                assert tt.ops.aten.pinverse(x).dtype is tt.float32
                assert tt.ops.aten.polar(x).dtype is tt.float32


def test_optional_tensors_are_cast_and_have_no_say_in_promotion():
    narrow, bias = tt.ones(2, device="cuda").half(), tt.ones(2, device="cuda").requires_grad_()
    seen = []
    with tt.library.Library("aten", "FRAGMENT") as lib:
        lib.define("bilinear(Tensor a, Tensor b, Tensor? bias=None, Tensor?[] more=[]) -> Tensor")

        def kernel(a, b, bias, more):
            seen.append((a.dtype, b.dtype, bias.dtype, [m if m is None else m.dtype for m in more]))
            return a + b

        lib.impl("bilinear", kernel, "CompositeExplicitAutograd")
        with tt.autocast("cuda"):

            def call():
                return tt.ops.aten.bilinear(narrow, narrow, bias, [None, bias])

            assert [casts_in(call) for _ in range(2)] == [1, 0]
            tt.ops.aten.bilinear(narrow, bias, bias)
    assert seen[0] == (tt.float16, tt.float16, tt.float16, [None, tt.float32])
    assert seen[2] == (tt.float32, tt.float32, tt.float32, [])


def test_norm_gets_a_dtype_by_another_overload():
    calls = []
    x = tt.ones(2, device="cuda").half()
    with tt.autocast("cuda"), tt.library.Library("aten", "FRAGMENT") as lib:
        lib.define("norm.Scalar(Tensor self, Scalar p=2) -> Tensor")
        with pytest.raises(RuntimeError, match=r"Could not find schema for aten::norm\.ScalarOpt_dtype"):
            tt.ops.aten.norm.Scalar(x)
        lib.define("norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor")
        lib.impl(
            "norm.ScalarOpt_dtype",
            lambda self, p, *, dtype: calls.append((p, dtype)) or self.to(dtype),
            "CompositeExplicitAutograd",
        )
        assert tt.ops.aten.norm.Scalar(x).dtype is tt.float32
        assert tt.ops.aten.norm.Scalar(x, 3).dtype is tt.float32
        assert tt.ops.aten.norm.Scalar(x.double()).dtype is tt.float64
    assert calls == [(2, tt.float32), (3, tt.float32), (2, tt.float64)]


def test_binary_cross_entropy_is_refused_on_cuda():
    x = tt.full((2,), 0.5, device="cuda")
    with tt.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        tt.nn.functional.binary_cross_entropy(x, x)
    assert tt.nn.functional.binary_cross_entropy(x, x).dtype is tt.float32


@pytest.mark.parametrize("made_by", ["custom_op", "define"])
def test_custom_operators_say_what_they_are_cast_to(made_by, device):
    other = "cuda" if device == "cpu" else "cpu"
    seen = []
    with tt.library.Library("casts", "FRAGMENT") as lib:
        if made_by == "custom_op":

            @tt.library.custom_op("casts::both", mutates_args=())
            def both(x: tt.Tensor, more: list[tt.Tensor], n: int) -> tt.Tensor:
                seen.append((x.dtype, [m.dtype for m in more], tt.is_autocast_enabled(device)))
                return tt.mm(x, x).float() + n

            both.register_autograd(lambda ctx, grad: (grad, None, None))
        else:
            lib.define("rows(Tensor x, Tensor[] more, int n) -> Tensor")

            def kernel(x, more, n):
                seen.append((x.dtype, [m.dtype for m in more], tt.is_autocast_enabled(device)))
                return tt.mm(x, x).float() + n

            lib.impl("rows", kernel, "CompositeExplicitAutograd")
        op = (tt.ops.casts.both if made_by == "custom_op" else tt.ops.casts.rows).default
        tt.library.register_autocast(op, device, tt.float16, lib=lib)
        x = tt.ones(2, 2, device=device)
        more = [x.double(), x, x.long()]
        with tt.autocast(device, dtype=tt.bfloat16):
            op(x, more, 1)
        with tt.autocast(other):
            op(x, more, 1)
        wide, narrow = tt.float32, tt.float16
        # Within the kernel the flag still stands, and has no effect.
        assert seen == [
            (narrow, [tt.float64, narrow, tt.int64], True),
            (wide, [tt.float64, wide, tt.int64], False),
        ]
        if made_by == "custom_op":
            both.register_autocast(device, tt.bfloat16)
            with tt.autocast(device):
                w = x.detach().requires_grad_()
                op(w, [], 1).sum().backward()
                assert casts_in(lambda: op(w, [], 1)) == 2  # the argument, and one in the kernel
            key = getattr(tt.DispatchKey, f"Autocast{device.upper()}")
            assert len(op._entry.kernels[key]) == 1
            assert seen[-1][0] is tt.bfloat16 and w.grad.dtype is tt.float32
            both._close()
    if made_by == "define":
        with pytest.raises(RuntimeError, match="operator casts::rows does not exist"):
            tt.library.register_autocast("casts::rows", device, tt.float16)


def test_register_autocast_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="Device type 'meta' does not support autocast"):
        tt.library.register_autocast("aten::add.Tensor", "meta", tt.float16)
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        tt.library.register_autocast("aten::add.Tensor", 3, tt.float16)
    with pytest.raises(TypeError, match=r"cast_inputs must be triten\.dtype, not str"):
        tt.library.register_autocast("aten::add.Tensor", "cpu", "float16")
    with pytest.raises(ValueError, match="unexpected type for op: int"):
        tt.library.register_autocast(3, "cpu", tt.float16)


def test_unsupported_dtypes_are_warned_of_and_leave_it_off():
    a = tt.ones(2, 2)
    with pytest.warns(
        UserWarning, match=r"In CPU autocast, but the target dtype triten\.float32 is not supported"
    ):
        context = tt.autocast("cpu", dtype=tt.float32)
    with context:
        assert not tt.is_autocast_enabled("cpu") and tt.mm(a, a).dtype is tt.float32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tt.autocast("cpu", dtype=tt.float32, enabled=False)
        tt.autocast("cpu", dtype=tt.float16)
        tt.autocast("cuda", dtype=tt.bfloat16)


def test_cuda_where_there_is_none_is_warned_of_and_off(monkeypatch):
    from triten.runtime.cuda import driver

    monkeypatch.setattr(driver, "is_available", lambda: False)
    with pytest.warns(UserWarning, match="CUDA is not available"):
        context = tt.autocast("cuda")
    with context:
        assert not tt.is_autocast_enabled("cuda")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tt.autocast("meta"), RuntimeError, "unsupported autocast device_type 'meta'"),
        (lambda: tt.autocast("nope"), RuntimeError, "Expected one of cpu, cuda"),
        (
            lambda: tt.autocast(tt.device("cpu")),
            ValueError,
            "Expected `device_type` of type `str`, got: `<class",
        ),
        (lambda: tt.autocast(lambda: None), ValueError, "Expected `device_type` of type `str`"),
        (
            lambda: tt.autocast("cpu", cache_enabled=3),
            TypeError,
            "cache_enabled must be bool or None, not int",
        ),
        (lambda: tt.autocast("cuda", dtype=3).__enter__(), TypeError, "dtype must be triten.dtype, not int"),
        (lambda: tt.get_autocast_dtype("meta"), RuntimeError, "unknown device type for autocast: 'meta'"),
        (
            lambda: tt.get_autocast_dtype(3),
            TypeError,
            r"get_autocast_dtype\(\): argument 'device_type' .* str, not int",
        ),
        (
            lambda: tt.set_autocast_dtype("cpu", 3),
            TypeError,
            "argument 'dtype' .* must be triten.dtype, not int",
        ),
        (lambda: tt.set_autocast_dtype("cpu", None), TypeError, "must be triten.dtype, not NoneType"),
        (lambda: tt.set_autocast_enabled("cpu", 1), TypeError, "argument 'enabled' .* must be bool, not int"),
        (
            lambda: tt.set_autocast_enabled("cpu"),
            TypeError,
            "argument 'enabled' .* must be bool, not NoneType",
        ),
        (
            lambda: tt.set_autocast_enabled(3, True),
            TypeError,
            "argument 'device_type' .* must be str, not int",
        ),
        (lambda: tt.set_autocast_enabled("meta", True), RuntimeError, "unknown device type for autocast"),
        (lambda: tt.is_autocast_enabled("meta"), RuntimeError, "unknown device type for autocast"),
        (lambda: tt.set_autocast_cache_enabled(1), TypeError, r"enabled must be a bool \(got int\)"),
        (lambda: tt.is_autocast_available("nope"), RuntimeError, "Expected one of cpu, cuda"),
        (
            lambda: tt.amp.is_autocast_available(3),
            TypeError,
            "argument 'device_type' .* must be str, not int",
        ),
        (lambda: tt.amp.custom_fwd(device_type=3), ValueError, "Expected `device_type` of type `str`"),
        (lambda: tt.amp.custom_bwd(device_type=3), ValueError, "Expected `device_type` of type `str`"),
    ],
)
def test_bad_arguments_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_flags_as_functions():
    assert tt.amp.autocast is tt.autocast
    a = tt.ones(2, 2)
    tt.set_autocast_enabled("cpu", True)
    tt.set_autocast_dtype("cpu", tt.float16)
    try:
        assert tt.mm(a, a).dtype is tt.float16
    finally:
        tt.set_autocast_enabled("cpu", False)
        tt.set_autocast_dtype("cpu", tt.bfloat16)
    tt.set_autocast_enabled(True)
    assert tt.is_autocast_enabled() and tt.is_autocast_enabled("cuda:0")
    tt.set_autocast_enabled(False)
    assert not tt.is_autocast_enabled()
    tt.set_autocast_cache_enabled(False)
    with tt.autocast("cpu"):
        assert not tt.is_autocast_cache_enabled()
    tt.set_autocast_cache_enabled(True)
    assert (tt.autocast_increment_nesting(), tt.autocast_decrement_nesting()) == (1, 0)
    assert [tt.is_autocast_available(d) for d in ("cpu", "cuda", "xpu", "meta", "lazy")] == [True] * 3 + [
        False
    ] * 2


class Recorded(tt.autograd.Function):
    """A product that notes the state it runs in."""

    notes: ClassVar[list] = []

    @staticmethod
    def forward(ctx, a, b, d):
        Recorded.notes.append((a.dtype, d["k"][0].dtype, tt.is_autocast_enabled("cpu")))
        ctx.save_for_backward(a, b)
        return tt.mm(a, b)

    @staticmethod
    @tt.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        Recorded.notes.append((grad.dtype, tt.is_autocast_enabled("cpu"), tt.get_autocast_dtype("cpu")))
        return tt.mm(grad, b.t()), tt.mm(a.t(), grad), None


@pytest.mark.parametrize("cast", [None, tt.float32])
def test_custom_functions_run_backward_in_the_state_of_forward(cast):
    made = type(
        "Made",
        (Recorded,),
        {"forward": staticmethod(tt.amp.custom_fwd(Recorded.forward, device_type="cpu", cast_inputs=cast))},
    )
    Recorded.notes.clear()
    a, b = tt.ones(2, 2, dtype=tt.float16).requires_grad_(), tt.ones(2, 2, dtype=tt.float16)
    extra = {"k": [tt.ones(1, dtype=tt.float16)]}
    with tt.autocast("cpu", dtype=tt.float16):
        y = made.apply(a, b, extra)
    y.sum().backward()
    if cast is None:
        assert y.dtype is tt.float16
        assert Recorded.notes == [(tt.float16, tt.float16, True), (tt.float16, True, tt.float16)]
    else:
        assert y.dtype is tt.float32
        assert Recorded.notes == [(tt.float32, tt.float32, False), (tt.float32, False, tt.float16)]
    assert a.grad.dtype is tt.float16
    Recorded.notes.clear()
    made.apply(a, b, extra)
    assert Recorded.notes == [(tt.float16, tt.float16, False)]


def test_nothing_is_registered_or_loaded_until_it_is_used(tmp_path):
    import subprocess
    import sys

    program = (
        "import sys, triten as tt\n"
        "names = [f'triten.dispatch.functional.autocast.{n}' for n in ('kernels', 'lists')]\n"
        "assert not any(n in sys.modules for n in names)\n"
        "from triten.dispatch.core.dispatcher import Dispatcher as D\n"
        "assert not D.singleton().get_registrations_for_dispatch_key('AutocastCPU')\n"
        "with tt.autocast('cpu'): pass\n"
        "assert 'aten::mm' in D.singleton().get_registrations_for_dispatch_key('AutocastCPU')\n"
        "assert not D.singleton().get_registrations_for_dispatch_key('AutocastCUDA')\n"
    )
    subprocess.run([sys.executable, "-P", "-c", program], cwd=tmp_path, check=True)
