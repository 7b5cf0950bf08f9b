"""NumPy's protocols: arrays of tensors, tensors beside arrays, and NumPy's functions of tensors."""

import io
import operator
import sys

import numpy as np
import pytest

import triten as tt
from triten.runtime.scalar_type import ALL, PACKED, QUANTIZED

takes_dtypes = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="NumPy 2.4 asks for __numpy_dtype__"
)


def test_arrays_share_memory_and_copy_only_where_they_may():
    x = tt.arange(6.0).view(2, 3)
    assert np.asarray(x).ctypes.data == x.data_ptr() == np.array(x, copy=False).ctypes.data
    assert np.asarray(x, dtype="f4").ctypes.data == x.data_ptr()
    assert np.array(x).ctypes.data != x.data_ptr()
    assert np.asarray(x, dtype="f8").dtype == "f8" and np.array(x, dtype="i4").tolist() == x.tolist()
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        np.array(x, dtype="f8", copy=False)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(tt.ones(2, requires_grad=True))


@takes_dtypes
@pytest.mark.parametrize("dtype", [*ALL, *sorted(QUANTIZED, key=str)], ids=lambda each: each.name)
def test_numpy_takes_dtypes(dtype):
    if dtype is PACKED or dtype in QUANTIZED:
        with pytest.raises(TypeError, match="Cannot interpret"):
            np.dtype(dtype)
        assert dtype != np.dtype(np.int8) != dtype
        return
    assert np.dtype(dtype) is dtype.np or np.dtype(dtype) == dtype.np
    assert np.zeros(2, dtype).dtype == dtype.np == dtype == np.dtype(dtype)
    assert {dtype: 1}[dtype] == 1 and [d for d in ALL if d == dtype] == [dtype]


OPERATORS = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
}
BITS = {name: getattr(operator, name) for name in ("and_", "or_", "xor", "lshift", "rshift")}
COMPARISONS = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}


@pytest.mark.parametrize("name", [*OPERATORS, *BITS])
def test_an_operator_takes_an_array_on_either_side(name):
    function = OPERATORS.get(name) or BITS[name]
    left, right = np.array([7, 2, 3]), np.array([1, 2, 4])
    if name in OPERATORS:
        left, right = left.astype(np.float64), right.astype(np.float64)
    expected = function(left, right)
    for result in (
        function(tt.from_numpy(left), right),
        function(left, tt.from_numpy(right)),
    ):
        assert type(result) is tt.Tensor and result.dtype.np == expected.dtype
        assert np.allclose(result.numpy(), expected)


def test_both_sides_have_one_dtype():
    for array in (np.arange(3), np.array(2.0), np.arange(3, dtype=np.float16)):
        x = tt.ones(3)
        assert (array + x).dtype is (x + array).dtype and (array + x).tolist() == (x + array).tolist()


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_with_arrays(name):
    a, b = np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 1.0])
    compare = COMPARISONS[name]
    for result in (compare(tt.from_numpy(a), b), compare(a, tt.from_numpy(b))):
        assert type(result) is tt.Tensor and result.tolist() == compare(a, b).tolist()


def test_operators_that_arrays_do_not_have():
    for other in ("a", [1.0], None):
        with pytest.raises(TypeError):
            tt.ones(1) < other  # noqa: B015
        with pytest.raises(TypeError):
            other - tt.ones(1)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.ones(2) + tt.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="can't convert meta"):
        np.ones(2) + tt.ones(2, device="meta")


REDUCTIONS = ["sum", "prod", "mean", "std", "var", "max", "min", "amax", "amin", "all", "any"]


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_are_numpys(name, axis, rng, device):
    function = getattr(np, name)
    array = rng.standard_normal((2, 3, 4))
    for values in (array, (array * 5).astype(np.int64)):
        if device == "cuda" and (axis == () or values.dtype == np.int64 or name in ("prod", "std", "var")):
            continue
        for keepdims in (False, True):
            expected = function(values, axis=axis, keepdims=keepdims)
            result = function(tt.tensor(values, device=device), axis=axis, keepdims=keepdims)
            assert type(result) is tt.Tensor and result.shape == expected.shape, name
            assert result.device.type == device and result.dtype.np == expected.dtype
            assert np.allclose(result.cpu().numpy(), expected)


def test_reductions_of_a_number_and_options():
    x = tt.tensor(3.0)
    for name in REDUCTIONS:
        if name not in ("std", "var"):
            assert float(getattr(np, name)(x)) == float(getattr(np, name)(np.array(3.0)))
    y = tt.arange(4.0)
    assert np.std(y, ddof=1).item() == pytest.approx(np.std(y.numpy(), ddof=1))
    assert np.sum(y, dtype=np.float64).dtype is tt.float64 and np.sum(y, 0).item() == 6
    assert np.sum(y, initial=4).item() == 10 and np.sum(y, where=np.array([1, 0, 1, 0], bool)).item() == 2
    out = tt.zeros(())
    assert np.sum(y, out=out) is out and out.item() == 6
    with pytest.raises(ValueError, match="output parameter"):
        np.sum(y, out=tt.zeros(3))
    assert np.sum([tt.tensor(1.0), tt.tensor(2.0)]) == 3


def test_reductions_keep_history():
    x = tt.ones(3, requires_grad=True)
    np.mean(x).backward()
    assert x.grad.tolist() == pytest.approx([1 / 3] * 3)


def test_other_functions_are_done_as_before():
    x = tt.tensor([3.0, 1.0, 2.0])
    assert type(np.sqrt(x)) is tt.Tensor and type(np.sort(x)) is np.ndarray
    assert np.concatenate([x, np.ones(1)]).tolist() == [3.0, 1.0, 2.0, 1.0]
    assert np.argmax(x, axis=0).item() == 0 and np.clip(x, 1.5, 2.5).tolist() == [2.5, 1.5, 2.0]
    assert np.transpose(tt.ones(2, 3)).shape == (3, 2) and np.median(x) == 2

    class Foreign:
        def __array_function__(self, func, types, args, kwargs):
            return "foreign"

    assert np.concatenate([x, Foreign()]) == "foreign" == np.sum(Foreign())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 asks for __buffer__")
def test_tensors_are_buffers():
    x = tt.arange(12.0).view(3, 4)[:, ::2]
    view = memoryview(x)
    assert view.format == "f" and view.shape == (3, 2) and view.strides == (16, 8) and not view.readonly
    view[0, 1] = 9.0
    assert x[0, 1] == 9 and bytes(tt.ones(2, dtype=tt.uint8)) == b"\1\1"
    assert tt.frombuffer(tt.ones(3), dtype=tt.float32).sum() == 3
    assert (
        np.asarray(x).ctypes.data == x.data_ptr()
        and np.asarray(tt.ones(2).bfloat16()).dtype == tt.bfloat16.np
    )
    with pytest.raises(BufferError):
        io.BytesIO().write(x)  # which wants contiguous bytes
    for other in (tt.ones(2, requires_grad=True), tt.ones(2, device="meta"), tt.ones(2).bfloat16()):
        with pytest.raises(BufferError, match="has no buffer"):
            memoryview(other)


def test_buffers_are_refused_as_arrays_are():
    assert tt.ones(2).__buffer__(0).shape == (2,)
    with pytest.raises(BufferError, match="requires grad"):
        tt.ones(2, requires_grad=True).__buffer__(0)


def test_tensordot_takes_axes():
    a, b = tt.arange(6.0).view(2, 3), tt.arange(12.0).view(3, 4)
    for axes in (1, ([1], [0])):
        assert tt.tensordot(a, b, axes=axes).tolist() == np.tensordot(a.numpy(), b.numpy(), axes).tolist()
    with pytest.raises(TypeError, match="multiple values"):
        tt.tensordot(a, b, 1, axes=1)


@pytest.mark.parametrize("function", ["tensor", "as_tensor", "asarray", "from_numpy"])
def test_arrays_of_100_megabytes_are_not_held_twice(function):
    import tracemalloc

    array = np.zeros(12_500_000)
    tracemalloc.start()
    made = getattr(tt, function)(array)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    allowed = array.nbytes + 1_000_000 if function == "tensor" else 1_000_000
    assert peak < allowed and made.numel() == array.size


def test_import_brings_no_client():
    import subprocess

    program = (
        "import sys, triten\n"
        "names = 'safetensors', 'triten.runtime.dlpack', 'cupy', 'jax', 'torch', 'triten.safetensors.opening'\n"
        "assert not [n for n in names if n in sys.modules], [n for n in names if n in sys.modules]\n"
    )
    subprocess.run([sys.executable, "-P", "-c", program], check=True, timeout=60)
