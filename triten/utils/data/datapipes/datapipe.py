"""The bases of pipes, and pipes as methods of pipes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from ..dataset import Dataset, IterableDataset
from ._hook_iterator import _resetting, _SnapshotState, hook_iterator, invalidated

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


class _Methods:
    """A base whose subclasses become methods of all its instances, by `functional_datapipe`.

    Programs that look into pipes set hooks: `set_getstate_hook` replaces the pickled state, and `set_reduce_ex_hook`
    replaces how a pipe is pickled. `IterDataPipe` and `MapDataPipe` have their own hooks.
    """

    functions: ClassVar[dict[str, Callable[..., Any]]]
    getstate_hook: ClassVar[Callable[[Any], Any] | None]
    reduce_ex_hook: ClassVar[Callable[[Any], Any] | None]
    _unsaved = frozenset({"_is_running", "_fast_forward_iterator"})
    """Names of attributes that are not pickled."""

    def __getattr__(self, name: str) -> Any:
        function = type(self).functions.get(name)
        if function is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return functools.partial(function, self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.functions]

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Make a function of a pipe a method of all."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Callable[..., Any], enable_df_api_tracing: bool = False
    ) -> None:
        """Make a class of pipes a method of all. Raises Exception where the name is taken."""
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")
        cls.functions[function_name] = cls_to_register

    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None:
        """Set the function of a pipe's state whose result is pickled instead; None removes it.

        Raises:
            RuntimeError: There is another one.
        """
        base = _base_of(cls)
        if base.getstate_hook is not None and hook_fn is not None:
            raise RuntimeError("Attempt to override existing getstate_hook")
        base.getstate_hook = hook_fn

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None:
        """Set the function of a pipe that answers ``__reduce_ex__``; None removes it.

        The function raises NotImplementedError for pipes that it leaves to pickle.

        Raises:
            RuntimeError: There is another one.
        """
        base = _base_of(cls)
        if base.reduce_ex_hook is not None and hook_fn is not None:
            raise RuntimeError("Attempt to override existing reduce_ex_hook")
        base.reduce_ex_hook = hook_fn

    def __getstate__(self) -> Any:
        state = {name: value for name, value in self.__dict__.items() if name not in self._unsaved}
        hook = _base_of(type(self)).getstate_hook
        return state if hook is None else hook(state)

    def __reduce_ex__(self, protocol: Any) -> Any:
        hook = _base_of(type(self)).reduce_ex_hook
        if hook is not None:
            with contextlib.suppress(NotImplementedError):
                return hook(self)
        return super().__reduce_ex__(protocol)

    def __str__(self) -> str:
        return type(self).__qualname__

    __repr__ = __str__


def _base_of(cls: type[Any]) -> Any:
    """Return the base that holds a class's hooks: `IterDataPipe` or `MapDataPipe`."""
    return IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe


class IterDataPipe(_Methods, IterableDataset[Item_co]):
    """Iterable-style pipe, of which one iterator at a time is valid (`torch.utils.data.IterDataPipe`).

    A subclass writes ``__iter__``; each call of it begins with `reset`.

    Raises:
        RuntimeError: by an iterator, when another one of the same pipe has begun.

    Example:
        >>> from triten.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(5)).batch(2).unbatch().zip(IterableWrapper("ab")))
        [(0, 'a'), (1, 'b')]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    getstate_hook: ClassVar[Callable[[Any], Any] | None] = None
    reduce_ex_hook: ClassVar[Callable[[Any], Any] | None] = None
    _valid_iterator_id: int | None = None
    _number_of_samples_yielded: int = 0
    _snapshot_state = _SnapshotState.NotStarted
    _fast_forward_iterator: Iterator[Any] | None = None
    _is_running = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        hook_iterator(cls)

    def __iter__(self) -> Iterator[Item_co]:
        return self

    @_resetting
    def reset(self) -> None:
        """Begin anew: what a subclass does before its samples are iterated over."""

    def _begin_iterator(self) -> int:
        """Invalidate the previous iterator, reset the pipe, and return the number of the new iterator."""
        self._valid_iterator_id = 0 if self._valid_iterator_id is None else self._valid_iterator_id + 1
        self.reset()
        return self._valid_iterator_id

    def _check_iterator(self, number: int) -> None:
        """Raise RuntimeError unless `number` is that of the valid iterator."""
        if self._valid_iterator_id != number:
            raise invalidated(self)


class DFIterDataPipe(IterDataPipe[Item_co]):
    """A pipe of data frames (`torch.utils.data.DFIterDataPipe`)."""

    def _is_dfpipe(self) -> bool:
        return True


class MapDataPipe(_Methods, Dataset[Item_co]):
    """Samples by index (`torch.utils.data.MapDataPipe`): a subclass writes ``__getitem__``, and mostly ``__len__``.

    Example:
        >>> from triten.utils.data.datapipes.map import SequenceWrapper
        >>> list(SequenceWrapper([1, 2, 3]).map(lambda n: n * 10))
        [10, 20, 30]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    getstate_hook: ClassVar[Callable[[Any], Any] | None] = None
    reduce_ex_hook: ClassVar[Callable[[Any], Any] | None] = None


class functional_datapipe:
    """A decorator of a class of pipes that makes it a method of all pipes (`torch.utils.data.functional_datapipe`).

    Args:
        name: the method's.
        enable_df_api_tracing: has no effect.

    Raises:
        Exception: the name is taken.
        TypeError: the class is none of pipes.

    Example:
        >>> from triten.utils.data import IterDataPipe, functional_datapipe
        >>> from triten.utils.data.datapipes.iter import IterableWrapper
        >>> @functional_datapipe("docs_doubled")
        ... class Doubled(IterDataPipe):
        ...     def __init__(self, source):
        ...         self.source = source
        ...     def __iter__(self):
        ...         for sample in self.source:
        ...             yield 2 * sample
        >>> list(IterableWrapper([1, 2]).docs_doubled())
        [2, 4]
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        made = getattr(cls, "cls", cls)  # of what `non_deterministic` decorates
        made = getattr(getattr(cls, "__self__", None), "cls", made)
        base = next((each for each in (IterDataPipe, MapDataPipe) if issubclass(made, each)), None)
        if base is None:
            raise TypeError(
                f"`functional_datapipe` can only decorate IterDataPipe or MapDataPipe, got {made}"
            )
        base.register_datapipe_as_function(self.name, cls)
        return cls


class DataChunk(list[Item]):
    """The samples of a batch, as `IterDataPipe.batch` makes them (`torch.utils.data.DataChunk`)."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.items = list(items)
        super().__init__(self.items)

    def as_str(self, indent: str = "") -> str:
        """Format the samples as text after an indentation."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def raw_iterator(self) -> Iterator[Item]:
        """Yield the samples unchanged."""
        yield from self.items
