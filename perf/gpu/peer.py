"""The same numbers for both libraries: tensors over one memory, and whether results agree.

On a GPU triten's tensors stand on PyTorch's memory, so that nothing is copied and both read the same bytes. In a
rehearsal, without a GPU, PyTorch computes on the CPU and the numbers are copied.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

tt: ModuleType = importlib.import_module("..", __package__.rpartition(".")[0])

# Tolerance of ||ours - theirs|| / ||theirs||: both round once to the dtype and sum in float32, in another
# order.
AGREEMENT = {"float64": 1e-10, "float32": 1e-4, "float16": 4e-3, "bfloat16": 2e-2}
TF32_AGREEMENT = 2e-3


class Pair(NamedTuple):
    """One tensor as each library has it; `theirs` is None without PyTorch."""

    ours: Any
    theirs: Any


class Peer:
    """PyTorch beside triten, or triten alone where PyTorch is not installed or not wanted."""

    def __init__(self, enabled: bool, rehearsal: bool) -> None:
        self.rehearsal = rehearsal
        self.library: ModuleType | None = None
        self.note = ""
        if not enabled:
            self.note = "PyTorch was not wanted"
        elif importlib.util.find_spec("torch") is None:
            self.note = "PyTorch is not installed"
        else:
            library = importlib.import_module("torch")
            if rehearsal or library.cuda.is_available():
                self.library = library
            else:
                self.note = "PyTorch sees no GPU"
        self.device = "cpu" if rehearsal else "cuda"

    def randn(self, shape: Sequence[int], dtype: str, *, channels_last: bool = False) -> Pair:
        """Sample normal numbers as a tensor of each library."""
        if self.library is None:
            made = tt.randn(*shape, device="cuda").to(getattr(tt, dtype))
            return Pair(made.contiguous(memory_format=tt.channels_last) if channels_last else made, None)
        theirs = self.library.randn(*shape, device=self.device).to(getattr(self.library, dtype))
        if channels_last:
            theirs = theirs.to(memory_format=self.library.channels_last)
        return Pair(self.adopt(theirs), theirs)

    def randint(self, high: int, shape: Sequence[int], dtype: str) -> Pair:
        """Sample integers from 0 to below `high` as a tensor of each library."""
        if self.library is None:
            return Pair(tt.randint(0, high, tuple(shape), device="cuda", dtype=getattr(tt, dtype)), None)
        kind = getattr(self.library, dtype)
        theirs = self.library.randint(0, high, tuple(shape), device=self.device, dtype=kind)
        return Pair(self.adopt(theirs), theirs)

    def adopt(self, theirs: Any) -> Any:
        """Return a triten tensor with the same elements; on a GPU it shares the memory and keeps it alive."""
        sizes, strides = tuple(theirs.shape), tuple(theirs.stride())
        dtype = getattr(tt, str(theirs.dtype).removeprefix("torch."))
        if self.rehearsal:
            span = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
            flat = theirs.as_strided((span,), (1,)).contiguous().view(_torch(theirs, "uint8"))
            memory = tt.from_numpy(flat.numpy().copy().view(dtype.np)).to("cuda")
            return memory.as_strided(sizes, strides)
        nbytes = theirs.untyped_storage().nbytes()
        pointer = tt.library.DataPtr(
            theirs.data_ptr(), nbytes, tt.device("cuda", theirs.device.index), context=theirs
        )
        return tt.library.from_blob(pointer, sizes, strides, dtype=dtype)

    def disagreement(
        self, ours: Any, theirs: Any, allowed: float, exact: Callable[[], Any] | None = None
    ) -> str | None:
        """Describe the difference between triten's result and PyTorch's.

        Return None if they agree within `allowed`. Also return None if triten's result is at least as close
        to `exact`, PyTorch's float64 result, since PyTorch accumulates some sums in 16 bits.
        """
        if theirs is None:
            return None
        if tuple(ours.shape) != tuple(theirs.shape):
            return f"shape {tuple(ours.shape)}, PyTorch's is {tuple(theirs.shape)}"
        left, right = self.brought(ours, theirs), theirs
        if not right.dtype.is_floating_point:
            return None if bool((left == right).all()) else "elements differ from PyTorch's"
        float64 = _torch(theirs, "float64")
        distance = _distance(left.to(float64), right.to(float64))
        if distance <= allowed:
            return None
        if exact is not None:
            truth = exact()
            if _distance(left.to(float64), truth) <= _distance(right.to(float64), truth):
                return None
        return f"{distance:.2g} from PyTorch's, allowed {allowed:.2g}"

    def brought(self, ours: Any, like: Any) -> Any:
        """Copy a triten result into a PyTorch tensor."""
        assert self.library is not None
        dtype = getattr(self.library, ours.dtype.name)
        ours = ours.detach().contiguous()
        if self.rehearsal:
            array = ours.cpu().numpy()
            flat = self.library.from_numpy(array.reshape(-1).view(np.uint8).copy()).view(dtype)
            return flat.reshape(tuple(ours.shape))
        out = self.library.empty(tuple(ours.shape), dtype=dtype, device=self.device)
        cuda = tt.library.driver()
        cuda.copy_device_to_device(out.data_ptr(), ours.data_ptr(), math.prod(ours.shape) * ours.itemsize, 0)
        cuda.synchronize()
        return out

    def synchronize(self) -> None:
        """Wait for both."""
        tt.cuda.synchronize()
        if self.library is not None and not self.rehearsal:
            self.library.cuda.synchronize()

    def empty_caches(self) -> None:
        """Give unused memory of both libraries back, so that neither starves the other."""
        tt.cuda.empty_cache()
        if self.library is not None and not self.rehearsal:
            self.library.cuda.empty_cache()


def _distance(got: Any, expected: Any) -> float:
    return float((got - expected).norm()) / max(float(expected.norm()), 1e-30)


def _torch(tensor: Any, name: str) -> Any:
    return getattr(importlib.import_module(type(tensor).__module__.partition(".")[0]), name)
