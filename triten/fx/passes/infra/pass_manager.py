"""`PassManager`: runs passes in an order that satisfies constraints (torch/fx/passes/infra/pass_manager.py)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ....nn.modules.module import Module
from ...graph_module import GraphModule
from .pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

Pass: TypeAlias = Callable[[Any], Any]
Constraint: TypeAlias = Callable[[Pass, Pass], bool]


def pass_result_wrapper(fn: Pass) -> Pass:
    """Wrap a function that modifies a module in-place, or returns another, so that it returns a `PassResult`."""

    def wrapped(module: Module) -> PassResult:
        result = fn(module)
        if isinstance(result, PassResult):
            return result
        return PassResult(module if result is None else result, True)  # type: ignore[arg-type]

    functools.update_wrapper(wrapped, fn)
    wrapped.__name__ = _name_of(fn)
    return wrapped


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """Return a constraint that `this` does not come after `that`."""
    return lambda first, second: first is not that or second is not this


def _name_of(fn: Pass) -> str:
    return fn.__name__ if inspect.isfunction(fn) else type(fn).__name__


class PassManager:
    """Manager that runs passes in order, `steps` times or until nothing changes.

    Args:
        passes: functions of a module that give a `PassResult`.
        constraints: functions that say of two passes whether the first may come before the second.
        steps: The number of repetitions. Default: 1.
        run_checks_after_each_pass: If True, `check` is run after each pass, and not only at the beginning. Default:
            False.
        suppress_check_failures: PyTorch's; nothing is suppressed.

    Source: torch.fx.passes.infra.pass_manager.PassManager.

    Example:
        >>> import triten as tt
        >>> from triten.fx.passes.infra.pass_manager import PassManager, pass_result_wrapper
        >>> clean = pass_result_wrapper(lambda module: module.graph.eliminate_dead_code() and None)
        >>> module = tt.fx.symbolic_trace(lambda x: (x.exp(), x)[1])
        >>> len(PassManager([clean])(module).graph_module.graph.nodes)
        2
    """

    def __init__(
        self,
        passes: Sequence[Pass] | None = None,
        constraints: Sequence[Constraint] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes = list(passes or ())
        self.constraints = list(constraints or ())
        self.steps = steps or 1
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False

    def add_pass(self, _pass: Pass) -> None:
        """Add a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def add_checks(self, check: Callable[[Module], None]) -> None:
        """Have a function of the module be run as `check`. Raises TypeError for one of several parameters."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.check = check  # type: ignore[method-assign, assignment]

    def check(self, module: Module) -> None:
        """Check a module between passes; by default accept all."""

    def validate_constraints(self) -> None:
        """Check that the order of the passes fits. Raises RuntimeError if it does not."""
        for constraint in self.constraints:
            for index, first in enumerate(self.passes):
                for second in self.passes[index + 1 :]:
                    if not constraint(first, second):
                        raise RuntimeError(
                            f"pass schedule constraint violated. Expected {_name_of(second)} before {_name_of(first)}, "
                            f"in passes {[_name_of(each) for each in self.passes]}"
                        )
        self._validated = True

    def solve_constraints(self) -> None:
        """Put the passes into an order that fits. Raises RuntimeError if there is none."""
        left, ordered = list(self.passes), []
        while left:
            ready = next(
                (
                    each
                    for each in left
                    if all(
                        constraint(each, other)
                        for constraint in self.constraints
                        for other in left
                        if other is not each
                    )
                ),
                None,
            )
            if ready is None:
                raise RuntimeError(
                    f"Circular dependency detected within the following passes: {list(map(_name_of, left))}"
                )
            left.remove(ready)
            ordered.append(ready)
        self.passes = ordered
        self._validated = True

    def __call__(self, module: Any) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed = False
        for _ in range(self.steps):
            changed_now = False
            for index, each in enumerate(self.passes):
                try:
                    module, modified = self._run(each, module)
                except Exception as error:
                    before = [_name_of(other) for other in self.passes[:index]]
                    raise Exception(
                        f"An error occurred when running the '{_name_of(each)}' pass after the following passes: "
                        f"{before}"
                    ) from error
                changed_now |= modified
            changed |= changed_now
            if not changed_now:
                break
        return PassResult(module, changed)

    def _run(self, each: Pass, module: Any) -> PassResult:
        result = each(module)
        if not isinstance(result, PassResult):
            raise TypeError(
                f"The result of the pass {_name_of(each)} should be type PassResult, got {type(result).__name__}. "
                "Please wrap it with pass_result_wrapper()"
            )
        if isinstance(result.graph_module, GraphModule):
            result.graph_module.recompile()
        if self.run_checks_after_each_pass:
            self.check(result.graph_module)
        return result
