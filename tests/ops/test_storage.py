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


def test_set_and_resize_of_tensors_that_require_grad():
    p = tt.nn.Parameter(tt.zeros(3))
    source = tt.ones(2)
    forms = (
        lambda: p.set_(source),
        lambda: p.set_(source.untyped_storage()),
        lambda: p.set_(source, 0, (1,), (1,)),
        lambda: p.set_(),
    )
    for form in forms:
        with tt.no_grad():
            assert form() is p and p.requires_grad and p.is_leaf
        with pytest.raises(RuntimeError, match="cannot set variables that require grad"):
            form()
    with tt.inference_mode():
        x = tt.ones(2, 3, requires_grad=True)
        assert x.resize_(1, 1).shape == (1, 1)
    with tt.no_grad(), pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        tt.zeros(3, requires_grad=True).resize_(4)


def test_data_of_another_kind_of_layout_is_refused():
    dense, sparse = tt.ones(1, 2), tt.ones(1, 2).to_sparse()
    for target, value in ((dense, sparse), (sparse, dense), (sparse, tt.ones(1, 2).to_sparse_csr())):
        with pytest.raises(RuntimeError, match="incompatible tensor type"):
            target.data = value
    sparse.data = tt.zeros(3, 2).to_sparse()
    assert sparse.shape == (3, 2)


def test_the_cpu_has_at_most_64_dimensions():
    assert tt.ones([1] * 64).dim() == 64 and tt.empty([1] * 65, device="meta").dim() == 65
    for make in (tt.ones, tt.empty, tt.zeros, tt.empty(1).expand):
        with pytest.raises(
            RuntimeError, match="only tensors with up to 64 dims are supported on the CPU, got 65"
        ):
            make([1] * 65)


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
