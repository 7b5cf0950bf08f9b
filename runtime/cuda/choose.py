"""Choice of the driver: CuPy's on a GPU, or a simulated one if the environment requests it.

An implementation is imported only when it is chosen, so that the first use of a device imports CuPy or Triton.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING

from ..lazy_import import import_shielded, when_imported
from . import provider

if TYPE_CHECKING:
    from .driver import Driver

_NO_GPU = (
    "No CUDA GPUs are available ({reason}). Set TRITEN_CUDA=interpret in the environment before the first "
    "use of a CUDA device to run kernels in Triton's interpreter instead, or TRITEN_CUDA=emulate to execute what they "
    "are compiled to."
)


def choose() -> Driver:
    """Return the driver that the environment requests; raise the errors of `driver.driver`."""
    from .driver import wanted

    return {"interpret": _interpreter, "emulate": _emulator}.get(wanted(), _cupy)()


def count_devices() -> int:
    """Return the number of devices without choosing a driver; raise only for a malformed environment."""
    from .driver import is_simulated

    if is_simulated():
        from .simulated.driver import DEVICE_COUNT

        return 0 if importlib.util.find_spec("triton") is None else DEVICE_COUNT
    if importlib.util.find_spec("cupy") is None:
        return 0
    from .cupy import driver as cupy_driver

    return cupy_driver.count_devices()[0]


def announce(driver: Driver) -> None:
    """Install the driver in Triton, now or when Triton is imported."""
    from .triton.import_hook import offer_to_triton

    offer_to_triton(driver)


def _answer_triton() -> None:
    """Make triten's driver Triton's default."""
    from .triton.import_hook import replace_default

    replace_default()


def _interpreter() -> Driver:
    if importlib.util.find_spec("triton") is None:
        raise RuntimeError("TRITEN_CUDA=interpret needs Triton: pip install 'triton >= 3.9'")
    os.environ["TRITON_INTERPRET"] = "1"
    if "triton" in sys.modules:
        from .interpreter.conversion import interpret_compiled_kernels

        interpret_compiled_kernels()
    import_shielded("triton")
    from .interpreter import (  # noqa: F401  takes over Triton's own way of running a kernel
        launch as interpreter_launch,
    )
    from .interpreter.driver import InterpreterDriver

    return InterpreterDriver()


def _emulator() -> Driver:
    if importlib.util.find_spec("triton") is None:
        raise RuntimeError("TRITEN_CUDA=emulate needs Triton: pip install 'triton >= 3.9'")
    from .emulator.driver import EmulatorDriver

    return EmulatorDriver()


def _cupy() -> Driver:
    if importlib.util.find_spec("cupy") is None:
        raise RuntimeError(
            _NO_GPU.format(
                reason="cupy is not installed: pip install 'triten[cuda13]', or 'triten[cuda12]' for CUDA 12"
            )
        )
    from .cupy.driver import CuPyDriver, count_devices

    count, reason = count_devices()
    if count == 0:
        raise RuntimeError(_NO_GPU.format(reason=reason))
    return CuPyDriver(count)


provider.register(choose, count_devices, announce)
when_imported("triton.runtime.driver", _answer_triton)
