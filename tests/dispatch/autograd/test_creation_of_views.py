"""Views without a history: made in no_grad or inference mode, one of several outputs, or from a custom
Function.
"""

import pytest

import triten as tt

NO_GRAD = "A view was created in no_grad mode and is being modified inplace with grad mode enabled"
INFERENCE = "A view was created in inference mode and is being modified inplace in normal mode"


class Reshaped(tt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(2, 2)

    @staticmethod
    def backward(ctx, grad):
        return grad.view(4)


def _leaf():
    return tt.ones(4, requires_grad=True)


def _computed():
    return tt.ones(4, requires_grad=True) * 1


def _plain():
    return tt.ones(4)


def _no_grad_view(base):
    with tt.no_grad():
        return base.view(2, 2)


def _inference_view(base):
    with tt.inference_mode():
        return base.view(2, 2)


@pytest.mark.parametrize("base", [_leaf, _computed], ids=["leaf", "computed"])
@pytest.mark.parametrize(
    ("view", "message"),
    [
        (_no_grad_view, f"^{NO_GRAD}.*both inside the no_grad block"),
        (_inference_view, f"^{INFERENCE}.*both inside the inference_mode block"),
        (
            lambda x: _no_grad_view(x).t(),
            "^Output 0 of T is a view of a view which was created in no_grad mode",
        ),
        (
            lambda x: _inference_view(x).view(4),
            "^Output 0 of View is a view of a view which was created in inference mode",
        ),
    ],
    ids=["no_grad", "inference", "view of no_grad", "view of inference"],
)
def test_unrecorded_views_cannot_be_written_to_under_grad(base, view, message, device):
    source = base().to(device) if base is _computed else tt.ones(4, device=device, requires_grad=True)
    made = view(source)
    assert made.requires_grad
    with pytest.raises(RuntimeError, match=message):
        made.mul_(2)
    assert source.tolist() == [1, 1, 1, 1]
    assert source._version == 0


def test_an_unrecorded_view_of_a_plain_tensor_takes_no_gradient():
    for view, message in ((_no_grad_view, NO_GRAD), (_inference_view, INFERENCE)):
        made = view(_plain())
        assert not made.requires_grad
        assert made.mul_(2).tolist() == [[2, 2], [2, 2]]
        with pytest.raises(RuntimeError, match=f"^{message}"):
            made.mul_(tt.ones(2, 2, requires_grad=True))
        with pytest.raises(RuntimeError, match=f"^{message}"):
            made.view(4).mul_(tt.ones(4, requires_grad=True))


def test_a_view_and_its_write_both_unrecorded_are_allowed():
    leaf = _leaf()
    with tt.no_grad():
        leaf.view(2, 2).mul_(3)
        leaf[0].zero_()
    assert leaf.tolist() == [0, 3, 3, 3]
    (leaf * 2).sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2, 2]


def test_an_unrecorded_view_is_a_constant_of_what_is_computed_from_it():
    leaf = _leaf()
    view = _no_grad_view(leaf)
    assert view.is_leaf and view.grad_fn is None
    (leaf.view(2, 2) * view).sum().backward()
    assert leaf.grad.tolist() == [1, 1, 1, 1]
    assert view.grad is None
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
        view.sum(()).backward() if view.ndim == 0 else view.backward(tt.ones(2, 2))


@pytest.mark.parametrize("write", ["base", "another view"])
def test_an_unrecorded_view_is_void_once_its_base_is_written_to(write):
    base = _computed()
    view = _no_grad_view(base)
    (base if write == "base" else base[2:]).mul_(2)
    with pytest.raises(
        RuntimeError,
        match="created in no_grad mode and its base or another view of its base has been modified inplace",
    ):
        view * 2
    with tt.no_grad():
        assert view.sum().item() == (8 if write == "base" else 6)
    assert "grad_fn=<Invalid>" in repr(view)
    # A result without a gradient does not request the history.
    assert (view > 0).all() and view.to(tt.bool).all() and not view.sum(dtype=tt.int64).requires_grad


@pytest.mark.parametrize(
    ("several", "name"),
    [
        (lambda x: x.split(2), "Split"),
        (lambda x: x.chunk(2), "Split"),
        (lambda x: x.split_with_sizes([2, 2]), "SplitWithSizes"),
        (lambda x: x.view(2, 2).unbind(), "Unbind"),
    ],
    ids=["split", "chunk", "split_with_sizes", "unbind"],
)
def test_one_of_several_views_cannot_be_written_to_under_grad(several, name):
    message = "This view is the output of a function that returns multiple views"
    with pytest.raises(RuntimeError, match=f"^Output 1 of {name} is a view and is being modified.*{message}"):
        several(_computed())[1].mul_(2)
    with pytest.raises(RuntimeError, match=f"^Output 0 of View is a view and is being modified.*{message}"):
        several(_computed())[0].view(2, 1).mul_(2)
    plain = several(_plain())[0]
    assert plain.mul_(2).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match=f"^{NO_GRAD}\\. {message}"):
        plain.mul_(tt.ones(2, requires_grad=True))
    base = _computed()
    with tt.no_grad():
        unrecorded = several(base)[0]
    with pytest.raises(RuntimeError, match=f"^{NO_GRAD}. Given that"):
        unrecorded.mul_(2)


def test_views_of_a_custom_function_cannot_be_written_to_under_grad():
    message = "is a view and is being modified inplace. This view was created inside a custom Function"
    with pytest.raises(RuntimeError, match=f"^Output 0 of Reshaped {message}"):
        Reshaped.apply(_computed()).mul_(2)
    with pytest.raises(RuntimeError, match=f"^Output 0 of View {message}"):
        Reshaped.apply(_computed()).view(4).mul_(2)
    source = _computed()
    out = Reshaped.apply(source)
    out.sum().backward()
    assert out.requires_grad and not out.is_leaf
    unrecorded = Reshaped.apply(_plain())
    with pytest.raises(RuntimeError, match=f"^{NO_GRAD}. This view was created inside a custom Function"):
        unrecorded.mul_(tt.ones(2, 2, requires_grad=True))
    assert unrecorded.mul_(2).requires_grad is False


class Both(tt.autograd.Function):
    """Views of two arguments."""

    @staticmethod
    def forward(ctx, x, y):
        return x.view_as(x), y.view_as(y)

    @staticmethod
    def backward(ctx, *grads):
        return grads


def test_one_of_several_views_of_a_custom_function_cannot_be_written_to_under_grad():
    for place, view in enumerate(Both.apply(_computed(), _computed())):
        message = f"^Output {place} of Both is a view .*of a function that returns multiple views"
        with pytest.raises(RuntimeError, match=message):
            view.mul_(2)


def test_a_leaf_among_views_of_a_plain_tensor_keeps_its_gradient():
    base = _plain()
    base.add_(1)
    view = _no_grad_view(base).requires_grad_()
    (view * 3).sum().backward()
    assert view.grad.tolist() == [[3, 3], [3, 3]]
