"""Base class of modules: attributes, the tree of modules, and the call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any, Self

from ...dispatch.autograd.node import RemovableHandle
from ...dispatch.generated import functions
from ...dispatch.tensor import Tensor
from ...runtime.lazy_import import lazy_names
from ...runtime.traceback_filter import hide_inner_frames
from .conversion import ConversionMixin
from .module_hooks import HOOK_TABLES, LastOperationHook, added, as_registered, call_with_hooks
from .parameter import Buffer, Parameter
from .state_dict import EXTRA_STATE as _EXTRA_STATE_KEY_SUFFIX  # noqa: F401 - other packages import it here
from .state_dict import STATE_DICT_HOOK_TABLES, StateDictMixin
from .state_dict import IncompatibleKeys as _IncompatibleKeys  # noqa: F401

__all__ = ["Module"]

OPERATOR_FUNCTIONS = functions.__name__
"""Package of the functions that call an operator."""

__getattr__ = lazy_names(
    __name__,
    {
        ".global_hooks": (
            "_global_backward_hooks _global_backward_pre_hooks _global_buffer_registration_hooks "
            "_global_forward_hooks _global_forward_pre_hooks _global_module_registration_hooks "
            "_global_parameter_registration_hooks "
            "register_module_backward_hook register_module_buffer_registration_hook register_module_forward_hook "
            "register_module_forward_pre_hook register_module_full_backward_hook "
            "register_module_full_backward_pre_hook register_module_module_registration_hook "
            "register_module_parameter_registration_hook"
        )
    },
)[0]


class Module(ConversionMixin, StateDictMixin):
    """A part of a network: parameters, buffers and modules as attributes, and `forward`, which a call runs.

    Subclass it, call ``super().__init__()`` first, assign attributes, and write `forward`.

    Source: torch.nn.Module.

    Example:
        >>> import triten as tt
        >>> class Scale(tt.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = tt.nn.Parameter(tt.full((1,), 3.0))
        ...     def forward(self, x):
        ...         return x * self.factor
        >>> scale = Scale()
        >>> scale(tt.ones(2)).tolist(), [name for name, _ in scale.named_parameters()]
        ([3.0, 3.0], ['factor'])
    """

    training: bool

    call_super_init: bool = False
    """If True, the constructor calls that of the next class in the method resolution order with its arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if (args or kwargs) and not self.call_super_init:
            received = (
                f"an unexpected keyword argument {next(iter(kwargs))!r}"
                if kwargs
                else f"{len(args) + 1} positional arguments, expected 1"
            )
            raise TypeError(f"{type(self).__name__}.__init__() got {received}")
        own = self.__dict__
        own["training"] = True
        own["_parameters"], own["_buffers"], own["_modules"] = {}, {}, {}
        own["_non_persistent_buffers_set"] = set()
        for table in (*HOOK_TABLES, *STATE_DICT_HOOK_TABLES):
            own[table] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep operators in the class body from becoming methods: in PyTorch they are built-in functions, which do not
        bind.
        """
        super().__init_subclass__(**kwargs)
        for name, value in [*cls.__dict__.items()]:
            if isinstance(value, FunctionType) and (value.__module__ or "").startswith(OPERATOR_FUNCTIONS):
                setattr(cls, name, staticmethod(value))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's result. Every subclass overrides this method.

        Raises:
            NotImplementedError: The subclass does not override it.
        """
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__
        if (
            own["_forward_hooks"]
            or own["_forward_pre_hooks"]
            or own["_backward_hooks"]
            or own["_backward_pre_hooks"]
            or "_compiled_call_impl" in own
        ):
            try: return own.get("_compiled_call_impl", self._call_impl)(*args, **kwargs)  # fmt: skip
            except BaseException:
                hide_inner_frames()
                raise
        try: return self.forward(*args, **kwargs)  # fmt: skip
        except BaseException:
            hide_inner_frames()
            raise

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` with hooks; `compile` compiles this method."""
        return call_with_hooks(self, args, kwargs)

    # Attributes

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            members = own.get(table)
            if members is not None and name in members:
                return members[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            self._require_init("parameters")
            self._forget(name, keep="_parameters")
            self.register_parameter(name, value)
            return
        if name in own.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' (nn.Parameter or None expected)"
                )
            self.register_parameter(name, None)
            return
        if isinstance(value, Module):
            self._require_init("module")
            self._forget(name, keep="_modules")
            own["_modules"][name] = as_registered(self, "_modules", name, value)
            return
        if name in own.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' (nn.Module or None expected)"
                )
            own["_modules"][name] = None
            return
        if isinstance(value, Buffer):
            self._require_init("buffers")
            self._forget(name, keep="_buffers")
            self.register_buffer(name, value, value.persistent)
            return
        if name in own.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{typename(value)}' as buffer '{name}' (Tensor or None expected)"
                )
            own["_buffers"][name] = value
            return
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        own = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            if name in own[table]:
                del own[table][name]
                own["_non_persistent_buffers_set"].discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        own = self.__dict__
        names = {*super().__dir__(), *own["_parameters"], *own["_buffers"], *own["_modules"]}
        return sorted(name for name in names if not name[0].isdigit())

    def _require_init(self, noun: str) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {noun} before Module.__init__() call")

    def _forget(self, name: str, keep: str) -> None:
        """Take an attribute out of wherever it is, but `keep`."""
        own = self.__dict__
        own.pop(name, None)
        for table in ("_parameters", "_buffers", "_modules"):
            if table != keep:
                own[table].pop(name, None)
        own["_non_persistent_buffers_set"].discard(name)

    def _check_name(self, kind: str, name: Any, table: str) -> None:
        """Raise TypeError or KeyError for a name that an attribute of this kind cannot have."""
        self._require_init(kind)
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[table]:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under this name (`torch.nn.Module.register_parameter`).

        Raises:
            KeyError: the name is empty, has a dot, or is taken.
            TypeError: `param` is no Parameter.
            ValueError: `param` was computed from others.
        """
        self._check_name("parameter", name, "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' (nn.Parameter or None required)"
            )
        if param is not None and not param.is_leaf:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Parameters of a model must be leaves: to make "
                f"'{name}' a function of another tensor, compute it in forward()."
            )
        self.__dict__["_parameters"][name] = as_registered(self, "_parameters", name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is not trained under this name (`torch.nn.Module.register_buffer`).

        Args:
            persistent: If True, include it in `state_dict`. Default: True.

        Raises:
            KeyError: the name is empty, has a dot, or is taken.
            TypeError: `tensor` is no Tensor.
        """
        self._check_name("buffer", name, "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (Tensor or None required)"
            )
        self.__dict__["_buffers"][name] = as_registered(self, "_buffers", name, tensor)
        transient = self.__dict__["_non_persistent_buffers_set"]
        transient.discard(name) if persistent else transient.add(name)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a submodule, as `add_module` (`torch.nn.Module.register_module`)."""
        self.add_module(name, module)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child under this name (`torch.nn.Module.add_module`).

        Raises:
            KeyError: the name is empty, has a dot, or is taken.
            TypeError: `module` is no Module.
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name("module", name, "_modules")
        self.__dict__["_modules"][name] = as_registered(self, "_modules", name, module)

    # The tree

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield this module and its descendants with dotted names, each once (`torch.nn.Module.named_modules`)."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, _dotted(prefix, name), remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Return an iterator over this module and its descendants, each once unless `remove_duplicate` is False."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield each direct child once, with its name."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yield each direct child once."""
        return (module for _, module in self.named_children())

    def _named_members(
        self, table: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in modules:
            for name, member in module.__dict__[table].items():
                if member is None or (remove_duplicate and id(member) in seen):
                    continue
                seen.add(id(member))
                yield _dotted(path, name), member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield each parameter once with its dotted name, by default of submodules too."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield each parameter once, for example for an optimizer (`torch.nn.Module.parameters`)."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield each buffer once with its dotted name, by default of submodules too."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield each buffer once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """Return the submodule with this dotted name.

        Raises:
            AttributeError: The module has no such submodule.
        """
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at this dotted name; with `strict` only where there is one.

        Raises:
            ValueError: the name is empty, or `module` is no Module.
            AttributeError: the way to it is not there.
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter with this dotted name.

        Raises:
            AttributeError: The module has no such parameter.
        """
        parent, name = self._parent_of(target)
        parameter = getattr(parent, name)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer with this dotted name.

        Raises:
            AttributeError: The module has no such buffer.
        """
        parent, name = self._parent_of(target)
        buffer = getattr(parent, name)
        if name not in parent._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return buffer  # type: ignore[no-any-return]

    def _parent_of(self, target: str) -> tuple[Module, str]:
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        return parent, name

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call ``fn(module)`` for each module below and then for this one (`torch.nn.Module.apply`)."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # Training mode and gradients

    def train(self, mode: bool = True) -> Self:
        """Set the training mode of this module and its descendants, and return the module.

        Raises:
            ValueError: `mode` is not a bool.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Set evaluation mode: ``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether autograd records gradients of the parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def share_memory(self) -> Self:
        """Move parameters, their gradients and buffers to memory that other processes may see
        (`torch.nn.Module.share_memory`).
        """
        for parameter in self.parameters():
            parameter.share_memory_()
            if parameter.grad is not None:
                parameter.grad.share_memory_()
        for buffer in self.buffers():
            buffer.share_memory_()
        return self

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Have the module's calls compiled from now on (`torch.nn.Module.compile`); see `tt.compile`.

        Args:
            args, kwargs: those of `tt.compile` behind the model.

        Raises:
            RuntimeError: a mode that there is none of.

        Example:
            >>> import triten as tt
            >>> model = tt.nn.Linear(2, 3)
            >>> model.compile()
            >>> model(tt.ones(1, 2)).shape
            triten.Size([1, 3])
        """
        from ...compiler import compile

        self.__dict__["_compiled_call_impl"] = compile(self._call_impl, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        # Graphs belong to the process and to this module, not to its copies.
        return {name: value for name, value in self.__dict__.items() if name != "_compiled_call_impl"}

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters to None, or to zeros if `set_to_none` is False."""
        for parameter in self.parameters():
            if parameter.grad is not None:
                if set_to_none:
                    parameter.grad = None
                else:
                    grad = parameter.grad
                    grad.detach_() if grad.grad_fn is not None else grad.requires_grad_(False)
                    grad.zero_()

    # Hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before `forward`; what it returns takes the arguments' place.

        With `with_kwargs` it is ``hook(module, args, kwargs)``, and returns both. `prepend` puts it first.
        """
        flags = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return added(self._forward_pre_hooks, hook, prepend, *flags)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after `forward`; what it returns takes the output's place.

        With `with_kwargs` it is ``hook(module, args, kwargs, output)``; with `always_call` it is called after an
        exception too. `prepend` puts it first.
        """
        flags = [self._forward_hooks_with_kwargs] if with_kwargs else []
        if always_call:
            flags.append(self._forward_hooks_always_called)
        return added(self._forward_hooks, hook, prepend, *flags)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` at the last operation of `forward`; its result takes the place
        of `grad_input`. PyTorch advises against it: use `register_full_backward_hook`.

        The gradients are those of the operation that made the first tensor of the result, not the module's.
        """
        return self.register_forward_hook(LastOperationHook(hook))

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` when the output's gradient is there; a result takes its place."""
        return added(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the inputs' gradients are there.

        A result takes the place of `grad_input`. Inputs and outputs may then not be written in place.
        """
        return added(self._backward_hooks, hook, prepend)

    # Printing

    def extra_repr(self) -> str:
        """Return the module's own part of its `repr`."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr().split("\n") if self.extra_repr() else []
        children = [
            f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()
        ]
        if not children and len(extra) < 2:
            return f"{self._get_name()}({''.join(extra)})"
        return f"{self._get_name()}(\n  " + "\n  ".join([*extra, *children]) + "\n)"

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)


def typename(value: Any) -> str:
    """Return the qualified name of a value's class, with its module unless it is a builtin."""
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _dotted(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
