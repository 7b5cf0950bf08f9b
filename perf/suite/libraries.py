"""Common interface to triten and its baselines: tensor creation, results, and the number of threads."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np

from ...runtime.blas_threads import set_blas_threads
from ..refusal import RefusalError
from ..result_file import source_version
from .results import OURS
from .workload import Array, Operand

tt: ModuleType = importlib.import_module(__package__.partition(".")[0])

PHRASED = ("numexpr", "numba")
"""Libraries whose workloads are written in their own syntax."""
PEERS = {"cpu": ("numpy", "torch", *PHRASED), "cuda": ("torch", "cupy")}
ALL_PEERS = ("numpy", "torch", *PHRASED, "cupy")


class SetupError(RefusalError):
    """Error for a request that cannot be met on this machine; the message says what to do."""


class Library:
    """One library on one device."""

    def __init__(self, name: str, device: str) -> None:
        self.name = name
        self.device = device
        self.module = tt if name == OURS else importlib.import_module(name)

    @property
    def is_arrays(self) -> bool:
        """True if the library has arrays rather than tensors."""
        return self.has_phrases or self.name in ("numpy", "cupy")

    @property
    def has_phrases(self) -> bool:
        """True if the library computes on NumPy's arrays with statements of its own (`phrases`)."""
        return self.name in PHRASED

    @property
    def version(self) -> str:
        """Version of the library; for triten, the source version including the commit."""
        if self.name == OURS:
            return source_version()
        return str(self.module.__version__)

    def names(self) -> dict[str, Any]:
        """Return the names by which statements access the library."""
        if self.has_phrases:
            return {"ne" if self.name == "numexpr" else "nb": self.module, "np": np}
        if self.is_arrays:
            return {"np": self.module}
        functional = importlib.import_module(f"{self.module.__name__}.nn.functional")
        return {"tt": self.module, "lib": self.module, "F": functional, "device": self.device}

    def tensor(self, operand: Operand) -> Any:
        """Convert the operand to the library's tensor or array."""
        array = operand.array()
        if self.is_arrays:
            array = array if self.has_phrases else self.module.asarray(array)
            return array.astype(operand.dtype) if operand.dtype else array
        tensor = self.module.from_numpy(array).to(self.device)
        if operand.dtype:
            tensor = tensor.to(getattr(self.module, operand.dtype))
        if operand.channels_last:
            tensor = tensor.contiguous(memory_format=self.module.channels_last)
        return tensor.requires_grad_() if operand.requires_grad else tensor

    def value(self, result: Any) -> tuple[str, Array]:
        """Return a result's dtype, and its elements as an array of float64, complex128 or int64."""
        if isinstance(result, tuple | list):
            parts = [self.value(part) for part in result]
            return ", ".join(dtype for dtype, _ in parts), np.concatenate(
                [part.reshape(-1) for _, part in parts]
            )
        if isinstance(result, int | float):
            return type(result).__name__, np.asarray(result)
        if self.is_arrays:
            array = np.asarray(result.get() if self.name == "cupy" else result)
            return array.dtype.name, wide(array)
        dtype = str(result.dtype).rpartition(".")[2]
        tensor = result.detach()
        if dtype == "bfloat16" or dtype.startswith("float8"):
            tensor = tensor.to(self.module.float32)
        return dtype, wide(tensor.cpu().numpy())

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.device == "cpu":
            return
        if self.name == "cupy":
            self.module.cuda.get_current_stream().synchronize()
        else:
            self.module.cuda.synchronize()

    def set_threads(self, threads: int) -> bool:
        """Hold the library to this number of threads; False if NumPy's BLAS, triten's too, could not be held."""
        if not self.is_arrays or self.has_phrases:
            self.module.set_num_threads(threads)
        return set_blas_threads(threads) if self.name in (OURS, "numpy") else True

    def allow_tf32(self, allowed: bool) -> None:
        """Allow or forbid TF32 in float32 matmuls."""
        if not self.is_arrays:
            self.module.set_float32_matmul_precision("high" if allowed else "highest")


def wide(array: Array) -> Array:
    """Convert an array to the widest dtype of its kind."""
    kinds = {"f": np.float64, "c": np.complex128, "b": np.int64, "i": np.int64, "u": np.int64}
    return array.astype(kinds[array.dtype.kind])


def installed_peers(device: str) -> list[str]:
    """Return the installed baselines of a device."""
    return [name for name in PEERS[device] if importlib.util.find_spec(name) is not None]


def load_libraries(peers: Iterable[str], device: str, rehearsal: bool) -> list[Library]:
    """Import triten and the baselines.

    In a rehearsal on a simulated device, the baselines compute on the CPU.

    Raises:
        SetupError: for a device that is not there, a peer that is not installed or does not compute on the device.
    """
    if device == "cuda" and not tt.cuda.is_available():
        if os.environ.get("TRITEN_CUDA") == "interpret":
            raise SetupError(
                "TRITEN_CUDA=interpret needs Triton, which is not installed: pip install 'triton >= 3.9'"
            )
        raise SetupError(
            "no CUDA GPU is available here; TRITEN_CUDA=interpret with --rehearse runs every row without one"
        )
    libraries = [Library(OURS, device)]
    for name in dict.fromkeys(peers):
        if importlib.util.find_spec(name) is None:
            raise SetupError(
                f"the peer {name} is not installed: install it, or name others by --peers (none: --peers alone)"
            )
        if rehearsal and device == "cuda":
            if name == "torch":
                libraries.append(Library(name, "cpu"))
            continue
        if name not in PEERS[device]:
            raise SetupError(
                f"the peer {name} does not compute on {device}: peers there are {', '.join(PEERS[device])}"
            )
        library = Library(name, device)
        if device == "cuda" and name == "torch" and not library.module.cuda.is_available():
            raise SetupError(
                "the peer torch sees no GPU: install one built for CUDA, or leave it out of --peers"
            )
        libraries.append(library)
    return libraries
