"""Store of benchmark runs in one SQLite file, and the change points of its series: `python -m triten.perf history`.

- `store` adds result files and reads them back; `schema` has the tables.
- `series` arranges the times of one benchmark on one machine by commit.
- `change_points` finds shifts in a series of numbers; `changes` applies it to all series of a store.

The report, the gate and the server read runs through `History`. Nothing here measures.
"""

from .store import History, HistoryError, Run

__all__ = ["History", "HistoryError", "Run"]
