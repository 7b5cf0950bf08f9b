"""Overridable public callables, and their names (torch/overrides.py).

The namespaces are those that `triten.overrides` names. `Tensor`'s attributes are found in the classes that it is made
of: a method is the function, a property its ``__get__``, ``__set__`` and ``__delete__``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from ...core.public_spelling import PRESENTED
from ...tensor import Tensor

namespaces: list[Callable[[], list[tuple[str, ModuleType]]]] = []
"""Function that returns the public modules, by name; `triten.overrides` adds itself."""

IGNORED_METHODS = frozenset(
    {
        "__getattribute__",
        "__hash__",
        "__init__",
        "__init_subclass__",
        "__iter__",
        "__new__",
        "__tensor_function__",
        "__array_wrap__",
        "_make_subclass",
        "_make_wrapper_subclass",
        "as_subclass",
        "bump_version",
        "current_version",
        "from_data",
        "host_array",
        "key_set",
        "set_sizes_and_strides",
        "set_sizes_contiguous",
        "version_cell",
    }
)
"""Methods of `Tensor` that are not overridable: construction, and runtime methods. The calls inside `__iter__` are."""

UNSEEN = frozenset(
    {
        "_check",
        "_check_index",
        "_check_not_implemented",
        "_check_tensor_all",
        "_check_tensor_all_with",
        "_check_type",
        "_check_value",
        "_check_with",
        "are_deterministic_algorithms_enabled",
        "autocast_decrement_nesting",
        "autocast_increment_nesting",
        "broadcast_shapes",
        "clear_autocast_cache",
        "compile",
        "compiled_with_cxx11_abi",
        "cond",
        "cpu_kernel",
        "explain",
        "from_file",
        "get_autocast_cpu_dtype",
        "get_autocast_dtype",
        "get_autocast_gpu_dtype",
        "get_autocast_ipu_dtype",
        "get_autocast_xla_dtype",
        "get_default_device",
        "get_device_module",
        "get_default_dtype",
        "get_deterministic_debug_mode",
        "get_float32_matmul_precision",
        "get_num_interop_threads",
        "get_num_threads",
        "get_rng_state",
        "gradcheck",
        "gradgradcheck",
        "init_num_threads",
        "initial_seed",
        "thread_safe_generator",
        "is_anomaly_check_nan_enabled",
        "is_anomaly_enabled",
        "is_multithreading_enabled",
        "is_view_replay_enabled",
        "is_autocast_available",
        "is_autocast_cache_enabled",
        "is_autocast_cpu_enabled",
        "is_autocast_enabled",
        "is_autocast_ipu_enabled",
        "is_autocast_xla_enabled",
        "is_deterministic_algorithms_warn_only_enabled",
        "is_grad_enabled",
        "is_inference_mode_enabled",
        "is_storage",
        "is_tensor",
        "is_vulkan_available",
        "is_warn_always_enabled",
        "load",
        "manual_seed",
        "save",
        "seed",
        "set_anomaly_enabled",
        "set_autocast_cache_enabled",
        "set_autocast_cpu_dtype",
        "set_autocast_cpu_enabled",
        "set_autocast_dtype",
        "set_autocast_enabled",
        "set_autocast_gpu_dtype",
        "set_autocast_ipu_dtype",
        "set_autocast_ipu_enabled",
        "set_autocast_xla_dtype",
        "set_autocast_xla_enabled",
        "set_default_device",
        "set_default_dtype",
        "set_default_tensor_type",
        "set_deterministic_debug_mode",
        "set_float32_matmul_precision",
        "set_flush_denormal",
        "set_num_interop_threads",
        "set_num_threads",
        "set_printoptions",
        "set_rng_state",
        "set_warn_always",
        "typename",
        "use_deterministic_algorithms",
        "vmap",
    }
)
"""Functions that neither arguments nor modes override: they take and create no tensor, or call overridable
functions.
"""

MODES_ONLY = frozenset(
    {
        "arange",
        "as_tensor",
        "asarray",
        "can_cast",
        "empty",
        "empty_strided",
        "eye",
        "from_dlpack",
        "from_numpy",
        "frombuffer",
        "full",
        "linspace",
        "logspace",
        "normal",
        "ones",
        "promote_types",
        "rand",
        "randint",
        "randn",
        "randperm",
        "range",
        "scalar_tensor",
        "tensor",
        "tril_indices",
        "triu_indices",
        "zeros",
        "sparse_bsc_tensor",
        "sparse_bsr_tensor",
        "sparse_compressed_tensor",
        "sparse_coo_tensor",
        "sparse_csc_tensor",
        "sparse_csr_tensor",
    }
)
"""Functions that take no tensor, or take one as mere data: only modes override them."""


def tensor_attributes() -> Iterator[tuple[str, Any]]:
    """Yield the names of `Tensor`'s attributes with the functions and properties behind them, except `object`'s."""
    for name in dir(Tensor):
        owner = next(each for each in Tensor.__mro__ if name in each.__dict__)
        attribute = owner.__dict__[name]
        if owner is not object and isinstance(attribute, FunctionType | property):
            yield name, attribute


def overridable_attributes() -> Iterator[tuple[str, Any]]:
    """Yield the overridable `tensor_attributes`: public ones, special methods, and two of views."""
    for name, attribute in tensor_attributes():
        is_private = name.startswith("_") and not name.startswith("__") and name not in ("_base", "_is_view")
        if not is_private and name not in IGNORED_METHODS:
            yield name, attribute


def accessors(attribute: property) -> Iterator[tuple[str, Any, Any]]:
    """Yield the accessors of a property: their names, the functions behind them, and the functions for handlers."""
    if attribute.fget is not None:
        yield "__get__", attribute.fget, attribute.__get__
    if attribute.fset is not None:
        yield "__set__", attribute.fset, attribute.__set__
    if attribute.fdel is not None:
        yield "__delete__", attribute.fdel, attribute.__delete__


def presented(name: str) -> Any:
    """Return the function that a handler receives for a method of `Tensor`."""
    return getattr(Tensor, PRESENTED.get(name, name))


def public_functions() -> Iterator[tuple[str, str, Any]]:
    """Yield namespace, name and function of the public functions that are not attributes of `Tensor`."""
    for each in namespaces:
        for qualified, module in each():
            for name in module.__all__:
                function = getattr(module, name)
                if isinstance(function, FunctionType):
                    yield qualified, name, function


@cache
def index() -> dict[Any, str]:
    """Return the qualified public name of every callable: the first of several, or a method's own."""
    names: dict[Any, str] = {}
    for qualified, name, function in public_functions():
        names.setdefault(function, f"{qualified}.{name}")
    for name, attribute in tensor_attributes():
        if isinstance(attribute, property):
            for accessor, _, func in accessors(attribute):
                names[func] = f"triten.Tensor.{name}.{accessor}"
        elif attribute not in names or attribute.__name__ == name:
            names[attribute] = f"triten.Tensor.{name}"
    return names
