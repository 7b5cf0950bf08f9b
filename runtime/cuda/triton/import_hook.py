"""Import hook that tells Triton about triten's devices, in either import order; neither imports the other for it.

If a driver exists, the hook installs it in Triton. Before that, Triton finds it as its default driver, since a
program may query `triton.runtime.driver.active` before it uses a CUDA device.
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
    """Return True if the process has imported PyTorch and it sees a GPU. triten imported as torch does not count."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return cuda is not None and torch is not sys.modules.get(_ROOT) and bool(cuda.is_available())


def _install(owner: Driver) -> None:
    from .triton_driver import install

    install(owner, automatic=True)


def replace_default() -> None:
    """Make triten's driver Triton's default, and interpret kernels if the environment says so."""
    # Triton imports this module before it decorates the first function of its language.
    if os.environ.get("TRITEN_CUDA") == "interpret" and "triton.language" not in sys.modules:
        os.environ["TRITON_INTERPRET"] = "1"
    module = sys.modules[_MODULE]
    create: Callable[[], Any] = vars(module)["_create_driver"]

    def create_driver() -> Any:
        # An existing driver was installed before; `use_triton_driver(False)` has since returned the choice to Triton.
        if current_driver() is not None or torch_has_cuda() or not is_available():
            return create()
        driver()
        return vars(module)["driver"]._active or create()

    vars(module)["_create_driver"] = create_driver
