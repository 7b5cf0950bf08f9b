"""Pickling of tensors and storages for another process of this machine, by reference to shared memory."""

from __future__ import annotations

import os
from multiprocessing import reduction
from typing import TYPE_CHECKING, Any

from ..dispatch.methods.untyped_storage import UntypedStorage
from ..dispatch.tensor import Tensor
from ..runtime import shared_memory
from ..runtime.device import CPU
from ..runtime.storage import Storage

if TYPE_CHECKING:
    from ..runtime.cuda.sharing import Handle

NON_LEAF = (
    "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing "
    "process boundaries.  If you just want to transfer the data, call detach() on the tensor before serializing "
    "(e.g., putting it on the queue)."
)


def reduce_tensor(tensor: Tensor) -> Any:
    """Reduce a tensor to its geometry over a shared storage.

    The gradient is not sent. Hooks are not sent either, with a warning.

    Raises:
        RuntimeError: The tensor requires grad and is not a leaf.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(NON_LEAF)
    if tensor._autograd is not None:
        from ..utils.hooks import warn_if_has_hooks

        warn_if_has_hooks(tensor)
    return tensor.__reduce_ex__(2)


def reduce_storage(storage: Storage) -> Any:
    """Reduce a storage to a reference: a file descriptor or a name on the CPU, an IPC handle on CUDA.

    Raises:
        RuntimeError: The storage is on another device, such as meta.
    """
    if storage.device.type == "cuda":
        from ..runtime.cuda import sharing

        handle = sharing.export_storage(storage)
        lease = reduction.DupFd(handle.lease)
        os.close(handle.lease)
        return _rebuild_cuda, (handle._replace(lease=-1), lease)
    if storage.device is not CPU:
        raise RuntimeError(
            f"Cannot pickle {storage.device.type} storage; try pickling a {storage.device.type} tensor instead"
        )
    # The tensor that is pickled has created its storage object, and may be the only tensor over it.
    block = shared_memory.share(storage, next(storage.followers(), None))
    if isinstance(block, shared_memory.NamedBlock):
        # Count the receiver as a user now, so that the file exists until it arrives.
        block.count(1)
        return _rebuild_named, (block.name, block.nbytes)
    return _rebuild_of_descriptor, (reduction.DupFd(block.file), block.nbytes)


def _rebuild_of_descriptor(descriptor: Any, nbytes: int) -> Storage:
    block = shared_memory.DescriptorBlock(descriptor.detach(), nbytes)
    storage = shared_memory.known(block.key)
    if storage is not None:
        block.close()
        return storage
    return shared_memory.storage_over(block)


def _rebuild_named(name: str, nbytes: int) -> Storage:
    block = shared_memory.NamedBlock(name, nbytes)
    storage = shared_memory.known(block.key)
    if storage is not None:
        block.close()
        return storage
    return shared_memory.storage_over(block)


def _rebuild_cuda(handle: Handle, lease: Any) -> Storage:
    from ..runtime.cuda import sharing

    return sharing.import_storage(handle._replace(lease=lease.detach()))


def init_reductions() -> None:
    """Register the reductions of tensors and storages with `multiprocessing`."""
    reduction.register(Tensor, reduce_tensor)
    reduction.register(UntypedStorage, reduce_storage)
