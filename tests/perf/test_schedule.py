"""A kernel's main path, read from SASS as `nvdisasm` writes it."""

import pytest

from triten.perf.ahead_of_time.schedule import (
    Instruction,
    Schedule,
    blocks_of,
    matrix_operations,
    schedule_of,
    tensor_memory_operations,
)


def sass(text):
    """Add addresses to lines, as in a disassembly; labels stay unchanged."""
    lines, address = [], 0
    for line in text.strip().splitlines():
        line = line.strip()
        if line.startswith("."):
            lines.append(line)
        else:
            lines.append(f"        /*{address:04x}*/                   {line} ;")
            address += 16
    return "\n".join(lines)


COPY = sass("""
    S2R R0, SR_TID.X
    ISETP.GT.U32.AND P0, PT, R2, UR6, PT
    @!P0 BRA `(.L_x_0)
    IADD3 R2, P1, R16, R19, RZ
    IADD3 R3, P1, R16, R19, RZ
    @!P0 LDG.E.128 R4, desc[UR4][R2.64]
    @!P1 LDG.E.128 R8, desc[UR4][R2.64+0x800]
    @!P0 STG.E.128 desc[UR4][R2.64], R4
    @P3 EXIT
    STG.E.128 desc[UR4][R2.64+0x800], R8
    EXIT
    .L_x_0:
    LDG.E.128 R4, desc[UR4][R12.64]
    LDG.E.128 R8, desc[UR4][R20.64+0x800]
    STG.E.128 desc[UR4][R12.64], R4
    STG.E.128 desc[UR4][R20.64+0x800], R8
    EXIT
    .L_x_1:
    BRA `(.L_x_1)
    NOP
""")


def test_of_two_ways_with_as_many_bytes_the_shorter_is_taken():
    found = schedule_of(COPY)
    assert not found.is_loop
    assert found.instructions == 3 + 5
    assert (found.loaded, found.stored, found.batches) == (32, 32, 1)
    assert found.pipes == {"control": 3, "alu": 1, "memory": 4}


def test_the_branch_to_itself_behind_the_end_is_no_loop():
    assert not any(block.backward for block in blocks_of(COPY))


LOOP = """
    MOV R1, c[0x0][0x28]
    .L_x_0:
    LDG.E.128 R4, desc[UR4][R2.64]
    LDG.E.128 R8, desc[UR4][R2.64+0x10]
    {between}
    FADD R20, R20, R9
    MUFU.EX2 R22, R20
    SHFL.BFLY PT, R23, R22, 0x1, 0x1f
    @P0 BRA `(.L_x_0)
    STG.E.128 desc[UR4][R2.64], R20
    EXIT
"""


@pytest.mark.parametrize(
    ("between", "batches"),
    [
        ("FADD R30, R31, R32", 1),
        ("FADD R30, R4, R32", 2),
        ("LDG.E R9, desc[UR4][R4.64]", 2),
        ("STG.E.64 desc[UR4][R40.64], R6", 2),
    ],
)
def test_a_load_is_waited_for_where_its_result_is_needed(between, batches):
    """Two loads that nothing divides are in flight together; what needs the first one waits before the second's use."""
    split = LOOP.format(between=between).replace(
        "    LDG.E.128 R8, desc[UR4][R2.64+0x10]\n    " + between,
        f"    {between}\n    LDG.E.128 R8, desc[UR4][R2.64+0x10]",
    )
    found = schedule_of(sass(split))
    assert found.is_loop
    assert found.batches == batches


def test_the_body_of_a_loop_is_counted_by_units():
    found = schedule_of(sass(LOOP.format(between="DFMA R30, R32, R34, R36")))
    assert found.instructions == 7
    assert found.pipes == {"memory": 3, "double": 1, "fma": 1, "special": 1, "control": 1}
    assert (found.loaded, found.stored, found.exchanges) == (32, 0, 1)


@pytest.mark.parametrize(
    ("code", "waits"),
    [
        (["SHFL.BFLY PT, R5, R4, 0x10, 0x1f", "SHFL.BFLY PT, R7, R6, 0x10, 0x1f", "FADD R5, R5, R7"], 1),
        (["SHFL.BFLY PT, R5, R4, 0x10, 0x1f", "FADD R4, R4, R5", "SHFL.BFLY PT, R5, R4, 0x8, 0x1f"], 2),
        (["SHFL.BFLY PT, R5, R4, 0x10, 0x1f", "SHFL.BFLY PT, R6, R5, 0x8, 0x1f"], 2),
        (["SHFL.BFLY PT, R5, R4, 0x10, 0x1f", "BAR.SYNC.DEFER_BLOCKING 0x0", "FADD R4, R4, R5"], 1),
        (["BAR.SYNC.DEFER_BLOCKING 0x0", "BAR.SYNC.DEFER_BLOCKING 0x0"], 2),
        (["REDUX.SUM UR5, R4", "IADD3 R6, R4, UR5, RZ"], 1),
    ],
    ids=str,
)
def test_shuffles_that_are_in_flight_together_are_waited_for_once(code, waits):
    assert schedule_of(sass("\n".join([*code, "EXIT"]))).exchanges == waits


@pytest.mark.parametrize(("behind", "is_loop", "loaded"), [(2, True, 8), (3, False, 56)])
def test_a_loop_that_looks_something_up_is_not_where_the_time_goes(behind, is_loop, loaded):
    found = schedule_of(
        sass(
            """
        .L_x_0:
        LDG.E.64 R4, desc[UR4][R2.64]
        @P0 BRA `(.L_x_0)
        """
            + "LDG.E.128 R8, desc[UR4][R4.64]\n" * (behind - 1)
            + "STG.E desc[UR4][R2.64], R8\n" * (behind - 2)
            + ("LDG.E.128 R12, desc[UR4][R4.64]\n" if not is_loop else "")
            + "EXIT\n"
        )
    )
    assert (found.is_loop, found.loaded) == (is_loop, loaded)


def test_of_nested_loops_the_innermost_with_products_is_taken():
    found = schedule_of(
        sass("""
        .L_x_0:
        LDG.E.128 R4, desc[UR4][R2.64]
        .L_x_1:
        LDGSTS.E.BYPASS.128 [R9], desc[UR4][R2.64]
        LDSM.16.M88.4 R12, [R20]
        HMMA.16816.F32.BF16 R4, R12, R16, R4
        HMMA.16816.F32.BF16 R8, R12, R18, R8
        @P0 BRA `(.L_x_1)
        STG.E desc[UR4][R2.64], R4
        @P1 BRA `(.L_x_0)
        EXIT
        """)
    )
    assert (found.matrix, found.matrix_operations) == ("HMMA", 2 * 4096)
    assert (found.instructions, found.copied, found.asynchronous) == (5, 16, True)
    assert found.shared_cycles == 4


def test_what_follows_the_last_step_of_a_tile_is_no_part_of_a_step():
    """Check a persistent kernel, whose loop covers all tiles' steps and stores a tile behind a branch."""
    found = schedule_of(
        sass("""
        .L_x_0:
        HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24
        @P0 BRA `(.L_x_1)
        FMUL R4, R4, R5
        STG.E.128 desc[UR4][R2.64], R4
        LDG.E R9, desc[UR4][R2.64]
        .L_x_1:
        @P1 BRA `(.L_x_0)
        EXIT
        """)
    )
    assert (found.instructions, found.stored, found.loaded, found.batches) == (3, 0, 0, 0)


def test_a_loop_that_touches_no_memory_is_not_the_main_way():
    text = sass("""
        .L_x_0:
        FFMA R4, R4, R5, R6
        @P0 BRA `(.L_x_0)
        LDG.E R4, desc[UR4][R2.64]
        STG.E desc[UR4][R2.64], R4
        EXIT
    """)
    assert not schedule_of(text).is_loop


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("HMMA.1688.F32.TF32", 2 * 16 * 8 * 8),
        ("IMMA.16832.S8.S8", 2 * 16 * 8 * 32),
        ("DMMA.8x8x4", 2 * 8 * 8 * 4),
        ("HGMMA.64x128x16.F32.BF16", 2 * 64 * 128 * 16 / 4),
        ("QGMMA.64x256x32.F32.E4M3.E4M3", 2 * 64 * 256 * 32 / 4),
        ("UTCHMMA", 1),
    ],
)
def test_operations_of_matrix_instructions(name, operations):
    opcode, *modifiers = name.split(".")
    assert matrix_operations(Instruction(opcode, tuple(modifiers), "", False)) == operations


def test_products_in_tensor_memory_have_their_shape_in_ptx():
    described = (128 // 16) << 24 | (256 // 8) << 17 | 0x490
    ptx = f"""
        mov.b32 %r33, {described};
        @%p26 tcgen05.mma.cta_group::1.kind::f16 [ %r156 + 0 ], %rd4, %rd5, %r33, %p25;
        @%p26 tcgen05.mma.cta_group::1.kind::f16 [ %r156 + 0 ], %rd6, %rd7, %r33, %p27;
    """
    assert tensor_memory_operations(ptx) == 2 * 128 * 256 * 16
    assert tensor_memory_operations("ret;") == 0


def test_a_schedule_is_plain_data():
    found = schedule_of(COPY)
    assert Schedule(**found.as_json()) == found
