"""`cost`: a function run on Meta tensors, its operators' bytes and operations added up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .watching import MetaCopies, Seen, Watching


@dataclass
class OperatorCost:
    """Cost of all calls of one operator: bytes read and written, floating-point operations."""

    name: str
    calls: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    flops: int = 0

    @property
    def bytes(self) -> int:
        """Bytes moved."""
        return self.bytes_read + self.bytes_written


@dataclass(frozen=True)
class Cost:
    """Cost of a program: a row for each operator in the order of first calls, and the totals."""

    operators: tuple[OperatorCost, ...]

    @property
    def bytes_read(self) -> int:
        """Bytes read by all operators."""
        return sum(row.bytes_read for row in self.operators)

    @property
    def bytes_written(self) -> int:
        """Bytes written by all operators."""
        return sum(row.bytes_written for row in self.operators)

    @property
    def bytes(self) -> int:
        """Bytes moved by all operators."""
        return self.bytes_read + self.bytes_written

    @property
    def flops(self) -> int:
        """Floating-point operations of all operators."""
        return sum(row.flops for row in self.operators)

    @property
    def intensity(self) -> float:
        """Operations for each byte moved: where the program stands on a roofline. 0 where nothing moves."""
        return self.flops / self.bytes if self.bytes else 0.0

    def __str__(self) -> str:
        rows = [*self.operators, OperatorCost("all", sum(row.calls for row in self.operators),
                                              self.bytes_read, self.bytes_written, self.flops)]  # fmt: skip
        width = max(len(row.name) for row in rows)
        lines = [f"{'operator':<{width}}{'calls':>8}{'read':>16}{'written':>16}{'flops':>18}"]
        lines += [
            f"{row.name:<{width}}{row.calls:>8,}{row.bytes_read:>16,}{row.bytes_written:>16,}{row.flops:>18,}"
            for row in rows
        ]
        return "\n".join(lines)


def cost(fn: Callable[..., object], /, *args: Any, **kwargs: Any) -> Cost:
    """Count the bytes moved and the operations of `fn(*args, **kwargs)`, without computing it.

    The function runs on Meta tensors instead of the tensors in its arguments, including those in lists,
    tuples and dicts. It is traced below autograd, so a backward pass inside it counts too. Modules and
    optimizers are copied to Meta. The arguments are neither read nor changed.

    Views move nothing. An operator reads each tensor once, for expanded dimensions one element, and writes
    each result once. No cache between two operators is assumed. `formulas` has the operations.

    Args:
        fn: A function of tensors, or a module.
        args, kwargs: Its arguments: tensors of any device, modules, optimizers.

    Raises:
        ValueError: if the function reaches a tensor that requires grad and is neither an argument nor a
            parameter of the module: its gradient would be one without values.
        NotImplementedError, RuntimeError: as Meta tensors raise them, for what depends on values, such as
            `item`.

    Example:
        >>> import triten as tt
        >>> found = tt.perf.cost(tt.addmm, tt.ones(8), tt.ones(4, 16), tt.ones(16, 8))
        >>> found.flops, found.bytes_read, found.bytes_written
        (1056, 800, 128)
        >>> print(tt.perf.cost(lambda x: x.t() + 1.0, tt.ones(2, 3)))
        operator          calls            read         written             flops
        aten::t               1               0               0                 0
        aten::add.Tensor      1              24              24                 6
        all                   2              24              24                 6
    """
    rows: dict[str, OperatorCost] = {}

    def count(call: Seen) -> None:
        row = rows.setdefault(call.func.name(), OperatorCost(call.func.name()))
        row.calls += 1
        row.bytes_read += call.work.bytes_read
        row.bytes_written += call.work.bytes_written
        row.flops += call.work.flops

    fn, args, kwargs = MetaCopies().of((fn, args, kwargs))
    with Watching("cost", count):
        fn(*args, **kwargs)
    return Cost(tuple(rows.values()))
