"""Custom pointwise operators on the CPU: `cpu_kernel` over iterators, hooks around kernels."""

from typing import Any

import numpy as np
import pytest

import triten as tt
from triten import Tensor
from triten.library import CustomOpDef, Library, cpu_kernel, custom_op, gpu_kernel, opcheck, wrap_kernel


@pytest.fixture
def hypot() -> CustomOpDef:
    """Return a pointwise operator made from one NumPy function."""

    @custom_op("t_pointwise::hypot", mutates_args=(), device_types="cpu")
    def hypot(a: Tensor, b: Tensor) -> Tensor:
        iterator = tt.TensorIterator.binary_float_op(None, a, b)
        cpu_kernel(iterator, np.hypot)
        return iterator.output()

    hypot.register_fake(lambda a, b: tt.TensorIterator.binary_float_op(None, a, b).output())

    def backward(ctx: Any, grad: Tensor) -> Any:
        a, b, out = ctx.saved_tensors
        return grad * a / out, grad * b / out

    hypot.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs, output)
    )
    return hypot


def test_shapes_dtypes_and_strides_are_the_iterators(hypot: CustomOpDef) -> None:
    a = tt.tensor([[3, 6], [9, 12]]).t()
    out = hypot(a, tt.tensor(4))
    assert (out.dtype, out.stride()) == (tt.float32, (1, 2))
    assert out.tolist() == np.hypot(np.array([[3, 9], [6, 12]], np.float32), np.float32(4)).tolist()
    assert hypot(tt.ones(2, 1), tt.ones(3, dtype=tt.float64)).shape == (2, 3)
    assert hypot(tt.ones(0, 2), tt.ones(2)).shape == (0, 2)
    with pytest.raises(RuntimeError, match=r"must match the size of tensor b"):
        hypot(tt.ones(2), tt.ones(3))
    a, b = (tt.tensor([v, 2.0], dtype=tt.float64, requires_grad=True) for v in (3.0, 4.0))
    assert set(opcheck(hypot, (a, b)).values()) == {"SUCCESS"}


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.float8_e5m2], ids=repr)
def test_narrow_floats_are_computed_in_float32(dtype: tt.dtype) -> None:
    seen = []

    def fn(a: Any) -> Any:
        seen.append(a.dtype)
        return (a + 100000.0) - 100000.0

    x = tt.tensor([1.5, -2.0, 0.25]).to(dtype)
    iterator = tt.TensorIterator.unary_op(None, x)
    cpu_kernel(iterator, fn)
    assert seen == [np.float32]
    assert (iterator.output().dtype, iterator.output().tolist()) == (dtype, [1.5, -2.0, 0.25])


def test_in_place_and_out_forms_over_the_same_function() -> None:
    def into(out: Tensor, a: Tensor, b: Tensor) -> Tensor:
        cpu_kernel(tt.TensorIterator.binary_op(out, a, b), lambda x, y: x - 2 * y)
        return out

    def inplace(a: Tensor, b: Tensor) -> Tensor:
        return into(a, a, b)

    def out_form(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
        return into(out, a, b)

    sub_ = custom_op("t_pointwise::sub_", inplace, mutates_args={"a"}, tags="inplace")
    sub_out = custom_op("t_pointwise::sub_out", out_form, mutates_args={"out"}, tags="out")
    base, b = tt.ones(3, 4), tt.tensor([1.0, 2.0])
    view = base[:, ::2]
    assert sub_(view, b) is view
    assert base.tolist() == [[-1.0, 1.0, -3.0, 1.0]] * 3
    out = tt.empty(0)
    assert sub_out(tt.ones(2, 2), b, out=out) is out
    assert out.tolist() == [[-1.0, -3.0]] * 2
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        sub_(tt.ones(2, dtype=tt.int64), b)
    with pytest.raises(RuntimeError, match="unsupported operation"):
        sub_(tt.ones(1).expand(2), b)
    for op, args, kwargs in ((sub_, (tt.ones(2), b), {}), (sub_out, (tt.ones(2), b), {"out": tt.ones(2)})):
        assert set(opcheck(op, args, kwargs).values()) == {"SUCCESS"}


def test_hooks_go_around_a_kernel() -> None:
    calls: list[Any] = []

    def pre(x: Tensor, n: int) -> tuple[Tensor, int]:
        calls.append(("pre", n))
        return x.contiguous(), n + 1

    def post(result: Tensor) -> None:
        calls.append(("post", result.tolist()))

    def scale(x: Tensor, n: int) -> Tensor:
        assert x.is_contiguous()
        return x * n

    with Library("t_pointwise", "FRAGMENT") as lib:
        lib.define("scale(Tensor x, int n) -> Tensor")
        lib.impl("scale", wrap_kernel(scale, pre=pre, post=post), "CPU")
        assert tt.ops.t_pointwise.scale(tt.ones(2, 2).t(), 2).tolist() == [[3.0, 3.0]] * 2
    assert calls == [("pre", 2), ("post", [[3.0, 3.0]] * 2)]
    assert wrap_kernel(scale, post=lambda y: y + 1)(tt.ones(1), 2).item() == 3.0
    assert wrap_kernel(scale)(tt.ones(1), n=2).item() == 2.0
    assert wrap_kernel(scale).__name__ == "scale"
    with pytest.raises(TypeError, match="pre must return a tuple of arguments or None, got list"):
        wrap_kernel(scale, pre=lambda x, n: [x, n])(tt.ones(1), 2)


def test_a_gpu_kernel_takes_a_triton_function() -> None:
    iterator = tt.TensorIterator.unary_op(None, tt.ones(1))
    with pytest.raises(TypeError, match=r"fn must be a triton.jit function, got ufunc"):
        gpu_kernel(iterator, np.negative)
