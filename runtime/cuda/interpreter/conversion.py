"""Kernels that were decorated before triten chose the interpreter: each is interpreted from then on.

The functions of Triton's own language are among them. Every object keeps its identity, so that references from other
modules and from autotuners stay valid.
"""

from __future__ import annotations

import gc
from typing import Any

import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

_OPTIONS = ("version", "do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline")


class ConvertedFunction(JITFunction):  # type: ignore[misc]
    """A `JITFunction` that runs as an `InterpretedFunction`. It is never constructed: `__class__` is assigned."""

    _interpreted: InterpretedFunction

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Enqueue the interpreted kernel."""
        return self._interpreted.run(*args, **kwargs)

    def rewrite(self) -> Any:
        """Return the function that the interpreter calls for each program instance."""
        return self._interpreted.rewrite()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._interpreted(*args, **kwargs)


def interpret_compiled_kernels() -> None:
    """Make every `@triton.jit` function of the process an interpreted one. Gluon's functions stay as they are."""
    for each in gc.get_objects():
        if type(each) is JITFunction:
            _convert(each)
    for name, each in list(vars(tl.tensor).items()):
        if isinstance(each, ConvertedFunction):
            setattr(tl.tensor, name, _method(each))


def _convert(kernel: Any) -> None:
    options = {name: getattr(kernel, name) for name in _OPTIONS}
    interpreted = InterpretedFunction(
        kernel.fn, **options, repr=kernel._repr, launch_metadata=kernel.launch_metadata
    )
    interpreted.pre_run_hooks = kernel.pre_run_hooks
    kernel._interpreted = interpreted
    kernel.__class__ = ConvertedFunction


def _method(function: Any) -> Any:
    def method(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return method
