"""Workloads: a statement with its operands, as data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..interleaved import Slice
from .results import Bar

if TYPE_CHECKING:
    from .libraries import Library

Array = np.ndarray


def normal(*shape: int, scale: float = 1.0) -> Callable[[], Array]:
    """Return a factory of float32 arrays; every call returns a new array with the same values."""
    return lambda: np.random.default_rng(len(shape)).standard_normal(shape, np.float32) * np.float32(scale)


@dataclass(frozen=True)
class Operand:
    """How to make a tensor: the array, the same for all libraries, then dtype (of the array if empty) and layout."""

    array: Callable[[], Array]
    dtype: str = ""
    requires_grad: bool = False
    channels_last: bool = False


class Prepare(Protocol):
    """Makes what a library times: a slice, which repeats the work so many times and says how long that took."""

    def __call__(self, library: Library) -> Slice | None:
        """None where the library has no such call."""


@dataclass(frozen=True)
class Phrase:
    """A workload in the words of one library, over the operands: what is timed, and what is run once before."""

    statement: str
    setup: str = ""


@dataclass(frozen=True)
class Workload:
    """Workload of one row: a call, its size, and its form in each library.

    - `statement` uses PyTorch's names, over `tt` (the library), `F` (its `nn.functional`) and the operands.
    - `arrays` uses NumPy's names, over `np`, for NumPy and CuPy.
    - `phrases` are the forms for NumExpr (`ne`) and Numba (`nb`).
    - `result` is the expression to compare, evaluated after the statement. If it is empty, the statement's
      own value is compared.
    - `reset` runs after each repetition, inside the timing.
    - `prepare` replaces statements for work that no statement can express.
    - `counted` is False if the work depends on values, so it cannot run on Meta tensors.
    - `host` workloads report host time on every device.
    - Workloads with `processes` are prepared and measured with the calling thread on all cores, which child
      processes inherit.
    """

    suite: str
    operator: str
    name: str
    size: str
    dtype: str
    statement: str = ""
    arrays: str = ""
    operands: Mapping[str, Operand] = field(default_factory=dict)
    direction: str = "forward"
    result: str = ""
    setup: str = ""
    reset: str = ""
    bar: Bar | None = None
    threads: int | None = None
    compared: bool = True
    counted: bool = True
    host: bool = False
    processes: bool = False
    tf32: bool = False
    prepare: Prepare | None = None
    phrases: Mapping[str, Phrase] = field(default_factory=dict)
    repetitions: int | None = None

    def phrase_for(self, library: Library) -> Phrase:
        """Return the statement for a library; empty if the library has no such call."""
        if library.has_phrases:
            return self.phrases.get(library.name, Phrase(""))
        return Phrase(self.arrays if library.is_arrays else self.statement, self.setup)

    @property
    def title(self) -> str:
        """Text that `--rows` matches."""
        return f"{self.suite}: {self.operator}: {self.name} {self.size} {self.dtype} {self.direction}"


@dataclass(frozen=True)
class Scale:
    """How large workloads are: `quick` for a look in a minute, `rehearsal` tiny, for a device that is simulated.

    `python` is the interpreter in which imports are timed.
    """

    device: str = "cpu"
    quick: bool = False
    rehearsal: bool = False
    python: str = sys.executable

    def side(self, full: int, quick: int, rehearsal: int) -> int:
        """Return the size for the scale."""
        return rehearsal if self.rehearsal else quick if self.quick else full


def bar(ratio: float, peer: str = "torch") -> Bar:
    """Return a bar: the maximum ratio to the baseline's time."""
    return Bar(peer, ratio)
