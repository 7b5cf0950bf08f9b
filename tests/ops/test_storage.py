"""Storage: resize_, set_, views over one storage, offsets."""

import pytest

import triten as tt


def test_resize_keeps_elements():
    x = tt.arange(6.0)
    assert x.resize_(2, 2) is x and x.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert x.resize_(6).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert x.resize_(0).shape == (0,) and x.resize_((3,)).tolist() == [0.0, 1.0, 2.0]
    assert x.resize_(50).tolist()[:6] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert tt.empty(0).resize_(2, 3).shape == (2, 3)


def test_resize_seen_by_views():
    x = tt.zeros(4)
    view = x[1:]
    x.resize_(5000)
    view.fill_(7.0)
    assert x.tolist()[:4] == [0.0, 7.0, 7.0, 7.0] and view.untyped_storage() is x.untyped_storage()
    assert view.storage_offset() == 1


def test_resize_of_a_view_uses_the_storage():
    x = tt.arange(6.0)
    view = x[2:4]
    assert view.resize_(4).tolist() == [2.0, 3.0, 4.0, 5.0] and view.data_ptr() == x.data_ptr() + 8


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_resize_formats(device):
    x = tt.empty(0, device=device)
    assert x.resize_((2, 3, 4, 5), memory_format=tt.channels_last).is_contiguous(
        memory_format=tt.channels_last
    )
    like = tt.zeros(1, 2, 3, 4, device=device).to(memory_format=tt.channels_last)
    assert x.resize_as_(like).shape == (1, 2, 3, 4) and x.is_contiguous()
    assert x.resize_as_(like, memory_format=tt.preserve_format).stride() == like.stride()


def test_resize_refuses():
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        tt.zeros(3, requires_grad=True).resize_(4)
    with pytest.raises(RuntimeError, match="negative"):
        tt.zeros(3).resize_(-1)
    with pytest.raises(RuntimeError, match="Preserve"):
        tt.zeros(3).resize_(2, memory_format=tt.preserve_format)


def test_resize_same_size_keeps_strides():
    x = tt.zeros(2, 3).t()
    assert x.resize_(3, 2).stride() == (1, 3)


def test_set_to_tensor():
    x, y = tt.zeros(2), tt.arange(6.0)
    assert x.set_(y) is x and x.is_set_to(y) and x.tolist() == y.tolist()
    x.fill_(1.0)
    assert y.tolist() == [1.0] * 6
    x.set_(y, 1, (2, 2), (2, 1))
    assert x.storage_offset() == 1 and x.stride() == (2, 1) and not x.is_set_to(y)
    x.set_()
    assert x.shape == (0,) and x.data_ptr() == 0


def test_set_to_storage():
    y = tt.arange(6.0)
    x = tt.zeros(0).set_(y.untyped_storage())
    assert x.tolist() == y.tolist()
    x.set_(y.untyped_storage(), 2, (2,))
    assert x.tolist() == [2.0, 3.0]
    half = tt.zeros(0, dtype=tt.int16).set_(y.untyped_storage())
    assert half.shape == (12,)
    last = tt.arange(24.0).view(1, 2, 3, 4).to(memory_format=tt.channels_last)
    flat = tt.zeros(0).set_(last.untyped_storage())
    assert flat.tolist()[:4] == [0.0, 12.0, 1.0, 13.0]


def test_set_refuses():
    x = tt.zeros(2)
    with pytest.raises(RuntimeError, match="dtypes"):
        x.set_(tt.zeros(2, dtype=tt.float64))
    with pytest.raises(RuntimeError, match="device"):
        x.set_(tt.zeros(2, device="meta"))
    with pytest.raises(RuntimeError, match="require grad"):
        tt.zeros(2, requires_grad=True).set_(x)
    with pytest.raises(RuntimeError, match="storage offset"):
        x.set_(tt.zeros(4), -1, (1,))
    with pytest.raises(RuntimeError, match="unequal size length"):
        x.set_(tt.zeros(4), 0, (1,), (1, 1))


def test_untyped_storage():
    x = tt.zeros(4)
    storage = x.untyped_storage()
    assert isinstance(storage, tt.UntypedStorage) and storage.nbytes() == 16 == len(storage)
    assert storage.data_ptr() == x.data_ptr() and x[2:].untyped_storage() is storage
    x.fill_(3.0)
    assert storage.resize_(64).nbytes() == 64 and x.tolist() == [3.0] * 4
    x.resize_(16)
    assert x.untyped_storage() is storage and x.data_ptr() == storage.data_ptr()
    with pytest.raises(RuntimeError, match="negative"):
        storage.resize_(-1)
    storage.can_resize = False
    with pytest.raises(RuntimeError, match="not resizable"):
        storage.resize_(128)
