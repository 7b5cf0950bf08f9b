"""Elementwise kernels by layout: the kernel of each geometry, and correct reads and writes of every element.

Small tiles make few elements have many tiles, whole and partial.
"""

import random as stdlib_random

import numpy as np
import pytest
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

import triten as tt
from triten.runtime.cuda.driver import wants_interpreter
from triten.triton_kernels import launch
from triten.triton_kernels.elementwise import elementwise, rows, tiles

DTYPES = [tt.int8, tt.bfloat16, tt.float64]


@pytest.fixture
def planned(monkeypatch):
    """Record the kernels that plans choose, each with the type of its indices."""
    chosen = []

    def note(name):
        plan = getattr(elementwise, f"plan_{name}")

        def noted(*args):
            found = plan(*args)
            constants = found.launch._options[0]
            chosen.append((name, str(constants.get("INDEX", "int64"))))
            return found

        monkeypatch.setattr(elementwise, f"plan_{name}", noted)

    for name in ("dense", "rows", "tiles"):
        note(name)
    return chosen


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(rows, "INTERPRETED_BLOCK", 256)
    monkeypatch.setattr(elementwise, "INTERPRETED_BLOCK", 256)
    monkeypatch.setattr(tiles, "INTERPRETED_TILE", 16)
    monkeypatch.setattr(elementwise, "MIN_TILE_ELEMENTS", 64)


LAYOUTS = {
    "dense": (lambda x: x, "dense"),
    "transposed whole": (lambda x: x.t(), "tiles"),
    "every second column": (lambda x: x[:, ::2], "rows"),
    "every second column from the second on": (lambda x: x[:, 1::2], "rows"),
    "every third column": (lambda x: x[:, ::3], "rows"),
    "every second column of some": (lambda x: x[:, 2:30:2], "rows"),
    "columns": (lambda x: x[:, :40], "rows"),
    "columns of an odd number": (lambda x: x[:, 3:34], "rows"),
    "rows": (lambda x: x[::2], "rows"),
    "one column": (lambda x: x[:, 5], "rows"),
    "part transposed": (lambda x: x[3:, :40].t(), "tiles"),
    "one row": (lambda x: x[3], "dense"),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("name", LAYOUTS)
def test_copies(planned, small, random, same, name, dtype):
    view, kernel = LAYOUTS[name]
    a = random((37, 48), dtype)
    x = a.to("cuda")
    result = tt.empty(view(a).shape, dtype=dtype, device="cuda")
    result.copy_(view(x))
    same(result, view(a).contiguous())
    assert {found for found, _ in planned} <= {kernel}, "or it was planned before"


@pytest.mark.parametrize("name", LAYOUTS)
def test_writes_only_there(small, random, same, name, dtype=tt.bfloat16):
    view, _ = LAYOUTS[name]
    a, b = random((37, 48), dtype), random((37, 48), dtype)
    x, y = a.to("cuda"), b.to("cuda")
    view(x).copy_(view(y))
    view(a).copy_(view(b))
    same(x, a)
    view(x).mul_(3)
    view(a).mul_(3)
    same(x, a)


BROADCASTS = {
    "a row": ((33, 70), (70,)),
    "a column": ((33, 70), (33, 1)),
    "a row and a column": ((1, 70), (33, 1)),
    "channels": ((3, 5, 70), (5, 1)),
    "images": ((3, 5, 70), (3, 1, 1)),
    "a row of an odd length": ((33, 67), (67,)),
    "one element": ((33, 70), (1,)),
    "the middle": ((3, 5, 70), (3, 1, 70)),
}


@pytest.mark.parametrize("cut", [slice(None), slice(None, -1)], ids=["whole", "cut"])
@pytest.mark.parametrize("name", BROADCASTS)
def test_broadcasts(small, random, same, name, cut):
    left, right = BROADCASTS[name]
    a, b = random(left)[..., cut], random(right)
    b = b[..., cut] if b.shape[-1] > 1 else b
    x, y = a.to("cuda"), b.to("cuda")
    same(x + y, a + b)
    # Functions whose operands must agree in shape inside of a kernel.
    same(tt.atan2(x, y), tt.atan2(a, b), tolerance=1e-6)
    same(tt.where(y > 0, x, y), tt.where(b > 0, a, b))


@pytest.mark.parametrize(
    ("source", "target"),
    [(tt.float32, tt.bfloat16), (tt.int8, tt.float64), (tt.float64, tt.int8), (tt.bool, tt.float32)],
    ids=str,
)
def test_transposed_conversions(small, random, same, source, target):
    a = random((20, 3, 18), source)
    for order in ((2, 1, 0), (1, 2, 0), (2, 0, 1)):
        same(a.to("cuda").permute(order).to(target).contiguous(), a.permute(order).to(target).contiguous())


def test_channels_last_and_back(planned, small, random, same):
    a = random((2, 9, 8, 7))
    last = a.to("cuda").permute(0, 2, 3, 1).contiguous()
    same(last, a.permute(0, 2, 3, 1).contiguous())
    same(last.permute(0, 3, 1, 2).contiguous(), a)
    assert [name for name, _ in planned] == ["tiles", "tiles"]


def test_few_elements_of_two_dimensions_are_not_exchanged(planned, random, same):
    a = random((300, 3, 2))
    same(a.to("cuda").transpose(1, 2).contiguous(), a.transpose(1, 2).contiguous())
    assert [name for name, _ in planned] == ["rows"]


def any_view(choose, tensor):
    """Return a random view of a tensor: permuted, sliced, strided and expanded."""
    order = list(range(tensor.dim()))
    choose.shuffle(order)
    tensor = tensor.permute(order)
    for dim in range(tensor.dim()):
        size = tensor.shape[dim]
        start, step = choose.randrange(2), choose.choice((1, 1, 2, 3))
        if start < size:
            tensor = tensor[tuple([slice(None)] * dim + [slice(start, None, step)])]
        if choose.random() < 0.15:
            tensor = tensor[tuple([slice(None)] * dim + [slice(0, 1)])]
    return tensor


@pytest.mark.parametrize("limit", [2**31 - 1, 0], ids=["32-bit", "64-bit"])
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 7])
def test_any_views(seed, monkeypatch, planned, small, random, same, rank, limit):
    """Broadcast three operands of three dtypes; a low limit selects 64-bit indices and offsets."""
    monkeypatch.setattr(launch, "INT32_MAX", limit)
    choose = stdlib_random.Random(seed)
    for _ in range(2):
        most = {1: 400, 2: 60, 3: 20, 4: 9, 5: 6, 6: 4, 7: 3}[rank]
        base = random(tuple(choose.randint(1, most) for _ in range(rank)))
        view = any_view(choose, base)
        sizes = tuple(view.shape)
        others = []
        for dtype in (tt.float64, tt.bfloat16):
            kept = [n if choose.random() < 0.7 else 1 for n in sizes]
            order = sorted(range(rank), key=lambda _: choose.random())
            back = [order.index(i) for i in range(rank)]
            others.append(random(tuple(kept[i] for i in order), dtype).permute(back))
        a, b, c = view, *others
        x, y, z = base.to("cuda"), *(t.to("cuda") for t in others)
        x = x.as_strided(a.shape, a.stride(), a.storage_offset())
        same(tt.addcmul(x, y, z), tt.addcmul(a, b, c), tolerance=1e-12)
    if limit == 0:
        assert {index for _, index in planned} <= {"int64"}


@pytest.mark.parametrize("dtype", [tt.int8, tt.bfloat16], ids=lambda d: d.name)
def test_the_last_pair_may_end_outside_of_the_memory(small, random, same, dtype):
    """Read whole tiles of every second element in pairs; the last pair has only its first element in bounds."""
    rest = 512 // dtype.itemsize
    a = random((4 * rest + 511,), dtype)
    x = a.to("cuda")
    same(x[4 * rest :][::2] + 1, a[4 * rest :][::2] + 1)


FAR = 1 << 33


@pytest.fixture
def far(monkeypatch):
    """Offset program indices and pointers by a large distance, so that the accessed memory stays the same."""
    if not wants_interpreter():
        pytest.skip("what is run is the interpreter's")
    from triten.runtime.cuda.interpreter import semantics as interpreter_semantics

    def run(self, kernel, name, arguments, grid, blocks, *options):
        builder, function = self._builder, kernel.rewrite()
        builder.kernel, builder.blocks = name, blocks
        moved = dict(arguments)
        length, width = ("n", moved["BLOCK"]) if name == "dense" else ("columns", moved["COLUMNS"])
        moved[length] = moved_by(moved[length], FAR // moved.get("UNIT", 1))
        if name == "rows":
            moved["column_blocks"] = moved_by(moved["column_blocks"], FAR // width)
        for each in ("out", "a", "b"):
            pointer = moved[each]
            if pointer is not None and pointer.type.is_ptr():
                itemsize = pointer.type.element_ty.primitive_bitwidth // 8
                moved[each] = moved_by(pointer, -FAR * itemsize * moved.get(f"{each}0", 1))
        builder.set_grid_dim(*grid)
        for x in range(grid[0]):
            builder.grid_idx = (FAR // width + x, 0, 0)
            function(**moved)
        ran.append(name)

    ran: list[str] = []
    monkeypatch.setattr(interpreter_semantics.ProgramRunner, "run", run)
    monkeypatch.setattr(launch, "INT32_MAX", 40)
    return ran


def moved_by(value, distance):
    """Return an interpreted kernel's argument with a distance added."""
    data = value.handle.data
    added = (data.astype(np.int64) + distance).astype(data.dtype)
    return tl.tensor(TensorHandle(added, value.handle.dtype), value.type)


@pytest.mark.parametrize("dtype", [tt.int8, tt.float32], ids=lambda d: d.name)
@pytest.mark.parametrize("step", [1, 2], ids=["dense", "rows"])
def test_blocks_beyond_32_bits(small, random, same, request, dtype, step):
    a, b = random((613 * step,), dtype), random((613,), dtype)
    x, y, out = a.to("cuda")[::step], b.to("cuda"), tt.empty(613, dtype=dtype, device="cuda")
    tt.cuda.synchronize()
    ran = request.getfixturevalue("far")
    tt.add(x, y, out=out)
    tt.cuda.synchronize()
    assert ran == [{1: "dense", 2: "rows"}[step]]
    same(out, a[::step] + b)


def test_transposed_copies_of_six_dimensions():
    """Copy a tensor whose sizes all differ, so that an index divided by another dimension's size is wrong."""
    a = np.arange(32 * 2 * 3 * 4 * 5 * 17, dtype=np.float32).reshape(32, 2, 3, 4, 5, 17)
    order = (5, 3, 1, 4, 2, 0)
    got = tt.from_numpy(a).to("cuda").permute(order).contiguous()
    np.testing.assert_array_equal(got.cpu().numpy(), a.transpose(order))
