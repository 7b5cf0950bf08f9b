"""DLPack: memory given to NumPy and to any reader of capsules, and taken from them, on the host and on CUDA."""

import ctypes
import gc
import importlib.util
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import triten as tt
from triten.runtime.dlpack.structures import (
    DATA_TYPES,
    IS_COPIED,
    MANAGED,
    NAME,
    READ_ONLY,
    VERSIONED_NAME,
    address_in,
)
from triten.utils.dlpack import DLDeviceType

NEW = {"max_version": (1, 0)}
simulated = pytest.mark.skipif(
    os.environ.get("TRITEN_CUDA") not in ("interpret", "emulate"),
    reason="streams that run when something waits",
)
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton has no wheel for this platform"
)


def managed_in(capsule):
    """Return the structure in a capsule that has not been consumed."""
    name = VERSIONED_NAME if "versioned" in repr(capsule) else NAME
    return MANAGED[name].from_address(address_in(capsule, name))


class Producer:
    """A library of one array, whose capsules are changed before they are given away."""

    def __init__(self, array, change=lambda managed: None, device=(1, 0)):
        self.array = array
        self.change = change
        self.device = device
        self.asked = []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        self.asked.append(options)
        options.pop("stream", None)
        capsule = self.array.__dlpack__(**options)
        self.change(managed_in(capsule))
        return capsule


@pytest.mark.parametrize("options", [{}, NEW, {"max_version": (0, 8)}, {"max_version": (3, 1)}])
@pytest.mark.parametrize("dtype", DATA_TYPES, ids=lambda each: each.name)
def test_every_dtype_keeps_memory_and_geometry(dtype, options, device):
    x = tt.arange(24, dtype=tt.uint8, device=device).view(4, 6)
    x = x.repeat_interleave(dtype.itemsize, 1).view(dtype)[1:, ::2].t()
    capsule = x.__dlpack__(**options)
    tensor = managed_in(capsule).tensor
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == DATA_TYPES[dtype]
    assert tensor.data == x.data_ptr() and tensor.byte_offset == 0
    back = tt.from_dlpack(capsule)
    assert back.data_ptr() == x.data_ptr() and back.device == x.device and back.dtype is dtype
    assert (back.shape, back.stride()) == (x.shape, x.stride())


def test_numpy_reads_the_same_memory():
    x = tt.arange(12.0).view(3, 4)[:, ::2].t()
    there = np.from_dlpack(x)
    assert there.ctypes.data == x.data_ptr()
    assert there.flags.writeable is np.from_dlpack(np.ones(3)).flags.writeable  # never, before NumPy 2.2
    x[0, 1] = 50
    assert there[0, 1] == 50
    assert np.from_dlpack(tt.tensor(3)).shape == () and np.from_dlpack(tt.empty(0, 3)).shape == (0, 3)
    assert tt.empty(0, 3).__dlpack__() is not None and tt.from_dlpack(tt.empty(2, 0)).shape == (2, 0)


@needs_triton
def test_devices(device):
    kind = DLDeviceType.kDLCPU if device == "cpu" else DLDeviceType.kDLCUDA
    x = tt.arange(4.0, device=device)
    assert x.__dlpack_device__() == (kind, 0) and isinstance(x.__dlpack_device__()[0], DLDeviceType)
    assert tt.from_dlpack(x, device=device, copy=False).data_ptr() == x.data_ptr()
    copy = tt.from_dlpack(x, copy=True)
    assert copy.data_ptr() != x.data_ptr() and copy.device == x.device and copy.tolist() == x.tolist()
    assert np.from_dlpack(x, device="cpu").tolist() == [0.0, 1.0, 2.0, 3.0]
    for target in ("cpu", "cuda", "cuda:1", "meta"):
        there = tt.from_dlpack(x, device=target)
        assert there.device == tt.device(f"{target}:0" if target == "cuda" else target)
        assert target == "meta" or there.tolist() == x.tolist()
        if target not in (device,):
            with pytest.raises(ValueError, match="without copying"):
                tt.from_dlpack(x, device=target, copy=False)


def test_flags_say_what_was_copied_and_what_must_not_be_written(device):
    x = tt.arange(4.0, device=device)
    assert managed_in(x.__dlpack__(**NEW)).flags == 0
    copied = x.__dlpack__(copy=True, **NEW)
    assert managed_in(copied).flags == IS_COPIED and managed_in(copied).tensor.data != x.data_ptr()
    moved = x.__dlpack__(dl_device=(1, 0), **NEW)
    assert managed_in(moved).flags == (0 if device == "cpu" else IS_COPIED)
    assert managed_in(moved).tensor.device.kind == 1
    with pytest.raises(ValueError, match="without copying"):
        x.__dlpack__(dl_device=(2, 1), copy=False)
    with pytest.raises(BufferError, match="dl_device of the CPU"):
        x.__dlpack__(dl_device=(10, 0))


def test_read_only_memory_stays_so():
    array = np.arange(4.0)
    array.flags.writeable = False
    x = tt.from_dlpack(Producer(array))
    assert x.data_ptr() == array.ctypes.data
    with pytest.raises(RuntimeError, match="read-only"):
        x.add_(1)
    assert managed_in(x.__dlpack__(**NEW)).flags == READ_ONLY
    assert not np.from_dlpack(x).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        x.__dlpack__()
    assert tt.from_dlpack(array, copy=True).add_(1).sum() == 10


def test_memory_lives_as_long_as_who_took_it():
    array = np.arange(4.0)
    gone = weakref.ref(array)
    capsule = tt.from_numpy(array).__dlpack__()
    del array
    gc.collect()
    taken = np.from_dlpack(Producer(tt.from_dlpack(capsule)))
    del capsule
    gc.collect()
    assert gone() is not None and taken.tolist() == [0.0, 1.0, 2.0, 3.0]
    view = tt.from_dlpack(taken)[2:]
    del taken
    gc.collect()
    assert gone() is not None and view.tolist() == [2.0, 3.0]
    del view
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("options", [{}, NEW])
def test_a_capsule_that_nobody_takes_frees_its_memory(options):
    array = np.arange(4.0)
    gone = weakref.ref(array)
    capsule = tt.from_numpy(array).__dlpack__(**options)
    del array
    assert gone() is not None
    del capsule
    assert gone() is None


@needs_triton
def test_device_memory_lives_as_long_as_who_took_it():
    x = tt.arange(1000.0, device="cuda")
    tt.cuda.synchronize()
    before = tt.cuda.memory_allocated()
    y = tt.from_dlpack(x)
    del x
    assert tt.cuda.memory_allocated() == before and y[999].item() == 999
    del y
    gc.collect()
    assert tt.cuda.memory_allocated() < before


def test_a_deleter_is_called_once_from_any_thread_without_the_lock():
    arrays = [np.full(8, i) for i in range(200)]
    gone = [weakref.ref(each) for each in arrays]
    addresses = []
    for array in arrays:
        capsule = tt.from_numpy(array).__dlpack__(**NEW)
        addresses.append(address_in(capsule, VERSIONED_NAME))
        ctypes.pythonapi.PyCapsule_SetName(capsule, b"used_dltensor_versioned")
    del array, arrays, capsule
    gc.collect()
    assert all(each() is not None for each in gone)
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # lets go of Python's lock for the call

    def free(some):
        for address in some:
            prototype(MANAGED[VERSIONED_NAME].from_address(address).deleter)(address)

    threads = [threading.Thread(target=free, args=(addresses[i::4],)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(each() is None for each in gone)


def test_a_library_may_free_memory_after_the_interpreter_has_ended():
    program = (
        "import ctypes, numpy as np, triten as tt\n"
        "from triten.runtime.dlpack.structures import *\n"
        "capsule = tt.ones(8).__dlpack__(max_version=(1, 0))\n"
        "managed = address_in(capsule, VERSIONED_NAME)\n"
        "rename(capsule, b'used_dltensor_versioned')\n"
        "deleter = MANAGED[VERSIONED_NAME].from_address(managed).deleter\n"
        "kept = tt.from_dlpack(np.ones(3)), tt.from_dlpack(tt.ones(3)), tt.ones(3).__dlpack__()\n"
        "# glibc's list of what runs when the process ends, after Python has.\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.__cxa_atexit.argtypes = (ctypes.c_void_p,) * 3\n"
        "libc.__cxa_atexit(deleter, managed, None)\n"
    )
    if not sys.platform.startswith("linux"):
        pytest.skip("__cxa_atexit is looked up in glibc")
    subprocess.run([sys.executable, "-P", "-c", program], check=True, timeout=60)


def test_a_capsule_is_taken_once():
    for options in ({}, NEW):
        capsule = tt.ones(2).__dlpack__(**options)
        tt.from_dlpack(capsule)
        with pytest.raises(RuntimeError, match="consumed only once"):
            tt.from_dlpack(capsule)
    with pytest.raises(AssertionError, match="already a DLPack capsule"):
        tt.from_dlpack(tt.ones(2).__dlpack__(), copy=True)
    with pytest.raises(RuntimeError, match="invalid capsule"):
        tt.from_dlpack(np._core._multiarray_umath._UFUNC_API)  # a capsule of another kind


def overflow(managed):
    managed.tensor.shape[0] = 2**62
    managed.tensor.shape[1] = 2**10


CHANGES = [
    (lambda m: setattr(m, "major", 2), BufferError, "of DLPack 1, got version 2"),
    (lambda m: setattr(m, "major", 0), BufferError, "got version 0"),
    (lambda m: setattr(m.tensor.device, "kind", 10), BufferError, "DLPack's device 10"),
    (lambda m: setattr(m.tensor.dtype, "code", 3), BufferError, "of code 3, 64 bits and 1 lanes"),
    (lambda m: setattr(m.tensor.dtype, "lanes", 4), BufferError, "4 lanes"),
    (lambda m: setattr(m.tensor.dtype, "bits", 6), BufferError, "6 bits"),
    (lambda m: setattr(m.tensor, "ndim", 65), ValueError, "0 to 64 dimensions"),
    (lambda m: setattr(m.tensor, "ndim", -1), ValueError, "0 to 64 dimensions"),
    (lambda m: setattr(m.tensor, "shape", None), ValueError, "0 to 64 dimensions"),
    (lambda m: setattr(m.tensor, "data", None), ValueError, "null pointer"),
    (lambda m: m.tensor.shape.__setitem__(0, -2), ValueError, "negative sizes"),
    (lambda m: m.tensor.strides.__setitem__(1, -1), ValueError, "no negative sizes or strides"),
    (overflow, ValueError, "more bytes than 64 bits count"),
]


@pytest.mark.parametrize(("change", "error", "message"), CHANGES)
def test_what_no_tensor_can_be_is_refused_and_freed(change, error, message):
    array = np.arange(6.0).reshape(3, 2)
    gone = weakref.ref(array)
    with pytest.raises(error, match=message):
        tt.from_dlpack(Producer(array.T, change))
    del array
    gc.collect()
    assert gone() is None


def test_negative_strides_are_refused():
    with pytest.raises(ValueError, match="negative"):
        tt.from_dlpack(Producer(np.arange(4.0)[::-1]))
    with pytest.raises(ValueError, match="negative"):
        tt.from_dlpack(np.arange(4.0)[::-1])


def test_no_strides_are_contiguous_ones_and_an_offset_counts():
    def change(managed):
        managed.tensor.strides = None
        managed.tensor.byte_offset = 8
        managed.tensor.shape[0] = 2

    assert tt.from_dlpack(Producer(np.arange(6.0).reshape(3, 2), change)).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_libraries_that_know_fewer_options():
    class Old:
        def __init__(self):
            self.array = np.arange(3.0)

        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, stream=None):
            return self.array.__dlpack__()

    old = Old()
    for copy in (None, False):
        assert tt.from_dlpack(old, copy=copy).data_ptr() == old.array.ctypes.data
    assert tt.from_dlpack(old, copy=True).data_ptr() != old.array.ctypes.data
    producer = Producer(np.arange(3.0))
    tt.from_dlpack(producer, copy=False)
    assert producer.asked == [{"max_version": (1, 0), "copy": False}]


def test_arrays_of_dtypes_that_numpys_capsules_lack():
    array = np.zeros(3, tt.bfloat16.np)
    assert tt.from_dlpack(array).data_ptr() == array.ctypes.data
    with pytest.raises(TypeError, match="can't convert"):
        tt.from_dlpack(np.zeros(3, "M8[s]"))


def test_what_has_no_capsule():
    with pytest.raises(TypeError, match="but got int"):
        tt.from_dlpack(5)
    with pytest.raises(TypeError):
        tt.to_dlpack(5)
    for tensor, message in [
        (tt.ones(2, requires_grad=True), "require gradient"),
        (tt.ones(2).to_sparse(), "layout other than strided"),
        (tt.quantize_per_tensor(tt.ones(2), 1.0, 0, tt.qint8), "not supported by dlpack"),
        (tt.ones(2, device="meta"), "Cannot pack tensors on meta"),
    ]:
        with pytest.raises(BufferError, match=message):
            tt.to_dlpack(tensor)
    with pytest.raises(ValueError, match="Unknown device type meta"):
        tt.ones(2, device="meta").__dlpack_device__()


@pytest.mark.parametrize(
    ("stream", "error", "message"),
    [
        (0, AssertionError, "unsupported stream on CUDA: 0"),
        (-2, AssertionError, "unsupported stream"),
        (2, BufferError, "per-thread default stream"),
        ("a", TypeError, "must be ``int``"),
        (True, TypeError, "got bool"),
        (0xBAD0, RuntimeError, "invalid resource handle"),
    ],
)
@needs_triton
@simulated
def test_streams_that_there_are_not(stream, error, message):
    with pytest.raises(error, match=message):
        tt.ones(2, device="cuda").__dlpack__(stream=stream)
    assert tt.ones(1, device="cuda").item() == 1.0
    with pytest.raises((AssertionError, TypeError)):
        tt.ones(2).__dlpack__(stream=stream)
    assert tt.ones(2).__dlpack__(stream=None) is not None and tt.ones(2).__dlpack__(stream=-1) is not None


@needs_triton
@simulated
def test_streams_wait_for_each_other():
    producing, consuming = tt.cuda.Stream(), tt.cuda.Stream()

    def consumed(stream):
        x = tt.zeros(4, device="cuda")
        tt.cuda.synchronize()
        with tt.cuda.stream(producing):
            x.fill_(3.0)
            capsule = x.__dlpack__(stream=stream)
        with tt.cuda.stream(consuming):
            result = tt.from_dlpack(capsule).tolist()
        tt.cuda.synchronize()
        return result

    assert consumed(consuming.cuda_stream) == [3.0] * 4
    assert consumed(-1) == [0.0] * 4, "-1 asks for no waiting"
    with tt.cuda.stream(producing):
        x = tt.zeros(4, device="cuda").fill_(5.0)
        capsule = x.__dlpack__(stream=1)
    assert tt.from_dlpack(capsule).tolist() == [5.0] * 4

    class Asked:
        def __init__(self, tensor):
            self.tensor, self.streams = tensor, []

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

        def __dlpack__(self, stream, **options):
            self.streams.append(stream)
            return self.tensor.__dlpack__(stream=stream, **options)

    asked = Asked(x)
    with tt.cuda.stream(consuming):
        tt.from_dlpack(asked)
    tt.from_dlpack(asked)
    assert asked.streams == [consuming.cuda_stream, 1]


def test_a_conversion_of_much_memory_makes_no_second_copy():
    import tracemalloc

    x = tt.zeros(25_000_000)
    tracemalloc.start()
    there = np.from_dlpack(x)
    back = tt.from_dlpack(there)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000 and back.data_ptr() == x.data_ptr()
