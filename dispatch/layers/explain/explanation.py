"""Findings of `tt.explain`, and their text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

_FILE = re.compile(r"[\w./-]+\.(?:py|yaml):\d+")


@dataclass
class Stub:
    """Kernel factory that a plan requested, with the module that registers it."""

    name: str
    device_type: str
    location: str | None
    registered: str | None


@dataclass
class PlannedLaunch:
    """Triton kernel that a plan may launch, and its constants."""

    name: str
    location: str | None
    constants: str


@dataclass
class Planning:
    """Decisions for a call of an operator when its plan was made."""

    operator: str
    schema: str
    declared: str
    arguments: str
    keys: str
    key: str
    kernel: str
    plan: str
    device: str
    meta: str | None = None
    derivative: str | None = None
    stubs: list[Stub] = field(default_factory=list)
    choices: list[tuple[str, str]] = field(default_factory=list)
    planned_launches: list[PlannedLaunch] = field(default_factory=list)


@dataclass
class Hop:
    """One call of an operator's kernel: its decisions, and the operators that it called.

    `launches` are the Triton kernels that it enqueued itself, by name and grid; `calls` the hops below it.
    """

    planning: Planning
    launches: list[tuple[str, tuple[int, int, int]]] = field(default_factory=list)
    calls: list[Hop] = field(default_factory=list)

    @property
    def operator(self) -> str:
        """The operator's full name, ``aten::add.Tensor``."""
        return self.planning.operator

    def lines(self, above: Hop | None) -> Iterator[str]:
        """Yield the hop and the hops below it as text, given the hop that called it."""
        planned = self.planning
        goes_on = above is not None and above.operator == planned.operator
        yield f"{planned.operator}, below {above.planning.key}" if goes_on and above else planned.schema
        if not goes_on:
            yield f"  declared: {planned.declared}"
            yield f"  called with: ({planned.arguments})"
            yield f"  keys: {planned.keys}"
        yield f"  kernel: {planned.key}: {planned.kernel}"
        yield f"  plan: {self._plan()}"
        if planned.derivative is not None:
            yield f"  derivative: {planned.derivative}"
        if planned.meta is not None:
            yield f"  meta function: {planned.meta}"
        for stub in planned.stubs:
            rest = f", registered in {stub.registered}" if stub.registered else ""
            yield f"  stub: {stub.name} on {stub.device_type}: {stub.location or 'an unknown location'}{rest}"
        for algorithm, because in planned.choices:
            yield f"  algorithm: {algorithm}, because {because}"
        yield from self._launched()
        yield from (f"  {line}" for line in _of_hops(self.calls, self))

    def _plan(self) -> str:
        hosts = [stub for stub in self.planning.stubs if stub.name.endswith("_host_stub")]
        if not hosts:
            return self.planning.plan
        if self.calls:
            return "composite of other operators, to which its host kernel left the call"
        return "host kernel of a composite: one function over whole arrays instead of its operators"

    def _launched(self) -> Iterator[str]:
        planned: dict[str, list[PlannedLaunch]] = {}
        for launch in self.planning.planned_launches:
            planned.setdefault(launch.name, []).append(launch)
        counts: dict[str, int] = {}
        for name, grid in self.launches:
            of_name = planned.get(name, [])
            nth = counts[name] = counts.get(name, -1) + 1
            text = f"  launch: {name}[{' x '.join(map(str, grid))}]"
            # A kernel with several sets of constants is launched in the order in which they were planned, as a rule.
            if of_name:
                planned_launch = of_name[nth % len(of_name)]
                text += f" ({planned_launch.constants})" if planned_launch.constants else ""
                text += f", {planned_launch.location}" if planned_launch.location else ""
            yield text


class Explanation:
    """Path of one call, as `tt.explain` returns it; it prints as the report.

    Args:
        calls: The operators that were called, in order, each with those that it called.
        result: The function's result.
    """

    def __init__(self, calls: Sequence[Hop], result: Any) -> None:
        self.calls = tuple(calls)
        self.result = result

    @property
    def files(self) -> tuple[str, ...]:
        """Locations that the report names, each once, as ``file:line``."""
        return tuple(dict.fromkeys(_FILE.findall("\n".join(_of_hops(self.calls, None)))))

    def __str__(self) -> str:
        lines = list(_of_hops(self.calls, None))
        if not lines:
            return "no operator was called"
        by_file: dict[str, list[str]] = {}
        for location in self.files:
            file, _, line = location.rpartition(":")
            by_file.setdefault(file, []).append(line)
        lines.append("files to read:")
        lines += [f"  {file}: line {', '.join(numbers)}" for file, numbers in by_file.items()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


def _of_hops(hops: Sequence[Hop], above: Hop | None) -> Iterator[str]:
    """Yield the text of hops; repetitions of the previous text are counted."""
    before: list[str] = []
    count = 0
    for hop in hops:
        lines = list(hop.lines(above))
        if lines == before:
            count += 1
            continue
        if count:
            yield f"  and {count} more {'calls' if count > 1 else 'call'} like this"
        yield from lines
        before, count = lines, 0
    if count:
        yield f"  and {count} more {'calls' if count > 1 else 'call'} like this"
