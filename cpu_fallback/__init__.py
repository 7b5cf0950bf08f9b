"""NumPy kernels of the CPU, a module for each family of operators.

They register under stubs at import and reach users through the dispatcher only. A kernel is a factory: it
sees the `StructuredCall` (dtypes, sizes, strides) once, and returns the function over ndarrays that a plan
calls. No loop over elements in Python. NumPy comes from `undispatched.py`, whose functions ask nobody whether an
argument handles the call.

A module is imported when a kernel of it is first wanted. Which module that is stands in `kernel_index.py`, written by
`python -m triten.cpu_fallback`.
"""

from __future__ import annotations

from importlib import import_module


def load(name: str | None = None) -> None:
    """Import the module that registers a kernel, if the index has it; all modules for None.

    Args:
        name: of a stub, or of a composition's kernel on the host.
    """
    if name is None:
        wanted = [module for module in modules() if module != "kernel_index"]
    else:
        from .kernel_index import MODULES

        wanted = [MODULES[name]] if name in MODULES else []
    for module in wanted:
        import_module(f".{module}", __name__)


def modules() -> list[str]:
    """The names of all modules here, those among them that register nothing."""
    from pkgutil import iter_modules

    return [module.name for module in iter_modules(__path__) if module.name != "__main__"]
