"""Resources of a block on a multiprocessor: values computed by hand from NVIDIA's tables."""

import pytest

from triten.runtime.cuda.occupancy import (
    KNOWN,
    RELATIVES,
    TARGETS,
    register_budget,
    resident_blocks,
    shared_budget,
    tensor_memory_budget,
)

KIB = 1024


def test_the_targets_are_those_of_the_programming_guide():
    """Compare with the table "Technical Specifications per Compute Capability": KB of a multiprocessor and
    of a block.
    """
    published = {80: (164, 163), 90: (228, 227), 100: (228, 227)}
    for capability, (shared, per_block) in published.items():
        target = TARGETS[capability]
        assert (target.shared_memory, target.shared_per_block) == (shared * KIB, per_block * KIB)
        assert (target.registers, target.warps, target.blocks) == (65_536, 64, 32)
    assert [TARGETS[c].shared_per_block for c in (80, 90, 100)] == [166_912, 232_448, 232_448]
    assert [TARGETS[c].tensor_memory for c in (80, 90, 100)] == [0, 0, 512]


def test_relatives_have_the_resources_of_the_programming_guide():
    """Compare KB of a multiprocessor and of a block, warps and blocks with the same table."""
    published = {
        86: (100, 99, 48, 16),
        89: (100, 99, 48, 24),
        103: (228, 227, 64, 32),
        120: (100, 99, 48, 24),
    }
    assert published.keys() == RELATIVES.keys() == KNOWN.keys() - TARGETS.keys()
    for capability, (shared, per_block, warps, blocks) in published.items():
        target = RELATIVES[capability]
        assert (target.shared_memory, target.shared_per_block) == (shared * KIB, per_block * KIB)
        assert (target.registers, target.warps, target.blocks) == (65_536, warps, blocks)
    assert [RELATIVES[c].tensor_memory for c in published] == [0, 0, 512, 0]
    assert [RELATIVES[c].design for c in published] == [80, 80, 100, 80]


@pytest.mark.parametrize("capability", TARGETS)
@pytest.mark.parametrize(
    ("blocks", "warps", "registers"),
    [
        (16, 4, 32),  # 64 warps: 65,536 / 64 = 1,024 for each, 32 for each lane
        (8, 8, 32),
        (8, 4, 64),  # 32 warps: 2,048 for each
        (4, 8, 64),
        (2, 16, 64),
        (1, 32, 64),
        (3, 8, 80),  # 24 warps: 2,730, of which 2,560 are a multiple of 256
        (5, 4, 96),  # 20 warps: 3,276, of which 3,072
        (2, 8, 128),  # 16 warps: 4,096
        (3, 4, 168),  # 12 warps: 5,461, of which 5,376
        (1, 8, 255),  # 8 warps: 8,192, 256 for each lane: more than an instruction can name
        (1, 4, 255),
        (1, 1, 255),
        (32, 1, 16),  # a block of one warp takes a place on each of the four parts: 128 would not fit
    ],
)
def test_registers_of_a_thread(capability, blocks, warps, registers):
    if blocks * max(warps, 4) > 64:
        with pytest.raises(ValueError, match=f"{blocks} blocks of {warps} warps are never resident on sm_"):
            register_budget(TARGETS[capability], blocks, warps)
    else:
        assert register_budget(TARGETS[capability], blocks, warps) == registers


@pytest.mark.parametrize(("blocks", "warps"), [(0, 4), (33, 1), (3, 32), (-1, 8)])
def test_what_is_never_resident_is_refused(blocks, warps):
    with pytest.raises(
        ValueError, match="never resident on sm_80: expected 1 to 32 blocks of 64 warps in all"
    ):
        register_budget(TARGETS[80], blocks, warps)


@pytest.mark.parametrize(
    ("capability", "blocks", "nbytes"),
    [
        (80, 1, 166_912),  # 164 KiB less the KiB that the system keeps
        (80, 2, 82_944),  # 82 KiB less one
        (80, 3, 54_912),  # 167,936 / 3 = 55,978, of which 55,936 are a multiple of 128
        (80, 8, 19_968),
        (90, 1, 232_448),
        (90, 2, 115_712),  # 114 KiB less one
        (90, 4, 57_344),
        (100, 8, 28_160),
        (100, 32, 6_272),
    ],
)
def test_shared_memory_of_a_block(capability, blocks, nbytes):
    assert shared_budget(TARGETS[capability], blocks) == nbytes


@pytest.mark.parametrize(
    ("blocks", "columns"), [(1, 512), (2, 256), (3, 128), (4, 128), (8, 64), (16, 32), (17, 0)]
)
def test_tensor_memory_of_a_block(blocks, columns):
    assert tensor_memory_budget(TARGETS[100], blocks) == columns
    assert tensor_memory_budget(TARGETS[90], blocks) == 0


@pytest.mark.parametrize(
    ("warps", "registers", "shared", "blocks"),
    [
        (4, 32, 0, 16),  # 64 warps
        (4, 33, 0, 12),  # 40 registers: 1,280 a warp, 12 of them in a part of 16,384
        (8, 128, 0, 2),
        (8, 129, 0, 1),  # 136: 4,352 a warp, three in a part
        (8, 80, 0, 3),
        (8, 81, 0, 2),
        (4, 16, 115_712, 2),
        (4, 16, 115_713, 1),
        (4, 16, 232_448, 1),
        (4, 16, 232_449, 0),
        (1, 16, 0, 16),
    ],
)
def test_resident_blocks(warps, registers, shared, blocks):
    assert resident_blocks(TARGETS[90], warps, registers, shared) == blocks


def test_tensor_memory_bounds_resident_blocks():
    assert resident_blocks(TARGETS[100], 4, 32, 0, 256) == 2
    assert resident_blocks(TARGETS[100], 4, 32, 0, 513) == 0
    assert resident_blocks(TARGETS[90], 4, 32, 0, 32) == 0


@pytest.mark.parametrize("capability", TARGETS)
def test_budgets_and_occupancy_agree(capability):
    """Check that the requested number of blocks is resident if each block uses its whole budget."""
    target = TARGETS[capability]
    for warps in (1, 2, 4, 8, 16, 32):
        for blocks in range(1, min(64 // max(warps, 4), 32) + 1):
            registers = register_budget(target, blocks, warps)
            shared = shared_budget(target, blocks)
            assert resident_blocks(target, warps, registers, shared) >= blocks
            if registers < 255:
                assert resident_blocks(target, warps, registers + 1, 0) < blocks or registers % 8
            if shared < target.shared_per_block:
                assert resident_blocks(target, warps, 16, shared + 1) < blocks
