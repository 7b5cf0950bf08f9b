"""Statements that make a tensor of its own out of others: pointwise operators, reductions, products, joins, sorting."""

import triten as tt

from .scope import (
    Scope,
    any_tensor,
    has_dims,
    inexact,
    integral,
    matrix,
    number,
    real,
    real_float,
    real_number,
)

SMOOTH = (
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "square",
    "neg",
    "abs",
    "atan",
    "asinh",
    "erf",
    "exp",
    "expm1",
    "exp2",
    "sinc",
    "sqrt",
    "log1p",
    "rsqrt",
    "reciprocal",
    "log",
    "relu",
    "positive",
    "deg2rad",
    "erfc",
    "lgamma",
    "digamma",
)
STEPPED = (
    "floor",
    "ceil",
    "round",
    "trunc",
    "frac",
    "sign",
    "sgn",
    "signbit",
    "isnan",
    "isfinite",
    "logical_not",
)
FUNCTIONAL = (
    "gelu({})",
    "gelu({}, approximate='tanh')",
    "silu({})",
    "softplus({})",
    "elu({})",
    "leaky_relu({}, 0.1)",
    "hardtanh({}, -0.5, 0.75)",
    "relu6({})",
    "logsigmoid({})",
    "softsign({})",
    "mish({})",
    "hardswish({})",
    "selu({})",
    "celu({}, 0.5)",
    "tanhshrink({})",
    "softshrink({}, 0.25)",
    "hardshrink({}, 0.25)",
)
ARITHMETIC = ("add", "sub", "mul", "div", "maximum", "minimum", "fmax", "fmin", "true_divide")
SYMBOLS = ("+", "-", "*", "/", "+", "*")
REAL_PAIRS = (
    "atan2",
    "hypot",
    "copysign",
    "remainder",
    "fmod",
    "floor_divide",
    "xlogy",
    "logaddexp",
    "nextafter",
)
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "<", ">=", "==", "!=")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
BITWISE = ("&", "|", "^", "bitwise_and", "bitwise_xor")
WHOLE = (
    "sum",
    "mean",
    "amax",
    "amin",
    "prod",
    "var",
    "std",
    "any",
    "all",
    "norm",
    "logsumexp",
    "argmax",
    "argmin",
)
DIMMED = (
    *WHOLE,
    "max",
    "min",
    "median",
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
    "softmax",
    "log_softmax",
    "logcumsumexp",
    "count_nonzero",
    "nansum",
    "var_mean",
    "std_mean",
    "mode",
    "aminmax",
)
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64")
GUARD = ".nan_to_num(0, 0, 0).clamp(-90, 90)"


def unary(scope: Scope) -> str:
    if scope.chance(0.75):
        name = scope.choice(*SMOOTH)
        a = scope.pick(inexact if scope.chance(0.8) else any_tensor)
    else:
        name = scope.choice(*STEPPED)
        a = scope.pick(real_float if scope.chance(0.8) else any_tensor)
    return f"{scope.new()} = {a}.{name}()" if scope.chance(0.5) else f"{scope.new()} = tt.{name}({a})"


def activation(scope: Scope) -> str:
    call = scope.choice(*FUNCTIONAL).format(scope.pick(real_float))
    return f"{scope.new()} = tt.nn.functional.{call}"


def arithmetic(scope: Scope) -> str:
    a = scope.pick()
    b = scope.partner(a)
    if scope.chance(0.5):
        return f"{scope.new()} = {a} {scope.choice(*SYMBOLS)} {b}"
    name = scope.choice(*ARITHMETIC)
    alpha = f", alpha={scope.scalar()}" if name in ("add", "sub") and scope.chance(0.4) else ""
    if name == "div" and scope.chance(0.3):
        alpha = f", rounding_mode={scope.choice('floor', 'trunc')!r}"
    return f"{scope.new()} = tt.{name}({a}, {b}{alpha})"


def real_pair(scope: Scope) -> str:
    a = scope.pick(real_number)
    b = scope.partner(a, real_number)
    name = scope.choice(*REAL_PAIRS)
    if name in ("remainder", "fmod", "floor_divide") and integral(scope[a]) and integral(scope[b]):
        b = f"({b}.abs() + 1)"
    return f"{scope.new()} = tt.{name}({a}, {b})"


def with_number(scope: Scope) -> str:
    a, value = scope.pick(), scope.scalar()
    form = scope.choice(
        "{a} * {n}",
        "{a} + {n}",
        "{n} - {a}",
        "{a} / 4",
        "{a} ** 2",
        "2.0 ** {a}.real.contiguous()",
        "{a} // 2",
        "{a} % 3",
        "{n} * {a}",
        "tt.add({a}, {n}, alpha=2)",
        "{a}.clamp(-1, 1.5)",
        "{a}.clamp(min=0.25)",
        "{a} ** 0.5",
        "{n} / {a}",
        "{a}.pow(3)",
        "tt.rsub({a}, {n})",
        "{a}.sub({n})",
        "{a} == {n}",
        "{a} > {n}",
        "-{a}",
        "abs({a})",
        "{a}.fmod(2)",
        "{a}.remainder(1.5)",
        "{a} * (1 + 2j)",
        "{a}.maximum(tt.tensor({n}))",
        "{a} + tt.tensor({n})",
        "{a} * tt.tensor({n}, dtype=tt.float64)",
        "{a}.clip(0, 1)",
        "{a}.nan_to_num(nan=2.0)",
        "{a}.threshold(0.1, 20)" if not scope.chance(1) else "{a}.mul({n})",
    )
    return f"{scope.new()} = {form.format(a=a, n=value)}"


def comparison(scope: Scope) -> str:
    name = scope.choice(*COMPARISONS)
    a = scope.pick(any_tensor if name in ("eq", "ne", "==", "!=") else real)
    b = scope.partner(a, real)
    return f"{scope.new()} = tt.{name}({a}, {b})" if name.isalpha() else f"{scope.new()} = {a} {name} {b}"


def logic(scope: Scope) -> str:
    if scope.chance(0.5):
        name = scope.choice(*LOGICAL)
        a = scope.pick()
        return f"{scope.new()} = tt.{name}({a}, {scope.partner(a)})"
    name = scope.choice(*BITWISE)
    a = scope.pick(integral)
    b = scope.partner(a, integral)
    return (
        f"{scope.new()} = tt.{name}({a}, {b})" if name.isidentifier() else f"{scope.new()} = {a} {name} {b}"
    )


def ternary(scope: Scope) -> str:
    a = scope.pick(inexact)
    b, c = scope.partner(a), scope.partner(a, inexact)
    form = scope.choice(
        "tt.addcmul({a}, {b}, {c}, value={n})",
        "tt.lerp({a}, {c}, 0.25)",
        "tt.where({a} > 0, {b}, {c})",
        "tt.where({b} != 0, {a}, {n})",
        "tt.lerp({a}, {c}, {b})",
        "tt.addcdiv({a}, {c}, {b}.square() + 1)",
        "{a}.where({b} == {c}, {c})",
        "tt.clamp({a}, {b}, {c})",
        "{a}.masked_fill({b} > 0, {n})",
        "tt.where({b}.bool(), {a}, {c})",
    )
    return f"{scope.new()} = {form.format(a=a, b=b, c=c, n=scope.scalar())}"


def reduction(scope: Scope) -> str:
    if scope.chance(0.25):
        name = scope.choice(*WHOLE[:-4], "max", "min", "argmax", "median", "norm")
        a = scope.pick(real_float if scope.chance(0.6) else any_tensor)
        dtype = (
            f"dtype=tt.{scope.choice('float64', 'float32', 'int64')}"
            if name in ("sum", "prod", "mean")
            else ""
        )
        return f"{scope.new()} = {a}.{name}({dtype if scope.chance(0.2) else ''})"
    name = scope.choice(*DIMMED)
    a = scope.pick(has_dims(1, real_float if scope.chance(0.7) else any_tensor))
    dim = str(scope.dim(scope[a]))
    several = name in ("sum", "mean", "amax", "amin", "var", "std", "logsumexp", "norm")
    if several and scope[a].dim() > 1 and scope.chance(0.3):
        dim = "(0, -1)"
    arguments = [f"dim={dim}"]
    if scope.chance(0.4) and name in (
        *WHOLE,
        "max",
        "min",
        "median",
        "var_mean",
        "std_mean",
        "mode",
        "aminmax",
    ):
        arguments.append("keepdim=True")
    if name in ("var", "std", "var_mean") and scope.chance(0.4):
        arguments.append(f"correction={scope.choice(0, 1, 2)}")
    if name in ("sum", "cumsum", "softmax", "prod", "cumprod") and scope.chance(0.2):
        arguments.append(f"dtype=tt.{scope.choice('float64', 'float32')}")
    if name == "norm" and scope.chance(0.5):
        arguments.insert(0, str(scope.choice(1, 2, 3, "float('inf')")))
    two = name in ("max", "min", "median", "cummax", "cummin", "var_mean", "std_mean", "mode", "aminmax")
    target = f"{scope.new()}, {scope.new()}" if two else scope.new()
    return f"{target} = tt.{name}({a}, {', '.join(arguments)})"


def product(scope: Scope) -> str:
    form = scope.choice(
        "@", "@", "mm", "matmul", "bmm", "mv", "outer", "einsum", "addmm", "linear", "dot", "baddbmm"
    )
    if form in ("@", "matmul"):
        a = scope.pick(has_dims(1, number))
        shape, dtype = scope[a].shape, scope[a].dtype
        b = scope.pick(lambda each: each.dim() >= 1 and each.dtype is dtype and _inner(shape, each.shape))
        return f"{scope.new()} = " + (f"{a} @ {b}" if form == "@" else f"tt.matmul({a}, {b})")
    if form in ("mm", "einsum", "linear", "addmm"):
        a = scope.pick(lambda each: matrix(each) and (form != "einsum" or inexact(each)))
        x = scope[a]
        b = scope.pick(lambda each: matrix(each) and each.dtype is x.dtype and each.shape[1] == x.shape[1])
        call = {
            "mm": f"tt.mm({a}, {b}.t())",
            "einsum": f"tt.einsum('ij,kj->{scope.choice('ik', 'ki', 'k', '')}', {a}, {b})",
            "linear": f"tt.nn.functional.linear({a}, {b})",
            "addmm": f"tt.addmm({a}.sum(0)[:1].to({a}.dtype), {a}, {b}.t(), beta={scope.choice(0, 1, 2)}, alpha=2)",
        }[form]
        return f"{scope.new()} = {call}"
    if form in ("bmm", "baddbmm"):
        a = scope.pick(lambda each: each.dim() == 3 and number(each))
        call = (
            f"tt.bmm({a}, {a}.mT)"
            if form == "bmm"
            else f"tt.baddbmm({a}[:, :1, :1], {a}, {a}.transpose(1, 2))"
        )
        return f"{scope.new()} = {call}"
    if form == "mv":
        a = scope.pick(matrix)
        return f"{scope.new()} = {a} @ {a}[0]"
    a = scope.pick(lambda each: each.dim() == 1 and number(each))
    return f"{scope.new()} = tt.{form}({a}, {a})"


def _inner(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    return left[-1] == right[-2 if len(right) > 1 else 0] and (
        len(left) < 3 or len(right) < 3 or left[:-2] == right[:-2]
    )


def join(scope: Scope) -> str:
    a = scope.pick(has_dims(1))
    shape = scope[a].shape
    b = scope.pick(lambda each: each.shape == shape)
    form = scope.choice(
        "tt.cat([{a}, {b}], {d})",
        "tt.stack([{a}, {b}], {d})",
        "tt.hstack([{a}, {b}])",
        "tt.cat([{a}, {b}, {a}])",
        "tt.vstack([{a}, {b}])",
        "tt.dstack([{a}, {b}])",
        "tt.column_stack([{a}, {b}])",
        "tt.stack([{b}, {a}, {b}])",
        "tt.block_diag({a}, {b})" if len(shape) < 3 else "tt.cat([{b}, {a}], dim={d})",
    )
    return f"{scope.new()} = {form.format(a=a, b=b, d=scope.dim(scope[a]))}"


def index(scope: Scope) -> str:
    a = scope.pick(has_dims(1))
    x = scope[a]
    d = scope.dim(x)
    size = x.shape[d] if -x.dim() <= d < x.dim() else 1
    few = [scope.rng.randrange(-size, size) for _ in range(scope.rng.randint(1, 3))]
    positive = [each % size for each in few]
    form = scope.choice(
        "{a}[{first}]",
        "{a}[{a} > 0]",
        "{a}.index_select({d}, tt.tensor({positive}))",
        "{a}[..., tt.tensor({last})]",
        "tt.take({a}, tt.tensor({flat}))",
        "{a}.gather({d}, {a}.argsort({d}))",
        "tt.take_along_dim({a}, {a}.argsort({d}), {d})",
        "{a}.masked_select({a} != 0)",
        "{a}.flip({d})",
        "{a}.roll(1, {d})",
        "{a}.repeat_interleave(2, {d})",
        "{a}.repeat(2, *[1] * ({a}.dim() - 1))",
        "tt.nn.functional.pad({a}, (1, 0))",
        "{a}.tril()",
        "{a}.triu(1)",
        "{a}.diag()",
        "{a}.rot90()",
        "{a}.index_fill({d}, tt.tensor({positive}), 2)",
        "{a}.index_add({d}, tt.tensor([0]), {a}.narrow({d}, 0, 1))",
        "{a}.index_copy({d}, tt.tensor([0]), {a}.narrow({d}, 0, 1))",
        "{a}.scatter({d}, {a}.argsort({d}), {a})",
        "{a}.scatter({d}, {a}.argsort({d}), 2)",
        "{a}.scatter_add({d}, tt.zeros_like({a}, dtype=tt.int64), {a})",
        "{a}.index_put((tt.tensor({first}),), tt.ones((), dtype={a}.dtype), accumulate=True)",
        "{a}.nonzero()",
        "{a}.argwhere()",
        "{a}.unique()",
        "{a}.bincount()",
        "{a}.diff(dim={d})",
        "{a}.scatter_reduce({d}, tt.zeros_like({a}, dtype=tt.int64), {a}, 'amax')",
        "{a}.clone().select_scatter({a}.select({d}, 0), {d}, -1)",
        "{a}.clone().slice_scatter({a}.narrow({d}, 0, 1), {d}, 0, 1)",
        "{a}.clone().diagonal_scatter({a}.diagonal())",
    )
    first = [each if -x.shape[0] <= each < x.shape[0] else 0 for each in few]
    last = [each if -x.shape[-1] <= each < x.shape[-1] else 0 for each in few]
    flat = [scope.rng.randrange(-x.numel(), x.numel()) for _ in range(3)]
    return f"{scope.new()} = {form.format(a=a, d=d, first=first, last=last, flat=flat, positive=positive)}"


def order(scope: Scope) -> str:
    a = scope.pick(has_dims(1, real))
    x = scope[a]
    d = scope.dim(x)
    form = scope.choice(
        "{two} = {a}.sort({d}, stable=True)",
        "{two} = {a}.sort({d}, descending=True, stable=True)",
        "{one} = {a}.argsort({d}, stable=True)",
        "{one} = {a}.topk(1, {d}).values",
        "{one} = {a}.topk(2, dim={d}, largest=False).values",
        "{one} = tt.msort({a})",
        "{one} = {a}.kthvalue(1, {d}).values",
        "{one} = tt.searchsorted({a}.sort(-1).values.contiguous(), {a}.contiguous())",
        "{one} = {a}.sort({d}).values",
        "{one} = {a}.histc(4)" if real_float(x) else "{one} = {a}.unique()",
    )
    two = f"{scope.new()}, {scope.new()}" if "{two}" in form else ""
    one = "" if two else scope.new()
    return str(form.format(a=a, d=d, one=one, two=two))


def cast(scope: Scope) -> str:
    a, dtype = scope.pick(), scope.choice(*DTYPES)
    guard = GUARD if inexact(scope[a]) and dtype in ("int64", "int32", "uint8") and real(scope[a]) else ""
    if dtype == "uint8":
        guard += ".abs()" if scope[a].dtype is not tt.bool else ""
    form = scope.choice(
        ".to(tt.{t})", ".to(tt.{t}, copy=True)", ".type(tt.{t})", ".to(tt.{t}).to({a}.dtype)", ".to(tt.{t})"
    )
    return f"{scope.new()} = {a}{guard}{form.format(t=dtype, a=a)}"


def copy(scope: Scope) -> str:
    a = scope.pick(tame=False)
    form = scope.choice(
        "{a}.clone()",
        "{a}.contiguous()",
        "{a}.clone(memory_format=tt.contiguous_format)",
        "tt.zeros_like({a})",
        "tt.ones_like({a}) * 2",
        "tt.full_like({a}, 3)",
        "{a}.new_zeros(2, 3)",
        "{a}.new_full((3,), 2)",
        "{a}.to('cpu')",
        "{a}.to(memory_format=tt.channels_last)" if scope[a].dim() == 4 else "{a}.float()",
        "{a}.contiguous(memory_format=tt.channels_last)" if scope[a].dim() == 4 else "{a}.double()",
        "tt.empty_like({a}).zero_()",
        "{a}.type_as({b})",
        "tt.scalar_tensor(2.5)",
        "tt.tensor({a}.tolist())" if scope[a].numel() else "{a}.clone()",
        "tt.arange({a}.numel()).reshape({a}.shape)",
        "{a}.detach().clone().requires_grad_()",
        "tt.asarray({a})",
        "tt.broadcast_to({a}, {a}.shape) + 0",
    )
    return f"{scope.new()} = {form.format(a=a, b=scope.pick(tame=False))}"


KINDS = {
    unary: 8,
    activation: 3,
    arithmetic: 9,
    real_pair: 2,
    with_number: 7,
    comparison: 2,
    logic: 2,
    ternary: 4,
    reduction: 8,
    product: 5,
    join: 4,
    index: 7,
    order: 3,
    cast: 5,
    copy: 4,
}
