"""Modules called at once, each on its device (`torch.nn.parallel.parallel_apply`)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from ...dispatch.layers.pytree import tree_leaves
from ...dispatch.tensor import Tensor
from ...runtime.device import device as Device
from ...runtime.grad_mode import is_grad_enabled, set_grad_enabled
from ..modules.module import Module
from .scatter_gather import as_device

__all__ = ["parallel_apply"]


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[int | Device | None] | None = None,
) -> list[Any]:
    """Call modules in threads, each with inputs of its own (`torch.nn.parallel.parallel_apply`).

    Args:
        modules: The modules, for example those that `replicate` returns.
        inputs: The positional arguments of each module: a tuple, or one argument.
        kwargs_tup: The keyword arguments of each module. Default: None.
        devices: The current device of each call. Default: the device of its first tensor.

    Returns:
        The results of the modules.

    Raises:
        AssertionError: The arguments have different lengths.
        Exception: The first module's exception, with the index of the module in a note.

    Example:
        >>> import triten as tt
        >>> from triten.nn.parallel import parallel_apply
        >>> parallel_apply([tt.nn.ReLU(), tt.nn.Tanh()], [tt.tensor([-1.0]), tt.zeros(1)], devices=["cpu", "cpu"])
        [tensor([0.]), tensor([0.])]
    """
    count = len(modules)
    for values, name in ((inputs, "inputs"), (kwargs_tup, "kwargs_tup"), (devices, "devices")):
        if values is not None and len(values) != count:
            raise AssertionError(
                f"The number of modules {count} is not equal to the number of {name} {len(values)}"
            )
    options = [{}] * count if kwargs_tup is None else list(kwargs_tup)
    requested_devices = [None] * count if devices is None else list(devices)
    is_recorded = is_grad_enabled()
    autocast = _autocast_state()
    results: list[Any] = [None] * count
    errors: list[BaseException | None] = [None] * count

    def work(number: int) -> None:
        module_input = inputs[number]
        arguments = tuple(module_input) if isinstance(module_input, (list, tuple)) else (module_input,)
        before = set_grad_enabled(is_recorded)
        try:
            requested = requested_devices[number]
            device = (
                as_device(requested) if requested is not None else _device_of((arguments, options[number]))
            )
            with ExitStack() as entered:
                if device.type == "cuda":
                    from ... import cuda

                    entered.enter_context(cuda.device(device))
                    entered.enter_context(cuda.stream(streams[number]))
                if autocast is not None:
                    entered.enter_context(autocast())
                results[number] = modules[number](*arguments, **options[number])
        except Exception as error:
            error.add_note(f"Caught in replica {number} of parallel_apply")
            errors[number] = error
        finally:
            set_grad_enabled(before)

    streams = [_stream(each, values) for each, values in zip(requested_devices, inputs, strict=True)]
    if count == 1:
        work(0)
    else:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for error in errors:
        if error is not None:
            raise error
    return results


def _device_of(values: Any) -> Device:
    """Return the device of the first tensor among `values`.

    Raises:
        RuntimeError: There is no tensor.
    """
    for each in tree_leaves(values):
        if isinstance(each, Tensor):
            return each.device
    raise RuntimeError("no device was provided and no tensor input was found; device cannot be resolved")


def _stream(requested: int | Device | None, values: Any) -> Any:
    """Return the caller's current CUDA stream, which the worker thread continues on; None without CUDA."""
    tensors = [each for each in tree_leaves(values) if isinstance(each, Tensor)]
    device = as_device(requested) if requested is not None else (tensors[0].device if tensors else None)
    if device is None or device.type != "cuda":
        return None
    from ... import cuda

    return cuda.current_stream(device)


def _autocast_state() -> Any:
    """Return a context that enters the caller's autocast in another thread; None if autocast is off."""
    from ... import get_autocast_dtype, is_autocast_enabled

    kind = next((each for each in ("cuda", "cpu") if is_autocast_enabled(each)), None)
    if kind is None:
        return None
    from ...amp import autocast

    dtype = get_autocast_dtype(kind)
    return lambda: autocast(kind, dtype=dtype)
