"""Launch of a user's Triton kernel as an operator (torch/_higher_order_ops/triton_kernel_wrap.py).

``kernel[grid](x, out, n, BLOCK=64)`` becomes one call of ``higher_order::triton_kernel_wrapper_mutation``, which a
graph can hold. Tensors and integers are its arguments; everything else is a row of a process-wide table. Its derived
form ``triton_kernel_wrapper_mutation_functional`` clones the tensors that the kernel writes.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from ...runtime.cuda.triton.launch_observer import observing_launches
from ...runtime.cuda.triton.written_pointers import written_parameters
from ...runtime.local_dispatch_key_set import local
from ...runtime.size import SymInt
from ...runtime.tensor_impl import TensorImpl
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import KernelFunction
from ..core.op_overload import OpOverload
from .fake_context import is_running_fake

NAME = "higher_order::triton_kernel_wrapper_mutation"
SCHEMA = f"{NAME}(int kernel_idx, SymInt[] grid, SymInt[] numbers, Tensor(a!)[] written, Tensor[] read) -> ()"
GRID_RANK = 3

Launcher = Callable[[Any, Any, Sequence[Any], Mapping[str, Any]], None]


class _Leaf(NamedTuple):
    """Operator argument: the element at `position` of its list `kind`."""

    kind: str
    position: int


class _Record(NamedTuple):
    """A tuple, list, `TensorDescriptor` or `TensorWrapper`, as its class and its fields with a `_Leaf` each."""

    made_of: type[Any]
    names: tuple[str, ...]
    fields: tuple[Any, ...]

    def restored(self, lists: Mapping[str, Sequence[Any]]) -> Any:
        """Return the object with the operator's arguments filled in."""
        fields = [_restored(value, lists) for value in self.fields]
        if self.names:
            return self.made_of(**dict(zip(self.names, fields, strict=True)))
        return self.made_of(fields)


class Row(NamedTuple):
    """A launch without its tensors and integers.

    It has these attributes:

    - `kernel`: The `@triton.jit` function, autotuner or heuristics.
    - `launcher`: The function that makes the launch.
    - `args`, `kwargs`: The arguments, with a `_Leaf` for each one that the operator receives.
    - `configurations`: The settings of each autotuner configuration; `grid` has three sizes for each.
    """

    kernel: Any
    launcher: Launcher
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    configurations: tuple[tuple[tuple[str, Any], ...], ...]


_rows: list[Row] = []
_row_indices: dict[Any, int] = {}
_lock = threading.Lock()


def launch_kernel(kernel: Any, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Make a launch in Triton's own notation."""
    with observing_launches(None):
        kernel[grid](*args, **kwargs)


def call_launch_operator(
    kernel: Any,
    grid: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    launcher: Launcher = launch_kernel,
) -> None:
    """Call the operator that represents a launch.

    Raises:
        RuntimeError: for a nested autotuner, whose grids have no order.
        TypeError: for a grid that is not one to three integers.
    """
    names, written = _parameters(kernel)
    lists = _Arguments(written)
    positional = [lists.replaced(names[i] if i < len(names) else "", value) for i, value in enumerate(args)]
    named = tuple([(name, lists.replaced(name, value)) for name, value in kwargs.items()])
    bound = {**dict(zip(names, args, strict=False)), **kwargs}
    configurations, sizes = [], []
    for configuration, meta in _metas(kernel, bound):
        configurations.append(tuple(configuration.items()))
        sizes += _sizes(grid(meta) if callable(grid) else grid)
    if is_running_fake() and not lists.written and not lists.read:
        return  # without tensors, a fake launch cannot be recognized
    row = Row(kernel, launcher, tuple(positional), named, tuple(configurations))
    launch_operator()(_row_index_of(row), sizes, lists.numbers, lists.written, lists.read)


def launch_or_dispatch(
    kernel: Any, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any], launcher: Launcher
) -> None:
    """Make a launch, or call its operator if a layer, a mode or a fake kernel takes part in it."""
    if (
        local.included
        or is_running_fake()
        or any(
            isinstance(value, TensorImpl) and value._spec.keys
            for value in itertools.chain(args, kwargs.values())
        )
    ):
        call_launch_operator(kernel, grid, args, kwargs, launcher)
    else:
        launcher(kernel, grid, args, kwargs)


def without_launches(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a fake kernel for a function of launches: on Meta tensors it skips the launches."""

    def fake(*args: Any, **kwargs: Any) -> Any:
        with observing_launches(call_launch_operator):
            return function(*args, **kwargs)

    return fake


@cache
def launch_operator() -> OpOverload:
    """Return the operator, which the first call defines."""
    dispatcher = Dispatcher.singleton()
    # A kernel may also print, or write through loaded pointers: no launch is dropped or merged with another.
    dispatcher.register_def(SCHEMA, __name__, frozenset({"maybe_aliasing_or_mutating"}))
    dispatcher.register_impl(NAME, "CompositeExplicitAutograd", KernelFunction(_run, source=__name__))
    dispatcher.register_impl(NAME, "Meta", KernelFunction(lambda *_: None, source=__name__))
    # As in PyTorch, a launch records no history: the function around it supplies gradients, or there are none.
    dispatcher.register_impl(NAME, "Autograd", KernelFunction.fallthrough(__name__))
    return OpOverload(dispatcher.find_schema_or_throw(NAME))


def _row_index_of(row: Row) -> int:
    """Return the index of a row in the table; rows of the same objects share one."""
    key = _key(tuple(row))
    with _lock:
        known = _row_indices.get(key)
        if known is None:
            known = _row_indices[key] = len(_rows)
            _rows.append(row)
        return known


def _key(value: Any) -> Any:
    """Return the identity key of a value in a row: True is not 1.0, and 0.0 is not -0.0."""
    if isinstance(value, tuple | list):
        return (value.__class__, *map(_key, value))
    if value is None or isinstance(value, bool | int | str | float | complex):
        return value.__class__, repr(value)
    if value.__class__.__name__ == "constexpr":
        return value.__class__, _key(value.value)
    return id(value)  # the row keeps the object alive


def _run(
    row_index: int, grid: Sequence[int], numbers: Sequence[int], written: Sequence[Any], read: Sequence[Any]
) -> None:
    """Make the launch of a row."""
    if not 0 <= row_index < len(_rows):
        raise RuntimeError(
            f"triton_kernel_wrapper_mutation: this process knows no Triton launch {row_index}; a graph that launches a "
            "Triton kernel runs in the process that captured it: capture the function here"
        )
    row = _rows[row_index]
    lists = {"numbers": numbers, "written": written, "read": read}
    sizes = [tuple(grid[i : i + GRID_RANK]) for i in range(0, len(grid), GRID_RANK)]

    def chosen(meta: Mapping[str, Any]) -> tuple[int, ...]:
        for configuration, each in zip(row.configurations, sizes, strict=True):
            if all(meta.get(name, value) == value for name, value in configuration):
                return each
        raise RuntimeError(f"kernel '{_name(row.kernel)}': no grid was captured for the configuration {meta}")

    whole: Any = sizes[0] if len(sizes) == 1 else chosen
    row.launcher(
        row.kernel,
        whole,
        [_restored(value, lists) for value in row.args],
        {name: _restored(value, lists) for name, value in row.kwargs},
    )


def _restored(value: Any, lists: Mapping[str, Sequence[Any]]) -> Any:
    if isinstance(value, _Leaf):
        return lists[value.kind][value.position]
    return value.restored(lists) if isinstance(value, _Record) else value


class _Arguments:
    """Tensors and integers of a launch, in the operator's lists."""

    def __init__(self, names_written: frozenset[str]) -> None:
        self.names_written = names_written
        self.numbers: list[Any] = []
        self.written: list[Any] = []
        self.read: list[Any] = []

    def replaced(self, name: str, value: Any) -> Any:
        """Return an argument with a `_Leaf` for each tensor and integer."""
        if isinstance(value, TensorImpl):
            kind = "written" if name in self.names_written else "read"
            return self._leaf(kind, getattr(self, kind), value)
        if value.__class__ is int or isinstance(value, SymInt):
            return self._leaf("numbers", self.numbers, value)
        if isinstance(value, tuple | list):
            names = getattr(value, "_fields", ())
            made_of = value.__class__ if names or isinstance(value, list) else tuple
            return self._record(name, made_of, names, value)
        if dataclasses.is_dataclass(value) and hasattr(
            value, "base"
        ):  # Triton's and Gluon's tensor descriptors
            names = tuple(field.name for field in dataclasses.fields(value) if field.init)
            return self._record(name, value.__class__, names, [getattr(value, each) for each in names])
        if value.__class__.__name__ == "TensorWrapper":  # of `triton.reinterpret`
            return self._record(name, value.__class__, ("base", "dtype"), (value.base, value.dtype))
        return value

    def _record(self, name: str, made_of: Any, names: tuple[str, ...], fields: Sequence[Any]) -> _Record:
        return _Record(made_of, names, tuple([self.replaced(name, each) for each in fields]))

    def _leaf(self, kind: str, among: list[Any], value: Any) -> _Leaf:
        among.append(value)
        return _Leaf(kind, len(among) - 1)


def _parameters(kernel: Any) -> tuple[Sequence[str], frozenset[str]]:
    """Return the names of a kernel's parameters, and of those that it or its autotuner writes.

    An autotuner hook, or a launcher class that Triton lacks, may write to every argument.
    """
    written: set[str] = set()
    is_known = True
    while not _is_function(kernel):
        if hasattr(kernel, "configs"):
            written |= {*kernel.reset_to_zero, *kernel.restore_value}
            is_known &= not (
                kernel.user_defined_pre_hook
                or kernel.user_defined_post_hook
                or any(config.pre_hook is not None for config in kernel.configs)
            )
        else:
            is_known &= isinstance(getattr(kernel, "values", None), Mapping)
        kernel = kernel.fn
    names = kernel.arg_names
    return names, written_parameters(kernel) | written if is_known else frozenset(names)


def _is_function(kernel: Any) -> bool:
    return not hasattr(kernel.fn, "fn")


def _name(kernel: Any) -> str:
    while not _is_function(kernel):
        kernel = kernel.fn
    return str(kernel.fn.__name__)


def _metas(kernel: Any, bound: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the settings of each configuration, with all the values that a grid function may read."""
    if _is_function(kernel):
        parameters = inspect.signature(inspect.unwrap(kernel.fn)).parameters.values()
        yield {}, {**{p.name: p.default for p in parameters if p.default is not p.empty}, **bound}
    elif hasattr(kernel, "configs"):
        for config in kernel.configs:
            own = config.all_kwargs()
            for inner, meta in _metas(kernel.fn, {**bound, **own}):
                if inner:
                    raise RuntimeError(f"kernel '{_name(kernel)}' is autotuned twice, which no graph holds")
                yield own, meta
    else:
        values = getattr(kernel, "values", None)
        for name, heuristic in values.items() if isinstance(values, Mapping) else ():
            bound = {**bound, name: heuristic(bound)}
        yield from _metas(kernel.fn, bound)


def _sizes(grid: Any) -> list[Any]:
    """Return a grid as three sizes. Raises TypeError for an invalid grid."""
    if not isinstance(grid, tuple | list) or not 1 <= len(grid) <= GRID_RANK:
        raise TypeError(f"expected a grid of one to three ints, got {grid!r}")
    sizes = [size if isinstance(size, SymInt) else int(size) for size in grid]
    return sizes + [1] * (GRID_RANK - len(sizes))
