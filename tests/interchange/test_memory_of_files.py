"""Memory that is a file's, and memory that stays outside of pickles."""

import io
import pickle
import tracemalloc

import numpy as np
import pytest

import triten as tt


def sent(value, change=lambda buffer: buffer):
    """Pickle a value with out-of-band buffers, and return the unpickled value and the buffers."""
    buffers = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=[change(each) for each in buffers]), buffers


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2", "complex64", "bool", "int64"])
def test_bytes_stay_outside_of_a_pickle(dtype):
    x = tt.ones(2, 3, dtype=getattr(tt, dtype)).t()
    (back, view), buffers = sent([x, x[1:]])
    assert len(buffers) == 1 and back.data_ptr() == x.data_ptr() and back.stride() == x.stride()
    assert back.dtype is x.dtype and view.data_ptr() == x[1:].data_ptr()
    assert view.untyped_storage() is back.untyped_storage()
    (copy, view), _ = sent([x, x[1:]], lambda buffer: bytearray(buffer))
    copy.zero_()
    assert not view.any() and x.all()


def test_read_only_buffers_give_read_only_tensors():
    x = tt.arange(3.0)
    back, _ = sent(x, lambda buffer: bytes(buffer))
    with pytest.raises(RuntimeError, match="read-only"):
        back.add_(1)
    assert (back + 1).tolist() == [1.0, 2.0, 3.0]
    odd, _ = sent(x, lambda buffer: memoryview(b"x" + bytes(buffer))[1:])
    assert odd.tolist() == x.tolist() and odd.data_ptr() % 4 == 0


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_each_protocol_hold_all(protocol, device):
    x = tt.arange(6.0, device=device, requires_grad=True)
    view, none = pickle.loads(pickle.dumps([x.detach()[2:], tt.empty(0, 2, device=device)], protocol))
    assert view.tolist() == [2.0, 3.0, 4.0, 5.0] and view.device == x.device and none.shape == (0, 2)
    view.add_(1)
    assert pickle.loads(pickle.dumps(x, protocol)).requires_grad
    parameter = tt.nn.Parameter(tt.ones(2, device=device))
    back = pickle.loads(pickle.dumps(parameter, protocol))
    assert type(back) is tt.nn.Parameter and back.tolist() == [1.0, 1.0]


def test_device_memory_is_copied_through_the_host():
    x = tt.arange(4.0, device="cuda") if tt.cuda.is_available() else tt.arange(4.0)
    back, buffers = sent(x)
    assert len(buffers) == 1 and back.device == x.device and back.tolist() == x.tolist()


def test_much_memory_is_not_held_twice():
    x = tt.zeros(25_000_000)
    tracemalloc.start()
    back, _ = sent(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000 and back.data_ptr() == x.data_ptr()


def test_a_file_is_memory(tmp_path):
    path = tmp_path / "numbers"
    np.arange(10, dtype="f4").tofile(path)
    x = tt.from_file(path, size=4)
    assert x.dtype is tt.float32 and x.tolist() == [0.0, 1.0, 2.0, 3.0] and tt.from_file(path).shape == (0,)
    x[0] = 7
    assert tt.from_file(str(path), False, 1).item() == 0, "writes stay in memory"
    shared = tt.from_file(path, shared=True, size=12, dtype=tt.int32, requires_grad=False)
    shared[0], shared[11] = 5, 6
    assert path.stat().st_size == 48 and np.fromfile(path, np.int32)[[0, 11]].tolist() == [5, 6]
    assert tt.from_file(path, size=2, requires_grad=True).requires_grad
    assert x.untyped_storage().nbytes() == 16 and x[2:].untyped_storage() is x.untyped_storage()
    assert tt.from_file(tmp_path / "new", shared=True, size=3).tolist() == [0.0] * 3


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"size": 40}, RuntimeError, "smaller than the required mapping size <160>"),
        ({"filename": "none", "size": 1}, RuntimeError, "unable to open file <none> in read-only mode"),
        ({"size": -1}, RuntimeError, "not negative"),
        ({"size": 1, "device": "meta"}, NotImplementedError, "expected the CPU"),
    ],
)
def test_files_that_are_no_memory(options, error, message, tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(bytes(40))
    with pytest.raises(error, match=message):
        tt.from_file(**{"filename": path, **options})


def test_load_maps_the_file(tmp_path):
    path = tmp_path / "model.pt"
    x = tt.arange(1 << 20, dtype=tt.float32)
    tt.save({"x": x, "view": x[5:], "half": tt.ones(3, dtype=tt.bfloat16), "none": tt.empty(0)}, path)
    tt.load(path, mmap=True)
    tracemalloc.start()
    found = tt.load(path, mmap=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
    assert (found["x"] == x).all() and found["half"].tolist() == [1.0] * 3 and found["none"].shape == (0,)
    assert found["view"].data_ptr() == found["x"].data_ptr() + 20
    assert found["x"].untyped_storage().nbytes() == x.nbytes
    found["x"].zero_()
    assert found["view"].sum() == 0 and tt.load(path, mmap=True)["x"][1] == 1, "writes stay in memory"
    tt.save(found, path)
    assert tt.load(path)["x"].sum() == 0
    assert tt.load(path, mmap=True, map_location="meta")["x"].is_meta
    assert tt.load(path, mmap=True, weights_only=False)["half"].tolist() == [1.0] * 3


def test_what_cannot_be_mapped(tmp_path):
    file = io.BytesIO()
    tt.save(tt.ones(2), file)
    with pytest.raises(ValueError, match="f must be a file path"):
        tt.load(file, mmap=True)
    path = tmp_path / "model.pt"
    path.write_bytes(pickle.dumps(0x1950A86A20F9469CFC6C, 2))
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        tt.load(path, mmap=True)
    for cut in (10, 300, 600):
        path.write_bytes(file.getvalue()[:-cut])
        with pytest.raises(RuntimeError, match="damaged"):
            tt.load(path, mmap=True)
