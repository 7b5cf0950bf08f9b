"""Asynchronous units of sm_90: bulk copies, barriers and matmuls by four warps."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from triten.runtime.cuda.emulator import tensor_maps, warp_group
from triten.runtime.cuda.emulator.fault import EmulationError

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)
TYPES = {"f32": 7, "bf16": 9, "f16": 6, "u8": 0, "f64": 8, "s32": 3, "u32": 2}
NUMPY = {
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "u8": np.uint8,
    "f64": np.float64,
    "s32": np.int32,
    "u32": np.uint32,
}

ONE = "mov.u32 %r0, %tid.x; setp.eq.b32 %p0, %r0, 0; mov.b32 %r9, global_smem;"
"""%p0: the first thread."""


def ready(barrier: int, count: int = 1) -> str:
    """Return PTX that initializes a barrier at an offset in shared memory and synchronizes the block."""
    return f"@%p0 mbarrier.init.shared::cta.b64 [global_smem+{barrier}], {count}; bar.sync 0;"


def wait(barrier: int, parity: int = 0) -> str:
    return f"""
        {{ .reg .pred done; again:
        mbarrier.try_wait.parity.shared::cta.b64 done, [global_smem+{barrier}], {parity};
        @!done bra.uni again; }}
    """


def put_map(machine: Any, array: Array, type_name: str, box: Any, **options: Any) -> tuple[int, int]:
    """Put a tensor and its tensor map in global memory, and return their addresses. The box starts with the
    last dimension.
    """
    address = machine.put(array)
    steps = options.pop("steps", (1,) * array.ndim)
    encoded = tensor_maps.encode(
        TYPES[type_name], address, array.shape[::-1], array.strides[::-1][1:], box, steps, **options
    )
    return address, machine.put(np.frombuffer(encoded, np.uint8))


def loaded(machine: Any, array: Array, type_name: str, box: Any, at: Any, **options: Any) -> Array:
    """Return the bytes that a box loads into shared memory."""
    _, where = put_map(machine, array, type_name, box, **options)
    steps = options.get("steps", (1,) * array.ndim)
    counts = [-(-length // step) for length, step in zip(box, (1, *steps[1:]), strict=True)]
    nbytes = int(np.prod(counts)) * array.itemsize
    out = machine.empty(nbytes)
    coordinates = ", ".join(str(each) for each in at)
    barrier = nbytes + -nbytes % 128
    body = f"""
        {ONE} {ready(barrier)}
        @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [global_smem+{barrier}], {nbytes};
        @%p0 cp.async.bulk.tensor.{array.ndim}d.shared::cta.global.mbarrier::complete_tx::bytes
            [global_smem], [%d0, {{{coordinates}}}], [global_smem+{barrier}];
        {wait(barrier)}
        mov.b32 %r1, %r0;
    $more:
        shl.b32 %r2, %r1, 4; add.s32 %r3, %r9, %r2; cvt.u64.u32 %d2, %r2; add.s64 %d3, %d1, %d2;
        setp.lt.u32 %p1, %r2, {nbytes};
        @%p1 ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r3];
        @%p1 st.global.v4.b32 [%d3], {{%r4, %r5, %r6, %r7}};
        add.s32 %r1, %r1, 32;
        @%p1 bra $more;
    """
    machine.run(body, where, out, shared=barrier + 16)
    found: Array = machine.get(out, nbytes, np.uint8)
    return found


def box_of(array: Array, at: Any, counts: Any, steps: Any, fill: Any = 0) -> Array:
    """Return the box of an array, outermost dimension first, with elements out of bounds filled."""
    grids = np.meshgrid(
        *(start + step * np.arange(n) for start, n, step in zip(at, counts, steps, strict=True)),
        indexing="ij",
    )
    inside = np.logical_and.reduce([(g >= 0) & (g < n) for g, n in zip(grids, array.shape, strict=True)])
    clipped = tuple(np.clip(g, 0, n - 1) for g, n in zip(grids, array.shape, strict=True))
    return np.where(inside, array[clipped], np.array(fill, array.dtype))


@pytest.mark.parametrize(
    ("sizes", "box", "at"),
    [
        ((256,), (64,), (32,)),
        ((40, 64), (8, 16), (5, 7)),
        ((40, 64), (8, 16), (35, 56)),
        ((40, 64), (8, 16), (-3, -5)),
        ((3, 20, 36), (2, 4, 8), (2, 18, 31)),
        ((2, 3, 10, 12), (1, 2, 4, 4), (-1, 1, 8, 2)),
        ((2, 2, 3, 10, 12), (2, 1, 2, 4, 4), (0, 1, 2, -2, 10)),
    ],
)
def test_a_box_of_each_rank_with_what_lies_outside(machine: Any, sizes: Any, box: Any, at: Any) -> None:
    array = RNG.standard_normal(sizes).astype(np.float32)
    found = loaded(machine, array, "f32", box[::-1], at[::-1])
    assert np.array_equal(found.view(np.float32).reshape(box), box_of(array, at, box, (1,) * len(box)))


@pytest.mark.parametrize("type_name", list(TYPES))
def test_elements_of_each_type_at_places_that_no_vector_fits(machine: Any, type_name: str) -> None:
    array = RNG.integers(0, 100, (9, 48)).astype(NUMPY[type_name])
    found = loaded(machine, array, type_name, (16, 4), (37, 7))
    wanted = box_of(array, (7, 37), (4, 16), (1, 1))
    assert np.array_equal(found.view(np.uint8), wanted.reshape(-1).view(np.uint8))


def test_a_box_with_steps_and_one_filled_with_nan(machine: Any) -> None:
    array = RNG.standard_normal((30, 16)).astype(np.float32)
    found = loaded(machine, array, "f32", (8, 10), (0, 3), steps=(1, 3))
    assert np.array_equal(found.view(np.float32).reshape(4, 8), box_of(array, (3, 0), (4, 8), (3, 1)))
    found = loaded(machine, array, "f32", (8, 4), (12, 28), fill=1).view(np.float32).reshape(4, 8)
    assert np.array_equal(found, box_of(array, (28, 12), (4, 8), (1, 1), np.nan), equal_nan=True)


@pytest.mark.parametrize(("swizzle", "span"), [(1, 32), (2, 64), (3, 128)])
def test_swizzles_move_16_bytes_within_a_span(machine: Any, swizzle: int, span: int) -> None:
    """Swizzle rows of a span: each 16 bytes move by the index of their 128 bytes (PTX ISA, "Swizzling
    Modes").
    """
    array = RNG.integers(0, 255, (32, 256), dtype=np.uint8)
    found = loaded(machine, array, "u8", (span, 32), (span, 0), swizzle=swizzle)
    flat = array[:, span : 2 * span].reshape(-1, 16)
    wanted = np.empty_like(flat)
    for i, chunk in enumerate(flat):
        wanted[i ^ (i // 8 % (span // 16))] = chunk
    assert np.array_equal(found.reshape(-1, 16), wanted)


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("16", {"address": 8}),
        ("sizes", {"sizes": (0, 4)}),
        ("strides", {"pitches": (40,)}),
        ("box", {"box": (257, 4)}),
        ("wider", {"box": (64, 4), "swizzle": 3}),
        ("inner side", {"box": (6, 4)}),
        ("type", {"type_": 13}),
    ],
)
def test_maps_that_the_driver_refuses(what: str, change: dict[str, Any]) -> None:
    given = {"type_": 7, "address": 4096, "sizes": (16, 4), "pitches": (64,), "box": (8, 4), "steps": (1, 1)}
    assert tensor_maps.decode(tensor_maps.encode(**given)).nbytes == 128  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=what):
        tensor_maps.encode(**(given | change))  # type: ignore[arg-type]


def test_a_box_is_stored_but_for_what_lies_outside(machine: Any) -> None:
    array = np.zeros((6, 40), np.float32)
    address, where = put_map(machine, array, "f32", (32, 2))
    body = f"""
        {ONE} shl.b32 %r1, %r0, 3; add.s32 %r1, %r9, %r1; mul.lo.u32 %r2, %r0, 2; cvt.rn.f32.u32 %r2, %r2;
        st.shared.v2.b32 [%r1], {{%r2, %r2}}; fence.proxy.async.shared::cta; bar.sync 0;
        @%p0 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d0, {{24, 5}}], [global_smem];
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    """
    machine.run(body, where, shared=256)
    wanted = array.copy()
    wanted[5, 24:40] = np.repeat(np.arange(0, 16, 2), 2)
    assert np.array_equal(machine.get(address, (6, 40), np.float32), wanted)


@pytest.mark.parametrize(
    ("type_name", "dtype", "operation", "change"),
    [
        ("f32", np.float32, "add", np.add),
        ("bf16", ml_dtypes.bfloat16, "max", np.maximum),
        ("s32", np.int32, "min", np.minimum),
        ("u32", np.uint32, "xor", np.bitwise_xor),
    ],
)
def test_a_box_is_combined_with_what_lies_inside(
    machine: Any, type_name: str, dtype: Any, operation: str, change: Any
) -> None:
    array = np.arange(-120, 120).reshape(6, 40).astype(dtype)
    address, where = put_map(machine, array, type_name, (32, 2))
    size = 2 * 32 * array.itemsize
    values = np.arange(64).astype(dtype)
    body = f"""
        {ONE} {ready(size)}
        @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [global_smem+{size}], {size};
        @%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes
            [global_smem], [%d1], {size}, [global_smem+{size}];
        {wait(size)}
        @%p0 cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.bulk_group
            [%d0, {{24, 5}}], [global_smem];
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    """
    machine.run(body, where, machine.put(values), shared=size + 16)
    wanted = array.copy()
    wanted[5, 24:40] = change(array[5, 24:40], values[:16])
    assert np.array_equal(machine.get(address, (6, 40), dtype), wanted)


def test_bytes_that_adjoin(machine: Any) -> None:
    source, out = machine.put(np.arange(64, dtype=np.uint32)), machine.put(np.zeros(64, np.uint32))
    body = f"""
        {ONE} {ready(512)}
        @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [global_smem+512], 128;
        @%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes
            [global_smem], [%d0+64], 128, [global_smem+512];
        {wait(512)}
        @%p0 cp.async.bulk.global.shared::cta.bulk_group [%d1], [global_smem], 128;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    """
    machine.run(body, source, out, shared=528)
    assert machine.get(out, 64, np.uint32).tolist() == [*range(16, 48), *[0] * 32]


def test_a_barrier_counts_phases(machine: Any) -> None:
    """Pass a number to and fro between two warps; each waits for the phase that the other ends."""
    out = machine.put(np.zeros(64, np.uint32))
    body = f"""
        {ONE} @%p0 mbarrier.init.shared::cta.b64 [global_smem+16], 32;
        @%p0 mbarrier.init.shared::cta.b64 [global_smem+24], 32; @%p0 st.shared.b32 [global_smem], 1; bar.sync 0;
        mov.b32 %r5, 0; setp.lt.u32 %p1, %r0, 32; @!%p1 bra $second;
    $first:
        ld.shared.b32 %r2, [global_smem]; add.s32 %r2, %r2, 1; st.shared.b32 [global_smem], %r2;
        mbarrier.arrive.shared::cta.b64 _, [global_smem+16];
        and.b32 %r6, %r5, 1;
        {{ .reg .pred done; again:
        mbarrier.try_wait.parity.shared::cta.b64 done, [global_smem+24], %r6; @!done bra.uni again; }}
        add.s32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 3; @%p2 bra $first;
        bra.uni $end;
    $second:
        and.b32 %r6, %r5, 1;
        {{ .reg .pred done; again2:
        mbarrier.test_wait.parity.shared::cta.b64 done, [global_smem+16], %r6; @!done bra.uni again2; }}
        ld.shared.b32 %r2, [global_smem]; mul.lo.u32 %r2, %r2, 3; st.shared.b32 [global_smem], %r2;
        mbarrier.arrive.shared::cta.b64 %d5, [global_smem+24];
        add.s32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 3; @%p2 bra $second;
    $end:
        mad.wide.u32 %d10, %r0, 4, %d0; st.global.b32 [%d10], %r2;
    """
    machine.run(body, out, threads=64, shared=32)
    value, seen = 1, []
    for _ in range(3):
        seen = [value + 1, 3 * (value + 1)]
        value = seen[1]
    assert machine.get(out, 64, np.uint32).tolist() == [seen[0]] * 32 + [seen[1]] * 32


def test_a_barrier_by_the_state_of_an_arrival(machine: Any) -> None:
    out = machine.put(np.zeros(64, np.uint32))
    body = f"""
        {ONE} {ready(0, 64)}
        mbarrier.arrive.shared::cta.b64 %d5, [global_smem];
        {{ .reg .pred done; again: mbarrier.try_wait.shared::cta.b64 done, [global_smem], %d5; @!done bra.uni again; }}
        mad.wide.u32 %d10, %r0, 4, %d0; st.global.b32 [%d10], 1;
    """
    machine.run(body, out, threads=64, shared=16)
    assert machine.get(out, 64, np.uint32).tolist() == [1] * 64


def test_barriers_of_some_warps(machine: Any) -> None:
    """Use one barrier in three warps of four: two wait, one arrives and goes on."""
    out = machine.put(np.zeros(128, np.uint32))
    body = f"""
        {ONE} shl.b32 %r8, %r0, 2; add.s32 %r7, %r9, %r8; st.shared.b32 [%r7], %r0; mov.b32 %r1, 0;
        setp.ge.u32 %p1, %r0, 96; @%p1 bra $end;
        setp.ge.u32 %p2, %r0, 64; @%p2 bar.arrive 3, 96; @%p2 bra $end;
        bar.sync 3, 96;
        add.s32 %r6, %r7, 128; ld.shared.b32 %r1, [%r6];
    $end:
        mad.wide.u32 %d10, %r0, 4, %d0; st.global.b32 [%d10], %r1;
    """
    machine.run(body, out, threads=128, shared=512)
    assert machine.get(out, 128, np.uint32).tolist() == [*range(32, 96), *[0] * 64]


def test_one_lane_is_elected(machine: Any) -> None:
    out = machine.put(np.zeros(64, np.uint32))
    body = f"""
        {ONE} elect.sync %r1|%p1, -1; selp.b32 %r1, 1, 0, %p1; elect.sync _|%p2, 0xf0; selp.b32 %r2, 2, 0, %p2;
        add.s32 %r1, %r1, %r2; mad.wide.u32 %d10, %r0, 4, %d0; st.global.b32 [%d10], %r1;
    """
    machine.run(body, out, threads=64)
    assert machine.get(out, 64, np.uint32).tolist() == ([1, 0, 0, 0, 2] + [0] * 27) * 2


FORMATS: dict[str, tuple[Any, int]] = {
    "bf16": (ml_dtypes.bfloat16, 16),
    "f16": (np.float16, 16),
    "tf32": (np.float32, 8),
    "e4m3": (ml_dtypes.float8_e4m3fn, 32),
    "e5m2": (ml_dtypes.float8_e5m2, 32),
    "s8": (np.int8, 32),
    "u8": (np.uint8, 32),
}


def laid_out(matrix: Array, transposed: bool, swizzle: int) -> tuple[Array, int]:
    """Return the bytes of a (row, K) matrix in shared memory, and its descriptor at address 0.

    The layout follows the figures of the PTX ISA, "Matrix Descriptor": core matrices of 8 rows of 16 bytes.
    With a swizzle, a row has the bytes of a span, and 8 rows are an atom.
    """
    adjoining = matrix.T if transposed else matrix
    rows = np.ascontiguousarray(adjoining).view(np.uint8).reshape(adjoining.shape[0], -1)
    span = (16, 32, 64, 128)[swizzle]
    wide = -(-rows.shape[1] // span) * span
    padded = np.zeros((rows.shape[0] + -rows.shape[0] % 8, wide), np.uint8)
    padded[: rows.shape[0], : rows.shape[1]] = rows
    atoms = padded.reshape(padded.shape[0] // 8, 8, wide // span, span)
    down, across = atoms.shape[0], atoms.shape[2]
    flat = atoms.transpose(2, 0, 1, 3).reshape(-1, 16)  # atoms of a span's column after one another
    found = np.empty_like(flat)
    for i, chunk in enumerate(flat):
        found[i ^ (i // 8 % (span // 16))] = chunk
    next_down, next_across = 8 * span, 8 * span * down
    if swizzle == 0 and transposed:
        leading, stride = next_down, next_across
    elif transposed or swizzle == 0:
        leading, stride = next_across, next_down
    else:
        leading, stride = 16, next_down
    assert across == 1 or transposed or swizzle == 0
    mode = (0, 3, 2, 1)[swizzle]
    return found.reshape(-1), (leading >> 4) << 16 | (stride >> 4) << 32 | mode << 62


def product(
    machine: Any,
    type_name: str,
    columns: int,
    *,
    swizzle: int = 3,
    turned: tuple[bool, bool] = (False, False),
    in_registers: bool = False,
    scale: int = 1,
    signs: tuple[int, int] = (1, 1),
    d_type: str = "f32",
) -> tuple[Array, Array, Array, Array]:
    """Run one matmul by four warps, and return its result, its operands and its initial accumulator."""
    dtype, depth = FORMATS[type_name]
    integers = type_name in ("s8", "u8")
    a, b = (
        RNG.integers(-100 if type_name == "s8" else 0, 100, (n, depth)).astype(dtype)
        if integers
        else RNG.standard_normal((n, depth)).astype(dtype)
        for n in (64, columns)
    )
    d_numpy = {"f32": np.float32, "s32": np.int32, "f16": np.float16}[d_type]
    c = (RNG.integers(-999, 999, (64, columns)) if integers else RNG.standard_normal((64, columns))).astype(
        d_numpy
    )
    left, left_bits = laid_out(a, turned[0], swizzle)
    right, right_bits = laid_out(b, turned[1], swizzle)
    begin = left.size + -left.size % 1024
    size = begin + right.size
    image = np.zeros(size + -size % 512, np.uint8)
    image[: left.size], image[begin : begin + right.size] = left, right
    right_bits |= begin >> 4
    source = machine.put(image)
    packed = d_type == "f16"
    sums = machine.put(
        warp_group.spread(c.view({2: np.uint16, 4: np.uint32}[c.itemsize])[None].astype(np.uint32), packed)
    )
    count = columns // (4 if packed else 2)
    out = machine.empty(count * 128 * 4)
    names = [f"%s{i}" for i in range(count)]
    per = 4 // a.itemsize
    lines = [f".reg .b32 %s<{count}>; {ONE}"]
    lines += [
        f"shl.b32 %r1, %r0, 2; add.s32 %r2, %r9, %r1; cvt.u64.u32 %d9, %r1; add.s64 %d10, %d0, %d9; "
        f"ld.global.b32 %r3, [%d10+{i}]; st.shared.b32 [%r2+{i}], %r3;"
        for i in range(0, image.size, 512)
    ]
    lines.append("mul.wide.u32 %d10, %r0, 4; add.s64 %d11, %d1, %d10; add.s64 %d12, %d2, %d10;")
    lines += [f"ld.global.b32 {name}, [%d11+{512 * i}];" for i, name in enumerate(names)]
    operand = "%d20"
    parameters = [source, sums, out]
    if in_registers:
        fragments = np.zeros((4, 128, per), a.dtype)
        for thread in range(128):
            warp, lane = divmod(thread, 32)
            for i in range(4):
                row, column = 16 * warp + lane // 4 + 8 * (i % 2), (lane % 4) * per + i // 2 * 4 * per
                fragments[i, thread] = a[row, column : column + per]
        parameters.append(machine.put(fragments))
        lines.append("add.s64 %d13, %d3, %d10;")
        lines += [f"ld.global.b32 %r{20 + i}, [%d13+{512 * i}];" for i in range(4)]
        operand = "{%r20, %r21, %r22, %r23}"
    lines.append(f"mov.b64 %d20, {left_bits}; mov.b64 %d21, {right_bits}; setp.eq.b32 %p3, 1, {scale};")
    tail = "" if d_type == "s32" else f", {signs[0]}, {signs[1]}"
    if a.itemsize == 2:
        tail += "" if in_registers else f", {int(turned[0])}"
        tail += f", {int(turned[1])}"
    lines.append(
        "fence.proxy.async.shared::cta; bar.sync 0; wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned."
        f"m64n{columns}k{depth}.{d_type}.{type_name}.{type_name} {{{', '.join(names)}}}, {operand}, %d21, %p3{tail};"
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
    )
    lines += [f"st.global.b32 [%d12+{512 * i}], {name};" for i, name in enumerate(names)]
    machine.run("\n".join(lines), *parameters, threads=128, shared=image.size)
    found = machine.get(out, (count, 128), np.uint32)
    registers = [found[i] for i in range(count)]
    bits = warp_group.gathered(registers, np.array([0]), packed)[0]
    return bits.astype({2: np.uint16, 4: np.uint32}[c.itemsize]).view(d_numpy), a, b, c


def wanted(a: Array, b: Array, c: Array) -> Array:
    """Return the matmul's result, rounded once."""
    total = a.astype(np.float64) @ b.astype(np.float64).T + c.astype(np.float64)
    return total.astype(c.dtype)


@pytest.mark.parametrize("columns", [8, 64, 256])
@pytest.mark.parametrize("type_name", list(FORMATS))
def test_products_of_each_type(machine: Any, type_name: str, columns: int) -> None:
    d_type = "s32" if type_name in ("s8", "u8") else "f32"
    found, a, b, c = product(machine, type_name, columns, swizzle=1, d_type=d_type)
    if type_name == "tf32":
        a, b = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b))
    assert np.array_equal(found, wanted(a, b, c))


@pytest.mark.parametrize("swizzle", [0, 1, 2, 3])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_operands_as_each_descriptor_tells_them(
    machine: Any, swizzle: int, turned: tuple[bool, bool]
) -> None:
    found, a, b, c = product(machine, "f16", 64, swizzle=swizzle, turned=turned)
    assert np.array_equal(found, wanted(a, b, c))


@pytest.mark.parametrize("type_name", ["bf16", "f16", "tf32", "e4m3", "s8"])
def test_a_left_operand_in_registers(machine: Any, type_name: str) -> None:
    d_type = "s32" if type_name == "s8" else "f32"
    found, a, b, c = product(machine, type_name, 32, swizzle=1, in_registers=True, d_type=d_type)
    if type_name == "tf32":
        a, b = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b))
    assert np.array_equal(found, wanted(a, b, c))


def test_scales_of_a_product_and_sums_of_float16(machine: Any) -> None:
    found, a, b, c = product(machine, "f16", 16, scale=0)
    assert np.array_equal(found, wanted(a, b, np.zeros_like(c)))
    found, a, b, c = product(machine, "f16", 16, signs=(-1, 1))
    assert np.array_equal(found, wanted(-a, b, c))
    found, a, b, c = product(machine, "f16", 16, signs=(-1, -1))
    assert np.array_equal(found, wanted(a, b, c))
    found, a, b, c = product(machine, "f16", 16, d_type="f16")
    assert np.array_equal(found, wanted(a, b, c))


def test_a_descriptor_taken_apart() -> None:
    found = warp_group.MatrixDescriptor(1 << 62 | (1024 >> 4) << 32 | (256 >> 4) << 16 | 0x1230 >> 4)
    assert (found.start, found.leading, found.stride, found.swizzle) == (0x1230, 256, 1024, 3)


def made_map(
    change: str = "", acquire: str = "fence.proxy.tensormap::generic.acquire.gpu [%d1], 128;"
) -> str:
    """Return a kernel that builds the tensor map of 8x32 numbers at %d0, publishes it at %d1 and loads a
    box.
    """
    fields = """
        tensormap.replace.tile.global_address.shared::cta.b1024.b64 [global_smem], %d0;
        tensormap.replace.tile.rank.shared::cta.b1024.b32 [global_smem], 1;
        tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [global_smem], 0, 16;
        tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [global_smem], 1, 4;
        tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [global_smem], 0, 32;
        tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [global_smem], 1, 8;
        tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [global_smem], 0, 128;
        tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [global_smem], 0, 1;
        tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [global_smem], 1, 1;
        tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [global_smem], 7;
        tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [global_smem], 0;
        tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [global_smem], 0;
    """
    fields = (fields + change).replace("tensormap.replace", "@%p0 tensormap.replace")
    return f"""
        {ONE} shl.b32 %r1, %r0, 2; add.s32 %r1, %r9, %r1; st.shared.b32 [%r1], 0; bar.warp.sync -1;
        {fields}
        tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
            [%d1], [global_smem], 128;
        {acquire}
        {ready(512)}
        @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [global_smem+512], 256;
        @%p0 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes
            [global_smem+256], [%d1, {{16, 4}}], [global_smem+512];
        {wait(512)}
        ld.shared.b32 %r2, [%r1+256]; mad.wide.u32 %d10, %r0, 4, %d2; st.global.b32 [%d10], %r2;
    """


def test_a_map_that_a_kernel_makes(machine: Any) -> None:
    array = np.arange(256, dtype=np.float32).reshape(8, 32)
    given = machine.put(array), machine.empty(128), machine.empty(128)
    machine.run(made_map(), *given, shared=528)
    assert np.array_equal(machine.get(given[2], (2, 16), np.float32), array[4:6, 16:])


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("without fence.proxy.tensormap", made_map(acquire="")),
        (
            "strides",
            made_map("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [global_smem], 0, 100;"),
        ),
        ("box", made_map("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [global_smem], 1, 0;")),
        ("no tensor map", made_map().replace("st.shared.b32 [%r1], 0;", "st.shared.b32 [%r1], 5;")),
    ],
)
def test_maps_that_are_made_wrongly(machine: Any, what: str, body: str) -> None:
    given = machine.put(np.zeros((8, 32), np.float32)), machine.empty(128), machine.empty(128)
    with pytest.raises(EmulationError, match=what):
        machine.run(body, *given, shared=528)
