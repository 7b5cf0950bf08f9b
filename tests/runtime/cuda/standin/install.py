"""Makes the stand-in the CUDA driver of this process, or of those that it starts."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triten.tests.runtime.cuda.standin.execution import Execution


SHARED = {80: 166_912, 90: 232_448}
"""Bytes of shared memory that a block may have on the devices of which the emulator executes the code."""

_kept: list[Execution] = []
"""The library calls its functions as long as the process lives."""


def executing(capability: int = 80) -> dict[str, int]:
    """Return the settings of devices that execute; few multiprocessors keep persistent kernels small."""
    return {
        "capability": capability,
        "shared": SHARED[capability],
        "multiprocessors": 4,
        "memory": 2**31,
    }


def prepare(folder: Path) -> None:
    """Build the library into a folder; processes that are started from here on execute their work over it.

    Devices are those that ``TRITEN_EMULATE`` names: of sm_80, or ``90``. Raises RuntimeError where the library cannot
    be built or used.
    """
    from triten.tests.runtime.cuda.standin.build_library import build, missing

    if missing():
        raise RuntimeError(missing())
    os.environ["LD_LIBRARY_PATH"] = str(build(folder).parent)
    os.environ["STANDIN_EXECUTE"] = "1"
    os.environ["STANDIN_DEVICES"] = "2"
    for name, value in executing(int(os.environ.get("TRITEN_EMULATE") or "80")).items():
        os.environ[f"STANDIN_{name.upper()}"] = str(value)


def install() -> Execution | None:
    """Replace CuPy's runtime by the stand-in, whose folder is in ``LD_LIBRARY_PATH``.

    Return the executor if ``STANDIN_EXECUTE=1`` is set; otherwise the stand-in executes no work and this returns None.

    Call it before triten uses a device. With ``STANDIN_BLOCKS=0`` all of an allocator's segment is live, and the
    allocator is exactly as on a GPU; otherwise the allocator reports each block.
    """
    from cupy.cuda import runtime

    library = ctypes.CDLL("libcuda.so.1")
    replaced = library.standin_replace_runtime(runtime.__file__.encode())
    assert replaced > 40, f"CuPy's runtime module holds {replaced} of the functions to replace"
    if os.environ.get("STANDIN_EXECUTE") != "1":
        return None
    from triten.tests.runtime.cuda.standin.execution import Execution

    execution = Execution(library, int(os.environ.get("STANDIN_DEVICES", "1")))
    _kept.append(execution)
    if os.environ.get("STANDIN_BLOCKS") != "0":
        execution.follow_blocks()
    return execution
