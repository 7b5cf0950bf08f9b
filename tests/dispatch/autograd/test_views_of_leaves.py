"""Views that were there before their base began to require grad, and views that a tensor becomes itself."""

import copy
import gc

import pytest

import triten as tt
import triten.autograd.forward_ad as fwAD
from triten import nn


def leaf_and_view():
    x = tt.zeros(3)
    v = x[1:]
    x.requires_grad_()
    return x, v


def test_a_view_requires_grad_with_its_base_and_is_a_leaf():
    x, v = leaf_and_view()
    assert v.requires_grad and v.is_leaf and v.grad_fn is None
    (v * 3).sum().backward()
    assert v.grad.tolist() == [3.0, 3.0] and x.grad is None
    assert (v + 1).requires_grad and tt.cat([v, v]).requires_grad and v[0].requires_grad
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        v.numpy()


def test_every_way_to_ask_is_seen_by_views_of_views():
    x = tt.zeros(4)
    first, *rest = x.chunk(2)
    with tt.no_grad():
        unrecorded = x[1:]
    again = first[:1]
    x.requires_grad = True
    assert all(v.requires_grad for v in (first, *rest, again, unrecorded))
    whole = x.argsort()
    assert not whole.requires_grad


def test_a_write_to_such_a_view_is_refused():
    x, v = leaf_and_view()
    with pytest.raises(
        RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"
    ):
        v.mul_(2)
    with pytest.raises(
        RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"
    ):
        v.unsqueeze_(0)
    x = tt.zeros(4)
    part, _ = x.chunk(2)
    x.requires_grad_()
    with pytest.raises(RuntimeError, match="output of a function that returns multiple views"):
        part.mul_(2)
    assert x.tolist() == [0.0] * 4


def test_an_unrecorded_write_gives_the_view_its_history():
    x, v = leaf_and_view()
    with tt.no_grad():
        v.add_(2)
    assert not v.is_leaf
    (v * v).sum().backward()
    assert x.grad.tolist() == [0.0, 4.0, 4.0]


def test_a_base_that_stops_takes_its_views_along():
    x, v = leaf_and_view()
    v.requires_grad_(False)
    assert v.requires_grad
    x.requires_grad_(False)
    assert not v.requires_grad
    x.requires_grad_()
    assert v.requires_grad
    own = x[:1].detach()
    assert not own.requires_grad


def test_a_view_that_asked_itself_goes_on():
    x, v = leaf_and_view()
    v.requires_grad_()
    x.requires_grad_(False)
    assert v.requires_grad


def test_a_view_that_asks_does_not_ask_for_its_base():
    x = tt.zeros(3)
    v = x[1:]
    inner = v[:1]
    v.requires_grad_()
    assert not x.requires_grad and not inner.requires_grad


SHAPES = {
    "unsqueeze_": (0,),
    "squeeze_": (),
    "t_": (),
    "transpose_": (0, 1),
    "swapaxes_": (0, 1),
    "as_strided_": ((2,), (1,)),
}
SEVERAL = {
    "chunk": lambda x: x.chunk(2),
    "split": lambda x: x.split(1),
    "unbind": lambda x: tt.zeros(2, 2, 3).unbind(),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("several", SEVERAL)
def test_one_of_several_views_may_become_another_where_nothing_requires_grad(name, several):
    part = SEVERAL[several](tt.zeros(2, 2))[0]
    getattr(part, name)(*SHAPES[name])
    assert part._version == 1
    part.add_(1)
    assert bool((part == 1).all())
    with tt.no_grad():
        unrecorded = tt.zeros(2, 2)[:]
    getattr(unrecorded, name)(*SHAPES[name])


@pytest.mark.parametrize("name", SHAPES)
def test_one_of_several_views_stays_as_it_is_where_its_base_requires_grad(name):
    part = (tt.zeros(2, 2, requires_grad=True) * 1).chunk(2)[0]
    with pytest.raises(RuntimeError, match="output of a function that returns multiple views"):
        getattr(part, name)(*SHAPES[name])
    assert part.shape == (1, 2)


def test_nobody_looks_for_views_where_there_are_none(monkeypatch):
    # That is to look through all objects of the process.
    monkeypatch.setattr(gc, "get_referrers", lambda *_: pytest.fail("the heap was searched"))
    model = tt.nn.Linear(2, 2)
    optimizer = tt.optim.SGD(model.parameters(), lr=0.1)
    model(tt.ones(1, 2)).sum().backward()
    optimizer.step()
    held = [*model.parameters()]
    model.requires_grad_(False)
    assert not any(each.requires_grad for each in held)
    twin = copy.deepcopy(model).requires_grad_()
    assert all(each.requires_grad for each in twin.parameters())
    parameter = tt.nn.Parameter(held[0])
    assert parameter.requires_grad
    with pytest.raises(RuntimeError, match="Only Tensors of floating point"):
        tt.nn.Parameter(tt.arange(2))


def test_a_view_of_a_leaf_that_is_a_view_itself_is_not_written_to():
    leaf = tt.ones(4).view(2, 2).requires_grad_()
    for write in (lambda v: v.fill_(2), lambda v: v.mul_(2), lambda v: v.clamp_(0, 1)):
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            write(leaf[1:])


def test_one_of_several_views_of_such_a_leaf_has_no_history_after_a_write():
    part = tt.ones(4).view(2, 2).requires_grad_().unbind(0)[0]
    part.detach().mul_(2)
    with pytest.raises(RuntimeError, match="Output 0 of Unbind is a view and its base"):
        part * 2
    assert part.grad is None and not part.retains_grad, "to look does not ask for a history"


def test_views_of_another_dtype_have_no_base():
    base = tt.ones(4)
    view = base.view(tt.int32)
    assert view._base is None and not view._is_view()
    view.zero_()
    assert base.tolist() == [0.0] * 4 and base._version == 1


def test_an_unrecorded_view_is_reached_by_no_gradient():
    x = tt.ones(4, requires_grad=True)
    y = x * 2
    with tt.no_grad():
        view = y[1:]
    assert tt.autograd.grad(y.sum(), view, allow_unused=True) == (None,)
    (zeros,) = tt.autograd.grad(y.sum(), view, create_graph=True, materialize_grads=True)
    assert zeros.tolist() == [0.0] * 3 and zeros.requires_grad


def test_zeros_for_a_gradient_lie_as_their_tensor_does():
    x = tt.ones(2, 3).t().clone().requires_grad_()
    (zeros,) = tt.autograd.grad(tt.ones(2, requires_grad=True).sum(), x, materialize_grads=True)
    assert zeros.stride() == x.stride() == (1, 3)


def test_overlapping_views_have_gradients_after_a_write_to_their_base():
    weight = tt.arange(6.0).reshape(3, 2)
    x = tt.arange(4.0).requires_grad_()
    y = x * 2
    windows = y.unfold(0, 2, 1)
    y.add_(1)
    (windows * weight).sum().backward()
    assert x.grad.tolist() == [0.0, 6.0, 14.0, 10.0]


def written(base):
    """Return a view of each kind that was made before its base was written to and began to require grad."""
    views = [base[0], base.T, base.unsqueeze(0), base.as_strided((2,), (2,)), base[0][1:]]
    base.mul_(2)
    base.requires_grad_()
    return views


@pytest.mark.parametrize("number", range(5))
def test_a_view_from_before_a_write_leads_to_its_base(number):
    base = tt.zeros(2, 3)
    view = written(base)[number]
    assert view.requires_grad and not view.is_leaf and view.grad_fn is not None
    (view * 2).sum().backward()
    reached = tt.zeros(2, 3)
    [reached[0], reached, reached, reached.as_strided((2,), (2,)), reached[0, 1:]][number].fill_(2)
    assert base.grad.tolist() == reached.tolist()


WRITES = {
    "in place": lambda base: base.mul_(2),
    "through a view": lambda base: base[1].add_(1),
    "by index": lambda base: base.__setitem__(1, 5),
    "out": lambda base: tt.ones(2, 3, out=base),
    "init": tt.nn.init.normal_,
}


@pytest.mark.parametrize("write", WRITES)
def test_every_write_after_a_view_was_made_counts(write):
    base = tt.zeros(2, 3)
    before = base[0]
    WRITES[write](base)
    after, of_before = base[0], before[1:]
    base.requires_grad_()
    assert not before.is_leaf and after.is_leaf and of_before.is_leaf


def test_a_view_that_asked_before_its_base_follows_the_base_after_a_write():
    base = tt.zeros(2, 3)
    before = base[0]
    base.mul_(2)
    after = base[0]
    before.requires_grad_(), after.requires_grad_()
    assert before.is_leaf and after.is_leaf
    base.requires_grad_()
    assert not before.is_leaf and after.is_leaf


@pytest.mark.parametrize("several", ["unbind", "split", "chunk"])
@pytest.mark.parametrize("write_first", [False, True])
def test_one_of_several_views_from_before_a_write_has_no_history(several, write_first):
    base = tt.zeros(2, 3)
    if write_first:
        base.mul_(2)
    part = {"unbind": base.unbind, "split": lambda: base.split(1), "chunk": lambda: base.chunk(2)}[several]()[
        0
    ]
    if not write_first:
        base.mul_(2)
    base.requires_grad_()
    if write_first:
        assert part.is_leaf
    else:
        with pytest.raises(RuntimeError, match="its base or another view of its base has been modified"):
            part.is_leaf  # noqa: B018


def test_a_base_that_stops_gets_no_gradient_through_a_view_after_a_write():
    base = tt.zeros(2, 3, requires_grad=True)
    view = base[0]
    base.requires_grad_(False)
    base.mul_(2)
    (view * 2).sum().backward()
    assert base.grad is None and not view.is_leaf


@pytest.mark.parametrize(
    ("change", "sizes"),
    [
        (lambda leaf: leaf.t_(), (1, 4)),
        (lambda leaf: leaf.squeeze_(), (4,)),
        (lambda leaf: leaf.unsqueeze_(0), (1, 4, 1)),
        (lambda leaf: leaf.set_(leaf[1:]), (3, 1)),
        (lambda leaf: leaf.set_(tt.ones(4, 3)), (4, 3)),
        (lambda leaf: leaf.set_(tt.ones(6).untyped_storage(), 2, (2, 2), (2, 1)), (2, 2)),
    ],
)
def test_a_leaf_of_other_sizes_takes_gradients_of_these_sizes(change, sizes):
    leaf = tt.ones(4, 1, requires_grad=True)
    (leaf * 2).sum().backward()
    leaf.grad = None
    with tt.no_grad():
        change(leaf)
    (leaf * 3).sum().backward()
    assert leaf.shape == leaf.grad.shape == sizes
    assert leaf.grad.unique().tolist() == [3.0]


@pytest.mark.parametrize(
    "order", ["view of the alias", "view of the original", "views of both", "alias of a view"]
)
def test_views_of_detached_aliases_follow_their_own_base(order):
    original = tt.zeros(2, 3)
    alias = original[:].detach() if order == "alias of a view" else original.detach()
    of_alias = None if order == "view of the original" else alias[0]
    of_original = None if order == "view of the alias" else original[0]
    other = alias.detach()
    alias.requires_grad_()
    if of_alias is not None:
        (of_alias * 2).sum().backward()
        assert of_alias.is_leaf and of_alias.grad.tolist() == [2, 2, 2]
    assert of_original is None or not of_original.requires_grad
    assert not original.requires_grad and not other.requires_grad


def test_a_view_whose_base_has_no_variable_follows_it():
    view = tt.zeros(2, 3).detach()[0]
    view._base.requires_grad_()
    assert view.requires_grad


def test_detached_aliases_need_no_search_of_the_process(monkeypatch):
    def refuse(*objects):
        raise AssertionError("all objects of the process were searched")

    originals = [tt.ones(3), tt.ones(3, requires_grad=True), tt.ones(2, 3, requires_grad=True)[0]]
    monkeypatch.setattr(gc, "get_referrers", refuse)
    for original in originals[:2]:
        aliases = [original.detach() for _ in range(3)]
        assert aliases[0].requires_grad_().is_leaf
        aliases[1].add_(aliases[0])
        assert aliases[1].grad_fn is not None
        with fwAD.dual_level():
            fwAD.make_dual(aliases[2], tt.ones(3))
    state = nn.Linear(2, 2).requires_grad_(False).state_dict()
    assert not any(each.requires_grad for each in state.values())
