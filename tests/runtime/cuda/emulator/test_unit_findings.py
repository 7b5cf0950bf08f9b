"""Findings of the emulator in the asynchronous units of sm_90: each injected fault beside its correct form."""

import re
from typing import Any

import numpy as np
import pytest

from triten.runtime.cuda.emulator import tensor_maps
from triten.runtime.cuda.emulator.fault import EmulationError

ONE = "mov.u32 %r0, %tid.x; setp.eq.b32 %p0, %r0, 0; mov.b32 %r9, global_smem;"
MAKE = "@%p0 mbarrier.init.shared::cta.b64 [global_smem+{at}], {count}; bar.sync 0;"
EXPECT = "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [global_smem+512], 256;"
LOAD = """@%p0 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes
    [global_smem], [%d0, {0, 0}], [global_smem+512];"""
WAIT = """{ .reg .pred done; again:
    mbarrier.try_wait.parity.shared::cta.b64 done, [global_smem+512], 0; @!done bra.uni again; }"""
READ = "shl.b32 %r1, %r0, 2; add.s32 %r1, %r9, %r1; ld.shared.b32 %r2, [%r1];"
STORE = """@%p0 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d0, {0, 0}], [global_smem];
    cp.async.bulk.commit_group;"""
STORED = "cp.async.bulk.wait_group.read 0;"
FILL = "shl.b32 %r1, %r0, 2; add.s32 %r1, %r9, %r1; st.shared.b32 [%r1], %r0;"
FENCE = "fence.proxy.async.shared::cta;"


def joined(*parts: str) -> str:
    return "\n".join([ONE, MAKE.format(at=512, count=1), *parts])


@pytest.fixture
def tensor(machine: Any) -> int:
    """Return the address of a tensor map of 8x32 numbers with boxes of 4x16."""
    array = np.arange(256, dtype=np.float32).reshape(8, 32)
    encoded = tensor_maps.encode(7, machine.put(array), (32, 8), (128,), (16, 4), (1, 1))
    address: int = machine.put(np.frombuffer(encoded, np.uint8))
    return address


def refused(machine: Any, match: str, body: str, *arguments: int, **options: Any) -> str:
    options = {"threads": 64, "shared": 528} | options
    with pytest.raises(EmulationError, match=match) as caught:
        machine.run(body, *arguments, **options)
    return str(caught.value)


def runs(machine: Any, body: str, *arguments: int, **options: Any) -> None:
    machine.run(body, *arguments, **({"threads": 64, "shared": 528} | options))


def test_a_bulk_copy_that_is_not_waited_for(machine: Any, tensor: int) -> None:
    runs(machine, joined(EXPECT, LOAD, WAIT, READ), tensor)
    message = refused(machine, "before their bulk copy is done", joined(EXPECT, LOAD, READ, WAIT), tensor)
    assert "kernel 'kernel'" in message and "(ld.shared.b32)" in message and "thread 0" in message
    refused(machine, "nobody waits", joined(EXPECT, LOAD), tensor)


def test_a_wait_of_some_warps_is_no_wait_of_others(machine: Any, tensor: int) -> None:
    first = "setp.lt.u32 %p1, %r0, 32; @!%p1 bra $over;" + WAIT + "$over: {0}" + READ
    runs(machine, joined(EXPECT, LOAD, first.replace("{0}", "bar.sync 0;")), tensor)
    message = refused(
        machine, "before their bulk copy is done", joined(EXPECT, LOAD, first.replace("{0}", "")), tensor
    )
    assert "thread 32" in message


def test_a_wait_with_the_wrong_parity(machine: Any, tensor: int) -> None:
    """Wait with the wrong parity: a no-op before the first phase ends, and afterwards a wait for the second."""
    other = WAIT.replace(", 0;", ", 1;")
    refused(machine, "before their bulk copy is done", joined(other, EXPECT, LOAD, READ), tensor)
    refused(machine, "wait for ever", joined(EXPECT, LOAD, other, READ), tensor)
    message = refused(machine, "wait for ever", joined(EXPECT, LOAD, WAIT, READ, other), tensor)
    assert "parity 1" in message and "1 of 1 arrivals" in message and "64 of 64 threads" in message


@pytest.mark.parametrize("nbytes", [128, 240])
def test_fewer_bytes_are_expected_than_come(machine: Any, tensor: int, nbytes: int) -> None:
    body = joined(EXPECT.replace("256", str(nbytes)), LOAD, WAIT, READ)
    refused(machine, f"{256 - nbytes} bytes more than were expected", body, tensor)


def test_more_bytes_are_expected_than_come(machine: Any, tensor: int) -> None:
    message = refused(
        machine, "wait for ever", joined(EXPECT.replace("256", "512"), LOAD, WAIT, READ), tensor
    )
    assert "waits for 256 bytes" in message


def test_a_copy_may_come_before_it_is_expected(machine: Any, tensor: int) -> None:
    runs(machine, joined(LOAD, EXPECT, WAIT, READ), tensor)
    message = refused(machine, "wait for ever", joined(LOAD, WAIT, READ), tensor)
    assert "1 of 1 arrivals" in message


def test_a_copy_by_every_thread(machine: Any, tensor: int) -> None:
    refused(
        machine,
        "more than were expected|written",
        joined(EXPECT, LOAD.replace("@%p0", ""), WAIT, READ),
        tensor,
    )


def test_barriers_that_are_none(machine: Any, tensor: int) -> None:
    refused(machine, "no barrier was made", ONE + "bar.sync 0;" + EXPECT, tensor)
    refused(machine, "where a barrier lies", joined(MAKE.format(at=512, count=1)), tensor)
    runs(
        machine,
        joined("@%p0 mbarrier.inval.shared::cta.b64 [global_smem+512];", MAKE.format(at=512, count=1)),
        tensor,
    )
    refused(machine, "while a barrier lies there", joined("ld.shared.b32 %r1, [global_smem+512];"), tensor)
    refused(machine, "while a barrier lies there", joined("@%p0 st.shared.b32 [global_smem+516], 0;"), tensor)
    refused(machine, "misaligned address", ONE + MAKE.format(at=516, count=1), tensor)
    refused(machine, "illegal memory access", ONE + MAKE.format(at=528, count=1), tensor)
    refused(machine, "0 arrivals", ONE + MAKE.format(at=512, count=0), tensor)


def test_a_barrier_that_others_do_not_know_of_yet(machine: Any) -> None:
    arrive = "setp.eq.b32 %p1, %r0, 32; @%p1 mbarrier.arrive.shared::cta.b64 _, [global_smem+512];"
    runs(machine, joined(arrive))
    refused(machine, "without a barrier in between", joined(arrive).replace("bar.sync 0;", ""))


def test_more_arrivals_than_a_barrier_waits_for(machine: Any) -> None:
    twice = "mbarrier.arrive.shared::cta.b64 _, [global_smem+512], 2;"
    runs(machine, joined(twice).replace("], 1;", "], 128;"))
    refused(machine, "2 arrivals .* waits for 1 of 1", joined("@%p0 " + twice))


def test_a_copy_into_what_others_still_read(machine: Any, tensor: int) -> None:
    again = READ + "{0}" + EXPECT + LOAD + WAIT.replace(", 0;", ", 1;").replace("again", "again2")
    runs(machine, joined(EXPECT, LOAD, WAIT, again.replace("{0}", "bar.sync 0;")), tensor)
    message = refused(machine, "race", joined(EXPECT, LOAD, WAIT, again.replace("{0}", "")), tensor)
    assert "written by a bulk copy and were read by warp 1" in message


def test_a_copy_into_what_threads_wrote_needs_a_proxy_fence(machine: Any, tensor: int) -> None:
    runs(machine, joined(FILL, FENCE, "bar.sync 0;", EXPECT, LOAD, WAIT, READ), tensor)
    refused(
        machine, "without fence.proxy.async", joined(FILL, "bar.sync 0;", EXPECT, LOAD, WAIT, READ), tensor
    )


def test_a_store_of_what_threads_wrote_needs_a_barrier_and_a_proxy_fence(machine: Any, tensor: int) -> None:
    for fenced in (FENCE + "bar.sync 0;", "bar.sync 0;" + FENCE):
        runs(machine, joined(FILL, fenced, STORE, STORED), tensor)
    message = refused(
        machine, "without fence.proxy.async", joined(FILL, "bar.sync 0;", STORE, STORED), tensor
    )
    assert "read by a bulk copy" in message
    refused(machine, "without a barrier in between", joined(FILL, FENCE, STORE, STORED), tensor)
    refused(machine, "never written", joined(STORE, STORED), tensor)


def test_writing_what_a_store_still_reads(machine: Any, tensor: int) -> None:
    body = joined(FILL, FENCE, "bar.sync 0;", STORE, "{0} bar.sync 0;", FILL, STORED)
    runs(machine, body.replace("{0}", STORED), tensor)
    refused(machine, "while a bulk copy of warp 0 still reads them", body.replace("{0}", ""), tensor)
    kept = STORED.replace(" 0;", " 1;")
    refused(machine, "while a bulk copy of warp 0 still reads them", body.replace("{0}", kept), tensor)


def test_a_block_that_ends_while_its_shared_memory_is_read(machine: Any, tensor: int) -> None:
    refused(machine, "a block ends while", joined(FILL, FENCE, "bar.sync 0;", STORE), tensor)


def test_places_that_a_copy_cannot_take(machine: Any, tensor: int) -> None:
    astray = joined(EXPECT, LOAD.replace("[global_smem],", "[global_smem+64],"), WAIT)
    refused(machine, "misaligned address", astray, tensor)
    refused(machine, "illegal memory access", joined(EXPECT, LOAD, WAIT), tensor, shared=200)
    far = joined(EXPECT, LOAD.replace("[global_smem],", "[global_smem+384],"), WAIT)
    refused(machine, "a barrier lies there", far, tensor, shared=1024)
    refused(machine, "misaligned address", joined(EXPECT, LOAD, WAIT), tensor + 8)
    refused(machine, "no tensor map", joined(EXPECT, LOAD, WAIT), machine.put(np.zeros(128, np.uint8)))
    refused(
        machine,
        "3 coordinates",
        joined(EXPECT, LOAD.replace("2d", "3d").replace("{0, 0}", "{0, 0, 0}"), WAIT),
        tensor,
    )


def test_a_map_of_memory_that_was_given_back(machine: Any) -> None:
    address = machine.put(np.zeros((8, 32), np.float32))
    where = machine.put(
        np.frombuffer(tensor_maps.encode(7, address, (32, 8), (128,), (16, 4), (1, 1)), np.uint8)
    )
    machine.memory.blocks.remove(address)
    refused(machine, "illegal memory access", joined(EXPECT, LOAD, WAIT), where)


def test_named_barriers(machine: Any) -> None:
    """Exchange values between warps 0 and 1 while warp 2 is elsewhere."""
    swap = "xor.b32 %r3, %r1, 128; ld.shared.b32 %r2, [%r3];"
    body = joined(FILL, "setp.ge.u32 %p1, %r0, 64; @%p1 bra $end; {0}" + swap + "$end: ret;")
    runs(machine, body.replace("{0}", "bar.sync 2, 64;"), threads=96)
    refused(machine, "without a barrier in between", body.replace("{0}", ""), threads=96)
    refused(machine, "wait at a barrier", body.replace("{0}", "bar.sync 2, 96;"), threads=96)
    arrived = body.replace("{0}", "setp.ge.u32 %p2, %r0, 32; @%p2 bar.arrive 2, 64; @!%p2 bar.sync 2, 64;")
    refused(machine, "without a barrier in between", arrived, threads=96)


# Products

PLACES = "shl.b32 %r1, %r0, 4; add.s32 %r1, %r9, %r1;"
OPERANDS = PLACES + "st.shared.v4.b32 [%r1], {0, 0, 0, 0}; st.shared.v4.b32 [%r1+2048], {0, 0, 0, 0};"
SUMS = "mov.b32 %r20, 0; mov.b32 %r21, 0; mov.b32 %r22, 0; mov.b32 %r23, 0;"
DESCRIPTORS = f"mov.b64 %d20, {1 << 62 | (1024 >> 4) << 32}; mov.b64 %d21, {1 << 62 | (1024 >> 4) << 32 | 0};"
PRODUCT = (
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r20, %r21, %r22, %r23}, %d20, %d21, 1, 1, 1, 0, 0;"
)
ORDER = "wgmma.fence.sync.aligned;"
COMMIT = "wgmma.commit_group.sync.aligned;"
DONE = "wgmma.wait_group.sync.aligned 0;"
USE = "add.f32 %r24, %r20, %r21;"
READY = (
    ONE + OPERANDS + OPERANDS.replace("2048", "4096").replace("[%r1],", "[%r1+6144],") + FENCE + "bar.sync 0;"
)


def multiplied(machine: Any, *parts: str) -> None:
    machine.run("\n".join(parts), threads=128, shared=8192)


def not_multiplied(machine: Any, match: str, *parts: str) -> str:
    return refused(machine, match, "\n".join(parts), threads=128, shared=8192)


HEAD = (READY, SUMS, DESCRIPTORS)


def test_sums_before_the_wait(machine: Any) -> None:
    multiplied(machine, *HEAD, ORDER, PRODUCT, PRODUCT, COMMIT, DONE, USE)
    for early in (("",), (COMMIT,), (COMMIT, DONE.replace(" 0;", " 1;"))):
        message = not_multiplied(
            machine, "read before its product is done", *HEAD, ORDER, PRODUCT, *early, USE
        )
        assert "(add.f32)" in message
    not_multiplied(machine, "read before its product is done", *HEAD, ORDER, PRODUCT, DONE, USE)
    not_multiplied(machine, "written before its product is done", *HEAD, ORDER, PRODUCT, COMMIT, SUMS, DONE)


def test_only_the_last_groups_are_left_under_way(machine: Any) -> None:
    other = re.sub(r"%r2([0-3])", r"%r3\1", PRODUCT)
    more = SUMS.replace("%r2", "%r3")
    kept = DONE.replace(" 0;", " 1;")
    parts = (*HEAD, more, ORDER, PRODUCT, COMMIT, other, COMMIT, kept)
    multiplied(machine, *parts, USE, DONE)
    not_multiplied(machine, "read before its product is done", *parts, USE.replace("%r2", "%r3"))


def test_sums_that_were_touched_need_a_fence(machine: Any) -> None:
    not_multiplied(machine, "without wgmma.fence", *HEAD, PRODUCT, COMMIT, DONE)
    again = (ORDER, PRODUCT, COMMIT, DONE)
    multiplied(machine, *HEAD, *again, PRODUCT, COMMIT, DONE)
    not_multiplied(machine, "without wgmma.fence", *HEAD, *again, SUMS, PRODUCT, COMMIT, DONE)


def test_operands_in_registers_that_were_written_need_a_fence(machine: Any) -> None:
    product = PRODUCT.replace("%d20,", "{%r30, %r31, %r32, %r33},").replace("1, 1, 1, 0, 0;", "1, 1, 1, 0;")
    given = SUMS.replace("%r2", "%r3")
    for again in ("", given):  # rewritten with its old contents
        multiplied(machine, *HEAD, given, ORDER, product, again, product, COMMIT, DONE)
    message = not_multiplied(
        machine, "since the last wgmma.fence", *HEAD, given, ORDER, "add.s32 %r31, %r0, 1;", product
    )
    assert "(wgmma.mma_async" in message
    not_multiplied(machine, "without wgmma.fence", *HEAD, given, product)


def test_operands_that_are_overwritten_before_the_wait(machine: Any) -> None:
    body = (*HEAD, ORDER, PRODUCT, COMMIT)
    again = "bar.sync 0; " + OPERANDS
    multiplied(machine, *body, DONE, again)
    message = not_multiplied(machine, "still reads them", *body, again, DONE)
    assert "a product (wgmma.mma_async) of warp" in message
    not_multiplied(machine, "still reads them", *body, DONE.replace(" 0;", " 1;"), again, DONE)


def test_operands_that_threads_wrote_need_a_barrier_and_a_proxy_fence(machine: Any) -> None:
    tail = (SUMS, DESCRIPTORS, ORDER, PRODUCT, COMMIT, DONE)
    not_multiplied(machine, "without fence.proxy.async", READY.replace(FENCE, ""), *tail)
    not_multiplied(machine, "without a barrier in between", READY.replace("bar.sync 0;", ""), *tail)
    not_multiplied(machine, "never written", ONE, *tail)


def test_descriptors_that_lead_elsewhere(machine: Any) -> None:
    out = DESCRIPTORS.replace(str(1 << 62 | (1024 >> 4) << 32), str(1 << 62 | (4096 >> 4) << 32), 1)
    not_multiplied(machine, "illegal memory access", READY, SUMS, out, ORDER, PRODUCT, COMMIT, DONE)
    differs = "setp.lt.u32 %p1, %r0, 64; @%p1 add.s64 %d20, %d20, 2;"
    not_multiplied(machine, "differ in a matrix descriptor", *HEAD, differs, ORDER, PRODUCT, COMMIT, DONE)
    moved = DESCRIPTORS.replace(
        str(1 << 62 | (1024 >> 4) << 32), str(1 << 62 | 1 << 49 | (1024 >> 4) << 32), 1
    )
    not_multiplied(machine, "base offset", READY, SUMS, moved, ORDER, PRODUCT, COMMIT, DONE)


def test_products_by_a_part_of_four_warps(machine: Any) -> None:
    part = "setp.ge.u32 %p1, %r0, 32; @%p1 bra $end;"
    not_multiplied(
        machine, "by a part of four warps", *HEAD, part, ORDER, PRODUCT, COMMIT, DONE, "$end: ret;"
    )


def test_registers_that_warps_give_and_take(machine: Any) -> None:
    """Move registers from four warps to the other four, which stand before them in the text and wait."""
    body = (
        ONE
        + """
        setp.ge.u32 %p1, %r0, 128; @%p1 bra $gives;
        setmaxnreg.inc.sync.aligned.u32 {0}; bra.uni $end;
    $gives:
        setmaxnreg.dec.sync.aligned.u32 {1};
    $end: ret;
    """
    )

    def run(takes: int, gives: int) -> None:
        machine.run(body.format(takes, gives), threads=256, head=".reqntid 256 .maxnreg 128")

    run(216, 40)
    with pytest.raises(EmulationError, match="wait for ever for 224 registers, of which a block has 32768"):
        run(224, 40)
    for takes, gives, what in (
        (216, 41, "multiple of 8"),
        (216, 136, "warps that have 128"),
        (120, 40, "have 128"),
    ):
        with pytest.raises(EmulationError, match=what):
            run(takes, gives)


def test_an_early_read_for_which_the_assembler_waits(machine: Any) -> None:
    """Warn when the assembler inserts a wait, which costs the overlap; the registers hold the right values."""
    ones = READY.replace("{0, 0, 0, 0}", "{0x3C003C00, 0x3C003C00, 0x3C003C00, 0x3C003C00}")
    more = "mad.wide.u32 %d10, %r0, 4, %d0; st.global.b32 [%d10], %r24;"
    body = "\n".join([ones, SUMS, DESCRIPTORS, ORDER, PRODUCT, USE, more, COMMIT, DONE, USE, more])
    out = machine.put(np.zeros(128, np.float32))
    with pytest.warns(RuntimeWarning, match="kernel 'kernel': a register is read before wgmma.wait_group"):
        machine.run(body, out, threads=128, shared=8192, mends=True)
    assert np.array_equal(machine.get(out, 128, np.float32), np.full(128, 32, np.float32))


def test_operands_in_registers_that_are_written_before_the_wait(machine: Any) -> None:
    fragments = "".join(f"mov.b32 %r{i}, 0x3C003C00;" for i in range(30, 34))
    product = PRODUCT.replace("%d20, %d21, 1, 1, 1, 0, 0", "{%r30, %r31, %r32, %r33}, %d21, 1, 1, 1, 0")
    change = "mov.b32 %r32, 7;"
    multiplied(machine, *HEAD, fragments, ORDER, product, COMMIT, DONE, change)
    not_multiplied(
        machine, "while a product reads it", *HEAD, fragments, ORDER, product, COMMIT, change, DONE
    )
