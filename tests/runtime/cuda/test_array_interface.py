"""The CUDA array interface shares device memory with other libraries, in both directions, without a copy."""

import gc
import weakref

import numpy as np
import pytest

import triten as tt
from triten.runtime.cuda.driver import driver


class Foreign:
    """Device memory of another library, which exports and finally frees it."""

    def __init__(self, values, stream=None, **changes):
        cuda = driver()
        array = np.ascontiguousarray(values)
        self.nbytes = max(array.nbytes, 1)
        self.address = cuda.malloc(cuda.current_device(), self.nbytes)
        self.device = cuda.current_device()
        cuda.note_allocated(self.address, self.nbytes, self.device, 0)
        if array.nbytes:
            cuda.copy_host_to_device(self.address, array, 0)
            cuda.synchronize_stream(0)
        self.shown = {
            "typestr": array.dtype.str,
            "shape": array.shape,
            "strides": None,
            "data": (self.address, False),
            "version": 3,
            "stream": stream,
            **changes,
        }

    @property
    def __cuda_array_interface__(self):
        return self.shown

    def __array__(self, dtype=None, copy=None):
        raise TypeError("device memory is not converted silently")

    def __del__(self):
        driver().note_freed(self.address, self.device, 0)
        driver().free(self.device, self.address)


def test_a_tensor_shows_its_memory():
    x = tt.arange(6.0, device="cuda").view(2, 3)
    assert x.__cuda_array_interface__ == {
        "typestr": "<f4",
        "shape": (2, 3),
        "strides": None,
        "data": (x.data_ptr(), False),
        "version": 3,
        "stream": 1,
    }
    assert x.t()[1:].__cuda_array_interface__["strides"] == (4, 12)
    assert x.t()[1:].__cuda_array_interface__["data"][0] == x.data_ptr() + 4
    side = tt.cuda.Stream()
    with tt.cuda.stream(side):
        assert x.__cuda_array_interface__["stream"] == side.cuda_stream
    assert tt.empty(0, device="cuda").__cuda_array_interface__["data"] == (0, False)


@pytest.mark.parametrize(
    ("dtype", "typestr"),
    [
        (tt.bool, "|b1"),
        (tt.uint8, "|u1"),
        (tt.int64, "<i8"),
        (tt.float16, "<f2"),
        (tt.bfloat16, "<V2"),
        (tt.complex64, "<c8"),
    ],
)
def test_dtypes_by_their_names(dtype, typestr):
    assert tt.empty(2, dtype=dtype, device="cuda").__cuda_array_interface__["typestr"] == typestr


def test_others_show_nothing():
    assert not hasattr(tt.ones(2), "__cuda_array_interface__")
    assert not hasattr(tt.ones(2, device="meta"), "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match=r"use var\.detach\(\)"):
        _ = tt.ones(2, device="cuda", requires_grad=True).__cuda_array_interface__


@pytest.mark.parametrize(
    "take",
    [
        lambda obj: tt.as_tensor(obj),
        lambda obj: tt.as_tensor(obj, device="cuda"),
        lambda obj: tt.asarray(obj),
        lambda obj: tt.asarray(obj, copy=False),
    ],
)
def test_foreign_memory_is_shared(take):
    foreign = Foreign(np.arange(6, dtype=np.float32).reshape(2, 3))
    x = take(foreign)
    assert x.device == tt.device("cuda:0") and x.data_ptr() == foreign.address
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    x.add_(1)
    assert tt.as_tensor(foreign).sum().item() == 21.0
    x.record_stream(tt.cuda.Stream())


def test_copies_of_foreign_memory():
    foreign = Foreign(np.arange(4, dtype=np.float32))
    for copy in (tt.tensor(foreign), tt.asarray(foreign, copy=True), tt.as_tensor(foreign, dtype=tt.float64)):
        assert copy.data_ptr() != foreign.address and copy.tolist() == [0.0, 1.0, 2.0, 3.0]
        assert copy.device == tt.device("cuda:0")
    assert tt.as_tensor(foreign, device="cpu").numpy().tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="can't alias"):
        tt.asarray(foreign, dtype=tt.float64, copy=False)


def test_foreign_memory_lives_as_long_as_any_tensor_over_it():
    foreign = Foreign(np.arange(6, dtype=np.int32))
    gone = weakref.ref(foreign)
    x = tt.as_tensor(foreign)
    view = x[2:]
    del foreign, x
    gc.collect()
    assert gone() is not None and view.tolist() == [2, 3, 4, 5]
    tt.cuda.synchronize()
    del view
    gc.collect()
    assert gone() is None


def test_tensors_pass_through_without_a_copy():
    class Wrapper:
        def __init__(self, tensor):
            self.tensor = tensor

        @property
        def __cuda_array_interface__(self):
            return self.tensor.__cuda_array_interface__

    for x in (tt.arange(6.0, device="cuda").view(2, 3).t(), tt.zeros(0, 3, device="cuda")):
        y = tt.as_tensor(Wrapper(x))
        assert y.tolist() == x.tolist() and y.shape == x.shape and y.data_ptr() == x.data_ptr()
    y = tt.as_tensor(Wrapper(tt.ones(3, device="cuda:1")))
    assert y.device == tt.device("cuda:1") and (y + 1).tolist() == [2.0] * 3


@pytest.mark.interpreter
def test_the_current_stream_waits_for_the_exporters():
    side = tt.cuda.Stream()
    foreign = Foreign(np.zeros(4, np.float32), stream=side.cuda_stream)
    with tt.cuda.stream(side):
        tt.as_tensor(foreign).fill_(3.0)
    assert tt.as_tensor(foreign).tolist() == [3.0] * 4
    unordered = Foreign(np.zeros(4, np.float32))
    with tt.cuda.stream(side):
        tt.as_tensor(unordered).fill_(3.0)
    assert tt.as_tensor(unordered).tolist() == [0.0] * 4, "None asks for no waiting"
    with tt.cuda.stream(side):
        x = tt.as_tensor(Foreign(np.ones(4, np.float32), stream=1))
        assert x.tolist() == [1.0] * 4
    tt.cuda.synchronize()


def test_read_only_memory_refuses_writes():
    foreign = Foreign(np.zeros(4, np.float32))
    foreign.shown["data"] = (foreign.address, True)
    x = tt.as_tensor(foreign)
    assert x.__cuda_array_interface__["data"][1] is True
    with pytest.raises(RuntimeError, match="read-only"):
        x.fill_(1.0)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"stream": 0}, ValueError, "stream 0 is ambiguous"),
        ({"stream": 0xBAD0}, RuntimeError, "invalid resource handle"),
        ({"mask": object()}, NotImplementedError, "masks are not supported"),
        ({"typestr": ">f4"}, ValueError, "byte order"),
        ({"typestr": "<M8[s]"}, TypeError, "datetime64"),
        ({"strides": (-4,)}, ValueError, "negative"),
        ({"strides": (3,)}, ValueError, "not a multiple"),
        ({"strides": (4, 4)}, ValueError, "same length as shape"),
        ({"data": (0x123450, False)}, RuntimeError, "is no address of device memory"),
        ({"data": (0, False)}, RuntimeError, "a null pointer for an array of shape"),
    ],
)
@pytest.mark.interpreter
def test_what_is_shown_wrongly_is_refused_and_all_goes_on(changes, error, message):
    foreign = Foreign(np.zeros(4, np.float32), **changes)
    with pytest.raises(error, match=message):
        tt.as_tensor(foreign)
    assert tt.ones(1, device="cuda").item() == 1.0


def test_what_is_no_dictionary_is_refused():
    foreign = Foreign(np.zeros(4, np.float32))
    for shown in (None, {"shape": (4,)}):
        foreign.shown = shown
        with pytest.raises(TypeError, match="expected a dict with typestr"):
            tt.as_tensor(foreign)
