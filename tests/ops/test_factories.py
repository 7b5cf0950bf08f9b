"""Factories: values, dtypes, strides, devices, options, and what they refuse."""

import math
import warnings

import numpy as np
import pytest

import triten as tt

DEVICES = ["cpu", "meta"]
DTYPES = [tt.float32, tt.float64, tt.float16, tt.bfloat16, tt.int8, tt.int64, tt.uint8, tt.bool, tt.complex64]


@pytest.fixture(autouse=True)
def _defaults():
    yield
    tt.set_default_dtype(tt.float32)
    tt.set_default_device(None)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [(), (0,), (3,), (2, 3, 4), (40, 50)], ids=str)
@pytest.mark.parametrize(("make", "value"), [("zeros", 0), ("ones", 1)])
def test_constant(make, value, size, dtype, device):
    made = getattr(tt, make)(size, dtype=dtype, device=device)
    assert made.shape == size and made.dtype is dtype and made.device.type == device and made.is_contiguous()
    if device == "cpu":
        assert (made.numpy() == value).all()


@pytest.mark.parametrize("make", ["zeros", "ones", "empty", "rand", "randn"])
def test_sizes_in_every_spelling(make):
    function = getattr(tt, make)
    wanted = (2, 3)
    for made in (
        function(2, 3),
        function((2, 3)),
        function([2, 3]),
        function(tt.zeros(2, 3).shape),
        function(size=(2, 3)),
    ):
        assert made.shape == wanted
    assert function(()).shape == () and function(2).shape == (2,)


@pytest.mark.parametrize("make", ["zeros", "ones", "empty", "rand", "randn"])
def test_requires_grad(make):
    function = getattr(tt, make)
    for _ in range(2):
        made = function(2, 3, requires_grad=True)
        assert made.requires_grad and made.is_leaf and not function(2, 3).requires_grad
    with pytest.raises(RuntimeError, match="floating point and complex"):
        tt.zeros(2, dtype=tt.int64, requires_grad=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda **k: tt.full((2,), 1.5, **k),
        lambda **k: tt.zeros(2).new_full((2,), 1.0, **k),
        lambda **k: tt.zeros(2).new_zeros(2, **k),
        lambda **k: tt.zeros_like(tt.ones(2), **k),
        lambda **k: tt.full_like(tt.ones(2), 2.0, **k),
        lambda **k: tt.arange(3.0, **k),
        lambda **k: tt.linspace(0, 1, 3, **k),
        lambda **k: tt.eye(2, **k),
        lambda **k: tt.tensor([1.0], **k),
        lambda **k: tt.zeros(2).new_tensor([1.0], **k),
        lambda **k: tt.rand_like(tt.ones(2), **k),
        lambda **k: tt.normal(0.0, 1.0, (2,), **k),
    ],
)
def test_requires_grad_everywhere(make):
    assert make(requires_grad=True).requires_grad and not make().requires_grad


@pytest.mark.parametrize("make", ["zeros", "ones", "empty"])
def test_negative_size(make):
    with pytest.raises(RuntimeError, match="negative dimension"):
        getattr(tt, make)(2, -1)


@pytest.mark.parametrize("bad", ["a", 2.0, True, None])
def test_sizes_of_another_type(bad):
    with pytest.raises(TypeError, match="zeros"):
        tt.zeros(bad)


def test_default_dtype_is_asked_anew():
    assert tt.zeros(2).dtype is tt.float32 and tt.arange(1.0).dtype is tt.float32
    tt.set_default_dtype(tt.float64)
    assert tt.zeros(2).dtype is tt.float64 and tt.arange(1.0).dtype is tt.float64
    assert (
        tt.rand(2).dtype is tt.float64
        and tt.tensor(1.0).dtype is tt.float64
        and tt.full((1,), 1j).dtype is tt.complex128
    )


def test_default_device_is_asked_anew():
    assert tt.zeros(2).device.type == "cpu"
    tt.set_default_device("meta")
    for made in (tt.zeros(2), tt.rand(2), tt.tensor([1.0]), tt.arange(3), tt.eye(2), tt.randint(3, (2,))):
        assert made.device.type == "meta"
    assert tt.zeros(2, device="cpu").device.type == "cpu" and tt.get_default_device().type == "meta"
    tt.set_default_device(None)
    assert tt.zeros(2).device.type == "cpu"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("args", "dtype"),
    [
        ((5,), tt.int64),
        ((5.0,), tt.float32),
        ((True,), tt.int64),
        ((2, 9), tt.int64),
        ((2, 9, 3), tt.int64),
        ((9, 2, -2), tt.int64),
        ((0, 1, 0.1), tt.float32),
        ((1.0, -1.0, -0.25), tt.float32),
        ((3, 3), tt.int64),
    ],
    ids=str,
)
def test_arange(args, dtype, device):
    made = tt.arange(*args, device=device)
    wanted = np.arange(*args)
    assert made.dtype is dtype and made.shape == wanted.shape
    if device == "cpu":
        np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", [tt.int8, tt.int32, tt.uint8, tt.float16, tt.bfloat16, tt.float64], ids=str)
def test_arange_dtype(dtype):
    assert tt.arange(1, 7, 2, dtype=dtype).tolist() == [1, 3, 5]
    assert tt.arange(1, 7, 2, dtype=dtype).dtype is dtype


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tt.arange(0, 1, 0), RuntimeError, "step must be nonzero"),
        (lambda: tt.arange(1, 0), RuntimeError, "inconsistent with step sign"),
        (lambda: tt.arange(float("inf")), RuntimeError, "unsupported range"),
        (lambda: tt.arange(float("nan")), RuntimeError, "unsupported range"),
        (lambda: tt.arange(3, dtype=tt.bool), NotImplementedError, "arange_cpu.*Bool"),
        (lambda: tt.arange(3, dtype=tt.complex64), NotImplementedError, "ComplexFloat"),
        (lambda: tt.arange(), TypeError, "arange"),
        (lambda: tt.arange(0, 1, 1, 1), TypeError, "arange"),
        (lambda: tt.eye(-1), RuntimeError, "n must be greater or equal to 0"),
        (lambda: tt.eye(1, -1), RuntimeError, "m must be greater or equal to 0"),
        (lambda: tt.linspace(0, 1, -1), RuntimeError, "non-negative"),
        (lambda: tt.linspace(0, 1j, 2, dtype=tt.float32), RuntimeError, "can't be safely cast"),
        (lambda: tt.full((2,), 1e300), RuntimeError, "without overflow"),
        (lambda: tt.empty(2, memory_format=tt.channels_last), RuntimeError, "required rank 4"),
        (lambda: tt.empty_strided((2,), (1, 1)), RuntimeError, "mismatch in length of strides"),
        (lambda: tt.zeros(2).fill_(tt.zeros(2)), RuntimeError, "0-dimension value tensor"),
    ],
)
def test_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.float16, tt.int32, tt.complex64], ids=str)
@pytest.mark.parametrize("steps", [0, 1, 2, 5, 50])
def test_linspace(steps, dtype):
    made = tt.linspace(-3, 10, steps, dtype=dtype)
    wanted = np.linspace(-3, 10, steps)
    wanted = np.trunc(wanted) if dtype is tt.int32 else wanted
    np.testing.assert_allclose(made.numpy(), wanted, rtol=2e-3 if dtype is tt.float16 else 1e-6, atol=1e-3)
    assert made.dtype is dtype


@pytest.mark.parametrize(("n", "m"), [(3, 3), (2, 4), (4, 2), (0, 3), (1, 1)])
def test_eye(n, m):
    assert tt.eye(n, m).tolist() == np.eye(n, m).tolist()
    assert tt.eye(n, m, dtype=tt.int64).dtype is tt.int64


def test_out_forms_keep_identity_and_resize():
    out = tt.empty(0)
    assert tt.zeros(2, 3, out=out) is out and out.tolist() == [[0.0] * 3] * 2
    assert tt.ones((2,), out=out) is out and out.tolist() == [1.0, 1.0]
    assert tt.full((3,), 4.0, out=out) is out and out.tolist() == [4.0] * 3
    assert tt.arange(4, out=out) is out and out.tolist() == [0.0, 1.0, 2.0, 3.0]
    column = tt.empty(3, 1)
    assert tt.arange(3, out=column).shape == (3, 1) and column.tolist() == [[0.0], [1.0], [2.0]]
    assert tt.eye(2, out=out) is out and out.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert tt.linspace(0, 1, 2, out=out).shape == (2,)
    address = column.data_ptr()
    tt.zeros(3, 1, out=column)
    assert column.data_ptr() == address and column.tolist() == [[0.0]] * 3


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", ["empty_like", "zeros_like", "ones_like", "rand_like", "randn_like"])
def test_like_keeps_strides_and_takes_options(make, device):
    function = getattr(tt, make)
    source = tt.zeros(2, 3, 4, 5, dtype=tt.float64, device=device)
    last = source.to(memory_format=tt.channels_last)
    assert function(last).stride() == last.stride() and function(last).dtype is tt.float64
    assert function(last, memory_format=tt.contiguous_format).is_contiguous()
    assert function(source.transpose(0, 1)).stride() == source.transpose(0, 1).stride()
    assert function(source, dtype=tt.float32).dtype is tt.float32
    assert function(source, device="meta").is_meta and function(source).device.type == device


def test_new_forms():
    source = tt.zeros(2, dtype=tt.float64)
    for made in (source.new_empty(3), source.new_zeros((3,)), source.new_ones(3), source.new_full((3,), 2)):
        assert made.shape == (3,) and made.dtype is tt.float64
    assert source.new_zeros(2, 3).shape == (2, 3) and source.new_ones(2, dtype=tt.int8).tolist() == [1, 1]
    assert source.new_full((2,), 2).tolist() == [2.0, 2.0]
    assert source.new_tensor([1, 2]).dtype is tt.float64
    assert tt.zeros(1, device="meta").new_zeros(2).is_meta


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced"])
def test_fill(dtype, layout):
    whole = tt.zeros(6, 8, dtype=dtype)
    part = {"contiguous": whole, "transposed": whole.t(), "sliced": whole[1:3]}[layout]
    assert part.fill_(3) is part and (part.numpy() == dtype.np.type(3)).all()
    if layout == "sliced":
        assert (whole.numpy()[3:] == 0).all()
    assert part.zero_() is part and (whole.numpy() == 0).all()


@pytest.mark.parametrize(
    ("dtype", "value", "wanted"),
    [
        (tt.uint8, -1, 255),
        (tt.int8, 2.9, 2),
        (tt.int8, -2.9, -2),
        (tt.float32, math.inf, math.inf),
        (tt.bool, 0.5, True),
        (tt.float32, True, 1.0),
        (tt.complex64, 1 + 2j, 1 + 2j),
        (tt.float32, 1 + 0j, 1.0),
    ],
)
def test_fill_converts(dtype, value, wanted):
    assert tt.zeros(1, dtype=dtype).fill_(value).item() == wanted


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (tt.int8, 300),
        (tt.uint8, -256),
        (tt.int32, math.nan),
        (tt.int64, math.inf),
        (tt.float32, 1e300),
        (tt.float16, 70000.0),
        (tt.float32, 1j),
    ],
)
def test_fill_refuses_what_does_not_fit(dtype, value):
    with pytest.raises(RuntimeError, match="without overflow"):
        tt.zeros(1, dtype=dtype).fill_(value)


def test_fill_keeps_signed_zero_apart():
    x = tt.zeros(2)
    assert (
        math.copysign(1, x.fill_(-0.0).tolist()[0]) == -1 and math.copysign(1, x.fill_(0.0).tolist()[0]) == 1
    )
    assert math.copysign(1, tt.full((1,), -0.0).item()) == -1


def test_fill_gradients():
    x = tt.ones(3, requires_grad=True)
    value = tt.tensor(2.0, requires_grad=True)
    y = x.clone()
    y.fill_(value)
    y.sum().backward()
    assert x.grad.tolist() == [0.0] * 3 and value.grad.item() == 3.0
    z = tt.fill(x, 1.5)
    z.sum().backward()
    assert z.tolist() == [1.5] * 3 and x.grad.tolist() == [0.0] * 3 and x.tolist() == [1.0] * 3


def test_empty_strided():
    made = tt.empty_strided((2, 3), (1, 2))
    assert made.stride() == (1, 2) and made.untyped_storage().nbytes() == 24
    assert tt.zeros(1, dtype=tt.int8).new_empty_strided((2,), (3,)).dtype is tt.int8


@pytest.mark.parametrize(
    ("start", "end", "base", "powers"),
    [(1.9, 3.2, 10.0, [10, 1000]), (-2, 0.5, 10.0, [0, 1]), (0, 3, -2.0, [1, -8])],
)
def test_logspace_of_whole_numbers_goes_from_a_whole_exponent_to_a_whole_one(
    start, end, base, powers, device
):
    assert tt.logspace(start, end, 2, base, dtype=tt.int64, device=device).tolist() == powers
    out = tt.empty(0, dtype=tt.int64, device=device)
    assert tt.logspace(start, end, 2, base, out=out).tolist() == powers


@pytest.mark.parametrize("bounds", [(2**63,), (0, 2**64, 2**63), (-(2**63) - 1, 0)])
def test_ranges_of_integers_beyond_64_bits_are_refused(bounds):
    held = all(-(2**63) <= bound < 2**64 for bound in bounds)
    with pytest.raises(RuntimeError if held else OverflowError, match=r"overflow|does not fit into 64 bits"):
        tt.arange(*bounds)


def test_full_of_a_complex_number_is_never_complex32():
    tt.set_default_dtype(tt.float16)
    try:
        assert tt.full((2,), 1 + 1j).dtype is tt.complex64 and tt.full((2,), 1.0).dtype is tt.float16
    finally:
        tt.set_default_dtype(tt.float32)


@pytest.mark.parametrize(
    ("factory", "count"),
    [
        (lambda out: tt.arange(9, out=out), 9),
        (lambda out: tt.fft.fftfreq(9, out=out), 9),
        (lambda out: tt.fft.rfftfreq(9, out=out), 5),
    ],
)
def test_an_output_of_another_length_is_resized_with_a_warning(factory, count):
    given = tt.empty(2)
    with pytest.warns(
        UserWarning, match=rf"is 2 which does not match the computed number of elements {count}"
    ):
        assert factory(given) is given
    assert given.shape == (count,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tt.equal(factory(tt.empty(0)), given)
        factory(given)


def test_a_range_into_an_output_is_deprecated():
    with pytest.warns(UserWarning, match="range is deprecated") as caught:
        made = tt.range(1, 4, out=tt.empty(0))
    assert made.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert caught[0].filename == __file__


@pytest.mark.parametrize("size", [(0, 3), (3, 0), (4, 7), (7, 4), (60, 50)])
@pytest.mark.parametrize("offset", [-9, -2, 0, 1, 9])
def test_indices_of_triangles(size, offset, device):
    for made, expected in (
        (tt.tril_indices(*size, offset, device=device), np.tril_indices(size[0], offset, size[1])),
        (tt.triu_indices(*size, offset, device=device), np.triu_indices(size[0], offset, size[1])),
    ):
        assert made.dtype is tt.int64 and made.is_contiguous()
        np.testing.assert_array_equal(made.cpu().numpy(), np.stack(expected))
    assert tt.triu_indices(3, 3, dtype=tt.int32).dtype is tt.int32
