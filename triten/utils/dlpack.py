"""Tensors of other libraries without a copy, by DLPack (`torch.utils.dlpack`); see `tt.from_dlpack`."""

from ..dispatch.methods.interchange import from_dlpack as from_dlpack
from ..dispatch.methods.interchange import to_dlpack as to_dlpack
from ..runtime.dlpack.device_type import DLDeviceType as DLDeviceType

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
