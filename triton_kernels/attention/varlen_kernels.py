"""Kernels of attention over sequences, packed, paged or batched, and over windows: forward, keys, queries.

Tiles are those of `forward_kernels` and `backward_kernels`, whose loops these kernels call, with the same
numerics. A tile never has rows of two sequences. The last query of a sequence is at the position of its last
key: a query at position p sees the keys from p - left (if LEFT) to p + right (if RIGHT). Kernels skip tiles
of keys outside of that window, and mask tiles that cross an edge. A query that sees no key gives zeros, and
minus infinity as its logsumexp.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import declare
from ..conversion import convert
from .backward_kernels import keys_from_queries, queries_from_keys
from .forward_kernels import attend
from .scores import load_tile
from .sequences import (
    has_wrong_bounds,
    has_wrong_counts,
    has_wrong_pages,
    line_of,
    offset_of,
    place_of_tile,
)
from .tiles import VARLEN_FORWARD, VARLEN_KEYS, VARLEN_QUERIES


@triton.jit
def keys_seen(
    place, last, length_k, left, right, LEFT: tl.constexpr, RIGHT: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Return the key ranges (begin, inner, middle, stop) of the queries at positions from `place` to `last`.

    The queries attend to keys from `begin` to `stop`; all of them attend to all keys from `inner` to `middle`.
    Tiles of BLOCK_N start at `begin`, and all but the last tile of each range are full.
    """
    begin, inner, stop, all_stop = 0, 0, length_k, length_k
    if RIGHT:
        stop = tl.minimum(tl.maximum(last + right + 1, 0), length_k)
        all_stop = tl.minimum(tl.maximum(place + right + 1, 0), length_k)
    if LEFT:
        begin = tl.minimum(tl.maximum(place - left, 0), stop) // BLOCK_N * BLOCK_N
        all_begin = tl.maximum(last - left, 0)
        inner = tl.minimum(tl.cdiv(all_begin, BLOCK_N) * BLOCK_N, stop)
    middle = inner + tl.maximum(all_stop - inner, 0) // BLOCK_N * BLOCK_N
    return begin, inner, middle, stop


@triton.jit
def varlen_attention(
    q,
    k,
    v,
    starts_q,
    starts_k,
    used,
    table,
    out,
    logsumexp,
    tops,
    flags,
    length_q,
    length_k,
    heads,
    group,
    sequences,
    left,
    right,
    page_size,
    n_pages,
    entries,
    qb,
    qh,
    qm,
    kb,
    kh,
    kn,
    vb,
    vh,
    vn,
    ob,
    oh,
    om,
    scale,
    RAW: tl.constexpr,
    WHOLE: tl.constexpr,
    SHARED: tl.constexpr,
    LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
    SPLIT: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Compute attention for a block of a sequence's queries of one head, or if SHARED of all heads that share keys;
    if SPLIT, over one of as many parts of the keys that they see as the grid's second dimension has.

    `length_q` and `length_k` are the total rows of the packed sequences. In a block of SHARED heads, the heads of a
    query are adjacent, so keys are read once for all of them. `out`, `logsumexp` and `tops` of a split are each part's
    sum of weighted values, sum of weights and maximum, by lines.

    Without `starts_q`, sequences are batched. Without `starts_k` alone, each sequence has `length_k` keys in the
    pages that its row of `entries` in `table` lists. `used` limits the keys of each sequence. The first program
    reports wrong bounds and counts; the programs of the first head report wrong pages among those that they read.
    """
    own_heads = heads // group if SHARED else heads
    tiles = tl.num_programs(0) // own_heads
    program = tl.program_id(0)
    part = tl.program_id(1) if SPLIT else 0
    if program + part == 0:
        if starts_q is not None:
            tl.store(flags, 1, mask=has_wrong_bounds(starts_q, sequences, length_q, CHUNK))
        if starts_k is not None:
            tl.store(flags + 1, 1, mask=has_wrong_bounds(starts_k, sequences, length_k, CHUNK))
        if used is not None:
            tl.store(flags + 2, 1, mask=has_wrong_counts(used, starts_k, sequences, length_k, CHUNK))
    head = (program // tiles).to(tl.int64)
    head_k = head if SHARED else head // group
    # The longest rows of a window without a left edge first.
    tile = tiles - 1 - program % tiles
    QUERIES: tl.constexpr = BLOCK_M // SHARED if SHARED else BLOCK_M
    sequence, start, first_q, own_q, first_k, own_k = place_of_tile(
        starts_q, starts_k, sequences, length_q, length_k, tile, QUERIES, CHUNK
    )
    if used is not None:
        count = tl.load(used + sequence, mask=sequence < sequences, other=0)
        own_k = tl.minimum(tl.maximum(count, 0), own_k)
    query = start + tl.arange(0, BLOCK_M)
    if SHARED:
        head *= group
        of_group = tl.arange(0, BLOCK_M) % SHARED
        query = tl.where(of_group < group, start + tl.arange(0, BLOCK_M) // SHARED, own_q)
    row_mask = query < own_q
    q += head * qh + offset_of(starts_q, sequence, first_q, qb, qm)
    k += head_k * kh
    v += head_k * vh
    if table is None:
        k += offset_of(starts_k, sequence, first_k, kb, kn)
        v += offset_of(starts_k, sequence, first_k, vb, vn)
    else:
        table += sequence.to(tl.int64) * entries
    d, dv = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    if SHARED:
        x = load_tile(q + (of_group * qh)[:, None], query[:, None], d[None, :], qm, own_q, D, BLOCK_D, True)
    else:
        x = load_tile(q, query[:, None], d[None, :], qm, own_q, D, BLOCK_D, True)
    shift = own_k - own_q
    begin, inner, middle, stop = keys_seen(
        start + shift,
        tl.minimum(start + QUERIES, own_q) - 1 + shift,
        own_k,
        left,
        right,
        LEFT,
        RIGHT,
        BLOCK_N,
    )
    seen = begin
    if LEFT:
        seen = tl.maximum(start + shift - left, 0)
    if SPLIT:
        per_part = tl.cdiv(tl.cdiv(stop - begin, BLOCK_N), tl.num_programs(1)) * BLOCK_N
        begin = tl.minimum(begin + part * per_part, stop)
        stop = tl.minimum(begin + per_part, stop)
        inner = tl.minimum(tl.maximum(inner, begin), stop)
        middle = tl.minimum(tl.maximum(middle, inner), stop)
        seen = tl.maximum(seen, begin)
    if table is not None:
        page, end_page = seen // page_size, tl.cdiv(stop, page_size)
        if head_k == 0:
            wrong = has_wrong_pages(table, page, end_page, n_pages, CHUNK)
            tl.store(flags + 3, 1, mask=wrong)
    latest = query
    if RIGHT:
        latest = query + (shift + right)
    earliest = None
    if LEFT:
        earliest = query + (shift - left)
    total = tl.zeros((BLOCK_M, BLOCK_DV), tl.float32)
    row_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    sums = tl.zeros((BLOCK_M,), tl.float32)
    if LEFT:
        total, row_max, sums = attend(
            total, row_max, sums, x, k, v, None, query, latest, earliest, query, begin, inner, own_k, kn, vn, 0, table,
            page_size, n_pages, kb, vb, scale, 0, 0, 0, 0, RAW, RIGHT, False, True, WHOLE, D, DV, BLOCK_N, BLOCK_D,
            BLOCK_DV,
        )  # fmt: skip
    total, row_max, sums = attend(
        total, row_max, sums, x, k, v, None, query, latest, earliest, query, inner, middle, own_k, kn, vn, 0, table,
        page_size, n_pages, kb, vb, scale, 0, 0, 0, 0, RAW, RIGHT, False, False, WHOLE, D, DV, BLOCK_N, BLOCK_D,
        BLOCK_DV,
    )  # fmt: skip
    total, row_max, sums = attend(
        total, row_max, sums, x, k, v, None, query, latest, earliest, query, middle, stop, own_k, kn, vn, 0, table,
        page_size, n_pages, kb, vb, scale, 0, 0, 0, 0, RAW, RIGHT, False, True, WHOLE, D, DV, BLOCK_N, BLOCK_D,
        BLOCK_DV,
    )  # fmt: skip
    if RAW:
        row_max *= scale
    line = line_of(starts_q, sequence, first_q, head, heads, length_q) + query
    if SHARED:
        line += of_group * length_q
    mask = row_mask[:, None] & (dv < DV)[None, :]
    if SPLIT:
        batches = sequences if starts_q is None else 1
        line += part.to(tl.int64) * batches * heads * length_q
        tl.store(out + line[:, None] * DV + dv[None, :], total, mask=mask)
        tl.store(logsumexp + line, sums, mask=row_mask)
        tl.store(tops + line, row_max, mask=row_mask)
    else:
        empty = sums == 0
        factor = tl.div_rn(1.0, tl.where(empty, 1.0, sums))
        out_ptrs = (
            out
            + head * oh
            + offset_of(starts_q, sequence, first_q, ob, om)
            + query[:, None] * om
            + dv[None, :]
        )
        if SHARED:
            out_ptrs += (of_group * oh)[:, None]
        tl.store(out_ptrs, convert(total * factor[:, None], out.dtype.element_ty), mask=mask)
        value = tl.where(empty, float("-inf"), (row_max + tl.log2(sums)) * 0.6931471805599453)
        tl.store(logsumexp + line, value, mask=row_mask)


@triton.jit
def varlen_backward_keys(
    q,
    k,
    v,
    grad,
    starts_q,
    starts_k,
    logsumexp,
    delta,
    grad_k,
    grad_v,
    length_q,
    length_k,
    heads,
    group,
    sequences,
    left,
    right,
    qb,
    qh,
    qm,
    kb,
    kh,
    kn,
    vb,
    vh,
    vn,
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
    LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Compute the gradients of a block of a sequence's keys and values; skip a gradient that is None."""
    KEYS: tl.constexpr = grad_k is not None
    VALUES: tl.constexpr = grad_v is not None
    WINDOW: tl.constexpr = LEFT or RIGHT
    tiles = tl.num_programs(0) // (heads // group)
    program = tl.program_id(0)
    head_k = (program // tiles).to(tl.int64)
    sequence, start, first_k, own_k, first_q, own_q = place_of_tile(
        starts_k, starts_q, sequences, length_k, length_q, program % tiles, BLOCK_N, CHUNK
    )
    key = start + tl.arange(0, BLOCK_N)
    d, dv = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    k += head_k * kh + offset_of(starts_k, sequence, first_k, kb, kn)
    x = load_tile(k, key[:, None], d[None, :], kn, own_k, D, BLOCK_D, True)
    z = x
    if KEYS:
        v += head_k * vh + offset_of(starts_k, sequence, first_k, vb, vn)
        z = load_tile(v, key[:, None], dv[None, :], vn, own_k, DV, BLOCK_DV, True)
    head = head_k * group
    q += head * qh + offset_of(starts_q, sequence, first_q, qb, qm)
    grad += head * gh + offset_of(starts_q, sequence, first_q, gb, gm)
    shift = own_k - own_q
    low, high = 0, own_q
    earliest, latest = key, None
    if RIGHT:
        low = tl.minimum(tl.maximum(start - shift - right, 0), own_q) // BLOCK_M * BLOCK_M
        earliest = key - (shift + right)
    if LEFT:
        last = tl.minimum(start + BLOCK_N, own_k) - 1
        high = tl.minimum(tl.maximum(last - shift + left + 1, 0), own_q)
        latest = key - (shift - left)
    keys = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    values = tl.zeros((BLOCK_N, BLOCK_DV), tl.float32)
    line = line_of(starts_q, sequence, first_q, head, heads, length_q)
    keys, values = keys_from_queries(
        keys, values, x, z, q, grad, None, logsumexp, delta, line, length_q, earliest, latest, low, high, own_q, own_k,
        group, qh, qm, gh, gm, 0, 0, 0, scale, 0, 0, 0, 0, 1.0, KEYS, VALUES, WINDOW, RIGHT, False,
        D, DV, BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_DV,
    )  # fmt: skip
    # Not `key < own_k`, since the predicates of the loads would be kept over the loop, and spilled there.
    inside = (key - own_k < 0)[:, None]
    if KEYS:
        out_ptrs = (
            grad_k
            + head_k * yh
            + offset_of(starts_k, sequence, first_k, yb, yn)
            + key[:, None] * yn
            + d[None, :]
        )
        tl.store(out_ptrs, convert(keys * factor, grad_k.dtype.element_ty), mask=inside & (d < D)[None, :])
    if VALUES:
        out_ptrs = (
            grad_v
            + head_k * zh
            + offset_of(starts_k, sequence, first_k, zb, zn)
            + key[:, None] * zn
            + dv[None, :]
        )
        tl.store(out_ptrs, convert(values, grad_v.dtype.element_ty), mask=inside & (dv < DV)[None, :])


@triton.jit
def varlen_backward_queries(
    q,
    k,
    v,
    grad,
    starts_q,
    starts_k,
    logsumexp,
    delta,
    grad_q,
    length_q,
    length_k,
    heads,
    group,
    sequences,
    left,
    right,
    qb,
    qh,
    qm,
    kb,
    kh,
    kn,
    vb,
    vh,
    vn,
    gb,
    gh,
    gm,
    xb,
    xh,
    xm,
    scale,
    factor,
    LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Compute the gradients of a block of a sequence's queries of one head."""
    tiles = tl.num_programs(0) // heads
    program = tl.program_id(0)
    head = (program // tiles).to(tl.int64)
    tile = tiles - 1 - program % tiles
    sequence, start, first_q, own_q, first_k, own_k = place_of_tile(
        starts_q, starts_k, sequences, length_q, length_k, tile, BLOCK_M, CHUNK
    )
    query = start + tl.arange(0, BLOCK_M)
    exists = query < own_q
    d, dv = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    q += head * qh + offset_of(starts_q, sequence, first_q, qb, qm)
    grad += head * gh + offset_of(starts_q, sequence, first_q, gb, gm)
    k += head // group * kh + offset_of(starts_k, sequence, first_k, kb, kn)
    v += head // group * vh + offset_of(starts_k, sequence, first_k, vb, vn)
    x = load_tile(q, query[:, None], d[None, :], qm, own_q, D, BLOCK_D, True)
    g = load_tile(grad, query[:, None], dv[None, :], gm, own_q, DV, BLOCK_DV, True)
    line = line_of(starts_q, sequence, first_q, head, heads, length_q)
    lse = tl.load(logsumexp + line + query, mask=exists, other=float("inf"))
    lse = tl.where(lse == float("-inf"), float("inf"), lse) * 1.4426950408889634
    relative = tl.load(delta + line + query, mask=exists, other=0)
    shift = own_k - own_q
    begin, _, middle, stop = keys_seen(
        start + shift,
        tl.minimum(start + BLOCK_M, own_q) - 1 + shift,
        own_k,
        left,
        right,
        LEFT,
        RIGHT,
        BLOCK_N,
    )
    latest = query
    if RIGHT:
        latest = query + (shift + right)
    earliest = None
    if LEFT:
        earliest = query + (shift - left)
    total = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    if LEFT:
        middle = begin
    else:
        total = queries_from_keys(
            total, x, g, k, v, None, query, lse, relative, query, latest, earliest, begin, middle, own_k, kn, vn, 0,
            scale, 0, 0, 0, 0, 1.0, RIGHT, False, False, D, DV, BLOCK_N, BLOCK_D, BLOCK_DV,
        )  # fmt: skip
    total = queries_from_keys(
        total, x, g, k, v, None, query, lse, relative, query, latest, earliest, middle, stop, own_k, kn, vn, 0,
        scale, 0, 0, 0, 0, 1.0, RIGHT, False, True, D, DV, BLOCK_N, BLOCK_D, BLOCK_DV,
    )  # fmt: skip
    out_ptrs = (
        grad_q + head * xh + offset_of(starts_q, sequence, first_q, xb, xm) + query[:, None] * xm + d[None, :]
    )
    tl.store(
        out_ptrs, convert(total * factor, grad_q.dtype.element_ty), mask=exists[:, None] & (d < D)[None, :]
    )


declare(
    varlen_attention,
    why="see each configuration; bound by products and exponentials, a tile by the registers of its sums",
    operand="q",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_DV"),
    dtypes={("bf16", "fp16"): VARLEN_FORWARD},
    smaller=True,
    operations="2 h l s (d + dv) for each sequence, of a window's keys alone, and as many exponentials as scores",
    traffic="h l (d + dv) itemsize + 4 h l, and keys and values for every tile of queries that misses them in L2",
    loads=("q", "k", "v"),
    stores=("out",),
    tensor_cores=("bf16", "fp16"),
)
declare(
    varlen_backward_keys,
    why="see each configuration; bound by products, a tile by the registers of its two sums",
    operand="q",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_DV"),
    dtypes={("bf16", "fp16"): VARLEN_KEYS},
    smaller=True,
    operations="4 h l s (d + dv) for each sequence, of a window's queries alone",
    traffic="2 g s (d + dv) itemsize, and queries and gradients for every tile of keys that does not find them in L2",
    loads=("q", "k", "v", "grad"),
    stores=("grad_k", "grad_v"),
    tensor_cores=("bf16", "fp16"),
)
declare(
    varlen_backward_queries,
    why="see each configuration; bound by products, a tile by the registers of its sums",
    operand="q",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_DV"),
    dtypes={("bf16", "fp16"): VARLEN_QUERIES},
    smaller=True,
    operations="2 h l s (2 d + dv) for each sequence, of a window's keys alone",
    traffic="h l (2 d + dv) itemsize, and keys and values for every tile of queries that does not find them in L2",
    loads=("q", "k", "v", "grad"),
    stores=("grad_q",),
    tensor_cores=("bf16", "fp16"),
)
