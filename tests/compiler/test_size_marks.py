"""Dynamic-shape marks (`torch._dynamo.mark_dynamic` and similar functions): which sizes vary, and the
errors.
"""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten._dynamo import ConstraintViolationError, mark_dynamic, mark_static, maybe_mark_dynamic
from triten.tests.compiler.beside_eager import drawn, same


def marked(mark: Callable[..., Any], *sizes: int, index: Any = 0, **bounds: int) -> tt.Tensor:
    x = drawn(*sizes)
    mark(x, index, **bounds)
    return x


@pytest.mark.parametrize("mark", [mark_dynamic, maybe_mark_dynamic])
@pytest.mark.parametrize("index", [0, -2, [0, 1]])
def test_a_marked_dimension_varies_from_the_first_call_on(mark: Callable[..., Any], index: Any) -> None:
    function = lambda x: (x * 2 + x.shape[0]).sum(1)  # noqa: E731
    compiled: Any = tt.compile(function, fullgraph=True)
    for size in (4, 5, 9):
        x = marked(mark, size, 3, index=index)
        same(compiled(x), function(x))
        assert compiled._optimized.count == 0  # no capture of the function at these very sizes
    same(compiled(drawn(6, 3)), function(drawn(6, 3)))
    assert compiled._optimized.count == 0


def test_equal_sizes_are_one_until_they_differ() -> None:
    function = lambda x, y: x * 2 + y.sum()  # noqa: E731
    compiled = tt.compile(function, fullgraph=True)
    for a, b in ((4, 4), (5, 5), (5, 6), (7, 9)):
        x, y = marked(mark_dynamic, a), marked(mark_dynamic, b)
        same(compiled(x, y), function(x, y))


CONSTANT: dict[str, Callable[..., Any]] = {
    "a subscript": lambda x: x * [1, 2, 3, 4, 5][x.shape[0]],
    "a branch": lambda x: x * 2 if x.shape[0] == 4 else x * 3,
    "a branch with fewer steps": lambda x: x * 2 if x.shape[0] == 4 else x * 3 + 1,
    "a loop": lambda x: sum(x * i for i in range(x.shape[0])),
    "rows": lambda x: [row * 2 for row in x],
}


@pytest.mark.parametrize("what", CONSTANT)
def test_a_dimension_that_must_vary_and_cannot_is_an_error(what: str) -> None:
    function = CONSTANT[what]
    with pytest.raises(
        ConstraintViolationError,
        match=r"Constraints violated!\n  - dimension 0 of tensor 0 .*: 4 is a constant",
    ):
        tt.compile(function)(marked(mark_dynamic, 4, 3))
    x = marked(maybe_mark_dynamic, 4, 3)
    same(tt.compile(function)(x), function(x))


@pytest.mark.parametrize("bound", [3, 6])
def test_a_comparison_is_no_constant(bound: int) -> None:
    function = lambda x: x * 2 if x.shape[0] > bound else x * 3 + 1  # noqa: E731
    compiled = tt.compile(function)
    for size in (4, 5, 9, 2, 40):
        x = marked(mark_dynamic, size, 3)
        same(compiled(x), function(x))


@pytest.mark.parametrize("size", [0, 1])
def test_sizes_of_0_and_1_may_be_marked(size: int) -> None:
    function = lambda x: x * 2 + tt.ones(1, 3)  # noqa: E731
    compiled = tt.compile(function)
    for each in (size, 4, 7):
        x = tt.ones(each, 3)
        mark_dynamic(x, 0)
        same(compiled(x), function(x))


def test_bounds() -> None:
    function = lambda x: x * 2 if x.shape[0] < 10 else x * 3  # noqa: E731
    compiled: Any = tt.compile(function, fullgraph=True)
    for size in (4, 8, 2, 3):
        x = marked(mark_dynamic, size, 3, min=2, max=8)
        same(compiled(x), function(x))
    assert compiled._optimized.count == 0
    with pytest.raises(ConstraintViolationError, match=r"20 not in range \[2, 8\]"):
        compiled(marked(mark_dynamic, 20, 3, min=2, max=8))
    with pytest.raises(ConstraintViolationError, match=r"1 not in range \[2, int_oo\]"):
        compiled(marked(mark_dynamic, 1, 3, min=2))


def test_a_static_dimension_has_a_graph_for_each_size() -> None:
    compiled: Any = tt.compile(lambda x: x * 2, fullgraph=True)
    for size in (4, 5, 6):
        x = drawn(size, 3)
        mark_static(x)
        compiled(x)
    assert compiled._optimized.count == 3


def test_the_other_dimension_may_vary() -> None:
    compiled: Any = tt.compile(lambda x: x * 2, fullgraph=True)
    for size in (4, 5, 6):
        x = drawn(size, 3)
        mark_static(x, [1])
        same(compiled(x), x * 2)
    assert compiled._optimized.count == 1


def test_the_first_call_may_have_a_size_of_1() -> None:
    compiled: Any = tt.compile(lambda x: x * 2, fullgraph=True)
    for size in (1, 4, 5, 6, 7):
        same(compiled(drawn(size, 3)), drawn(size, 3) * 2)
    assert compiled._optimized.count == 2


def test_what_cannot_be_marked() -> None:
    assert mark_static(tt.nn.Linear) is tt.nn.Linear
    with pytest.raises(
        TypeError, match=r"mark_static expects a tensor/nn.Module class but received <class 'int'>"
    ):
        mark_static(3)
