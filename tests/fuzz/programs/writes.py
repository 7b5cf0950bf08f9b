"""Statements that write: in place, through views, by index, into `out=`."""

import triten as tt
from triten.dispatch.autograd.view_history import elements_overlap

from .scope import Predicate, Scope, any_tensor, broadcasts, fits_into, has_dims, inexact, real


def target(scope: Scope, fits: Predicate = any_tensor) -> str:
    """Choose a variable to write to; rarely a leaf that requires grad, which PyTorch refuses."""
    leaf = scope.chance(0.04)
    return scope.pick(
        lambda each: (
            fits(each)
            and (leaf or not (each.requires_grad and each.is_leaf))
            and (leaf or not elements_overlap(each.shape, each.stride()))
        )
    )


def is_defined(into: tt.Tensor, read: tt.Tensor) -> bool:
    """Return True if both libraries detect or allow a write to one tensor while the other is read."""
    if into.untyped_storage().data_ptr() != read.untyped_storage().data_ptr():
        return True
    if (into.shape, into.stride(), into.storage_offset()) == (
        read.shape,
        read.stride(),
        read.storage_offset(),
    ):
        return True
    return into._spec.is_dense() and read._spec.is_dense()


def source(scope: Scope, name: str, fits: Predicate = any_tensor) -> str:
    """Choose a variable that expands to another's shape and whose dtype can be cast to the other's."""
    into = scope[name]
    careless = scope.chance(0.05)
    return scope.pick(
        lambda each: (
            fits(each)
            and is_defined(into, each)
            and (careless or (fits_into(each.shape, into.shape) and tt.can_cast(each.dtype, into.dtype)))
        )
    )


def arithmetic(scope: Scope) -> str:
    a = target(scope)
    b = source(scope, a)
    form = scope.choice(
        "{a}.add_({b})",
        "{a}.mul_({b})",
        "{a}.sub_({b}, alpha=2)",
        "{a}.copy_({b})",
        "{a} += {b}",
        "{a} *= {b}",
        "{a} -= {b}",
        "{a}.add_({n})",
        "{a}.mul_({n})",
        "{a}.copy_({b})",
        "{a} /= 2",
        "{a}.div_(2)",
        "{a}.add_({b}, alpha={n})",
        "{c} = {a}.add_(1)",
        "{a} **= 2",
        "{a}.addcmul_({b}, {b}, value=0.5)",
        "{a}.lerp_({b}, 0.5)",
        "{a}.maximum({b}, out={a})" if scope.chance(0.1) else "{a}.mul_(0.5)",
        "{a}.detach().add_({b})",
        "{a}.detach().mul_(2)",
        "{a}.data.mul_(2)",
        "{a}.detach_()" if scope.chance(0.3) else "{a}.sub_(1)",
    )
    return str(form.format(a=a, b=b, c=scope.new() if "{c}" in form else "", n=scope.scalar()))


def unary(scope: Scope) -> str:
    a = target(scope, inexact if scope.chance(0.9) else any_tensor)
    return f"{a}." + scope.choice(
        "neg_()",
        "sin_()",
        "tanh_()",
        "sigmoid_()",
        "zero_()",
        "fill_(2)",
        "fill_(tt.tensor(1.5))",
        "abs_()",
        "square_()",
        "clamp_(-1, 1)",
        "relu_()",
        "exp_()",
        "sqrt_()",
        "floor_()",
        "round_()",
        "nan_to_num_()",
        "tril_()",
        "cumsum_(-1)" if inexact(scope[a]) else "neg_()",
        "reciprocal_()",
        f"masked_fill_({a} > 0, 1)",
        "trunc_()",
        "sign_()",
        "t_()",
        "transpose_(0, -1)",
        "unsqueeze_(0)",
        "squeeze_()",
        "clamp_min_(0)",
        "cos_()",
        "conj_physical_()",
        "swapaxes_(0, -1)",
        "fill_diagonal_(0)" if scope[a].numel() else "zero_()",
        "erf_()",
        "pow_(2)",
    )


def set_item(scope: Scope) -> str:
    a = target(scope, has_dims(1))
    x = scope[a]
    last = x.shape[-1]
    place = scope.choice(
        "0",
        "-1",
        "1:",
        "::2",
        "..., 0",
        ":",
        "...",
        "[0]",
        "tt.tensor([0])",
        f"{a} > 0",
        "..., ::2",
        f"..., tt.tensor([0, {last - 1}])",
        "None",
        ":1",
        "..., :1",
        f"tt.tensor({x.shape[0] - 1})",
        "0, ...",
        "True",
    )
    value = scope.scalar()
    if scope.chance(0.5):
        value = scope.pick(
            lambda each: (
                (each.numel() == 1 or fits_into(each.shape, x.shape[1:]))
                and not (each.requires_grad and not inexact(x))
                and is_defined(x, each)
            )
        )
    elif scope.chance(0.2):
        value = f"{a}[{place}]" + scope.choice("", " * 2", ".flip(0)")
    symbol = scope.choice("=", "=", "=", "+=", "*=")
    return f"{a}[{place}] {symbol} {value}"


def indexed(scope: Scope) -> str:
    a = target(scope, has_dims(1))
    d = scope.dim(scope[a])
    b = source(scope, a)
    form = scope.choice(
        "masked_fill_({b} != 0, {n})",
        "index_put_((tt.tensor([0, -1]),), {a}[:1].clone())",
        "index_fill_({d}, tt.tensor([0]), {n})",
        "index_put_((tt.tensor([0, 0]),), {a}[:1].clone(), accumulate=True)",
        "index_add_({d}, tt.tensor([0]), {a}.narrow({d}, -1, 1).clone(), alpha=2)",
        "scatter_({d}, tt.zeros_like({a}, dtype=tt.int64), {n})",
        "scatter_({d}, {a}.argsort({d}, stable=True), {a}.clone())",
        "scatter_add_({d}, tt.zeros_like({a}, dtype=tt.int64), {a}.clone())",
        "masked_scatter_({a} > 0, {a}.clone())",
        "masked_fill_({a} > 0, {b}.sum().to({a}.dtype))",
        "index_copy_({d}, tt.tensor([0]), {a}.narrow({d}, -1, 1).clone())",
        "narrow({d}, 0, 1).mul_(2)",
        "select({d}, 0).copy_({a}.select({d}, -1))",
        "diagonal().fill_({n})",
        "transpose(0, -1).add_({b})" if scope.chance(0.1) else "transpose(0, -1).add_({n})",
        "unbind({d})[0].mul_(2)",
        "view(-1)[::2].zero_()",
        "put_(tt.tensor([0, -1]), {a}.flatten()[:2].clone())",
        "expand(2, *{a}.shape).add_(1)" if scope.chance(0.3) else "unsqueeze(0).add_(1)",
        "scatter_reduce_({d}, tt.zeros_like({a}, dtype=tt.int64), {a}.clone(), 'amin')",
        "flatten().mul_(0.5)",
        "resize_(2)" if scope.chance(0.2) else "view(-1).add_(1)",
    )
    if form == "resize_(2)" and scope[a].numel() < 2:
        form = "resize_(1)"  # memory beyond a tensor is uninitialized
    if form.startswith("index_put_") and scope[a].shape[0] == 1:
        form = form.replace("[0, -1]", "[0]", 1)  # which of two writes to one place counts is not defined
    return f"{a}." + form.format(a=a, b=b, d=d, n=scope.scalar())


def into_out(scope: Scope) -> str:
    free, careless = scope.chance(0.9), scope.chance(0.05)
    a = scope.pick(lambda each: real(each) and not (free and each.requires_grad))
    x = scope[a]
    b = scope.pick(
        lambda each: (
            (fits_into(each.shape, x.shape) or (careless and broadcasts(each.shape, x.shape)))
            and not (free and each.requires_grad)
        )
    )
    exact = scope.chance(0.97)
    c = scope.pick(
        lambda each: (
            not (free and each.requires_grad)
            and is_defined(each, x)
            and is_defined(each, scope[b])
            and (not exact or (each.shape == x.shape and tt.can_cast(x.dtype, each.dtype)))
        )
    )
    form = scope.choice(
        "tt.add({a}, {b}, out={c})",
        "tt.mul({a}, 2, out={a})",
        "tt.sub({a}, {b}, out={c})",
        "tt.sin({a}, out={c})",
        "tt.sum({a}.clone(), dim=0, out={c}[0])" if x.dim() else "tt.add({a}, {b}, out={c})",
        "tt.cumsum({a}, dim=0, out={c})",
        "tt.cat([{a}[:1], {b}[1:]], out={c})" if x.dim() else "tt.mul({a}, {b}, out={c})",
        "tt.where({a} > 0, {a}, {b}, out={c})",
        "tt.add({a}[1:], 1, out={a}[:-1])",
        "tt.neg({a}, out={c})",
        "tt.maximum({a}, {b}, out={c})",
        "{r} = tt.mul({a}, {b}, out={c})",
        "tt.mm({a}.clone(), {a}.t().clone(), out={c})"
        if x.dim() == 2 and x.shape[0] == x.shape[1]
        else "tt.neg({a}, out={c})",
        "tt.exp({a}, out={a})",
        "tt.gt({a}, {b}, out={c})",
        "tt.amax({a}.clone(), -1, out={c}[..., 0])" if x.dim() else "tt.add({a}, {b}, out={c})",
        "tt.add({a}, {a}, out={a}.mT)"
        if x.dim() == 2 and x.shape[0] == x.shape[1]
        else "tt.add({a}, {b}, out={c})",
        "tt.clamp({a}, -1, 1, out={c})",
        "tt.mul({a}, {b}, out={c})",
        "tt.abs({a}, out={a})",
        "tt.flip({a}, (0,))",
    )
    return str(form.format(a=a, b=b, c=c, r=scope.new() if "{r}" in form else ""))


KINDS = {arithmetic: 10, unary: 6, set_item: 7, indexed: 6, into_out: 4}
