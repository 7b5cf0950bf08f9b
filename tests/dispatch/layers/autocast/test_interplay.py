"""Autocast with composites, modes, custom operators and users' kernels."""

import io
import warnings
from typing import ClassVar

import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
from triten.runtime.local_dispatch_key_set import ExcludeDispatchKeyGuard
from triten.tests.dispatch.layers.autocast.casts import casts_in

F = tt.nn.functional


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
            lib.define("_grid_sampler_2d_cpu_fallback(Tensor self, Scalar? p=None) -> Tensor")
            lib.impl(
                "_grid_sampler_2d_cpu_fallback", lambda self, p: self.clone(), "CompositeExplicitAutograd"
            )
            with tt.autocast("cpu"):
                assert tt.ops.aten._grid_sampler_2d_cpu_fallback(x).dtype is tt.float32
            assert tt.ops.aten._grid_sampler_2d_cpu_fallback(x).dtype is tt.float16
    assert Dispatcher.singleton().find_op("aten::_grid_sampler_2d_cpu_fallback") is None


def test_a_users_kernel_that_came_before_the_definition_serves():
    with tt.autocast("cpu"):
        pass
    with tt.library.Library("aten", "FRAGMENT") as lib:
        lib.impl("_grid_sampler_2d_cpu_fallback", lambda self, p: self.double(), "AutocastCPU")
        lib.define("_grid_sampler_2d_cpu_fallback(Tensor self, Scalar? p=None) -> Tensor")
        with tt.autocast("cpu"):
            assert tt.ops.aten._grid_sampler_2d_cpu_fallback(tt.ones(2)).dtype is tt.float64


@pytest.mark.parametrize("key", ["CompositeImplicitAutograd", "CompositeExplicitAutograd"])
def test_what_a_composite_calls_is_not_cast_again(key):
    with tt.library.Library("aten", "FRAGMENT") as lib:
        lib.define("_grid_sampler_2d_cpu_fallback(Tensor self) -> Tensor")
        lib.impl("_grid_sampler_2d_cpu_fallback", lambda self: tt.mm(self, self), key)
        for x in (tt.ones(2, 2), tt.ones(2, 2, dtype=tt.float16), tt.ones(2, 2, requires_grad=True)):
            with tt.autocast("cpu"):
                assert tt.ops.aten._grid_sampler_2d_cpu_fallback(x).dtype is tt.float32


def test_optional_tensors_are_cast_and_have_no_say_in_promotion():
    narrow, bias = tt.ones(2, device="cuda").half(), tt.ones(2, device="cuda").requires_grad_()
    seen = []

    def kernel(a, b, weight, bias):
        seen.append((a.dtype, b.dtype, weight.dtype, bias if bias is None else bias.dtype))
        return a + b

    with tt.library.Library("aten", "IMPL") as lib:
        lib.impl("bilinear", kernel, "CUDA")
        with tt.autocast("cuda"):

            def call():
                return tt.ops.aten.bilinear(narrow, narrow, narrow, bias)

            assert [casts_in(call) for _ in range(2)] == [1, 0]
            tt.ops.aten.bilinear(narrow, bias, narrow, None)
    assert seen[0] == (tt.float16, tt.float16, tt.float16, tt.float16)
    assert seen[2] == (tt.float32, tt.float32, tt.float32, None)


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
    """Matmul that records the autocast state in which it runs."""

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
        "names = [f'triten.dispatch.layers.autocast.{n}' for n in ('kernels', 'lists')]\n"
        "assert not any(n in sys.modules for n in names)\n"
        "from triten.dispatch.core.dispatcher import Dispatcher as D\n"
        "assert not D.singleton().get_registrations_for_dispatch_key('AutocastCPU')\n"
        "with tt.autocast('cpu'): pass\n"
        "assert 'aten::mm' in D.singleton().get_registrations_for_dispatch_key('AutocastCPU')\n"
        "assert not D.singleton().get_registrations_for_dispatch_key('AutocastCUDA')\n"
    )
    subprocess.run([sys.executable, "-P", "-c", program], cwd=tmp_path, check=True)
