"""`tt.monitor`: events of a program, and statistics that become events (`torch.monitor`)."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .utils.tensorboard import SummaryWriter

__all__ = [
    "Aggregation",
    "Event",
    "EventHandlerHandle",
    "Stat",
    "TensorboardEventHandler",
    "log_event",
    "register_event_handler",
    "unregister_event_handler",
]

STAT_EVENT = "torch.monitor.Stat"
"""Name of the events that a `Stat` logs; programs of PyTorch compare with it."""

Handler = Callable[["Event"], object]


class Aggregation(Enum):
    """Aggregations that a `Stat` can compute of the values of a window; the numbers are PyTorch's.

    `VALUE` is the last value, `MEAN` the arithmetic mean, `COUNT` the number of values, `SUM` their sum, `MAX` the
    largest and `MIN` the smallest value.
    """

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


class Event:
    """Named event with a time and data, which `log_event` gives to the handlers.

    Args:
        name: The event's name, whose data all have the same keys, such as ``"my_package.Loss"``.
        timestamp: When it happened.
        data: Values of the event by name: strings, numbers or bools.

    Raises:
        TypeError: An argument is of another type.

    Example:
        >>> import datetime
        >>> import triten as tt
        >>> event = tt.monitor.Event("mine.Loss", datetime.datetime.now(), {"loss": 0.5, "step": 3})
        >>> event.data["step"]
        3
    """

    def __init__(self, name: str, timestamp: datetime, data: Mapping[str, str | float | int | bool]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"Event: name must be a str, but got {name!r}")
        if not isinstance(timestamp, datetime):
            raise TypeError(f"Event: timestamp must be a datetime, but got {timestamp!r}")
        for key, value in data.items():
            if not isinstance(key, str) or not isinstance(value, str | float | int):
                raise TypeError(
                    f"Event: data maps str to str, float, int or bool, but got {key!r}: {value!r}"
                )
        self.name = name
        self.timestamp = timestamp
        self.data = dict(data)

    def __repr__(self) -> str:
        return f"Event(name={self.name!r}, timestamp={self.timestamp!r}, data={self.data!r})"


class EventHandlerHandle:
    """Registration of a handler, which `unregister_event_handler` ends."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler


_handlers: tuple[EventHandlerHandle, ...] = ()
"""Replaced as a whole, so that `log_event` needs no lock: a finalizer may call it while this thread holds one."""
_handlers_lock = threading.Lock()


def register_event_handler(callback: Handler) -> EventHandlerHandle:
    """Call `callback` with every event that is logged from now on, and return a handle.

    Args:
        callback: A function of one `Event`. `log_event` calls it in the thread that logs, and raises its errors.

    Raises:
        TypeError: `callback` cannot be called.

    Example:
        >>> import datetime
        >>> import triten as tt
        >>> handle = tt.monitor.register_event_handler(lambda event: print(event.name))
        >>> tt.monitor.log_event(tt.monitor.Event("mine.Start", datetime.datetime.now(), {}))
        mine.Start
        >>> tt.monitor.unregister_event_handler(handle)
    """
    if not callable(callback):
        raise TypeError(f"register_event_handler(): callback must be callable, but got {callback!r}")
    global _handlers
    handle = EventHandlerHandle(callback)
    with _handlers_lock:
        _handlers = (*_handlers, handle)
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """End the registration that `register_event_handler` returned; a handle that has ended is ignored."""
    if not isinstance(handler, EventHandlerHandle):
        raise TypeError(
            f"unregister_event_handler(): handler must be an EventHandlerHandle, but got {handler!r}"
        )
    global _handlers
    with _handlers_lock:
        _handlers = tuple([each for each in _handlers if each is not handler])


def log_event(event: Event) -> None:
    """Call all registered handlers with `event`, in the order of their registration."""
    if not isinstance(event, Event):
        raise TypeError(f"log_event(): event must be an Event, but got {event!r}")
    for handle in _handlers:
        handle._handler(event)


class Stat:
    """Statistics over windows of time, each of which is logged as one event.

    The event is named ``"torch.monitor.Stat"``. Its data are the aggregations, named after the statistics and the
    aggregation: ``"loss.mean"``. A window is logged by the first `add` after its end, or by the `add` that reaches
    `max_samples`. Further values of that window are then dropped. The last window is logged when the object is deleted.

    Args:
        name: The name of the statistics.
        aggregations: What to compute of a window's values.
        window_size: The length of a window.
        max_samples: The number of values that end a window early. Default: no limit.

    Raises:
        TypeError: An argument is of another type.
        ValueError: `window_size` is below one millisecond.

    Example:
        >>> import datetime
        >>> import triten as tt
        >>> mean, largest = tt.monitor.Aggregation.MEAN, tt.monitor.Aggregation.MAX
        >>> stat = tt.monitor.Stat("loss", [mean, largest], datetime.timedelta(hours=1), max_samples=2)
        >>> stat.add(1.0); stat.add(2.0); stat.get()[mean], stat.get()[largest]
        (1.5, 2.0)
    """

    def __init__(
        self,
        name: str,
        aggregations: Iterable[Aggregation],
        window_size: timedelta,
        max_samples: int = (1 << 63) - 1,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"Stat: name must be a str, but got {name!r}")
        if not isinstance(window_size, timedelta):
            raise TypeError(f"Stat: window_size must be a timedelta, but got {window_size!r}")
        chosen = tuple(dict.fromkeys(aggregations))
        for each in chosen:
            if not isinstance(each, Aggregation):
                raise TypeError(f"Stat: aggregations must be of Aggregation, but got {each!r}")
        if window_size < timedelta(milliseconds=1):
            raise ValueError(f"Stat: window_size must be at least one millisecond, but got {window_size!r}")
        self._name = name
        self._aggregations = chosen
        self._window_size = window_size.total_seconds()
        self._max_samples = max_samples
        self._lock = threading.RLock()
        self._values: list[float] = []
        self._last = dict.fromkeys(chosen, 0.0)
        self._window = self._current_window()
        self._logged_window: int | None = None

    def __del__(self) -> None:
        if getattr(self, "_values", None) and not sys.is_finalizing():
            self._close()

    @property
    def name(self) -> str:
        """The name of the statistics."""
        return self._name

    @property
    def count(self) -> int:
        """The number of values in the open window."""
        with self._lock:
            return len(self._values)

    def add(self, v: float) -> None:
        """Add a value to the open window, after logging a window that has ended."""
        value = float(v)
        with self._lock:
            window = self._current_window()
            if window != self._window:
                self._close()
                self._window = window
            if self._logged_window == window:
                return
            self._values.append(value)
            if len(self._values) >= self._max_samples:
                self._logged_window = window
                self._close()

    def get(self) -> dict[Aggregation, float]:
        """Return the aggregations of the last window that ended, which are zeros if it had no values."""
        with self._lock:
            return dict(self._last)

    def _current_window(self) -> int:
        return int(time.monotonic() / self._window_size)

    def _close(self) -> None:
        values, self._values = self._values, []
        if not values:
            self._last = dict.fromkeys(self._aggregations, 0.0)
            return
        self._last = {each: _aggregated(each, values) for each in self._aggregations}
        data = {f"{self._name}.{each.name.lower()}": value for each, value in self._last.items()}
        log_event(Event(STAT_EVENT, datetime.now(), data))


def _aggregated(aggregation: Aggregation, values: list[float]) -> float:
    match aggregation:
        case Aggregation.VALUE:
            return values[-1]
        case Aggregation.COUNT:
            return float(len(values))
        case Aggregation.SUM:
            return sum(values)
        case Aggregation.MAX:
            return max(values)
        case Aggregation.MIN:
            return min(values)
        case Aggregation.MEAN:
            return sum(values) / len(values)


class TensorboardEventHandler:
    """Handler that writes the events of `Stat` to a `SummaryWriter`, each aggregation as a scalar.

    Args:
        writer: The writer, whose `add_scalar` gets the name, the value and the time.

    Example:
        >>> import triten as tt
        >>> from triten.utils.tensorboard import SummaryWriter
        >>> handler = tt.monitor.TensorboardEventHandler(SummaryWriter("runs"))  # doctest: +SKIP
        >>> handle = tt.monitor.register_event_handler(handler)  # doctest: +SKIP
    """

    def __init__(self, writer: SummaryWriter) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        """Write the event's data if it is an event of `Stat`."""
        if event.name == STAT_EVENT:
            for key, value in event.data.items():
                self._writer.add_scalar(key, value, walltime=event.timestamp.timestamp())
