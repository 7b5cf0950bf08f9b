"""Decorator that declares a function as a benchmark."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, overload

Function = Callable[..., Any]
OURS = "triten"  # as in `suite/results.py`, which importing `tt.perf` shall not load
DEVICE = "device"
MAX_LABEL = 100


class Case(NamedTuple):
    """One combination of parameters: its label in the results, and the values by name."""

    label: str
    values: Mapping[str, Any]


class Benchmark:
    """Function declared by `tt.perf.benchmark`. Calling it calls the function.

    Attributes:
        function: The decorated function.
        setup: Function that returns the arguments, or None.
        baselines: Functions to compare with, by name.
        check: Whether results of the baselines must agree.
        parameters: Values by name of parameter.
    """

    def __init__(
        self,
        function: Function,
        setup: Function | None,
        baselines: Mapping[str, Function],
        check: bool,
        parameters: Mapping[str, tuple[Any, ...]],
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.setup = setup
        self.baselines = dict(baselines)
        self.check = check
        self.parameters = dict(parameters)
        self._require_distinct_labels()
        self._require_parameters()

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function."""
        return self.function(*arguments, **named)

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.function.__name__

    def cases(self) -> Iterator[Case]:
        """Yield the combinations of the parameters, the last parameter varying fastest."""
        for values in itertools.product(*self.parameters.values()):
            named = dict(zip(self.parameters, values, strict=True))
            labels = {name: label(value) for name, value in named.items()}
            text = ", ".join(f"{name}={each}" for name, each in labels.items())
            yield Case(next(iter(labels.values())) if len(labels) == 1 else text, named)

    def arguments(self, case: Case, device: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the function and of the baselines; runs the set-up.

        A set-up, or a function without one, that has a parameter `device` and no values for it receives the
        device of the run.

        Raises:
            TypeError: if the set-up returns neither a tuple nor a dict.
        """
        taker = self.setup or self.function
        values = dict(case.values)
        if DEVICE in inspect.signature(taker).parameters:
            values.setdefault(DEVICE, device)
        if self.setup is None:
            return (), values
        made = self.setup(**values)
        if isinstance(made, dict):
            return (), made
        if isinstance(made, tuple):
            return made, {}
        raise TypeError(
            f"the set-up of benchmark {self.name!r} must return a tuple or a dict of arguments, got "
            f"{type(made).__name__}; a single argument is a tuple of one: return (x,)"
        )

    def _require_distinct_labels(self) -> None:
        for name, values in self.parameters.items():
            labels = [label(value) for value in values]
            if len(set(labels)) < len(labels):
                raise ValueError(
                    f"benchmark {self.name!r}: the values of {name!r} have equal labels: {', '.join(labels)}; "
                    "pass values whose text differs"
                )

    def _require_parameters(self) -> None:
        taker = self.setup or self.function
        who = f"the set-up of benchmark {self.name!r}" if self.setup else f"benchmark {self.name!r}"
        signature = inspect.signature(taker)
        names = [*self.parameters, *([DEVICE] if DEVICE in signature.parameters else [])]
        try:
            signature.bind(**dict.fromkeys(names))
        except TypeError as error:
            raise TypeError(
                f"{who} takes {signature}, but its parameters are {', '.join(self.parameters) or 'none'}: {error}"
            ) from None


@overload
def benchmark(function: Function, /) -> Benchmark: ...


@overload
def benchmark(
    *,
    setup: Function | None = None,
    baseline: Function | Mapping[str, Function] | None = None,
    check: bool = True,
    **parameters: Iterable[Any],
) -> Callable[[Function], Benchmark]: ...


def benchmark(
    function: Function | None = None,
    /,
    *,
    setup: Function | None = None,
    baseline: Function | Mapping[str, Function] | None = None,
    check: bool = True,
    **parameters: Iterable[Any],
) -> Benchmark | Callable[[Function], Benchmark]:
    """Declare a function as a benchmark, which ``python -m triten.perf run FILE.py`` times.

    Each combination of the parameters is a row of the result file. The suite is the file's name, and the
    function's time is stored under ``triten``.

    Args:
        setup: Function that receives the parameters and returns the arguments of the timed function: a tuple,
            or a dict of keywords. It is not timed, and runs for each baseline after the global generators of
            Python, NumPy and triten were seeded. Default: the function itself receives the parameters.
        baseline: Function with the same arguments, or several by name. Each round runs all of them, and the
            result file has the ratios. Default: none.
        check: If True, the results of the function and of its baselines must agree before anything is timed.
            Results are tensors, arrays, numbers, or tuples of these. Default: True.
        parameters: Values by name, such as ``size=[16, 256]``.

    Returns:
        Benchmark: calling it calls the function.

    Raises:
        TypeError: if the function or the set-up does not take these parameters.
        ValueError: if a parameter has no value or two equal ones, or the name of a baseline is ``triten``.

    Example:
        >>> import triten as tt
        >>> def operands(size):
        ...     return (tt.ones(size, size),)
        >>> @tt.perf.benchmark(setup=operands, size=[16, 256])
        ... def row_sums(x):
        ...     return x.sum(1)
        >>> [case.label for case in row_sums.cases()]
        ['16', '256']
    """
    values = {name: tuple(each) for name, each in parameters.items()}
    for name, each in values.items():
        if not each:
            raise ValueError(f"parameter {name!r} of a benchmark has no values; pass at least one")

    def declare(function: Function) -> Benchmark:
        if not callable(function) or not hasattr(function, "__name__"):
            raise TypeError(f"benchmark must decorate a function, got {type(function).__name__}")
        return Benchmark(function, setup, _named(baseline), check, values)

    return declare if function is None else declare(function)


def label(value: Any) -> str:
    """Return the text of a parameter's value in the results: one line.

    Example:
        >>> import triten as tt
        >>> from triten.perf.user_benchmarks.declaration import label
        >>> label(16), label((3, 4)), label(tt.float32), label(len)
        ('16', '(3, 4)', 'float32', 'len')
    """
    text = getattr(value, "__name__", None) or str(value).removeprefix("triten.")
    whole = " ".join(str(text).split())
    return whole if len(whole) <= MAX_LABEL else f"{whole[: MAX_LABEL - 3]}..."


def _named(baseline: Function | Mapping[str, Function] | None) -> dict[str, Function]:
    if baseline is None:
        return {}
    baselines = dict(baseline) if isinstance(baseline, Mapping) else {_name_of(baseline): baseline}
    for name, function in baselines.items():
        if name == OURS:
            raise ValueError(
                f"a baseline must not be named {OURS!r}, which stands for the benchmark itself; "
                "pass baseline={'another name': function}"
            )
        if not callable(function):
            raise TypeError(f"baseline {name!r} must be a function, got {type(function).__name__}")
    return baselines


def _name_of(function: Function) -> str:
    return str(getattr(function, "__name__", "baseline"))
