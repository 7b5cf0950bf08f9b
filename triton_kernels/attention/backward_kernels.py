"""The programs of attention's backward pass: what a row's gradient is relative to, then keys and values, then queries.

Dao, "FlashAttention-2: faster attention with better parallelism and work partitioning", 2023, section 3.1: weights are
made again from the scores and the row's logarithm of the sum. Queries have a program of their own, which makes scores
and their gradients twice, seven products instead of five: sums then have one order, and nothing is added atomically.
`docs/gpu_kernels_internals.md` ("Attention backward") compares both by the performance model. The heads
that share keys are added by the program of those keys, the first one first.

Numerics: scores, their gradients and all sums are float32; weights and gradients of scores are rounded to the operands'
dtype for products, and weights below 2^-126 are zeros.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import STREAMING, Configuration, declare
from ..conversion import convert
from .scores import kept, load_tile, product_of_tiles, with_bias
from .tiles import KEYS_HALF, KEYS_SINGLES, QUERIES_HALF, QUERIES_SINGLES


@triton.jit
def row_products(
    grad,
    out,
    delta,
    n_lines,
    length_q,
    heads,
    gb,
    gh,
    gm,
    ob,
    oh,
    om,
    DV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_DV: tl.constexpr,
):
    """delta[line] = the sum of grad * out over the line's values."""
    line = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    dv = tl.arange(0, BLOCK_DV)
    row_mask = line < n_lines
    mask = row_mask[:, None] & (dv < DV)[None, :]
    query, head, batch = line % length_q, line // length_q % heads, line // length_q // heads
    x = tl.load(grad + (batch * gb + head * gh + query * gm)[:, None] + dv[None, :], mask=mask, other=0)
    y = tl.load(out + (batch * ob + head * oh + query * om)[:, None] + dv[None, :], mask=mask, other=0)
    tl.store(delta + line, tl.sum(x.to(tl.float32) * y.to(tl.float32), 1), mask=row_mask)


@triton.jit
def keys_from_queries(
    grad_k,
    grad_v,
    x,
    z,
    q,
    grad,
    bias,
    logsumexp,
    delta,
    line,
    n_lines,
    key,
    latest,
    low,
    high,
    length_q,
    length_k,
    group,
    qh,
    qm,
    gh,
    gm,
    bh,
    bm,
    bn,
    scale,
    seed,
    first,
    limit,
    quads,
    kept_scale,
    KEYS: tl.constexpr,
    VALUES: tl.constexpr,
    WINDOW: tl.constexpr,
    CAUSAL: tl.constexpr,
    DROPOUT: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
):
    """Add the contribution of the queries from `low` to `high` of a group's heads to the gradients of a block of keys
    and values.

    Tiles are (keys, queries), so that weights are an operand from registers. Queries that do not exist have an infinite
    logarithm of the sum, and so no weights. Heads and queries are one loop: in two, one in the other, the compiler
    moves the sums between layouts, and spills them. A head has `n_lines` of the statistics. If CAUSAL a key is seen
    from the query `key` on, and up to the query `latest` where one is given. A WINDOW leaves queries without a key,
    whose logarithm is minus infinity.
    """
    d, dv = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    count = tl.cdiv(high - low, BLOCK_M)
    for i in range(group * count):
        head = (i // count).to(tl.int64)
        query = low + i % count * BLOCK_M + tl.arange(0, BLOCK_M)
        y = load_tile(q + head * qh, query[None, :], d[:, None], qm, length_q, D, BLOCK_D, True)
        scores = product_of_tiles(x, y) * scale
        if bias is not None:
            rows = tl.minimum(query, length_q - 1)[:, None] * bm
            scores = with_bias(
                scores, bias + head * bh, rows + tl.minimum(key, length_k - 1)[None, :] * bn, None, True
            )
        if CAUSAL:
            scores = tl.where(key[:, None] <= query[None, :], scores, float("-inf"))
        if latest is not None:
            scores = tl.where(query[None, :] <= latest[:, None], scores, float("-inf"))
        exists = query < length_q
        own = line + head * n_lines
        lse = tl.load(logsumexp + own + query, mask=exists, other=float("inf"))
        if WINDOW:
            lse = tl.where(lse == float("-inf"), float("inf"), lse)
        weights = tl.exp2(scores - (lse * 1.4426950408889634)[None, :])
        g = load_tile(grad + head * gh, query[:, None], dv[None, :], gm, length_q, DV, BLOCK_DV, True)
        if KEYS:
            changes = product_of_tiles(z, tl.trans(g))
        left = weights
        if DROPOUT:
            keep = tl.trans(kept(seed, first, own + query, tl.min(key, 0), quads, limit, BLOCK_N))
            if KEYS:
                changes = tl.where(keep, changes * kept_scale, 0.0)
            left = tl.where(keep, weights * kept_scale, 0.0)
        if VALUES:
            grad_v = tl.dot(convert(left, grad.dtype.element_ty), g, grad_v, input_precision="ieee")
        if KEYS:
            relative = tl.load(delta + own + query, mask=exists, other=0)
            changes = weights * (changes - relative[None, :])
            grad_k = tl.dot(convert(changes, q.dtype.element_ty), tl.trans(y), grad_k, input_precision="ieee")
    return grad_k, grad_v


@triton.jit
def attention_backward_keys(
    q,
    k,
    v,
    bias,
    grad,
    logsumexp,
    delta,
    draws_seed,
    draws_offset,
    grad_k,
    grad_v,
    length_q,
    length_k,
    heads,
    group,
    qb,
    qh,
    qm,
    kb,
    kh,
    kn,
    vb,
    vh,
    vn,
    bb,
    bh,
    bm,
    bn,
    gb,
    gh,
    gm,
    yb,
    yh,
    yn,
    zb,
    zh,
    zn,
    scale,
    factor,
    limit,
    kept_scale,
    CAUSAL: tl.constexpr,
    DROPOUT: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
):
    """Compute the gradients of a block of keys and values over all queries of every head that reads them.

    A gradient that is None is skipped: it is not needed, or another launch computes it since both sums need too many
    registers. The gradient of the values alone does not read the values.
    """
    KEYS: tl.constexpr = grad_k is not None
    VALUES: tl.constexpr = grad_v is not None
    heads_k = heads // group
    tiles = tl.cdiv(length_k, BLOCK_N)
    program = tl.program_id(0)
    tile = program % tiles
    batch = (program // tiles // heads_k).to(tl.int64)
    head_k = (program // tiles % heads_k).to(tl.int64)
    key = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    d, dv = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    x = load_tile(k + batch * kb + head_k * kh, key[:, None], d[None, :], kn, length_k, D, BLOCK_D, True)
    z = x
    if KEYS:
        z = load_tile(
            v + batch * vb + head_k * vh, key[:, None], dv[None, :], vn, length_k, DV, BLOCK_DV, True
        )
    seed, first = 0, 0
    if DROPOUT:
        seed, first = tl.load(draws_seed), tl.load(draws_offset)
    quads = tl.cdiv(length_k, 4)
    low, middle = 0, 0
    if CAUSAL:
        low = tl.minimum(tile * BLOCK_N, length_q) // BLOCK_M * BLOCK_M
        # From here on every query sees all keys of the block.
        middle = tl.minimum(tl.cdiv(tile * BLOCK_N + BLOCK_N - 1, BLOCK_M) * BLOCK_M, length_q)
    keys = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    values = tl.zeros((BLOCK_N, BLOCK_DV), tl.float32)
    head = head_k * group
    line = (batch * heads + head) * length_q
    q += batch * qb + head * qh
    grad += batch * gb + head * gh
    if bias is not None:
        bias += batch * bb + head * bh
    if CAUSAL:
        # A comparison costs little beside Philox's rounds, and two loops with a generator each spill its keys.
        masked = length_q if DROPOUT else middle
        keys, values = keys_from_queries(
            keys, values, x, z, q, grad, bias, logsumexp, delta, line, length_q, key, None, low, masked, length_q,
            length_k, group, qh, qm, gh, gm, bh, bm, bn, scale, seed, first, limit, quads, kept_scale, KEYS, VALUES,
            False, True, DROPOUT, D, DV, BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV,
        )  # fmt: skip
    if not (CAUSAL and DROPOUT):
        keys, values = keys_from_queries(
            keys, values, x, z, q, grad, bias, logsumexp, delta, line, length_q, key, None, middle, length_q, length_q,
            length_k, group, qh, qm, gh, gm, bh, bm, bn, scale, seed, first, limit, quads, kept_scale, KEYS, VALUES,
            False, False, DROPOUT, D, DV, BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV,
        )  # fmt: skip
    # Not `key < length_k`, since the predicates of the loads would be kept over the loops, and spilled there.
    inside = (key - length_k < 0)[:, None]
    if KEYS:
        out_ptrs = grad_k + batch * yb + head_k * yh + key[:, None] * yn + d[None, :]
        tl.store(out_ptrs, convert(keys * factor, grad_k.dtype.element_ty), mask=inside & (d < D)[None, :])
    if VALUES:
        out_ptrs = grad_v + batch * zb + head_k * zh + key[:, None] * zn + dv[None, :]
        tl.store(out_ptrs, convert(values, grad_v.dtype.element_ty), mask=inside & (dv < DV)[None, :])


@triton.jit
def queries_from_keys(
    grad_q,
    x,
    g,
    k,
    v,
    bias,
    bias_rows,
    lse,
    delta,
    lines,
    query,
    earliest,
    low,
    high,
    length_k,
    kn,
    vn,
    bn,
    scale,
    seed,
    first,
    limit,
    quads,
    kept_scale,
    CAUSAL: tl.constexpr,
    DROPOUT: tl.constexpr,
    MASKED: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
):
    """Add the contribution of the keys from `low` to `high` to the gradients of a block of queries; see `attend` for
    MASKED.
    """
    d, dv = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    for start in range(low, high, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        y = load_tile(k, key[:, None], d[None, :], kn, length_k, D, BLOCK_D, MASKED)
        scores = product_of_tiles(x, tl.trans(y)) * scale
        if bias is not None:
            offsets = bias_rows[:, None] + key[None, :] * bn
            inside = (key < length_k)[None, :] if MASKED else None
            scores = with_bias(scores, bias, offsets, inside, False)
        if MASKED:
            seen = (key < length_k)[None, :]
            if CAUSAL:
                seen = seen & (key[None, :] <= query[:, None])
            if earliest is not None:
                seen = seen & (key[None, :] >= earliest[:, None])
            scores = tl.where(seen, scores, float("-inf"))
        weights = tl.exp2(scores - lse[:, None])
        z = load_tile(v, key[None, :], dv[:, None], vn, length_k, DV, BLOCK_DV, MASKED)
        changes = product_of_tiles(g, z)
        if DROPOUT:
            keep = kept(seed, first, lines, start, quads, limit, BLOCK_N)
            changes = tl.where(keep, changes * kept_scale, 0.0)
        changes = weights * (changes - delta[:, None])
        grad_q = tl.dot(convert(changes, k.dtype.element_ty), y, grad_q, input_precision="ieee")
    return grad_q


@triton.jit
def attention_backward_queries(
    q,
    k,
    v,
    bias,
    grad,
    logsumexp,
    delta,
    draws_seed,
    draws_offset,
    grad_q,
    length_q,
    length_k,
    heads,
    group,
    qb,
    qh,
    qm,
    kb,
    kh,
    kn,
    vb,
    vh,
    vn,
    bb,
    bh,
    bm,
    bn,
    gb,
    gh,
    gm,
    xb,
    xh,
    xm,
    scale,
    factor,
    limit,
    kept_scale,
    CAUSAL: tl.constexpr,
    DROPOUT: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
):
    """Compute the gradients of a block of queries of one head over all keys that they attend to."""
    tiles = tl.cdiv(length_q, BLOCK_M)
    program = tl.program_id(0)
    tile = tiles - 1 - program % tiles
    batch = (program // tiles // heads).to(tl.int64)
    head = (program // tiles % heads).to(tl.int64)
    head_k = head // group
    query = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    exists = query < length_q
    line = (batch * heads + head) * length_q
    d, dv = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    x = load_tile(q + batch * qb + head * qh, query[:, None], d[None, :], qm, length_q, D, BLOCK_D, True)
    g = load_tile(
        grad + batch * gb + head * gh, query[:, None], dv[None, :], gm, length_q, DV, BLOCK_DV, True
    )
    lse = tl.load(logsumexp + line + query, mask=exists, other=float("inf")) * 1.4426950408889634
    relative = tl.load(delta + line + query, mask=exists, other=0)
    seed, first = 0, 0
    if DROPOUT:
        seed, first = tl.load(draws_seed), tl.load(draws_offset)
    quads = tl.cdiv(length_k, 4)
    bias_rows = query
    if bias is not None:
        bias += batch * bb + head * bh
        bias_rows = tl.minimum(query, length_q - 1) * bm
    k += batch * kb + head_k * kh
    v += batch * vb + head_k * vh
    stop, seen_by_all = length_k, length_k
    if CAUSAL:
        stop = tl.minimum(length_k, tile * BLOCK_M + BLOCK_M)
        seen_by_all = tl.minimum(length_k, tile * BLOCK_M + 1)
    middle = seen_by_all // BLOCK_N * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    if CAUSAL and DROPOUT:
        # One loop, as by keys.
        middle = 0
    else:
        total = queries_from_keys(
            total, x, g, k, v, bias, bias_rows, lse, relative, line + query, query, None, 0, middle, length_k, kn, vn,
            bn, scale, seed, first, limit, quads, kept_scale, CAUSAL, DROPOUT, False, D, DV, BLOCK_N, BLOCK_D, BLOCK_DV,
        )  # fmt: skip
    total = queries_from_keys(
        total, x, g, k, v, bias, bias_rows, lse, relative, line + query, query, None, middle, stop, length_k, kn, vn,
        bn, scale, seed, first, limit, quads, kept_scale, CAUSAL, DROPOUT, True, D, DV, BLOCK_N, BLOCK_D, BLOCK_DV,
    )  # fmt: skip
    out_ptrs = grad_q + batch * xb + head * xh + query[:, None] * xm + d[None, :]
    tl.store(
        out_ptrs, convert(total * factor, grad_q.dtype.element_ty), mask=exists[:, None] & (d < D)[None, :]
    )


declare(
    row_products,
    why=STREAMING,
    tile=("BLOCK_M", "BLOCK_DV"),
    dtypes=("fp32", "bf16", "fp16"),
    configurations=(Configuration((32, 64)),),
    smaller=True,
    operations="2 h l dv",
    traffic="2 h l dv itemsize + 4 h l",
    loads=("grad", "out"),
)
declare(
    attention_backward_keys,
    why="see each configuration; bound by products, a tile by the registers of its two sums",
    operand="q",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_DV"),
    dtypes={("bf16", "fp16"): KEYS_HALF, ("fp32",): KEYS_SINGLES},
    smaller=True,
    operations="4 h l s (d + dv), half of it under a causal mask",
    traffic="2 g s (d + dv) itemsize, and queries and gradients for every tile of keys that does not find them in L2",
    loads=("q", "k", "v", "grad"),
    stores=("grad_k", "grad_v"),
    tensor_cores=("bf16", "fp16"),
    exact=("fp32",),
)
declare(
    attention_backward_queries,
    why="see each configuration; bound by products, a tile by the registers of its sums",
    operand="q",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_DV"),
    dtypes={("bf16", "fp16"): QUERIES_HALF, ("fp32",): QUERIES_SINGLES},
    smaller=True,
    operations="2 h l s (2 d + dv), half of it under a causal mask",
    traffic="h l (2 d + dv) itemsize, and keys and values for every tile of queries that does not find them in L2",
    loads=("q", "k", "v", "grad"),
    stores=("grad_q",),
    tensor_cores=("bf16", "fp16"),
    exact=("fp32",),
)
