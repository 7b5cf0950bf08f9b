"""Statements that make views: slices, other shapes and strides, other dtypes, parts."""

import triten as tt

from .scope import Scope, any_tensor, has_dims, integral


def sliced(scope: Scope) -> str:
    a = scope.pick(has_dims(1), tame=False)
    rank = scope[a].dim()
    pieces = [_slice(scope, size) for size in scope[a].shape]
    keep = scope.rng.randint(1, rank)
    text = ", ".join(pieces[:keep])
    if scope.chance(0.2):
        text = "..., " + ", ".join(pieces[rank - 1 :])
    elif scope.chance(0.1):
        text = "None, " + text
    return f"{scope.new()} = {a}[{text}]"


def _slice(scope: Scope, size: int) -> str:
    form = scope.rng.random()
    if form < 0.25:
        return ":"
    if form < 0.4:
        return str(scope.rng.randrange(-size, size))
    start, stop = sorted((scope.rng.randint(0, size), scope.rng.randint(0, size + 1)))
    if start == stop and scope.chance(0.8):
        start, stop = 0, size
    step = scope.choice("", "", ":2", ":3")
    return f"{start or ''}:{stop}{step}"


def reshaped(scope: Scope) -> str:
    a = scope.pick(any_tensor, tame=False)
    x = scope[a]
    d, e = scope.dim(x), scope.dim(x)
    form = scope.choice(
        "transpose({d}, {e})",
        "reshape(-1)",
        "view(-1)",
        "unsqueeze({d})",
        "squeeze()",
        "squeeze({d})",
        "flatten()",
        "expand(2, *{a}.shape)",
        "permute({p})",
        "movedim({d}, {e})",
        "swapaxes({d}, {e})",
        "unsqueeze(0).expand(3, *{a}.shape)",
        "view({a}.shape)",
        "reshape({half})",
        "view({half})",
        "expand_as({a})",
        "flatten(0, -1)",
        "mT",
        "T",
        "mT",
        "select({d}, 0)",
        "select({d}, -1)",
        "narrow({d}, 0, 1)",
        "diagonal()",
        "diagonal(1, {d}, {e})",
        "unfold({d}, 2, 1)",
        "unfold({d}, 1, 2)",
        "alias()" if scope.chance(0) else "view_as({a})",
        "broadcast_to((2, *{a}.shape))",
        "unflatten({d}, (1, -1))",
        "ravel()",
        "t()",
        "detach()",
        "detach()",
        "data",
        "real",
        "view(tt.{same})" if integral(x) else "view(-1)",
        "view(tt.{other})" if integral(x) else "flatten()",
        "squeeze((0, -1))",
    )
    order = list(range(x.dim()))
    scope.rng.shuffle(order)
    half = "2, -1" if x.numel() % 2 == 0 and x.numel() else "-1, 1"
    same = {1: "uint8", 2: "float16", 4: "int32", 8: "int64"}.get(x.dtype.itemsize, "uint8")
    text = form.format(
        a=a,
        d=d,
        e=e,
        p=", ".join(map(str, order)) or "()",
        half=half,
        same=same,
        other=scope.choice("uint8", "int32", "int64", "float32"),
    )
    return f"{scope.new()} = {a}.{text}"


def strided(scope: Scope) -> str:
    a = scope.pick(has_dims(1), tame=False)
    x = scope[a]
    room = x.untyped_storage().nbytes() // x.dtype.itemsize - 1
    offset, room = (0, room) if scope.chance(0.6) else (min(1, room), room - min(1, room))
    sizes, strides = [], []
    for _ in range(scope.rng.randint(1, 3)):
        size = scope.rng.randint(1, 3)
        stride = scope.rng.randint(0, max(0, room // max(1, size - 1)))
        room -= stride * (size - 1)
        sizes.append(size)
        strides.append(stride)
    where = f", {offset}" if scope.chance(0.7) else ""
    return f"{scope.new()} = {a}.as_strided({tuple(sizes)}, {tuple(strides)}{where})"


def parts(scope: Scope) -> str:
    a = scope.pick(has_dims(1), tame=False)
    x = scope[a]
    d = scope.dim(x)
    if not -x.dim() <= d < x.dim() or not 1 <= x.shape[d] <= 5:
        d = 0
    size = x.shape[d]
    form = scope.rng.random()
    if form < 0.4 and size <= 5:
        return f"{', '.join(scope.new() for _ in range(size))}, = {a}.unbind({d})"
    if form < 0.6 and size >= 2:
        return f"{scope.new()}, {scope.new()} = {a}.split([1, {size - 1}], {d})"
    if form < 0.8 and size >= 2:
        return f"{scope.new()}, {scope.new()} = {a}.{scope.choice('chunk', 'tensor_split')}(2, {d})"
    return f"{scope.new()} = {a}.split(1, {d})[0]"


def complex_parts(scope: Scope) -> str:
    if scope.chance(0.5):
        a = scope.pick(lambda each: each.is_complex(), tame=False)
        return f"{scope.new()} = " + scope.choice(
            f"{a}.real",
            f"{a}.imag",
            f"tt.view_as_real({a})",
            f"{a}.abs()",
            f"{a}.angle() + 0",
            f"{a}.resolve_conj()",
            f"{a}.conj().resolve_conj()",
            f"{a}.conj_physical()",
            f"{a}.sgn()",
        )
    a = scope.pick(lambda each: each.dtype in (tt.float32, tt.float64))
    return f"{scope.new()} = " + scope.choice(
        f"tt.complex({a}, {a} * 2)", f"{a}.to(tt.complex64)", f"{a} * 1j"
    )


KINDS = {sliced: 8, reshaped: 12, strided: 2, parts: 4, complex_parts: 2}
