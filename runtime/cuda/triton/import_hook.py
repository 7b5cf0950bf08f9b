"""Triton is told of triten's devices when both are there, whichever comes first; neither imports the other for it."""

from __future__ import annotations

import sys

from ...lazy_import import when_imported
from ..driver import Driver

_MODULE = "triton.runtime.driver"


def offer_to_triton(owner: Driver) -> None:
    """Install triten's driver in Triton, now or when Triton is imported, unless PyTorch is in charge."""
    if _MODULE in sys.modules:
        _install(owner)
    elif "triton" not in sys.modules:
        when_imported("triton", lambda: _install(owner))


def _install(owner: Driver) -> None:
    from .triton_driver import install

    install(owner, automatic=True)
