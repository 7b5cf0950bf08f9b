"""The bases of pipes, and pipes as methods of pipes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from ..dataset import Dataset, IterableDataset

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


class _Methods:
    """A base whose subclasses become methods of all its instances, by `functional_datapipe`."""

    functions: ClassVar[dict[str, Callable[..., Any]]]

    def __getattr__(self, name: str) -> Any:
        function = type(self).functions.get(name)
        if function is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return functools.partial(function, self)

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

    def __str__(self) -> str:
        return type(self).__qualname__

    __repr__ = __str__


class IterDataPipe(_Methods, IterableDataset[Item_co]):
    """Iterable-style pipe, of which one iterator at a time is valid (`torch.utils.data.IterDataPipe`).

    A subclass writes ``__iter__``; each call of it begins with `reset`.

    Raises:
        RuntimeError: by an iterator, when another one of the same pipe has begun.

    Example:
        >>> from triten.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(5)).filter(lambda n: n % 2 == 0).map(lambda n: n * 10).batch(2))
        [[0, 20], [40]]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    _valid: object = None
    _is_running = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = vars(cls).get("__iter__")
        if own is not None:
            cls.__iter__ = _with_one_iterator(own)  # type: ignore[method-assign]

    def reset(self) -> None:
        """Begin anew: what a subclass does before its samples are iterated over."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_valid", "_is_running")}


def _with_one_iterator(iterate: Callable[[Any], Iterable[Any]]) -> Callable[[Any], Iterator[Any]]:
    """Wrap ``__iter__`` so that it resets the pipe and ends the previous iterator."""

    @functools.wraps(iterate)
    def begin(self: IterDataPipe[Any]) -> Iterator[Any]:
        if self._is_running:  # an ``__iter__`` asks that of its base
            return iter(iterate(self))
        token = self._valid = object()
        self.reset()
        return samples_of(self, token)

    def samples_of(self: IterDataPipe[Any], token: object) -> Iterator[Any]:
        samples: Iterator[Any] | None = None
        while True:
            if self._valid is not token:
                raise RuntimeError(
                    "This iterator has been invalidated because another iterator has been created from the same "
                    f"IterDataPipe: {self}"
                )
            self._is_running = True
            try:
                if samples is None:
                    samples = iter(iterate(self))
                sample = next(samples)
            except StopIteration:
                return
            finally:
                self._is_running = False
            yield sample

    return begin


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
