"""Benign conflicting stores: threads of a block store values that differ by rounding, after a reduction.

A butterfly of ``shfl.sync`` and additions gives every lane of a warp the same sum. The compiler may contract the
first addition with the multiplication before it (``enable_fp_fusion``). Then a lane rounds its own product less often
than the one that it was sent, and the lanes' sums differ. All lanes store, and so do the warps that hold copies of a
small tile. It is undefined whose value stays (NVIDIA, CUDA C++ Programming Guide, "SIMT Architecture"). Triton
compiles reductions this way, so it is no race of the program. `error_bounds` bounds the difference.

A selecting reduction, such as `tl.argmax`, keeps the received value if a comparison is false. Both lanes of an
exchange keep the other's value if the compared keys are equal, or if one is NaN.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .arithmetic import bf2
from .fault import RACE, Fault
from .ptx import Function, Instruction, Not, Operand, Pair, Register, Vector

Array = np.ndarray[Any, Any]
Bound = tuple[Any, str]
"""Error bounds of a register, one for each thread, and its floating-point type ("" for bits or integers)."""

FLOATS: dict[str, Any] = {"f16": np.float16, "bf16": bf2, "f32": np.float32, "f64": np.float64}
_COPIES = ("mov", "cvt")
OPAQUE = ("ld", "ldmatrix", "st", "atom", "red", "call", "bar", "barrier", "bra", "mbarrier")
"""Instructions that pass on no bound: memory has one value, regardless of the storing thread."""


def registers_of(*operands: Operand) -> Iterator[str]:
    """Yield the names of registers among operands, including those in vectors and pairs."""
    for operand in operands:
        if isinstance(operand, Register):
            yield operand.name
        elif isinstance(operand, Not):
            yield from registers_of(operand.operand)
        elif isinstance(operand, Vector):
            yield from registers_of(*operand.items)
        elif isinstance(operand, Pair):
            yield from registers_of(*(each for each in operand if each is not None))


def contracts_exchanges(function: Function) -> bool:
    """Return True if an ``fma`` reads an exchanged value, or a ``selp`` chooses by comparing with one."""
    sent: set[str] = set()
    compared: set[str] = set()
    for each in function.instructions:
        if not each.operands:
            continue
        targets, sources = set(registers_of(each.operands[0])), set(registers_of(*each.operands[1:]))
        if each.opcode == "fma" and sources & sent:
            return True
        if each.opcode == "selp" and sources & sent and sources & compared:
            return True
        if each.opcode == "shfl" or (each.opcode in _COPIES and sources & sent):
            sent |= targets
        elif (each.opcode == "setp" and sources & sent) or (
            each.modifiers[-1:] == ("pred",) and sources & compared
        ):
            compared |= targets
    return False


def exchanged_registers(function: Function) -> dict[str, str]:
    """Return the registers that depend on an exchange, with their floating-point types ("" for bits or integers).

    Empty unless `contracts_exchanges`: otherwise the lanes of an exchange agree to the bit.
    """
    exchanged: dict[str, str] = {}
    if not contracts_exchanges(function):
        return exchanged
    for each in function.instructions:
        if each.opcode == "shfl":
            exchanged |= dict.fromkeys(registers_of(*each.operands[:2]), "")
    changed = True
    while changed:
        changed = False
        for each in function.instructions:
            if each.opcode in OPAQUE or not each.operands:
                continue
            sources = [name for name in registers_of(*each.operands[1:]) if name in exchanged]
            if not sources:
                continue
            kind = result_type(each.opcode, each.modifiers)
            if not kind and copies_bits(each):
                kind = max(
                    (exchanged.get(name, "") for name in registers_of(*each.operands[1:3])), default=""
                )
            for name in registers_of(each.operands[0]):
                if exchanged.get(name) is None or (kind and not exchanged[name]):
                    exchanged[name], changed = kind, True
    return exchanged


def copies_bits(each: Instruction) -> bool:
    """Return True if the result has the bits, and so the type, of one of the first two sources."""
    if each.opcode == "cvt":
        return FLOATS.keys().isdisjoint(each.modifiers)
    return each.opcode in ("mov", "shfl", "selp")


def result_type(opcode: str, modifiers: Sequence[str]) -> str:
    """Return the floating-point type of an instruction's result, "" if its name does not say one."""
    if opcode in ("setp", "set", "and", "or", "xor", "not"):
        return ""
    name = modifiers[-2] if opcode == "cvt" else modifiers[-1] if modifiers else ""
    return name if name in FLOATS else ""


class StoreCheck:
    """Detector of conflicting stores to one address by one instruction.

    The first conflict that error bounds excuse emits a RuntimeWarning.

    Args:
        kernel: Name of the kernel, for the warning.
    """

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.warned = False

    def check(
        self,
        differs: Array,
        values: Array,
        addresses: Array,
        threads: Array,
        blocks: Array,
        nbytes: int,
        bounds: Sequence[Bound | None] = (),
        base: Array | None = None,
    ) -> None:
        """Raise Fault unless the memory has the stored values, or values that differ by rounding alone.

        Args:
            differs: For each store, or each element of its row, True if the memory now has another value.
            values: Stored values, in the shape of `differs`.
            addresses: Address of each store.
            threads: Thread of each store.
            blocks: Block of each store.
            nbytes: Bytes of one store.
            bounds: For each element of a row, the error bounds of all threads (`error_bounds`).
            base: For shared memory, the start of the memory of each store's block.
        """
        if differs.ndim == 1:
            differs, values = differs[:, None], values[:, None]
        stayed = _last_at(addresses)
        wrong = np.zeros(len(differs), np.bool_)
        for i in range(differs.shape[1]):
            bound = bounds[i] if bounds else None
            wrong |= differs[:, i] & ~_agree(values[:, i], stayed, threads, bound)
        wrong |= differs.any(axis=1) & (blocks != blocks[stayed])
        if not wrong.any():
            return self._warn()
        i = int(np.flatnonzero(wrong)[0])
        where = (
            f"{int(addresses[i]):#x}"
            if base is None
            else f"{int(addresses[i] - base[i]):#x} of shared memory"
        )
        raise Fault(
            f"{RACE}: two threads store different values of {nbytes} bytes at {where}", int(threads[i])
        )

    def _warn(self) -> None:
        if not self.warned:
            self.warned = True
            warnings.warn(
                f"kernel '{self.kernel}': the threads of a block store results of a reduction that differ by rounding, "
                "and it is undefined which stays: a multiplication was contracted into it (launch with "
                "enable_fp_fusion=False), or it selects, as argmax does, among equal keys or NaN",
                RuntimeWarning,
                stacklevel=2,
            )


def _last_at(addresses: Array) -> Array:
    """Return, for each store, the index of the last store to the same address: its value stays."""
    _, last, which = np.unique(addresses[::-1], return_index=True, return_inverse=True)
    last_store: Array = addresses.size - 1 - last[which[::-1]]
    return last_store


def _agree(values: Array, stayed: Array, threads: Array, bound: Bound | None) -> Array:
    """Return which values are within their error bounds of the value that stayed, or both NaN."""
    if bound is None:
        return np.zeros(values.size, np.bool_)
    errors, kind = bound
    errors = errors[threads] if np.ndim(errors) else np.full(threads.size, errors)
    allowed = errors + errors[stayed]
    if not kind or np.dtype(FLOATS[kind]).itemsize != values.dtype.itemsize:
        # Bits that are no number have no distance: only an undefined selection excuses them.
        undefined: Array = np.isinf(allowed) if not kind else allowed > 0
        return undefined
    numbers = values.view(FLOATS[kind]).astype(np.float64)
    near = np.abs(numbers - numbers[stayed]) <= allowed
    agree: Array = near | np.isinf(allowed) | (np.isnan(numbers) & np.isnan(numbers[stayed]))
    return agree
