"""Tensor memory of sm_100: matmuls issued by one thread agree with NumPy, loads, stores, and findings."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from triten.runtime.cuda.emulator.fault import EmulationError
from triten.runtime.cuda.emulator.tensor_cores import InstructionDescriptor, SharedDescriptor

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)
FORMATS: dict[str, tuple[Any, str, int]] = {
    "f16": (np.float16, "f16", 0),
    "bf16": (ml_dtypes.bfloat16, "f16", 1),
    "tf32": (np.float32, "tf32", 2),
    "e4m3": (ml_dtypes.float8_e4m3fn, "f8f6f4", 0),
    "e5m2": (ml_dtypes.float8_e5m2, "f8f6f4", 1),
    "s8": (np.int8, "i8", 1),
    "u8": (np.uint8, "i8", 0),
}
"""The type of an operand, the kind of the instruction, and the type's number in its descriptor."""
RIGHT, BARRIER, SLOT, SHARED = 4096, 12288, 12296, 12304
"""Where the right operand, a barrier and the address of the columns lie in shared memory."""

THREADS = """mov.u32 %r0, %tid.x; setp.eq.b32 %p0, %r0, 0; mov.b32 %r9, global_smem; setp.lt.u32 %p1, %r0, 32;
    mul.wide.u32 %d10, %r0, 4; and.b32 %r8, %r0, 96; shl.b32 %r8, %r8, 16;"""
"""%p0: the first thread, %p1: the first warp; %r8: the lanes of a thread's warp, where an address has them."""
ALLOCATE = """@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [global_smem+12296], {0}; bar.sync 0;
    ld.shared.b32 %r7, [global_smem+12296]; add.s32 %r6, %r7, %r8;
    @%p1 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"""
"""%r7: the address of the columns, %r6: the same in the lanes of the thread's warp."""
MAKE = "@%p0 mbarrier.init.shared::cta.b64 [global_smem+12288], 1; bar.sync 0;"
FILL = """shl.b32 %r1, %r0, 2; add.s32 %r1, %r9, %r1; add.s64 %d11, %d0, %d10; mov.b32 %r2, 0;
    $more: ld.global.b32 %r3, [%d11]; st.shared.b32 [%r1], %r3;
    add.s32 %r1, %r1, 512; add.s64 %d11, %d11, 512; add.s32 %r2, %r2, 1; setp.lt.u32 %p9, %r2, 24; @%p9 bra $more;"""
"""Both operands, 12,288 bytes, out of global memory."""
FENCE = "fence.proxy.async.shared::cta; bar.sync 0;"
COMMIT = "@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [global_smem+12288];"
WAIT = """{ .reg .pred done; again:
    mbarrier.try_wait.parity.shared::cta.b64 done, [global_smem+12288], 0; @!done bra.uni again; }"""
FREE = "bar.sync 0; @%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r7, {0};"
LOADED, STORED = "tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::st.sync.aligned;"


def names(count: int) -> str:
    return "{" + ", ".join(f"%s{i}" for i in range(count)) + "}"


def load(count: int, at: str = "%r6", shape: str = "32x32b", tail: str = "") -> str:
    return f"tcgen05.ld.sync.aligned.{shape}.x{count}.b32 {names(count)}, [{at}]{tail};"


def store(count: int, at: str = "%r6", shape: str = "32x32b", tail: str = "") -> str:
    return f"tcgen05.st.sync.aligned.{shape}.x{count}.b32 [{at}]{tail}, {names(count)};"


def given(count: int) -> str:
    """Return PTX that loads each thread's numbers from the second argument, with a row of 128 for each
    register.
    """
    lines = [f"ld.global.b32 %s{i}, [%d12+{512 * i}];" for i in range(count)]
    return "add.s64 %d12, %d1, %d10;" + "".join(lines)


def taken(count: int) -> str:
    """Return PTX that stores the loaded columns to the last argument."""
    return "add.s64 %d13, %d2, %d10;" + "".join(
        f"st.global.b32 [%d13+{512 * i}], %s{i};" for i in range(count)
    )


def core_matrices(matrix: Array) -> Array:
    """Return core matrices of 8 rows of 16 bytes, ordered along the rows first and then along the K
    dimension.
    """
    rows = np.ascontiguousarray(matrix).view(np.uint8).reshape(matrix.shape[0], -1, 16)
    return rows.transpose(1, 0, 2).reshape(-1)


def described(at: int, lines: int, version: int = 1) -> int:
    """Return the shared-memory descriptor of a matrix of `core_matrices`."""
    return at >> 4 | lines << 16 | (128 >> 4) << 32 | version << 46


def instruction(
    name: str, rows: int, columns: int, signs: tuple[int, int] = (0, 0), saturates: int = 0
) -> int:
    """Return the instruction descriptor of a matmul: its types and size."""
    _, kind, number = FORMATS[name]
    sums = 2 if kind == "i8" else 1
    bits = saturates << 3 | sums << 4 | number << 7 | number << 10 | signs[0] << 13 | signs[1] << 14
    return bits | columns >> 3 << 17 | rows >> 4 << 24


def multiply(name: str, rows: int, columns: int, adds: int = 1, left: str = "%d20", **bits: Any) -> str:
    kind = FORMATS[name][1]
    return (
        f"mov.b64 %d20, {described(0, rows)}; mov.b64 %d21, {described(RIGHT, columns)}; setp.eq.b32 %p3, 1, {adds};"
        f"mov.b32 %r20, {instruction(name, rows, columns, **bits)};"
        f"@%p0 tcgen05.mma.cta_group::1.kind::{kind} [ %r7 + 0 ], {left}, %d21, %r20, %p3;"
    )


def drawn(name: str, lines: int) -> Array:
    """Return an operand with 32 bytes along the K dimension."""
    dtype, kind, _ = FORMATS[name]
    depth = 32 // np.dtype(dtype).itemsize
    if kind == "i8":
        return RNG.integers(-100 if name == "s8" else 0, 100, (lines, depth)).astype(dtype)
    return RNG.standard_normal((lines, depth)).astype(dtype)


def product(
    machine: Any, name: str, rows: int, columns: int, adds: int = 1, **bits: Any
) -> tuple[Array, Array, Array, Array]:
    """Run one matmul, and return its result, its operands and its initial accumulator."""
    a, b = drawn(name, rows), drawn(name, columns)
    image = np.zeros(12288, np.uint8)
    image[: rows * 32], image[RIGHT : RIGHT + columns * 32] = core_matrices(a), core_matrices(b)
    integers = FORMATS[name][1] == "i8"
    c = RNG.integers(-999, 999, (128, columns)) if integers else RNG.standard_normal((128, columns))
    c = c.astype(np.int32 if integers else np.float32)
    out = machine.empty(128 * columns * 4)
    size = max(32, 1 << (columns - 1).bit_length())
    body = [
        f".reg .b32 %s<{columns}>;", THREADS, FILL, FENCE, ALLOCATE.format(size), MAKE, given(columns), store(columns),
        STORED, "bar.sync 0;", multiply(name, rows, columns, adds, **bits), COMMIT, WAIT, load(columns), LOADED,
        taken(columns), FREE.format(size),
    ]  # fmt: skip
    arguments = machine.put(image), machine.put(np.ascontiguousarray(c.T)), out
    machine.run("\n".join(body), *arguments, threads=128, shared=SHARED)
    found = machine.get(out, (columns, 128), c.dtype).T
    if rows == 64:  # 16 lanes of each warp have the rows
        lanes = np.arange(64) // 16 * 32 + np.arange(64) % 16
        others = np.setdiff1d(np.arange(128), lanes)
        assert np.array_equal(found[others], c[others])
        found, c = found[lanes], c[lanes]
    return found, a, b, c


def wanted(a: Array, b: Array, c: Array) -> Array:
    """Return the matmul's result, rounded once."""
    return (a.astype(np.float64) @ b.astype(np.float64).T + c.astype(np.float64)).astype(c.dtype)


@pytest.mark.parametrize(("rows", "columns"), [(128, 16), (128, 128), (64, 8), (64, 64)])
@pytest.mark.parametrize("name", list(FORMATS))
def test_products_of_each_type(machine: Any, name: str, rows: int, columns: int) -> None:
    found, a, b, c = product(machine, name, rows, columns)
    if name == "tf32":
        a, b = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b))
    assert np.array_equal(found, wanted(a, b, c))


def test_products_that_add_nothing_or_negate(machine: Any) -> None:
    found, a, b, c = product(machine, "f16", 128, 32, adds=0)
    assert np.array_equal(found, wanted(a, b, np.zeros_like(c)))
    for signs, factor in (((1, 0), -1), ((0, 1), -1), ((1, 1), 1)):
        found, a, b, c = product(machine, "f16", 128, 32, signs=signs)
        assert np.array_equal(found, wanted(factor * a, b, c))


def test_a_left_operand_in_tensor_memory(machine: Any) -> None:
    """Store two 16-bit elements in a column, with a lane for each row."""
    columns = 32
    a, b = drawn("bf16", 128), drawn("bf16", columns)
    image = np.zeros(12288, np.uint8)
    image[RIGHT : RIGHT + columns * 32] = core_matrices(b)
    pairs = np.ascontiguousarray(a).view(np.uint32)
    out = machine.empty(128 * columns * 4)
    body = [
        f".reg .b32 %s<{columns}>;", THREADS, FILL, FENCE, ALLOCATE.format(64), MAKE, given(8), store(8, "%r6 + 40"),
        STORED, "bar.sync 0; add.s32 %r21, %r7, 40;", multiply("bf16", 128, columns, 0, "[ %r21 + 0 ]"), COMMIT, WAIT,
        load(columns), LOADED, taken(columns), FREE.format(64),
    ]  # fmt: skip
    arguments = machine.put(image), machine.put(np.ascontiguousarray(pairs.T)), out
    machine.run("\n".join(body), *arguments, threads=128, shared=SHARED)
    found = machine.get(out, (columns, 128), np.float32).T
    assert np.array_equal(found, wanted(a, b, np.zeros((128, columns), np.float32)))


def test_loads_and_stores_of_each_shape(machine: Any) -> None:
    """Check ``16x32bx2``, which has 16 lanes of a warp: the lower threads have columns from the address on."""
    values = RNG.integers(0, 2**32, (16, 128), dtype=np.uint32)
    out = machine.empty(values.nbytes)
    for first, second in (
        (store(16), load(16)),
        (store(16, shape="16x32bx2", tail=", 16"), load(16, shape="16x32bx2", tail=", 16")),
    ):
        body = ["\n.reg .b32 %s<16>;", THREADS, ALLOCATE.format(32), given(16), first, STORED, second, LOADED]
        body += [taken(16), FREE.format(32)]
        machine.run("\n".join(body), 0, machine.put(values), out, threads=128, shared=SHARED)
        assert np.array_equal(machine.get(out, values.shape, np.uint32), values)
    split = [
        "\n.reg .b32 %s<32>;", THREADS, ALLOCATE.format(32), given(16), store(16, shape="16x32bx2", tail=", 16"),
        STORED, "mov.b32 %s31, 7;", load(32, shape="32x32b"), LOADED, taken(16), FREE.format(32),
    ]  # fmt: skip
    whole = f"{THREADS} {ALLOCATE.format(32)}"
    zero = "".join(f"mov.b32 %s{i}, 0;" for i in range(32)) + store(32) + STORED
    body = ["\n.reg .b32 %s<32>;", whole, zero, *split[3:]]
    machine.run("\n".join(body), 0, machine.put(values), out, threads=128, shared=SHARED)
    found = machine.get(out, values.shape, np.uint32).reshape(16, 4, 32)
    assert np.array_equal(found[:, :, :16], values.reshape(16, 4, 32)[:, :, :16])
    assert not found[:, :, 16:].any()


def test_descriptors_taken_apart() -> None:
    """Decode descriptors that Triton writes for a 128x256 bfloat16 matmul.

    Both operands are transposed, with a swizzle of 128 bytes.
    """
    found = InstructionDescriptor(138511504)
    assert (found.rows, found.columns, found.transposed) == (128, 256, (True, True))
    assert found.types("f16") == ("f32", "bf16", "bf16") and found.signs == 1 and not found.saturates
    matrix = SharedDescriptor(1073758272 << 32 | 33554432 | 1024 >> 4)
    assert (matrix.start, matrix.leading, matrix.stride, matrix.swizzle) == (1024, 8192, 1024, 3)
    assert matrix.is_valid and not SharedDescriptor(int(matrix) ^ 1 << 46).is_valid
    assert [SharedDescriptor(mode << 61).swizzle for mode in (0, 2, 4, 6)] == [0, 3, 2, 1]


# Findings

SUMS = multiply("f16", 128, 32, 0)
ORDER = (
    ".reg .b32 %s<64>;", THREADS, FILL, FENCE, ALLOCATE.format(32), MAKE, SUMS, COMMIT, WAIT, load(32), LOADED,
    "bar.sync 0;", FREE.format(32),
)  # fmt: skip
"""A kernel that is right."""


@pytest.fixture
def image(machine: Any) -> int:
    address: int = machine.put(np.zeros(12288, np.uint8))
    return address


def runs(machine: Any, image: int, *parts: str) -> None:
    machine.run("\n".join(parts), image, threads=128, shared=SHARED)


def refused(machine: Any, image: int, match: str, *parts: str) -> None:
    with pytest.raises(EmulationError, match=match):
        runs(machine, image, *parts)


def changed(old: str, new: str, parts: tuple[str, ...] = ORDER) -> tuple[str, ...]:
    """Return the parts with one of them replaced."""
    assert old in parts
    return tuple(new if each == old else each for each in parts)


def test_what_is_right_is_left_alone(machine: Any, image: int) -> None:
    runs(machine, image, *ORDER)
    # Products of one thread come in order.
    runs(machine, image, *changed(SUMS, SUMS + multiply("f16", 128, 32, 1)))


def test_sums_that_are_read_too_early(machine: Any, image: int) -> None:
    early = "before the products of warp 0 are done: no wait for the barrier"
    refused(machine, image, early, *changed(WAIT, ""))
    other = WAIT.replace(", 0;", ", 1;")
    refused(machine, image, "wait for ever", *changed(WAIT, other))
    refused(machine, image, early, *changed(COMMIT, other, changed(WAIT, COMMIT)))
    refused(machine, image, "wait for ever", *changed(COMMIT, ""))
    late = changed(COMMIT, "", changed(SUMS, COMMIT + SUMS))
    refused(machine, image, early, *late)
    by_another = COMMIT.replace("@%p0", "setp.eq.b32 %p5, %r0, 1; @%p5")
    refused(machine, image, "whose products it does not commit", *changed(COMMIT, by_another))


def test_sums_of_nothing(machine: Any, image: int) -> None:
    refused(machine, image, "never written", *changed(SUMS, multiply("f16", 128, 32, 1)))


def test_columns_to_which_nothing_was_written(machine: Any) -> None:
    """Read NaN from columns that were never written: the compiler loads accumulators of loops that do not
    run.
    """
    out = machine.empty(128 * 32 * 4)
    body = ["\n.reg .b32 %s<32>;", THREADS, ALLOCATE.format(32), load(32), LOADED, taken(32), FREE.format(32)]
    machine.run("\n".join(body), 0, 0, out, threads=128, shared=SHARED)
    assert np.isnan(machine.get(out, (32, 128), np.float32)).all()


def test_columns_that_are_not_allocated(machine: Any, image: int) -> None:
    refused(
        machine,
        image,
        "sums of tcgen05.mma .* not allocated",
        *changed(SUMS, SUMS.replace("%r7 + 0", "%r7 + 16")),
    )
    refused(machine, image, "tcgen05.ld .* not allocated", *changed(load(32), load(32, "%r6 + 1")))
    refused(
        machine,
        image,
        "where no|never written|not allocated",
        *changed(ALLOCATE.format(32), "mov.b32 %r7, 0; mov.b32 %r6, %r8;"),
    )
    refused(machine, image, "a block ends with 32 columns", *changed(FREE.format(32), ""))
    refused(machine, image, "tcgen05.dealloc of 64 columns", *changed(FREE.format(32), FREE.format(64)))
    refused(machine, image, "expected a power of two", *changed(ALLOCATE.format(32), ALLOCATE.format(48)))
    refused(machine, image, "expected a power of two", *changed(ALLOCATE.format(32), ALLOCATE.format(1024)))
    allocate = ALLOCATE.format(32).partition(";")[0] + ";"
    twice = allocate.replace("32;", "512;") + ALLOCATE.format(32)
    refused(
        machine, image, "tcgen05.alloc of 32 columns waits for ever", *changed(ALLOCATE.format(32), twice)
    )
    again = ALLOCATE.format(32) + allocate
    refused(machine, image, "after tcgen05.relinquish_alloc_permit", *changed(ALLOCATE.format(32), again))


def test_columns_that_are_freed_while_they_are_used(machine: Any, image: int) -> None:
    first = FREE.format(32).replace("bar.sync 0;", "")
    refused(machine, image, "is freed by warp 0 .* not waited for", *changed(WAIT, first + WAIT))


def test_lanes_of_another_warp(machine: Any, image: int) -> None:
    refused(machine, image, "by warp 1, which has lanes 32 to 63", *changed(load(32), load(32, "%r7")))


def test_products_over_what_is_still_read(machine: Any, image: int) -> None:
    """Overwrite columns only after ``tcgen05.wait::ld`` and a barrier."""
    again = ("bar.sync 0;", SUMS, COMMIT, WAIT.replace(", 0;", ", 1;"), FREE.format(32))
    parts = (*ORDER[:-2], *again)
    runs(machine, image, *parts)
    refused(machine, image, "while warp 0 still reads it", *changed(LOADED, "", parts))
    refused(machine, image, "while warp 1 still reads it", *changed("bar.sync 0;", "", parts))


def test_stores_that_are_not_waited_for(machine: Any, image: int) -> None:
    zero = "".join(f"mov.b32 %s{i}, 0;" for i in range(32))
    parts = (*ORDER[:6], zero, store(32), STORED, "bar.sync 0;", multiply("f16", 128, 32, 1), *ORDER[7:])
    runs(machine, image, *parts)
    refused(machine, image, "no tcgen05.wait::st", *changed(STORED, "", parts))
    refused(machine, image, "written by warp 1", *parts[:9], *parts[10:])


def test_operands_that_are_written_while_a_product_reads_them(machine: Any, image: int) -> None:
    write = "st.shared.b32 [global_smem], 0;"
    first = f"@%p0 {write}"
    runs(machine, image, *changed(WAIT, WAIT + first))
    refused(
        machine, image, "while a product .tcgen05.mma. of warp 0 still reads", *changed(WAIT, first + WAIT)
    )
    refused(machine, image, "without fence.proxy.async", *changed(FENCE, "bar.sync 0;"))


def test_products_by_every_thread(machine: Any, image: int) -> None:
    refused(machine, image, "whose products it does not commit", *changed(SUMS, SUMS.replace("@%p0", "@%p1")))


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (instruction("f16", 128, 32), instruction("f16", 128, 24), "128 x 24 sums"),
        (instruction("f16", 128, 32), instruction("f16", 32, 32), "32 x 32 sums"),
        (instruction("f16", 128, 32), instruction("tf32", 128, 32), "is not emulated"),
        (described(0, 128), described(0, 128, version=0), "whose version or offset"),
        (described(0, 128), described(0, 128) | 1 << 61, "is not emulated"),
        (described(0, 128), described(12288, 128), "illegal memory access"),
    ],
)
def test_descriptors_that_are_refused(machine: Any, image: int, old: int, new: int, what: str) -> None:
    refused(machine, image, what, *changed(SUMS, SUMS.replace(str(old), str(new))))


def test_instructions_that_are_not_emulated(machine: Any, image: int) -> None:
    with pytest.raises(NotImplementedError, match="products of two blocks"):
        runs(machine, image, *changed(SUMS, SUMS.replace("cta_group::1", "cta_group::2")))
    copies = "@%p0 tcgen05.cp.cta_group::1.128x256b [%r7], %d20;"
    with pytest.raises(NotImplementedError, match=r"tcgen05\.cp"):
        runs(machine, image, *changed(SUMS, copies))


SCALED = {
    "mxfp8": ("mxf8f6f4", 32, ml_dtypes.float8_e4m3fn, (1, 3)),
    "mxfp4": ("mxf4", 32, ml_dtypes.float4_e2m1fn, (2, 0)),
    "nvfp4": ("mxf4nvf4", 16, ml_dtypes.float4_e2m1fn, (0, 0)),
}
"""The kind of a product, how many elements share a scale, the elements, and the byte where scales begin."""


def scaled_product(machine: Any, name: str, spoiled: bool = False) -> tuple[Array, Array]:
    """Return the 128x32 result of a block-scaled matmul, and the reference in double precision."""
    kind, vector, dtype, bytes_ = SCALED[name]
    packed, columns = dtype is ml_dtypes.float4_e2m1fn, 32
    depth = 64 if packed else 32
    image, words, exact = np.zeros(12288, np.uint8), np.zeros((5, 128), np.uint32), []
    for at, lines, to, first in ((0, 128, slice(0, 4), bytes_[0]), (RIGHT, columns, slice(4, 5), bytes_[1])):
        numbers = RNG.standard_normal((lines, depth)).astype(dtype)
        codes = numbers.view(np.uint8)
        raw = codes[:, ::2] | codes[:, 1::2] << 4 if packed else codes
        image[at : at + lines * 32] = core_matrices(raw)
        scales = RNG.integers(90, 120, (lines, depth // vector)).astype(np.uint8)
        whole = RNG.integers(0, 256, (lines, 4)).astype(np.uint8)
        whole[:, first : first + scales.shape[1]] = scales
        words[to] = np.tile(whole.view(np.uint32).reshape(-1, 32), (1, 4))
        factors = scales.view(ml_dtypes.float8_e4m3fn if vector == 16 else ml_dtypes.float8_e8m0fnu)
        exact.append(numbers.astype(np.float64) * factors.astype(np.float64).repeat(vector, 1))
    if spoiled:
        words[4, 70] ^= 1
    types = 1 << 7 | 1 << 10 if packed else 0
    bits = (
        bytes_[1] << 4 | types | columns >> 3 << 17 | (vector == 32) << 23 | 128 >> 4 << 24 | bytes_[0] << 29
    )
    out = machine.empty(128 * columns * 4)
    multiplied = (
        f"mov.b64 %d20, {described(0, 128)}; mov.b64 %d21, {described(RIGHT, columns)}; setp.eq.b32 %p3, 1, 0;"
        f"mov.b32 %r20, {bits}; add.s32 %r21, %r7, 32; add.s32 %r22, %r7, 36;"
        f"@%p0 tcgen05.mma.cta_group::1.kind::{kind}.block_scale.block{vector} [ %r7 + 0 ], %d20, %d21, %r20, "
        "[ %r21 + 0 ], [ %r22 + 0 ], %p3;"
    )
    body = [
        f".reg .b32 %s<{columns}>;", THREADS, FILL, FENCE, ALLOCATE.format(64), MAKE, given(5), store(4, "%r6 + 32"),
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6 + 36], {%s4};", STORED, "bar.sync 0;", multiplied, COMMIT, WAIT,
        load(columns), LOADED, taken(columns), FREE.format(64),
    ]  # fmt: skip
    machine.run("\n".join(body), machine.put(image), machine.put(words), out, threads=128, shared=SHARED)
    return machine.get(out, (columns, 128), np.float32).T, (exact[0] @ exact[1].T).astype(np.float32)


@pytest.mark.parametrize("name", list(SCALED))
def test_products_with_scales_of_blocks(machine: Any, name: str) -> None:
    found, exact = scaled_product(machine, name)
    assert np.array_equal(found, exact)


def test_scales_that_differ_between_quarters_of_the_lanes_are_found(machine: Any) -> None:
    with pytest.raises(EmulationError, match="not alike in all quarters"):
        scaled_product(machine, "mxfp8", spoiled=True)
