"""Attention in packed sequences of different lengths, one sequence after the other, of keys in pages too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ...dispatch.structured.meta.varlen_attention import WRONG_COUNTS, WRONG_PAGES, WRONG_STARTS
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..plain_numpy import np
from .sequences import WindowedAttention


class Sequence(NamedTuple):
    """A sequence's number, its rows in queries and in packed keys, and how many keys count."""

    number: int
    queries: slice
    keys: slice
    count: int


def _windowed(call: StructuredCall) -> WindowedAttention:
    query, key = call.args["query"], call.args["key"]
    return WindowedAttention(query, query.sizes[1], key.sizes[-2], call.extra["window"])


def _check_starts(argument: str, starts: Any, rows: int) -> None:
    if starts[0] != 0 or (starts[1:] < starts[:-1]).any() or starts[-1] > rows:
        raise RuntimeError(f"varlen_attn: {WRONG_STARTS.format(argument=argument, rows=rows)}")


def _sequences(starts_q: Any, rows_q: int, starts_k: Any, rows_k: int, used: Any) -> Iterator[Sequence]:
    """Yield every sequence that has queries and keys; without `starts_k` each has room for `rows_k` keys.

    Raises RuntimeError for invalid offsets and counts.
    """
    _check_starts("cu_seq_q", starts_q, rows_q)
    if starts_k is None:
        first_keys, lengths = np.zeros_like(used), np.full_like(used, rows_k)
    else:
        _check_starts("cu_seq_k", starts_k, rows_k)
        first_keys, lengths = starts_k[:-1], starts_k[1:] - starts_k[:-1]
    if used is not None:
        if ((used < 0) | (used > lengths)).any():
            raise RuntimeError(f"varlen_attn: {WRONG_COUNTS}")
        lengths = used
    bounds = (each.tolist() for each in (starts_q[:-1], starts_q[1:], first_keys, lengths))
    for number, (first, end, first_k, count) in enumerate(zip(*bounds, strict=True)):
        if end > first and count:
            yield Sequence(number, slice(first, end), slice(first_k, first_k + count), count)


class Pages:
    """The pages in which the keys of sequences lie: (pages, page size, heads, width)."""

    def __init__(self, call: StructuredCall) -> None:
        self.pool, self.size = call.args["key"].sizes[:2]
        self.left = call.extra["window"][0]

    def seen(self, table: Any, one: Sequence) -> tuple[int, Any]:
        """Return the first page that a sequence's queries read, and the page numbers from it on.

        Raises RuntimeError for page numbers outside the pool.
        """
        queries = one.queries.stop - one.queries.start
        first = max(one.count - queries - self.left, 0) // self.size if self.left >= 0 else 0
        numbers = table[one.number, first : -(-one.count // self.size)]
        if ((numbers < 0) | (numbers >= self.pool)).any():
            raise RuntimeError(f"varlen_attn: {WRONG_PAGES.format(pages=self.pool)}")
        return first, numbers

    def rows(self, array: Any, first: int, numbers: Any, count: int) -> Any:
        """Return a sequence's keys or values (count, heads, width); rows before the first page are unread zeros."""
        before = np.zeros((first * self.size, *array.shape[2:]), array.dtype)
        return np.concatenate([before, array[numbers].reshape(-1, *array.shape[2:])])[:count]


def attention(call: StructuredCall) -> PlannedKernel:
    """Compute softmax(scale * query @ key^T) @ value of each sequence, and the logarithm of each row's sum."""
    how, pages = _windowed(call), None
    rows_q, rows_k = call.args["query"].sizes[0], call.args["key"].sizes[0]
    if call.args["block_table"] is not None:
        pages = Pages(call)
        rows_k = call.args["block_table"].sizes[1] * pages.size

    def into(
        out: Any,
        logsumexp: Any,
        query: Any,
        key: Any,
        value: Any,
        starts_q: Any,
        starts_k: Any,
        scale: float,
        used: Any,
        table: Any,
    ) -> None:
        out.fill(0)
        logsumexp.fill(-np.inf)
        for one in _sequences(starts_q, rows_q, None if pages else starts_k, rows_k, used):
            if pages is None:
                own_key, own_value = key[one.keys], value[one.keys]
            else:
                first, numbers = pages.seen(table, one)
                own_key, own_value = (pages.rows(x, first, numbers, one.count) for x in (key, value))
            rows = one.queries
            how.forward(out[rows], logsumexp[:, rows], query[rows], own_key, own_value, scale)

    return PlannedKernel(quietly(into))


def attention_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradients of query, key and value for each sequence."""
    how = _windowed(call)
    rows_q, rows_k = call.args["query"].sizes[0], call.args["key"].sizes[0]

    def into(
        grad_query: Any,
        grad_key: Any,
        grad_value: Any,
        grad: Any,
        query: Any,
        key: Any,
        value: Any,
        out: Any,
        logsumexp: Any,
        starts_q: Any,
        starts_k: Any,
        scale: float,
    ) -> None:
        for made in (grad_query, grad_key, grad_value):
            made.fill(0)
        for one in _sequences(starts_q, rows_q, starts_k, rows_k, None):
            rows, keys = one.queries, one.keys
            made = (grad_query[rows], grad_key[keys], grad_value[keys])
            given = (grad[rows], query[rows], key[keys], value[keys], out[rows], logsumexp[:, rows])
            how.backward(*made, *given, scale)

    return PlannedKernel(quietly(into))


def _batches(how: Callable[..., None]) -> Callable[..., None]:
    """`how` of each batch: operands (B, H, L, E) as (L, H, E), statistics (B, H, L) as (H, L)."""

    def into(*args: Any) -> None:
        *arrays, scale = args
        for batch in range(len(arrays[0])):
            how(*(x[batch].swapaxes(0, 1) if x.ndim == 4 else x[batch] for x in arrays), scale)

    return quietly(into)


def _windowed_of_batches(call: StructuredCall) -> WindowedAttention:
    query, key = call.args["query"], call.args["key"]
    return WindowedAttention(query, query.sizes[1], key.sizes[1], call.extra["window"])


def sliding_window(call: StructuredCall) -> PlannedKernel:
    """Compute softmax(scale * query @ key^T) @ value in a window, of each batch."""
    if not call.args["key"].sizes[2]:
        return PlannedKernel(_nothing_seen)
    return PlannedKernel(_batches(_windowed_of_batches(call).forward))


def _nothing_seen(out: Any, logsumexp: Any, *_: Any) -> None:
    out.fill(0)
    logsumexp.fill(-np.inf)


def sliding_window_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradients of query, key and value for each batch."""
    return PlannedKernel(_batches(_windowed_of_batches(call).backward))


register_stub("varlen_attn_stub", "cpu", attention)
register_stub("varlen_attn_backward_stub", "cpu", attention_backward)
register_stub("sliding_window_attn_stub", "cpu", sliding_window)
register_stub("sliding_window_attn_backward_stub", "cpu", sliding_window_backward)
