"""PyTorch's code generator by its private name (`torch._inductor`): `tt.compile` generates code here.

`config` keeps what is set; `utils` answers questions about the device; `runtime` has functions for Triton kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..compiler import cudagraph_mark_step_begin as cudagraph_mark_step_begin
from ..compiler.options import MODES as _MODES
from ..runtime.lazy_import import lazy_names as _lazy_names

if TYPE_CHECKING:
    from . import config as config
    from . import decomposition as decomposition
    from . import runtime as runtime
    from . import utils as utils

__all__ = ["compile", "cudagraph_mark_step_begin", "list_mode_options"]

__getattr__ = _lazy_names(__name__, {}, ["config", "decomposition", "runtime", "utils"])[0]


def compile(gm: Any, example_inputs: Any, options: dict[str, Any] | None = None) -> Any:
    """Return a compiled graph module, as `tt.compile` makes it."""
    from ..compiler import compile as compiled

    return compiled(gm, options=options)


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """Return the options that a mode of `tt.compile` sets, or those of each mode.

    Args:
        mode: A mode's name. Default: all modes.
        dynamic: No effect: no mode's options depend on it.

    Raises:
        RuntimeError: There is no such mode.

    Example:
        >>> from triten._inductor import list_mode_options
        >>> list_mode_options("reduce-overhead")
        {'triton.cudagraphs': True}
    """
    options: dict[str, Any] = {name: dict.fromkeys(each, True) for name, each in _MODES.items()}
    if mode is None:
        return options
    if mode not in options:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(options)}")
    mode_options: dict[str, Any] = options[mode]
    return mode_options
