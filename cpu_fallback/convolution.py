"""Convolution as im2col and one matrix product for each group, a few images at a time, on several threads.

What is taken at a time depends on shapes alone, so that results do not depend on the number of threads.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ..dispatch.iterator.parallel import parallel_for
from ..dispatch.structured.native.convolution import for_each_dimension
from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.blas_threads import MATRIX_WORK
from ..runtime.memory_format import contiguous_strides, is_channels_last
from ..runtime.tensor_spec import TensorSpec
from . import convolution_rows
from .error_state import quiet
from .integer_matmul import integer_matmul
from .undispatched import np
from .widen import compute_np
from .windows import MAX_WASTE, Padding, Window
from .workspace import borrow, give_back

COLUMN_BYTES = 1 << 20
"""Columns that are made at a time: they stay in the second-level cache until the product has read them."""
GROUPED_BYTES = 2 << 20
"""The same of several groups, whose products take so little time that threads would wait for each other's Python."""
LEAST_POSITIONS = 512
"""Positions of a product, where there are so many: with fewer it is bound by reading the weight."""
LEAST_PRODUCTS = 1 << 24
"""Multiplications of a product, where its columns stay below `MOST_BYTES`: 300 us, in which nobody needs the GIL."""
MOST_BYTES = 4 << 20
ROOM_BYTES = 1 << 17
"""Columns from which memory that is kept is borrowed for one part too: it is in a cache, as fresh memory is not."""
TOTALS, TOTAL_BYTES = 8, 24 << 20
"""How many sums of the weight's gradient are made side by side, and the memory that these may take."""
FEW_POSITIONS = 1 << 10
"""Up to so many the gradient of the input is added tap by tap, which takes fewer calls."""
MORE_OUTPUTS = 2
"""How many more outputs than channels may be gathered: columns are made of the outputs, and taps added to channels."""
FEW_CHANNELS, FEW_TAPS = 32, 9
"""Fewer channels than outputs are rows of a product that are too few for the BLAS; that costs more than few taps do."""

Array = np.ndarray[Any, Any]


class Part(NamedTuple):
    """Some images, of those some groups and rows of windows: what one product takes. An index of all there is, is None.

    Everything that follows from the geometry is in it, so that a call looks nothing up.
    """

    images: slice | None
    groups: slice | None
    outputs: slice | None
    channels: slice | None
    rows: slice | None
    target: tuple[slice, ...] | None
    first_row: int
    count: int
    """How many images."""
    view: tuple[int, ...]
    """Windows as a view over the padded images: (channels, *kernel, and the positions), from the byte `start`."""
    start: int
    strides: tuple[int, ...]
    columns: tuple[int, ...]
    """(groups, depth, positions of all images)."""
    made: tuple[int, ...]
    """(outputs, images, rows, ...), the positions that mean something."""
    between: tuple[int, ...]
    """Bytes between these in a product, which has gaps where windows have runs."""


def _even(n: int, most: int) -> int:
    """Images of a block, at most `most`: so many blocks are a power of two, which threads share evenly."""
    count = 1 << (-(-n // most) - 1).bit_length()
    return -(-n // count)


def _shares_border(window: Window) -> bool:
    """Whether no window with strides of 1 meets more than one border's elements beyond a row, and there is a border."""
    return any(window.padding) and all(
        p <= (k - 1) * d and padded == n + 2 * p
        for n, k, p, d, padded in zip(
            window.spatial, window.kernel, window.padding, window.dilation, window.padded, strict=True
        )
    )


def at(array: Array, index: Any) -> Array:
    """A part of an array; itself where that is all of it, since even such a slice takes its time."""
    return array if index is None else array[index]


class Convolution:
    """The geometry of one convolution, for whichever of its three kernels.

    Columns are (groups, depth, images * run): what the taps meet at each position. With strides of 1 the
    positions of an image are a run of its padded plane, with elements between the rows of windows that mean
    nothing: `positions` and `spread` are the way between it and (images, outputs, *out). They are made for a few
    images, or for a block of one image at a time.

    Where it can be, the border is `shared`: what ends one row begins the next, and the rows of all images lie side by
    side: (channels, first dimension, images, other dimensions). Then a tap meets all images of a channel in one run,
    with 9 positions for 8 that mean something in rows of 8 with a border of 1.
    """

    def __init__(
        self, call: StructuredCall, input: tuple[int, ...], weight: tuple[int, ...], out: tuple[int, ...]
    ) -> None:
        args = call.args
        spec: TensorSpec = args["input"] if "input" in args else args["grad_output"]
        if spec.dtype.name == "bool":
            raise NotImplementedError(f"\"slow_conv2d_cpu\" not implemented for '{spec.dtype.scalar_name}'")
        rank = len(weight) - 2
        stride, padding, dilation = (
            for_each_dimension(args[name], rank) for name in ("stride", "padding", "dilation")
        )
        self.window = Window(input[2:], weight[2:], stride, padding, dilation, out[2:])
        self.n, self.channels = input[:2]
        self.outputs = weight[0]
        self.groups: int = args["groups"]
        self.rank = len(self.window.out)
        self.dtype = compute_np(spec.dtype)
        self.multiply = integer_matmul if spec.dtype.is_integral else np.matmul
        taps = math.prod(self.window.kernel)
        self.depth = self.channels // self.groups * taps
        self.is_empty = 0 in (self.n, self.outputs, self.depth, *self.window.out)
        of_rows = not self.is_empty and self.groups == 1 and self.multiply is np.matmul
        self.by_rows = (
            (self.n, self.channels, self.outputs, self.window, self.dtype)
            if of_rows and convolution_rows.has_rows(self.window)
            else None
        )
        self.has_runs = not self.is_empty and all(s == 1 for s in stride)
        self.dense = math.prod(self.window.out)
        self._lay_out(has_shared_border=self.has_runs and _shares_border(self.window))
        if self.is_shared and self.run > MAX_WASTE * self.dense:
            self._lay_out(has_shared_border=False)
        if not self.is_shared and self.has_runs:
            run = 1 + sum((o - 1) * p for o, p in zip(self.window.out, self.pitches(1), strict=True))
            self.has_runs = run <= MAX_WASTE * self.dense
            if self.has_runs:
                self.run = run
        self.is_dense = self.run == self.dense
        self.pad = self._pad_shared if self.is_shared else Padding(self.window, self.dtype)
        self.batches = [] if self.is_empty else self._batches()
        parts = [part for batch in self.batches for part in batch]
        self.has_pool = self.is_pooled(max((part.columns[2] for part in parts), default=0))
        room = max((math.prod(part.view) for part in parts), default=0)
        self.room = room if len(parts) > 1 or room * self.dtype.itemsize >= ROOM_BYTES else 0

    def _lay_out(self, has_shared_border: bool) -> None:
        window = self.window
        self.is_shared = has_shared_border
        self.lead = 1 if has_shared_border and self.rank > 1 else 0
        box = window.padded
        if has_shared_border:
            box = tuple(n + p for n, p in zip(window.spatial, window.padding, strict=True))[self.lead :]
        self.inner = contiguous_strides(box)
        self.plane = math.prod(box)
        self.rows = window.padded[0] if self.lead else 1
        self.run = math.prod(window.out[: self.lead]) * self.plane if has_shared_border else self.dense
        taps = zip(window.kernel[self.lead :], window.dilation[self.lead :], self.inner, strict=True)
        self.tail = sum((k - 1) * d * p for k, d, p in taps)

    def pitches(self, images: int) -> tuple[int, ...]:
        """Elements from one to the next of each spatial dimension, in the padded planes of so many images."""
        return (images * self.plane, *self.inner) if self.lead else self.inner

    def _batches(self) -> list[list[Part]]:
        """All parts, those of the same images together."""
        most = self.most_positions()
        out = self.window.out
        groups, rows, step = 1, out[0], 1
        if self.run <= most:
            groups = min(self.groups, most // self.run)
            if groups == self.groups:
                step = max(1, min(self.n, most // (self.run * groups)))
                is_pooled = self.is_pooled(self.run * step)
                step = _even(self.n, step) if is_pooled else -(-self.n // -(-self.n // step))
        else:
            rows = max(1, most // (self.run // out[0]))
        return [
            [
                self._part(
                    slice(n, min(n + step, self.n)),
                    slice(g, min(g + groups, self.groups)),
                    slice(row, min(row + rows, out[0])),
                )
                for g in range(0, self.groups, groups)
                for row in range(0, out[0], rows)
            ]
            for n in range(0, self.n, step)
        ]

    def _part(self, images: slice, groups: slice, rows: slice) -> Part:
        out, window = self.window.out, self.window
        each, of_group = self.channels // self.groups, self.outputs // self.groups
        m, g, r = (s.stop - s.start for s in (images, groups, rows))
        outputs = slice(groups.start * of_group, groups.stop * of_group)
        channels = slice(groups.start * each, groups.stop * each)
        size = self.dtype.itemsize
        pitch = self.pitches(m)
        down = [p * d for p, d in zip(pitch, window.dilation, strict=True)]
        shape: tuple[int, ...]
        if self.is_shared:
            of_channel, of_image = self.line(m), self.plane
            whole = r * m * self.plane if self.lead else m * self.plane - (out[0] - r) * pitch[0]
            shape, along = (whole,), (1,)
        else:
            of_channel, of_image = self.plane, self.channels * self.plane
            if self.has_runs:
                shape, along = (m, self.run - (out[0] - r) * pitch[0]), (of_image, 1)
            else:
                steps = (p * s for p, s in zip(pitch, window.stride, strict=True))
                shape, along = (m, r, *out[1:]), (of_image, *steps)
        positions = math.prod(shape)
        start = groups.start * each * of_channel + rows.start * pitch[0] * window.stride[0]
        between = contiguous_strides((g * of_group, m, r, *out[1:]))
        if self.has_runs:
            between = (positions, self.plane if self.is_shared else shape[1], *pitch)

        def unless_all(part: slice, whole: int) -> slice | None:
            return None if part.stop - part.start == whole else part

        is_whole = (m, g, r) == (self.n, self.groups, out[0])
        return Part(
            unless_all(images, self.n),
            unless_all(groups, self.groups),
            unless_all(outputs, self.outputs),
            unless_all(channels, self.channels),
            unless_all(rows, out[0]),
            None if is_whole else (images, outputs, rows),
            rows.start,
            m,
            (g * each, *window.kernel, *shape),
            start * size,
            tuple(size * n for n in (of_channel, *down, *along)),
            (g, self.depth, positions),
            (g * of_group, m, r, *out[1:]),
            tuple(size * n for n in between),
        )

    def line(self, images: int) -> int:
        """Elements of a channel of so many images, where they share their border, and of what the last taps meet."""
        return self.rows * images * self.plane + self.tail

    def inside(self, planes: Array, images: int) -> Array:
        """The images (images, channels, *spatial) in an array (channels, line) with a shared border, a view."""
        line, size, pitch = self.line(images), self.dtype.itemsize, self.pitches(images)
        first = sum(p * n for p, n in zip(self.window.padding, pitch, strict=True))
        strides = tuple(size * n for n in (self.plane, line, *pitch))
        return np.ndarray(
            (images, len(planes), *self.window.spatial), self.dtype, planes, first * size, strides
        )

    def _pad_shared(self, array: Array) -> Array:
        made = np.zeros((self.channels, self.line(len(array))), self.dtype)
        np.copyto(self.inside(made, len(array)), array, casting="unsafe")
        return made

    def most_positions(self) -> int:
        """How many positions a block has."""
        each = self.depth * self.dtype.itemsize
        many = LEAST_PRODUCTS // (self.depth * self.outputs) if self.groups == 1 else 0
        size = COLUMN_BYTES if self.groups == 1 else GROUPED_BYTES
        return max(LEAST_POSITIONS, size // each, min(many, MOST_BYTES // each))

    def over(self, batches: int, some: Callable[[int, int, Array | None], None]) -> None:
        """``some(first, last, room)`` over batches on several threads, each with room for the columns of any part.

        The room is None where a small part is all there is.
        """

        def with_room(first: int, last: int) -> None:
            room = borrow(self.room * self.dtype.itemsize) if self.room else None
            try:
                some(first, last, room)
            finally:
                if room is not None:
                    give_back(room)

        if self.has_pool:
            parallel_for(0, batches, 1, with_room)
        else:
            with_room(0, batches)

    def is_pooled(self, positions: int) -> bool:
        """Whether our pool shares the work: products of so many positions are too small for BLAS's own threads.

        Those start sooner than ours where one product follows another; but both at once wait for each other's cores.
        """
        return positions * self.depth * (self.outputs // self.groups) <= MATRIX_WORK

    def columns(self, padded: Array, part: Part, room: Array | None) -> Array:
        """The windows of a part, whose images' padded planes are given."""
        view: Array = np.ndarray(part.view, self.dtype, padded, part.start, part.strides)
        if room is None:
            return np.ascontiguousarray(view).reshape(part.columns)
        made: Array = np.ndarray(part.view, self.dtype, room)
        np.copyto(made, view)
        return made.reshape(part.columns)

    def positions(self, made: Array, part: Part) -> Array:
        """A product (groups, outputs of a group, positions) as (images, outputs, rows, ...), a view."""
        return np.ndarray(part.made, made.dtype, made, 0, part.between).swapaxes(0, 1)

    def without_gaps(self, made: Array, part: Part) -> Array:
        """Columns with zeros at the positions that mean nothing, where they may be NaN: an infinite number times 0."""
        if self.is_dense or not self.has_runs:
            return made
        shape = (made.size // part.columns[2], *part.made[1:])
        clean = np.zeros(made.shape, self.dtype)
        source: Array = np.ndarray(shape, self.dtype, made, 0, part.between)
        target: Array = np.ndarray(shape, self.dtype, clean, 0, part.between)
        target[...] = source
        return clean

    def spread(self, grad: Array, part: Part) -> Array:
        """Gradients of a part as (groups, outputs of a group, positions), zero in between."""
        grad = at(grad, part.target)
        groups, _, positions = part.columns
        if self.is_dense and not (self.lead and part.count > 1):
            rows = grad.swapaxes(0, 1).astype(self.dtype, copy=False)
            return rows.reshape(groups, -1, positions)
        made = np.zeros((groups, self.outputs // self.groups, positions), self.dtype)
        self.positions(made, part)[...] = grad
        return made

    def matrix(self, weight: Array) -> Array:
        """The weight as (groups, outputs of a group, depth)."""
        return weight.astype(self.dtype, copy=False).reshape(self.groups, -1, self.depth)


def convolution(call: StructuredCall) -> PlannedKernel:
    """Forward: weight (outputs, depth) by columns (depth, images * run), group by group."""
    if call.args["transposed"]:
        return backward_input(call._replace(args={**call.args, "grad_output": call.args["input"]}))
    input, weight, spec = call.args["input"], call.args["weight"], call.outputs[0]
    conv = Convolution(call, input.sizes, weight.sizes, spec.sizes)
    if conv.is_empty:
        return PlannedKernel(_bias_alone)
    if conv.multiply is np.matmul and conv.groups == 1 and _is_rows(spec):
        return PlannedKernel(quiet(_forward_channels_last(conv, spec)))
    if conv.by_rows:
        return PlannedKernel(quiet(convolution_rows.forward(*conv.by_rows)))
    same = spec.np_dtype == conv.dtype and conv.multiply is np.matmul
    if same and conv.window.is_pointwise and spec.is_contiguous:
        return PlannedKernel(quiet(_forward_pointwise(conv)))
    direct = same and conv.is_dense and conv.batches[0][0].count == 1 and spec.is_contiguous

    def into(out: Any, input: Any, weight: Any, bias: Any) -> None:
        matrix = conv.matrix(weight)
        addend = None if bias is None else bias.astype(conv.dtype, copy=False).reshape(conv.groups, -1, 1)

        def one(padded: Array, part: Part, room: Array | None) -> None:
            columns = conv.columns(padded, part, room)
            if direct:
                made = at(at(out, part.images).reshape(conv.groups, -1, conv.run), part.groups)
                if part.rows is not None:
                    first = part.first_row * (conv.run // conv.window.out[0])
                    made = made[:, :, first : first + part.columns[2]]
                np.matmul(at(matrix, part.groups), columns, out=made)
            else:
                made = conv.multiply(at(matrix, part.groups), columns)
            if addend is not None:
                made += at(addend, part.groups)
            if not direct:
                np.copyto(at(out, part.target), conv.positions(made, part), casting="unsafe")

        def some(first: int, last: int, room: Array | None) -> None:
            for batch in conv.batches[first:last]:
                padded = conv.pad(at(input, batch[0].images))
                for part in batch:
                    one(padded, part, room)

        if len(conv.batches) > 1 or len(conv.batches[0]) == 1:
            conv.over(len(conv.batches), some)
            return
        parts, padded = conv.batches[0], conv.pad(input)

        def some_parts(first: int, last: int, room: Array | None) -> None:
            for part in parts[first:last]:
                one(padded, part, room)

        conv.over(len(parts), some_parts)

    return PlannedKernel(quiet(into))


def _is_rows(spec: TensorSpec) -> bool:
    """Whether an output is channels-last, so that its positions are the rows of one matrix."""
    return spec.ndim in (4, 5) and is_channels_last(spec.sizes, spec.strides, spec.ndim)


def _forward_pointwise(conv: Convolution) -> Any:
    """A kernel of one element: the images are the columns."""
    shape = (conv.n, conv.groups, -1, conv.run)

    def into(out: Any, input: Any, weight: Any, bias: Any) -> None:
        np.matmul(conv.matrix(weight), conv.pad(input).reshape(shape), out=out.reshape(shape))
        if bias is not None:
            out += bias.reshape(-1, *(1,) * conv.rank)

    return into


def _forward_channels_last(conv: Convolution, spec: TensorSpec) -> Any:
    """Forward into channels-last: windows (images * positions, depth) by weight (depth, outputs)."""
    rank, window, c = conv.rank, conv.window, conv.channels
    pad = Padding(window, conv.dtype, last=True)
    size = conv.dtype.itemsize * c
    plane = math.prod(window.padded) * size
    pitch = contiguous_strides(window.padded)
    down = [p * d * size for p, d in zip(pitch, window.dilation, strict=True)]
    along = [p * s * size for p, s in zip(pitch, window.stride, strict=True)]
    strides = (plane, *along, *down, conv.dtype.itemsize)
    weight_order = (*range(2, rank + 2), 1, 0)
    same = spec.np_dtype == conv.dtype
    inner = math.prod(window.out[1:])
    most = conv.most_positions()
    lines = min(window.out[0], max(1, most // inner))
    step = max(1, min(conv.n, most // (inner * lines))) if lines == window.out[0] else 1
    is_view = window.is_pointwise

    def into(out: Any, input: Any, weight: Any, bias: Any) -> None:
        matrix = (
            weight.astype(conv.dtype, copy=False).transpose(weight_order).reshape(conv.depth, conv.outputs)
        )
        rows_of_out = np.moveaxis(out, 1, -1)
        wide = None if bias is None else bias.astype(conv.dtype, copy=False)
        buffer = None if is_view else np.empty(step * lines * inner * conv.depth, conv.dtype)
        for start in range(0, conv.n, step):
            padded = pad(input[start : start + step])
            m = len(padded)
            for line in range(0, window.out[0], lines):
                count = min(lines, window.out[0] - line)
                shape = (m, count, *window.out[1:], *window.kernel, c)
                view = np.ndarray(shape, conv.dtype, padded, line * along[0], strides)
                if buffer is None:
                    rows = view.reshape(-1, conv.depth)
                else:
                    rows = buffer[: math.prod(shape)].reshape(-1, conv.depth)
                    np.copyto(rows.reshape(shape), view)
                target = rows_of_out[start : start + step, line : line + count].reshape(-1, conv.outputs)
                if same:
                    made = np.dot(rows, matrix, target)
                else:
                    made = np.dot(rows, matrix)
                if wide is not None:
                    made += wide
                if not same:
                    np.copyto(target, made, casting="unsafe")

    return into


def _bias_alone(out: Any, input: Any, weight: Any, bias: Any = None) -> None:
    if bias is None:
        out.fill(0)
    else:
        out[...] = bias.reshape(-1, *(1,) * (out.ndim - 2))


def _zero(out: Any, *_: Any) -> None:
    out.fill(0)


def backward_input(call: StructuredCall) -> PlannedKernel:
    """The gradient of the input, and a transposed convolution, which may have a bias."""
    grad, weight = call.args["grad_output"], call.args["weight"]
    conv = Convolution(call, call.outputs[0].sizes, weight.sizes, grad.sizes)
    if conv.is_empty:
        return PlannedKernel(_bias_alone)
    if conv.by_rows is None:
        return _backward_by_taps(call, conv)
    by_rows = quiet(convolution_rows.backward_input(*conv.by_rows))
    otherwise = functools.cache(lambda: _backward_by_taps(call, conv).into)

    def into(out: Any, grad: Any, weight: Any, bias: Any = None) -> None:
        kernel = by_rows if np.isfinite(weight).all() else otherwise()
        kernel(out, grad, weight, bias)

    return PlannedKernel(into)


def _backward_by_taps(call: StructuredCall, conv: Convolution) -> PlannedKernel:
    """Weight transposed by the gradient gives columns; each tap's are added where they came from."""
    window = conv.window
    is_narrow = conv.outputs <= MORE_OUTPUTS * conv.channels
    if conv.channels < min(conv.outputs, FEW_CHANNELS) and math.prod(window.kernel) <= FEW_TAPS:
        is_narrow = False
    if is_narrow and conv.n * conv.run > FEW_POSITIONS and not window.is_pointwise and _gathers(window):
        return PlannedKernel(_backward_by_gathering(call, conv))
    inside = (slice(None), slice(None), *window.inside)
    size = conv.dtype.itemsize

    def places(part: Part) -> list[tuple[Any, Any]]:
        """Each tap among the columns of a part, and the elements that it meets."""
        first = part.first_row
        if conv.has_runs:
            met, along, begin = part.view[conv.rank + 1 :], part.strides[conv.rank + 1 :], part.start
            line = part.strides[0]
            if not conv.is_shared:  # here channels come first
                line, along = part.count * conv.plane * size, (conv.plane * size, size)
                begin = (part.channels.start if part.channels else 0) * line + first * conv.inner[0] * size
            down = [p * d * size for p, d in zip(conv.pitches(part.count), window.dilation, strict=True)]
            shape, strides = (part.view[0], *met), (line, *along)
            return [
                (tap, (shape, begin + sum(t * d for t, d in zip(tap, down, strict=True)), strides))
                for tap in window.taps
            ]
        step, rows = window.stride[0], part.made[2]
        made = []
        for tap in window.taps:
            outermost, *others = window.slices(tap)
            start = outermost.start + first * step
            made.append((tap, (slice(start, start + (rows - 1) * step + 1, step), *others)))
        return made

    batches = [[(part, places(part)) for part in batch] for batch in conv.batches]

    def into(out: Any, grad: Any, weight: Any, bias: Any = None) -> None:
        matrix = conv.matrix(weight).swapaxes(1, 2)
        addend = (
            None if bias is None else bias.astype(conv.dtype, copy=False).reshape(-1, *(1,) * (1 + conv.rank))
        )
        is_finite = bool(np.isfinite(matrix).all())

        def some(first: int, last: int, room: Array | None) -> None:
            for batch in batches[first:last]:
                target = at(out, batch[0][0].images).swapaxes(0, 1)
                m = target.shape[1]
                line = (conv.line(m),) if conv.is_shared else (m, *window.padded)
                full = np.zeros((conv.channels, *line), conv.dtype)
                for part, taps in batch:
                    made = conv.multiply(at(matrix, part.groups), conv.spread(grad, part))
                    if not is_finite:
                        made = conv.without_gaps(made, part)
                    made = made.reshape(part.view)
                    for tap, where in taps:
                        if conv.has_runs:
                            shape, start, strides = where
                            met: Array = np.ndarray(shape, conv.dtype, full, start, strides)
                        else:
                            met = at(full, part.channels)[:, :, *where]
                        met += made[:, *tap]
                full = conv.inside(full, m).swapaxes(0, 1) if conv.is_shared else full[inside]
                if addend is None:
                    np.copyto(target, full, casting="unsafe")
                else:
                    np.copyto(target, full + addend, casting="unsafe")

        conv.over(len(batches), some)

    def into_pointwise(out: Any, grad: Any, weight: Any, bias: Any = None) -> None:
        matrix = conv.matrix(weight).swapaxes(1, 2)

        def some(first: int, last: int, room: Array | None) -> None:
            for part in parts[first:last]:
                target = at(out, part.images).swapaxes(0, 1)
                made = conv.multiply(at(matrix, part.groups), conv.spread(grad, part))
                there = at(target, part.channels)
                there = there if part.rows is None else there[:, :, part.rows]
                made = made.reshape(there.shape)
                if bias is not None:
                    addend = at(bias, part.channels).astype(conv.dtype, copy=False)
                    made += addend.reshape(-1, *(1,) * (1 + conv.rank))
                np.copyto(there, made, casting="unsafe")

        conv.over(len(parts), some)

    parts = [part for batch in conv.batches for part in batch]
    return PlannedKernel(quiet(into_pointwise if window.is_pointwise else into))


def _gathers(window: Window) -> bool:
    """Whether the gradient of the input is a convolution too, which reads each element of it once."""
    return all(s == 1 for s in window.stride) and all(
        p <= (k - 1) * d for p, k, d in zip(window.padding, window.kernel, window.dilation, strict=True)
    )


def _backward_by_gathering(call: StructuredCall, conv: Convolution) -> Any:
    """With strides of 1: the gradient convolved with the weight, whose taps are reversed and channels exchanged."""
    grad, weight, window = call.args["grad_output"], call.args["weight"], conv.window
    each = (conv.outputs // conv.groups, conv.channels // conv.groups)
    sizes = (conv.channels, each[0], *window.kernel)
    args = {
        **call.args,
        "input": grad,
        "weight": TensorSpec.contiguous(sizes, weight.dtype, weight.device),
        "padding": tuple(
            (k - 1) * d - p for k, d, p in zip(window.kernel, window.dilation, window.padding, strict=True)
        ),
        "transposed": False,
    }
    forward = convolution(call._replace(args=args)).into
    backwards = (slice(None),) * 3 + (slice(None, None, -1),) * conv.rank

    def into(out: Any, grad: Any, weight: Any, bias: Any = None) -> None:
        reversed_taps = weight.reshape(conv.groups, *each, *window.kernel)[backwards].swapaxes(1, 2)
        forward(out, grad, np.ascontiguousarray(reversed_taps).reshape(sizes), bias)

    return into


def backward_weight(call: StructuredCall) -> PlannedKernel:
    """The columns by the gradient, summed over the blocks in float64."""
    grad, input = call.args["grad_output"], call.args["input"]
    conv = Convolution(call, input.sizes, call.outputs[0].sizes, grad.sizes)
    if conv.is_empty:
        return PlannedKernel(_zero)
    if conv.by_rows:
        return PlannedKernel(quiet(convolution_rows.backward_weight(*conv.by_rows, TOTALS)))
    wide = np.dtype(np.float64) if conv.dtype == np.float32 else conv.dtype

    # The larger matrix first: the other way round the BLAS takes up to 1.5 times as long.
    is_turned = conv.depth >= conv.outputs // conv.groups
    sizes = (conv.groups, conv.outputs // conv.groups, conv.depth)
    kept = (sizes[0], sizes[2], sizes[1]) if is_turned else sizes

    def summed(grad: Any, input: Any, of_columns: Callable[[Array, Part], Array]) -> Array:
        totals = np.zeros((len(shares), *kept), wide)

        def some(first: int, last: int, room: Array | None) -> None:
            for share in range(first, last):
                for batch in shares[share]:
                    padded = conv.pad(at(input, batch[0].images))
                    for part in batch:
                        rows = conv.spread(grad, part)
                        columns = of_columns(conv.columns(padded, part, room), part)
                        some = at(totals[share], part.groups)
                        factors = (columns, rows) if is_turned else (rows, columns)
                        some += conv.multiply(factors[0], factors[1].swapaxes(1, 2))

        conv.over(len(shares), some)
        total: Array = totals[0]
        for more in totals[1:]:
            total += more
        return total

    def into(out: Any, grad: Any, input: Any) -> None:
        total = summed(grad, input, lambda columns, part: columns)
        if conv.has_runs and not conv.is_dense and not np.isfinite(total).all():
            total = summed(grad, input, conv.without_gaps)
        total = total.swapaxes(1, 2) if is_turned else total
        np.copyto(out, total.reshape(out.shape), casting="unsafe")

    count = len(conv.batches)
    most = max(1, min(TOTALS, TOTAL_BYTES // (conv.depth * conv.outputs * wide.itemsize)))
    step = -(-count // most)
    shares = [conv.batches[i : i + step] for i in range(0, count, step)]
    return PlannedKernel(quiet(into))


register_stub("convolution_stub", "cpu", convolution)
register_stub("convolution_backward_input_stub", "cpu", backward_input)
register_stub("convolution_backward_weight_stub", "cpu", backward_weight)
