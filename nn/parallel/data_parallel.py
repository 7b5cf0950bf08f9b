"""`nn.DataParallel` on one device (`torch.nn.parallel.DataParallel`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from ...runtime.cuda.devices import device_count, is_available
from ...runtime.device import device as Device
from ..modules.module import Module

DeviceId = int | Device


class DataParallel(Module):
    """A module whose input may be divided among devices (`torch.nn.DataParallel`): here, one device gets it all.

    Without a GPU, or with one, it calls the module, as PyTorch's does there.

    Args:
        module: is called; it stays reachable as ``module``.
        device_ids: all CUDA devices by default.
        output_device: the first of `device_ids` by default.
        dim: along which inputs would be divided.

    Raises:
        NotImplementedError: there are several devices; name one.
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
        if not is_available():
            self.device_ids: list[int] = []
            return
        self.device_ids = [
            _index(each) for each in (device_ids if device_ids is not None else _all_devices())
        ]
        if len(self.device_ids) > 1:
            raise NotImplementedError(
                f"DataParallel: a module on several devices is not supported, got device_ids={self.device_ids}; "
                "name one of them"
            )
        self.dim = dim
        if not self.device_ids:
            return
        self.output_device = self.device_ids[0] if output_device is None else _index(output_device)
        self.src_device_obj = Device("cuda", self.device_ids[0])
        self.module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module.

        Raises:
            RuntimeError: a parameter or buffer is not on the device.
        """
        if self.device_ids:
            for tensor in chain(self.module.parameters(), self.module.buffers()):
                if tensor.device != self.src_device_obj:
                    raise RuntimeError(
                        "module must have its parameters and buffers on device "
                        f"{self.src_device_obj} (device_ids[0]) but found one of them on device: {tensor.device}"
                    )
        return self.module(*inputs, **kwargs)


def _all_devices() -> list[int]:
    return list(range(device_count()))


def _index(device: DeviceId) -> int:
    return device if isinstance(device, int) else device.index or 0


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[DeviceId] | None = None,
    output_device: DeviceId | None = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call a module with inputs, as `DataParallel` does (`torch.nn.parallel.data_parallel`)."""
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*arguments, **(module_kwargs or {}))
