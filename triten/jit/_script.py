"""Functions that compile or trace in PyTorch, and leave the program to Python here."""

from __future__ import annotations

import functools
import inspect
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, ParamSpec, TypeVar

from .. import nn
from ..nn.parameter import is_lazy

_Object = TypeVar("_Object")
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_Function = TypeVar("_Function", bound=Callable[..., Any])
_Module = TypeVar("_Module", bound=nn.Module)


class Error(Exception):
    """Raised by compiled programs. There are none."""


class ScriptWarning(Warning):
    """Warnings of the compiler. There is none."""


class TracerWarning(Warning):
    """Warnings of the tracer. There is none."""


class ScriptModule(nn.Module):
    """A module whose methods are marked by `script_method` (`torch.jit.ScriptModule`); a plain `nn.Module` here."""

    def __init__(self, arg: Any = None) -> None:
        super().__init__()


class RecursiveScriptModule(ScriptModule):
    """Class of compiled modules in PyTorch; it has no instances here."""


class TracedModule(ScriptModule):
    """Class of traced modules in PyTorch; it has no instances here."""


class TopLevelTracedModule(TracedModule):
    """Class of traced modules in PyTorch; it has no instances here."""


class ScriptFunction:
    """A function that PyTorch has compiled. Nothing here is one."""


class CompilationUnit:
    """Functions from text in TorchScript. Raises NotImplementedError: there is no compiler."""

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        raise NotImplementedError("torch.jit.CompilationUnit: TorchScript is not compiled here; write Python")


def script(
    obj: _Object,
    optimize: None = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> _Object:
    """Return the object unchanged (`torch.jit.script`); nothing is compiled.

    Args:
        obj: a function, a module or a class.
        optimize, example_inputs: not used.

    Raises:
        RuntimeError: A module has lazy parameters or buffers that no forward pass has initialized.

    Example:
        >>> import triten as tt
        >>> @tt.jit.script
        ... def double(x: tt.Tensor) -> tt.Tensor:
        ...     return x * 2
        >>> double(tt.ones(2))
        tensor([2., 2.])
        >>> model = tt.nn.Linear(2, 3)
        >>> tt.jit.script(model) is model
        True
    """
    if isinstance(obj, nn.Module):
        _check_initialized(obj)
    return obj


def _check_initialized(root: nn.Module) -> None:
    for module in root.modules():
        held = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
        names = [name for name, tensor in held if is_lazy(tensor)]
        if names:
            raise RuntimeError(
                f"'{type(module).__name__}' has uninitialized parameters {names}. Did you forget to run a forward pass?"
            )


def script_method(fn: _Function) -> _Function:
    """Return the method unchanged (`torch.jit.script_method`)."""
    return fn


def trace(
    func: _Object,
    example_inputs: Any = None,
    optimize: None = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: Any = None,
    _store_inputs: bool = True,
) -> _Object:
    """Return the function or module unchanged (`torch.jit.trace`), without calling or recording it.

    `tt.func.make_graph` records what a function computes.

    Args:
        func: A function or a module.
        example_inputs, example_kwarg_inputs: Arguments with which PyTorch would call it. Ignored, as are all others.
    """
    return func


def trace_module(
    mod: _Object,
    inputs: Mapping[str, Any],
    optimize: None = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> _Object:
    """Return the module unchanged (`torch.jit.trace_module`); see `trace`."""
    return mod


def is_scripting() -> bool:
    """Return False: nothing is compiled."""
    return False


def is_tracing() -> bool:
    """Return False: nothing is traced."""
    return False


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return the function unchanged (`torch.jit.ignore`); in PyTorch the compiler leaves it to Python.

    Raises:
        RuntimeError: The argument is neither a function nor a bool.
    """
    if callable(drop):
        return drop
    if not isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}")
    argument_text = "drop_on_export=True" if kwargs.pop("drop_on_export", None) else "True" if drop else ""
    if argument_text:
        warnings.warn(
            f"ignore({argument_text}) has been deprecated. TorchScript will now drop the function call on compilation. "
            "Use torch.jit.unused now.",
            FutureWarning,
            stacklevel=2,
        )
    return _unchanged


def _unchanged(fn: _Object) -> _Object:
    return fn


def unused(fn: _Object) -> _Object:
    """Return the function unchanged (`torch.jit.unused`); in PyTorch the compiler replaces it by an error."""
    return fn


def export(fn: _Object) -> _Object:
    """Return the function unchanged (`torch.jit.export`); in PyTorch the compiler keeps it beside ``forward``."""
    return fn


def _drop(fn: _Object) -> _Object:
    """Return the function unchanged; in PyTorch the compiler skips it."""
    return fn


def _overload(func: _Object) -> _Object:
    """Return the declaration of a function's overload unchanged."""
    return func


def _overload_method(func: _Object) -> _Object:
    """Return the declaration of a method's overload unchanged."""
    return func


def interface(obj: type[_Object]) -> type[_Object]:
    """Return the class unchanged (`torch.jit.interface`); in PyTorch the compiler knows only its signatures.

    Raises:
        RuntimeError: The argument is not a class, or has bases other than `object` or `nn.Module`.
    """
    if not inspect.isclass(obj):
        raise RuntimeError("interface must be applied to a class")
    if obj.__bases__ not in ((object,), (nn.Module,)):
        raise RuntimeError(
            "TorchScript interface does not support inheritance yet. Please directly inherit from 'object' or "
            "'nn.Module'."
        )
    return obj


def script_if_tracing(fn: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Wrap a function that PyTorch compiles while tracing (`torch.jit.script_if_tracing`); the wrapper calls `fn`."""

    @functools.wraps(fn)
    def called(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        return fn(*args, **kwargs)

    return called


_script_if_tracing = script_if_tracing


def _in_eval_mode(mod: Any, function: str) -> None:
    if not isinstance(mod, nn.Module):
        raise RuntimeError(f"{function} expects a module as input, got {type(mod).__name__}")
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module "
            "before freezing."
        )


def freeze(
    mod: _Module, preserved_attrs: Sequence[str] | None = None, optimize_numerics: bool = True
) -> _Module:
    """Return the module unchanged (`torch.jit.freeze`); its parameters stay parameters.

    Raises:
        RuntimeError: The argument is not a module, or the module is in training mode.
    """
    _in_eval_mode(mod, "Freezing")
    return mod


def optimize_for_inference(mod: _Module, other_methods: Sequence[str] | None = None) -> _Module:
    """Return the module unchanged (`torch.jit.optimize_for_inference`). Raises as `freeze` does."""
    _in_eval_mode(mod, "optimize_for_inference")
    return mod


def run_frozen_optimizations(
    mod: nn.Module, optimize_numerics: bool = True, preserved_methods: Sequence[str] | None = None
) -> None:
    """Check the module and do nothing else (`torch.jit.run_frozen_optimizations`).

    Raises:
        RuntimeError: As for `freeze`.
    """
    _in_eval_mode(mod, "run_frozen_optimizations")


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Do nothing for a block; in PyTorch this toggles the optimization of compiled programs."""
    yield


class strict_fusion:
    """A block in which the compiler must fuse everything (`torch.jit.strict_fusion`). It warns that there is none."""

    def __init__(self) -> None:
        warnings.warn("Only works in script mode", stacklevel=2)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def save(m: Any, f: Any, _extra_files: Mapping[str, Any] | None = None) -> NoReturn:
    """Raise NotImplementedError; `tt.save` saves weights."""
    raise NotImplementedError(
        "torch.jit.save: an archive of TorchScript holds a compiled program, and nothing is compiled here; save "
        "module.state_dict() with torch.save"
    )


def load(
    f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False
) -> NoReturn:
    """Raise NotImplementedError; `tt.load` loads weights.

    Raises:
        ValueError: The path does not exist, or is a directory.
        NotImplementedError: Always, otherwise.
    """
    if isinstance(f, str | os.PathLike):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {f} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {f} is a directory")
    raise NotImplementedError(
        "torch.jit.load: an archive of TorchScript holds a compiled program, which cannot be run here; build the "
        "module in Python and load its state_dict() with torch.load"
    )
