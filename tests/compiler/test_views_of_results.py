"""Results that are views of other results share memory; writes are visible, and gradients go through the
base.
"""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, graphs, same

PROGRAMS: dict[str, Callable[..., Any]] = {
    "a row": lambda x: (lambda y: (y, y[0]))(x.exp()),
    "a view of a view": lambda x: (lambda y: (y.t()[1:], y))(x.exp()),
    "parts": lambda x: (lambda y: (y, *y.unbind(0)))(x.exp()),
    "after a write": lambda x: (lambda y: (y.mul_(2), y[0], (y * y).sum()))(x.sin()),
    "siblings": lambda x: (lambda y: (y[0], y[1]))(x.exp()),
    "rows": lambda x: x.exp().unbind(0),
    "siblings and what is computed of all": lambda x: (lambda y: (y[0], y[1], y.sum()))(x.exp()),
    "siblings after a write": lambda x: (lambda y: (y[0].mul_(2), y[1]))(x.sin()),
    "views of views": lambda x: (lambda y: (y.t()[1:], y.view(9)[2:4]))(x.exp()),
    "one twice, and a sibling": lambda x: (lambda y, row: (row, row, y[1]))(*(lambda y: (y, y[0]))(x.exp())),
    "detached": lambda x: (lambda y: (y, y.detach()))(x.exp()),
    "a part, and all detached": lambda x: (lambda y: (y[0], y.detach()))(x.exp()),
    "detached, and parts of it": lambda x: (lambda y, d: (y, d, d[0], y.detach()))(
        *(lambda y: (y, y.detach()))(x.exp())
    ),
    "in other bits": lambda x: (lambda y: (y, y.view(tt.int32)))(x.exp()),
}


def used(function: Callable[..., Any]) -> Any:
    x = drawn(3, 3, grad=True)
    results = function(x)
    grads = tt.autograd.grad(
        sum(each.square().sum() for each in results if each.requires_grad), x, retain_graph=True
    )
    between = [
        tt.autograd.grad(b.sum(), results[0], retain_graph=True, allow_unused=True)
        for b in results
        if b.requires_grad
    ]
    with tt.no_grad():
        results[-1].zero_()
    return [each.detach().clone() for each in results], grads, between


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_share_memory_and_gradients(name: str) -> None:
    compiled = tt.compile(PROGRAMS[name], fullgraph=True)
    for _ in range(2):
        same(used(compiled), used(PROGRAMS[name]), name)
    assert graphs(compiled) == 1


def test_a_write_after_the_call_counts() -> None:
    for function in (PROGRAMS["a row"], tt.compile(PROGRAMS["a row"], fullgraph=True)):
        y, row = function(drawn(3, 3, grad=True))
        row.detach().zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_are_the_views_that_they_are_eagerly(name: str) -> None:
    def looks(function: Callable[..., Any]) -> Any:
        results = function(drawn(3, 3, grad=True))
        kinds = [
            (
                each._is_view(),
                [other is each for other in results],
                [other is each._base for other in results],
                [_memory(other) == _memory(each) for other in results],
            )
            for each in results
        ]
        counts = []
        for each in results:
            try:
                each.mul_(2)
            except RuntimeError as error:
                counts.append(str(error))
            counts.append([other._version for other in results])
        return kinds, counts, [each.tolist() for each in results]

    compiled = tt.compile(PROGRAMS[name], fullgraph=True)
    expected = looks(PROGRAMS[name])
    for _ in range(2):
        found = looks(compiled)
        assert found[0] == expected[0] and found[2] == expected[2]
        assert _changes(found[1]) == _changes(expected[1])


def _memory(tensor: tt.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _changes(counts: list[Any]) -> list[Any]:
    """Return the errors, and the number of writes to each tensor since the first one."""
    first = next(each for each in counts if isinstance(each, list))
    return [
        each if isinstance(each, str) else [b - a for a, b in zip(first, each, strict=True)]
        for each in counts
    ]


TWICE: dict[str, Callable[..., Any]] = {
    "views": lambda x: ((x * 2).view(-1), (x * 2).view(-1)),
    "views of literals": lambda x: (tt.arange(4).reshape(2, 2), tt.arange(4).reshape(2, 2)),
    "one of several": lambda x: (x.max(0).values, x.max(0).values),
    "rows": lambda x: (x.exp()[0], x.exp()[0]),
}


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", TWICE)
def test_what_is_computed_twice_has_memory_twice(name: str, grad: bool) -> None:
    first, second = tt.compile(TWICE[name], fullgraph=True)(drawn(3, 3, grad=grad))
    assert _memory(first) != _memory(second)
    same(first, second)


def test_all_of_a_result_is_another_tensor() -> None:
    def function(x: tt.Tensor) -> Any:
        y = x - 1
        return y, y.T

    for each in (function, tt.compile(function, fullgraph=True)):
        y, whole = each(drawn(4, grad=True))
        assert whole is not y and whole._base is y
        y.fill_(1.5)
        assert whole.tolist() == [1.5] * 4


def test_a_view_of_what_nobody_else_has_can_be_written_to() -> None:
    def function(x: tt.Tensor) -> Any:
        return (x * 2).t()

    for each in (function, tt.compile(function, fullgraph=True)):
        x = drawn(2, 3, grad=True)
        made = each(x)
        made.mul_(3)
        made.sum().backward()
        assert x.grad is not None and x.grad.tolist() == [[6.0] * 3] * 2


def test_a_leaf_made_in_a_block_without_gradients_is_one() -> None:
    def function(x: tt.Tensor) -> Any:
        with tt.no_grad():
            leaf = x.sum()
            leaf.requires_grad_()
        return leaf * 2

    same(tt.compile(function)(drawn(3)), function(drawn(3)))


@pytest.mark.parametrize("of_argument", [True, False])
def test_a_view_made_in_no_grad_requires_grad_as_its_base(of_argument: bool) -> None:
    def function(x: tt.Tensor) -> Any:
        y = x if of_argument else x * 2
        with tt.no_grad():
            return y[0], y.detach()[0]

    for each in (function, tt.compile(function)):
        view, apart = each(drawn(3, 3, grad=True))
        assert view.requires_grad and not apart.requires_grad


WRITTEN: dict[str, Callable[..., Any]] = {
    "itself": lambda a, b: (a.mul_(a), b * 2),
    "detached": lambda a, b: (a.mul_(a).detach(), b * 2),
    "a view": lambda a, b: (a.mul_(a)[1:], b * 2),
    "a view without a write": lambda a, b: (a[1:], b * 2),
    "a view of all": lambda a, b: (a[:], b * 2),
    "a view of all, written to": lambda a, b: (a.mul_(a)[:], b * 2),
}


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_given_of_an_argument_without_history_is_that_argument(name: str, grad: bool) -> None:
    function = WRITTEN[name]
    for each in (function, tt.compile(function, fullgraph=True)):
        a, b = drawn(3), drawn(3, grad=grad)
        given = each(a, b)[0]
        assert not given.requires_grad and given.grad_fn is None, each
        assert (given is a) is (name == "itself"), each
        given.mul_(b[0])
        assert (given.requires_grad, a.requires_grad) == (grad, grad and name != "detached"), each
        if given is not a:
            assert given.data_ptr() - a.data_ptr() == 4 * (3 - given.numel()), each


def test_a_view_made_in_no_grad_and_written_there_requires_grad_as_its_base() -> None:
    def function(x: tt.Tensor) -> Any:
        with tt.no_grad():
            view = x[0]
            view.add_(1)
        return view

    for each in (function, tt.compile(function)):
        x = drawn(3, 3, grad=True)
        view = each(x)
        assert view.requires_grad and view._base is x


WITHOUT_HISTORY: dict[str, Callable[[Any], Any]] = {
    "read": lambda y: y[0],
    "written": lambda y: y[0].add_(1),
    "its base is written": lambda y: (y[0], y.add_(1))[0],
    "viewed": lambda y: y[0][0:1],
    "written and viewed": lambda y: y[0].add_(1)[0:1],
}


@pytest.mark.parametrize("of_argument", [True, False])
@pytest.mark.parametrize("name", WITHOUT_HISTORY)
def test_what_is_computed_of_a_view_made_in_no_grad_is_as_eagerly(name: str, of_argument: bool) -> None:
    def function(x: tt.Tensor) -> Any:
        with tt.no_grad():
            view = WITHOUT_HISTORY[name](x if of_argument else x * 2)
        return view.requires_grad, view.detach(), view * 2

    def looks(function: Callable[..., Any]) -> Any:
        try:
            asked, view, made = function(drawn(3, 3, grad=True))
        except RuntimeError as error:
            return str(error)
        return asked, view.tolist(), made.tolist(), made.requires_grad, made.grad_fn is not None

    compiled = tt.compile(function)
    for _ in range(2):
        assert looks(compiled) == looks(function)


def test_a_leaf_that_is_written_to_in_no_grad_is_given_back_itself() -> None:
    x = drawn(3, grad=True)
    with tt.no_grad():
        assert tt.compile(lambda x: x.add_(1), fullgraph=True)(x) is x
    assert x.requires_grad and x.is_leaf


OBJECTS: dict[str, Callable[..., Any]] = {
    "detached": lambda x: (lambda y: (y, y.detach(), y, y[:]))(x.exp()),
    "of an argument": lambda x: (lambda d: (d, d, x, x.view(9), d[:]))(x.detach()),
    "a view of a detached one": lambda x: (lambda d: (d, d[:], d[0]))(x.exp().detach()),
    "a view in the place of what was written": lambda x: (lambda y: (y, y[0], y))(x.exp().add_(1)),
    "what is no view, though the graph has one": lambda x: (lambda y: (y.__setitem__(True, x), y, y[0])[1:])(
        x.exp()
    ),
    "rows": lambda x: tuple(x.exp().unbind(0)),
    "one row twice": lambda x: (lambda y: (y[0], y[0], y))(x.exp()),
    "one row of an argument twice": lambda x: (x[0], x[0]),
}


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", OBJECTS)
def test_results_are_the_same_objects_and_views_of_each_other_as_eagerly(name: str, grad: bool) -> None:
    def looks(function: Callable[..., Any]) -> Any:
        results = function(drawn(3, 3, grad=grad))
        return [
            (
                [other is each for other in results],
                [other is each._base for other in results],
                each._is_view(),
                [other.data_ptr() - each.data_ptr() for other in results],
            )
            for each in results
        ]

    compiled = tt.compile(OBJECTS[name])
    for _ in range(2):
        assert looks(compiled) == looks(OBJECTS[name])


def test_a_tensor_that_was_detached_is_resized_alone() -> None:
    def function(x: tt.Tensor) -> Any:
        row = x.split(1, 0)[0]
        apart = row.detach()
        apart.resize_(2)
        return tt.stack([row, row]), apart

    same(tt.compile(function)(drawn(3, 3)), function(drawn(3, 3)))


@pytest.mark.parametrize("of_a_view", [True, False])
@pytest.mark.parametrize("backend", ["triten", "graph"])
def test_a_view_of_an_argument_follows_it_into_a_history(backend: str, of_a_view: bool) -> None:
    def function(x: tt.Tensor) -> Any:
        return x[1:], x

    for each in (function, tt.compile(function, fullgraph=True, backend=backend)):
        x, w = drawn(4)[1:] if of_a_view else drawn(3), drawn(3, grad=True)
        view, _ = each(x)
        x.mul_(w)
        assert view.requires_grad
        (gradient,) = tt.autograd.grad(view.sum(), w)
        assert gradient[0].item() == 0 and (gradient[1:] != 0).all()


def test_a_view_without_a_defined_history_may_be_an_argument_as_eagerly() -> None:
    def function(view: tt.Tensor, x: tt.Tensor) -> Any:
        return view > x, x.erfc()

    for each in (function, tt.compile(function)):
        leaf, x = drawn(3, 3, grad=True), drawn(3, grad=True)
        with tt.no_grad():
            view = leaf[0]
            view.add_(1)
        is_more, values = each(view, x)
        assert not is_more.requires_grad and values.requires_grad
        with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
            each(x, view)
