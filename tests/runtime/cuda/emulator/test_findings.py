"""Findings of the emulator: each injected fault beside its correct form."""

from typing import Any

import numpy as np
import pytest

from triten.runtime.cuda.emulator.fault import EmulationError

THREAD = "mov.u32 %r0, %tid.x; mul.wide.u32 %d10, %r0, 4; mov.b32 %r9, global_smem; shl.b32 %r8, %r0, 2;"
OWN = "add.s32 %r7, %r9, %r8;"
NEXT = "xor.b32 %r6, %r8, 128; add.s32 %r6, %r9, %r6;"
"""The place in shared memory of the thread in the other warp."""


def refused(machine: Any, match: str, body: str, *arguments: int, **options: Any) -> str:
    with pytest.raises(EmulationError, match=match) as caught:
        machine.run(body, *arguments, **options)
    message = str(caught.value)
    assert "kernel 'kernel'" in message
    return message


def test_an_access_behind_a_block_names_thread_line_and_place(machine: Any) -> None:
    out = machine.put(np.zeros(40, np.uint32))
    body = (
        "mov.u32 %r0, %tid.x;\nmul.wide.u32 %d1, %r0, 4;\nadd.s64 %d1, %d0, %d1;\nst.global.b32 [%d1], %r0;"
    )
    machine.run(body, out, threads=32)
    message = refused(machine, "illegal memory access", body, out, threads=64)
    assert f"at {out + 160:#x}" in message and "0 bytes past the end of the block" in message
    assert "block (0, 0, 0), thread 40" in message and "(st.global.b32)" in message and "PTX line" in message


def test_memory_that_was_given_back(machine: Any) -> None:
    out = machine.put(np.zeros(32, np.uint32))
    machine.memory.blocks.remove(out)
    refused(machine, "illegal memory access", "ld.global.b32 %r1, [%d0];", out)


def test_an_address_that_its_width_does_not_divide(machine: Any) -> None:
    out = machine.put(np.zeros(32, np.uint32))
    machine.run("ld.global.v2.b32 {%r1, %r2}, [%d0];", out)
    refused(machine, "misaligned address", "ld.global.v2.b32 {%r1, %r2}, [%d0+4];", out)
    refused(machine, "misaligned address", "ld.shared.b32 %r1, [global_smem+2];", out, shared=16)


def test_masked_threads_touch_nothing(machine: Any) -> None:
    body = "mov.b32 %r1, 0; setp.ne.b32 %p1, %r1, 0; @%p1 ld.global.b32 %r2, [%d0]; @%p1 st.global.b32 [%d0], %r2;"
    machine.run(body, 64)


def test_global_memory_that_was_never_written(machine: Any) -> None:
    out = machine.empty(128)
    refused(machine, "never written", "ld.global.b32 %r1, [%d0];", out)
    machine.run("ld.global.b32 %r1, [%d0];", out, strict=False)
    machine.run(THREAD + "add.s64 %d1, %d0, %d10; st.global.b32 [%d1], %r0; ld.global.b32 %r1, [%d1];", out)


GLOBAL_OWN = "add.s64 %d1, %d0, %d10;"
GLOBAL_NEXT = "xor.b32 %r6, %r8, 128; cvt.u64.u32 %d11, %r6; add.s64 %d2, %d0, %d11;"
"""The place in global memory of the thread in the other warp."""


@pytest.mark.parametrize("blocks", [1, 3])
def test_warps_of_a_block_that_exchange_by_global_memory(machine: Any, blocks: int) -> None:
    out = machine.put(np.zeros(64 * blocks, np.uint32))
    places = (
        THREAD
        + "mov.u32 %r10, %ctaid.x; mul.wide.u32 %d12, %r10, 256; add.s64 %d0, %d0, %d12;"
        + GLOBAL_OWN
        + GLOBAL_NEXT
    )
    write, read = "st.global.b32 [%d1], %r0;", "ld.global.b32 %r1, [%d2];"
    options = {"threads": 64, "grid": (blocks, 1, 1)}
    machine.run(places + write + "bar.sync 0;" + read + "bar.sync 0;" + write, out, **options)
    machine.run(places + write + "ld.global.b32 %r1, [%d1];" + write, out, **options)
    message = refused(
        machine, "by its warp 1 without a barrier in between", places + write + read, out, **options
    )
    assert "are read by warp 0 of block 0 and were written" in message and "(ld.global.b32)" in message
    again = places + "bar.sync 0;" + read + write
    with pytest.raises(
        EmulationError, match="are read by warp 0 of block 0 and are written later by its warp 1"
    ):
        machine.run(again, out, **options)
    other = write.replace("%d1", "%d2").replace("%r0", "%r7")
    machine.run(places + write + "bar.sync 0;" + "add.s32 %r7, %r0, 1;" + other, out, **options)
    message = refused(
        machine, "of block 0 store to", places + write + "add.s32 %r7, %r0, 1;" + other, out, **options
    )
    assert "warps 1 and 0" in message and "without a barrier" in message


def test_warps_that_hold_copies_of_a_tile_may_read_it_late(machine: Any) -> None:
    out = machine.put(np.arange(32, dtype=np.uint32))
    body = """
        mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 31; mul.wide.u32 %d10, %r1, 4; add.s64 %d1, %d0, %d10;
        ld.global.b32 %r2, [%d1]; add.s32 %r2, %r2, 1;
        setp.lt.u32 %p1, %r0, 32; @%p1 st.global.b32 [%d1], %r2;
    """
    machine.run(body, out, threads=128)
    assert machine.get(out, 32, np.uint32).tolist() == list(range(1, 33))


def test_warps_that_store_the_same_are_no_race(machine: Any) -> None:
    out = machine.put(np.zeros(1, np.uint32))
    machine.run("mov.b32 %r1, 7; st.global.b32 [%d0], %r1; st.global.b32 [%d0], %r1;", out, threads=64)


def test_shared_memory_that_was_never_written(machine: Any) -> None:
    refused(machine, "never written", "ld.shared.b32 %r1, [global_smem];", shared=16)


def test_shared_memory_beyond_what_the_launch_gives(machine: Any) -> None:
    body = THREAD + OWN + "st.shared.b32 [%r7], %r0;"
    machine.run(body, shared=128)
    refused(machine, "of which a block has 124 bytes", body, shared=124)


def test_a_missing_barrier_between_a_write_and_a_read(machine: Any) -> None:
    body = THREAD + OWN + NEXT + "st.shared.b32 [%r7], %r0; {0} ld.shared.b32 %r1, [%r6];"
    machine.run(body.format("bar.sync 0;"), threads=64, shared=256)
    message = refused(machine, "race", body.format(""), threads=64, shared=256)
    assert "read by warp" in message and "without a barrier" in message
    # The threads of one warp go together.
    machine.run(
        THREAD + OWN + "st.shared.b32 [%r7], %r0; xor.b32 %r6, %r7, 4; ld.shared.b32 %r1, [%r6];", shared=128
    )


def test_a_missing_barrier_between_a_read_and_a_write(machine: Any) -> None:
    body = THREAD + OWN + NEXT
    body += "st.shared.b32 [%r7], %r0; bar.sync 0; ld.shared.b32 %r1, [%r6]; {0} st.shared.b32 [%r7], %r1;"
    machine.run(body.format("bar.sync 0;"), threads=64, shared=256)
    assert "were read by" in refused(machine, "race", body.format(""), threads=64, shared=256)


def test_two_warps_that_write_to_one_place(machine: Any) -> None:
    refused(machine, "race", THREAD + "st.shared.b32 [global_smem], %r0;", threads=64, shared=16)
    machine.run(THREAD + "st.shared.b32 [global_smem], 7;", threads=64, shared=16)


COPY = (
    THREAD
    + """
    shl.b32 %r5, %r0, 4; add.s32 %r7, %r9, %r5; xor.b32 %r6, %r5, 512; add.s32 %r6, %r9, %r6;
    mul.wide.u32 %d2, %r0, 16; add.s64 %d3, %d0, %d2;
    cp.async.cg.shared.global [%r7], [%d3], 16; cp.async.commit_group;
"""
)


def test_a_copy_that_is_not_waited_for(machine: Any) -> None:
    source = machine.put(np.arange(256, dtype=np.uint32))
    read = "ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r7];"
    machine.run(COPY + "cp.async.wait_group 0;" + read, source, threads=64, shared=1024)
    refused(machine, "asynchronous copy is done", COPY + read, source, threads=64, shared=1024)
    refused(
        machine,
        "asynchronous copy is done",
        COPY + "cp.async.wait_group 1;" + read,
        source,
        threads=64,
        shared=1024,
    )


def test_what_a_copy_brought_is_for_its_own_thread_until_a_barrier(machine: Any) -> None:
    source = machine.put(np.arange(256, dtype=np.uint32))
    read = "cp.async.wait_group 0; {0} ld.shared.v4.b32 {{%r1, %r2, %r3, %r4}}, [%r6];"
    machine.run(COPY + read.format("bar.sync 0;"), source, threads=64, shared=1024)
    refused(machine, "race", COPY + read.format(""), source, threads=64, shared=1024)


def test_a_copy_into_what_others_still_read(machine: Any) -> None:
    source = machine.put(np.arange(256, dtype=np.uint32))
    again = "cp.async.wait_group 0; bar.sync 0; ld.shared.b32 %r1, [%r6]; {0}"
    again += "cp.async.cg.shared.global [%r7], [%d3], 16; cp.async.wait_all;"
    machine.run(COPY + again.format("bar.sync 0;"), source, threads=64, shared=1024)
    refused(machine, "race", COPY + again.format(""), source, threads=64, shared=1024)


def test_a_barrier_that_a_part_of_a_block_reaches(machine: Any) -> None:
    """Wait for all threads that have not exited (CUDA C++ Programming Guide, 10.6)."""
    body = (
        THREAD + "setp.lt.u32 %p1, %r0, 32; @%p1 bra $skip; bar.sync 0; bra.uni $end; $skip: {0} $end: ret;"
    )
    machine.run(body.format("mov.b32 %r1, 0;"), threads=128)
    message = refused(machine, "do not go together", body.format("bar.sync 1;"), threads=128)
    assert "of 128 threads" in message and "bar.sync" in message


def test_an_exchange_with_threads_that_are_elsewhere(machine: Any) -> None:
    body = THREAD + "setp.lt.u32 %p1, %r0, 7; @%p1 shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;"
    refused(machine, "shfl.sync names threads", body)


def test_blocks_that_write_to_one_place(machine: Any) -> None:
    out = machine.put(np.zeros(4, np.uint32))
    body = (
        "mov.u32 %r1, %ctaid.x; mov.u32 %r0, %tid.x; setp.eq.b32 %p1, %r0, 0; @%p1 st.global.b32 [%d0], {0};"
    )
    machine.run(body.format("7"), out, grid=(3, 1, 1))
    machine.run(body.format("%r1"), out, grid=(1, 1, 1))
    refused(machine, "race", body.format("%r1"), out, grid=(3, 1, 1))


def test_blocks_that_read_what_others_write(machine: Any) -> None:
    """Find the race in every order of the blocks, also if all run together."""
    out = machine.put(np.zeros(64, np.uint32))
    body = """
        mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; mul.wide.u32 %d1, %r1, 4; add.s64 %d1, %d0, %d1;
        add.s32 %r3, %r1, {0}; rem.u32 %r3, %r3, %r2; mul.wide.u32 %d2, %r3, 4; add.s64 %d2, %d0, %d2;
        ld.global.b32 %r4, [%d2]; bar.sync 0; add.s32 %r4, %r4, 1; st.global.b32 [%d1], %r4;
    """
    machine.run(body.format(0), out, grid=(64, 1, 1))
    for distance in (1, 63):
        message = refused(machine, "race", body.format(distance), out, grid=(64, 1, 1))
        assert "in no order" in message
    wide = machine.put(np.zeros(2048, np.uint32))
    refused(machine, "race", body.format(1), wide, grid=(2048, 1, 1))


def test_a_release_and_an_acquire_put_blocks_in_order(machine: Any) -> None:
    out, count = machine.put(np.zeros(64, np.uint32)), machine.put(np.zeros(1, np.uint32))
    body = """
        mov.u32 %r1, %ctaid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d2, %d0, %d2; mov.u32 %r0, %tid.x;
        setp.eq.b32 %p1, %r0, 0; @%p1 st.global.b32 [%d2], %r1;
        @%p1 atom.global.gpu.{0}.add.u32 %r2, [%d1], 1;
        setp.eq.b32 %p2, %r2, 3; and.pred %p2, %p1, %p2;
        @%p2 ld.global.v4.b32 {{%r3, %r4, %r5, %r6}}, [%d0];
    """
    machine.run(body.format("acq_rel"), out, count, grid=(4, 1, 1))
    machine.get(count, 1, np.uint32)
    machine.bytes_at(count, 4)[:] = 0
    refused(machine, "race", body.format("relaxed"), out, count, grid=(4, 1, 1))


def test_a_trap(machine: Any) -> None:
    body = THREAD + "setp.eq.b32 %p1, %r0, 3; @%p1 trap;"
    assert "thread 3" in refused(machine, "device-side assert", body)


def test_what_is_not_emulated_is_named(machine: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"PTX line \d+: 'sad.u32' is not emulated"):
        machine.run("sad.u32 %r1, %r2, %r3, %r4;")


SPIN_LOCK = """
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; setp.eq.b32 %p1, %r0, 0; mov.b32 %r9, global_smem;
    mul.wide.u32 %d10, %r0, 4; add.s64 %d11, %d1, %d10; add.s32 %r1, %r1, 1; mov.b32 %r2, 0; mov.b32 %r3, 1;
    $spin: bar.sync 0;
    @%p1 atom.global.acq_rel.gpu.cas.b32 %r4, [%d0], %r2, %r3;
    @%p1 st.shared.b32 [%r9], %r4;
    bar.sync 0;
    ld.shared.b32 %r5, [%r9]; setp.eq.b32 %p2, %r5, 1; @%p2 bra $spin;
    ld.global.b32 %r6, [%d11]; add.s32 %r6, %r6, %r1; st.global.b32 [%d11], %r6;
    bar.sync 0;
    @%p1 atom.global.gpu.{0}.exch.b32 %r7, [%d0], %r2;
    {1}
"""
"""Each block adds its number to a sum under one lock."""


@pytest.mark.parametrize(("blocks", "threads"), [(2, 32), (40, 64)])
def test_blocks_take_a_spin_lock_in_turn(machine: Any, blocks: int, threads: int) -> None:
    lock, out = machine.put(np.zeros(1, np.uint32)), machine.put(np.zeros(threads, np.uint32))
    body = SPIN_LOCK.format("acq_rel", "")
    machine.run(body, lock, out, grid=(blocks, 1, 1), threads=threads, shared=16)
    assert (machine.get(out, threads, np.uint32) == blocks * (blocks + 1) // 2).all()
    assert machine.get(lock, 1, np.uint32) == [0]


@pytest.mark.parametrize(
    ("order", "after"), [("relaxed", ""), ("acq_rel", "st.global.b32 [%d11], %r1;")], ids=["relaxed", "late"]
)
def test_a_lock_that_protects_nothing(machine: Any, order: str, after: str) -> None:
    lock, out = machine.put(np.zeros(1, np.uint32)), machine.put(np.zeros(64, np.uint32))
    refused(machine, "race", SPIN_LOCK.format(order, after), lock, out, grid=(9, 1, 1), threads=64, shared=16)


@pytest.mark.parametrize("load", ["ld.acquire.gpu.global.b32", "ld.relaxed.gpu.global.b32"])
def test_a_flag_that_a_later_block_sets(machine: Any, load: str) -> None:
    """Poll in block 0 for a store of block 1; without an acquire, block 0 may read the data too early."""
    flag, data = machine.put(np.zeros(1, np.uint32)), machine.put(np.zeros(1, np.uint32))
    body = f"""
        mov.u32 %r1, %ctaid.x; setp.eq.b32 %p1, %r1, 1; mov.u32 %r0, %tid.x; setp.eq.b32 %p3, %r0, 0; mov.b32 %r2, 1;
        @%p1 bra $set;
        $poll: {load} %r4, [%d0]; setp.eq.b32 %p2, %r4, 0; @%p2 bra $poll;
        ld.global.b32 %r5, [%d1]; bra.uni $end;
        $set: @%p3 st.global.b32 [%d1], %r2; @%p3 red.release.gpu.global.add.u32 [%d0], %r2;
        $end: ret;
    """
    if "acquire" in load:
        machine.run(body, flag, data, grid=(2, 1, 1))
    else:
        refused(machine, "in no order", body, flag, data, grid=(2, 1, 1))


ALL_LANES = (16, 8, 4, 2, 1)
WRONG_PARTNER = (8, 8, 4, 2, 1)
F32 = """
    mov.u32 %r0, %tid.x; rem.u32 %r1, %r0, {lanes}; add.s32 %r1, %r1, 1; cvt.rn.f32.u32 %r1, %r1;
    sqrt.rn.f32 %r1, %r1; mul.f32 %r2, %r1, 0f3DCCCCCD; mul.f32 %r3, %r1, %r2; mov.b32 %r9, global_smem;
    shfl.sync.bfly.b32 %r4, %r3, {first}, 31, -1; fma.rn.f32 %r5, %r1, %r2, %r4;
"""
F32_STAGE = "shfl.sync.bfly.b32 %r4, %r5, {0}, 31, -1; add.f32 %r5, %r5, %r4;"
F64 = """
    mov.u32 %r0, %tid.x; rem.u32 %r1, %r0, {lanes}; add.s32 %r1, %r1, 1; cvt.rn.f64.u32 %d1, %r1;
    mov.b32 %r9, global_smem; sqrt.rn.f64 %d1, %d1; mul.f64 %d2, %d1, 0d3FF4CCCCCCCCCCCD; mul.f64 %d3, %d1, %d2;
    mov.b64 {{%r2, %r3}}, %d3;
    shfl.sync.bfly.b32 %r4, %r2, {first}, 31, -1; shfl.sync.bfly.b32 %r5, %r3, {first}, 31, -1;
    mov.b64 %d4, {{%r4, %r5}}; fma.rn.f64 %d5, %d1, %d2, %d4;
"""
F64_STAGE = """
    mov.b64 {{%r2, %r3}}, %d5; shfl.sync.bfly.b32 %r4, %r2, {0}, 31, -1; shfl.sync.bfly.b32 %r5, %r3, {0}, 31, -1;
    mov.b64 %d4, {{%r4, %r5}}; add.f64 %d5, %d5, %d4;
"""
SUMS = {"f32": (F32, F32_STAGE, "%r5", "b32"), "f64": (F64, F64_STAGE, "%d5", "b64")}


def contracted_sum(kind: str, partners: tuple[int, ...], lanes: int, after: str = "") -> str:
    """Return a butterfly whose first addition is contracted with a multiplication; every thread stores its sum."""
    head, stage, result, bits = SUMS[kind]
    stages = "".join(stage.format(each) for each in partners[1:])
    return head.format(lanes=lanes, first=partners[0]) + stages + after + f"st.shared.{bits} [%r9], {result};"


EPILOGUES = {
    "f32": {
        "none": "",
        "root": "rsqrt.approx.f32 %r5, %r5;",
        "small after a difference": "sub.f32 %r5, %r5, 0f42533333; ex2.approx.ftz.f32 %r5, %r5;",
    },
    "f64": {"none": "", "quotient": "rcp.rn.f64 %d5, %d5; div.rn.f64 %d5, %d5, 0d4008000000000000;"},
}


@pytest.mark.parametrize("threads", [32, 64])
@pytest.mark.parametrize(
    ("kind", "epilogue"), [(kind, name) for kind in EPILOGUES for name in EPILOGUES[kind]]
)
def test_sums_that_differ_by_the_rounding_of_a_contraction(
    machine: Any, kind: str, epilogue: str, threads: int
) -> None:
    """Warn of stores by lanes, or by warps with copies of a tile: the surviving value is undefined.

    A sum of other elements is a race, in a warp as among warps.
    """
    after, options = EPILOGUES[kind][epilogue], {"threads": threads, "shared": 16}
    with pytest.warns(RuntimeWarning, match=r"kernel 'kernel'.*enable_fp_fusion=False"):
        machine.run(contracted_sum(kind, ALL_LANES, 32, after), **options)
    refused(machine, "two threads store", contracted_sum(kind, WRONG_PARTNER, 32, after), **options)
    if threads == 64:
        refused(machine, "two threads store", contracted_sum(kind, ALL_LANES, 64, after), **options)


@pytest.mark.parametrize(
    ("scale", "differs"), [("0f33800000", False), ("0f36000000", True)], ids=["ulp", "more"]
)
def test_the_bound_of_a_contraction_is_a_few_units_in_the_last_place(
    machine: Any, scale: str, differs: bool
) -> None:
    """Accept a lane that adds 2**-24 of the sum, and refuse one that adds 2**-19."""
    after = f"""
        setp.eq.b32 %p1, %r0, 3; mul.f32 %r6, %r5, {scale}; selp.b32 %r6, %r6, 0f00000000, %p1; add.f32 %r5, %r5, %r6;
    """
    body = contracted_sum("f32", ALL_LANES, 32, after)
    if differs:
        refused(machine, "two threads store", body, shared=16)
    else:
        with pytest.warns(RuntimeWarning, match="differ by rounding"):
            machine.run(body, shared=16)


def test_sums_without_a_contraction_agree_to_the_bit(machine: Any) -> None:
    body = contracted_sum("f32", ALL_LANES, 32).replace(
        "fma.rn.f32 %r5, %r1, %r2, %r4", "add.f32 %r5, %r3, %r4"
    )
    machine.run(body, shared=16)
    one_more = body.replace("st.shared", "setp.eq.b32 %p1, %r0, 3; @%p1 add.s32 %r5, %r5, 1; st.shared")
    refused(machine, "two threads store", one_more, shared=16)


ARGMAX = """
    mov.u32 %r0, %tid.x; mov.b32 %r9, global_smem; rem.u32 %r2, %r0, 32; cvt.rn.f32.u32 %r1, %r2; {keys}
"""
ARGMAX_STAGE = """
    shfl.sync.bfly.b32 %r3, %r1, {0}, 31, -1; shfl.sync.bfly.b32 %r4, %r2, {0}, 31, -1; {comparison}
    selp.b32 %r1, %r1, %r3, %p1; selp.b32 %r2, %r2, %r4, %p1;
"""
LARGER = "setp.gt.f32 %p1, %r1, %r3;"
LARGER_OR_FIRST = """
    setp.eq.f32 %p2, %r1, %r3; setp.lt.s32 %p3, %r2, %r4; and.pred %p2, %p2, %p3; setp.gt.f32 %p1, %r1, %r3;
    or.pred %p1, %p1, %p2;
"""
FIRST_OF_EQUAL = "setp.eq.f32 %p2, %r1, %r3; setp.lt.s32 %p3, %r2, %r4; and.pred %p1, %p2, %p3;"
KEYS = {
    "distinct": "",
    "equal": "mov.b32 %r1, 0f3F800000;",
    "nan": "mov.b32 %r1, 0f7FC00000;",
    "one nan": "setp.eq.b32 %p4, %r0, 5; selp.b32 %r1, 0f7FC00000, %r1, %p4;",
}


def argmax(keys: str, comparison: str, partners: tuple[int, ...] = ALL_LANES) -> str:
    stages = "".join(ARGMAX_STAGE.format(each, comparison=comparison) for each in partners)
    return ARGMAX.format(keys=KEYS[keys]) + stages + "st.shared.b32 [%r9], %r2;"


@pytest.mark.parametrize("threads", [32, 64])
@pytest.mark.parametrize(
    ("keys", "comparison", "agree"),
    [
        ("distinct", LARGER, True),
        ("distinct", LARGER_OR_FIRST, True),
        ("equal", LARGER_OR_FIRST, True),
        ("equal", FIRST_OF_EQUAL, True),
        ("equal", LARGER, False),
        ("nan", LARGER_OR_FIRST, False),
        ("one nan", LARGER_OR_FIRST, False),
    ],
)
def test_lanes_that_select_among_equal_keys_or_nan(
    machine: Any, keys: str, comparison: str, agree: bool, threads: int
) -> None:
    """Exchange keys between two lanes: each keeps the other's index if neither key is larger."""
    options = {"threads": threads, "shared": 16}
    if agree:
        machine.run(argmax(keys, comparison), **options)
    else:
        with pytest.warns(RuntimeWarning, match=r"kernel 'kernel'.*argmax"):
            machine.run(argmax(keys, comparison), **options)


@pytest.mark.parametrize(
    ("keys", "comparison"), [("distinct", LARGER), ("distinct", LARGER_OR_FIRST), ("equal", FIRST_OF_EQUAL)]
)
def test_lanes_that_select_from_wrong_partners(machine: Any, keys: str, comparison: str) -> None:
    refused(machine, "two threads store", argmax(keys, comparison, WRONG_PARTNER), shared=16)


def test_constants_that_a_comparison_of_keys_selects(machine: Any) -> None:
    """Select between two constants, which have no register, by a contracted sum's uncertain comparison."""
    after = """
        shfl.sync.bfly.b32 %r4, %r5, 16, 31, -1; setp.gt.f32 %p1, %r5, %r4; selp.b32 %r5, 1, 2, %p1;
    """
    with pytest.warns(RuntimeWarning, match="selects"):
        machine.run(contracted_sum("f32", ALL_LANES, 32, after), shared=16)


def test_stores_of_several_blocks_are_not_excused_by_rounding(machine: Any) -> None:
    out = machine.put(np.zeros(1, np.float32))
    body = contracted_sum("f32", ALL_LANES, 32).replace("st.shared.b32 [%r9]", "st.global.b32 [%d0]")
    with pytest.warns(RuntimeWarning, match="differ by rounding"):
        machine.run(body, out)
    refused(machine, "race", body, out, grid=(2, 1, 1))
