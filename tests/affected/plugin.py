"""pytest's side of the selection: shorten tables of operators, and measure the CPU time of each file.

`tests/conftest.py` loads this module, which does nothing without its options.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from .selection import LONG, costs

WORDS = re.compile(r"[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--affected-names",
        default="",
        metavar="NAMES",
        help="comma-separated names: a long file runs only the tests that name one of them, if any does",
    )
    parser.addoption("--measure-to", default="", metavar="FILE", help="write each file's CPU seconds to FILE")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--measure-to"):
        config.pluginmanager.register(Measurement(Path(config.getoption("--measure-to"))))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    names = {name.strip("_") for name in config.getoption("--affected-names").split(",") if name.strip("_")}
    if not names:
        return
    by_file: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        by_file[item.nodeid.partition("::")[0]].append(item)
    known = costs()
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for path, own in by_file.items():
        naming = [known.get(path, 0.0) > LONG and _names(item, names) for item in own]
        for item, is_kept in zip(own, naming if any(naming) else [True] * len(own), strict=True):
            (kept if is_kept else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def _names(item: pytest.Item, names: set[str]) -> bool:
    words = {word.strip("_") for word in WORDS.findall(item.nodeid.partition("::")[2])}
    return not names.isdisjoint(words | {part for word in words for part in word.split("_")})


class Measurement:
    """The CPU seconds of each file's collection and tests, those of ended subprocesses included."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        before = _cpu_seconds()
        report = yield
        if isinstance(collector, pytest.Module):
            self.seconds[collector.nodeid] += _cpu_seconds() - before
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before = _cpu_seconds()
        done = yield
        self.seconds[item.nodeid.partition("::")[0]] += _cpu_seconds() - before
        return done

    def pytest_unconfigure(self) -> None:
        known = json.loads(self.path.read_text()) if self.path.exists() else {}
        known |= {path: round(max(seconds, 0.1), 1) for path, seconds in self.seconds.items()}
        self.path.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n")


def _cpu_seconds() -> float:
    return sum(os.times()[:4])
