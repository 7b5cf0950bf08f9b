"""A plan made for a shape from what an earlier shape's plan decided is the plan that would have been made alone."""

import numpy as np
import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.core.overload_packet import OverloadPacket

CALLS = {
    "a + b": lambda a, b: a + b,
    "a * 2.0": lambda a, b: a * 2.0,
    "add alpha": lambda a, b: tt.add(a, b, alpha=3),
    "relu": lambda a, b: a.relu(),
    "sigmoid": lambda a, b: a.sigmoid(),
    "a > b": lambda a, b: a > b,
    "where": lambda a, b: tt.where(a > 0, a, b),
    "clamp": lambda a, b: a.clamp(min=0.25),
    "pow": lambda a, b: a**2,
    "gelu": lambda a, b: tt.nn.functional.gelu(a),
    "maximum": lambda a, b: tt.maximum(a, b),
    "div floor": lambda a, b: tt.div(a, b, rounding_mode="floor"),
    "in place": lambda a, b: (a + tt.zeros_like(b)).add_(b),
    "in place with a number": lambda a, b: a.clone().mul_(0.5),
    "mixed dtypes": lambda a, b: a + (b * 4).to(tt.int32),
    "promoted": lambda a, b: (a * 4).to(tt.int32) / 3,
    "a.T": lambda a, b: a.T,
    "view": lambda a, b: a.view(-1),
    "slice": lambda a, b: a[1:],
    "sum": lambda a, b: a.sum(0),
    "mean": lambda a, b: a.mean(-1, keepdim=True),
    "sum of two dimensions": lambda a, b: a.unsqueeze(0).sum((0, -1), keepdim=True),
    "mean of all": lambda a, b: a.mean(),
    "amax": lambda a, b: tt.cat((a, a + 1), 1).sum(1) if a.numel() == 0 else a.amax(1),
    "softmax": lambda a, b: a.softmax(-1),
    "cat": lambda a, b: tt.cat((a, a), 1),
    "cat of lines": lambda a, b: tt.cat([a.view(-1), b.reshape(-1)]),
    "cat of a transpose": lambda a, b: tt.cat((a.t(), a.t())),
    "cat of dtypes": lambda a, b: tt.cat((a, a.to(tt.float64)), -1),
    "stack": lambda a, b: tt.stack((a, a)),
    "mm": lambda a, b: a @ a.t(),
    "matmul of a batch": lambda a, b: a.expand(3, *a.shape) @ a.expand(3, *a.shape).mT,
    "addmm": lambda a, b: tt.addmm(a[:, :1], a, a.t()),
    "layer_norm": lambda a, b: tt.nn.functional.layer_norm(a, a.shape[1:]),
    "sum of everything": lambda a, b: a.sum(),
    "sum, kept": lambda a, b: a.sum((0, 1), keepdim=True),
    "log_softmax of columns": lambda a, b: a.log_softmax(0),
    "gradient of a sum": lambda a, b: (
        tt.autograd.grad((a * tt.ones_like(a)).sum(), a)[0] if a.requires_grad else a
    ),
    "one element beside others": lambda a, b: b.sum().expand(a.shape) * a,
    "others beside one element": lambda a, b: a - tt.ones((), device=a.device).expand(a.shape),
    "several of one element": lambda a, b: tt.lerp(b.sum().expand(a.shape), a, 0.25),
    "matmul of stacks": lambda a, b: tt.stack((a, a)) @ tt.stack((a, a)).mT,
    "matmul of a stack": lambda a, b: tt.stack((a, a)) @ a.t(),
    "linear": lambda a, b: tt.nn.functional.linear(a.unsqueeze(0), a, a[:, 0]),
    "einsum": lambda a, b: tt.einsum("ij,kj->ki", a, a),
    "norm of lines": lambda a, b: a.norm(dim=-1),
    "var": lambda a, b: a.var(-1),
    "max": lambda a, b: a.max() if a.numel() else a,
    "reshape": lambda a, b: a.reshape(-1),
    "flatten": lambda a, b: a.unsqueeze(0).flatten(1),
    "ones": lambda a, b: tt.ones(a.shape),
    "ones of integers": lambda a, b: tt.ones(tuple(a.shape), dtype=tt.int32),
    "full": lambda a, b: tt.full(a.shape, 0),
    "full_like": lambda a, b: tt.full_like(a, -0.0),
    "addcmul in place": lambda a, b: (a + tt.zeros_like(b)).addcmul_(b, b, value=2),
    "clamp in place": lambda a, b: (a + tt.zeros_like(b)).clamp_(-0.5, 0.5),
    "zeros": lambda a, b: tt.zeros(a.shape),
    "zeros from a list": lambda a, b: tt.zeros(list(a.shape)),
    "expand": lambda a, b: a.expand(3, *a.shape),
    "mse_loss": lambda a, b: tt.nn.functional.mse_loss(a, a * 2 + 1),
    "mse_loss of each": lambda a, b: tt.nn.functional.mse_loss(a, a * 2 + 1, reduction="none"),
    "lerp": lambda a, b: tt.lerp(a, b, 0.25),
    "addcmul": lambda a, b: tt.addcmul(a, b, b, value=2),
}
SHAPES = [
    ((5, 3), (5, 3)),
    ((4, 6), (1, 6)),
    ((4, 1), (1, 6)),
    ((1, 1), (1, 1)),
    ((1, 7), (1, 7)),
    ((0, 4), (0, 4)),
    ((6, 5), (5,)),
    ((300, 200), (300, 200)),
    ((2, 3), (1, 1)),
]


def operands(sizes, requires_grad, device="cpu"):
    rng = np.random.default_rng(7)
    a, b = (tt.from_numpy(rng.standard_normal(s).astype(np.float32)).to(device) for s in sizes)
    return a.requires_grad_(requires_grad), b


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_stream_of_shapes_gives_what_each_shape_gives_alone(call, requires_grad, device):
    alone = []
    for sizes in SHAPES:
        Dispatcher.singleton().forget_all()
        alone.append(call(*operands(sizes, requires_grad, device)))
    Dispatcher.singleton().forget_all()
    call(*operands(((3, 4), (3, 4)), requires_grad, device))
    call(*operands(((3, 9), (1, 9)), requires_grad, device))
    for sizes, expected in zip(SHAPES, alone, strict=True):
        given = call(*operands(sizes, requires_grad, device))
        assert given._spec is expected._spec, sizes
        if device == "cpu":
            np.testing.assert_array_equal(given.detach().numpy(), expected.detach().numpy())


def test_memory_order_of_size_one_dimensions_is_decided_anew():
    """Give contiguous strides to size-1 dimensions of a result, independent of its operand's strides."""
    tt.ones(3, 4).exp()
    odd = tt.ones(4, 3).t()[:1]
    assert odd.is_contiguous() is False
    odd = tt.as_strided(tt.ones(8), (1, 4), (2, 1))
    assert odd.exp().stride() == (4, 1)
    assert (odd + odd).stride() == (4, 1)
    assert (odd + tt.ones(5, 1)).stride() == (4, 1)


@pytest.mark.parametrize("sizes", [((3, 4), (2, 4)), ((3, 4), (3, 5)), ((3, 4), (4, 3))])
def test_shapes_that_do_not_broadcast_are_refused_after_those_that_do(sizes):
    a, b = operands(((3, 4), (3, 4)), False)
    a + b
    a.add_(b)
    a, b = operands(sizes, False)
    before = a.numpy().copy()
    with pytest.raises(RuntimeError, match="must match the size of tensor"):
        a + b
    with pytest.raises(RuntimeError, match="must match the size of tensor"):
        a.add_(b)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        tt.ones(1, 4).add_(tt.ones(3, 4))
    np.testing.assert_array_equal(a.numpy(), before)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ((True, 4), TypeError, "found element of type bool at pos 0"),
        ((2.0, 2), TypeError, "found element of type float at pos 0"),
        (("2", 2), TypeError, "found element of type str at pos 0"),
        ((2**70, 1), TypeError, "element 1180591620717411303424 at pos 0 failed to unpack"),
        ((2**62, 4), RuntimeError, "Storage size calculation overflowed"),
        ((2**40, 2**40), RuntimeError, "Storage size calculation overflowed"),
        ((3, -1), RuntimeError, "negative dimension"),
    ],
)
def test_sizes_are_checked_after_calls_of_the_same_form(wrong, error, message):
    tt.zeros((2, 3))
    tt.zeros((4, 5))
    with pytest.raises(error, match=message):
        tt.zeros(wrong)


def test_a_size_beyond_64_bits_is_named():
    with pytest.raises(
        TypeError, match=r"'shape'.* element 1180591620717411303424 at pos 1 failed to unpack"
    ):
        tt.ones(6).reshape(2, 2**70)


def test_a_new_default_dtype_reaches_later_shapes():
    tt.ones(3, 4, dtype=tt.int32).exp()
    tt.set_default_dtype(tt.float64)
    try:
        assert tt.ones(5, 2, dtype=tt.int32).exp().dtype is tt.float64
    finally:
        tt.set_default_dtype(tt.float32)
    assert tt.ones(5, 3, dtype=tt.int32).exp().dtype is tt.float32


def test_a_composition_that_gave_a_part_s_plan_plans_other_ranks_itself():
    """Plan `matmul` of two matrices as `mm`, and other ranks by itself."""
    tt.matmul(tt.ones(3, 4), tt.ones(4, 5))
    assert tt.matmul(tt.ones(2, 6, 3), tt.ones(2, 3, 2)).shape == (2, 6, 2)
    tt.matmul(tt.ones(3, 5), tt.ones(5, 5))
    with pytest.raises(RuntimeError, match="both arguments to matmul need to be at least 1D"):
        tt.matmul(tt.ones(()), tt.ones(4))


def test_joins_of_a_known_kind_are_still_checked():
    tt.cat((tt.ones(2, 3), tt.ones(4, 3)))
    tt.cat((tt.ones(5, 3), tt.ones(1, 3)))
    with pytest.raises(RuntimeError, match="Sizes of tensors must match except in dimension 0"):
        tt.cat((tt.ones(2, 3), tt.ones(2, 4)))
    with pytest.raises(RuntimeError, match="Tensors must have same number of dimensions"):
        tt.cat((tt.ones(2, 3), tt.ones(2, 3, 1)))
    assert tt.cat((tt.ones(2), tt.ones(0))).shape == (2,)
    assert tt.cat((tt.ones(2, 2, 2), tt.ones(1, 2, 2))).shape == (3, 2, 2)


def test_a_negative_dimension_is_another_one_for_each_rank():
    for shape, expected in (((2, 3), (2,)), ((4, 5), (4,)), ((2, 3, 4), (2, 3)), ((5,), ())):
        assert tt.ones(shape).sum(-1).shape == expected
        assert tt.cat((tt.ones(shape), tt.ones(shape)), -1).shape == (*shape[:-1], 2 * shape[-1])


def test_dimensions_given_as_a_list_are_those_of_each_call():
    x = tt.ones(2, 3, 4)
    for dims, expected in (([0, 1], (4,)), ([1, 2], (2,)), ([0, 2], (3,)), ((0, -1), (3,))):
        assert x.sum(dims).shape == expected
        assert x.mean(dims).shape == expected


def test_a_whole_number_for_a_float_is_planned_once(monkeypatch):
    x = tt.empty(3, 4)
    for low, high in ((0, 1), (2, 5), (2.0, 5), (-3, 4)):
        tt.manual_seed(3)
        x.uniform_(low, high)
        tt.manual_seed(3)
        expected = tt.empty(3, 4).uniform_(float(low), float(high))
        assert x.tolist() == expected.tolist()
    planned = []
    plan_new_kind = OverloadPacket._plan_new_kind
    monkeypatch.setattr(
        OverloadPacket, "_plan_new_kind", lambda *args: planned.append(args) or plan_new_kind(*args)
    )
    for _ in range(3):
        x.uniform_(0, 1)
        tt.empty(3, 4).uniform_(1, 7)
    assert [packet.name for packet, *_ in planned if packet.name == "uniform_"] == []
