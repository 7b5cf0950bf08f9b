"""Device workloads: a table of statements, which both libraries run unchanged, with their sizes.

A statement names its library `lib`, its functions `F`, and its operands by letters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

MEGABYTE = 1 << 20
ITEMSIZE = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int8": 1, "uint8": 1,
    "float8_e4m3fn": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Operand:
    """A tensor of normal numbers; with `high`, of integers from 0 to below it."""

    shape: tuple[int, ...]
    dtype: str
    channels_last: bool = False
    high: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes that its elements take."""
        count = 1
        for size in self.shape:
            count *= size
        return count * ITEMSIZE[self.dtype]


@dataclass(frozen=True)
class Workload:
    """Workload of one row.

    `written` are the bytes of the result, 0 if `work_of` (`work.py`) counts the row's bytes. `tf32` allows TF32 in
    both libraries. `needs` is a public name without which the row is not built. `backends` maps each PyTorch variant
    to its attention backend.

    Attributes:
        setup: Statements that run once for each set of operands, untimed. The statement sees their names.
        moved: Bytes that must move, if they are not each operand once and the result.
        compared: True if both libraries must give the same result; False for random numbers.
        compiled: True if triten's time is that of the compiled statement, beside the eager statement,
            PyTorch's and that of `torch.compile`.
        peer_statement: Statement for PyTorch, if it differs.
    """

    group: str
    name: str
    statement: str
    operands: dict[str, Operand] = field(default_factory=dict)
    written: int = 0
    flops: int = 0
    tf32: bool = False
    needs: str = ""
    backends: dict[str, str] = field(default_factory=dict)
    setup: str = ""
    moved: int = 0
    compared: bool = True
    compiled: bool = False
    peer_statement: str = ""

    @property
    def nbytes(self) -> int:
        """Bytes that must move: each operand read once, the result written once."""
        if self.moved:
            return self.moved
        return self.written + sum(operand.nbytes for operand in self.operands.values()) if self.written else 0


def product(group: str, m: int, n: int, k: int, dtype: str, *, tf32: bool = False) -> Workload:
    """Return the workload a @ b of these sizes."""
    kind = "tf32" if tf32 else dtype
    operands = {"a": Operand((m, k), dtype), "b": Operand((k, n), dtype)}
    return Workload(
        group,
        f"mm {m}x{n}x{k} {kind}",
        "a @ b",
        operands,
        flops=2 * m * n * k,
        tf32=tf32,
        needs="set_float32_matmul_precision" if tf32 else "",
    )


def scaled_product(m: int, n: int, k: int) -> Workload:
    """Return the workload a @ b.t() of 8-bit floats with a scale for each operand."""
    element = "float8_e4m3fn"
    scale = Operand((1,), "float32")
    return Workload(
        "matmul, 8 bits",
        f"_scaled_mm {m}x{n}x{k}",
        "lib._scaled_mm(a, b.t(), s, t, out_dtype=lib.bfloat16, use_fast_accum=True)",
        {"a": Operand((m, k), element), "b": Operand((n, k), element), "s": scale, "t": scale},
        flops=2 * m * n * k,
        needs="_scaled_mm",
    )


# (rows, columns of the result, depth): projections and feed-forward layers of language models, vocabularies too,
# with sizes that no block divides, and few rows as in decoding.
LANGUAGE_MODEL = (
    (4096, 12288, 4096), (4096, 4096, 4096), (4096, 22016, 4096), (4096, 4096, 11008), (2048, 50257, 768),
    (1000, 3072, 768), (513, 5120, 5120), (8191, 2049, 1023), (16384, 1024, 4096), (3000, 14336, 4096),
    (2048, 151936, 2048), (777, 777, 7777),
)  # fmt: skip
SCALED = ((8192, 8192, 4096), (4096, 4096, 4096), (16, 14336, 4096))
FEW_ROWS = ((1, 4096, 4096), (8, 11008, 4096), (16, 4096, 14336), (32, 14336, 4096), (64, 8192, 8192))

# ResNet-50's convolutions, each shape once: channels in and out, filter, stride, size of the input's side.
RESNET50 = (
    (3, 64, 7, 2, 224), (64, 64, 1, 1, 56), (64, 64, 3, 1, 56), (64, 256, 1, 1, 56), (256, 64, 1, 1, 56),
    (256, 128, 1, 1, 56), (128, 128, 3, 2, 56), (128, 512, 1, 1, 28), (256, 512, 1, 2, 56), (512, 128, 1, 1, 28),
    (128, 128, 3, 1, 28), (512, 256, 1, 1, 28), (256, 256, 3, 2, 28), (256, 1024, 1, 1, 14), (512, 1024, 1, 2, 28),
    (1024, 256, 1, 1, 14), (256, 256, 3, 1, 14), (1024, 512, 1, 1, 14), (512, 512, 3, 2, 14), (512, 2048, 1, 1, 7),
    (1024, 2048, 1, 2, 14), (2048, 512, 1, 1, 7), (512, 512, 3, 1, 7),
)  # fmt: skip


def products(scale: int) -> Iterator[Workload]:
    """Yield matmuls."""
    for dtype in ("bfloat16", "float16"):
        for side in (8192, 4096, 2048, 1024):
            side = max(side // scale, 8)
            yield product("matmul, cubes", side, side, side, dtype)
    for side in (4096, 2048):
        side = max(side // scale, 8)
        yield product("matmul, tf32", side, side, side, "float32", tf32=True)
    for m, n, k in LANGUAGE_MODEL:
        yield product("matmul, language models", *(max(size // scale, 3) for size in (m, n, k)), "bfloat16")
    for m, n, k in FEW_ROWS:
        yield product(
            "matmul, at most 64 rows", max(m // scale, 1), max(n // scale, 8), max(k // scale, 8), "bfloat16"
        )
    heads, length, depth = max(256 // scale, 2), 4096 // scale, 128
    queries, keys = Operand((heads, 1, depth), "bfloat16"), Operand((heads, length, depth), "bfloat16")
    weights = Operand((heads, 1, length), "bfloat16")
    for name, statement, left in (("keys", "a @ b.mT", queries), ("values", "a @ b", weights)):
        yield Workload(
            "matmul, at most 64 rows",
            f"bmm of a row by {heads} times {length} {name} of {depth} bfloat16",
            statement,
            {"a": left, "b": keys},
            flops=2 * heads * length * depth,
        )
    for m, n, k in SCALED:
        n, k = (max(size // scale // 16 * 16, 16) for size in (n, k))  # cuBLAS takes no others
        yield scaled_product(max(m // scale, 1), n, k)
    from .decode_workloads import decode

    yield from decode(scale)


def memory_bound(scale: int) -> Iterator[Workload]:
    """Elementwise work, copies, transposes and reductions over 64 MB and more."""
    rows, columns = 8192 // scale, 4096 // scale
    for dtype in ("float32", "bfloat16"):
        x = Operand((rows, columns), dtype)
        result = x.nbytes
        group = "elementwise and copies"
        yield Workload(group, f"add {dtype}", "a + b", {"a": x, "b": x}, result)
        yield Workload(group, f"mul by a number {dtype}", "a * 2.5", {"a": x}, result)
        yield Workload(group, f"relu {dtype}", "lib.relu(a)", {"a": x}, result)
        yield Workload(group, f"gelu {dtype}", "F.gelu(a)", {"a": x}, result)
        yield Workload(group, f"exp {dtype}", "lib.exp(a)", {"a": x}, result)
        yield Workload(
            group, f"add of a row {dtype}", "a + b", {"a": x, "b": Operand((columns,), dtype)}, result
        )
        yield Workload(group, f"clone {dtype}", "a.clone()", {"a": x}, result)
        yield Workload(group, f"transpose {dtype}", "a.t().contiguous()", {"a": x}, result)
        yield Workload(group, f"every second column {dtype}", "a[:, ::2].contiguous()", {"a": x}, result // 2)
        group = "reductions"
        item = ITEMSIZE[dtype]
        for name, statement, written in (
            ("sum of all", "a.sum()", item), ("sum of rows", "a.sum(1)", item * rows),
            ("sum of columns", "a.sum(0)", item * columns),
            ("amax of rows", "a.amax(1)", item * rows),
            ("argmax of rows", "a.argmax(1)", 8 * rows),
            ("mean of columns", "a.mean(0)", item * columns), ("var of rows", "a.var(1)", item * rows),
        ):  # fmt: skip
            yield Workload(group, f"{name} {dtype}", statement, {"a": x}, written)
        yield Workload(group, f"cumsum of rows {dtype}", "a.cumsum(1)", {"a": x}, result)
    x = Operand((rows, columns), "float32")
    group = "elementwise and copies"
    yield Workload(group, "float32 to bfloat16", "a.to(lib.bfloat16)", {"a": x}, x.nbytes // 2)
    # Two operators: `work_of` counts the condition's bytes too, which one writes and the other reads.
    yield Workload(group, "where", "lib.where(a > 0, a, b)", {"a": x, "b": x})


def rows_of_networks(scale: int) -> Iterator[Workload]:
    """Softmax and normalisations, a row each."""
    for dtype in ("float32", "bfloat16"):
        for rows, columns in ((16384, 4096), (4096, 16384), (32768, 1024), (2048, 50257)):
            rows, columns = rows // scale, columns // scale
            x, w = Operand((rows, columns), dtype), Operand((columns,), dtype)
            size = f"{rows}x{columns} {dtype}"
            yield Workload("softmax", f"softmax {size}", "F.softmax(a, 1)", {"a": x}, x.nbytes)
            yield Workload("norms", f"layer_norm {size}", f"F.layer_norm(a, ({columns},), w, b)",
                           {"a": x, "w": w, "b": w}, x.nbytes, needs="nn.functional.layer_norm")  # fmt: skip
            yield Workload("norms", f"rms_norm {size}", f"F.rms_norm(a, ({columns},), w)", {"a": x, "w": w}, x.nbytes,
                           needs="nn.functional.rms_norm")  # fmt: skip


class Convolution(NamedTuple):
    """Layer of ResNet-50: bfloat16, channels last, a batch of 64.

    Attributes:
        name: Channels, kernel, stride and side.
        image: Its input.
        weight: Its weight.
        result: Its output.
        stride: Stride in both dimensions.
        padding: Padding in both dimensions.
        flops: Operations of the forward pass, and of each of both gradients.
        is_first: True for the layer of pictures, whose gradient nobody needs.
    """

    name: str
    image: Operand
    weight: Operand
    result: Operand
    stride: int
    padding: int
    flops: int
    is_first: bool


def resnet50(scale: int) -> Iterator[Convolution]:
    """Yield the layers. `scale` divides the sizes, for a rehearsal."""
    batch = max(64 // scale, 1)
    for given, filters, size, stride, side in RESNET50:
        channels = given
        if scale > 1:
            channels, filters, side = min(channels, 8), min(filters, 8), max(side // scale, size)
        padding = size // 2
        out = (side + 2 * padding - size) // stride + 1
        sizes = (
            (batch, channels, side, side),
            (filters, channels, size, size),
            (batch, filters, out, out),
        )
        yield Convolution(
            f"conv2d {channels} to {filters}, {size}x{size}/{stride}, {side}",
            *(Operand(each, "bfloat16", channels_last=True) for each in sizes),
            stride,
            padding,
            2 * batch * filters * out * out * channels * size * size,
            given == 3,
        )


def convolutions(scale: int) -> Iterator[Workload]:
    """Yield the forward passes of ResNet-50's layers."""
    for layer in resnet50(scale):
        yield Workload(
            "conv2d, ResNet-50",
            layer.name,
            f"F.conv2d(x, w, None, {layer.stride}, {layer.padding})",
            {"x": layer.image, "w": layer.weight},
            flops=layer.flops,
        )


def attention(scale: int) -> Iterator[Workload]:
    """Attention forward, bfloat16, 16 k tokens in all, with and without the causal mask."""
    for head in (64, 128):
        for length in (2048, 4096, 8192, 16384):
            for causal in (False, True):
                tokens, heads = 16384 // scale, max(2048 // head // scale, 1)
                long = max(length // scale, 8)
                shape = (max(tokens // long, 1), heads, long, head)
                x = Operand(shape, "bfloat16")
                flops = 4 * shape[0] * heads * long * long * head // (2 if causal else 1)
                yield Workload(
                    "attention",
                    f"attention {long}, head {head}{', causal' if causal else ''}",
                    f"F.scaled_dot_product_attention(q, k, v, is_causal={causal})",
                    {"q": x, "k": x, "v": x},
                    flops=flops,
                    needs="nn.functional.scaled_dot_product_attention",
                    backends={"torch": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION"},
                )


def all_workloads(scale: int = 1) -> list[Workload]:
    """Return all workloads in order of importance. `scale` divides the sizes, for a rehearsal."""
    from .attention_workloads import attention_workloads  # These modules use the classes of this one.
    from .convolution_workloads import convolution_gradients

    return [
        *products(scale), *memory_bound(scale), *rows_of_networks(scale), *convolutions(scale), *attention(scale),
        *convolution_gradients(scale), *attention_workloads(scale),
    ]  # fmt: skip
