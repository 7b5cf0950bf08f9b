"""`tensor`, `as_tensor`, `asarray`, `from_numpy`: inference, copies, refusals."""

import math

import numpy as np
import pytest

import triten as tt
from triten.dispatch import tensor_data


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1, tt.int64),
        (True, tt.bool),
        (1.5, tt.float32),
        (1j, tt.complex64),
        ([1, 2.0], tt.float32),
        ([True, 1], tt.int64),
        ([True, 1j], tt.complex64),
        ([], tt.float32),
        ([[], []], tt.float32),
        (np.float64(1), tt.float64),
        ([np.float64(1), 2.0], tt.float64),
        ([np.float32(1), 2], tt.float32),
        (np.int32(3), tt.int32),
        (range(3), tt.int64),
        ([range(2), (3, 4)], tt.int64),
        ([np.array([1, 2]), np.array([3, 4])], tt.int64),
        (np.zeros(2, np.complex64), tt.complex64),
        (((1.0, 2.0), (3.0, 4.0)), tt.float32),
    ],
    ids=repr,
)
def test_inference(data, dtype):
    made = tt.tensor(data)
    wanted = np.array(data)
    assert (
        made.dtype is dtype
        and made.shape == wanted.shape
        and made.tolist() == wanted.astype(dtype.np).tolist()
    )


@pytest.mark.parametrize(
    ("data", "dtype", "wanted"),
    [
        (1.9, tt.int64, 1),
        (-1, tt.uint8, 255),
        (1e300, tt.float32, math.inf),
        ([0.0, 2.0], tt.bool, [False, True]),
        (1j, tt.bool, True),
        (2**63, tt.uint64, 2**63),
        ([1, 2], tt.bfloat16, [1.0, 2.0]),
        ([300.0], tt.float8_e4m3fn, [288.0]),
    ],
)
def test_conversion(data, dtype, wanted):
    made = tt.tensor(data, dtype=dtype)
    assert made.dtype is dtype and made.tolist() == wanted


@pytest.mark.parametrize(
    ("data", "options", "error", "words"),
    [
        ("a", {}, TypeError, "invalid data type 'str'"),
        (["a"], {}, ValueError, "too many dimensions 'str'"),
        ([1, "a"], {}, TypeError, "invalid data type 'str'"),
        (None, {}, RuntimeError, "Could not infer dtype of NoneType"),
        ({}, {}, RuntimeError, "Could not infer dtype of dict"),
        ([[1], 2], {}, TypeError, "not a sequence"),
        ([1, [2]], {}, TypeError, "'list' object"),
        ([[1, 2], [3]], {}, ValueError, r"expected sequence of length 2 at dim 1 \(got 1\)"),
        ([[[1]], [[2, 3]]], {}, ValueError, r"length 1 at dim 2 \(got 2\)"),
        ([300], {"dtype": tt.int8}, RuntimeError, "without overflow"),
        (math.nan, {"dtype": tt.int32}, RuntimeError, "without overflow"),
        (2**63, {}, ValueError, "Overflow when unpacking long"),
        (1j, {"dtype": tt.float32}, TypeError, "complex"),
        (1j, {"dtype": tt.int32}, TypeError, "complex"),
        (np.array(["a"]), {}, TypeError, "can't convert np.ndarray"),
        ([1, 2], {"requires_grad": True}, RuntimeError, "floating point"),
        (5, {"dtype": "float32"}, TypeError, "must be triten.dtype"),
        (5, {"device": "foo"}, RuntimeError, "device"),
    ],
)
def test_refused(data, options, error, words):
    with pytest.raises(error, match=words):
        tt.tensor(data, **options)


def test_tensor_copies_and_detaches():
    array = np.zeros(2, np.float32)
    made = tt.tensor(array)
    array[0] = 1
    assert made.tolist() == [0.0, 0.0]
    source = tt.ones(2, requires_grad=True)
    copy = tt.tensor(source)
    assert not copy.requires_grad and copy.data_ptr() != source.data_ptr()
    assert tt.tensor([tt.tensor(1), tt.tensor(2.5)]).tolist() == [1.0, 2.5]
    assert tt.tensor(1.0, device="meta").is_meta


def test_tensor_of_reversed_array():
    assert tt.tensor(np.arange(3)[::-1]).tolist() == [2, 1, 0]


def test_as_tensor_and_asarray_share():
    array = np.zeros(2)
    assert tt.as_tensor(array).numpy() is array and tt.asarray(array, copy=False).numpy() is array
    x = tt.ones(2, requires_grad=True)
    assert tt.as_tensor(x) is x and tt.as_tensor(x, dtype=tt.float64).grad_fn is not None
    assert tt.asarray(x, copy=True).data_ptr() != x.data_ptr()
    assert tt.as_tensor([1, 2]).dtype is tt.int64
    with pytest.raises(ValueError, match="alias"):
        tt.asarray([1, 2], copy=False)
    with pytest.raises(ValueError, match="alias"):
        tt.asarray(array, dtype=tt.float32, copy=False)


def test_from_numpy_refuses():
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got list\)"):
        tt.from_numpy([1])
    with pytest.raises(ValueError, match="negative"):
        tt.from_numpy(np.arange(3)[::-1])
    with pytest.raises(ValueError, match="byte order"):
        tt.from_numpy(np.zeros(2, ">f4"))
    locked = np.zeros(2)
    locked.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        tt.from_numpy(locked).fill_(1)


@pytest.mark.parametrize("data", [[], [[]], [[], []], np.empty((2, 0, 3))])
def test_what_has_no_elements_is_contiguous(data):
    made = tt.tensor(data)
    assert made.stride() == tt.empty(made.shape).stride() and made.is_contiguous()


def test_asarray_takes_a_capsule():
    x = tt.arange(3.0)
    assert tt.asarray(tt.to_dlpack(x)).data_ptr() == x.data_ptr()
    assert tt.asarray(tt.to_dlpack(x), copy=False).data_ptr() == x.data_ptr()
    assert tt.asarray(tt.to_dlpack(x), copy=True).data_ptr() != x.data_ptr()
    assert tt.asarray(tt.to_dlpack(x), dtype=tt.int64, requires_grad=False).tolist() == [0, 1, 2]
    assert tt.asarray(tt.to_dlpack(x), requires_grad=True).requires_grad


def test_asarray_keeps_the_graph_unless_told_otherwise():
    x = tt.ones(2, requires_grad=True)
    assert tt.asarray(x) is x
    assert not tt.asarray(x, requires_grad=False).requires_grad and x.requires_grad
    for made in (tt.asarray(x * 2), tt.asarray(x, dtype=tt.float64), tt.asarray(x, copy=True)):
        assert made.grad_fn is not None
    assert tt.asarray(tt.ones(2)).requires_grad is False
    assert tt.asarray([1.0], requires_grad=True).requires_grad


def test_asarray_of_bytes():
    data = bytearray(b"\x01\x00\x02\x00")
    made = tt.asarray(data, dtype=tt.int16)
    assert made.tolist() == [1, 2]
    made[0] = 7
    assert data[0] == 7
    assert tt.asarray(memoryview(data), dtype=tt.uint8, copy=True).tolist() == [7, 0, 2, 0]
    assert tt.asarray(bytes(4)).dtype is tt.float32
    with pytest.raises(ValueError, match=r"buffer length \(3 bytes\) .* multiple of element size \(2\)"):
        tt.asarray(b"abc", dtype=tt.int16)


def test_a_tensor_copied_by_its_constructor_warns():
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        made = tt.tensor(tt.ones(2))
    assert made.tolist() == [1.0, 1.0]


def test_foreign_byte_order_is_refused():
    with pytest.raises(ValueError, match="byte order"):
        tt.tensor(np.array([1, 2], dtype=">i4"))


def itself(width):
    data = []
    data += [data] * width
    return data


def nested(depth):
    data = 1.0
    for _ in range(depth):
        data = [data]
    return data


@pytest.mark.parametrize("make", [tt.tensor, tt.as_tensor, lambda data: tt.zeros(1).new_tensor(data)])
@pytest.mark.parametrize("data", [itself(1), itself(2), itself(100), [itself(1)], nested(65), nested(1000)])
def test_more_levels_than_dimensions_are_refused(make, data):
    with pytest.raises(ValueError, match="too many dimensions 'list'"):
        make(data)


def test_a_list_beside_numbers_in_itself_is_refused():
    data = [1]
    data.append(data)
    with pytest.raises(TypeError):
        tt.tensor(data)


def test_as_many_levels_as_dimensions_are_not():
    assert tt.tensor(nested(64)).dim() == 64


class Numbers:
    """A sequence that may have another length than it says."""

    def __init__(self, length, items):
        self.length, self.items = length, items

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.items[index]


def test_sequences_of_the_users_own_classes():
    assert tt.tensor(Numbers(2, [1.0, 2.0])).tolist() == [1.0, 2.0]
    assert tt.tensor([Numbers(2, [1, 2]), (3, 4)]).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(IndexError):
        tt.tensor(Numbers(5, [1.0, 2.0, 3.0]))
    for data, dim in ((Numbers(2, [1.0, 2.0, 3.0]), 0), ([Numbers(2, [1.0, 2.0, 3.0])], 1)):
        with pytest.raises(ValueError, match=rf"expected sequence of length 2 at dim {dim} \(got 3\)"):
            tt.tensor(data)


def test_errors_of_sequences_are_not_lost():
    class Unmeasured(Numbers):
        def __len__(self):
            raise KeyError("length")

    class Unreadable(Numbers):
        def __getitem__(self, index):
            raise KeyError("item")

    for wrap in (lambda x: x, lambda x: [x]):
        with pytest.raises(KeyError, match="length"):
            tt.tensor(wrap(Unmeasured(1, [1.0])))
        with pytest.raises(ValueError, match="could not determine the shape of object type 'Unreadable'"):
            tt.tensor(wrap(Unreadable(1, [1.0])))


def test_elements_that_require_grad_are_taken_by_value():
    made = tt.tensor([tt.tensor(1.0, requires_grad=True), tt.tensor([2.0])])
    assert made.tolist() == [1.0, 2.0] and not made.requires_grad


@pytest.mark.parametrize(
    ("kind", "dtype"), [(bool, tt.bool), (int, tt.int64), (float, tt.float64), (complex, tt.complex128)]
)
def test_a_type_of_python_s_numbers_is_a_dtype(kind, dtype):
    for make in (tt.tensor, tt.as_tensor, tt.asarray):
        assert make([1, 0], dtype=kind).dtype is dtype
    with pytest.raises(TypeError, match=r"argument 'dtype' must be triten\.dtype, not type"):
        tt.tensor([1], dtype=str)


SHORT = [
    1,
    True,
    2.5,
    -0.0,
    (1, 2),
    [True, False],
    [],
    [0.1, 1e-46],
    [[1.0, 2.0], [3.0, 4.0]],
    ((1, 2), [3, 4]),
]
ODD = [[[]], [[], []], [[True], [False]], [1, 2.0], [[1], [2.5]], [True, 2]]
ANY, REAL = (None, tt.float32, tt.float64, tt.int64, tt.bool), (None, tt.float32, tt.float64)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        *[(data, dtype) for data in (*SHORT, *ODD) for dtype in ANY],
        *[(data, dtype) for data in (1e300, math.nan, [1.0, 1e300], -(2**63)) for dtype in REAL],
    ],
    ids=str,
)
def test_short_data_is_what_the_long_way_makes_of_it(data, dtype):
    expected = tensor_data._array_of(data, dtype)
    made = tt.tensor(data, dtype=dtype)
    assert made._data.tobytes() == expected.tobytes()
    assert (made.shape, made._data.dtype) == (expected.shape, expected.dtype)
    assert made.is_contiguous() and made.is_leaf
    made.zero_()


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (((7, np.array(5)), (np.array(9), 5.0)), tt.float32),
        ([np.array(1), np.array(2)], tt.int64),
        ([[np.array(1)], [2]], tt.int64),
        ([np.array(1.5), 2], tt.float64),
    ],
)
def test_arrays_without_dimensions_are_numbers(data: object, dtype: tt.dtype) -> None:
    made = tt.tensor(data)
    assert made.dtype is dtype
    assert made.tolist() == np.array(data, np.float64).tolist()
