"""Statements about gradients: leaves, backward, double backward, hooks, blocks without grad."""

import triten as tt
from triten.dispatch.autograd.view_history import elements_overlap

from .scope import Scope, real_float


def differentiable(tensor: tt.Tensor) -> bool:
    return tensor.requires_grad and tensor.is_floating_point()


def begin(scope: Scope) -> str:
    a = scope.pick(lambda each: each.is_floating_point() and not each.requires_grad)
    # A base of views is left alone: PyTorch loses gradients of those that were made before.
    own = (
        f"{a}.requires_grad_()"
        if scope[a]._version_cell is None
        else f"{scope.new()} = {a}.clone().requires_grad_()"
    )
    return scope.choice(own, f"{scope.new()} = {a}.detach().requires_grad_()")


def backward(scope: Scope) -> str:
    a = scope.pick(differentiable)
    form = scope.choice(
        "{a}.sum().backward()",
        "{a}.square().sum().backward(retain_graph=True)",
        "({a} * 2).mean().backward()",
        "{a}.sum().backward(retain_graph=True); {a}.sum().backward()",
        "{a}.backward(tt.ones_like({a}), retain_graph=True)",
        "{a}.sum().backward(retain_graph=True)",
    )
    return str(form.format(a=a))


def gradient(scope: Scope) -> str:
    a, b = scope.pick(differentiable), scope.pick(differentiable)
    g = scope.new()
    form = scope.choice(
        "{g}, = tt.autograd.grad({a}.sum(), {b}, retain_graph=True, allow_unused=True)",
        "{g}, = tt.autograd.grad({a}.square().sum(), {b}, create_graph=True, allow_unused=True)",
        "{g}, = tt.autograd.grad({a}.sin().sum(), {b}, create_graph=True, materialize_grads=True)",
        "{g}, = tt.autograd.grad({a}.sum(), {b}, retain_graph=True)",
        "{g}, = tt.autograd.grad({a}, {b}, tt.ones_like({a}), retain_graph=True, allow_unused=True)",
    )
    return str(form.format(a=a, b=b, g=g))


def about_leaf(scope: Scope) -> str:
    a = scope.pick(differentiable)
    form = scope.choice(
        "{a}.register_hook(lambda g: g * 2)",
        "{a}.retain_grad()",
        "{a}.grad = None",
        "{a}.grad.zero_()",
        "{n} = {a}.grad",
        "{a}.requires_grad_(False)",
        "{n} = {a}.grad * 2",
        "{a}.grad = tt.ones_like({a})",
        "{a}.register_hook(lambda g: g.clamp(-1, 1))",
        "{n} = {a}.detach(); {n}.mul_(2)",
        "{n} = {a}.data; {n}.add_(1)",
        "{a}.data = {a}.data * 0.5" if scope.chance(0.3) else "{n} = {a}.detach()",
    )
    return str(form.format(a=a, n=scope.new() if "{n}" in form else ""))


def block(scope: Scope) -> str:
    a = scope.pick(lambda each: real_float(each) and not elements_overlap(each.shape, each.stride()))
    mode = scope.choice("tt.no_grad()", "tt.no_grad()", "tt.enable_grad()", "tt.set_grad_enabled(False)")
    body = scope.choice(
        "{a}.mul_(0.5)",
        "{n} = {a} * 2",
        "{n} = {a}[:1]",
        "{n} = {a}.view(-1)",
        "{n} = {a}[0]; {n}.add_(1)",
        "{n} = {a}.detach()",
        "{n} = {a}.sum(); {n}.requires_grad_()",
        "{a}.add_({a})",
        "{a}.copy_({a}.sin())",
        "{a}.zero_()",
        "{a}[0] = 1",
        "{n} = {a}.unbind(0)[0]",
        "{n} = {a}.unsqueeze(0)",
        "{n} = {a}.transpose(0, -1)",
    )
    return f"with {mode}: " + body.format(a=a, n=scope.new() if "{n}" in body else "")


def autocast(scope: Scope) -> str:
    a = scope.pick(lambda each: each.dim() == 2 and each.is_floating_point())
    body = scope.choice(
        "{n} = {a} @ {a}.t()",
        "{n} = tt.nn.functional.linear({a}, {a})",
        "{n} = ({a} @ {a}.t()).softmax(-1)",
        "{n} = {a} * 2",
        "{n} = tt.bmm({a}[None], {a}.t()[None]) + 1",
        "{n} = tt.nn.functional.mse_loss({a} @ {a}.t(), {a} @ {a}.t() * 0.5)",
        "{n} = tt.mm({a}, {a}.t()).sum()",
    )
    enabled = ", enabled=False" if scope.chance(0.1) else ""
    return f"with tt.autocast('cpu', dtype=tt.bfloat16{enabled}): " + body.format(a=a, n=scope.new())


KINDS = {begin: 3, backward: 2, gradient: 2, about_leaf: 3, block: 3, autocast: 1}
