"""A compiled function raises the function's own errors unchanged; ``fullgraph=True`` names the line of a
graph break.
"""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, graphs, same


def mismatch(x: tt.Tensor) -> Any:
    return x + tt.ones(5)


def index(x: tt.Tensor) -> Any:
    return x[10]


def attribute(x: tt.Tensor) -> Any:
    return x.no_such_method()


def raised(x: tt.Tensor) -> Any:
    raise KeyError("the function's own")


def asserted(x: tt.Tensor) -> Any:
    assert x.shape[0] > 10, f"too few: {x.shape[0]}"
    return x


def divided(x: tt.Tensor) -> Any:
    return x * (1 // (x.shape[0] - 4))


def wrong_dtype(x: tt.Tensor) -> Any:
    return x.to(tt.float64) @ x.to(tt.float32)


def in_place_on_a_leaf(x: tt.Tensor) -> Any:
    return x.requires_grad_().add_(1)


ERRORS = (mismatch, index, attribute, raised, asserted, divided, wrong_dtype, in_place_on_a_leaf)


@pytest.mark.parametrize("f", ERRORS)
def test_errors_are_the_function_s_own(f: Callable[[tt.Tensor], Any]) -> None:
    compiled = tt.compile(f)
    with pytest.raises(Exception) as expected:
        f(drawn(4))
    for _ in range(4):
        with pytest.raises(type(expected.value)) as found:
            compiled(drawn(4))
        assert str(found.value) == str(expected.value)
        assert type(found.value) is type(expected.value)
    assert graphs(compiled) == 0


@pytest.mark.parametrize("f", ERRORS[:5])
def test_fullgraph_names_the_error_and_its_line(f: Callable[[tt.Tensor], Any]) -> None:
    with pytest.raises(tt.compiler.Unsupported) as caught:
        tt.compile(f, fullgraph=True)(drawn(4))
    place = f"({__file__}:{f.__code__.co_firstlineno + 1}: "
    assert place in str(caught.value) and caught.value.reason.startswith(f"{f.__name__} cannot be captured: ")


def test_an_error_leaves_the_function_usable() -> None:
    compiled = tt.compile(lambda x, y: x + y)
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        compiled(tt.ones(2), tt.ones(3))
    same(compiled(tt.ones(2), tt.ones(2)), tt.ones(2) * 2)
    assert graphs(compiled) == 1


def test_wrong_arguments() -> None:
    compiled = tt.compile(lambda x: x)
    with pytest.raises(TypeError, match=r"takes 1 positional argument but 2 were given"):
        compiled(1, 2)


def test_a_bare_raise_in_a_part_raises_the_program_s_error() -> None:
    def function(x: tt.Tensor) -> tt.Tensor:
        step = "none"
        try:
            for step in ("first", "second"):
                x = x * 2
                seen.append(x.sum().item())
                if step == "second":
                    x = x @ tt.ones(9, 2)
        except RuntimeError:
            seen.append(step)
            raise
        return x

    seen: list[Any] = []
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        tt.compile(function)(tt.ones(3, 4))
    assert seen[-1] == "second"
