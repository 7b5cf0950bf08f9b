"""`gpu_kernel` with a user's scalar function over iterators of CUDA tensors agrees with `cpu_kernel`."""

import numpy as np
import pytest
import triton
import triton.language as tl

import triten as tt
from triten.library import cpu_kernel, gpu_kernel, opcheck


@triton.jit
def twice_plus(a, b):
    return 2 * a + b


@triton.jit
def negated(a):
    return -a


@triton.jit
def less(a, b):
    return a < b


@triton.jit
def chosen(condition, a, b):
    return tl.where(condition, a, b)


def on_both(build, gpu, cpu, *tensors):
    """Return the outputs of the same iteration on the GPU and on the host."""
    iterators = [
        build(None, *(t.to(d) if isinstance(t, tt.Tensor) else t for t in tensors)) for d in ("cuda", "cpu")
    ]
    gpu_kernel(iterators[0], gpu)
    cpu_kernel(iterators[1], cpu)
    outputs = [iterator.output() for iterator in iterators]
    assert outputs[0].stride() == outputs[1].stride()
    return outputs


BINARY = (tt.TensorIterator.binary_op, twice_plus, lambda a, b: 2 * a + b)


@pytest.mark.parametrize(
    "dtype", [tt.float16, tt.bfloat16, tt.float32, tt.float64, tt.int8, tt.int64], ids=repr
)
def test_dtypes(same, random, launches, dtype):
    a, b = random((3, 50), dtype), random((50,), dtype)
    before = launches.count
    same(*on_both(*BINARY, a, b))
    assert launches.count == before + 1


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((4, 5), (5,)),
        ((4, 1), (1, 5)),
        ((), (3, 4)),
        ((), ()),
        ((1,), (1,)),
        ((0, 1), (1, 3)),
        ((2, 1, 3), (5, 1)),
    ],
    ids=str,
)
def test_broadcasting(same, random, left, right):
    same(*on_both(*BINARY, random(left), random(right)))


@pytest.mark.parametrize(
    "view",
    [lambda t: t.permute(2, 0, 1), lambda t: t[:, ::2], lambda t: t[1:], lambda t: t[:1].expand(4, 4, 4)],
)
def test_strides(same, random, view):
    a = view(random((4, 4, 4)))
    x = a.to("cuda") if a.is_contiguous() else view(random((4, 4, 4)).to("cuda"))
    iterator = tt.TensorIterator.unary_op(None, x)
    gpu_kernel(iterator, negated)
    same(iterator.output(), -x.cpu())
    assert iterator.output().stride() == (-x).stride()


def test_promotion_numbers_and_results_of_another_dtype(same, random):
    ints, floats = random((7,), tt.int32), random((7,))
    same(*on_both(*BINARY, ints, floats))
    same(*on_both(*BINARY, ints, 3))
    same(*on_both(*BINARY, ints, 2.5))
    same(*on_both(*BINARY, floats, tt.tensor(1.5)))
    same(*on_both(tt.TensorIterator.comparison_op, less, np.less, ints, floats))
    host = tt.TensorIterator.binary_op(None, ints.to("cuda"), tt.tensor(1.5))
    gpu_kernel(host, twice_plus)
    same(host.output(), 2 * ints + 1.5)


def test_a_new_number_needs_no_new_plan(random):
    x = random((5,)).to("cuda")
    outs = []
    for number in (1.0, 2.0, -3.5):
        iterator = tt.TensorIterator.binary_op(None, x, number)
        gpu_kernel(iterator, twice_plus)
        outs.append((iterator.output() - 2 * x).mean().item())
    assert outs == pytest.approx([1.0, 2.0, -3.5], abs=1e-5)


def test_operands_that_are_not_promoted(same, random):
    mask, a, b = random((6,), tt.bool), random((6,)), random((6,))
    config = tt.TensorIteratorConfig().check_all_same_dtype(False).declare_static_dtype(tt.float32)
    config.add_output(None)
    for operand in (mask, a, b):
        config.add_const_input(operand.to("cuda"))
    iterator = config.build()
    gpu_kernel(iterator, chosen)
    same(iterator.output(), tt.where(mask, a, b))


def test_in_place_and_given_outputs(same, random):
    a, b = random((3, 4)), random((3, 2))
    base, y = a.to("cuda"), b.to("cuda")
    view = base[:, ::2]
    gpu_kernel(tt.TensorIterator.binary_op(view, view, y), twice_plus)
    a[:, ::2] = 2 * a[:, ::2] + b
    same(base, a)
    wide = tt.zeros(3, 2, dtype=tt.float64, device="cuda")
    gpu_kernel(tt.TensorIterator.binary_op(wide, y, y), twice_plus)
    same(wide, (3 * b).double(), 1e-6)


def test_parts_of_an_iterator(same, random):
    a, b = random((40, 3)), random((40, 1))
    iterator = tt.TensorIterator.binary_op(None, a.to("cuda"), b.to("cuda"))
    parts = list(iterator.with_32bit_indexing(limit=100))
    assert len(parts) > 2
    for part in parts:
        gpu_kernel(part, twice_plus)
    same(iterator.output(), 2 * a + b, 1e-6)


def test_refusals(random):
    x = tt.ones(3, device="cuda")
    unary = tt.TensorIterator.unary_op
    with pytest.raises(RuntimeError, match="'negated' runs on CUDA, but an operand is on cpu"):
        gpu_kernel(unary(None, tt.ones(3)), negated)
    with pytest.raises(RuntimeError, match="'negated' runs on CUDA, but an operand is on meta"):
        gpu_kernel(unary(None, tt.ones(3, device="meta")), negated)
    with pytest.raises(RuntimeError, match="'negated' runs on CUDA, but an operand is on cpu"):
        gpu_kernel(unary(None, tt.tensor(1.0)), negated)
    with pytest.raises(RuntimeError, match="an operand is only a spec"):
        gpu_kernel(unary(None, x._spec), negated)
    with pytest.raises(
        TypeError, match=r"'twice_plus' takes 2 arguments \['a', 'b'\], but the iterator has 1"
    ):
        gpu_kernel(unary(None, x), twice_plus)
    with pytest.raises(RuntimeError, match="the iterator is a reduction"):
        gpu_kernel(tt.TensorIterator.reduce_op(tt.zeros(1, device="cuda"), x), negated)
    config = tt.TensorIteratorConfig().add_output(None).add_output(None).add_input(x)
    with pytest.raises(RuntimeError, match="expected one output and one to 4 inputs, got 2 and 1"):
        gpu_kernel(config.build(), negated)
    complexes = tt.ones(3, dtype=tt.complex64).to("cuda")
    with pytest.raises(NotImplementedError, match="\"negated_cuda\" not implemented for 'ComplexFloat'"):
        gpu_kernel(unary(None, complexes), negated)


def test_one_function_for_each_device_makes_an_operator(device):
    @tt.library.custom_op("t_iterator::twice_plus", mutates_args=(), device_types="cpu")
    def op(a: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
        iterator = tt.TensorIterator.binary_op(None, a, b)
        cpu_kernel(iterator, lambda a, b: 2 * a + b)
        return iterator.output()

    @op.register_kernel("cuda")
    def _(a, b):
        iterator = tt.TensorIterator.binary_op(None, a, b)
        gpu_kernel(iterator, twice_plus)
        return iterator.output()

    op.register_fake(lambda a, b: tt.TensorIterator.binary_op(None, a, b).output())

    def backward(ctx, grad):
        return 2 * grad, grad.sum(1, keepdim=True)

    op.register_autograd(backward)
    a = tt.ones(2, 3, dtype=tt.float64, device=device).t().contiguous().t().requires_grad_()
    b = tt.ones(2, 1, dtype=tt.float64, device=device).requires_grad_()
    assert set(opcheck(op, (a, b)).values()) == {"SUCCESS"}
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        op(a, tt.ones(2, 3, device="cuda" if device == "cpu" else "cpu", dtype=tt.float64))
