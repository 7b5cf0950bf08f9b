"""`nn.DataParallel`: one process with several devices (`torch.nn.parallel.DataParallel`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from ...runtime.cuda.devices import device_count, is_available
from ...runtime.device import device as Device
from ...runtime.grad_mode import is_grad_enabled
from ..modules.module import Module
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter_kwargs

DeviceId = int | Device | str


class DataParallel(Module):
    """Data parallelism over several devices of one process (`torch.nn.DataParallel`).

    A call copies the module to the devices, calls the copies in threads, and puts their results together. Without a
    GPU, or with one, it calls the module. `DistributedDataParallel`, with a process for each device, is faster.

    Args:
        module: is called; it stays reachable as ``module``, and its parameters are on the first device.
        device_ids: all CUDA devices by default.
        output_device: The device of the gathered results. Default: the first of `device_ids`.
        dim: along which inputs are divided, and results put together.

    Example:
        >>> import triten as tt
        >>> tt.nn.DataParallel(tt.nn.Linear(2, 3), device_ids=[])(tt.ones(4, 2)).shape
        triten.Size([4, 3])
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[DeviceId] | None = None,
        output_device: DeviceId | None = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        self.device_ids: list[int] = []
        if not is_available():
            return
        chosen = range(device_count()) if device_ids is None else device_ids
        self.device_ids = [_index(each) for each in chosen]
        if not self.device_ids:
            return
        self.output_device = self.device_ids[0] if output_device is None else _index(output_device)
        self.src_device_obj = Device("cuda", self.device_ids[0])
        if len(self.device_ids) == 1:
            self.module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module.

        Raises:
            RuntimeError: a parameter or buffer is not on the first device.
        """
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        _check_on_device(self.module, self.src_device_obj)
        divided, named = self.scatter(inputs, kwargs, self.device_ids)
        if not divided and not named:
            divided, named = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*divided[0], **named[0])
        replicas = self.replicate(self.module, self.device_ids[: len(divided)])
        return self.gather(self.parallel_apply(replicas, divided, named), self.output_device)

    def replicate(self, module: Module, device_ids: Sequence[int]) -> list[Any]:
        """Copy the module to each device."""
        return replicate(module, device_ids, not is_grad_enabled())

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Sequence[int]) -> Any:
        """Split the arguments across the devices."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(self, replicas: Sequence[Any], inputs: Any, kwargs: Any) -> list[Any]:
        """Run the replicas and return the result of each device."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Any, output_device: int) -> Any:
        """Concatenate the results on the output device."""
        return gather(outputs, _target(output_device), dim=self.dim)


def _check_on_device(module: Module, device: Device) -> None:
    for tensor in chain(module.parameters(), module.buffers()):
        if tensor.device != device:
            raise RuntimeError(
                "module must have its parameters and buffers on device "
                f"{device} (device_ids[0]) but found one of them on device: {tensor.device}"
            )


def _index(device: DeviceId) -> int:
    if isinstance(device, int):
        return device
    parsed = Device(device)
    return -1 if parsed.type == "cpu" else parsed.index or 0


def _target(index: int) -> Device:
    return Device("cpu") if index == -1 else Device("cuda", index)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[DeviceId] | None = None,
    output_device: DeviceId | None = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call a module with inputs, as `DataParallel` does (`torch.nn.parallel.data_parallel`).

    Args:
        module: the module.
        inputs: a tuple of arguments, or one.
        device_ids: all CUDA devices by default.
        output_device: The device of the gathered results; -1 for the CPU.
        dim: along which inputs are divided.
        module_kwargs: arguments with names.
    """
    arguments = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*arguments, **(module_kwargs or {}))
