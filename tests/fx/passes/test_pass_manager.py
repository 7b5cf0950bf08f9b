"""Passes in order (torch.fx.passes.infra)."""

from typing import Any

import pytest

import triten as tt
from triten.fx.passes.infra.pass_base import PassBase, PassResult
from triten.fx.passes.infra.pass_manager import (
    PassManager,
    pass_result_wrapper,
    this_before_that_pass_constraint,
)

fx = tt.fx


class Log(PassBase):
    def __init__(self, name: str, log: list[str], changes: int = 0):
        self.name, self.log, self.changes = name, log, changes

    def requires(self, graph_module: fx.GraphModule) -> None:
        self.log.append(f"{self.name} requires")

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        self.log.append(self.name)
        self.changes -= 1
        return PassResult(graph_module, self.changes >= 0)

    def ensures(self, graph_module: fx.GraphModule) -> None:
        self.log.append(f"{self.name} ensures")


@pytest.fixture
def module() -> fx.GraphModule:
    return fx.symbolic_trace(lambda x: x + 1)


def test_a_pass_is_checked_before_and_after(module: fx.GraphModule) -> None:
    log: list[str] = []
    assert Log("a", log)(module) == (module, False)
    assert log == ["a requires", "a", "a ensures"]


def test_passes_run_until_nothing_changes(module: fx.GraphModule) -> None:
    log: list[str] = []
    result = PassManager([Log("a", log, changes=2), Log("b", log)], steps=10)(module)
    assert [each for each in log if len(each) == 1] == ["a", "b"] * 3
    assert result == (module, True)


def test_constraints_order_passes(module: fx.GraphModule) -> None:
    log: list[str] = []
    a, b, c = (Log(name, log) for name in "abc")
    manager = PassManager([c, b, a], [this_before_that_pass_constraint(b, c)])
    manager.add_constraint(this_before_that_pass_constraint(a, b))
    with pytest.raises(RuntimeError, match="pass schedule constraint violated"):
        manager.validate_constraints()
    manager(module)
    assert [each for each in log if len(each) == 1] == ["a", "b", "c"]
    manager.add_constraint(this_before_that_pass_constraint(c, a))
    with pytest.raises(RuntimeError, match="Circular dependency"):
        manager(module)


def test_checks(module: fx.GraphModule) -> None:
    checked: list[Any] = []
    manager = PassManager([pass_result_wrapper(lambda module: None)], run_checks_after_each_pass=True)
    manager.add_checks(lambda module: checked.append(module))
    assert manager(module).modified
    assert checked == [module, module]
    with pytest.raises(TypeError, match="should only take in one variable"):
        manager.add_checks(lambda a, b: None)


def test_errors_name_the_pass(module: fx.GraphModule) -> None:
    def failing(module: Any) -> None:
        raise KeyError

    manager = PassManager([Log("a", [])])
    manager.add_pass(failing)
    with pytest.raises(Exception, match=r"running the 'failing' pass after the following passes: \['Log'\]"):
        manager(module)
    with pytest.raises(Exception, match="error occurred") as caught:
        PassManager([lambda module: None])(module)
    assert "Please wrap it with pass_result_wrapper" in str(caught.value.__cause__)
