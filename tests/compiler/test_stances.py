"""How many graphs a function may have, how it is called once it has them, and how they are forgotten."""

import warnings
from types import SimpleNamespace
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, graphs, same


def test_past_the_limit_calls_run_eagerly_and_one_warning_says_so() -> None:
    def f(x: tt.Tensor, n: int) -> tt.Tensor:
        return x * n if tt.compiler.is_compiling() else x * -n

    compiled = tt.compile(f, recompile_limit=2, name="scaled by n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (1, 2, 1, 2):
            same(compiled(tt.ones(2), n), tt.ones(2) * n)
    with pytest.warns(UserWarning, match=r"scaled by n has 2 graphs, which is recompile_limit") as said:
        for n in (3, 4):
            same(compiled(tt.ones(2), n), tt.ones(2) * -n)
    same(compiled(tt.ones(2), 1), tt.ones(2))
    assert len(said) == 1 and graphs(compiled) == 2


def test_the_limit_is_eight() -> None:
    compiled = tt.compile(lambda x: x + 1)
    with pytest.warns(UserWarning, match="has 8 graphs"):
        for n in range(1, 12):
            same(compiled(drawn(*[1] * n)), drawn(*[1] * n) + 1)
    assert graphs(compiled) == 8


def test_stances() -> None:
    compiled = tt.compile(lambda x: x + (1 if tt.compiler.is_compiling() else 2))
    stance = tt.compiler.set_stance
    x = tt.zeros(2)
    with stance("force_eager"):
        same(compiled(x), x + 2)
        assert graphs(compiled) == 0
    same(compiled(x), x + 1)
    with stance("eager_on_recompile"):
        same(compiled(x), x + 1)
        same(compiled(tt.zeros(3)), tt.zeros(3) + 2)
    with stance("fail_on_recompile"):
        same(compiled(x), x + 1)
        with pytest.raises(
            RuntimeError, match=r"arguments of another look came, and the stance is 'fail_on_rec"
        ):
            compiled(tt.zeros(3))
    same(stance("force_eager")(compiled)(x), x + 2)
    same(compiled(tt.zeros(3)), tt.zeros(3) + 1)
    stance("force_eager")
    same(compiled(x), x + 2)
    stance("default")
    same(compiled(x), x + 1)


def test_a_broken_guard_is_named_when_recompiling_is_refused() -> None:
    config = SimpleNamespace(power=2)
    compiled = tt.compile(lambda x: x**config.power)
    compiled(drawn(2))
    config.power = 3
    with (
        tt.compiler.set_stance("fail_on_recompile"),
        pytest.raises(RuntimeError, match=r"config\.power was 2, is 3, and the stance"),
    ):
        compiled(drawn(2))


def test_a_stance_may_name_the_backend() -> None:
    seen = []

    def backend(graph: Any, examples: Any) -> Any:
        seen.append(graph)
        return tt.compiler.interpreted(graph)

    compiled = tt.compile(lambda x: x + 1)
    with tt.compiler.set_stance(force_backend=backend):
        same(compiled(tt.ones(2)), tt.ones(2) + 1)
    assert len(seen) == 1


def test_reset_forgets_graphs() -> None:
    compiled, other = tt.compile(lambda x: x + 1, recompile_limit=1), tt.compile(tt.nn.Linear(2, 2))
    compiled(tt.ones(2)), other(tt.ones(2))
    assert graphs(compiled) == graphs(other) == 1
    tt.compiler.reset()
    assert graphs(compiled) == graphs(other) == 0
    same(compiled(tt.ones(3)), tt.ones(3) + 1)
    assert graphs(compiled) == 1
