"""Every batching rule against the operator on one example after another, however its operands are mapped."""

import itertools

import numpy as np
import pytest

import triten as tt

BATCH = 3
F = tt.nn.functional


class Operand:
    """Operand of a case: the sizes of one example, and a kind of values."""

    def __init__(self, *sizes, kind="normal", high=0, dtype=None):
        self.sizes, self.kind, self.high, self.dtype = sizes, kind, high, dtype

    def make(self, rng, dim):
        sizes = list(self.sizes)
        if dim is not None:
            sizes.insert(dim if dim >= 0 else len(sizes) + 1 + dim, BATCH)
        if self.kind == "index":
            array = rng.integers(0, self.high, sizes)
        elif self.kind == "distinct":
            # Along the last dimension of each example no index repeats.
            whole = sizes if dim is None else [BATCH, *self.sizes]
            array = rng.permuted(np.broadcast_to(np.arange(self.high), (*whole[:-1], self.high)), axis=-1)
            array = array[..., : whole[-1]]
            array = array if dim is None else np.moveaxis(array, 0, dim)
        elif self.kind == "bool":
            array = rng.random(sizes) < 0.5
        elif self.kind == "positive":
            array = rng.random(sizes) + 0.5
        elif self.kind == "complex":
            array = rng.standard_normal(sizes) + 1j * rng.standard_normal(sizes)
        elif self.kind == "integer":
            array = rng.integers(-4, 5, sizes)
        else:
            array = rng.standard_normal(sizes)
        default = {
            "index": tt.int64,
            "distinct": tt.int64,
            "bool": tt.bool,
            "integer": tt.int64,
            "complex": tt.complex64,
        }
        made = tt.tensor(np.array(array, order="C"))
        return made.to(self.dtype or default.get(self.kind, tt.float32))


def N(*sizes, dtype=None):
    return Operand(*sizes, dtype=dtype)


def P(*sizes):
    return Operand(*sizes, kind="positive")


def Index(high, *sizes):
    return Operand(*sizes, kind="index", high=high)


def Distinct(high, *sizes):
    return Operand(*sizes, kind="distinct", high=high)


def B(*sizes):
    return Operand(*sizes, kind="bool")


def Z(*sizes):
    return Operand(*sizes, kind="integer")


def C(*sizes):
    return Operand(*sizes, kind="complex")


aten = tt.ops.aten
CASES = {}


def detached(tensors):
    """Return detached operands for operators without a derivative."""
    return [tensor.detach() for tensor in tensors]


def case(name, function, *operands, writes=False, tag=""):
    key = f"{name}{' ' + tag if tag else ''}"
    assert key not in CASES, key
    CASES[key] = (function, operands, writes)


# Pointwise, with and without broadcasting, numbers, and numbers that are mapped.
for name in [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "relu",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "gelu",
    "softplus",
    "leaky_relu",
    "elu",
    "hardswish",
    "hardsigmoid",
    "hardshrink",
    "softshrink",
    "mish",
    "log_sigmoid",
    "conj_physical",
    "logical_not",
]:
    case(name, getattr(aten, name).default, N(2, 4))
case("bitwise_not", tt.bitwise_not, Z(4))
for name in [
    "add",
    "sub",
    "mul",
    "div",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "rsub",
    "fmod",
    "remainder",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
]:
    make = Z if name.startswith("bitwise") else N
    op = getattr(aten, name).Tensor
    case(name, op, make(2, 4), make(2, 4))
    case(name, op, make(2, 4), make(4), tag="lower rank second")
    case(name, op, make(), make(2, 4), tag="mapped number first")
    case(name, lambda x, op=op: op(x, 3), make(2, 4), tag="number")
for name in [
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "atan2",
    "logical_and",
    "logical_or",
    "logical_xor",
    "floor_divide",
]:
    case(name, getattr(aten, name).default, N(2, 4), N(1, 4))
case("bitwise_left_shift", lambda x, y: x << y, Index(5, 4), Index(5, 4))
case("gcd", tt.gcd, Z(2, 4), Z(4))
case("lcm", tt.lcm, Z(2, 4), Z(2, 1))
case("bitwise_right_shift", lambda x, y: x >> y, Index(50, 4), Index(5, 4))
case("add", lambda x, y: tt.add(x, y, alpha=2.5), N(2, 4), N(4), tag="alpha")
case("div", lambda x, y: tt.div(x, y, rounding_mode="floor"), N(2, 4), N(2, 1), tag="mode")
case("pow", tt.pow, P(2, 4), N(4))
case("pow", lambda x: x**3, N(2, 4), tag="number")
case("pow", lambda x: tt.pow(2.0, x), N(2, 4), tag="of a number")
case("round", lambda x: tt.round(x, decimals=1), N(4), tag="decimals")
case("clamp", lambda x: x.clamp(-0.5, 0.5), N(2, 4))
case("clamp", lambda x, y, z: tt.clamp(x, y, z), N(2, 4), N(4), N(2, 1), tag="tensors")
case("clamp", lambda x, y: tt.clamp(x, max=y), N(2, 4), N(), tag="one tensor")
case("clamp_min", lambda x, y: tt.clamp_min(x, y), N(2, 4), N(4))
case("clamp_max", lambda x: tt.clamp_max(x, 0.2), N(2, 4))
case("where", tt.where, B(2, 4), N(4), N(2, 1))
case("where", lambda c, x: tt.where(c, x, 0.0), B(2, 4), N(4), tag="number")
case("where", tt.where, B(4), N(dtype=tt.float64), N(4), tag="mapped number")
case("lerp", tt.lerp, N(2, 4), N(2, 4), N(4))
case("lerp", lambda x, y: tt.lerp(x, y, 0.3), N(2, 4), N(4), tag="number")
case("addcmul", lambda x, y, z: tt.addcmul(x, y, z, value=2.0), N(2, 4), N(4), N(2, 1))
case("addcdiv", tt.addcdiv, N(2, 4), N(4), P(2, 4))
case("masked_fill", lambda x, m: x.masked_fill(m, 7.0), N(2, 4), B(4))
case("masked_fill", lambda x, m, v: x.masked_fill(m, v), N(2, 4), B(4), N(), tag="tensor")
for name, last in {
    "sigmoid": (),
    "tanh": (),
    "silu": (),
    "gelu": (),
    "softplus": (1, 20),
    "leaky_relu": (0.1, False),
}.items():
    op = getattr(aten, f"{name}_backward").default
    case(f"{name}_backward", lambda g, x, op=op, last=last: op(g, x, *last), N(2, 4), N(2, 4))
case("threshold_backward", lambda g, x: aten.threshold_backward.default(g, x, 0), N(2, 4), N(2, 4))
case(
    "native_dropout_backward", lambda g, m: aten.native_dropout_backward.default(g, m, 2.0), N(2, 4), B(2, 4)
)
case("fake_quantize", lambda x: tt.fake_quantize_per_tensor_affine(x, 0.1, 2, -3, 9), N(2, 4))
case(
    "fake_quantize",
    lambda x: aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 2, -3, 9),
    N(2, 4),
    tag="mask",
)


def by_tensors(x):
    scale, zero_point = (tt.full((1,), number, device=x.device) for number in (0.1, 2.0))
    return tt.fake_quantize_per_tensor_affine(x, scale, zero_point, -3, 9)


case("fake_quantize", by_tensors, N(2, 4), tag="tensors")
# Promotion: a mapped number gives way to a tensor with dimensions, as a number of one example does.
case("promotion", lambda x, y: x + y, N(3), N(dtype=tt.float64), tag="f32 and mapped f64")
case("promotion", lambda x, y: x * y, Z(3), N(), tag="i64 and mapped f32")
case("promotion", lambda x, y: x * y, N(), N(dtype=tt.float64), tag="two mapped")
case("promotion", lambda x, y: x * y, N(2, dtype=tt.float16), N(), tag="f16")
case("promotion", lambda x, y: tt.addcmul(x, y, y), N(3), N(), tag="three")

# In place: what is written must be mapped.
case("add_", lambda x, y: x.clone().add_(y), N(2, 4), N(4), writes=True)
case("mul_", lambda x: x.clone().mul_(2.0), N(2, 4))
case("sin_", lambda x: x.clone().sin_(), N(2, 4))
case("copy_", lambda x, y: x.clone().copy_(y), N(2, 4), N(4), writes=True)
case("copy_", lambda x, y: x.clone().copy_(y), N(2, 4), Z(1, 4), writes=True, tag="other dtype")
case("add_", lambda x, y: x.clone().add_(y), N(), N(), writes=True, tag="numbers")
case("fill_", lambda x: x.clone().fill_(3.0), N(2, 4))
case("fill_", lambda x, y: x.clone().fill_(y), N(2, 4), N(), writes=True, tag="tensor")
case("zero_", lambda x: x.clone().zero_(), N(2, 4))
case("masked_fill_", lambda x, m: x.clone().masked_fill_(m, 7.0), N(2, 4), B(4), writes=True)
case(
    "masked_fill_",
    lambda x, m, v: x.clone().masked_fill_(m, v),
    N(2, 4),
    B(4),
    N(),
    writes=True,
    tag="tensor",
)
case("clamp_", lambda x, y: x.clone().clamp_(y), N(2, 4), N(4), writes=True)
case("exp2_", lambda x: tt.ops.aten.exp2_.default(x.clone()), N(4))
case(
    "setitem",
    lambda x, y: (x := x.clone(), x.__setitem__((0, slice(1, 3)), y))[0],
    N(2, 4),
    N(2),
    writes=True,
)
case(
    "setitem",
    lambda x, m: (x := x.clone(), x.__setitem__(m, 0.0))[0],
    N(2, 4),
    B(2, 4),
    writes=True,
    tag="mask",
)
case("view then write", lambda x, y: (x := x.clone(), x[0].mul_(y))[0], N(2, 4), N(4), writes=True)
case("baddbmm_", lambda s, a, b: s.clone().baddbmm_(a, b), N(2, 3, 4), N(2, 3, 5), N(2, 5, 4), writes=True)
case("cumsum_", lambda x: x.clone().cumsum_(1), N(2, 4))
case("tril_", lambda x: x.clone().tril_(), N(3, 4))

# Reductions.
for name in [
    "sum",
    "mean",
    "prod",
    "max",
    "min",
    "var",
    "std",
    "argmax",
    "argmin",
    "any",
    "all",
    "amax",
    "amin",
    "aminmax",
]:
    function = getattr(tt, name)
    case(name, function, N(2, 4), tag="all")
    case(name, function, N(), tag="of a number")
    if name != "aminmax":
        case(name, lambda x, f=function: f(x, dim=-1), N(2, 4), tag="dim")
        case(name, lambda x, f=function: f(x, dim=0, keepdim=True), N(2, 4), tag="keepdim")
        case(name, lambda x, f=function: f(x, dim=0), N(), tag="dim of a number")
for name in ["sum", "mean", "var", "std", "amax", "amin", "any", "all"]:
    case(name, lambda x, n=name: getattr(tt, n)(x, dim=(0, -1)), N(2, 4, 3), tag="dims")
case("aminmax", lambda x: tt.aminmax(x, dim=1, keepdim=True), N(2, 4), tag="dim")
case("argmax", lambda x: tt.argmax(x, keepdim=True), N(2, 4), tag="all keepdim")
case("sum", lambda x: x.sum(dtype=tt.float64), N(2, 4), tag="dtype")
case("sum", lambda x: x.sum((), keepdim=True), N(2, 4), tag="no dims")
case("sum", lambda x: x.sum(1), N(2, 0), tag="empty")
case("sum", lambda x: x.sum(), N(0), tag="empty all")
case("prod", lambda x: x.prod(0, dtype=tt.float64), N(2, 4), tag="dtype")
case("var", lambda x: x.var(0, unbiased=False), N(2, 4), tag="biased")
case("var", lambda x: x.var(correction=0), N(2, 4), tag="correction")
case("std_mean", lambda x: tt.std_mean(x, 1), N(2, 4))
case("var_mean", lambda x: tt.var_mean(x), N(2, 4))
case("logsumexp", lambda x: x.logsumexp(1, keepdim=True), N(2, 4))
case("logsumexp", lambda x: x.logsumexp(0), N(), tag="of a number")
case("linalg_vector_norm", lambda x: tt.linalg.vector_norm(x, 3, 1, keepdim=True), N(2, 4))
case("linalg_vector_norm", lambda x: tt.linalg.vector_norm(x), N(2, 4), tag="of everything")
case("linalg_vector_norm", lambda x: tt.linalg.vector_norm(x), N(), tag="of a number")
case("count_nonzero", tt.count_nonzero, B(2, 4))
case("sort", lambda x: x.sort(0, True), N(2, 4))
case("sort", lambda x: x.sort(-1), N(), tag="of a number")
case("sort.stable", lambda x: x.sort(stable=True), N(2, 4))
case("argsort", lambda x: x.argsort(0), N(2, 4))
case("msort", lambda x: x.msort(), N(2, 4))
case("topk", lambda x: x.topk(2, -1), N(2, 4))
case("topk", lambda x: x.topk(1), N(), tag="of a number")
case("kthvalue", lambda x: x.kthvalue(2, 0, True), N(2, 4))
for name in ["median", "nanmedian"]:
    case(name, lambda x, n=name: getattr(x, n)(), N(2, 4), tag="all")
    case(name, lambda x, n=name: getattr(x, n)(-1), N(2, 4), tag="dim")
    case(name, lambda x, n=name: getattr(x, n)(0, keepdim=True), N(), tag="of a number")
case("cumsum", lambda x: x.cumsum(-1), N(2, 4))
case("cumsum", lambda x: x.cumsum(0), N(), tag="of a number")
for name in ("softmax", "log_softmax"):
    case(name, lambda x, n=name: getattr(tt, n)(x, 0), N(2, 4))
    case(name, lambda x, n=name: getattr(tt, n)(x, -1), N(), tag="of a number")
    op = getattr(aten, f"_{name}_backward_data").default
    case(f"_{name}_backward_data", lambda g, y, op=op: op(g, y, 1, tt.float32), N(2, 4), N(2, 4))
case("flip", lambda x: x.flip((0, -1)), N(2, 4))
case("flip", lambda x: x.flip(()), N(2, 4), tag="nothing")
case("tril", lambda x: x.tril(1), N(3, 4))
case("triu", lambda x: x.triu(-1), N(2, 3, 4))

# Views.
case("view", lambda x: x.contiguous().view(4, -1), N(2, 6))
case("reshape", lambda x: x.reshape(-1), N(2, 6))
case("reshape", lambda x: x.reshape(1, 1), N(), tag="of a number")
case("view.dtype", lambda x: x.contiguous().view(tt.int32), N(2, 4))
case("view.dtype", lambda x: x.contiguous().view(tt.int16), N(2, 4), tag="smaller")
case("expand", lambda x: x.expand(5, 2, -1), N(2, 1))
case("expand", lambda x: x.expand(5), N(), tag="of a number")
case("permute", lambda x: x.permute(2, 0, -2), N(2, 3, 4))
case("transpose", lambda x: x.transpose(0, -1), N(2, 3, 4))
case("transpose", lambda x: x.transpose(0, -1), N(), tag="of a number")
case("t", lambda x: x.t(), N(2, 3))
case("t", lambda x: x.t(), N(2), tag="of a vector")
case("T", lambda x: x.T, N(2, 3))
case("mT", lambda x: x.mT, N(2, 3, 4))
case("select", lambda x: x.select(-1, 1), N(2, 3))
case("getitem", lambda x: x[1], N(2, 3), tag="number")
case("getitem", lambda x: x[-1, 1], N(2, 3), tag="numbers")
case("getitem", lambda x: x[1:], N(2, 3), tag="range")
case("getitem", lambda x: x[..., None, 1:, 0], N(2, 3, 4), tag="basic")
case("getitem", lambda x, i: x[i], N(5, 3), Index(5), tag="mapped number")
case("getitem", lambda x, i: x[:, i], N(2, 5, 3), Index(5), tag="mapped number later")
case("getitem", lambda x, i: x[i, :, i], N(5, 2, 5), Index(5), tag="mapped numbers apart")
case("slice", lambda x: x.slice(1, 0, 4, 2), N(2, 5))
case("narrow", lambda x: x.narrow(1, 1, 2), N(2, 5))
case("split", lambda x: x.split(2, 1), N(2, 5))
case("split", lambda x: x.split([2, 3], -1), N(2, 5), tag="sizes")
case("chunk", lambda x: x.chunk(2, 1), N(2, 5))
case("tensor_split", lambda x: x.tensor_split(2, 1), N(2, 5))
case("unbind", lambda x: x.unbind(1), N(2, 3))
case("squeeze", lambda x: x.squeeze(), N(1, 3, 1))
case("squeeze", lambda x: x.squeeze(-1), N(1, 3, 1), tag="dim")
case("squeeze", lambda x: x.squeeze((0, 1)), N(1, 3, 1), tag="dims")
case("squeeze", lambda x: x.squeeze(0), N(), tag="of a number")
case("unsqueeze", lambda x: x.unsqueeze(-1), N(2, 3))
case("unsqueeze", lambda x: x.unsqueeze(0), N(), tag="of a number")
case("diagonal", lambda x: x.diagonal(1, 0, -1), N(3, 2, 4))
case("unfold", lambda x: x.unfold(1, 3, 2), N(2, 7))
case("unfold", lambda x: x.unfold(0, 1, 1), N(), tag="of a number")
case(
    "as_strided",
    lambda x: x.contiguous().as_strided((2, 2), (1, 2), x.contiguous().storage_offset() + 1),
    N(2, 4),
)
case("real", lambda x: x.real, C(2, 3))
case("imag", lambda x: x.imag, C(2, 3))
case("view_as_real", tt.view_as_real, C(2, 3))
case("view_as_complex", lambda x: tt.view_as_complex(x.contiguous()), N(3, 2))
case("movedim", lambda x: x.movedim(0, -1), N(2, 3, 4))
case("flatten", lambda x: x.flatten(1), N(2, 3, 4))
case("unflatten", lambda x: x.unflatten(1, (2, -1)), N(2, 6))
case("alias", lambda x: x.alias(), N(2))
case("detach", lambda x: x.detach(), N(2))
case("clone", lambda x: x.clone(memory_format=tt.channels_last), N(2, 3, 4, 5), tag="channels last")
case("clone", lambda x: x.clone(memory_format=tt.contiguous_format), N(2, 3), tag="contiguous")
case("to", lambda x: x.to(tt.float64), N(2, 3))
case("to", lambda x: x.to(memory_format=tt.channels_last), N(2, 3, 4, 5), tag="channels last")
case("contiguous", lambda x: x.t().contiguous(), N(2, 3))
case("select_backward", lambda g: aten.select_backward.default(g, (4, 3), 0, 2), N(3))
case("slice_backward", lambda g: aten.slice_backward.default(g, (4, 5), 1, 1, 5, 2), N(4, 2))
case("diagonal_backward", lambda g: aten.diagonal_backward.default(g, (3, 4), 0, 0, 1), N(3))
case("_basic_index_backward", lambda g: aten._basic_index_backward.default(g, (4, 3), (1, 2, 0, 0)), N(3))
case(
    "_as_strided_backward",
    lambda g: aten._as_strided_backward.default(g, (4, 3), (3, 1), (2, 2), (3, 1), 2),
    N(2, 2),
)

# Products.
case("mm", tt.mm, N(2, 3), N(3, 4))
case("mm", tt.mm, Z(2, 3), Z(3, 4), tag="integers")
case("mm", tt.mm, C(2, 3), C(3, 4), tag="complex")
case("bmm", tt.bmm, N(2, 3, 4), N(2, 4, 5))
case("mv", tt.mv, N(2, 3), N(3))
case("dot", tt.dot, N(3), N(3))
case("vdot", tt.vdot, C(3), C(3))
case("outer", tt.outer, N(3), N(2))
case("matmul", tt.matmul, N(2, 5, 3), N(3, 4))
case("matmul", tt.matmul, N(3), N(2, 3, 4), tag="vector by stack")
case("addmm", tt.addmm, N(4), N(2, 3), N(3, 4))
case("_addmm_activation", lambda *each: tt._addmm_activation(*detached(each)), N(4), N(2, 3), N(3, 4))
case(
    "_addmm_activation",
    lambda *each: tt._addmm_activation(*detached(each), beta=0.5, use_gelu=True),
    N(2, 4),
    N(2, 3),
    N(3, 4),
    tag="gelu",
)
case("addmm", lambda s, a, b: tt.addmm(s, a, b, beta=0.5, alpha=2.0), N(2, 4), N(2, 3), N(3, 4), tag="scaled")
case("addmm", lambda s, a, b: tt.addmm(s, a, b, beta=0), N(2, 1), N(2, 3), N(3, 4), tag="beta 0")
case("addmm_", lambda s, a, b: s.clone().addmm_(a, b), N(2, 4), N(2, 3), N(3, 4), writes=True)
case("addmv", lambda s, a, b: tt.addmv(s, a, b, beta=2.0), N(2), N(2, 3), N(3))
case("addmv_", lambda s, a, b: s.clone().addmv_(a, b), N(2), N(2, 3), N(3), writes=True)
case("addbmm", lambda s, a, b: tt.addbmm(s, a, b, alpha=0.5), N(3, 5), N(2, 3, 4), N(2, 4, 5))
case("addbmm_", lambda s, a, b: s.clone().addbmm_(a, b), N(3, 5), N(2, 3, 4), N(2, 4, 5), writes=True)
case("baddbmm", lambda s, a, b: tt.baddbmm(s, a, b, alpha=0.5), N(5), N(2, 3, 4), N(2, 4, 5))
case("linear", F.linear, N(2, 3), N(4, 3), N(4))
case("linear", F.linear, N(3), N(4, 3), tag="vector")

# Convolutions and pooling.
for groups in (1, 2):
    tag = f"groups {groups}"
    case(
        "conv2d",
        lambda x, w, b, g=groups: F.conv2d(x, w, b, stride=2, padding=1, groups=g),
        N(2, 4, 5, 5),
        N(6, 4 // groups, 3, 3),
        N(6),
        tag=tag,
    )
    case(
        "conv_transpose2d",
        lambda x, w, b, g=groups: F.conv_transpose2d(x, w, b, stride=2, groups=g),
        N(2, 4, 3, 3),
        N(4, 3, 3, 3),
        N(3 * groups),
        tag=tag,
    )
    case(
        "_convolution_backward_both",
        lambda g, x, w, n=groups: aten._convolution_backward_both.default(g, x, w, (1, 1), (1, 1), (1, 1), n),
        N(2, 6, 5, 5),
        N(2, 4, 5, 5),
        N(6, 4 // groups, 3, 3),
        tag=tag,
    )
    case(
        "convolution_backward_weight",
        lambda g, x, n=groups: aten.convolution_backward_weight.default(
            g, x, (6, 4 // n, 3, 3), (1, 1), (1, 1), (1, 1), n
        ),
        N(2, 6, 5, 5),
        N(2, 4, 5, 5),
        tag=tag,
    )
case("conv_transpose1d", lambda x, w, b: F.conv_transpose1d(x, w, b, 2, 1), N(2, 4, 5), N(4, 3, 3), N(3))
case("conv_tbc", lambda x, w, b: tt.conv_tbc(x, w, b, 1), N(5, 2, 3), N(3, 3, 4), N(4))
case("conv1d", F.conv1d, N(4, 5), N(2, 4, 3), tag="one sample")
case("conv3d", F.conv3d, N(1, 2, 3, 3, 3), N(2, 2, 2, 2, 2))
case("max_pool2d", lambda x: F.max_pool2d(x, 2), N(2, 3, 4, 4))
case("max_pool2d", lambda x: F.max_pool2d(x, 2), N(3, 4, 4), tag="one sample")
case("max_pool1d", lambda x: F.max_pool1d(x, 2), N(2, 3, 4))
case("avg_pool2d", lambda x: F.avg_pool2d(x, 2), N(2, 3, 4, 4))
case(
    "avg_pool2d_backward",
    lambda g, x: aten.avg_pool2d_backward.default(g, x, (2, 2), (2, 2), (0, 0), False, True, None),
    N(2, 3, 2, 2),
    N(2, 3, 4, 4),
)
case(
    "avg_pool2d_backward",
    lambda g, x: aten.avg_pool2d_backward.default(g, x, (2, 2), (2, 2), (0, 0), False, True, None),
    N(3, 2, 2),
    N(3, 4, 4),
    tag="one sample",
)


# Normalisations.
def kept(results):
    """Detach the statistics, through which the formulas differentiate by themselves."""
    return [r.detach() for r in results[1:]]


case("native_layer_norm", lambda x: aten.native_layer_norm.default(x, [4], None, None, 1e-3), N(2, 4))
case(
    "native_layer_norm",
    lambda x, w, b: aten.native_layer_norm.default(x, [3, 4], w, b, 1e-3),
    N(2, 3, 4),
    N(3, 4),
    N(3, 4),
    tag="with weights",
)
case(
    "native_layer_norm_backward",
    lambda g, x, w: aten.native_layer_norm_backward.default(
        *(g, x, [4], *kept(aten.native_layer_norm.default(x, [4], None, None, 0.1)), w, w, [True, True, True])
    ),
    N(2, 4),
    N(2, 4),
    N(4),
)
case("_fused_rms_norm", lambda x, w: aten._fused_rms_norm.default(x, [4], w, None), N(2, 4), N(4))
case(
    "_fused_rms_norm_backward",
    lambda g, x, w: aten._fused_rms_norm_backward.default(
        *(g, x, [4], *kept(aten._fused_rms_norm.default(x, [4], None, 0.1)), w, [True, True])
    ),
    N(2, 4),
    N(2, 4),
    N(4),
)
case(
    "native_group_norm",
    lambda x, w, b: aten.native_group_norm.default(x, w, b, 2, 4, 3, 2, 1e-3),
    N(2, 4, 3),
    N(4),
    N(4),
)
case(
    "native_group_norm_backward",
    lambda g, x, w: aten.native_group_norm_backward.default(
        *(g, x, *kept(aten.native_group_norm.default(x, None, None, 2, 4, 3, 2, 0.1))),
        *(w, 2, 4, 3, 2, [True, True, True]),
    ),
    N(2, 4, 3),
    N(2, 4, 3),
    N(4),
)
case("_thnn_fused_lstm_cell", aten._thnn_fused_lstm_cell.default, N(3, 8), N(3, 8), N(3, 2), N(8), N(8))
case(
    "_thnn_fused_lstm_cell_backward_impl",
    lambda gh, gc, cx, cy, kept: aten._thnn_fused_lstm_cell_backward_impl.default(gh, gc, cx, cy, kept, True),
    N(3, 2),
    N(3, 2),
    N(3, 2),
    N(3, 2),
    P(3, 8),
)
case("_thnn_fused_gru_cell", aten._thnn_fused_gru_cell.default, N(3, 6), N(3, 6), N(3, 2), N(6), N(6))
case(
    "_thnn_fused_gru_cell_backward",
    lambda g, kept: aten._thnn_fused_gru_cell_backward.default(g, kept, True),
    N(3, 2),
    P(3, 10),
)
case(
    "native_batch_norm",
    lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    N(5, 2, 3),
    N(2),
    N(2),
)
case(
    "native_batch_norm",
    lambda x, m, v: F.batch_norm(x, m, v),
    N(5, 2, 3),
    N(2),
    P(2),
    tag="by running statistics",
)
case(
    "native_batch_norm_backward",
    lambda g, x, w: aten.native_batch_norm_backward.default(
        *(
            g,
            x,
            w,
            None,
            None,
            *kept(aten.native_batch_norm.default(x, None, None, None, None, True, 0.1, 0.1)),
        ),
        *(True, 0.1, [True, True, True]),
    ),
    N(5, 2, 3),
    N(5, 2, 3),
    N(2),
)
case(
    "batch_norm writing running statistics",
    lambda x, m, v: (
        lambda mean, var: (
            aten._native_batch_norm_legit.default(x, None, None, mean, var, True, 0.1, 1e-3)[0],
            mean,
            var,
        )
    )((m + 0 * (x.sum() + v.sum())).detach(), (v + 0 * (x.sum() + m.sum())).detach()),
    N(5, 2, 3),
    N(2),
    P(2),
)

# Attention.
HEADS = N(2, 4, 3, 8), N(2, 4, 5, 8), N(2, 4, 5, 8)


def _attended(q, k, v, m):
    return aten._scaled_dot_product_flash_attention_for_cpu.default(q, k, v, 0.0, False, attn_mask=m)


case(
    "scaled_dot_product_attention",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    *HEADS,
)
case(
    "scaled_dot_product_attention",
    lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
    *HEADS,
    N(4, 3, 5),
    tag="mask",
)
case(
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    lambda g, q, k, v, m: aten._scaled_dot_product_flash_attention_for_cpu_backward.default(
        g, q, k, v, *_attended(q, k, v, m), 0.0, False, attn_mask=m
    )[1],
    N(2, 4, 3, 8),
    *HEADS,
    N(2, 1, 3, 5),
)
case("_sliding_window_attn", lambda q, k, v: aten._sliding_window_attn.default(q, k, v, 2, 1), *HEADS)
case(
    "_sliding_window_attn_backward",
    lambda g, q, k, v: aten._sliding_window_attn_backward.default(
        g, q, k, v, *aten._sliding_window_attn.default(q, k, v, 2, 1), 2, 1
    ),
    N(2, 4, 3, 8),
    *HEADS,
)

# Losses.
for reduction in ("none", "mean", "sum"):
    case("mse_loss", lambda x, y, r=reduction: F.mse_loss(x, y, reduction=r), N(2, 4), N(2, 4), tag=reduction)
    case(
        "nll_loss",
        lambda x, t, w, r=reduction: F.nll_loss(x, t, w, reduction=r, ignore_index=1),
        N(5, 4),
        Index(4, 5),
        P(4),
        tag=reduction,
    )
    case(
        "nll_loss",
        lambda x, t, r=reduction: F.nll_loss(x, t, reduction=r),
        N(4),
        Index(4),
        tag=f"one sample {reduction}",
    )
    case(
        "nll_loss2d",
        lambda x, t, w, r=reduction: F.nll_loss(x, t, w, reduction=r),
        N(2, 4, 3, 2),
        Index(4, 2, 3, 2),
        P(4),
        tag=reduction,
    )
    case(
        "cross_entropy",
        lambda x, t, r=reduction: F.cross_entropy(x, t, reduction=r),
        N(5, 4),
        Index(4, 5),
        tag=reduction,
    )
    case(
        "cross_entropy",
        lambda x, t, w, r=reduction: F.cross_entropy(x, t, w, reduction=r, label_smoothing=0.1),
        N(5, 4),
        Index(4, 5),
        P(4),
        tag=f"smoothed {reduction}",
    )
    number = {"none": 0, "mean": 1, "sum": 2}[reduction]
    case(
        "mse_loss_backward",
        lambda g, x, y, r=number: aten.mse_loss_backward.default(g, x, y, r),
        N(2, 4) if not number else N(),
        N(2, 4),
        N(2, 4),
        tag=reduction,
    )
    case(
        "nll_loss_backward",
        lambda g, x, t, r=number: aten.nll_loss_backward.default(
            g, x, t, None, r, -100, tt.full((), 5.0, device=x.device)
        ),
        N(5) if not number else N(),
        N(5, 4),
        Index(4, 5),
        tag=reduction,
    )
    case(
        "nll_loss_backward",
        lambda g, x, t, w, r=number: aten.nll_loss_backward.default(
            g, x, t, w, r, 1, tt.where(t == 1, 0, w[t]).sum().detach()
        ),
        N(5) if not number else N(),
        N(5, 4),
        Index(4, 5),
        P(4),
        tag=f"weighted {reduction}",
    )
case("smooth_l1_loss", F.smooth_l1_loss, N(2, 4), N(2, 4))

# Picking and placing.
case("cat", lambda x, y: tt.cat([x, y], 1), N(2, 3), N(2, 2))
case("cat", lambda x, y: tt.cat([x, y], -1), N(2, 3), N(0), tag="legacy empty")
case("stack", lambda x, y: tt.stack([x, y], -1), N(2, 3), N(2, 3))
case("gather", lambda x, i: x.gather(1, i), N(2, 5), Index(5, 2, 3))
case("gather", lambda x, i: x.gather(0, i), N(), Index(1), tag="of a number")
case("take_along_dim", lambda x, i: tt.take_along_dim(x, i, 1), N(2, 5), Index(5, 2, 3))
case("scatter", lambda x, i, s: x.scatter(1, i, s), N(2, 5), Distinct(5, 2, 3), N(2, 3))
case("scatter", lambda x, i: x.scatter(1, i, 2.0), N(2, 5), Distinct(5, 2, 3), tag="number")
case(
    "scatter",
    lambda x, i, s: x.scatter(1, i, s, reduce="add"),
    N(2, 5),
    Index(5, 2, 3),
    N(2, 3),
    tag="reduce",
)
case(
    "scatter",
    lambda x, i: x.scatter(1, i, 2.0, reduce="multiply"),
    N(2, 5),
    Index(5, 2, 3),
    tag="number reduce",
)
case("scatter", lambda x, i, s: x.scatter(0, i, s), N(), Index(1), N(), tag="of a number")
case(
    "scatter_", lambda x, i, s: x.clone().scatter_(1, i, s), N(2, 5), Distinct(5, 2, 3), N(2, 3), writes=True
)
case(
    "scatter_",
    lambda x, i: x.clone().scatter_(1, i, 2.0),
    N(2, 5),
    Distinct(5, 2, 3),
    writes=True,
    tag="number",
)
case(
    "scatter_reduce",
    lambda x, i, s: x.scatter_reduce(1, i, s, "mean", include_self=False),
    N(2, 5),
    Index(5, 2, 3),
    N(2, 3),
)
case("scatter_add", lambda x, i, s: x.scatter_add(0, i, s), N(5, 2), Index(5, 3, 2), N(3, 2))
case(
    "scatter_add_",
    lambda x, i, s: x.clone().scatter_add_(0, i, s),
    N(5, 2),
    Index(5, 3, 2),
    N(3, 2),
    writes=True,
)
case("index_select", lambda x, i: x.index_select(1, i), N(2, 5), Index(5, 3))
case("index_select", lambda x, i: x.index_select(0, i), N(), Index(1, 1), tag="of a number")
case("index_add", lambda x, i, s: x.index_add(0, i, s, alpha=2.0), N(5, 2), Index(5, 3), N(3, 2))
case("index_add_", lambda x, i, s: x.clone().index_add_(1, i, s), N(2, 5), Index(5, 3), N(2, 3), writes=True)
case("index_copy", lambda x, i, s: x.index_copy(0, i, s), N(5, 2), Distinct(5, 3), N(3, 2))
case(
    "index_copy_",
    lambda x, i, s: x.clone().index_copy_(0, i, s),
    N(5, 2),
    Distinct(5, 3),
    N(3, 2),
    writes=True,
)
case("index_fill", lambda x, i: x.index_fill(1, i, 3.0), N(2, 5), Index(5, 2))
case("take", tt.take, N(2, 5), Index(10, 3))
case("take", lambda x, i: tt.take(x, i - 10), N(2, 5), Index(10, 3), tag="from the end")
case("put", lambda x, i, s: x.put(i, s, accumulate=True), N(2, 5), Index(10, 3), N(3))
case("index", lambda x, i: x[i], N(5, 2), Index(5, 3))
case("index", lambda x, i: x[:, i], N(2, 5, 4), Index(5, 3, 2), tag="second")
case("index", lambda x, i, j: x[:, i, j], N(2, 5, 4), Index(5, 3, 1), Index(4, 2), tag="adjacent")
case("index", lambda x, i, j: x[i, :, j], N(5, 2, 4), Index(5, 3), Index(4, 3), tag="apart")
case("index", lambda x, i, j: x[:, i, :, j], N(2, 5, 3, 4), Index(5, 3), Index(4, 3), tag="apart later")
case("index_put", lambda x, i, v: x.index_put((i,), v, True), N(5, 2), Index(5, 3), N(3, 2))
case(
    "index_put",
    lambda x, i, v: x.index_put((None, i), v),
    N(2, 5, 3),
    Distinct(5, 2),
    N(2, 2, 3),
    tag="second",
)
case("index_put", lambda x, i, v: x.index_put((None, i), v), N(2, 5, 3), Distinct(5, 2), N(), tag="number")
case(
    "index_put",
    lambda x, i, v: x.index_put((None, i), v),
    N(2, 5, 3),
    Distinct(5, 2),
    N(2, 3),
    tag="lower rank",
)
case(
    "index_put",
    lambda x, i, j, v: x.index_put((i, None, j), v),
    N(5, 2, 4),
    Distinct(5, 3),
    Index(4, 3),
    N(3, 2),
    tag="apart",
)
case("index_put_", lambda x, i, v: x.clone().index_put_((i,), v), N(5, 2), Distinct(5, 3), N(2), writes=True)
case("embedding", lambda w, i: F.embedding(i, w), N(6, 4), Index(6, 2, 3))
case(
    "embedding_dense_backward",
    lambda g, i: aten.embedding_dense_backward.default(g, i, 6, 2, False),
    N(5, 3),
    Index(6, 5),
)
case(
    "embedding_dense_backward",
    lambda g, i: aten.embedding_dense_backward.default(g, i, 6, -1, True),
    N(5, 3),
    Index(6, 5),
    tag="by frequency",
)
for reduce in ("prod", "amax"):
    case(
        "index_reduce",
        lambda x, i, s, r=reduce: x.index_reduce(0, i, s, r, include_self=False),
        N(5, 2),
        Index(5, 3),
        N(3, 2),
        tag=reduce,
    )
case(
    "index_reduce_",
    lambda x, i, s: x.clone().index_reduce_(1, i, s, "mean"),
    N(2, 5),
    Index(5, 3),
    N(2, 3),
    writes=True,
)
case("searchsorted", lambda s, v: tt.searchsorted(s.sort()[0], v.detach()), N(7), N(2, 3))
case("searchsorted", lambda s, v: tt.searchsorted(s.sort()[0], v.detach()), N(7), N(), tag="number")
case(
    "searchsorted",
    lambda s, v: tt.searchsorted(s, v.detach(), sorter=tt.argsort(s), side="right"),
    N(2, 7),
    N(2, 3),
    tag="rows through a sorter",
)
case("bucketize", lambda v, s: tt.bucketize(v, s.sort()[0]), N(2, 3), N(7))
case("isin", lambda x, y: tt.isin(x, y), Z(2, 3), Z(5))
case("mode", lambda x: tt.mode(x, 1, True), Z(2, 9))
case("mode", lambda x: tt.mode(x), Z(), tag="of a number")
case(
    "max_unpool2d",
    lambda x, i: aten.max_unpool2d.default(x, i.reshape(1, 2, 2), [3, 3]),
    N(1, 2, 2),
    Distinct(9, 4),
)
case(
    "fractional_max_pool2d",
    lambda x, s: aten.fractional_max_pool2d.default(x, [2, 2], [3, 2], s),
    N(2, 3, 6, 5),
    N(3, 3, 2),
)
case(
    "fractional_max_pool3d",
    lambda x, s: aten.fractional_max_pool3d.default(x, [1, 2, 2], [2, 3, 2], s),
    N(2, 3, 6, 5),
    N(1, 2, 3),
    tag="one sample",
)
case(
    "fractional_max_pool2d_backward",
    lambda g, x, i: aten.fractional_max_pool2d_backward.default(g, x, [2, 2], [2, 2], i.reshape(1, 2, 2)),
    N(1, 2, 2),
    N(1, 3, 3),
    Distinct(9, 4),
)
case("repeat_interleave", lambda x: tt.repeat_interleave(x, 3, 1), N(2, 3))
case("roll", lambda x: x.roll(1, 0), N(3, 2))
case("repeat", lambda x: x.repeat(2, 1, 2), N(3, 2))
case("zeros_like", lambda x: tt.zeros_like(x), N(2, 3))
case(
    "ones_like", lambda x: tt.ones_like(x, memory_format=tt.channels_last), N(1, 2, 3, 4), tag="channels last"
)
case("full_like", lambda x: tt.full_like(x, 2.5), N(2, 3))
case("new_zeros", lambda x: x.new_zeros(4), N(2, 3))
case("new_ones", lambda x: x.new_ones((4, 2), dtype=tt.int32), N(2, 3))
case("new_full", lambda x, y: x.new_full((3,), 2.0).add_(x.sum()), N(2, 3), N(1))
case("new_empty_strided", lambda x: x.new_empty_strided((2, 3), (1, 2)).copy_(x), N(2, 3))


def leaves(result):
    return list(result) if isinstance(result, tuple | list) else [result]


def one_by_one(function, values, dims, out=0):
    """Compute the reference: the function on each example, with the results stacked."""
    rows = []
    for b in range(BATCH):
        args = [v if d is None else v.select(d, b) for v, d in zip(values, dims, strict=True)]
        rows.append(leaves(function(*args)))
    return [tt.stack(column, out) for column in zip(*rows, strict=True)]


def assert_same(got, expected):
    got = leaves(got)
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert a.dtype is b.dtype and a.shape == b.shape and a.device == b.device, (a, b)
        rough = a.dtype is tt.float16
        np.testing.assert_allclose(
            a.cpu().numpy(), b.cpu().numpy(), rtol=2e-3 if rough else 2e-4, atol=2e-3 if rough else 2e-5
        )


def mappings(operands):
    """Yield the mapped dimensions of the operands.

    Each operand is mapped at the front, at the back or not, at least one is mapped; the last case maps all in
    the middle.
    """
    choices = [(0, -1, None) for _ in operands]
    yield from (dims for dims in itertools.product(*choices) if any(d is not None for d in dims))
    if all(len(o.sizes) >= 2 for o in operands):
        yield tuple(1 for _ in operands)


INTERPRETED = [
    "add lower rank second",
    "mul_",
    "sum dims",
    "softmax",
    "getitem basic",
    "mm",
    "addmm",
    "conv2d groups 1",
]
INTERPRETED += [
    "max_pool2d",
    "cross_entropy mean",
    "cat",
    "gather",
    "scatter_add_",
    "index apart",
    "index_put second",
]
INTERPRETED += ["embedding", "promotion i64 and mapped f32", "cumsum"]


@pytest.mark.parametrize("name", INTERPRETED)
def test_rules_run_on_a_gpu(name):
    function, operands, _ = CASES[name]
    dims = [0 if i == 0 or i % 2 else None for i in range(len(operands))]
    values = [o.make(np.random.default_rng(0), d) for o, d in zip(operands, dims, strict=True)]
    got = leaves(tt.vmap(function, in_dims=tuple(dims))(*[v.cuda() for v in values]))
    assert all(g.is_cuda for g in got)
    assert_same([g.cpu() for g in got], one_by_one(function, values, dims))


@pytest.mark.parametrize("name", CASES)
def test_a_rule_says_on_the_meta_device_what_it_gives(name):
    function, operands, _ = CASES[name]
    if any(o.kind == "bool" for o in operands) and name.startswith(("index", "setitem")):
        pytest.skip("sizes depend on values")
    values = [o.make(np.random.default_rng(0), 0) for o in operands]
    expected = leaves(tt.vmap(function)(*values))
    got = leaves(tt.vmap(function)(*[v.to("meta") for v in values]))
    assert [(g.shape, g.dtype, g.device.type) for g in got] == [(e.shape, e.dtype, "meta") for e in expected]


@pytest.mark.parametrize("name", CASES)
def test_a_rule_gives_what_the_operator_gives_on_each_example(name):
    function, operands, writes = CASES[name]
    for dims in mappings(operands):
        rng = np.random.default_rng(0)
        values = [o.make(rng, d) for o, d in zip(operands, dims, strict=True)]
        mapped = tt.vmap(function, in_dims=dims)
        if writes and dims[0] is None:
            with pytest.raises(RuntimeError, match="is not possible because there exists a Tensor `other`"):
                mapped(*values)
            continue
        assert_same(mapped(*values), one_by_one(function, values, dims))


# A strided view needs a storage that has its elements, which no example has.
@pytest.mark.parametrize("name", [name for name in CASES if name != "as_strided"])
def test_a_rule_maps_over_no_example_at_all(name):
    function, operands, _ = CASES[name]
    examples = [o.make(np.random.default_rng(0), None) for o in operands]
    expected = leaves(function(*examples))
    got = leaves(tt.vmap(function)(*[e.new_empty((0, *e.shape)) for e in examples]))
    assert [(g.shape, g.dtype) for g in got] == [((0, *e.shape), e.dtype) for e in expected]


@pytest.mark.parametrize("name", CASES)
def test_a_rule_runs_inside_another_map(name):
    """Nest two maps: the first operand is mapped twice, the others by one map each, alternately."""
    function, operands, writes = CASES[name]
    rng = np.random.default_rng(1)
    inner = [0 if i % 2 == 0 or writes else None for i in range(len(operands))]
    outer = [-1 if i == 0 or i % 2 else None for i in range(len(operands))]
    values = []
    for operand, a, b in zip(operands, inner, outer, strict=True):
        made = operand.make(rng, a)
        values.append(made if b is None else tt.stack([made, made.flip(0) if a == 0 else made], -1))
    mapped = tt.vmap(tt.vmap(function, in_dims=tuple(inner)), in_dims=tuple(outer), out_dims=-1)
    rows = []
    for b in range(2):
        args = [v if d is None else v.select(d, b) for v, d in zip(values, outer, strict=True)]
        rows.append(one_by_one(function, args, inner))
    assert_same(mapped(*values), [tt.stack(column, -1) for column in zip(*rows, strict=True)])


def differentiable(name):
    function, operands, _ = CASES[name]
    if name in ("scatter reduce", "scatter number reduce", "floor_divide", "promotion f16"):
        return False
    if name in ("_thnn_fused_lstm_cell_backward_impl", "_thnn_fused_gru_cell_backward"):
        return False  # what is to be differentiated again is made of operators instead
    if not any(o.kind in ("normal", "positive", "complex") for o in operands):
        return False
    values = [o.make(np.random.default_rng(0), None) for o in operands]
    given = [differentiated(name, i, v) for i, v in enumerate(values)]
    return any(r.requires_grad for r in leaves(function(*given)))


NO_GRADIENT = {
    "native_batch_norm by running": (1, 2),
    "fractional_max_pool": (1,),
    "nll_loss": (2, 3),
    "cross_entropy smoothed ": (2,),
}
"""Arguments that may not require grad, by how the names of cases begin: statistics, weights of classes, samples."""


def differentiated(name, position, value):
    """Return the value, which requires grad if the operator allows it."""
    refused = any(name.startswith(each) and position in where for each, where in NO_GRADIENT.items())
    is_number = value.is_floating_point() or value.is_complex()
    return value.requires_grad_() if is_number and not refused else value


DIFFERENTIABLE = [name for name in CASES if differentiable(name)]


def weighted(results, rng):
    """Return a scalar of all results with random weights, or None if no result has a gradient."""
    total = None
    for each in leaves(results):
        if each.requires_grad:
            term = (each * tt.tensor(rng.standard_normal(each.shape).astype(np.float32))).sum()
            term = term.real if term.is_complex() else term
            total = term if total is None else total + term.to(tt.float32)
    return total


def gradients(name, function, values):
    """Return the gradients of a weighted sum of results with respect to the differentiable values."""
    given = [differentiated(name, i, v.detach().clone()) for i, v in enumerate(values)]
    sources = [v for v in given if v.requires_grad]
    total = weighted(function(*given), np.random.default_rng(2))
    if total is None:
        return []
    found = tt.autograd.grad(total, sources, allow_unused=True)
    return [tt.zeros_like(s) if g is None else g for g, s in zip(found, sources, strict=True)]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_the_gradient_of_a_map_is_that_of_the_examples(name):
    function, operands, writes = CASES[name]
    for dims in itertools.islice(mappings(operands), 0, None, 2):
        if writes and dims[0] is None:
            continue
        values = [o.make(np.random.default_rng(3), d) for o, d in zip(operands, dims, strict=True)]
        got = gradients(name, tt.vmap(function, in_dims=dims), values)
        expected = gradients(name, lambda *v, dims=dims: one_by_one(function, v, dims), values)
        assert_same(got, expected)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_the_map_of_a_gradient_is_that_of_the_examples(name):
    """Call `tt.autograd.grad` inside the map: the backward formulas run on batched tensors."""
    function, operands, writes = CASES[name]

    def inside(*values):
        given = [differentiated(name, i, v.alias().detach()) for i, v in enumerate(values)]
        sources = [v for v in given if v.requires_grad]
        results = [r for r in leaves(function(*given)) if r.requires_grad]
        weights = [
            tt.ones(r.shape, dtype=r.dtype).cumsum(-1) if r.ndim else tt.ones((), dtype=r.dtype)
            for r in results
        ]
        found = tt.autograd.grad(results, sources, weights, allow_unused=True)
        return [tt.zeros_like(s) if g is None else g for g, s in zip(found, sources, strict=True)]

    for dims in itertools.islice(mappings(operands), 0, None, 3):
        if writes and dims[0] is None:
            continue
        values = [o.make(np.random.default_rng(3), d) for o, d in zip(operands, dims, strict=True)]
        assert_same(tt.vmap(inside, in_dims=dims)(*values), one_by_one(inside, values, dims))


FORMS = {
    "view_copy": ([6],),
    "_strided_copy": ([2, 2], [1, 3], 1),
    "expand_copy": ([4, 2, 3],),
    "permute_copy": ([1, 0],),
    "transpose_copy.int": (0, 1),
    "select_copy.int": (1, 2),
    "slice_copy.Tensor": (1, 1, 3, 1),
    "squeeze_copy": (),
    "unsqueeze_copy": (1,),
    "t_copy": (),
    "alias_copy": (),
    "diagonal_copy": (1, 0, 1),
    "unfold_copy": (1, 2, 1),
    "zero": (),
    "fill.Scalar": (2.0,),
    "lift_fresh_copy": (),
}
SCATTERS = {
    "select_scatter": ((2,), (1, 2)),
    "slice_scatter": ((2, 2), (1, 1, 3, 1)),
    "diagonal_scatter": ((2,), (1, 0, 1)),
    "_strided_scatter": ((2, 2), ([2, 2], [1, 3], 0)),
    "copy": ((3,), ()),
    "fill.Tensor": ((), ()),
}


def overload_of(name):
    base, _, overload = name.partition(".")
    return getattr(getattr(tt.ops.aten, base), overload or "default")


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_forms_without_views(name, dim):
    call, args = overload_of(name), FORMS[name]
    x = tt.arange(24.0).reshape(4, 2, 3).movedim(0, dim)
    found = tt.vmap(lambda each: call(each, *args), in_dims=dim)(x)
    assert found.tolist() == tt.stack([call(each, *args) for each in x.unbind(dim)]).tolist()


@pytest.mark.parametrize("name", SCATTERS)
@pytest.mark.parametrize("in_dims", [(0, 0), (None, 0), (0, None)])
def test_scatters(name, in_dims):
    call, (shape, args) = overload_of(name), SCATTERS[name]
    x = tt.arange(24.0).reshape(4, 2, 3)
    src = -tt.ones((4, *shape)) * tt.arange(1.0, 5.0).reshape((4, *[1] * len(shape)))
    given = [t if d == 0 else t[0] for t, d in zip((x, src), in_dims, strict=True)]
    found = tt.vmap(lambda a, b: call(a, b, *args), in_dims=in_dims)(*given)
    each = [
        call(*[t[i] if d == 0 else t for t, d in zip(given, in_dims, strict=True)], *args) for i in range(4)
    ]
    assert found.tolist() == tt.stack(each).tolist()


@pytest.mark.parametrize("name", ["uniform", "normal_functional", "exponential", "bernoulli.float", "random"])
def test_draws_without_writes(name):
    call = overload_of(name)
    x = tt.zeros(4, 50)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        tt.vmap(call)(x)
    different = tt.vmap(call, randomness="different")(x)
    assert different.shape == (4, 50)
    assert different[0].tolist() != different[1].tolist()
    same = tt.vmap(call, randomness="same")(x)
    assert same[0].tolist() == same[1].tolist()


def test_an_empty_vector_that_cat_does_not_count_has_a_history():
    x, y = tt.zeros(0, requires_grad=True), tt.ones(5, 2)
    joined = tt.vmap(lambda a, b: tt.cat([a, b]), in_dims=(None, 0))(x, y)
    assert joined.requires_grad and joined.tolist() == y.tolist()
    joined.sum().backward()
    assert x.grad.shape == (0,)
