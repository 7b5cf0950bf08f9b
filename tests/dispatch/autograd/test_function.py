"""`tt.autograd.Function`: a user's own forward and backward."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.autograd import Function, grad, gradgradcheck
from triten.tests.shared.operands import leaf


def function(forward: Callable[..., Any], backward: Callable[..., Any], setup: Any = None) -> Any:
    """Return a Function class with these static methods."""
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    if setup is not None:
        members["setup_context"] = staticmethod(setup)
    return type("Made", (Function,), members)


Double = function(lambda ctx, x: x + x, lambda ctx, g: g + g)


def test_forward_and_backward() -> None:
    x = leaf()
    y = Double.apply(x)
    assert y.tolist() == [2.0, 4.0]
    assert y.grad_fn.name() == "MadeBackward"
    assert y.grad_fn.next_functions[0][0].variable is x
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_nothing_is_recorded_where_nothing_requires_grad() -> None:
    x = leaf()
    assert not Double.apply(tt.ones(2)).requires_grad
    with tt.no_grad():
        assert not Double.apply(x).requires_grad
    with tt.inference_mode():
        saving = function(lambda ctx, x: (ctx.save_for_backward(x), x + x)[1], lambda ctx, g: g)
        assert saving.apply(tt.ones(2)).is_inference()


def test_grad_mode_is_off_inside() -> None:
    seen: list[bool] = []

    def forward(ctx: Any, x: Any) -> Any:
        seen.append(tt.is_grad_enabled())
        y = x + 1
        seen.append(y.requires_grad)
        return y

    def backward(ctx: Any, g: Any) -> Any:
        seen.append(tt.is_grad_enabled())
        return g

    x = leaf()
    s = function(forward, backward).apply(x).sum()
    s.backward(retain_graph=True)
    grad(s, x, create_graph=True)
    assert seen == [False, False, False, True]
    assert tt.is_grad_enabled()


def test_values_on_the_context() -> None:
    def forward(ctx: Any, x: Any, n: float) -> Any:
        ctx.n = n
        return x + n

    x = leaf()
    (g,) = grad(function(forward, lambda ctx, g: (g + ctx.n, None)).apply(x, 3.0).sum(), x)
    assert g.tolist() == [4.0, 4.0]


def test_setup_context() -> None:
    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, n = inputs
        ctx.save_for_backward(x, output)
        ctx.n = n

    def backward(ctx: Any, g: Any) -> Any:
        x, output = ctx.saved_tensors
        assert output.tolist() == (x + ctx.n).tolist()
        return g + x, None

    x = leaf()
    (g,) = grad(function(lambda x, n: x + n, backward, setup).apply(x, 2.0).sum(), x)
    assert g.tolist() == [2.0, 3.0]


# --- saved tensors


def saving() -> Any:
    """Return a Function that saves its input, its output and None."""

    def forward(ctx: Any, x: Any) -> Any:
        out = x.relu()
        ctx.save_for_backward(x, out, None)
        return out

    def backward(ctx: Any, g: Any) -> Any:
        x, out, nothing = ctx.saved_tensors
        assert nothing is None
        return g + x + out

    return function(forward, backward)


def test_saved_inputs_and_outputs() -> None:
    x = leaf(1.0, -2.0)
    (g,) = grad(saving().apply(x).sum(), x)
    assert g.tolist() == [3.0, -1.0]


def test_saved_tensors_are_freed_and_checked() -> None:
    x = leaf()
    y = saving().apply(x)
    s = y.sum()
    s.backward(retain_graph=True)
    s.backward()
    with pytest.raises(RuntimeError, match="second time"):
        s.backward()
    with pytest.raises(RuntimeError, match="already been freed"):
        y.grad_fn.saved_tensors  # noqa: B018 - reading it raises


@pytest.mark.parametrize("which", ["input", "output"])
def test_saved_tensors_that_were_written_to(which: str) -> None:
    h = leaf() + 0
    y = saving().apply(h)
    s = (y + 0).sum()
    (h if which == "input" else y).add_(1)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*MadeBackward"):
        s.backward()


def test_only_tensors_are_saved() -> None:
    made = function(lambda ctx, x: ctx.save_for_backward(x, 3), lambda ctx, g: g)
    with pytest.raises(TypeError, match="can only save variables, but argument 1 is of type int"):
        made.apply(leaf())


def test_inference_tensors_are_not_saved() -> None:
    with tt.inference_mode():
        c = tt.ones(2)
    made = function(lambda ctx, x, c: (ctx.save_for_backward(c), x + c)[1], lambda ctx, g: (g, None))
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        made.apply(leaf(), c)


# --- several inputs and outputs


def test_needs_input_grad() -> None:
    seen: list[tuple[bool, ...]] = []

    def backward(ctx: Any, g: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return g, g, None

    made = function(lambda ctx, a, b, n: a + b, backward)
    x, y = leaf(), leaf()
    grad(made.apply(x, tt.ones(2), 1).sum(), x)
    grad(made.apply(x, y, 1).sum(), x)
    grad(made.apply(tt.ones(2), y, 1).sum(), y)
    assert seen == [(True, False, False), (True, True, False), (False, True, False)]


def test_one_gradient_for_two_leaves_is_copied() -> None:
    x, y = leaf(), leaf()
    function(lambda ctx, a, b: a + b, lambda ctx, g: (g, g)).apply(x, y).sum().backward()
    x.grad.add_(5.0)
    assert y.grad.tolist() == [1.0, 1.0]


def test_the_same_input_twice() -> None:
    x = leaf()
    made = function(lambda ctx, a, b: a + b, lambda ctx, g: (g, g + g))
    assert grad(made.apply(x, x).sum(), x)[0].tolist() == [3.0, 3.0]


def test_several_outputs() -> None:
    x = leaf()
    made = function(lambda ctx, x: (x + 1, x + 2), lambda ctx, a, b: a + b + b)
    one, two = made.apply(x)
    assert (one.output_nr, two.output_nr) == (0, 1)
    assert grad(one.sum(), x, retain_graph=True)[0].tolist() == [1.0, 1.0]
    assert grad(two.sum(), x, retain_graph=True)[0].tolist() == [2.0, 2.0]
    assert grad((one + two).sum(), x)[0].tolist() == [3.0, 3.0]


@pytest.mark.parametrize("materialize", [True, False])
def test_gradients_of_unused_outputs(materialize: bool) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(materialize)
        return x + 1, x.to(tt.float64)

    def backward(ctx: Any, a: Any, b: Any) -> Any:
        seen.append(b)
        return a

    x = leaf()
    one, _ = function(forward, backward).apply(x)
    grad(one.sum(), x)
    if materialize:
        assert (seen[0].tolist(), seen[0].dtype) == ([0.0, 0.0], tt.float64)
    else:
        assert seen == [None]


def test_outputs_that_are_no_tensors() -> None:
    seen: list[Any] = []

    def backward(ctx: Any, *grads: Any) -> Any:
        seen.append([None if g is None else g.tolist() for g in grads])
        return grads[1]

    x = leaf()
    out = function(lambda ctx, x: ("a", x + 1, None, x + 2), backward).apply(x)
    assert (out[0], out[2]) == ("a", None)
    assert grad(out[1].sum(), x)[0].tolist() == [1.0, 1.0]
    assert seen == [[None, [1.0, 1.0], None, [0.0, 0.0]]]


def test_outputs_that_are_not_differentiable() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        one, two = x + 1, x + 2
        ctx.mark_non_differentiable(two)
        return one, two, x.to(tt.int64)

    x = leaf()
    one, two, three = function(forward, lambda ctx, a, b, c: a).apply(x)
    assert (one.requires_grad, two.requires_grad, three.requires_grad) == (True, False, False)
    assert grad(one.sum(), x)[0].tolist() == [1.0, 1.0]


# --- inputs that are returned or written to


def test_an_input_returned_as_it_is() -> None:
    x = leaf()
    y = function(lambda ctx, x: x, lambda ctx, g: g + g).apply(x)
    assert y is not x
    assert (x.is_leaf, y.is_leaf) == (True, False)
    assert y.untyped_storage() is x.untyped_storage()
    assert grad(y.sum(), x)[0].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("forward", [lambda ctx, x: x.view(1, 2), lambda ctx, x: x])
def test_views_made_inside_are_not_written_to(forward: Callable[..., Any]) -> None:
    made = function(forward, lambda ctx, g: g.view(2))
    h = leaf() + 0
    y = made.apply(h)
    with pytest.raises(RuntimeError, match="Output 0 of Made is a view and is being modified inplace"):
        y.add_(1)
    assert h.tolist() == [1.0, 2.0]
    h.add_(1)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        y + 1


def dirty() -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        x.add_(1)
        ctx.mark_dirty(x)
        return x

    return function(forward, lambda ctx, g: g + g)


def test_an_input_that_is_written_to() -> None:
    x = leaf()
    h = x + 0
    y = dirty().apply(h)
    assert y is h
    assert h.grad_fn.name() == "MadeBackward"
    assert h.tolist() == [2.0, 3.0]
    assert grad(h.sum(), x)[0].tolist() == [2.0, 2.0]


def test_a_view_that_is_written_to() -> None:
    x = leaf()
    h = x + 0
    dirty().apply(h[0:1])
    assert grad(h.sum(), x)[0].tolist() == [2.0, 1.0]


def test_a_plain_tensor_that_is_written_to() -> None:
    p = tt.zeros(2)
    assert dirty().apply(p) is p
    assert (p.requires_grad, p.tolist()) == (False, [1.0, 1.0])


def test_a_leaf_that_is_written_to_is_refused() -> None:
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        dirty().apply(leaf())


def test_what_is_written_to_must_be_returned() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        x.add_(1)
        ctx.mark_dirty(x)
        return x + 1

    with pytest.raises(RuntimeError, match="marked as dirty during the forward method were not returned"):
        function(forward, lambda ctx, g: g).apply(leaf() + 0)


# --- faults


@pytest.mark.parametrize(
    ("backward", "error", "words"),
    [
        (lambda ctx, g: g, RuntimeError, r"incorrect number of gradients \(expected 2, got 1\)"),
        (lambda ctx, g: (g, None, g), RuntimeError, r"incorrect number of gradients \(expected 2, got 3\)"),
        (lambda ctx, g: (g, g), RuntimeError, "gradient different than None at position 2"),
        (lambda ctx, g: (3, None), RuntimeError, r"expected Variable or None \(got int\)"),
        (
            lambda ctx, g: (tt.ones(5), None),
            RuntimeError,
            r"MadeBackward returned an invalid gradient.*\[5\].*\[2\]",
        ),
        (lambda ctx, g: (tt.ones(1), None), RuntimeError, "invalid gradient"),
    ],
)
def test_wrong_gradients_are_refused(backward: Any, error: type[Exception], words: str) -> None:
    x = leaf()
    out = function(lambda ctx, x, n: x + n, backward).apply(x, 2)
    with pytest.raises(error, match=words):
        grad(out.sum(), x)
    assert tt.is_grad_enabled()


def test_gradients_that_are_summed_cast_or_missing() -> None:
    x = leaf()
    wide = function(lambda ctx, x: x + 1, lambda ctx, g: tt.ones(3, 2, dtype=tt.float64))
    (g,) = grad(wide.apply(x).sum(), x)
    assert (g.tolist(), g.dtype) == ([3.0, 3.0], tt.float32)
    none = function(lambda ctx, x, n: x + n, lambda ctx, g: (None, None, None))
    assert grad(none.apply(x, 1).sum(), x, allow_unused=True) == (None,)


def test_methods_that_were_not_written() -> None:
    with pytest.raises(NotImplementedError, match="You must implement the forward function"):
        Function.apply(leaf())
    made = type("Half", (Function,), {"forward": staticmethod(lambda ctx, x: x + 1)})
    with pytest.raises(NotImplementedError, match="You must implement either the backward"):
        made.apply(leaf()).sum().backward()


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_exceptions_leave_the_runtime_usable(where: str) -> None:
    def fail(*args: Any) -> Any:
        raise KeyError

    x = leaf()
    made = function(fail, fail) if where == "forward" else function(lambda ctx, x: x + 1, fail)
    with pytest.raises(KeyError):
        made.apply(x).sum().backward()
    assert tt.is_grad_enabled()
    assert (x + 1).requires_grad


# --- second derivatives


class Square(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.mm(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g.mm(x.t()) + x.t().mm(g)


class SquareOfSavedOutput(Function):
    """Function whose derivative uses the output: x -> x x, with x the output of an inner identity."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        out = x + 0
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (out,) = ctx.saved_tensors
        return g.mm(out)


def test_double_backward() -> None:
    x = tt.tensor([[0.5, -1.0], [2.0, 0.25]], dtype=tt.float64).requires_grad_()
    assert gradgradcheck(Square.apply, x)


def test_a_saved_output_is_tied_to_its_node_in_double_backward() -> None:
    x = tt.tensor([[3.0]]).requires_grad_()
    (first,) = grad(SquareOfSavedOutput.apply(x).sum(), x, create_graph=True)
    assert first.item() == 3.0
    assert grad(first.sum(), x)[0].item() == 3.0


def test_functions_within_functions() -> None:
    outer = function(lambda ctx, x: Double.apply(x) + 1, lambda ctx, g: g + g)
    x = leaf()
    assert grad(outer.apply(x).sum(), x)[0].tolist() == [2.0, 2.0]


def test_hooks_on_results() -> None:
    x = leaf()
    y = Double.apply(x)
    y.register_hook(lambda g: g + g)
    y.grad_fn.register_hook(lambda gi, go: (gi[0] + 1.0,))
    assert grad(y.sum(), x)[0].tolist() == [5.0, 5.0]


def test_what_is_marked_dirty_counts_as_written_however_it_was() -> None:
    class Bare(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            x.numpy()[...] += 1
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    saved = tt.ones(2)
    product = tt.ones(2, requires_grad=True) * saved
    assert Bare.apply(saved) is saved and saved.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_an_object_of_a_function_is_not_called() -> None:
    class Plain(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

    with pytest.raises(RuntimeError, match="Legacy autograd function"):
        Plain()(tt.ones(1))
    with pytest.raises(NotImplementedError, match="either the backward or vjp method"):
        Plain.apply(tt.ones(1, requires_grad=True)).backward()


def _double(ctx, grad):
    return grad * 2


@pytest.mark.parametrize("names", [["vjp"], ["backward"], ["vjp", "backward"]])
@pytest.mark.parametrize("is_mapped", [False, True])
def test_the_gradient_formula_is_vjp_or_backward(names, is_mapped):
    class Base(tt.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    function = type("Double", (Base,), {name: staticmethod(_double) for name in names})
    x = tt.ones(3, requires_grad=True)

    def run():
        total = (tt.vmap(function.apply) if is_mapped else function.apply)(x).sum()
        return tt.autograd.grad(total, x)[0]

    if len(names) == 1:
        assert run().tolist() == [2.0] * 3
    else:
        with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
            run()


def test_a_subclass_overrides_the_inherited_formula():
    class Double(tt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        vjp = staticmethod(_double)

    class Triple(Double):
        @staticmethod
        def vjp(ctx, grad):
            return grad * 3

    x = tt.ones(1, requires_grad=True)
    assert [tt.autograd.grad(f.apply(x), x)[0].item() for f in (Double, Triple)] == [2.0, 3.0]


REDUCTIONS = {
    "mean": lambda y: y.mean(),
    "mean of rows": lambda y: y.mean(1).sum(),
    "mean of columns": lambda y: 3 * y.mean(0).sum(),
    "sum": lambda y: y.sum(),
    "mean of variances": lambda y: tt.var_mean(y, 1)[1].sum(),
    "pooling": lambda y: tt.nn.functional.adaptive_avg_pool2d(y[None, None], 1).sum(),
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_backward_gets_gradients_without_expanded_dimensions(reduction, device):
    # A kernel in `backward` may read a gradient by the strides of the output.
    strides = []

    class Double(tt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            strides.append(grad.stride())
            flat = grad.cpu().numpy().reshape(-1) if device == "cuda" else grad.view(-1).numpy()
            return 2 * tt.from_numpy(flat.copy()).view(grad.shape).to(device)

    x = tt.randn(3, 4, device=device, requires_grad=True)
    REDUCTIONS[reduction](Double.apply(x)).backward()
    expected = x.detach().clone().requires_grad_()
    REDUCTIONS[reduction](2 * expected).backward()
    assert strides == [(4, 1)]
    tt.testing.assert_close(x.grad, expected.grad)


def test_gradients_of_other_strides_are_passed_on():
    strides = []

    class Same(tt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            strides.append(grad.stride())
            return grad

    x = tt.randn(3, 4, requires_grad=True)
    Same.apply(x).t().mul(tt.randn(4, 3)).sum().backward()
    assert strides == [(1, 3)]
