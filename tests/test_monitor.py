"""`tt.monitor`: events, their handlers, and statistics that become events."""

from datetime import datetime, timedelta

import pytest

import triten as tt
from triten import monitor
from triten.monitor import Aggregation, Event, Stat


@pytest.fixture
def events():
    found = []
    handle = monitor.register_event_handler(found.append)
    yield found
    monitor.unregister_event_handler(handle)


def test_handlers_get_events_until_they_are_unregistered():
    found = []
    handle = monitor.register_event_handler(found.append)
    event = Event("mine", datetime(2026, 1, 1), {"a": 1, "b": "s", "c": 0.5, "d": True})
    monitor.log_event(event)
    monitor.unregister_event_handler(handle)
    monitor.unregister_event_handler(handle)
    monitor.log_event(event)
    assert found == [event]


def test_an_error_of_a_handler_is_raised():
    handle = monitor.register_event_handler(lambda event: event.data["missing"])
    with pytest.raises(KeyError, match="missing"):
        monitor.log_event(Event("mine", datetime.now(), {}))
    monitor.unregister_event_handler(handle)


def test_a_full_window_is_logged_and_drops_further_values(events):
    stat = Stat("x", list(Aggregation), timedelta(days=40_000), 3)
    assert set(stat.get().values()) == {0.0}
    for value in (1, 5, 3, 7):
        stat.add(value)
    assert stat.count == 0 and stat.name == "x"
    expected = {"value": 3.0, "mean": 3.0, "count": 3.0, "sum": 9.0, "max": 5.0, "min": 1.0}
    assert {each.name.lower(): value for each, value in stat.get().items()} == expected
    assert [(e.name, e.data) for e in events] == [
        ("torch.monitor.Stat", {f"x.{name}": value for name, value in expected.items()})
    ]


def test_a_window_that_has_ended_is_logged_by_the_next_value(events, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    stat = Stat("x", [Aggregation.SUM], timedelta(seconds=10))
    stat.add(1)
    stat.add(2)
    assert stat.count == 2 and not events
    clock[0] = 111.0
    stat.add(4)
    assert stat.count == 1 and stat.get() == {Aggregation.SUM: 3.0}
    assert [event.data for event in events] == [{"x.sum": 3.0}]


def test_the_open_window_is_logged_when_its_statistics_are_deleted(events):
    stat = Stat("loss", [Aggregation.SUM], timedelta(hours=1), 10)
    stat.add(2.0)
    stat.add(3.0)
    del stat
    assert [event.data for event in events] == [{"loss.sum": 5.0}]
    Stat("loss", [Aggregation.SUM], timedelta(hours=1))
    assert len(events) == 1, "a window without values is no event"


def test_statistics_are_written_as_scalars():
    written = []

    class Writer:
        def add_scalar(self, key, value, walltime):
            written.append((key, value))

    handle = monitor.register_event_handler(monitor.TensorboardEventHandler(Writer()))
    monitor.log_event(Event("other", datetime.now(), {"x": 1}))
    Stat("x", [Aggregation.MAX], timedelta(hours=1), 1).add(2)
    monitor.unregister_event_handler(handle)
    assert written == [("x.max", 2.0)]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Event(1, datetime.now(), {}), TypeError, "name must be a str"),
        (lambda: Event("a", 1.0, {}), TypeError, "timestamp must be a datetime"),
        (lambda: Event("a", datetime.now(), {"q": [1]}), TypeError, "'q': \\[1\\]"),
        (lambda: Stat("x", [1], timedelta(1)), TypeError, "of Aggregation, but got 1"),
        (lambda: Stat("x", [], 5), TypeError, "window_size must be a timedelta"),
        (lambda: Stat("x", [], timedelta(0)), ValueError, "at least one millisecond"),
        (lambda: tt.monitor.log_event(3), TypeError, "an Event, but got 3"),
        (lambda: tt.monitor.register_event_handler(3), TypeError, "callable, but got 3"),
        (lambda: tt.monitor.unregister_event_handler(3), TypeError, "EventHandlerHandle, but got 3"),
    ],
)
def test_arguments_of_another_kind_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
