"""`TensorImpl`: memory cost, properties and shared state."""

import copy
import gc
import io
import pickle
import tracemalloc
import weakref

import pytest

import triten as tt
from triten.runtime.generic_base import GenericBase


def test_a_small_tensor_takes_at_most_400_bytes() -> None:
    a, b = tt.ones(3), tt.ones(3)
    kept = [a + b for _ in range(10)]
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = [a + b for _ in range(10_000)]
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(kept) == 10_000
    assert (after - before) / len(kept) <= 400


def test_a_small_recorded_tensor_and_its_node_take_at_most_a_kilobyte() -> None:
    a, b = tt.ones(3).requires_grad_(), tt.ones(3)
    kept = [a + b for _ in range(10)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = [a + b for _ in range(1_000)]
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert (after - before) / len(kept) <= 1024


def test_attributes_cost_nothing_before_they_are_given() -> None:
    """Create the dict with the first attribute."""
    x = tt.ones(2)
    assert not any(type(each) is dict for each in gc.get_referents(x))
    x.something = 1
    assert x.something == 1
    assert vars(x) == {"something": 1}
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'another'"):
        x.another  # noqa: B018
    with pytest.raises(AttributeError):
        x.shape = (3,)


def test_attributes_are_the_tensors_own() -> None:
    """Keep attributes out of views and results; a copy and a pickle have them, as in `torch.Tensor`."""
    x = tt.ones(2)
    x.tags = ["a"]
    assert not hasattr(x + 1, "tags")
    assert not hasattr(x[:1], "tags")
    assert not hasattr(x.detach(), "tags")
    copied = copy.deepcopy(x)
    assert copied.tags == ["a"]
    assert copied.tags is not x.tags
    assert pickle.loads(pickle.dumps(x)).tags == ["a"]
    file = io.BytesIO()
    tt.save({"x": x}, file)
    file.seek(0)
    assert tt.load(file)["x"].tags == ["a"]
    y = tt.zeros(3)
    tt.utils.swap_tensors(x, y)
    assert y.tags == ["a"]
    assert not hasattr(x, "tags")


def test_weak_references_die_with_the_tensor_without_the_collector() -> None:
    gc.disable()
    try:
        x = tt.ones(2)
        view = x[0:1]
        refs = [weakref.ref(x), weakref.ref(view)]
        del x
        assert refs[0]() is not None
        del view
        assert [r() for r in refs] == [None, None]
    finally:
        gc.enable()


def test_metadata() -> None:
    x = tt.zeros(2, 3, 4, dtype=tt.int16)
    assert x.shape == x.size() == (2, 3, 4)
    assert (x.ndim, x.dim(), x.ndimension()) == (3, 3, 3)
    assert (x.numel(), x.nelement(), x.nbytes, x.itemsize, x.element_size()) == (24, 24, 48, 2, 2)
    assert x.stride() == (12, 4, 1)
    assert (x.size(-1), x.size(0), x.stride(-2)) == (4, 2, 4)
    assert (x.dtype, x.layout) == (tt.int16, tt.strided)
    assert (x.is_floating_point(), x.is_complex(), x.is_signed()) == (False, False, True)
    assert (x.is_cpu, x.is_cuda, x.is_meta) == (True, False, False)


@pytest.mark.parametrize("dim", [3, -4, 100])
def test_dimensions_out_of_range(dim: int) -> None:
    x = tt.zeros(2, 3, 4)
    message = r"Dimension out of range \(expected to be in range of \[-3, 2\], but got"
    with pytest.raises(IndexError, match=message):
        x.size(dim)
    with pytest.raises(IndexError, match=message):
        x.stride(dim)


def test_a_0d_tensor_has_no_dimension() -> None:
    with pytest.raises(IndexError, match="tensor has no dimensions"):
        tt.tensor(1.0).size(0)


def test_contiguity_in_formats() -> None:
    x = tt.zeros(2, 3, 4, 5)
    assert x.is_contiguous()
    assert not x.is_contiguous(memory_format=tt.channels_last)
    y = x.contiguous(memory_format=tt.channels_last)
    assert y.is_contiguous(memory_format=tt.channels_last)
    assert not y.is_contiguous()


def test_a_view_shares_the_version_counter() -> None:
    x = tt.zeros(2, 3)
    row, transposed, same = x[0], x.t(), x.detach()
    assert {id(t._version_cell) for t in (x, row, transposed, same)} == {id(x._version_cell)}
    row.fill_(1.0)
    assert [t.current_version() for t in (x, row, transposed, same)] == [1] * 4
    x.add_(1.0)
    transposed[0].zero_()
    assert [t.current_version() for t in (x, row, transposed, same)] == [3] * 4


def test_versions_count_before_and_after_the_first_view() -> None:
    x = tt.zeros(3)
    assert x.current_version() == 0
    x.add_(1.0)
    x.add_(1.0)
    assert x.current_version() == 2
    assert x[0].current_version() == 2


@pytest.mark.parametrize("make", [lambda x: x.clone(), lambda x: x + 0, lambda x: x.data])
def test_others_have_counters_of_their_own(make: object) -> None:
    x = tt.zeros(3)
    x.add_(1.0)
    y = make(x)
    y.add_(1.0)
    assert x.current_version() == 1


def test_inference_tensors_have_no_version_and_no_autograd_keys() -> None:
    with tt.inference_mode():
        x = tt.ones(2) + 1
    assert x.is_inference()
    assert [key.name for key in x.key_set()] == ["CPU"]
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        x.current_version()
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        x.version_cell()


def test_set_sizes_contiguous() -> None:
    x = tt.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    pointer = x.data_ptr()
    x.set_sizes_contiguous((2, 3))
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert x.data_ptr() == pointer
    x.set_sizes_contiguous((2,))
    assert x.tolist() == [0.0, 1.0]


def test_set_sizes_and_strides() -> None:
    x = tt.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    view = x[1:]
    x.set_sizes_and_strides((3, 2), (1, 3))
    assert x.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    x.set_sizes_and_strides((2,), (2,), 3)
    assert x.tolist() == [3.0, 5.0]
    assert x.storage_offset() == 3
    view.set_sizes_and_strides((2,), (1,))
    assert view.tolist() == [1.0, 2.0]
    x.fill_(-1.0)
    view.set_sizes_and_strides((5,), (1,))
    assert view.tolist() == [1.0, 2.0, -1.0, 4.0, -1.0]


@pytest.mark.parametrize(("sizes", "strides", "offset"), [((7,), (1,), 0), ((2,), (6,), 0), ((6,), (1,), 1)])
def test_sizes_beyond_the_storage_are_refused(
    sizes: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    x = tt.zeros(6)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 24"):
        x.set_sizes_and_strides(sizes, strides, offset)
    assert x.shape == (6,)


def test_storage_offset_of_views() -> None:
    x = tt.zeros(4, 5)
    assert x.storage_offset() == 0
    assert x[1].storage_offset() == 5
    assert x[1:, 2:].storage_offset() == 7
    assert x.t()[3].storage_offset() == 3
    assert x[1][2].data_ptr() - x.data_ptr() == 4 * 7
    meta = tt.zeros(4, 5, device="meta")
    assert meta[1:, 2:].storage_offset() == 7


def test_empty_tensors() -> None:
    x = tt.empty(0, 3)
    assert (x.data_ptr(), x.storage_offset(), x.numel(), x.nbytes) == (0, 0, 0, 0)
    assert x.is_contiguous()
    assert (x + x).shape == (0, 3)


def test_the_version_counts_writes_by_pytorchs_name() -> None:
    x = tt.zeros(3)
    view = x[:2]
    assert (x._version, view._version) == (0, 0)
    view.add_(1)
    x.zero_()
    assert (x._version, view._version, x.detach()._version, x.clone()._version) == (2, 2, 2, 0)
    with tt.inference_mode():
        made = tt.zeros(1)
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        made._version  # noqa: B018 - reading it raises


def test_an_instance_is_made_without_room_for_attributes() -> None:
    """Create tensors by `PyType_GenericNew`; `object.__new__` would reserve space, and rejects foreign
    classes.
    """
    assert tt.Tensor.__new__ is GenericBase.__new__
    with pytest.raises(TypeError, match="is not safe"):
        object.__new__(tt.Tensor)
