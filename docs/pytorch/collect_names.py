"""The public names of an installed PyTorch, written to `public_names.json` beside this file.

Run once for a release, with a Python that has PyTorch: ``python docs/pytorch/collect_names.py``. The documentation
is built from the committed file and needs no PyTorch.

A name is public if the module declares it in ``__all__``, or if it begins with no underscore and the module, C or
(where nothing is declared) a subfolder of the module defines it.
"""

from __future__ import annotations

import json
import typing
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

TARGET = Path(__file__).with_name("public_names.json")
NAMESPACES = (
    "torch torch.Tensor torch.nn torch.nn.functional torch.nn.init torch.nn.utils "
    "torch.nn.utils.parametrizations torch.nn.utils.parametrize torch.nn.utils.rnn torch.nn.attention "
    "torch.nn.attention.flex_attention torch.nn.attention.bias torch.nn.attention.varlen "
    "torch.optim torch.optim.lr_scheduler torch.optim.swa_utils torch.linalg torch.fft torch.special "
    "torch.signal.windows torch.autograd torch.autograd.functional torch.autograd.forward_ad "
    "torch.autograd.graph torch.func torch.fx torch.cuda torch.cuda.amp torch.amp torch.accelerator torch.library "
    "torch.overrides torch.profiler torch.random torch.testing torch.utils torch.utils.checkpoint "
    "torch.utils.data torch.utils.dlpack torch.utils.benchmark torch.backends.cuda torch.sparse "
    "torch.nested torch.masked torch.distributions torch.distributed torch.compiler torch.export "
    "torch.jit torch.onnx torch.mps torch.xpu torch.hub torch.futures"
)
NOT_DOCUMENTED = {
    "PackedSequence_", "TYPE_CHECKING", "amp_definitely_not_available", "assert_int_or_pair", "bind",
    "boolean_dispatch", "factory_kwargs", "set_module",
}  # fmt: skip
"""What stands in a module for its own use, though nothing about it says so."""

CLASSES_OF_C = (
    "AcceleratorError DispatchKey DispatchKeySet Event Generator OutOfMemoryError Size Stream Tag Tensor device dtype "
    "finfo iinfo layout memory_format qscheme"
)
"""The classes that the root has from C and that the documentation describes."""


def public_names(namespace: str) -> list[str]:
    """Return the names of a namespace, sorted."""
    if namespace == "torch.Tensor":
        return sorted(name for name in dir(torch.Tensor) if not name.startswith("_"))
    module = import_module(namespace)
    names = {*getattr(module, "__all__", ()), *own_names(module, namespace)}
    # A name that is declared and then not there, as of an optional dependency, is none that a user could have.
    return sorted(
        name
        for name in names - NOT_DOCUMENTED
        if not name.startswith("_")
        and hasattr(module, name)
        and not is_of_jit(module, name)
        and (module is torch or getattr(module, name) is not torch.Tensor)
    )


def own_names(module: ModuleType, namespace: str) -> Iterator[str]:
    """Return the names that a module, C or the module's subfolders define."""
    declared = set(getattr(module, "__all__", ()))
    for name, value in vars(module).items():
        if name.startswith("_") or isinstance(value, (ModuleType, str, bool)) or is_of_typing(value):
            continue
        home = getattr(value, "__module__", None) or "torch._C"
        from_c = home.startswith("torch._C") and callable(value) and not isinstance(value, type)
        if from_c or home == namespace or (not declared and home.startswith(f"{namespace}.")):
            yield name


def is_of_jit(module: ModuleType, name: str) -> bool:
    """Whether a name of the root is a class of C, nearly all of which are TorchScript's and documented nowhere."""
    value = getattr(module, name)
    return (
        module is torch
        and isinstance(value, type)
        and hasattr(torch._C, name)
        and name not in CLASSES_OF_C.split()
    )


def is_of_typing(value: Any) -> bool:
    """Whether `value` is a type alias or a variable of `typing`, which stand in modules for their annotations."""
    home = getattr(value, "__module__", "")
    return typing.get_origin(value) is not None or home in ("typing", "typing_extensions", "__future__")


def main() -> None:
    warnings.simplefilter("ignore")
    found = {namespace: public_names(namespace) for namespace in NAMESPACES.split()}
    table = {"torch": torch.__version__.partition("+")[0], "namespaces": found}
    TARGET.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
