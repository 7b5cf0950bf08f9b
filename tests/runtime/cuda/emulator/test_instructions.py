"""Instructions that involve more than one thread: memory, branches, warps and matrices."""

import struct
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from triten.runtime.cuda.emulator import warp
from triten.runtime.cuda.emulator.fault import EmulationError
from triten.runtime.cuda.emulator.machine import Launch, Program
from triten.runtime.cuda.emulator.ptx import parse

Array = np.ndarray[Any, Any]
LANES = np.arange(32, dtype=np.uint32)


def of_thread(statement: str, width: int = 4) -> str:
    """Return a body that stores %r1 of each thread at %d0."""
    return f"mov.u32 %r0, %tid.x; {statement} mad.wide.u32 %d10, %r0, {width}, %d0; st.global.b{8 * width} [%d10], %r1;"


def run_thread(machine: Any, statement: str, threads: int = 32, **options: Any) -> list[int]:
    out = machine.put(np.zeros(threads, np.uint32))
    machine.run(of_thread(statement), out, threads=threads, **options)
    found: list[int] = machine.get(out, threads, np.uint32).tolist()
    return found


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("up.b32 %r1, %r0, 1, 0", [0, *range(31)]),
        ("down.b32 %r1, %r0, 2, 31", [*range(2, 32), 30, 31]),
        ("bfly.b32 %r1, %r0, 16, 31", [i ^ 16 for i in range(32)]),
        ("idx.b32 %r1, %r0, 5, 31", [5] * 32),
        ("down.b32 %r1, %r0, 1, 0x181f", [i + 1 if i % 8 < 7 else i for i in range(32)]),
    ],
)
def test_threads_exchange_values(machine: Any, text: str, wanted: list[int]) -> None:
    assert run_thread(machine, f"shfl.sync.{text}, -1;") == wanted


def test_an_exchange_says_whether_there_was_a_partner(machine: Any) -> None:
    found = run_thread(machine, "shfl.sync.up.b32 %r2|%p1, %r0, 3, 0, -1; selp.b32 %r1, 1, 0, %p1;")
    assert found == [0] * 3 + [1] * 29


def test_a_parameter_is_chosen_by_its_address(machine: Any) -> None:
    body = """
        mov.u32 %r0, %tid.x; mov.b32 %r2, kernel_param_1; mov.b32 %r3, kernel_param_2;
        setp.lt.u32 %p1, %r0, 7; selp.b32 %r4, %r2, %r3, %p1; ld.param.b64 %d11, [%r4];
        mad.wide.u32 %d10, %r0, 8, %d0; st.global.b64 [%d10], %d11;
    """
    out = machine.put(np.zeros(32, np.uint64))
    machine.run(body, out, 5, 1 << 40)
    assert machine.get(out, 32, np.uint64).tolist() == [5] * 7 + [1 << 40] * 25
    with pytest.raises(EmulationError, match="load of 8 bytes at 0x18 of 24 bytes of parameters"):
        machine.run("mov.b32 %r2, 24; ld.param.b64 %d11, [%r2];", out, 5, 6)


def test_a_warp_reduces_and_votes(machine: Any) -> None:
    assert run_thread(machine, "redux.sync.add.s32 %r1, %r0, -1;", 64) == [496] * 32 + [496 + 1024] * 32
    assert run_thread(machine, "redux.sync.max.u32 %r1, %r0, -1;") == [31] * 32
    ballot = "and.b32 %r2, %r0, 1; setp.eq.b32 %p1, %r2, 1; vote.sync.ballot.b32 %r1, %p1, -1;"
    assert run_thread(machine, ballot) == [0xAAAAAAAA] * 32
    any_of = "setp.eq.b32 %p1, %r0, 40; vote.sync.any.pred %p2, %p1, -1; selp.b32 %r1, 1, 0, %p2;"
    assert run_thread(machine, any_of, 64) == [0] * 32 + [1] * 32


def test_threads_part_and_meet_again_wherever_the_compiler_put_the_sides(machine: Any) -> None:
    """Reconverge a warp whose branch target stands behind the point of reconvergence."""
    body = """
        and.b32 %r2, %r0, 1;
        setp.eq.b32 %p1, %r2, 1;
        mov.b32 %r1, 5;
        @%p1 bra $far;
    $meet:
        shfl.sync.bfly.b32 %r1, %r1, 1, 31, -1;
        bra.uni $end;
    $far:
        mov.b32 %r1, 7;
        bra.uni $meet;
    $end:
    """
    assert run_thread(machine, body) == [7, 5] * 16


def test_loops_of_different_lengths(machine: Any) -> None:
    body = """
        mov.b32 %r1, 0;
        mov.b32 %r2, %r0;
    $loop:
        add.s32 %r1, %r1, %r2;
        add.s32 %r2, %r2, -1;
        setp.gt.s32 %p1, %r2, 0;
        @%p1 bra $loop;
        redux.sync.max.s32 %r1, %r1, -1;
    """
    assert run_thread(machine, body) == [31 * 32 // 2] * 32


def test_threads_that_return_leave_the_others_alone(machine: Any) -> None:
    out = machine.put(np.full(64, 9, np.uint32))
    machine.run(
        "mov.u32 %r0, %tid.x; setp.gt.u32 %p1, %r0, 40; @%p1 ret;" + of_thread("add.s32 %r1, %r0, 0;"),
        out,
        threads=64,
    )
    assert machine.get(out, 64, np.uint32).tolist() == [*range(41)] + [9] * 23


def test_special_registers(machine: Any) -> None:
    out = machine.put(np.zeros(12, np.uint32))
    body = """
        mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.x; mov.u32 %r0, %tid.x;
        mad.lo.s32 %r4, %r2, %r3, %r1; mad.wide.u32 %d10, %r4, 4, %d0;
        shl.b32 %r5, %r2, 8; or.b32 %r5, %r5, %r1; setp.eq.b32 %p1, %r0, 0; @%p1 st.global.b32 [%d10], %r5;
    """
    machine.run(body, out, grid=(4, 3, 1))
    assert machine.get(out, 12, np.uint32).tolist() == [y << 8 | x for y in range(3) for x in range(4)]


def test_vectors_in_global_and_shared_memory(machine: Any, rng: Any) -> None:
    values = rng.integers(0, 2**32, 128, np.uint32)
    source, out = machine.put(values), machine.empty(512)
    body = """
        mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 16; add.s64 %d3, %d1, %d2; add.s64 %d4, %d0, %d2;
        ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%d3];
        mov.b32 %r5, global_smem; shl.b32 %r6, %r0, 4; add.s32 %r5, %r5, %r6;
        st.shared.v2.b32 [%r5+8], {%r1, %r2}; st.shared.v2.b32 [%r5], {%r3, %r4};
        ld.shared.v2.b64 {%d5, %d6}, [%r5];
        st.global.v2.b64 [%d4+0], {%d5, %d6};
    """
    machine.run(body, out, source, shared=512)
    assert machine.get(out, (32, 4), np.uint32).tolist() == values.reshape(32, 4)[:, [2, 3, 0, 1]].tolist()


def test_narrow_registers_are_filled(machine: Any) -> None:
    source = machine.put(np.array([0xFE, 0x80] * 16, np.uint8))
    body = "add.s64 %d3, %d1, %d2; ld.global.{0} %h1, [%d3]; cvt.{1}.{2} %r1, %h1;"
    for load, to, of, wanted in (
        ("b8", "u32", "u16", [0xFE, 0x80]),
        ("s8", "s32", "s16", [0xFFFFFFFE, 0xFFFFFF80]),
    ):
        out = machine.put(np.zeros(32, np.uint32))
        text = "cvt.u64.u32 %d2, %r0;" + body.format(load, to, of)
        machine.run(of_thread(text), out, source)
        assert machine.get(out, 2, np.uint32).tolist() == wanted


@pytest.mark.parametrize(
    ("operation", "start", "wanted"),
    [("add.u32", 10, 10 + 496), ("max.s32", 5, 31), ("min.u32", 5, 0), ("or.b32", 64, 95), ("xor.b32", 0, 0)],
)
def test_atomic_operations(machine: Any, operation: str, start: int, wanted: int) -> None:
    place = machine.put(np.array([start], np.uint32))
    out = machine.put(np.zeros(32, np.uint32))
    machine.run(of_thread(f"atom.global.gpu.relaxed.{operation} %r1, [%d1], %r0;"), out, place)
    assert machine.get(place, 1, np.uint32).tolist() == [wanted]
    found = machine.get(out, 32, np.uint32)
    assert found[0] == start
    if operation == "add.u32":
        assert found.tolist() == [10 + i * (i - 1) // 2 for i in range(32)]


def test_atomic_operations_on_shared_memory_and_exchange(machine: Any) -> None:
    body = """
        mov.b32 %r5, global_smem; setp.eq.b32 %p1, %r0, 0; @%p1 st.shared.b32 [%r5], 0; bar.sync 0;
        and.b32 %r2, %r0, 3; atom.shared.add.u32 %r3, [%r5], %r2; bar.sync 0; ld.shared.b32 %r1, [%r5];
    """
    assert run_thread(machine, body, 64, shared=16) == [96] * 64
    place = machine.put(np.array([7], np.uint32))
    out = machine.put(np.zeros(32, np.uint32))
    machine.run(of_thread("atom.global.cas.b32 %r1, [%d1], 7, %r0;"), out, place)
    assert machine.get(out, 32, np.uint32).tolist() == [7] + [0] * 31


def test_floats_are_added_one_after_the_other(machine: Any) -> None:
    place = machine.put(np.array([2.0**24], np.float32))
    body = "mov.b32 %r1, 0f3F800000; red.global.add.f32 [%d0], %r1;"
    machine.run(body, place)
    assert machine.get(place, 1, np.float32).tolist() == [2.0**24]


def test_asynchronous_copies_arrive_in_groups_and_fill_with_zeros(machine: Any) -> None:
    values = np.arange(1, 65, dtype=np.uint32)
    source, out = machine.put(values), machine.empty(512)
    body = """
        mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 4; mov.b32 %r2, global_smem; add.s32 %r2, %r2, %r1;
        mul.wide.u32 %d2, %r0, 8; add.s64 %d3, %d1, %d2;
        and.b32 %r3, %r0, 1; selp.b32 %r4, 8, 0, %p1; setp.eq.b32 %p1, %r3, 0; selp.b32 %r4, 8, 0, %p1;
        cp.async.ca.shared.global [%r2], [%d3], 8, %r4; cp.async.commit_group;
        cp.async.ca.shared.global [%r2+8], [%d3], 8; cp.async.commit_group;
        cp.async.wait_group 1; ld.shared.v2.b32 {%r5, %r6}, [%r2];
        cp.async.wait_group 0; ld.shared.v2.b32 {%r7, %r8}, [%r2+8];
        mul.wide.u32 %d4, %r0, 16; add.s64 %d4, %d0, %d4; st.global.v4.b32 [%d4], {%r5, %r6, %r7, %r8};
    """
    machine.run(body, out, source, shared=512)
    found = machine.get(out, (32, 4), np.uint32)
    pairs = values.reshape(32, 2)
    assert found[:, 2:].tolist() == pairs.tolist()
    assert found[0::2, :2].tolist() == pairs[0::2].tolist() and not found[1::2, :2].any()


def test_matrices_are_loaded_a_row_for_each_thread(machine: Any) -> None:
    """Check the layout of the PTX ISA: thread 4 i + j has the elements 2 j and 2 j + 1 of row i, or of
    column i.
    """
    source, out = machine.put(np.arange(64, dtype=np.uint16)), machine.empty(256)
    for kind, place in (("", lambda i, j: 8 * i + j), (".trans", lambda i, j: 8 * j + i)):
        body = f"""
            mov.u32 %r0, %tid.x; mov.b32 %r2, global_smem; mul.wide.u32 %d2, %r0, 4; add.s64 %d3, %d1, %d2;
            ld.global.b32 %r3, [%d3]; shl.b32 %r4, %r0, 2; add.s32 %r4, %r2, %r4; st.shared.b32 [%r4], %r3;
            bar.sync 0; and.b32 %r5, %r0, 7; shl.b32 %r5, %r5, 4; add.s32 %r5, %r2, %r5;
            ldmatrix.sync.aligned.m8n8.x1{kind}.shared.b16 {{%r1}}, [%r5];
            add.s64 %d4, %d0, %d2; st.global.b32 [%d4], %r1;
        """
        machine.run(body, out, source, shared=128)
        found = machine.get(out, (32, 2), np.uint16)
        assert found.tolist() == [[place(t // 4, 2 * (t % 4) + k) for k in range(2)] for t in range(32)]


def spread(matrix: Array, rows: Callable[..., Any], kind: Any) -> Array:
    """Return a warp's registers; `rows` maps (register, element) to (row, column) by lane."""
    return np.array([[matrix[rows(r, e)] for e in range(kind[1])] for r in range(kind[0])])


@pytest.mark.parametrize(
    ("shape", "name", "dtype"),
    [
        ("m16n8k16", "bf16", ml_dtypes.bfloat16),
        ("m16n8k16", "f16", np.float16),
        ("m16n8k8", "bf16", ml_dtypes.bfloat16),
        ("m16n8k8", "tf32", np.float32),
        ("m16n8k4", "tf32", np.float32),
        ("m16n8k32", "s8", np.int8),
        ("m16n8k16", "s8", np.int8),
    ],
)
def test_products_of_matrices(rng: Any, shape: str, name: str, dtype: Any) -> None:
    """Check the figures of the PTX ISA: lane l has, from A, the rows l / 4 and l / 4 + 8, and runs of
    columns.
    """
    depth = int(shape.rpartition("k")[2])
    a, b = (rng.integers(-8, 8, size).astype(dtype) for size in ((16, depth), (depth, 8)))
    integer = np.dtype(dtype).kind == "i"
    c = rng.integers(-100, 100, (16, 8)).astype(np.int32 if integer else np.float32)
    per = 4 // np.dtype(dtype).itemsize
    group, place = warp.LANE_IDS // 4, warp.LANE_IDS % 4

    def registers(parts: list[Array]) -> list[Array]:
        return [np.ascontiguousarray(part).view(np.uint32).reshape(1, 32) for part in parts]

    runs = range(depth // (4 * per))
    columns = [place[:, None] * per + run * 4 * per + np.arange(per) for run in runs]
    left = registers([a[(group + 8 * half)[:, None], column] for column in columns for half in (0, 1)])
    right = registers([b[column, group[:, None]] for column in columns])
    out = [(group + 8 * half, 2 * place + i) for half in (0, 1) for i in (0, 1)]
    total = registers([c[where] for where in out])
    types = ("s32" if integer else "f32", name, name, "s32" if integer else "f32")
    found = warp.multiply(shape, types, left, right, total)
    wanted = a.astype(np.float64) @ b.astype(np.float64) + c
    for where, register in zip(out, found, strict=True):
        assert register.view(c.dtype)[0].tolist() == wanted[where].tolist()


def test_products_in_double_precision(rng: Any) -> None:
    a, b, c = rng.standard_normal((8, 4)), rng.standard_normal((4, 8)), rng.standard_normal((8, 8))
    group, place = warp.LANE_IDS // 4, warp.LANE_IDS % 4

    def one(part: Array) -> Array:
        return part.view(np.uint64).reshape(1, 32)

    outs = [(group, 2 * place), (group, 2 * place + 1)]
    types = ("f64",) * 4
    found = warp.multiply(
        "m8n8k4", types, [one(a[group, place])], [one(b[place, group])], [one(c[o]) for o in outs]
    )
    for where, register in zip(outs, found, strict=True):
        assert np.allclose(register.view(np.float64)[0], (a @ b + c)[where], rtol=1e-15)


def test_tensor_cores_take_single_precision_as_tf32() -> None:
    one = np.full((1, 32), np.float32(1 + 2**-11).view(np.uint32))
    zero = np.zeros((1, 32), np.uint32)
    found = warp.multiply("m16n8k8", ("f32", "tf32", "tf32", "f32"), [one] * 4, [one] * 2, [zero] * 4)
    assert found[0].view(np.float32)[0, 0] == 8.0


def test_branches_by_a_table(machine: Any) -> None:
    body = """
        table: .branchtargets first, second, first;
        mov.u32 %r0, %tid.x;
        rem.u32 %r1, %r0, 3;
        brx.idx %r1, table;
        first: mov.b32 %r2, 10; bra.uni met;
        second: mov.b32 %r2, 20;
        met: mad.wide.u32 %d1, %r0, 4, %d0;
        st.global.b32 [%d1], %r2;
    """
    out = machine.empty(128)
    machine.run(body, out)
    assert machine.get(out, 32, np.uint32).tolist() == [(10, 20, 10)[i % 3] for i in range(32)]
    with pytest.raises(EmulationError, match="trap"):
        machine.run(body.replace("rem.u32 %r1, %r0, 3", "rem.u32 %r1, %r0, 4"), out)


def test_labels_belong_to_the_scope_that_they_are_in(machine: Any) -> None:
    scope = "{ setp.lt.u32 %p1, %r0, LIMIT; @%p1 bra over; add.u32 %r2, %r2, 1; over: }"
    body = f"""
        mov.u32 %r0, %tid.x; mov.b32 %r2, 0;
        {scope.replace("LIMIT", "8")} {scope.replace("LIMIT", "16")}
        mad.wide.u32 %d1, %r0, 4, %d0;
        st.global.b32 [%d1], %r2;
    """
    out = machine.empty(128)
    machine.run(body, out)
    assert machine.get(out, 32, np.uint32).tolist() == [0] * 8 + [1] * 8 + [2] * 16


def test_bytes_that_a_load_does_not_use_are_not_read(machine: Any) -> None:
    source, out = machine.put(np.arange(3, dtype=np.uint32)), machine.empty(4)
    body = """
        .pragma "used_bytes_mask 0xf0f";
        ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%d1];
        add.u32 %r4, %r0, %r2;
        st.global.b32 [%d0], %r4;
    """
    machine.run(body, out, source, threads=1)
    assert machine.get(out, 1, np.uint32) == 2
    with pytest.raises(EmulationError, match="illegal memory access"):
        machine.run(body.partition(";")[2], out, source, threads=1)


CALLED = """
.version 8.8
.target sm_80
.address_size 64
.func (.param .b32 result) doubled(.param .b64 place)
{
    .local .align 4 .b8 own[4];
    .reg .b32 %r<4>;
    .reg .b64 %d<4>;
    ld.param.b64 %d0, [place];
    ld.b32 %r0, [%d0];
    add.s32 %r0, %r0, %r0;
    mov.b64 %d1, own;
    cvta.local.u64 %d2, %d1;
    st.b32 [%d2], %r0;
    st.b32 [%d0], 7;
    ld.local.b32 %r1, [%d1];
    st.param.b32 [result], %r1;
    ret;
}
.visible .entry kernel(.param .u64 kernel_param_0)
{
    .local .align 4 .b8 depot[8];
    .reg .b32 %r<8>;
    .reg .b64 %d<8>;
    ld.param.b64 %d0, [kernel_param_0];
    mov.u32 %r0, %tid.x;
    mad.wide.u32 %d0, %r0, 4, %d0;
    mov.b64 %d1, depot;
    st.local.b32 [%d1+4], %r0;
    cvta.local.u64 %d2, %d1;
    add.u64 %d2, %d2, 4;
    {
        .param .b64 param0;
        .param .b32 retval0;
        st.param.b64 [param0], %d2;
        call.uni (retval0), doubled, (param0);
        ld.param.b32 %r1, [retval0];
    }
    ld.local.b32 %r2, [%d1+4];
    add.s32 %r1, %r1, %r2;
    cvta.to.local.u64 %d3, %d2;
    ld.local.b32 %r3, [%d3];
    add.s32 %r1, %r1, %r3;
    st.b32 [%d0], %r1;
    ret;
}
"""


def test_a_function_writes_to_its_caller_s_local_memory_by_a_generic_address(machine: Any) -> None:
    out = machine.put(np.zeros(32, np.uint32))
    program = Program(parse(CALLED), "kernel", {})
    Launch(program, (1, 1, 1), 32, 0, struct.pack("Q", out), machine.memory, machine.host, True).run()
    assert machine.get(out, 32, np.uint32).tolist() == [2 * i + 14 for i in range(32)]


def test_a_generic_address_of_shared_memory(machine: Any) -> None:
    found = run_thread(
        machine,
        "mov.u64 %d1, global_smem; cvta.shared.u64 %d2, %d1; mad.wide.u32 %d3, %r0, 4, %d2; st.b32 [%d3], %r0;"
        "shl.b32 %r2, %r0, 2; mov.b32 %r3, global_smem; add.s32 %r3, %r3, %r2; ld.shared.b32 %r1, [%r3];",
        shared=128,
    )
    assert found == list(range(32))
