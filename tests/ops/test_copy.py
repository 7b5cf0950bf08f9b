"""Copies and conversions: values of casts, memory formats, identity, gradients."""

import math

import ml_dtypes
import numpy as np
import pytest

import triten as tt

REAL = [
    tt.uint8,
    tt.int8,
    tt.int16,
    tt.int32,
    tt.int64,
    tt.float16,
    tt.bfloat16,
    tt.float32,
    tt.float64,
    tt.bool,
]
NARROW = [tt.float16, tt.bfloat16, tt.float8_e5m2, tt.float8_e4m3fn]


@pytest.mark.parametrize(
    "target", [*REAL, tt.complex64, tt.complex128, tt.float8_e5m2, tt.uint16, tt.uint64], ids=str
)
@pytest.mark.parametrize("source", [*REAL, tt.complex64], ids=str)
def test_small_numbers_cast_exactly(source, target):
    numbers = [0, 1] if source is tt.bool else [0, 1, 2, 5, 100, 7]
    x = tt.tensor(numbers, dtype=source)
    made = x.to(target)
    wanted = [bool(n) for n in numbers] if target is tt.bool else numbers
    if target is tt.float8_e5m2:
        wanted = [96 if n == 100 else n for n in numbers]
    assert made.dtype is target and made.tolist() == wanted


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("target", [tt.float32, tt.int32, tt.bool, tt.complex64, tt.complex128], ids=str)
@pytest.mark.parametrize("source", [tt.float32, tt.int64, tt.bool, tt.complex64, tt.complex128], ids=str)
def test_strided_copies_between_real_and_complex(source, target, device):
    real = tt.tensor([[0, 1, 0, 2], [3, 0, 4, 0]], dtype=source)
    x = real + 1j * real.flip(1) if source.is_complex else real
    numbers = x[:, ::2].t().tolist()
    made = x.to(device)[:, ::2].t().to(target)
    if target is tt.bool:
        wanted = [[bool(n) for n in row] for row in numbers]
    elif target.is_complex:
        wanted = [[complex(n) for n in row] for row in numbers]
    else:
        wanted = [[complex(n).real for n in row] for row in numbers]
    assert made.dtype is target and made.cpu().tolist() == wanted


@pytest.mark.parametrize("size", [1, 70000], ids=["small", "blocked"])
@pytest.mark.parametrize("source", [tt.float32, tt.float64], ids=str)
@pytest.mark.parametrize(
    ("target", "values", "wanted"),
    [
        (tt.int64, [2.9, -2.9, 3e9, 1e20, math.nan], [2, -2, 3000000000, -(2**63), -(2**63)]),
        (tt.int32, [2.9, -2.9, 3e9, math.inf], [2, -2, -(2**31), -(2**31)]),
        (tt.int16, [2.9, -2.9, 300.7, 3e9], [2, -2, 300, 0]),
        (tt.int8, [2.9, -2.9, 300.7, -1.5], [2, -2, 44, -1]),
        (tt.uint8, [2.9, 300.7, -1.5], [2, 44, 255]),
        (tt.bool, [0.5, math.nan, 0.0, -0.0], [True, True, False, False]),
        (tt.float8_e4m3fn, [500.0, -1e9, 464.0, math.inf], [448.0, -448.0, 448.0, 448.0]),
        (tt.float8_e5m2, [57344.0, 6e4, 61440.0, -7e4], [57344.0, 57344.0, math.inf, -math.inf]),
        (tt.float16, [65504.0, 65520.0, -1e6], [65504.0, math.inf, -math.inf]),
    ],
)
def test_casts_at_the_edges(source, target, values, wanted, size):
    x = tt.tensor(values, dtype=source)
    made = x.unsqueeze(1).expand(len(values), size).to(target)
    assert made.select(1, size - 1).tolist() == wanted


@pytest.mark.parametrize("target", NARROW, ids=str)
def test_rounding_to_nearest_even(target):
    rng = np.random.default_rng(0)
    values = (rng.standard_normal(5000) * 2.0 ** rng.integers(-12, 8, 5000)).astype(np.float32)
    made = tt.from_numpy(values).to(target).numpy()
    wanted = (
        np.clip(values, -448, 448).astype(target.np)
        if target is tt.float8_e4m3fn
        else values.astype(target.np)
    )
    assert (made.view(np.uint8) == wanted.view(np.uint8)).all()
    assert tt.tensor([math.nan]).to(target).float().numpy()[0] != 0
    assert np.isnan(tt.tensor([math.nan]).to(target).double().numpy()).all()
    assert math.copysign(1, tt.tensor([-0.0]).to(target).tolist()[0]) == -1


def test_ties_go_to_even():
    assert tt.tensor([1 + 2**-8, 1 + 3 * 2**-8]).bfloat16().tolist() == [1.0, 1 + 2**-6]
    assert ml_dtypes.bfloat16(1 + 2**-8) == 1.0


def test_complex_to_real_drops_the_imaginary_part():
    z = tt.tensor([1 + 2j, -3.5 - 4j])
    assert (
        z.float().tolist() == [1.0, -3.5] and z.int().tolist() == [1, -3] and z.half().tolist() == [1.0, -3.5]
    )
    assert tt.tensor([0j, 1j]).bool().tolist() == [False, True]


@pytest.mark.parametrize(
    ("method", "dtype"),
    [
        ("float", tt.float32),
        ("double", tt.float64),
        ("half", tt.float16),
        ("bfloat16", tt.bfloat16),
        ("byte", tt.uint8),
        ("char", tt.int8),
        ("short", tt.int16),
        ("int", tt.int32),
        ("long", tt.int64),
        ("bool", tt.bool),
        ("cfloat", tt.complex64),
        ("cdouble", tt.complex128),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_shorthands(method, dtype, device):
    x = tt.ones(2, 3, 4, 5, dtype=tt.int64 if method != "long" else tt.float32, device=device)
    made = getattr(x, method)()
    assert made.dtype is dtype and made.device.type == device and getattr(made, method)() is made
    assert getattr(x, method)(memory_format=tt.channels_last).is_contiguous(memory_format=tt.channels_last)


def test_to_returns_itself_where_nothing_changes():
    x = tt.zeros(2, 3)
    y = tt.zeros(1, dtype=tt.float64)
    for same in (
        x.to(tt.float32),
        x.to("cpu"),
        x.to(x),
        x.to("cpu", tt.float32),
        x.cpu(),
        x.contiguous(),
        x.type_as(x),
    ):
        assert same is x
    for copy in (x.to(tt.float32, copy=True), x.to("cpu", copy=True), x.to(x, copy=True), x.clone()):
        assert copy is not x and copy.data_ptr() != x.data_ptr()
    for other in (x.to(tt.float64), x.to(y), x.to("cpu", tt.float64), x.to(dtype=tt.float64), x.type_as(y)):
        assert other.dtype is tt.float64
    assert x.to("meta").is_meta and x.to(tt.device("meta"), tt.int8).dtype is tt.int8
    with pytest.raises(NotImplementedError, match="no data"):
        x.to("meta").to("cpu")


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16, tt.int16], ids=str)
def test_memory_formats(dtype):
    x = tt.arange(120, dtype=tt.float32).view(2, 3, 4, 5).to(dtype)
    last = x.to(memory_format=tt.channels_last)
    assert last.is_contiguous(memory_format=tt.channels_last) and last.tolist() == x.tolist()
    assert last.clone().stride() == last.stride() and last.to(tt.float64).stride() == last.stride()
    assert (
        last.contiguous().is_contiguous() and last.clone(memory_format=tt.contiguous_format).is_contiguous()
    )
    assert last.contiguous(memory_format=tt.channels_last) is last
    assert (
        x.expand(2, 3, 4, 5).clone().is_contiguous() and x[:, :1].expand(2, 3, 4, 5).clone().is_contiguous()
    )
    with pytest.raises(RuntimeError, match="preserve"):
        x.mT.contiguous(memory_format=tt.preserve_format)


@pytest.mark.parametrize("shape", [(600, 700), (3, 500, 400), (1000, 1, 600)], ids=str)
@pytest.mark.parametrize("target", [tt.float32, tt.float64, tt.int8, tt.bfloat16], ids=str)
def test_large_transposing_copies(shape, target):
    array = np.random.default_rng(0).integers(-100, 100, shape).astype(np.float32)
    x = tt.from_numpy(array).transpose(0, len(shape) - 1)
    made = x.to(target).contiguous()
    assert (
        made.is_contiguous()
        and (made.numpy().astype(np.float32) == np.swapaxes(array, 0, len(shape) - 1)).all()
    )
    back = tt.empty(shape, dtype=target)
    back.copy_(made.transpose(0, len(shape) - 1))
    assert (back.numpy().astype(np.float32) == array).all()


def test_copy_():
    x = tt.zeros(2, 3)
    assert x.copy_(tt.tensor([1, 2, 3])) is x and x.tolist() == [[1.0, 2.0, 3.0]] * 2
    assert x[:, 1].copy_(tt.tensor(9.0)).tolist() == [9.0, 9.0] and x.tolist()[0] == [1.0, 9.0, 3.0]
    x.t().copy_(tt.arange(6).view(3, 2))
    assert x.tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
    version = x.current_version()
    x.copy_(tt.ones(2, 3))
    assert x.current_version() == version + 1
    with pytest.raises(RuntimeError, match="The size of tensor a"):
        x.copy_(tt.ones(4))
    with pytest.raises(RuntimeError, match="single memory location"):
        tt.zeros(1).expand(3).copy_(tt.ones(3))
    with pytest.raises(TypeError, match="copy_"):
        x.copy_("1.0")


def test_empty_and_scalar():
    assert tt.zeros(0, 3).double().shape == (0, 3) and tt.tensor(1.5).int().item() == 1
    assert tt.zeros(0, 3).clone().shape == (0, 3) and tt.tensor(True).float().item() == 1.0


def test_gradients():
    x = tt.ones(2, 3, requires_grad=True)
    y = x.double().clone().contiguous().to(tt.float16).to(tt.float64, copy=True).type_as(tt.zeros(1))
    y.sum().backward()
    assert x.grad.dtype is tt.float32 and x.grad.tolist() == [[1.0] * 3] * 2
    source = tt.ones(3, dtype=tt.float64, requires_grad=True)
    base = tt.ones(2, 3, requires_grad=True)
    target = base.clone()
    target.copy_(source)
    target.sum().backward()
    assert (
        source.grad.tolist() == [2.0] * 3
        and source.grad.dtype is tt.float64
        and base.grad.tolist() == [[0.0] * 3] * 2
    )
    assert (
        not x.int().requires_grad and not x.detach().requires_grad and x.detach().data_ptr() == x.data_ptr()
    )


def test_numpy_error_state_is_left_alone():
    with np.errstate(all="raise"):
        assert tt.tensor([math.nan, 1e20, 1e300], dtype=tt.float64).int().shape == (3,)
        assert tt.tensor([1e300], dtype=tt.float64).float().tolist() == [math.inf]
        assert tt.tensor([1e30]).half().tolist() == [math.inf] and tt.tensor([1e-30]).bfloat16().shape == (1,)


@pytest.mark.parametrize(
    "dtype", [tt.float32, tt.float64, tt.bfloat16, tt.int64, tt.uint8, tt.bool, tt.complex64], ids=str
)
def test_copy_of_numbers(dtype: tt.dtype, device: str) -> None:
    for value in (True, 3, 2.5, 0.1, np.float32(1.5), np.int16(7)):
        made = tt.zeros(2, dtype=dtype, device=device).copy_(value)
        assert made.tolist() == tt.tensor([value, value], dtype=tt.float64).to(dtype).tolist()
        assert tt.zeros(2, dtype=dtype, device=device).copy_(value, True).tolist() == made.tolist()
    assert tt.zeros((), dtype=dtype, device=device).copy_(src=1).item() == 1


def test_copy_of_numbers_as_a_tensor_of_them_would_be(device: str) -> None:
    assert tt.zeros(1, device=device).copy_(2 + 1j).item() == 2
    assert tt.zeros(1, dtype=tt.int16, device=device).copy_(70000).item() == 70000 - 65536
    x = tt.ones(2, device=device, requires_grad=True)
    y = x * 2
    y[1:].copy_(5.0)
    y.sum().backward()
    assert x.grad.tolist() == [2, 0]
    assert tt.zeros(2, 1, device="meta").copy_(1).shape == (2, 1)
    assert tt.vmap(lambda x: x.clone().copy_(3))(tt.ones(2, device=device)).tolist() == [3, 3]
    assert tt.ops.aten.copy_.default(tt.zeros(1, device=device), tt.ones(1, device=device), True).item() == 1
    with pytest.raises(RuntimeError, match="leaf"):
        x.copy_(1)


@pytest.mark.parametrize(
    ("to", "source", "message"),
    [
        (
            (2,),
            (3,),
            r"The size of tensor a \(2\) must match the size of tensor b \(3\) at non-singleton dimension 0",
        ),
        ((2, 2), (3, 2, 2), r"output with shape \[2, 2\] doesn't match the broadcast shape \[3, 2, 2\]"),
        ((1,), (4,), r"output with shape \[1\] doesn't match the broadcast shape \[4\]"),
    ],
)
def test_a_source_that_does_not_broadcast_is_refused(to, source, message, device):
    with pytest.raises(RuntimeError, match=message):
        tt.ones(to, device=device).copy_(tt.ones(source, device=device))
