"""Triton is told of triten's devices when both are there, whichever comes first; neither imports the other for it.

A driver that exists is installed in Triton. Before that, Triton finds it where it looks for its default driver: a
program may ask `triton.runtime.driver.active` before it uses a CUDA device.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from ...lazy_import import when_imported
from ..driver import Driver, current_driver, driver, is_available

_MODULE = "triton.runtime.driver"
_ROOT = __package__.partition(".")[0]


def offer_to_triton(owner: Driver) -> None:
    """Install triten's driver in Triton, now or when Triton is imported, unless PyTorch is in charge."""
    if _MODULE in sys.modules:
        _install(owner)
    elif "triton" not in sys.modules:
        when_imported("triton", lambda: _install(owner))


def torch_has_cuda() -> bool:
    """Return whether the process has imported PyTorch, and PyTorch sees a GPU. triten under its name does not count."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return cuda is not None and torch is not sys.modules.get(_ROOT) and bool(cuda.is_available())


def _install(owner: Driver) -> None:
    from .triton_driver import install

    install(owner, automatic=True)


def replace_default() -> None:
    """Have Triton choose triten's driver by default, and interpret kernels where the environment says so."""
    # Triton imports this module before it decorates the first function of its language.
    if os.environ.get("TRITEN_CUDA") == "interpret" and "triton.language" not in sys.modules:
        os.environ["TRITON_INTERPRET"] = "1"
    module = sys.modules[_MODULE]
    create: Callable[[], Any] = vars(module)["_create_driver"]

    def create_driver() -> Any:
        # A driver that exists was installed before; `use_triton_driver(False)` has given the choice back since.
        if current_driver() is not None or torch_has_cuda() or not is_available():
            return create()
        driver()
        return vars(module)["driver"]._active or create()

    vars(module)["_create_driver"] = create_driver
