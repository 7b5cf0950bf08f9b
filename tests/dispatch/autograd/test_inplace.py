"""In-place operators under autograd: versions, errors, histories of views and bases."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.autograd import grad
from triten.dispatch.autograd import inplace
from triten.tests.shared.operands import leaf


def square() -> tt.Tensor:
    return tt.tensor([[1.0, 2.0], [3.0, -4.0]]).requires_grad_()


def gradient(out: tt.Tensor, *leaves: tt.Tensor) -> list[Any]:
    return [None if g is None else g.tolist() for g in grad(out.sum(), leaves, allow_unused=True)]


# --- what was saved


@pytest.mark.parametrize(
    "write",
    [
        lambda h: h.add_(1),
        lambda h: h[0].zero_(),
        lambda h: h.t()[1].fill_(2),
        lambda h: h.detach().zero_(),
        lambda h: h.view(-1)[3:].relu_(),
        lambda h: h.copy_(tt.zeros(2, 2)),
        lambda h: h.as_strided((1,), (1,)).zero_(),
    ],
)
def test_a_saved_tensor_that_was_written_to_is_refused(write: Callable[[Any], Any]) -> None:
    h = square() + 0
    out = h.mm(h).sum()
    write(h)
    with pytest.raises(RuntimeError) as raised:
        out.backward()
    message = str(raised.value)
    assert "has been modified by an inplace operation" in message
    assert "[2, 2]" in message
    assert "MmBackward0" in message
    assert "is at version 1; expected version 0" in message


def test_a_write_under_no_grad_counts_too() -> None:
    w = square()
    out = w.mm(w).sum()
    with tt.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_a_saved_result_that_was_written_to_is_refused() -> None:
    y = leaf(1.0, 2.0, 3.0).relu()
    y.add_(1)
    with pytest.raises(RuntimeError, match="ReluBackward0, is at version 1; expected version 0"):
        y.sum().backward()


def test_a_write_through_data_is_not_seen() -> None:
    h = square() + 0
    out = h.mm(h).sum()
    h.data.zero_()
    out.backward()


def test_a_write_before_saving_or_to_what_is_not_saved_is_fine() -> None:
    w = square()
    h = w + 0
    h.add_(1)
    h.mm(h).sum().backward()
    x = leaf(1.0, 2.0, 3.0)
    y = x + 0
    z = y + 1
    y.add_(1)
    assert gradient(z, x) == [[1.0] * 3]


# --- refusals


@pytest.mark.parametrize(
    "write", [lambda x: x.add_(1), lambda x: x.zero_(), lambda x: x.copy_(tt.ones(3)), lambda x: x.relu_()]
)
def test_a_leaf_is_refused(write: Callable[[Any], Any]) -> None:
    x = leaf(1.0, 2.0, 3.0)
    with pytest.raises(RuntimeError, match=r"^a leaf Variable that requires grad"):
        write(x)
    assert x.tolist() == [1.0, 2.0, 3.0]
    assert x.current_version() == 0


@pytest.mark.parametrize(
    "take", [lambda x: x[0], lambda x: x.view(3), lambda x: x[1:][0], lambda x: x.unsqueeze(0)]
)
def test_a_view_of_a_leaf_is_refused(take: Callable[[Any], Any]) -> None:
    x = leaf(1.0, 2.0, 3.0)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        take(x).add_(1)
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_assignment_by_index_to_a_leaf_is_refused() -> None:
    x = leaf(1.0, 2.0, 3.0)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        x[0] = 5.0


def test_a_view_that_is_a_leaf_itself_is_refused() -> None:
    v = tt.zeros(3)[0:2].requires_grad_()
    assert v.is_leaf
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        v.add_(1)


def test_a_detached_leaf_may_be_written_to() -> None:
    x = leaf(1.0, 2.0, 3.0)
    x.detach().add_(1)
    assert x.tolist() == [2.0, 3.0, 4.0]


def test_writing_to_overlapping_elements_is_refused() -> None:
    with pytest.raises(
        RuntimeError, match="more than one element of the written-to tensor refers to a single"
    ):
        (leaf(1.0, 2.0, 3.0) + 0).expand(2, 3).add_(1)


def test_a_result_type_that_does_not_fit_is_refused() -> None:
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        tt.zeros(3, dtype=tt.int64).add_(leaf(1.0, 2.0, 3.0))


# --- histories without views


def test_a_plain_tensor_begins_to_require_grad() -> None:
    x, p = leaf(1.0, 2.0, 3.0), tt.zeros(3)
    assert p.add_(x) is p
    assert (p.requires_grad, p.is_leaf) == (True, False)
    assert gradient(p, x) == [[1.0] * 3]


def test_chains() -> None:
    x, y = leaf(1.0, 2.0, 3.0), leaf(1.0, 2.0, 3.0)
    h = x + 0
    h.add_(y).add_(y).add_(h)
    assert gradient(h, x, y) == [[2.0] * 3, [4.0] * 3]


def test_broadcasting() -> None:
    x, p = leaf(1.0, 2.0, 3.0), tt.zeros(2, 3)
    p.add_(x)
    assert gradient(p, x) == [[2.0] * 3]


@pytest.mark.parametrize("write", [lambda y: y.zero_(), lambda y: y.fill_(3), lambda y: y.copy_(tt.ones(3))])
def test_overwriting_cuts_the_gradient(write: Callable[[Any], Any]) -> None:
    x = leaf(1.0, 2.0, 3.0)
    y = x + 0
    write(y)
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [0.0] * 3


def test_copying_moves_the_gradient_to_the_source() -> None:
    x, y = leaf(1.0, 2.0, 3.0), leaf(1.0, 2.0, 3.0)
    h = x + 0
    h.copy_(y)
    assert gradient(h, x, y) == [[0.0] * 3, [1.0] * 3]
    wide = tt.zeros(2, 3, dtype=tt.float64)
    wide.copy_(y)
    assert gradient(wide, y) == [[2.0] * 3]


def test_a_result_saved_by_an_inplace_operator() -> None:
    x = leaf(-1.0, 2.0)
    y = (x + 0).relu_()
    assert gradient(y, x) == [[0.0, 1.0]]
    z = (x + 0).relu_()
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_no_grad_writes_keep_the_history() -> None:
    x = leaf(1.0, 2.0, 3.0)
    y = x + 0
    with tt.no_grad():
        y.zero_()
        x.add_(1)
    assert (x.is_leaf, x.requires_grad) == (True, True)
    assert y.tolist() == [0.0] * 3
    assert gradient(y, x) == [[1.0] * 3]


def test_no_grad_writes_of_recorded_values_record_nothing() -> None:
    x, p = leaf(1.0, 2.0, 3.0), tt.zeros(3)
    with tt.no_grad():
        p.add_(x)
    assert not p.requires_grad


# --- views


def test_writing_to_a_view_rewrites_the_base() -> None:
    x, y = leaf(1.0, 2.0, 3.0), leaf(1.0, 2.0, 3.0)
    b = x + 0
    b[1].copy_(y[0])
    assert b.grad_fn.name() == "CopySlices"
    assert gradient(b, x, y) == [[1.0, 0.0, 1.0], [1.0, 0.0, 0.0]]


def test_writing_to_the_base_renews_the_view() -> None:
    x = leaf(1.0, 2.0, 3.0)
    b = x + 0
    v = b[0]
    before = v.grad_fn
    b.add_(b)
    assert v.grad_fn is not before
    assert gradient(v, x) == [[2.0, 0.0, 0.0]]


def test_a_view_of_a_view() -> None:
    x = leaf(1.0, 2.0, 3.0)
    b = x + 0
    b[1:][1:].zero_()
    assert gradient(b, x) == [[1.0, 1.0, 0.0]]


def test_a_chain_of_writes_through_several_views() -> None:
    x = leaf(1.0, 2.0, 3.0)
    b = x + 0
    v, w = b[1:], b[:2]
    v.add_(v)
    w.add_(w)
    v.add_(1)
    assert b.tolist() == [2.0, 9.0, 7.0]
    assert gradient(b, x) == [[2.0, 4.0, 2.0]]
    assert gradient(b[1:], x) == [[0.0, 4.0, 2.0]]


def test_a_view_sees_writes_through_another() -> None:
    x = leaf(1.0, 2.0, 3.0)
    b = x + 0
    v, w = b[1:], b[:2]
    v.zero_()
    assert gradient(w, x) == [[1.0, 0.0, 0.0]]


def test_base_written_then_view_written_then_base_used() -> None:
    x = leaf(1.0, 2.0, 3.0)
    b = x + 0
    v = b[0]
    b.add_(1)
    v.zero_()
    b.add_(b)
    assert gradient(b, x) == [[0.0, 2.0, 2.0]]


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda w: w + 0,
    "transposed": lambda w: tt.empty_strided((2, 2), (1, 2)).copy_(w),
    "gapped": lambda w: tt.empty_strided((2, 2), (5, 2)).copy_(w),
    "view": lambda w: tt.zeros(4, 2)[1:3].copy_(w),
    "transposed view": lambda w: tt.zeros(2, 4).t()[::2].copy_(w),
}


@pytest.mark.parametrize(
    ("take", "expected"),
    [
        (lambda b: b.t()[1], [[1.0, 0.0], [1.0, 0.0]]),
        (lambda b: b.permute(1, 0)[0], [[0.0, 1.0], [0.0, 1.0]]),
        (lambda b: b.unsqueeze(0).squeeze(0)[0], [[0.0, 0.0], [1.0, 1.0]]),
        (lambda b: b.select(1, 1).alias(), [[1.0, 0.0], [1.0, 0.0]]),
        (lambda b: b[:, ::2], [[0.0, 1.0], [0.0, 1.0]]),
        (lambda b: b[1][0:1], [[1.0, 1.0], [0.0, 1.0]]),
        (lambda b: b, [[0.0, 0.0], [0.0, 0.0]]),
    ],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_overwritten_parts_get_no_gradient(take: Callable[[Any], Any], expected: Any, layout: str) -> None:
    w = square()
    b = LAYOUTS[layout](w)
    take(b).zero_()
    assert gradient(b, w) == [expected]


@pytest.mark.parametrize(
    ("take", "expected"),
    [
        (lambda b: b.view(-1)[1:3], [[1.0, 0.0], [0.0, 1.0]]),
        (lambda b: b.as_strided((2,), (3,)), [[0.0, 1.0], [1.0, 0.0]]),
        (lambda b: b.view(4, 1)[2], [[1.0, 1.0], [0.0, 1.0]]),
    ],
)
def test_overwritten_parts_of_other_shapes(take: Callable[[Any], Any], expected: Any) -> None:
    w = square()
    b = w + 0
    take(b).zero_()
    assert gradient(b, w) == [expected]


def test_assignment_by_index() -> None:
    x = leaf(1.0, 2.0, 3.0)
    b = tt.zeros(3)
    b[0] = x[1]
    b[1] = x[1]
    b[2] = 7.0
    assert b.tolist() == [2.0, 2.0, 7.0]
    assert gradient(b, x) == [[0.0, 2.0, 0.0]]


def test_copying_a_part_onto_another() -> None:
    x = leaf(1.0, 2.0, 3.0)
    y = x + 0
    y[1:].copy_(y[0])
    assert gradient(y, x) == [[3.0, 0.0, 0.0]]


def test_views_made_before_their_base_began_to_require_grad() -> None:
    x, b = leaf(1.0, 2.0, 3.0), tt.zeros(3)
    v, w, apart = b[0], b[1:], b.detach()
    b.add_(x)
    assert (v.requires_grad, w.requires_grad, apart.requires_grad) == (True, True, False)
    assert gradient(v, x) == [[1.0, 0.0, 0.0]]
    assert gradient(w, x) == [[0.0, 1.0, 1.0]]


def test_views_made_before_another_view_was_written_to() -> None:
    x, b = leaf(1.0, 2.0, 3.0), tt.zeros(3)
    v, w = b[0:2], b[1:]
    v.copy_(x[1:])
    assert (b.requires_grad, w.requires_grad) == (True, True)
    assert w.grad_fn is not None
    assert gradient(w, x) == [[0.0, 0.0, 1.0]]
    assert gradient(b, x) == [[0.0, 1.0, 1.0]]


def test_no_grad_writes_to_a_base_keep_the_views_history() -> None:
    x = leaf(1.0, 2.0, 3.0)
    b = x + 0
    v = b[0]
    with tt.no_grad():
        b.zero_()
    assert v.item() == 0.0
    assert gradient(v, x) == [[1.0, 0.0, 0.0]]


def test_a_hook_on_a_view_that_was_written_to() -> None:
    x = leaf(1.0, 2.0, 3.0)
    b = x + 0
    v = b[0:2]
    v.add_(1)
    seen: list[Any] = []
    v.register_hook(lambda g: seen.append(g.tolist()))
    v.sum().backward()
    assert seen == [[1.0, 1.0]]
    assert x.grad.tolist() == [1.0, 1.0, 0.0]


def test_bases_with_gaps() -> None:
    r = leaf(1.0, 2.0)
    q = tt.empty_strided((2, 2), (4, 1)).zero_()
    q[0].copy_(r)
    assert gradient(q, r) == [[1.0, 1.0]]
    q.add_(r)
    q[1].relu_()
    assert gradient(q, r) == [[3.0, 3.0]]


def test_double_backward_through_a_written_view() -> None:
    x = tt.tensor([[2.0]]).requires_grad_()
    b = x.mm(x)
    b[0].copy_(x.mm(x).mm(x)[0])
    (first,) = grad(b.sum(), x, create_graph=True)
    assert first.item() == 12.0
    assert grad(first.sum(), x)[0].item() == 12.0


def test_a_second_backward_through_copy_slices() -> None:
    w = square()
    b = w.mm(w)
    b[0].relu_()
    out = b.sum()
    out.backward(retain_graph=True)
    first = w.grad.tolist()
    out.backward()
    assert w.grad.tolist() == [[2 * v for v in row] for row in first]
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


def test_what_a_view_knows_of_its_base() -> None:
    b = tt.zeros(2, 3)
    v = b[0][1:]
    assert v._is_view()
    assert v._base is b
    assert not b._is_view()
    assert not v.detach()._is_view()


def test_a_buffer_filled_row_by_row_is_no_search_through_the_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill a buffer row by row without a heap search: only live views of the written tensor matter."""
    monkeypatch.delattr(inplace.gc, "get_referrers")
    row = leaf(1.0, 2.0, 3.0)
    for _ in range(3):
        buffer = tt.zeros(2, 3)
        buffer[0].copy_(row)
        buffer[1].copy_(row)
        assert gradient(buffer, row) == [[2.0] * 3]
        plain = tt.zeros(3)
        plain.add_(row)


def scaled_row(x: Any, w: Any) -> Any:
    y = x * w
    y[0].mul_(w[0])
    return y


def written_through_three_views(x: Any, w: Any) -> Any:
    y = x * w
    y[0].mul_(w[0])
    y.t()[2].add_(x[:, 0])
    y.view(-1)[1:3].exp_()
    return y


def scaled_whole(x: Any, w: Any) -> Any:
    return (x * w).mul_(w).div_(w + 3)


@pytest.mark.parametrize("program", [scaled_row, written_through_three_views, scaled_whole])
def test_gradients_of_gradients_go_through_what_was_overwritten(program: Any) -> None:
    x = tt.arange(12.0, dtype=tt.float64).reshape(3, 4).mul(0.1).sub(0.5).requires_grad_()
    w = tt.arange(12.0, dtype=tt.float64).reshape(3, 4).mul(-0.07).add(0.4).requires_grad_()
    assert tt.autograd.gradcheck(program, (x, w), check_forward_ad=True)
    assert tt.autograd.gradgradcheck(program, (x, w))


ACTIVATIONS = {
    "relu": {},
    "relu6": {},
    "elu": {},
    "elu of 2": {"alpha": 2.0},
    "selu": {},
    "celu": {},
    "celu of 2": {"alpha": 2.0},
    "leaky_relu": {},
    "rrelu": {},
    "hardtanh": {},
    "hardswish": {},
    "hardsigmoid": {},
    "silu": {},
    "mish": {},
    "threshold": {"threshold": 0.5, "value": 9.0},
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_in_place_have_the_gradients_of_those_that_are_not(name: str, device: str) -> None:
    function = getattr(tt.nn.functional, name.partition(" ")[0])
    options = ACTIVATIONS[name]
    values = [-7.0, -2.0, -1.0, -0.5, 0.0, 0.25, 1.0, 3.0, 6.0, 7.0]
    weight = tt.arange(1.0, 11.0, device=device)
    found = []
    for written in (False, True):
        x = tt.tensor(values, device=device, requires_grad=True)
        made = function(x * 1, **options, inplace=written)
        (grad,) = tt.autograd.grad((made * weight).sum(), x, create_graph=True)
        again = tt.autograd.grad((grad * grad).sum(), x)[0] if grad.requires_grad else tt.zeros(1)
        found.append((made.detach().tolist(), grad.tolist(), again.tolist()))
    for plain, changed in zip(*found, strict=True):
        assert changed == pytest.approx(plain, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("function", ["elu", "celu", "leaky_relu"])
def test_results_of_negative_slopes_do_not_tell_the_inputs(function: str, device: str) -> None:
    x = tt.tensor([-1.0, 1.0], device=device, requires_grad=True)
    made = getattr(tt.nn.functional, function)(x * 1, -0.5, inplace=True)
    with pytest.raises(RuntimeError, match="triggered with a negative slope which is not supported"):
        made.sum().backward()


COMPOSITIONS = {
    "polygamma_": ((1,), [-2001.8613, -16.8288]),
    "mvlgamma_": ((1,), [-10.42375, -1.96351]),
    "xlogy_": ((2.0,), [0.693147, 0.693147]),
    "deg2rad_": ((), [0.0174533, 0.0174533]),
}


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_compositions_in_place_keep_what_their_derivatives_need(name: str, device: str) -> None:
    args, expected = COMPOSITIONS[name]
    x = tt.tensor([0.1, 0.5], device=device, requires_grad=True)
    made = getattr(x * 1, name)(*args)
    assert made._version == 1
    made.sum().backward()
    assert x.grad.tolist() == pytest.approx(expected, rel=1e-3)


def test_rows_that_are_shortened_have_no_derivative(device: str) -> None:
    table = tt.tensor([[3.0, 4.0], [6.0, 8.0]], device=device, requires_grad=True)
    rows = tt.tensor([0], device=device)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        tt.embedding_renorm_(table, rows, 1.0, 2.0)
    shortened = tt.embedding_renorm_(table * 1, rows, 1.0, 2.0)
    with pytest.raises(NotImplementedError, match="derivative for 'embedding_renorm' is not implemented"):
        shortened.sum().backward()
    with tt.no_grad():
        tt.embedding_renorm_(table, rows, 1.0, 2.0)
    assert table.tolist()[0] == pytest.approx([0.6, 0.8])


def test_a_write_after_an_activation_in_place(device: str) -> None:
    # Those that keep their input stand it, those that keep their result do not.
    for name, survives in (
        ("relu6", True),
        ("hardtanh", True),
        ("silu", True),
        ("elu", False),
        ("relu", False),
    ):
        x = tt.tensor([-0.5, 0.5], device=device, requires_grad=True)
        made = getattr(tt.nn.functional, name)(x * 1, inplace=True)
        made.mul_(2)
        if survives:
            made.sum().backward()
        else:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                made.sum().backward()


def _multiply(x, y):
    y.mul_(5)
    return y


def _assign(x, y):
    y[0] = 7
    return y


def _multiply_a_part(x, y):
    y[:2].mul_(4)
    return y


def _add_twice(x, y):
    y.add_(x)
    y.mul_(2)
    return y


def _copy(x, y):
    y.copy_(x * 3)
    return y


def _multiply_through_a_part_made_before(x, y):
    part = y[1:]
    y.mul_(2)
    part.mul_(3)
    return y


@pytest.mark.parametrize(
    "write", [_multiply, _assign, _multiply_a_part, _add_twice, _copy, _multiply_through_a_part_made_before]
)
def test_a_retained_gradient_is_that_of_the_tensor_after_the_write(write) -> None:
    x = tt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 2
    y.retain_grad()
    (write(x, y) * tt.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert y.grad.tolist() == [1.0, 2.0, 3.0]


def test_a_retained_gradient_of_a_view_whose_base_is_written_to() -> None:
    x = tt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 2
    view = y[:2]
    view.retain_grad()
    y.mul_(4)
    (view * 3).sum().backward()
    assert view.grad.tolist() == [3.0, 3.0]
    assert x.grad.tolist() == [24.0, 24.0, 0.0]


def test_a_retained_gradient_of_a_view_and_of_its_base() -> None:
    x = tt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 2
    view = y[:2]
    view.retain_grad()
    y.retain_grad()
    view.mul_(4)
    (y * 3).sum().backward()
    assert view.grad is None, "the loss is made of the base"
    assert y.grad.tolist() == [3.0, 3.0, 3.0]


def test_a_saved_tensor_that_is_detached_in_place_is_noticed() -> None:
    x = tt.tensor([1.0], requires_grad=True)
    inner = x * 2
    saved = inner.sin()
    inner.detach_()
    with pytest.raises(RuntimeError, match="detached in-place"):
        saved.backward()
    (inner * x).backward()  # saved after it was detached
    assert x.grad.tolist() == [2.0]
    base = x * 2
    squared = base.view(1) * base.view(1)
    base.detach_()
    squared.backward()  # the views keep their history
    assert x.grad.tolist() == [10.0]


@pytest.mark.parametrize(
    "write", [tt.relu_, tt.sigmoid_, tt.exp_, lambda v: tt.nn.functional.elu(v, inplace=True)]
)
def test_higher_derivatives_of_a_write_to_a_view(write: Any) -> None:
    start = np.array([0.5, 0.75, 1.25])

    def program(x: Any) -> Any:
        y = x * 1.5
        write(y.view(3)[1:])
        return y**3

    x = tt.tensor(start, requires_grad=True)
    (first,) = tt.autograd.grad(program(x).sum(), x, create_graph=True)
    (second,) = tt.autograd.grad((first**2).sum(), x, create_graph=True)
    tt.autograd.grad(second.sum(), x)
    assert tt.autograd.gradgradcheck(program, (x,))
