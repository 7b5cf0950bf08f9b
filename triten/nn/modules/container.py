"""Modules that hold others, and lists and dictionaries of parameters."""

from __future__ import annotations

import itertools
import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, SupportsIndex, overload

from ...dispatch.tensor import Tensor
from .module import Module
from .parameter import Parameter

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _normalized_index(index: SupportsIndex, length: int) -> int:
    """Normalize an index of a list to a non-negative one.

    Raises:
        IndexError: The index is out of range.
    """
    position = operator.index(index)
    if not -length <= position < length:
        raise IndexError(f"index {position} is out of range")
    return position % length


class _Numbered(Module):
    """Children under the names 0, 1, ..."""

    _modules: dict[str, Module]

    def _renumber(self, modules: Iterable[Module]) -> None:
        remaining = list(modules)
        self._modules.clear()
        self._modules.update((str(i), module) for i, module in enumerate(remaining))

    def _get_abs_string_index(self, idx: SupportsIndex) -> str:
        return str(_normalized_index(idx, len(self)))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Module | Self:
        modules = list(self._modules.values())
        if isinstance(index, slice):
            made = type(self).__new__(type(self))
            Module.__init__(made)
            made._renumber(modules[index])
            return made
        return modules[_normalized_index(index, len(modules))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, list(self._modules)[_normalized_index(index, len(self))], module)

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self._modules.values())
        if not isinstance(index, slice):
            index = _normalized_index(index, len(modules))
        del modules[index]
        self._renumber(modules)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Put a module before the one at `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, index: int) -> Module:
        """Take a module out."""
        module = self[index]
        del self[index]
        return module


def _repeated(modules: Sequential, times: int) -> list[Module]:
    """Return the modules repeated `times` times.

    Raises:
        TypeError: `times` is not an integer.
        ValueError: `times` is below 1.
    """
    if not isinstance(times, int):
        raise TypeError(f"unsupported operand type(s) for *: {type(modules)} and {type(times)}")
    if times <= 0:
        raise ValueError(f"Non-positive multiplication factor {times} for {type(modules)}")
    return list(modules) * times


class Sequential(_Numbered):
    """Modules that are called one after another, each with what the one before gave.

    Args:
        args: the modules, or one ordered dictionary of them.

    Source: torch.nn.Sequential.

    Example:
        >>> import triten as tt
        >>> model = tt.nn.Sequential(tt.nn.Linear(2, 3), tt.nn.ReLU())
        >>> model(tt.ones(4, 2)).shape
        triten.Size([4, 3])
    """

    @overload
    def __init__(self, *args: Module) -> None: ...
    @overload
    def __init__(self, arg: OrderedDict[str, Module], /) -> None: ...
    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Module | Self:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return super().__getitem__(index)

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*_repeated(self, times))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        self._renumber(_repeated(self, times))
        return self

    def forward(self, input: Any) -> Any:
        """Call each module on the result of the one before, and return the last result.

        An error gets a note that names the layer, since the frame that called it is not the program's own.
        """
        for name, module in self._modules.items():
            try:
                input = module(input)
            except Exception as error:
                layer = f"{type(module).__name__}({module.extra_repr()})"
                error.add_note(f"In layer {name!r} of {type(self).__name__}: {layer}")
                raise
        return input


class ModuleList(_Numbered):
    """A list whose modules are its children.

    Source: torch.nn.ModuleList.

    Example:
        >>> import triten as tt
        >>> layers = tt.nn.ModuleList(tt.nn.Linear(2, 2) for _ in range(3))
        >>> len(layers), len(list(layers.parameters()))
        (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end. Raises TypeError for what is no iterable."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        return super().extend(modules)

    def __repr__(self) -> str:
        """Show consecutive modules of the same representation once, with their count."""
        if not self._modules:
            return f"{self._get_name()}()"
        shown = []
        start = 0
        for text, alike in itertools.groupby(map(repr, self)):
            count = len(list(alike))
            numbers, times = (f"{start}-{start + count - 1}", f"{count} x ") if count > 1 else (start, "")
            shown.append(f"({numbers}): {times}" + text.replace("\n", "\n  "))
            start += count
        return f"{self._get_name()}(\n  " + "\n  ".join(shown) + "\n)"


class ModuleDict(Module):
    """A dictionary whose modules are its children, in the order of their insertion.

    Source: torch.nn.ModuleDict.

    Example:
        >>> import triten as tt
        >>> choices = tt.nn.ModuleDict({"linear": tt.nn.Linear(2, 2)})
        >>> choices["relu"] = tt.nn.ReLU()
        >>> list(choices)
        ['linear', 'relu']
    """

    _modules: dict[str, Module]

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take every module out."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Take a module out."""
        return self._modules.pop(key)

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self._modules.keys()

    def values(self) -> Iterable[Module]:
        """Return the modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Return the names and modules."""
        return self._modules.items()

    def update(self, modules: Mapping[str, Module] | ModuleDict | Iterable[tuple[str, Module]]) -> None:
        """Add or replace modules, from a mapping or pairs."""
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


def _pairs(name: str, values: Any) -> Iterable[tuple[str, Any]]:
    """Return the names and values of a mapping, or of an iterable of pairs.

    Raises:
        TypeError: `values` or an element is not iterable.
        ValueError: An element does not have length 2.
    """
    if isinstance(values, Mapping | ModuleDict | ParameterDict):
        return values.items()
    if not isinstance(values, Iterable):
        raise TypeError(
            f"{name}.update should be called with an iterable of key/value pairs, but got {type(values).__name__}"
        )
    pairs = list(values)
    for position, pair in enumerate(pairs):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{name} update sequence element #{position} should be Iterable; is {type(pair).__name__}"
            )
        if len(list(pair)) != 2:
            raise ValueError(
                f"{name} update sequence element #{position} has length {len(list(pair))}; 2 is required"
            )
    return pairs


def _as_parameter(value: Any) -> Any:
    """Wrap a tensor in a `Parameter`; return any other value unchanged."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


class ParameterList(Module):
    """A list whose tensors are parameters; other values are kept.

    Source: torch.nn.ParameterList.

    Example:
        >>> import triten as tt
        >>> weights = tt.nn.ParameterList([tt.ones(2), tt.ones(3)])
        >>> [name for name, _ in weights.named_parameters()]
        ['0', '1']
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        # Each is read when its turn comes: a tracer records the reading.
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> ParameterList: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return ParameterList(self[i] for i in range(*index.indices(len(self))))
        return getattr(self, str(_normalized_index(index, len(self))))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_normalized_index(index, len(self))), _as_parameter(value))

    def append(self, value: Any) -> Self:
        """Add a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Append values.

        Raises:
            TypeError: `values` is a tensor.
        """
        if isinstance(values, Tensor):
            raise TypeError("ParameterList.extend should be called with an iterable, but got Tensor")
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")

    def extra_repr(self) -> str:
        return "\n".join(_described(str(i), value) for i, value in enumerate(self))


class ParameterDict(Module):
    """A dictionary whose tensors are parameters; other values are kept.

    Source: torch.nn.ParameterDict.

    Example:
        >>> import triten as tt
        >>> weights = tt.nn.ParameterDict({"left": tt.ones(2)})
        >>> [name for name, _ in weights.named_parameters()]
        ['left']
    """

    def __init__(self, parameters: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """Return the values."""
        return [self[key] for key in self._keys]

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return the names and values."""
        return [(key, self[key]) for key in self._keys]

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a name, or `default`."""
        return self[key] if key in self._keys else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of a name; if the name is missing, set it to `default` first."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Take a value out."""
        value = self[key]
        del self[key]
        return value

    def update(self, values: Mapping[str, Any] | ParameterDict | Iterable[tuple[str, Any]]) -> None:
        """Add or replace values, from a mapping or pairs; the names of an unordered mapping are sorted."""
        pairs = _pairs("ParameterDict", values)
        if isinstance(values, Mapping) and not isinstance(values, OrderedDict):
            pairs = [(key, values[key]) for key in sorted(values)]
        for key, value in pairs:
            self[key] = value

    def clear(self) -> None:
        """Take every value out."""
        for key in list(self):
            del self[key]

    def popitem(self) -> tuple[str, Any]:
        """Take the newest value out, with its name. Raises KeyError where there is none."""
        if not self._keys:
            raise KeyError("popitem(): the ParameterDict is empty")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def copy(self) -> ParameterDict:
        """Return a shallow copy of the dictionary."""
        return ParameterDict(OrderedDict(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a dictionary with these names, each with the value `default`."""
        return ParameterDict(OrderedDict.fromkeys(keys, default))

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __or__(self, other: Mapping[str, Any] | ParameterDict) -> ParameterDict:
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: Mapping[str, Any]) -> ParameterDict:
        made = ParameterDict(other)
        made.update(self)
        return made

    def __ior__(self, other: Mapping[str, Any] | ParameterDict) -> Self:
        self.update(other)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def extra_repr(self) -> str:
        return "\n".join(_described(key, value) for key, value in self.items())


def _described(key: str, value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"({key}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    shape = "x".join(map(str, value.shape))
    return f"({key}): {kind} containing: [{value.dtype} of size {shape}{_on(value)}]"


def _on(value: Tensor) -> str:
    return "" if value.device.type == "cpu" else f" ({value.device})"


class Container(Module):
    """A module with the children that it is given (`torch.nn.Container`); a FutureWarning says that `Module` does it.

    Args:
        kwargs: the children by their names.
    """

    def __init__(self, **kwargs: Module) -> None:
        super().__init__()
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)
