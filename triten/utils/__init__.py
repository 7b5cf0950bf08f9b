"""Utilities beside tensors (`torch.utils`).

* `benchmark`: timing code;
* `collect_env`: environment information for bug reports;
* `checkpoint`: recomputing activations in backward;
* `data`: data sets and data loaders;
* `dlpack`: zero-copy exchange of tensors with other libraries;
* `hooks`: handles that remove hooks; `swap_tensors`;
* `model_zoo`: downloading weights, by its former name;
* `_pytree`: trees of containers, by PyTorch's private name that programs use all the same;
* `weak`: weak references and dictionaries by identity;
* `tensorboard`: logs for TensorBoard, if it is installed;
* `rename_privateuse1_backend`, `generate_methods_for_privateuse1_backend`: naming the backend of another package.

A package adds a backend, in the order of its own module, with:

* `rename_privateuse1_backend`;
* an allocator (`tt.library.set_allocator`);
* kernels under ``PrivateUse1`` or under stubs (`tt.library.register_stub`);
* a copy (``aten::_copy_from``);
* a fallback (`tt.library.cpu_fallback`);
* a device guard, if there are several devices (`tt.library.register_device_guard`).

`tests/extension_backend` in the source tree is an example.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .. import nn
from ..dispatch.methods.privateuse1 import generate_methods
from ..runtime.device import device as Device
from ..runtime.lazy_import import lazy_names
from ..runtime.privateuse1 import rename_privateuse1_backend
from ..runtime.scalar_type import dtype

ROOT = __package__.rpartition(".")[0]

__all__ = [
    "benchmark",
    "checkpoint",
    "collect_env",
    "data",
    "deterministic",
    "dlpack",
    "generate_methods_for_privateuse1_backend",
    "hooks",
    "model_zoo",
    "rename_privateuse1_backend",
    "set_module",
    "swap_tensors",
    "weak",
]

if TYPE_CHECKING:
    from . import _config_module as _config_module
    from . import _foreach_utils as _foreach_utils
    from . import _python_dispatch as _python_dispatch
    from . import _pytree as _pytree
    from . import _triton as _triton
    from . import benchmark, checkpoint, collect_env, data, deterministic, dlpack, hooks, model_zoo, weak
    from .swapping import swap_tensors
else:
    __getattr__, __dir__, _ = lazy_names(
        __name__,
        {".swapping": "swap_tensors"},
        (
            "_config_module",
            "_foreach_utils",
            "_python_dispatch",
            "_pytree",
            "_triton",
            "weak",
            "benchmark",
            "checkpoint",
            "collect_env",
            "data",
            "deterministic",
            "dlpack",
            "hooks",
            "model_zoo",
        ),
    )


def set_module(obj: Any, mod: str) -> None:
    """Say in which module an object is found, for printing (`torch.utils.set_module`).

    Raises TypeError for a module that is not named by a str.
    """
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def generate_methods_for_privateuse1_backend(
    for_tensor: bool = True,
    for_module: bool = True,
    for_packed_sequence: bool = True,
    for_storage: bool = False,
    unsupported_dtype: Sequence[dtype] | None = None,
    *,
    slot: int = 1,
) -> None:
    """Generate the methods of a named backend: ``tensor.npu()``, ``tensor.is_npu`` and their like
    (`torch.utils.generate_methods_for_privateuse1_backend`).

    Args:
        for_tensor: for `tt.Tensor`.
        for_module: ``npu()`` for `tt.nn.Module`, where this version has it.
        for_packed_sequence: there are no packed sequences here; accepted for PyTorch's sake.
        for_storage: ``is_npu`` for `tt.UntypedStorage`, which is untyped: `unsupported_dtype` concerns PyTorch's
            typed storages alone.
        slot: 1 for PrivateUse1, 2 and 3 for the others.

    Raises:
        RuntimeError: for methods that exist already.

    Example::

        tt.utils.rename_privateuse1_backend("npu")
        tt.utils.generate_methods_for_privateuse1_backend()
        assert tt.ones(2).npu().is_npu
    """
    module = getattr(nn, "Module", None) if for_module else None
    generate_methods(for_tensor, module, for_storage, slot)


def _register_device_module(device_type: str, module: ModuleType) -> None:
    """Make a backend's module ``tt.<device type>`` (`torch._register_device_module`).

    Raises RuntimeError for an unknown device type and for a name that the package has.
    """
    name = Device(device_type).type
    package = sys.modules[ROOT]
    if hasattr(package, name):
        raise RuntimeError(
            f"The runtime module of '{name}' has already been registered with '{getattr(package, name)}'"
        )
    setattr(package, name, module)
    sys.modules[f"{ROOT}.{name}"] = module
