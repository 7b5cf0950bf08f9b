"""Resource budgets that kernels declare; the compiled code is checked against them.

A declaration gives an occupancy, never a number of registers: registers and shared memory follow from it and
the target's limits (`runtime/cuda/occupancy.py`). `python -m triten.perf aot` compiles every kernel and
compares.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ..runtime.cuda.device_properties import design_of
from ..runtime.cuda.occupancy import TARGETS, register_budget
from ..runtime.cuda.tensor_map import descriptor_type

FLOATS = ("fp32", "fp64", "fp16", "bf16")
INTEGERS = ("i32", "i64", "i8", "i16", "u8", "u16", "u32", "u64")
FLOATS8 = ("fp8e5", "fp8e4nv")
NUMBERS = (*FLOATS, *INTEGERS, "i1")
MOVED = ("i32", "i64", "i8", "i16")
"""Types as which elements are moved whose meaning does not matter."""

CARDS = (86, 89, 120)
"""Devices with 99 KiB of shared memory for a block that take the kernels of sm_80."""

MIN_CAPABILITY = {"fp8e4nv": 89}
"""Types that targets before these have no conversion for: PTX ISA, `cvt` of ``.e4m3x2``."""

STREAMING = (
    "32 warps: 32 KiB of an operand are in flight on a multiprocessor, which is 600 ns of B200's published 8 TB/s, "
    "1,290 of H100's 3.35 and 1,730 of A100's 2.04: longer than a load takes"
)
"""Why kernels that only wait for memory have half of the warps that there are."""

Blocks = int | Mapping[int, int]


def _named(capabilities: Iterable[int], capability: int) -> int | None:
    """Return the highest listed capability of the device's design that is not above the device's own."""
    alike = [each for each in capabilities if each <= capability and design_of(each) == design_of(capability)]
    return max(alike, default=None)


@dataclass(frozen=True)
class Configuration:
    """A tile with its warps and stages.

    Args:
        tile: the constants that `Declaration.tile` names, in that order.
        warps, stages: as Triton's ``num_warps`` and ``num_stages``.
        blocks: how many such blocks a multiprocessor is to have at a time, by capability where targets differ: devices
            take what is said of the last capability of their design that is not above theirs, and those of which
            nothing is said do not take it. None for as many as make `Declaration.warps`.
        unaligned: how many where an operand that is to be accessed in vectors is not aligned; None for as many.
        all_registers: whether the compiler is told that a thread may take all registers that these blocks leave
            (``.maxnreg``), or the capabilities for which it is. Left alone it may spill a few, where that makes one
            block more resident.
        resident: the warps that a block has in the end, where the kernel is warp-specialised and the compiler adds
            those that do not compute; None for `warps`.
        ctas: the blocks of a cluster, as Triton's ``num_ctas``. The tile is that of the cluster, of which each block
            has an equal share; `blocks` are then those of sm_90 and later designs.
    """

    tile: tuple[int, ...] = ()
    warps: int = 4
    stages: int = 3
    blocks: Blocks | None = field(default=None, hash=False)
    unaligned: int | None = None
    all_registers: bool | Collection[int] = field(default=False, hash=False, compare=False)
    resident: int | None = field(default=None, hash=False, compare=False)
    ctas: int = 1

    def __str__(self) -> str:
        tile = "x".join(map(str, self.tile))
        cluster = f" c{self.ctas}" if self.ctas > 1 else ""
        return f"{tile} w{self.warps} s{self.stages}{cluster}".strip()

    def is_for(self, capability: int) -> bool:
        """Return True if a device supports the configuration.

        Example:
            >>> from triten.triton_kernels.budget import Configuration
            >>> one = Configuration((64, 64, 64), blocks={89: 2, 90: 3})
            >>> [one.is_for(capability) for capability in (80, 89, 90, 100, 120)]
            [False, True, True, False, True]
        """
        return not isinstance(self.blocks, Mapping) or _named(self.blocks, capability) is not None

    def takes_all_registers(self, capability: int) -> bool:
        """Return True if the compiler for a device may use all registers that `blocks` leave."""
        capabilities = self.all_registers
        return capabilities if isinstance(capabilities, bool) else capability in capabilities

    @property
    def warps_of_a_block(self) -> int:
        """Number of warps that a block is launched with."""
        return self.warps if self.resident is None else self.resident

    @property
    def groups(self) -> int:
        """Groups of warps that compute, each for itself: a warp-specialised block has one more, which copies."""
        return 1 if self.resident is None else self.resident // self.warps - 1

    @property
    def elements(self) -> int:
        """Number of elements in a tile."""
        return math.prod(self.tile)

    @property
    def shape(self) -> tuple[tuple[int, ...], int, int, int]:
        """Tile, warps, stages and blocks of a cluster, which determine the compiled code."""
        return self.tile, self.warps, self.stages, self.ctas


@dataclass(frozen=True)
class Declaration:
    """Declared resource budget of a kernel.

    Args:
        kernel: the `@triton.jit` function.
        warps: resident warps of a multiprocessor, where a configuration does not say how many blocks.
        why: the reason for the occupancy.
        operand: the pointer whose type is the kernel's dtype.
        tile: the constants that make a tile.
        configurations: for each dtype those that are meant, the main one first.
        operations: arithmetic operations of a launch.
        traffic: bytes of a launch that must cross global memory.
        smaller: If True, small tensors take smaller tiles with as many warps.
        loads, stores: operands accessed 128 bits at a time where all is contiguous, aligned and whole.
        per_index: Number of an operand's elements for each index of the tile.
        tensor_cores: dtypes whose tiles matrix instructions multiply.
        exact: dtypes that no matrix instruction may touch, since products round as IEEE 754 has it; unless the kernel's
            constant PRECISION is "tf32", which asks for one.
        functions: resident warps where a constant of the kernel is the function of this name, and why.
        local: bytes that such a function, or a flag among the constants where it is set, may keep in local memory, and
            why.
    """

    kernel: Any
    warps: int
    why: str
    operand: str
    tile: tuple[str, ...]
    configurations: Mapping[str, tuple[Configuration, ...]]
    operations: str
    traffic: str
    smaller: bool = False
    loads: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    per_index: int = 1
    tensor_cores: tuple[str, ...] = ()
    exact: tuple[str, ...] = ()
    functions: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    local: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    def blocks(
        self,
        configuration: Configuration,
        capability: int,
        aligned: bool = True,
        functions: Sequence[str] = (),
    ) -> int:
        """Resident blocks of a configuration on a target, with these functions among the kernel's constants."""
        if not aligned and configuration.unaligned is not None:
            return configuration.unaligned
        warps = min([self.functions[name][0] for name in functions if name in self.functions], default=None)
        blocks = configuration.blocks
        if blocks is None or warps is not None:
            return max((self.warps if warps is None else warps) // configuration.warps, 1)
        return blocks if isinstance(blocks, int) else blocks[_named(blocks, capability) or capability]

    def dtype_of(self, signature: Mapping[str, str]) -> str:
        """Return the kernel's dtype in a launch of this signature."""
        operand = signature[self.operand]
        described = descriptor_type(operand)
        return operand.removeprefix("*") if described is None else described.element

    def is_aligned(self, signature: Mapping[str, str], divisible: Collection[str]) -> bool:
        """Return True if every pointer that needs vector accesses is aligned."""
        return all(
            name in divisible
            for name in {*self.loads, *self.stores}
            if signature.get(name, "").startswith("*")
        )

    def covering(self, dtype: str, launched: Configuration, capability: int) -> Configuration | None:
        """Return the declared configuration that equals the launch's own or bounds it, or None."""
        declared = [
            candidate for candidate in self.configurations.get(dtype, ()) if candidate.is_for(capability)
        ]
        for candidate in declared:
            if candidate.shape == launched.shape:
                return candidate
        for candidate in declared if self.smaller else ():
            if candidate.shape[1:] == launched.shape[1:] and launched.elements <= candidate.elements:
                return candidate
        return None


DECLARATIONS: dict[str, Declaration] = {}
"""By ``module:function``."""


def name_of(kernel: Any) -> str:
    """Return the ``module:function`` name of a `@triton.jit` function, the key of declarations."""
    return f"{kernel.fn.__module__}:{kernel.fn.__qualname__}"


def declaration_of(name: str) -> Declaration | None:
    """Return the declaration of a kernel by ``module:function``, importing its module first, or None."""
    module = name.partition(":")[0]
    if name not in DECLARATIONS and module.startswith(f"{__package__}.") and find_spec(module) is not None:
        import_module(module)
    return DECLARATIONS.get(name)


def register_limit(
    kernel: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, object],
    divisible: Collection[str],
    warps: int,
    stages: int,
    capability: int,
    ctas: int = 1,
) -> int | None:
    """Return the maximum registers per thread for a launch (`maxnreg`), or None if the compiler decides.

    For configurations with `all_registers`, the limit is what the declared blocks leave on the matching
    target.
    """
    declaration = DECLARATIONS.get(name_of(kernel))
    if declaration is None:
        return None
    tile = tuple(constants[name] for name in declaration.tile)
    launched = Configuration(tile, warps, stages, ctas=ctas)  # type: ignore[arg-type]
    meant = declaration.covering(declaration.dtype_of(signature), launched, capability)
    if meant is None or not meant.takes_all_registers(capability):
        return None
    functions = [value.fn.__name__ for value in constants.values() if hasattr(value, "fn")]
    aligned = declaration.is_aligned(signature, divisible)
    blocks = declaration.blocks(meant, capability, aligned, functions)
    return register_budget(TARGETS[design_of(capability)], blocks, warps)


def declare(
    kernel: Any,
    *,
    warps: int = 32,
    why: str,
    operand: str = "out",
    tile: Sequence[str] = ("BLOCK",),
    dtypes: Sequence[str] | Mapping[Sequence[str], Sequence[Configuration]],
    configurations: Sequence[Configuration] = (),
    operations: str,
    traffic: str,
    **claims: Any,
) -> None:
    """Say what a kernel is meant to be; see `Declaration`.

    `dtypes` are those of `operand`, all with the same `configurations`, or groups of them each with its own.

    Raises:
        ValueError: for a kernel that is declared already, or a dtype that stands in two groups.

    Example:
        >>> from triten.triton_kernels.budget import declaration_of
        >>> declaration_of("triten.triton_kernels.products.matvec:matvec").operations
        '2 m k'
    """
    name = name_of(kernel)
    if name in DECLARATIONS:
        raise ValueError(f"declare: kernel '{name}' is declared already")
    groups = dtypes if isinstance(dtypes, Mapping) else {tuple(dtypes): configurations}
    meant: dict[str, tuple[Configuration, ...]] = {}
    for group, own in groups.items():
        for dtype in group:
            if dtype in meant:
                raise ValueError(f"declare: kernel '{name}': dtype {dtype} is declared twice")
            meant[dtype] = tuple(own)
    DECLARATIONS[name] = Declaration(
        kernel, warps, why, operand, tuple(tile), meant, operations, traffic, **claims
    )
