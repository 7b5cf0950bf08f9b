"""Launches of a stable radix sort of lines: one counts all digits, then one moves the elements for each of 8 bits.

The words by which programs tell each other their counts are set to zero on the stream before, which is no launch.
"""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.cuda.device_guard import device_guard
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.data_ptr import DataPtr
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import int32, int64
from ..indexing.index_bounds import allocate
from ..launch import ALIGNMENT, Launch, cdiv, integer_type
from .ordered_keys import KeyFormat
from .parts import BUCKETS, DIGIT_BITS, WARPS, WAVES, Parts, chosen_tile, tile_of
from .radix_kernels import count_every_digit, sweep_by_digit

NARROW_COUNTS = 1 << 29
"""Counts of lines this long do not fit into a word of 32 bits, beside the two bits that say what they are."""
TICKETS = 64
"""Bytes that the tickets of up to eight passes take, and the alignment of what comes behind."""


def position_dtype(n: int) -> ScalarType:
    """Return the dtype of indices in a line and of counts: int32 if it holds the line's length."""
    return int32 if integer_type(n) == "i32" else int64


def count_dtype(n: int) -> ScalarType:
    """Return the dtype of the counts of lines of this length."""
    return int32 if n < NARROW_COUNTS else int64


def passes_of(bits: int) -> int:
    """Return the number of digits of keys that differ in their lowest `bits` bits."""
    return max(cdiv(bits, DIGIT_BITS), 1)


def plan_radix(
    device: Device,
    lines: int,
    n: int,
    format_: KeyFormat,
    place_dtype: ScalarType,
    *,
    descending: bool = False,
    decoded: bool = True,
    bits: int | None = None,
    label_dtype: ScalarType | None = None,
) -> Callable[..., None]:
    """Return ``(x, values, indices[, labels[, counted_by]])``, which sorts each of `lines` contiguous lines of
    `n`.

    Args:
        format_: Format of the bits of `x`.
        place_dtype: Dtype of the indices that are written.
        decoded: If True, write elements as values instead of their keys.
        bits: Number of low bits in which keys differ; None for all.
        label_dtype: Dtype of `labels`, which are written instead of indices if given.

    Operands are bytes. ``counted_by`` is a function of the address of zeroed counts [passes, lines, digits], of
    integers of `count_dtype`, which adds up how often each digit occurs, where whoever makes `x` does that.
    """
    passes = passes_of(format_.bits if bits is None else bits)
    block = tile_of(n)
    tiles = cdiv(n, block)
    cut = Parts(lines, n, block, 2 * WAVES)
    kind = integer_type(lines * n + 2 * block)
    position, counting = position_dtype(n), count_dtype(n)
    word, order_type = f"*{format_.word}", f"*{position.triton_name}"
    count_type = f"*{counting.triton_name}"
    common = {
        **format_.constants(),
        "DESCENDING": descending,
        "INDEX": tl.int32 if kind == "i32" else tl.int64,
    }

    counted = chosen_tile(count_every_digit, device, format_, lines, n, block)
    count = Launch(
        device,
        count_every_digit,
        {"x": word, "totals": count_type, "lines": "i32", **dict.fromkeys(("parts", "chunk", "n"), kind)},
        {**common, "PASSES": passes, "BITS": DIGIT_BITS, "BLOCK": counted.tile[0]},
        divisible=[name for name, value in (("chunk", cut.chunk), ("n", n)) if value % ALIGNMENT == 0],
        num_warps=counted.warps,
    )

    def sweep(encoded: bool, last: bool) -> Launch:
        decodes = last and decoded
        signature = {"x": word}
        constants: dict[str, object] = {
            **common, "BUCKETS": BUCKETS, "BLOCK": block, "ENCODED": encoded, "DECODED": decodes
        }  # fmt: skip
        for name, type_, is_given in (
            ("order", order_type, encoded),
            ("source", word, decodes and bool(format_.infinity)),
            (
                "labels",
                f"*{label_dtype.triton_name}" if label_dtype is not None else "",
                last and label_dtype is not None,
            ),
        ):
            if is_given:
                signature[name] = type_
            else:
                constants[name] = None
        signature |= dict.fromkeys(("totals", "states", "ticket"), count_type)
        signature |= {"keys": word, "places": f"*{place_dtype.triton_name}" if last else order_type}
        signature |= dict.fromkeys(("tiles", "n", "shift"), kind)
        return Launch(
            device,
            sweep_by_digit,
            signature,
            constants,
            divisible=["n"] if n % ALIGNMENT == 0 else [],
            elements=("ticket",),
            num_warps=WARPS,
        )

    sweeps = [sweep(i > 0, i == passes - 1) for i in range(min(passes, 2))]
    if passes > 1:
        sweeps = [sweeps[0], *[sweep(True, False)] * (passes - 2), sweep(True, True)]
    of_totals, of_states = (rows * BUCKETS * counting.itemsize for rows in (lines, lines * tiles))
    nbytes = TICKETS + passes * (of_totals + of_states)
    key_bytes, order_bytes = lines * n * format_.bits // 8, lines * n * position.itemsize
    looks_up = decoded and bool(format_.infinity)
    cuda, index = driver(), device.resolved_index

    def sort(
        x: DataPtr,
        values: DataPtr,
        indices: DataPtr,
        labels: DataPtr | None = None,
        counted_by: Callable[[int], None] | None = None,
    ) -> None:
        words = allocate(nbytes, device)
        with device_guard(index):
            cuda.memset(words.address, 0, nbytes, cuda.current_stream(index))
        totals = words.address + TICKETS
        states = totals + passes * of_totals
        if counted_by is None:
            count(cut.grid, x.address, totals, lines, cut.parts, cut.chunk, n)
        else:
            counted_by(totals)
        keys, order = x, None
        for i, move in enumerate(sweeps):
            last = i == passes - 1
            to_keys = values if last else allocate(key_bytes, device)
            to_order = indices if last else allocate(order_bytes, device)
            addresses = [keys.address]
            if order is not None:
                addresses.append(order.address)
            if last and looks_up:
                addresses.append(x.address)
            if last and labels is not None:
                addresses.append(labels.address)
            addresses += [
                totals + i * of_totals,
                states + i * of_states,
                words.address + i * counting.itemsize,
            ]
            move(
                (lines * tiles, 1, 1),
                *addresses,
                to_keys.address,
                to_order.address,
                tiles,
                n,
                i * DIGIT_BITS,
            )
            keys, order = to_keys, to_order

    return sort
