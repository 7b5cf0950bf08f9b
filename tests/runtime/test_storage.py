"""Storage and allocators: shared bytes, resizing, alignment, a custom allocator."""

import ctypes
import gc
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import triten as tt
from triten.runtime.allocator import (
    ALIGN_FROM,
    Allocator,
    HostAllocator,
    get_allocator,
    set_allocator,
    storage_size,
)
from triten.runtime.data_ptr import DataPtr

CPU = tt.device("cpu")


class CountingAllocator(Allocator):
    """Allocator over ctypes buffers that counts allocations."""

    def __init__(self) -> None:
        self.allocated: dict[int, int] = {}
        self.freed = 0
        self.copies = 0

    def allocate(self, nbytes: int, device: tt.device) -> DataPtr:
        if nbytes == 0:
            return DataPtr(0, 0, device)
        buffer = ctypes.create_string_buffer(nbytes)
        address = ctypes.addressof(buffer)
        self.allocated[address] = nbytes
        return DataPtr(address, nbytes, device, deleter=self.free, context=buffer)

    def free(self, pointer: DataPtr) -> None:
        del self.allocated[pointer.address]
        self.freed += 1

    def copy_data(self, dst: int, src: int, nbytes: int) -> None:
        self.copies += 1
        ctypes.memmove(dst, src, nbytes)


@pytest.fixture
def counting() -> Iterator[CountingAllocator]:
    allocator = CountingAllocator()
    before = set_allocator("cpu", allocator)
    yield allocator
    assert set_allocator("cpu", before) is allocator


VIEWS: list[Callable[[tt.Tensor], tt.Tensor]] = [
    lambda x: x[1:],
    lambda x: x[0],
    lambda x: x.t(),
    lambda x: x.t()[1:].unsqueeze(0),
    lambda x: x.view(6),
    lambda x: x.expand(4, 2, 3),
    lambda x: x.as_strided((2,), (3,), 1),
    lambda x: x.detach(),
    lambda x: x.data,
    lambda x: x.select(1, 2),
]


@pytest.mark.parametrize("take", VIEWS)
def test_a_view_has_the_storage_of_its_base(take: Callable[[tt.Tensor], tt.Tensor]) -> None:
    x = tt.zeros(2, 3)
    y = take(x)
    assert y.untyped_storage() is x.untyped_storage()
    y.fill_(1.0) if not y._spec.overlaps else x.fill_(1.0)
    assert float(x.sum()) >= 1.0


@pytest.mark.parametrize("take", VIEWS)
def test_a_view_keeps_the_bytes_alive(take: Callable[[tt.Tensor], tt.Tensor]) -> None:
    x = tt.ones(2, 3)
    y = take(x)
    del x
    gc.collect()
    assert float(y.sum()) == y.numel()


def test_copies_have_their_own() -> None:
    x = tt.zeros(2, 3)
    assert x.clone().untyped_storage() is not x.untyped_storage()
    assert (x + 0).untyped_storage() is not x.untyped_storage()


def test_size_and_pointer() -> None:
    x = tt.zeros(4, dtype=tt.int16)
    storage = x[1:].untyped_storage()
    assert storage.nbytes() == storage.size() == len(storage) == 8
    assert storage.data_ptr() == x.data_ptr()
    assert storage.device is CPU


def test_resize_grows_and_keeps_bytes() -> None:
    x = tt.tensor([1.0, 2.0, 3.0])
    storage = x.untyped_storage()
    assert storage.resize_(32) is storage
    assert storage.nbytes() == 32
    assert x.tolist() == [1.0, 2.0, 3.0]
    assert x.untyped_storage() is storage
    x.set_sizes_contiguous((8,))
    x.fill_(7.0)
    assert x.tolist() == [7.0] * 8


def test_resize_shrinks() -> None:
    x = tt.tensor([1.0, 2.0, 3.0])
    storage = x.untyped_storage()
    x.set_sizes_contiguous((2,))
    storage.resize_(8)
    assert storage.nbytes() == 8
    assert x.tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.set_sizes_contiguous((3,))


def test_resize_is_seen_by_those_who_asked_for_the_storage() -> None:
    x = tt.zeros(4)
    view = x[1:3]
    storage = x.untyped_storage()
    view.untyped_storage()
    storage.resize_(64)
    view.fill_(5.0)
    assert x.tolist() == [0.0, 5.0, 5.0, 0.0]
    assert view.storage_offset() == 1


def test_resize_refused() -> None:
    storage = tt.zeros(4).untyped_storage()
    with pytest.raises(RuntimeError, match="must not be negative"):
        storage.resize_(-1)
    storage.can_resize = False
    with pytest.raises(RuntimeError, match="not resizable"):
        storage.resize_(64)


@pytest.mark.parametrize("nbytes", [ALIGN_FROM, ALIGN_FROM + 4, 3 * ALIGN_FROM, 1 << 20])
def test_memory_of_4_kib_or_more_is_aligned_to_64(nbytes: int) -> None:
    for made in (
        tt.empty(nbytes // 4),
        tt.zeros(nbytes // 4),
        tt.ones(nbytes // 4) + 1,
        tt.zeros(2, nbytes // 8).t().clone(),
        tt.ones(nbytes // 4).relu(),
    ):
        assert made.data_ptr() % 64 == 0


def test_allocating_nothing_gives_a_null_pointer_with_a_device() -> None:
    pointer = get_allocator("cpu").allocate(0, CPU)
    assert (pointer.address, pointer.nbytes, pointer.device) == (0, 0, CPU)
    assert tt.empty(0).data_ptr() == 0


def test_clone_of_a_pointer() -> None:
    allocator = HostAllocator()
    source = allocator.allocate(16, CPU)
    ctypes.memmove(source.address, b"0123456789abcdef", 16)
    copy = allocator.clone(source, 8)
    assert copy.address != source.address
    assert ctypes.string_at(copy.address, 8) == b"01234567"
    assert allocator.clone(allocator.allocate(0, CPU), 0).address == 0


def test_an_allocator_of_ones_own_is_used_and_freed(counting: CountingAllocator) -> None:
    x = tt.ones(5)
    assert counting.allocated == {x.data_ptr(): 20}
    y = x + x
    z = tt.zeros(2, 3).t().clone()
    assert (
        sorted(counting.allocated) == sorted(t.data_ptr() for t in (x, y, z)) or len(counting.allocated) == 3
    )
    assert y.tolist() == [2.0] * 5
    assert z.tolist() == [[0.0] * 2] * 3
    view = y[1:]
    del x, y, z
    assert list(counting.allocated.values()) == [20]
    assert view.untyped_storage().nbytes() == 20
    del view
    assert not counting.allocated


@pytest.mark.parametrize("numel", [1, 7, 2000])
def test_every_result_comes_from_it(counting: CountingAllocator, numel: int) -> None:
    w = tt.ones(numel).requires_grad_()
    results = [w.detach() + 1, w.relu(), tt.empty(numel), tt.full((numel,), 2.0), w.detach().clone(), w.sum()]
    for made in results:
        root = made.untyped_storage().data_ptr()
        assert root in counting.allocated
    w.relu().sum().backward()
    assert w.grad.untyped_storage().data_ptr() in counting.allocated
    del w, results, made
    gc.collect()
    assert not counting.allocated


def test_plans_made_before_and_after_a_change_of_allocator(counting: CountingAllocator) -> None:
    set_allocator("cpu", None)
    x = tt.ones(3)
    x + x
    set_allocator("cpu", counting)
    y = x + x
    assert y.data_ptr() in counting.allocated
    set_allocator("cpu", None)
    z = x + x
    assert z.data_ptr() not in counting.allocated
    set_allocator("cpu", counting)
    assert y.tolist() == [2.0] * 3


def test_resize_takes_memory_from_it(counting: CountingAllocator) -> None:
    x = tt.ones(4)
    x.untyped_storage().resize_(64)
    assert counting.copies == 1
    assert list(counting.allocated.values()) == [64]
    assert x.tolist() == [1.0] * 4


def test_an_empty_tensor_asks_for_nothing_that_must_be_freed(counting: CountingAllocator) -> None:
    x = tt.empty(0, 3)
    assert x.shape == (0, 3)
    assert not counting.allocated


def test_the_hosts_allocator_comes_back() -> None:
    assert isinstance(get_allocator("cpu"), HostAllocator)
    custom = CountingAllocator()
    set_allocator("cpu", custom)
    try:
        assert get_allocator("cpu") is custom
    finally:
        set_allocator("cpu", None)
    assert isinstance(get_allocator("cpu"), HostAllocator)


def test_devices_without_allocator() -> None:
    with pytest.raises(RuntimeError, match="Allocator for xla is not set"):
        get_allocator("xla")
    with pytest.raises(RuntimeError, match="can be replaced, not removed"):
        set_allocator("meta", None)


def test_a_pointer_runs_its_deleter_once_and_views_keep_the_root() -> None:
    freed: list[int] = []
    root = DataPtr(4096, 64, CPU, deleter=lambda p: freed.append(p.address))
    view = root.offset_by(16)
    assert (view.address, view.nbytes, view.root) == (4112, 48, root)
    assert view.offset_by(8).root is root
    del root
    assert not freed
    del view
    assert freed == [4096]


def test_from_numpy_shares_and_keeps_alive() -> None:
    a = np.arange(6, dtype=np.float32)
    x = tt.from_numpy(a)
    a[0] = 9.0
    assert x[0].item() == 9.0
    del a
    gc.collect()
    x.add_(1.0)
    assert x.tolist() == [10.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_a_read_only_array_refuses_writes_and_its_results_do_not() -> None:
    a = np.ones(3, np.float32)
    a.flags.writeable = False
    tt.ones(3) + tt.ones(3)
    x = tt.from_numpy(a)
    for write in (lambda: x.add_(1), x.zero_, lambda: x.copy_(tt.zeros(3)), lambda: x[0:2].fill_(2.0)):
        with pytest.raises(RuntimeError, match="read-only"):
            write()
    assert a.tolist() == [1.0] * 3
    for result in (x + x, x.clone(), x.relu(), x.to(tt.float64)):
        result.zero_()
    assert a.tolist() == [1.0] * 3


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [((), (), 1), ((2, 3), (3, 1), 6), ((2, 0), (1, 1), 0), ((4, 3), (0, 1), 3), ((2, 2), (10, 3), 14)],
)
def test_storage_size(sizes: tuple[int, ...], strides: tuple[int, ...], expected: int) -> None:
    assert storage_size(sizes, strides) == expected


@pytest.mark.parametrize(
    ("sizes", "strides"),
    [
        ((2, 3, 4, 5), (60, 1, 15, 3)),
        ((2, 3, 4), (1, 8, 2)),
        ((2, 2), (4, 1)),
        ((3, 2), (1, 5)),
        ((2, 3), (0, 1)),
        ((2, 1, 3), (3, 100, 1)),
    ],
)
@pytest.mark.parametrize("custom", [False, True])
def test_roots_of_every_geometry_can_be_viewed_and_resized(
    sizes: tuple[int, ...], strides: tuple[int, ...], custom: bool
) -> None:
    before = set_allocator("cpu", CountingAllocator() if custom else None)
    try:
        x = tt.empty_strided(sizes, strides)
        span = storage_size(sizes, strides)
        assert x.stride() == strides
        assert x.untyped_storage().nbytes() == 4 * span
        flat = x.as_strided((span,), (1,))
        flat.copy_(tt.tensor([float(i) for i in range(span)]))
        last = x[tuple(n - 1 for n in sizes)]
        assert last.item() == span - 1
        assert last.storage_offset() == span - 1
        assert x[1:].as_strided((1,), (1,)).item() == strides[0]
        assert x.unsqueeze(0)[0].data_ptr() == x.data_ptr()
        assert flat.untyped_storage() is last.untyped_storage() is x.untyped_storage()
        x.set_sizes_contiguous((span,))
        assert x.tolist() == flat.tolist()
        with pytest.raises(RuntimeError, match="out of bounds"):
            x.as_strided((span + 1,), (1,))
    finally:
        set_allocator("cpu", before)


def test_a_file_s_bytes_are_a_storage(tmp_path) -> None:
    file = tmp_path / "bytes"
    file.write_bytes(bytes(range(64)))
    storage = tt.UntypedStorage.from_file(str(file), False, 64)
    assert storage.nbytes() == 64 and storage[3] == 3 and storage[-1] == 63 and storage.untyped() is storage
    part = storage[8:16]
    x = tt.asarray(part, dtype=tt.uint8)
    assert x.tolist() == list(range(8, 16)) and x.data_ptr() - storage.data_ptr() == 8
    assert tt.asarray(storage, dtype=tt.float32).shape == (16,) and tt.asarray(part).dtype is tt.int64
    storage[8] = 200
    storage[9:11] = 5
    assert x.tolist()[:3] == [200, 5, 5]
    assert file.read_bytes() == bytes(range(64))  # not shared: writes stay in memory
    assert storage[0:70].nbytes() == 64 and storage[5:3].nbytes() == 0


def test_a_shared_file_is_written_and_lengthened(tmp_path) -> None:
    file = tmp_path / "bytes"
    storage = tt.UntypedStorage.from_file(file, True, 4)
    storage[1] = 7
    del storage
    assert file.read_bytes() == b"\0\x07\0\0"


def test_files_and_indices_that_are_refused(tmp_path) -> None:
    file = tmp_path / "bytes"
    file.write_bytes(b"1234")
    with pytest.raises(RuntimeError, match=r"unable to open file <.*nope> in read-only mode: No such file"):
        tt.UntypedStorage.from_file(str(tmp_path / "nope"), False, 4)
    with pytest.raises(RuntimeError, match="size <4> is smaller than the required mapping size <100>"):
        tt.UntypedStorage.from_file(str(file), False, 100)
    assert tt.UntypedStorage.from_file(str(file)).nbytes() == 0
    storage = tt.UntypedStorage.from_file(str(file), False, 4)
    with pytest.raises(IndexError, match="index 4 out of range for storage of size 4"):
        storage[4]
    with pytest.raises(IndexError, match="index -1 out of range for storage of size 4"):
        storage[-5]
    with pytest.raises(RuntimeError, match="slice with a step of 2"):
        storage[::2]
    with pytest.raises(TypeError, match=r"can't index a torch\.UntypedStorage with float"):
        storage[1.0]
    with pytest.raises(RuntimeError, match="not resizable"):
        storage.resize_(8)


@pytest.mark.parametrize("shared", [False, True])
def test_tensors_over_a_file_say_so(tmp_path, shared: bool) -> None:
    file = tmp_path / "numbers"
    file.write_bytes(bytes(16))
    x = tt.from_file(str(file), shared, 4)
    storage = x[1:].untyped_storage()
    assert storage.filename == str(file) and storage.is_shared() is shared
    with pytest.raises(RuntimeError, match="not resizable"):
        storage.resize_(8)
    assert tt.zeros(4).untyped_storage().filename is None


def test_a_tensor_of_a_storage_is_a_view() -> None:
    storage = tt.arange(4).untyped_storage()
    whole, floats = tt.tensor(storage), tt.as_tensor(storage, dtype=tt.float32)
    whole[0] = 7
    assert whole.tolist() == [7, 1, 2, 3] and floats.shape == (8,)
    assert floats.data_ptr() == storage.data_ptr() == whole.data_ptr()


PAGES_OF_TWO_BLOCKS = """
import resource
import numpy as np
import triten
for _ in range(2):
    block = np.empty(30 << 20, np.uint8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block[::4096] = 1
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    del block
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="keep_freed_pages changes glibc's malloc alone")
def test_pages_of_the_first_freed_block_serve_the_second() -> None:
    """Run in a new process: a large block that this one has freed raises malloc's thresholds, too."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PAGES_OF_TWO_BLOCKS],
        env={**variables, "NUMPY_MADVISE_HUGEPAGE": "0"},
        check=True,
        capture_output=True,
        text=True,
    )
    first, second = map(int, done.stdout.split())
    assert second < first / 10


@pytest.mark.parametrize(
    "share",
    [
        lambda x: x.numpy(),
        lambda x: x[1:].numpy(),
        lambda x: np.asarray(x),
        lambda x: memoryview(x.numpy()),
    ],
)
def test_memory_that_an_ndarray_shares_is_not_resized(share) -> None:
    x = tt.zeros(4)
    shared = share(x)
    assert not x.untyped_storage().resizable()
    for resize in (lambda: x.resize_(8), lambda: x.untyped_storage().resize_(64)):
        with pytest.raises(RuntimeError, match=r"not resizable \(a NumPy array shares its memory"):
            resize()
    x.fill_(2.0)
    assert np.asarray(shared)[-1] == 2.0
    assert x.resize_(2).tolist() == [2.0, 2.0]
    x.set_(tt.ones(3))
    assert x.resize_(8).shape == (8,)


@pytest.mark.parametrize("made", [tt.from_numpy, tt.as_tensor, tt.asarray])
def test_tensors_over_an_ndarray_are_not_resized(made) -> None:
    x = made(np.zeros(4, np.float32))
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(8)
    assert tt.tensor(np.zeros(4)).resize_(8).shape == (8,)
