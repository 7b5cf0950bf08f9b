"""Handlers get PyTorch's callables, arguments and order."""

import operator

import pytest

import triten as tt

torch = pytest.importorskip("torch")

BINARY = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
]
IN_PLACE = [
    f"i{name}"
    for name in [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "and",
        "or",
        "xor",
        "lshift",
        "rshift",
    ]
]

STATEMENTS = """
s.shape | s.T | s.grad | s.dtype | s.device | s.requires_grad | s.is_leaf | s.data | s.ndim | s.size() | s.dim()
s.numel() | s[0] | s[0, 1:] | x[i] | x[s > 0] | -s | abs(s) | ~(s > 0) | 1 - s | 1 / s | 2 ** s | 7 % s | 7 // s
1 + s | 2 * s | x + s | x - s | s + x | x @ s | s @ x | x < s | len(s) | 1.0 in s | reversed(s) | float(s[0, 0])
bool(s[0, 0]) | int(s[0, 0]) | s.sum() | s.sum(dim=0, keepdim=True) | s.view(4) | s.view(2, 2) | s.to(lib.float64)
s.numpy() | s.add_(1) | s.float() | s.max(dim=0) | s.reshape(-1) | s.tolist() | s.clone() | s.detach()
s.contiguous() | s.fill_(0) | lib.add(x, s, alpha=2) | lib.cat([x, s]) | lib.stack((s, s)) | lib.where(s > 0, s, x)
lib.ones_like(s) | lib.exp(s) | lib.nn.functional.softmax(s, 0) | lib.nn.functional.relu(s) | lib.exp(d)
lib.nn.functional.mse_loss(x, s) | lib.nn.functional.cross_entropy(s, s) | lib.nn.functional.dropout(s, 0.0)
lib.nn.functional.l1_loss(s, x) | lib.add(x, d) | lib.add(d, x) | x.add(d) | x + d | d + x | d - x | d / x | d // x
d % x | d ** x | d @ x | d << x | lib.cat([x, d]) | lib.stack((d, x)) | x[d] | x[d, 0] | x[[d]] | d < x | d & x
lib.where(d, 1.0, 2.0) | lib.full((2,), d) | lib.add(x, x, out=d) | lib.add(x, x, alpha=d) | lib.ones_like(d)
lib.result_type(d, 1) | lib.nn.functional.softmax(d, 0) | lib.ops.aten.add.Tensor(x, d) | lib.ops.aten.add(x, d)
lib.ops.aten.cat.default([x, d])
"""
STATEMENTS = [each.strip() for line in STATEMENTS.strip().split("\n") for each in line.split("|")]
# PyTorch's functions written in Python spell out what was left to defaults; those written in C++ do not.
SPELLED_OUT = ("nn.functional", "autograd")
BITWISE = frozenset(["and_", "or_", "xor", "lshift", "rshift", "iand", "ior", "ixor", "ilshift", "irshift"])


def log_of(library):
    """Return a library's operands, and the log of their handlers: names, arguments by class, keywords."""
    seen = []
    suffix = "torch_function" if library is torch else "tensor_function"
    resolve = library.overrides.resolve_name

    def name_of(func):
        op = getattr(func, "_qualified_op_name", None)
        if isinstance(func, torch._ops.OpOverloadPacket):
            return op.replace("::", ".")
        name = resolve(func)
        if name is None:
            # The builtin behind a packet; its module is not public.
            return f"aten.{func.__name__}"
        return name.removeprefix("torch.").removeprefix("triten.")

    def handler(cls, func, types, args=(), kwargs=None):
        shown = [type(a).__name__ for a in args]
        name = name_of(func)
        named = (
            {} if name.startswith(SPELLED_OUT) else {k: type(v).__name__ for k, v in (kwargs or {}).items()}
        )
        seen.append((name, shown, named, [t.__name__ for t in types if t is not library.Tensor]))
        return "D" if cls is D else getattr(super(S, cls), f"__{suffix}__")(func, types, args, kwargs)

    D = type("D", (), {f"__{suffix}__": classmethod(handler)})
    S = type("S", (library.Tensor,), {f"__{suffix}__": classmethod(handler)})
    names = {
        "lib": library,
        "d": D(),
        "x": library.ones(2, 2),
        "i": library.tensor([0]).as_subclass(S),
        "s": library.ones(2, 2).as_subclass(S),
    }
    return seen, names


def run(library, statement):
    seen, names = log_of(library)
    try:
        result = type(eval(statement, names)).__name__
    except TypeError as error:
        result = type(error).__name__
    return seen, result


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_are_handled_alike(statement):
    ours, theirs = run(tt, statement), run(torch, statement)
    assert ours[0], "nothing was asked"
    assert ours == theirs


# A subclass of PyTorch's gets Tensor.__eq__, as against Tensor.ne and the rest, and Tensor.eq beside a foreign operand.
OPERANDS = [
    (name, operands)
    for name in BINARY + IN_PLACE
    for operands in ("xd", "dx", "xs", "sx")
    if name != "eq" or "d" in operands
]


@pytest.mark.parametrize(("name", "operands"), OPERANDS)
def test_operators_are_handled_alike(name, operands):
    logs = []
    for library in (tt, torch):
        seen, names = log_of(library)
        if name in BITWISE:
            names |= {"x": names["x"].int(), "s": names["s"].int()}
        seen.clear()
        try:
            result = type(getattr(operator, name)(*[names[each] for each in operands])).__name__
        except RuntimeError as error:  # of an in-place operator whose result has another dtype
            result = type(error).__name__
        logs.append((seen, result))
    assert logs[0][0] and logs[0] == logs[1]
