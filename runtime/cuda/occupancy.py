"""Occupancy: a multiprocessor's resources on each target, and the share of a block if several are resident.

Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and the allocation
granularities of NVIDIA's occupancy calculator; PTX ISA, "Tensor Memory".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .device_properties import design_of

KIB = 1024
REGISTERS_PER_THREAD = 255
"""Maximum number of registers that an instruction can address."""
REGISTER_UNIT = 256
"""Registers are allocated to a warp in this unit: 8 for each of its 32 threads."""
WARP_UNIT = 4
"""A multiprocessor has four partitions, each with a quarter of the registers; a block's warps are spread evenly."""
SHARED_UNIT = 128
SHARED_RESERVED = 1 * KIB
"""Shared memory that the system reserves for each resident block."""
WARP_SIZE = 32
TENSOR_MEMORY_UNIT = 32
"""Smallest allocation of tensor memory in columns; allocations are powers of two."""


@dataclass(frozen=True)
class Target:
    """Compute capability: its multiprocessors' resources and matmul instructions.

    Args:
        capability: Major times 10 plus minor.
        device: Representative data-center GPU.
        multiprocessors: Number of multiprocessors of `device`.
        shared_memory: Bytes per multiprocessor.
        shared_per_block: Bytes per block after opt-in.
        tensor_memory: Columns of tensor memory.
        matrix: Prefix of the SASS matmul instruction for each operand type (Triton's name).
    """

    capability: int
    device: str
    multiprocessors: int
    shared_memory: int
    shared_per_block: int
    matrix: Mapping[str, str]
    tensor_memory: int = 0
    registers: int = 64 * KIB
    warps: int = 64
    blocks: int = 32

    @property
    def name(self) -> str:
        """Name in the compiler's notation: ``sm_90``."""
        return f"sm_{self.capability}"

    @property
    def design(self) -> int:
        """Target whose kernel declarations apply: its own capability, or that of the similar data-center device."""
        return design_of(self.capability)


SINGLES, EIGHT_BITS = ("fp16", "bf16", "fp32"), ("fp8e4nv", "fp8e5")
"""Types with float32 accumulation; float32 operands are rounded to TF32 before."""
DOUBLES = {"fp64": "DMMA"}
PAIRS = "u8"
"""Bytes that pack two 4-bit numbers."""

TARGETS: dict[int, Target] = {
    target.capability: target
    for target in (
        Target(
            80,
            "A100",
            108,
            164 * KIB,
            163 * KIB,
            dict.fromkeys(SINGLES, "HMMA") | {"i8": "IMMA"} | DOUBLES,
        ),
        Target(
            90,
            "H100",
            132,
            228 * KIB,
            227 * KIB,
            dict.fromkeys(SINGLES, "HGMMA") | dict.fromkeys(EIGHT_BITS, "QGMMA") | {"i8": "IGMMA"} | DOUBLES,
        ),
        Target(
            100,
            "B200",
            148,
            228 * KIB,
            227 * KIB,
            dict.fromkeys(SINGLES, "UTCHMMA")
            | dict.fromkeys(EIGHT_BITS, "UTCQMMA")
            | {"i8": "UTCIMMA"}
            | {PAIRS: "UTCOMMA"}
            | DOUBLES,
            tensor_memory=512,
        ),
    )
}
"""Targets of ahead-of-time compilation."""

CARD_MATRIX = dict.fromkeys(SINGLES, "HMMA") | {"i8": "IMMA"}
"""SASS of ``mma.sync`` on consumer cards, whose float64 matmuls compile to DFMA."""
CARD_MATRIX_OF_8_BITS = CARD_MATRIX | dict.fromkeys(EIGHT_BITS, "QMMA")
"""The same from sm_89 on."""

RELATIVES: dict[int, Target] = {
    target.capability: target
    for target in (
        Target(86, "RTX A6000", 84, 100 * KIB, 99 * KIB, CARD_MATRIX, warps=48, blocks=16),
        Target(89, "L40S", 142, 100 * KIB, 99 * KIB, CARD_MATRIX_OF_8_BITS, warps=48, blocks=24),
        Target(103, "B300", 148, 228 * KIB, 227 * KIB, TARGETS[100].matrix, tensor_memory=512),
        Target(
            120,
            "RTX 5090",
            170,
            100 * KIB,
            99 * KIB,
            CARD_MATRIX_OF_8_BITS | {PAIRS: "OMMA"},
            warps=48,
            blocks=24,
        ),
    )
}
"""Devices that run the kernels of one of `TARGETS` (`Target.design`), with other resources."""

KNOWN: dict[int, Target] = TARGETS | RELATIVES


def rounded_down(value: int, unit: int) -> int:
    """Return the largest multiple of `unit` that is not above `value`."""
    return value // unit * unit


def rounded_up(value: int, unit: int) -> int:
    """Return the smallest multiple of `unit` that is not below `value`."""
    return -(-value // unit) * unit


def register_budget(target: Target, blocks: int, warps: int) -> int:
    """Return the maximum registers per thread with which `blocks` blocks of `warps` warps are resident.

    Raises:
        ValueError: if that many blocks or warps are never resident.

    Example:
        >>> from triten.runtime.cuda.occupancy import TARGETS, register_budget
        >>> register_budget(TARGETS[90], 2, 8), register_budget(TARGETS[90], 8, 4)
        (128, 64)
    """
    resident = blocks * rounded_up(warps, WARP_UNIT)
    if not 0 < blocks <= target.blocks or resident > target.warps:
        raise ValueError(
            f"{blocks} blocks of {warps} warps are never resident on {target.name}: expected 1 to "
            f"{target.blocks} blocks of {target.warps} warps in all"
        )
    per_thread = rounded_down(target.registers // resident, REGISTER_UNIT) // WARP_SIZE
    return min(per_thread, REGISTERS_PER_THREAD)


def shared_budget(target: Target, blocks: int) -> int:
    """Return the maximum bytes of shared memory per block with which `blocks` blocks are resident.

    Example:
        >>> from triten.runtime.cuda.occupancy import TARGETS, shared_budget
        >>> shared_budget(TARGETS[80], 1), shared_budget(TARGETS[80], 2)
        (166912, 82944)
    """
    own = rounded_down(target.shared_memory // blocks, SHARED_UNIT) - SHARED_RESERVED
    return min(own, target.shared_per_block)


def tensor_memory_budget(target: Target, blocks: int) -> int:
    """Return the maximum columns of tensor memory per block with which `blocks` blocks are resident.

    Example:
        >>> from triten.runtime.cuda.occupancy import TARGETS, tensor_memory_budget
        >>> tensor_memory_budget(TARGETS[100], 2), tensor_memory_budget(TARGETS[100], 3)
        (256, 128)
    """
    share = target.tensor_memory // blocks
    return 1 << (share.bit_length() - 1) if share >= TENSOR_MEMORY_UNIT else 0


def resident_blocks(target: Target, warps: int, registers: int, shared: int, tensor_memory: int = 0) -> int:
    """Return the number of resident blocks with these resources per block; 0 if a block never fits.

    Example:
        >>> from triten.runtime.cuda.occupancy import TARGETS, resident_blocks
        >>> resident_blocks(TARGETS[90], warps=8, registers=128, shared=98304)
        2
    """
    if shared > target.shared_per_block or tensor_memory > target.tensor_memory:
        return 0
    own = rounded_up(warps, WARP_UNIT)
    per_warp = rounded_up(max(registers, 1) * WARP_SIZE, REGISTER_UNIT)
    in_a_part = target.registers // WARP_UNIT // per_warp
    limits = [
        target.blocks,
        target.warps // own,
        in_a_part * WARP_UNIT // own,
        target.shared_memory // (rounded_up(shared, SHARED_UNIT) + SHARED_RESERVED),
    ]
    if tensor_memory:
        limits.append(target.tensor_memory // tensor_memory)
    return min(limits)
