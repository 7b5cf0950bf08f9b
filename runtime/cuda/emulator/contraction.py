"""Stores in which the lanes of one warp disagree, since a reduction gave each of them another result.

A butterfly of ``shfl.sync`` and additions gives every lane of a warp the same sum. Where the compiler contracts the
first addition with the multiplication before it (``enable_fp_fusion``), a lane rounds its own product less often than
the one that it was sent: the lanes' sums differ. All of them store, and it is undefined whose value stays (NVIDIA,
CUDA C++ Programming Guide, "SIMT Architecture"). Triton compiles reductions so; this is no race of the program.

A reduction that selects, such as `tl.argmax`, keeps the value that was sent where a comparison is false. Both lanes of
an exchange keep the other's value if one is NaN.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .fault import RACE, Fault
from .ptx import Function, Pair, Register

Array = np.ndarray[Any, Any]

WARP_SIZE = 32


def contracts_exchanges(function: Function) -> bool:
    """Return whether an ``fma`` or a ``selp`` of the function takes what another lane has sent."""
    sent: set[str] = set()
    for each in function.instructions:
        first, *others = each.operands or (None,)
        if not isinstance(first, Register):
            if each.opcode == "shfl" and isinstance(first, Pair) and isinstance(first.first, Register):
                sent.add(first.first.name)
            continue
        takes = any(isinstance(other, Register) and other.name in sent for other in others)
        if each.opcode in ("fma", "selp") and takes:
            return True
        if each.opcode == "shfl" or (each.opcode in ("mov", "cvt") and takes):
            sent.add(first.name)
    return False


class StoreCheck:
    """Finds stores of different values to one place by one instruction.

    Args:
        kernel: the name, for the warning.
        contracts: whether lanes of a warp may disagree (`contracts_exchanges`). The first time that they do is a
            RuntimeWarning.
    """

    def __init__(self, kernel: str, contracts: bool) -> None:
        self.kernel, self.contracts = kernel, contracts
        self.warned = False

    def check(
        self, differs: Array, places: Array, threads: Array, nbytes: int, base: Array | None = None
    ) -> None:
        """Raise Fault unless what lies at each place is what was stored.

        Args:
            differs: for each store, or each element of its row, whether something else lies there now.
            places: the address of each store.
            threads: the thread of each store.
            nbytes: the bytes of one store.
            base: for shared memory, where the memory of each store's block begins.
        """
        if differs.ndim > 1:
            differs = np.any(differs, axis=1)
        if self.contracts:
            at = np.isin(places, places[differs])
            warps = np.unique(np.stack([places[at].view(np.int64), threads[at] // WARP_SIZE]), axis=1)[0]
            differs = np.logical_and(
                differs, np.isin(places.view(np.int64), warps[1:][warps[1:] == warps[:-1]])
            )
            if not differs.any():
                return self._warn()
        i = int(np.flatnonzero(differs)[0])
        where = f"{int(places[i]):#x}" if base is None else f"{int(places[i] - base[i]):#x} of shared memory"
        raise Fault(
            f"{RACE}: two threads store different values of {nbytes} bytes at {where}", int(threads[i])
        )

    def _warn(self) -> None:
        if not self.warned:
            self.warned = True
            warnings.warn(
                f"kernel '{self.kernel}': the lanes of a warp store different results of a reduction, and it is "
                "undefined which stays: a multiplication was contracted into it (launch with "
                "enable_fp_fusion=False), or it selects, as argmax does, and met NaN",
                RuntimeWarning,
                stacklevel=2,
            )
