"""Packages of kernels, whose modules are imported when one of their kernels is first needed.

`generated/kernel_index.py`, written by `make generate`, maps kernels to the modules that register them.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

BACKENDS = ("cpu", "cuda")
"""The device types in the order of the index's columns."""


class KernelPackage(NamedTuple):
    """Package whose modules register a device type's kernels.

    Args:
        name: Full name of the package.
        device_type: Device type in `BACKENDS`.
    """

    name: str
    device_type: str

    def load(self, kernel: str | None = None) -> None:
        """Import the module that registers a kernel, if the index lists it; for None, import all modules.

        Args:
            kernel: Name of its stub.
        """
        if kernel is None:
            for module in self.modules():
                import_module(f"{self.name}.{module}")
            return
        from ..generated.kernel_index import KERNELS

        registering = KERNELS.get(kernel, (None, None))[BACKENDS.index(self.device_type)]
        if registering is not None:
            import_module(f"{self.name}.{registering}")

    def modules(self) -> list[str]:
        """Return the names of all modules below the package, including modules that register nothing."""
        from pkgutil import walk_packages

        package = import_module(self.name)
        prefix = f"{self.name}."
        return sorted(module.name.removeprefix(prefix) for module in walk_packages(package.__path__, prefix))
