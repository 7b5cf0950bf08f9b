"""Interpreted kernels in Triton's own notation, ``kernel[grid](x, n, BLOCK=64)``.

Triton's interpreter runs a kernel at once, over copies of its arguments. Here the kernel is enqueued on the current
stream of the current device and runs on the tensors' memory, by the rules of every other launch. It raises the same
errors as a compiled kernel. Importing this module replaces `InterpretedFunction.run`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import triton.language as tl
from triton import knobs
from triton._utils import canonicalize_dtype
from triton.backends.nvidia.compiler import CUDAOptions
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction, KernelInterface, MockTensor, TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

from ...tensor_impl import TensorImpl
from ..driver import driver, kernel_name
from ..triton.kernel_arguments import Parameter, parameters_of, pointer_type, scalar_type
from .driver import InterpreterDriver
from .kernel import InterpretedKernel
from .semantics import argument_type, descriptor, scalar_or_pointer

UserGrid = Sequence[int] | Callable[[Mapping[str, Any]], Sequence[int]]

_OPTIONS = frozenset(CUDAOptions.__dataclass_fields__)
"""Options of a launch besides the kernel's parameters; here, only `debug` has an effect."""

_loaded: WeakKeyDictionary[Any, set[tuple[tuple[str, str], ...]]] = WeakKeyDictionary()
"""Types with which each kernel ran: for others a GPU would load code, which no capture allows."""


def _type_of(value: Any) -> str:
    return str(value.type) if isinstance(value, tl.tensor) else repr(value)


class WarmKernel:
    """Result of an interpreted kernel's `warmup`: ``[grid](...)`` launches it (`triton.compiler.CompiledKernel`)."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def _init_handles(self) -> None:
        """Do nothing: there is no code to load."""

    def __getitem__(self, grid: UserGrid) -> Callable[..., WarmKernel | None]:
        return partial(run, self._kernel, grid=grid, warmup=False)

    def __getattr__(self, name: str) -> NoReturn:
        """Raise AttributeError for the properties of compiled code."""
        raise AttributeError(
            f"{name} of kernel '{kernel_name(self._kernel)}': Triton's interpreter compiles no code, and so counts no "
            "registers and no shared memory. Set TRITEN_CUDA=emulate in the environment to compile the kernel",
            name=name,
            obj=self,
        )


def run(kernel: Any, *args: Any, grid: UserGrid, warmup: bool, **kwargs: Any) -> WarmKernel | None:
    """Enqueue an interpreted kernel, or check the arguments of a warm-up (`JITFunction.run`).

    Raises:
        KeyError: for a keyword that is neither a parameter nor an option.
        TypeError: for arguments that are missing or too many, or that no kernel can take.
        ValueError: for tensors that are not on the current device.
    """
    signature, parameters = parameters_of(kernel)
    keyword_arguments = {name: value for name, value in kwargs.items() if name in signature.parameters}
    for name in kwargs:
        if name not in keyword_arguments and name not in _OPTIONS:
            raise KeyError(f"Keyword argument {name} was specified but unrecognised")
    for hook in kernel.pre_run_hooks:
        hook(*args, **kwargs)
    try:
        bound = signature.bind(*args, **keyword_arguments)
    except TypeError as error:
        raise TypeError(f"kernel '{kernel_name(kernel)}{signature}': {error}") from None
    bound.apply_defaults()
    owner = driver()
    assert isinstance(owner, InterpreterDriver)
    reader = _Arguments(kernel_name(kernel), owner)
    values = {
        parameter.name: reader.read(i, parameter, bound.arguments[parameter.name])
        for i, parameter in enumerate(parameters)
    }
    if warmup:
        return WarmKernel(kernel)
    loaded = tuple((name, _type_of(value)) for name, value in values.items())
    if loaded not in _loaded.setdefault(kernel, set()):
        owner.check_may_load(kernel_name(kernel))
        _loaded[kernel].add(loaded)
    sizes = grid(bound.arguments) if callable(grid) else grid
    x, y, z = (*sizes, 1, 1)[:3]
    stream = owner.current_stream(owner.current_device())
    interpreted = InterpretedKernel(
        owner,
        kernel,
        {},
        values,
        frozenset(),
        is_users=True,
        is_debugged=_is_debugged(kernel, kwargs),
        num_warps=int(kwargs.get("num_warps", 4)),
    )
    interpreted.launch((int(x), int(y), int(z)), stream)
    return None


def _is_debugged(kernel: Any, options: Mapping[str, Any]) -> bool:
    """Return True if a launch checks assertions: by its option, its kernel's, or TRITON_DEBUG."""
    # A kernel that was defined to be interpreted keeps the options of `triton.jit` in a dict.
    of_kernel = kernel.kwargs.get("debug") if type(kernel) is InterpretedFunction else kernel.debug
    return bool(options.get("debug", of_kernel) or knobs.runtime.debug)


class _Arguments:
    """Conversion of a launch's arguments to the values of an interpreted kernel."""

    def __init__(self, kernel: str, owner: InterpreterDriver) -> None:
        self.kernel = kernel
        self.owner = owner
        self.device = owner.current_device()

    def read(self, position: int, parameter: Parameter, value: Any) -> Any:
        """Return the value of a parameter inside the kernel."""
        if parameter.is_constexpr:
            if isinstance(value, TensorImpl):
                raise TypeError(
                    f"kernel '{self.kernel}': argument '{parameter.name}' is a constexpr, got a Tensor"
                )
            return value
        return self._read(position, parameter, value)

    def _read(self, position: int, parameter: Parameter, value: Any) -> Any:
        if value is None or isinstance(value, tl.constexpr | KernelInterface):
            return value
        if isinstance(value, tuple):
            items = [self._read(position, parameter, item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if isinstance(value, TensorDescriptor):
            return descriptor(self._read(position, parameter, value.base), value)
        if isinstance(value, TensorImpl):
            return self._pointer(
                position, pointer_type(self.kernel, parameter.name, value.dtype), parameter, value
            )
        if isinstance(value, TensorWrapper) and isinstance(value.base, TensorImpl):
            return self._pointer(position, f"*{canonicalize_dtype(value.dtype)}", parameter, value.base)
        if isinstance(value, MockTensor):  # a dtype that replaces a tensor, for `warmup`
            return scalar_or_pointer(argument_type(f"*{canonicalize_dtype(value.dtype)}"), 0)
        if hasattr(value, "data_ptr"):
            return self._foreign_pointer(position, parameter, value)
        if parameter.by_value and value.__class__ is int and value == 1:
            return 1
        type_ = argument_type(scalar_type(self.kernel, parameter, value))
        try:
            return scalar_or_pointer(type_, value)
        except (OverflowError, TypeError, ValueError) as error:
            raise TypeError(
                f"kernel '{self.kernel}': argument '{parameter.name}': expected {type_}, got {value!r}"
            ) from error

    def _pointer(self, position: int, type_name: str, parameter: Parameter, tensor: TensorImpl) -> Any:
        if not (tensor.is_cuda and tensor.device.index == self.device) and tensor._spec.numel:
            raise self._out_of_reach(position, parameter, f"on {tensor.device}")
        return scalar_or_pointer(argument_type(type_name), tensor.data_ptr())

    def _foreign_pointer(self, position: int, parameter: Parameter, value: Any) -> Any:
        """Return the pointer of another library's object, or of a program's own view of a tensor."""
        address = value.data_ptr()
        if not isinstance(address, int):
            raise TypeError("data_ptr method of Pointer object must return 64-bit int")
        is_reached = self.owner.memory(self.device).owns(address) or self.owner.host_memory.holds(address, 1)
        if address and not is_reached:
            raise self._out_of_reach(position, parameter, f"a {type(value).__name__} elsewhere")
        return scalar_or_pointer(argument_type(f"*{canonicalize_dtype(value.dtype)}"), address)

    def _out_of_reach(self, position: int, parameter: Parameter, actual: str) -> ValueError:
        return ValueError(
            f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?): kernel '{self.kernel}': "
            f"argument '{parameter.name}' is {actual}, expected a tensor on cuda:{self.device}"
        )


def refuse(kernel: Any, *args: Any, **kwargs: Any) -> None:
    """Raise RuntimeError for a compiled (Gluon) kernel in a process that interprets kernels."""
    raise RuntimeError(
        f"kernel '{kernel_name(kernel)}': Triton's interpreter runs no Gluon kernel. Set TRITEN_CUDA=emulate in the "
        "environment to compile and emulate it"
    )


InterpretedFunction.run = run
JITFunction.run = refuse
