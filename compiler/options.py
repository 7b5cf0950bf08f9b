"""Options and modes of `tt.compile`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MODES: dict[str, tuple[str, ...]] = {
    "default": (),
    "lite": (),
    "reduce-overhead": ("triton.cudagraphs",),
    "max-autotune-no-cudagraphs": ("max_autotune",),
    "max-autotune": ("max_autotune", "triton.cudagraphs"),
}
"""PyTorch's modes, and the options that each of them sets (`torch._inductor.list_mode_options`)."""


@dataclass(frozen=True)
class Options:
    """Compilation options.

    Attributes:
        cudagraphs: If True, capture CUDA programs as CUDA graphs.
        tunes: If True, autotune the kernels of CUDA programs.
        dynamic: If False, capture each choice of sizes separately.
    """

    cudagraphs: bool = False
    dynamic: bool | None = None
    tunes: bool = False


PLAIN_OPTIONS = Options()

PASSES = frozenset(
    {
        "_post_fusion_custom_pass",
        "_pre_fusion_custom_pass",
        "custom_partitioner_fn",
        "joint_custom_post_pass",
        "joint_custom_pre_pass",
        "post_grad_custom_post_pass",
        "post_grad_custom_pre_pass",
        "post_grad_fusion_options",
        "pre_grad_custom_pass",
        "pre_grad_fusion_options",
    }
)
"""Settings of PyTorch's code generator that are a program's own passes over its graphs."""


def refuse_pass(name: str, value: Any) -> None:
    """Raise NotImplementedError if a setting is a pass over PyTorch's graphs, which this compiler does not have."""
    if name in PASSES and value is not None and value != {}:
        raise NotImplementedError(
            f"torch._inductor.config.{name} = {value!r}: triten's compiler has graphs of its own and runs no passes of "
            "a program over them; leave the setting None, or rewrite the graph of torch.fx.symbolic_trace or make_fx "
            "and compile the result"
        )


def options_of(mode: str | None, options: Mapping[str, Any] | None, dynamic: bool | None = None) -> Options:
    """Return the options of a mode, or those given by PyTorch's names. Unsupported options have no effect.

    Raises:
        RuntimeError: both are given, or the mode is unknown.
        NotImplementedError: an option is a pass over PyTorch's graphs.

    Example:
        >>> from triten.compiler.options import options_of
        >>> options_of("reduce-overhead", None) == options_of(None, {"triton.cudagraphs": True})
        True
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    chosen = dict.fromkeys(MODES[mode or "default"], True) if options is None else dict(options)
    for name, value in chosen.items():
        refuse_pass(name, value)
    return Options(bool(chosen.get("triton.cudagraphs")), dynamic, bool(chosen.get("max_autotune")))
