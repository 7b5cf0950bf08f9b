"""Products with matrices of which two in four elements are kept: blocks of rows are made dense, and BLAS multiplies."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ..plain_numpy import np

BLOCK = 1 << 18
"""Elements of a dense block of rows: a megabyte of float32."""
SHARED_FROM = 1 << 20
"""Multiplications from which another thread takes blocks."""
EXACT = 2048
"""Columns of 8-bit integers whose products float32 adds up exactly: of half of them, 1024 times 128 * 128 is 2^24."""


class Expansion:
    """Packed 2:4 sparse matrix, whose blocks of rows expand to dense ones.

    Args:
        values: kept elements (n, k / 2).
        words: the words of four bits each, in the order of rows or interleaved.
        interleaved: If True, the words are interleaved.
    """

    def __init__(self, values: Any, words: Any, interleaved: bool) -> None:
        self.values = values
        if interleaved:
            rows, columns = words.shape
            split = words.reshape(columns // 2, rows // (64 // words.itemsize), 8, 4 // words.itemsize, 2, 2)
            words = split.transpose(1, 3, 5, 2, 0, 4).reshape(rows, columns)
        self.words = words

    def block(self, rows: slice) -> Any:
        """Return these rows as a dense float32 array."""
        stored = self.values[rows].astype(np.float32)
        words = self.words[rows]
        count = len(stored)
        shifts = np.arange(0, 8 * words.itemsize, 4, dtype=words.dtype)
        bits = ((words[:, :, None] >> shifts) & 15).astype(np.int8)
        bits = bits.reshape(count, words.shape[1] * len(shifts))
        if self.values.dtype == np.float32:
            # Four bits stand for halves of two floats: the first float's, or the second one's.
            dense = np.zeros((count, stored.shape[1], 2), np.float32)
            second = bits & 2 != 0
            np.copyto(dense[..., 0], stored, where=~second)
            np.copyto(dense[..., 1], stored, where=second)
            return dense.reshape(count, 2 * stored.shape[1])
        dense = np.zeros((count, stored.shape[1] // 2, 4), np.float32)
        pairs = stored.reshape(count, stored.shape[1] // 2, 2)
        # The first of two is never in the fourth column, nor the second one in the first.
        for part, columns, first in ((0, bits & 3, 0), (1, bits >> 2, 1)):
            for column in range(first, first + 3):
                np.copyto(dense[..., column], pairs[..., part], where=columns == column)
        return dense.reshape(count, 2 * stored.shape[1])


def semi_structured_mm(call: StructuredCall) -> PlannedKernel:
    """Multiply a block of rows at a time in float32; integers accumulate in int32, over as many columns as are
    exact.
    """
    values, mat2 = call.args["values"], call.args["mat2"]
    interleaved, transposed = call.args["interleaved"], call.args["transpose_result"]
    names = call.runtime
    rows, k = values.sizes[0], 2 * values.sizes[1]
    integers = values.dtype.name == "int8"
    saturates = call.outputs[0].dtype.name == "int8"
    height = min(max(BLOCK // max(k, 1), 1), max(rows, 1))
    blocks = -(-rows // height) if rows else 0
    share = 1 if rows * k * max(mat2.sizes[1], 1) >= SHARED_FROM else blocks

    @quietly
    def into(out: Any, *inputs: Any) -> None:
        arguments = dict(zip(names, inputs, strict=True))
        bias, x = arguments.get("bias"), arguments["mat2"].astype(np.float32)
        packed = Expansion(arguments["values"], arguments["meta"], interleaved)
        lines = out.T if transposed else out

        def work(first: int, last: int) -> None:
            for start in range(first * height, min(last * height, rows), height):
                part = slice(start, min(start + height, rows))
                block = packed.block(part)
                if integers:
                    made = np.zeros((len(block), x.shape[1]), np.int32)
                    for done in range(0, k, EXACT):
                        inner = slice(done, done + EXACT)
                        made += np.dot(block[:, inner], x[inner]).astype(np.int32)
                else:
                    made = np.dot(block, x)
                if bias is not None:
                    whole = integers and bias.dtype.kind == "i"
                    made = made + bias[part, None].astype(np.int32 if whole else np.float32)
                if saturates:
                    made = np.clip(made, -128, 127)
                np.copyto(lines[part], made, casting="unsafe")

        if blocks:
            parallel_for(0, blocks, share, work)

    return PlannedKernel(into)


register_stub("_semi_structured_mm_stub", "cpu", semi_structured_mm)
