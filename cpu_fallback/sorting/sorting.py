"""Sorting, and selection by rank. Keys are unsigned integers in the order of sorting, as on the device.

NaN is above all numbers, -0.0 equals 0.0, and of equal elements the one with the lowest index comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ...runtime.scalar_type import bool_
from ...runtime.scalar_type import dtype as ScalarType
from ..elementwise.vector_passes import square_sum
from ..plain_numpy import np

Lines = Callable[[Any], Any]

THREADS_FROM = 1 << 17
"""Elements from which lines are shared among threads: sorting them takes longer than handing them over."""

PART = 1 << 19
"""Elements that a thread takes at least of so many: selection is a chain of short calls, in which threads that both
come back to Python wait for each other."""


def ordered_keys(dtype: ScalarType, descending: bool = False) -> Lines:
    """Return a function from an array to unsigned sort keys; descending keys keep the order of equal elements."""
    word = np.dtype(f"u{dtype.itemsize}")
    signed_word = np.dtype(f"i{dtype.itemsize}")
    bits_below_sign = 8 * dtype.itemsize - 1
    sign = word.type(1 << bits_below_sign)
    last = ~word.type(0)
    signed = dtype is not bool_ and dtype.is_signed
    infinity = np.array(np.inf, dtype.np).view(word)[()] if dtype.is_floating_point else None
    if dtype.np.kind == "f" and dtype.itemsize >= 4:
        return _wide_float_keys(dtype.np, descending)

    def keys(array: Any) -> Any:
        bits = np.ascontiguousarray(array).view(word)
        if infinity is not None:
            # Invert all bits of negative numbers and the sign of others; -0.0 sorts right below 0.0.
            turned = bits.view(signed_word) >> bits_below_sign
            key = turned.view(word)
            key |= sign
            key ^= bits
            key += key == sign - 1
            magnitude = bits & ~sign
            if magnitude.size and magnitude.max() > infinity:
                key[magnitude > infinity] = last
        else:
            key = bits ^ sign if signed else bits
        return ~key if descending else key

    return keys


def _wide_float_keys(np_dtype: Any, descending: bool) -> Lines:
    """`ordered_keys` of float32 and float64: a sum with 0.0 makes both zeros one, a difference turns the order over."""
    word, signed_word = np.dtype(f"u{np_dtype.itemsize}"), np.dtype(f"i{np_dtype.itemsize}")
    bits_below_sign = 8 * np_dtype.itemsize - 1
    sign = word.type(1 << bits_below_sign)
    zero = np_dtype.type(0)
    of_nan = word.type(0) if descending else ~word.type(0)

    def keys(array: Any) -> Any:
        plain = np.ascontiguousarray(np.subtract(zero, array) if descending else np.add(array, zero))
        key = (plain.view(signed_word) >> bits_below_sign).view(word)
        key |= sign
        key ^= plain.view(word)
        line = plain.reshape(-1)
        if not square_sum(line, line) >= 0:
            key[np.isnan(plain)] = of_nan
        return key

    return keys


def packed(keys: Any) -> tuple[Any, Any] | None:
    """Pack each key with its index in the low bits of one unsigned integer; return the integers and the index
    mask.

    Sorting these is stable, needs no separate indices, and runs in NumPy's vector sort. Return None if the
    range of keys leaves no bits for the index.
    """
    n = keys.shape[1]
    place_bits = max(n - 1, 1).bit_length()
    key_bits = 8 * keys.dtype.itemsize
    if key_bits + place_bits > 64:
        low, high = keys.min(), keys.max()
        key_bits = int(high - low).bit_length()
        if key_bits + place_bits > 64:
            return None
        keys = keys - low
    word: Any = np.uint32 if key_bits + place_bits <= 32 else np.uint64
    joined = keys.astype(word)
    joined <<= word(place_bits)
    joined |= np.arange(n, dtype=word)
    return joined, word((1 << place_bits) - 1)


def stable_order(keys: Any) -> Any:
    """Return the stable argsort of each line's keys."""
    with_places = packed(keys)
    if with_places is not None:
        joined, mask = with_places
        joined.sort(1)
        joined &= mask
        return joined.astype(np.int64)
    # NumPy's quick argsort leaves equal keys in any order: the runs of equal ones are numbered and sorted again.
    order = np.argsort(keys, 1)
    ranked = np.take_along_axis(keys, order, 1)
    differs = ranked[:, 1:] != ranked[:, :-1]
    if differs.all():
        return order
    runs = np.zeros(keys.shape, np.uint64)
    np.cumsum(differs, 1, out=runs[:, 1:])
    place_bits = np.uint64(max(keys.shape[1] - 1, 1).bit_length())
    runs <<= place_bits
    runs |= order.view(np.uint64)
    runs.sort(1)
    runs &= (np.uint64(1) << place_bits) - np.uint64(1)
    return runs.view(np.int64)


SMALL = 1 << 11
"""Limit below which one call of NumPy's stable argsort takes less time than making keys."""


def sorts_as_it_is(dtype: ScalarType) -> bool:
    """Return True if NumPy's order of the dtype matches this package's."""
    return dtype is not bool_ and not (dtype.is_floating_point and dtype.itemsize < 4)


def ordering(dtype: ScalarType, descending: bool) -> Lines:
    """Return the function from lines to their stable argsort."""
    keys_of = ordered_keys(dtype, descending)
    is_float = dtype.is_floating_point
    as_it_is = sorts_as_it_is(dtype)

    def order(lines: Any) -> Any:
        if not as_it_is or lines.size > SMALL:
            return stable_order(keys_of(lines))
        if not descending:
            return lines.argsort(1, "stable")
        if not is_float:
            return np.invert(lines).argsort(1, "stable")
        return lines.shape[1] - 1 - lines[:, ::-1].argsort(1, "stable")[:, ::-1]

    return order


def check_ordered(call: StructuredCall) -> ScalarType:
    """Return the dtype of the input. Raise NotImplementedError for a dtype without an order."""
    spec = call.args["self"]
    dtype: ScalarType = spec.dtype
    if dtype.is_complex or (dtype.is_floating_point and dtype.itemsize == 1):
        raise call.refuse(spec)
    return dtype


def over_lines(
    call: StructuredCall, run: Callable[[Any], Any], threads_from: int = THREADS_FROM
) -> PlannedKernel:
    """Return the kernel that passes `run` a matrix of lines, and gathers at the matrix of indices that it
    returns.

    `run` returns any number of indices for each line. Threads share calls of at least `threads_from`
    elements.
    """
    spec = call.args["self"]
    dim: int | None = call.extra["dim"]
    is_last = dim is not None and dim == spec.ndim - 1

    def into(*data: Any) -> None:
        outs, array = data[:-1], data[-1]
        if not outs[0].size:
            return
        turned = (
            array.reshape(1, -1)
            if dim is None or not spec.ndim
            else array
            if is_last
            else np.moveaxis(array, dim, -1)
        )
        lines = np.ascontiguousarray(turned).reshape(-1, turned.shape[-1])
        count, length = lines.shape

        def some(first: int, last: int) -> tuple[Any, Any]:
            indices = run(lines[first:last])
            flat = (
                indices
                if last - first == 1
                else indices + np.arange(0, (last - first) * length, length)[:, None]
            )
            return lines[first:last].reshape(-1).take(flat), indices

        if count * length < threads_from or count == 1:
            results = some(0, count)
        else:
            pieces: dict[int, tuple[Any, Any]] = {}

            def part(first: int, last: int) -> None:
                pieces[first] = some(first, last)

            parallel_for(0, count, max(1, min(PART // length, count // 2)), part)
            results = tuple(np.concatenate([pieces[i][j] for i in sorted(pieces)]) for j in (0, 1))
        for out, result in zip(outs, results, strict=False):
            if out.ndim == spec.ndim and spec.ndim and not is_last:
                result = np.moveaxis(result.reshape(*turned.shape[:-1], -1), -1, dim)
            np.copyto(out, result.reshape(out.shape))

    return PlannedKernel(quietly(into))


def sort(call: StructuredCall) -> PlannedKernel:
    """Sort all elements."""
    spec = call.args["self"]
    if spec.numel <= SMALL and sorts_as_it_is(spec.dtype):
        chosen("NumPy's stable argsort", "{} elements are at most {}", spec.numel, SMALL)
    else:
        why = "{} elements are more than {}, or NumPy has no order of {}"
        chosen("keys with their places", why, spec.numel, SMALL, spec.dtype.name)
    return over_lines(call, ordering(check_ordered(call), call.args["descending"]))


SHORT = 1 << 7
"""The longest line of which all places are sorted sooner than the first are sought."""
SELECTED = 16
"""Ratio of a line's length to `k` from which its first `k` are selected among the elements beyond a bound."""
SELECTION_SHARED = 1 << 20
"""Elements from which that is shared among threads: it is many short passes, between which they wait for each other."""
HALVINGS = 5
"""Maximum number of times that a line is halved to find a bound."""


def candidates(lines: Any, k: int, largest: bool) -> tuple[Any, Any] | None:
    """Return indices and values of the candidates for each line's first `k`, in index order, or None if there
    are many.

    Each line has k groups whose extrema are beyond the k-th best of all groups' extrema, so at least k
    elements. Lines with fewer candidates than others are padded with values that sort last.
    """
    count, length = lines.shape
    extremum = np.maximum if largest else np.minimum
    extrema = lines
    for _ in range(min((length // (4 * k)).bit_length() - 1, HALVINGS)):
        half = extrema.shape[1] // 2
        extrema = extremum(extrema[:, :half], extrema[:, half : 2 * half])
    rank = extrema.shape[1] - k if largest else k - 1
    extrema.partition(rank, 1)
    bound = extrema[:, rank : rank + 1]
    if largest:
        is_beyond = lines < bound  # false of NaN, which is above all numbers
        np.logical_not(is_beyond, is_beyond)
    else:
        is_beyond = lines <= bound
    flat = np.flatnonzero(is_beyond)
    line, index = np.divmod(flat, length)
    counts = np.bincount(line, minlength=count)
    max_count = counts.max()
    if counts.min() < k or max_count > length // 4:
        return None
    nth = np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)
    indices = np.zeros((count, max_count), np.int64)
    indices[line, nth] = index
    if lines.dtype.kind == "f":
        last = -np.inf if largest else np.nan
    else:
        last = np.iinfo(lines.dtype).min if largest else np.iinfo(lines.dtype).max
    values = np.full((count, max_count), last, lines.dtype)
    values[line, nth] = lines.reshape(-1)[flat]
    return indices, values


def topk(call: StructuredCall) -> PlannedKernel:
    """Return the first `k`, found by a partition and then sorted."""
    dtype = check_ordered(call)
    keys_of, order = ordered_keys(dtype, call.args["largest"]), ordering(dtype, call.args["largest"])
    # A number has one element, which is selected however few are wanted.
    k: int = call.args["k"] if call.args["self"].ndim else 1
    largest: bool = call.args["largest"]
    spec = call.args["self"]
    length = 1 if not spec.ndim else spec.sizes[call.extra["dim"]]
    selects = (
        dtype.np.kind in "fiu" and dtype.itemsize >= 4 and length > SHORT and 0 < k <= length // SELECTED
    )
    if spec.numel <= SMALL:
        chosen("all in order", "{} elements are at most {}", spec.numel, SMALL)
    elif selects:
        chosen("candidates beyond a bound", "{} of a line of {} are no more than a {}th", k, length, SELECTED)
    elif length <= SHORT:
        chosen("all keys in order", "lines of {} are no longer than {}", length, SHORT)
    else:
        why = "{} of a line of {} are more than a {}th, or the dtype is narrow"
        chosen("a partition of keys", why, k, length, SELECTED)

    def first(lines: Any) -> Any:
        if lines.size <= SMALL:
            return order(lines)[:, :k]
        if selects:
            selected = candidates(lines, k, largest)
            if selected is not None:
                indices, values = selected
                return np.take_along_axis(indices, order(values)[:, :k], 1)
        keys = keys_of(lines)
        with_places = packed(keys) if k < keys.shape[1] else None
        if with_places is None:
            return stable_order(keys)[:, :k]
        joined, mask = with_places
        if keys.shape[1] <= SHORT:
            joined.sort(1)
            ordered = joined[:, :k]
        else:
            joined.partition(k - 1, 1)
            ordered = np.sort(joined[:, :k], 1)
        return (ordered & mask).astype(np.int64)

    return over_lines(call, first, SELECTION_SHARED if selects else THREADS_FROM)


def of_rank(keys: Any, ranks: Any) -> Any:
    """Return the index of the element of a rank in each line, as a column; `ranks` is a number or a column."""
    with_places = packed(keys)
    if with_places is not None:
        joined, mask = with_places
        if isinstance(ranks, int):
            joined.partition(ranks, 1)
            return (joined[:, ranks : ranks + 1] & mask).astype(np.int64)
        joined.partition(np.unique(ranks), 1)
        return (np.take_along_axis(joined, ranks, 1) & mask).astype(np.int64)
    ranks = np.broadcast_to(ranks, (keys.shape[0], 1))
    parted = np.partition(keys, np.unique(ranks), 1)
    elements = np.take_along_axis(parted, ranks, 1)
    turn = ranks - (keys < elements).sum(1, keepdims=True)
    equal = keys == elements
    return np.argmax(equal & (np.cumsum(equal, 1) == turn + 1), 1)[:, None]


def kthvalue(call: StructuredCall) -> PlannedKernel:
    """Return the element of one rank."""
    dtype = check_ordered(call)
    keys_of, order = ordered_keys(dtype), ordering(dtype, False)
    rank = call.args["k"] - 1

    def found(lines: Any) -> Any:
        return order(lines)[:, rank : rank + 1] if lines.size <= SMALL else of_rank(keys_of(lines), rank)

    return over_lines(call, found)


def median(call: StructuredCall) -> PlannedKernel:
    """Return the element of the middle rank, of all elements or of those that are not NaN."""
    dtype = check_ordered(call)
    keys_of, order = ordered_keys(dtype), ordering(dtype, False)
    takes_numbers = dtype.is_floating_point and dtype.itemsize >= 4
    ignores_nan: bool = call.extra["ignores_nan"]
    if call.extra["dim"] is None and not call.args["self"].numel:
        # NaN, as a C compiler converts it to the dtype.
        whole = not dtype.is_floating_point and dtype.is_signed and dtype.itemsize >= 4
        least = np.iinfo(dtype.np).min if whole else 0
        value = np.nan if dtype.is_floating_point else least
        return PlannedKernel(lambda out, array: out.fill(value))

    def middle(lines: Any) -> Any:
        n = lines.shape[1]
        rank = (n - 1) // 2
        if lines.size <= SMALL and takes_numbers and not np.isnan(lines).any():
            return order(lines)[:, rank : rank + 1]
        keys = keys_of(lines)
        if not dtype.is_floating_point:
            return of_rank(keys, rank)
        missing = (keys == ~keys.dtype.type(0)).sum(1, keepdims=True)
        if not missing.any():
            return of_rank(keys, rank)
        if ignores_nan:
            return of_rank(keys, np.maximum(n - missing - 1, 0) // 2)
        return of_rank(keys, np.where(missing, n - missing, rank))

    general = over_lines(call, middle)
    return _median_of_all(general) if call.extra["dim"] is None and takes_numbers else general


def _median_of_all(general: PlannedKernel) -> PlannedKernel:
    """Return the kernel of the median of all elements by a partition; `general` handles NaN and zeros of both signs."""
    fill = general.into

    def into(out: Any, array: Any) -> None:
        line = array.reshape(-1)
        if square_sum(line, line) >= 0:
            rank = (len(line) - 1) // 2
            value = np.partition(line, rank)[rank]
            if value != 0:
                out.fill(value)
                return
        fill(out, array)

    return PlannedKernel(quietly(into))


for _stub, _factory in {
    "sort_stub": sort,
    "topk_stub": topk,
    "kthvalue_stub": kthvalue,
    "median_stub": median,
}.items():
    register_stub(_stub, "cpu", _factory)
