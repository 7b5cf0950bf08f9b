"""Views that a tensor becomes itself: sizes, strides, versions, histories and refusals."""

import pytest

import triten as tt

FORMS = {
    "as_strided_": (lambda x: x.as_strided_((3, 2), (1, 3)), lambda x: x.as_strided((3, 2), (1, 3))),
    "squeeze_": (lambda x: x.unsqueeze_(0).squeeze_(), lambda x: x),
    "squeeze_ of one": (lambda x: x.unsqueeze_(1).squeeze_(1), lambda x: x),
    "squeeze_ of several": (lambda x: x.unsqueeze_(0).unsqueeze_(0).squeeze_((0, 1)), lambda x: x),
    "swapaxes_": (lambda x: x.swapaxes_(0, 1), lambda x: x.swapaxes(0, 1)),
    "swapdims_": (lambda x: x.swapdims_(0, 1), lambda x: x.swapdims(0, 1)),
    "t_": (lambda x: x.t_(), lambda x: x.t()),
    "transpose_": (lambda x: x.transpose_(0, 1), lambda x: x.transpose(0, 1)),
    "unsqueeze_": (lambda x: x.unsqueeze_(1), lambda x: x.unsqueeze(1)),
}


@pytest.mark.parametrize("device", ["cpu", "meta", "cuda"])
@pytest.mark.parametrize("name", FORMS)
def test_a_tensor_becomes_its_view(name: str, device: str) -> None:
    in_place, functional = FORMS[name]
    x = tt.ones(2, 3, device=device)
    storage, version, expected = x.untyped_storage(), x._version, functional(tt.ones(2, 3, device=device))
    changed = in_place(x)
    assert changed is x
    assert (x.shape, x.stride()) == (expected.shape, expected.stride())
    assert x.untyped_storage() is storage
    assert x._version > version


def test_the_gradient_goes_through_the_view_that_a_tensor_became() -> None:
    w = tt.ones(2, 3, requires_grad=True)
    x = w * 2
    x.t_()
    (x * tt.arange(6.0).view(3, 2)).sum().backward()
    assert w.grad.tolist() == [[0, 4, 8], [2, 6, 10]]


def test_a_view_that_becomes_another_view_writes_into_its_base() -> None:
    w = tt.ones(2, 3, requires_grad=True)
    z = w * 2
    x = z.view(3, 2)
    x.t_()
    x[0].mul_(3)
    (z * tt.arange(6.0).view(2, 3)).sum().backward()
    assert z.tolist() == [[6, 2, 6], [2, 6, 2]]
    assert w.grad.tolist() == [[0, 2, 12], [6, 24, 10]]


def test_views_made_before_keep_their_sizes() -> None:
    x = tt.arange(6.0).view(2, 3)
    row = x[1]
    x.t_()
    row.zero_()
    assert x.tolist() == [[0, 0], [1, 0], [2, 0]]


@pytest.mark.parametrize("make", [lambda w: w, lambda w: w.view(3, 2)], ids=["leaf", "view of a leaf"])
def test_leaves_that_require_gradients_refuse(make) -> None:
    w = tt.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used in an in-place"):
        make(w).t_()
    assert w.shape == (2, 3)


def test_a_leaf_may_change_where_no_gradient_is_recorded() -> None:
    w = tt.ones(2, 3, requires_grad=True)
    with tt.no_grad():
        w.t_()
    assert w.shape == (3, 2)
    assert w.requires_grad
    assert w.is_leaf


SEVERAL = {
    "split": (lambda x: x.split(2), "Split"),
    "split of sizes": (lambda x: x.split([1, 3]), "SplitWithSizes"),
    "chunk": (lambda x: x.chunk(2), "Split"),
    "unbind": (lambda x: x.unbind(), "Unbind"),
    "unbind of columns": (lambda x: x.unbind(1), "Unbind"),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_one_of_several_views_refuses_writes_under_autograd(name: str) -> None:
    several, operator = SEVERAL[name]
    x = tt.ones(4, 4, requires_grad=True) * 1
    views = several(x)
    with pytest.raises(RuntimeError, match=f"Output 1 of {operator} is a view and is being modified inplace"):
        views[1].mul_(2)
    assert x.tolist() == [[1.0] * 4] * 4
    x.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        views[0].grad_fn.name()


@pytest.mark.parametrize("several", [lambda x: x.tensor_split(2), lambda x: x.hsplit(2)])
def test_other_views_of_several_may_be_written_to(several) -> None:
    x = tt.ones(4, 4, requires_grad=True)
    y = x * 1
    several(y)[0].mul_(2)
    y.sum().backward()
    assert sorted(set(x.grad.flatten().tolist())) == [1, 2]


UNSAFE = {
    "unsafe_split": lambda x: x.unsafe_split(2),
    "unsafe_chunk": lambda x: x.unsafe_chunk(2),
    "unsafe_split_with_sizes": lambda x: x.unsafe_split_with_sizes([2, 2]),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_autograd_does_not_know_the_parts_of_an_unsafe_split_as_views(name: str) -> None:
    x = tt.ones(4, requires_grad=True)
    y = x * 1
    first, second = UNSAFE[name](y)
    assert not first._is_view()
    first.add_(1)
    assert first.grad_fn.name() == "AddBackward0"
    assert y.tolist() == [2, 2, 1, 1]
    (gradient,) = tt.autograd.grad(y.sum() + (first * second).sum(), x)
    assert gradient.tolist() == [2, 2, 3, 3]


def test_views_of_several_are_written_to_where_no_gradient_is_wanted() -> None:
    x = tt.ones(4, 4)
    x.split(2)[0].mul_(2)
    x.unbind(1)[3].zero_()
    assert x.tolist() == [[2, 2, 2, 0]] * 2 + [[1, 1, 1, 0]] * 2


HIDDEN = {
    "reshape that copies": lambda x: x.t().reshape(-1),
    "flatten that copies": lambda x: x.t().flatten(),
    "matmul of a vector and a matrix": lambda x: x[0] @ x,
    "matmul of a batch": lambda x: x.expand(2, 4, 4) @ x,
    "repeat": lambda x: x.repeat(2, 1),
    "kron": lambda x: tt.kron(x, x),
    "pixel_shuffle": lambda x: tt.nn.functional.pixel_shuffle(x.view(1, 4, 4), 1),
    "pixel_unshuffle": lambda x: tt.nn.functional.pixel_unshuffle(x.view(1, 4, 4), 1),
    "empty_permuted": lambda x: tt.empty_permuted((2, 3), (1, 0), device=x.device),
}


@pytest.mark.parametrize("device", ["cpu", "meta", "cuda"])
@pytest.mark.parametrize("name", HIDDEN)
def test_what_nobody_else_holds_is_no_view(name: str, device: str) -> None:
    x = tt.ones(4, 4, device=device)
    made = HIDDEN[name](x)
    assert not made._is_view()
    assert made.untyped_storage() is not x.untyped_storage()


def test_a_copying_reshape_has_the_node_of_pytorch() -> None:
    x = tt.ones(4, 4, requires_grad=True)
    assert x.t().reshape(-1).grad_fn.name() == "UnsafeViewBackward0"
    assert x.reshape(-1).grad_fn.name() == "ViewBackward0"


def test_to_is_the_tensor_itself_in_a_format_that_it_suggests() -> None:
    x = tt.ones(2, 3).t()
    assert x.to(tt.float32, memory_format=tt.contiguous_format) is x
    image = tt.ones(1, 2, 3, 4)
    assert image.to(memory_format=tt.channels_last) is not image
