"""Errors for gradients that are missing or arrive twice (torch/csrc/distributed/c10d/reducer.cpp)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..debug_level import DebugLevel, get_debug_level

__all__ = ["marked_twice", "unfinished"]

_UNFINISHED = "Expected to have finished reduction in the prior iteration before starting a new one. "
_UNUSED = "This error indicates that your module has parameters that were not used in producing loss. "
_CHANGED = (
    "This error indicates that your training graph has changed in this iteration, e.g., one parameter is used in first "
    "iteration, but then got unused in the second iteration. this is not compatible with static_graph set to True."
)
_ENABLE = (
    "You can enable unused parameter detection by passing the keyword argument `find_unused_parameters=True` to "
    "`torch.nn.parallel.DistributedDataParallel`, and by \n"
)
_ENABLED = (
    "Since `find_unused_parameters=True` is enabled, this likely  means that not all `forward` outputs participate in "
    "computing loss. You can fix this by "
)
_OUTPUTS = "making sure all `forward` function outputs participate in calculating loss. "
_STRUCTURE = (
    "\nIf you already have done the above, then the distributed data parallel module wasn't able to locate the output "
    "tensors in the return value of your module's `forward` function. Please include the loss function and the "
    "structure of the return value of `forward` of your module when reporting this issue (e.g. list, dict, iterable)."
)
_SET_DEBUG = (
    "\n In addition, you can set the environment variable TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL to print "
    "out information about which particular parameters did not receive gradient on this rank as part of this error"
)
_TWICE = (
    "Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use of a "
    "module parameter outside the `forward` function. Please make sure model parameters are not shared across multiple "
    "concurrent forward-backward passes. or try to use _set_static_graph() as a workaround if this module graph does "
    "not change during training loop.2) Reused parameters in multiple reentrant backward passes. For example, if you "
    "use multiple `checkpoint` functions to wrap the same part of your model, it would result in the same set of "
    "parameters been used by different reentrant backward passes multiple times, and hence marking a variable ready "
    "multiple times. DDP does not support such use cases in default. You can try to use _set_static_graph() as a "
    "workaround if your module graph does not change over iterations."
)


def unfinished(
    rank: int,
    missing: Sequence[int],
    names: Mapping[int, str],
    static_graph: bool,
    find_unused_parameters: bool,
) -> RuntimeError:
    """Return the error of a step that starts while gradients of the last step are missing.

    Args:
        rank: This process's rank.
        missing: Indices of the parameters without gradients.
        names: Names of the parameters.
        static_graph, find_unused_parameters: The options of the reducer.
    """
    if static_graph:
        text = _UNFINISHED + _CHANGED
    else:
        text = (
            _UNFINISHED + _UNUSED + (_ENABLED if find_unused_parameters else _ENABLE) + _OUTPUTS + _STRUCTURE
        )
    numbers = f"\nParameter indices which did not receive grad for rank {rank}: {' '.join(map(str, missing))}"
    if get_debug_level() is DebugLevel.OFF:
        return RuntimeError(text + numbers + _SET_DEBUG)
    called = ", ".join(names[each] for each in missing)
    return RuntimeError(f"{text}\nParameters which did not receive grad for rank {rank}: {called}{numbers}")


def marked_twice(index: int, names: Mapping[int, str]) -> RuntimeError:
    """Return the error of a parameter whose gradient arrives twice in one backward.

    Args:
        index: Index of the parameter.
        names: Names of the parameters.
    """
    is_off = get_debug_level() is DebugLevel.OFF
    name = "" if is_off else f" with name {names[index]}"
    hint = (
        " You can set the environment variable TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL to print parameter "
        "names for further debugging."
    )
    return RuntimeError(
        f"{_TWICE}\nParameter at index {index}{name} has been marked as ready twice. This means that multiple autograd "
        f"engine  hooks have fired for this particular parameter during this iteration.{hint if is_off else ''}"
    )
