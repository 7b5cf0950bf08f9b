"""Launches of every kernel family at the largest sizes that fit into a GPU's memory, on a driver that records them.

``python -m triten.tests.triton_kernels.large_launches`` plans each case of `CASES` for an sm_90, forward and backward,
and prints as JSON what a GPU would refuse or compute wrongly, by case:

- an error while planning, among them a grid beyond CUDA's limits;
- a 32-bit argument whose value needs more bits;
- 32-bit offsets (``INDEX``) into a tensor of at least 2**31 elements.

Nothing runs, and no memory is needed: tensors are addresses.
"""

import json
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import triten as tt
from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.memory.caching_allocator import CachingAllocator
from triten.runtime.cuda.occupancy import KNOWN
from triten.runtime.cuda.recording_driver import NotedKernel, RecordingDriver
from triten.runtime.device import device as Device
from triten.triton_kernels.budget import name_of
from triten.triton_kernels.launch import interpreted

F = tt.nn.functional
INT32_MAX = 2**31 - 1
ITEMSIZE = {"i1": 1, "i8": 1, "u8": 1, "fp8e4nv": 1, "fp8e5": 1, "i16": 2, "u16": 2, "fp16": 2, "bf16": 2,
            "i32": 4, "u32": 4, "fp32": 4, "i64": 8, "u64": 8, "fp64": 8}  # fmt: skip
WIDE_BY_ITSELF = {("nll_loss", "x"), ("count_keys", "out")}
"""Operands to whose offsets a kernel adds its own 64-bit part: that of a class, or of what it clears."""

sizes: dict[int, int] = {}
"""Bytes of each allocation, by address."""
faults: list[str] = []
"""Faults of the current case's launches."""


class CheckedKernel(NotedKernel):
    """A recorded kernel whose arguments must fit their types."""

    def launch(self, grid: cuda.Grid, stream: int, *values: float) -> None:
        super().launch(grid, stream, *values)
        kernel = name_of(self._request["kernel"]).rpartition(":")[2]
        narrow = str(self._request["constants"].get("INDEX")) == "int32"
        for (name, type_), value in zip(self._request["signature"].items(), values, strict=True):
            if type_ == "i32" and not -INT32_MAX <= value <= INT32_MAX:
                faults.append(f"{kernel}: {name} is 32 bits wide, but {value}")
            if narrow and type_.startswith("*") and (kernel, name) not in WIDE_BY_ITSELF:
                elements = sizes.get(int(value), 0) // ITEMSIZE[type_[1:]]
                if elements > INT32_MAX + 1:
                    faults.append(f"{kernel}: offsets of 32 bits into {elements} elements of {name}")


class CheckingDriver(RecordingDriver):
    """A recording driver whose kernels are checked."""

    def _compile(
        self,
        kernel: Any,
        signature: Mapping[str, str],
        constexprs: Mapping[str, object],
        divisible: frozenset[str],
        options: Mapping[str, object],
    ) -> cuda.CompiledKernel:
        noted = super()._compile(kernel, signature, constexprs, divisible, options)
        assert isinstance(noted, NotedKernel)
        return CheckedKernel(self, noted._request, noted.name)


def note_sizes() -> None:
    """Have the allocator note the bytes of each allocation."""
    allocate = CachingAllocator.allocate

    def noting(self: CachingAllocator, nbytes: int, device: Device, stream: int | None = None) -> Any:
        data = allocate(self, nbytes, device, stream)
        sizes[data.address] = nbytes
        return data

    CachingAllocator.allocate = noting  # type: ignore[method-assign]


def tensor(*shape: int, dtype: str = "bfloat16", last: bool = False, grad: bool = False) -> tt.Tensor:
    """Return a CUDA tensor without memory."""
    made = tt.empty(shape, dtype=getattr(tt, dtype), device="cuda")
    if last:
        made = made.to(memory_format=tt.channels_last)
    return made.requires_grad_() if grad else made


def floats(*shape: int) -> tt.Tensor:
    """Return a float32 tensor."""
    return tensor(*shape, dtype="float32")


def indices(*shape: int) -> tt.Tensor:
    """Return a tensor of int64."""
    return tensor(*shape, dtype="int64")


def both(
    function: Callable[..., tt.Tensor], *shapes: Any, dtype: str = "bfloat16", last: bool = False
) -> None:
    """Run a function of tensors of these shapes, and its backward."""
    inputs = [
        tensor(*shape, dtype=dtype, last=last and len(shape) == 4, grad=True)
        if isinstance(shape, tuple)
        else shape
        for shape in shapes
    ]
    result = function(*inputs)
    result.backward(tt.empty(result.shape, dtype=result.dtype, device="cuda"))


def batch_norm(*shape: int, dtype: str = "bfloat16", last: bool = False, training: bool = True) -> None:
    """Run batch norm with parameters and running statistics, and its backward."""
    channels = shape[1]
    running = [floats(channels) for _ in range(2)]
    weight, bias = (floats(channels).requires_grad_() for _ in range(2))
    both(lambda x: F.batch_norm(x, *running, weight, bias, training), shape, dtype=dtype, last=last)


def attention(
    batch: int, heads: int, length: int, size: int, dtype: str = "bfloat16", **options: Any
) -> None:
    """Run attention and its backward."""
    shape = batch, heads, length, size
    both(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options), shape, shape, shape, dtype=dtype)


def sampled(*image: int, last: bool = False) -> None:
    """Run grid_sample and its backward."""
    grid = floats(image[0], 64, 64, 2)
    both(lambda x: F.grid_sample(x, grid, align_corners=False), image, dtype="float32", last=last)


def optimizer_steps() -> None:
    """Run fused optimizers over a parameter of 2**32 elements."""
    parameters = [tensor(2**32, dtype="float32", grad=True), tensor(7, dtype="float32", grad=True)]
    for each in parameters:
        each.grad = tt.empty_like(each)
    tt.optim.AdamW(parameters, fused=True).step()
    tt.optim.SGD(parameters, 0.1, momentum=0.9, fused=True).step()


def csr(rows: int, values: int) -> tt.Tensor:
    """Return a square matrix in compressed rows."""
    return tt.sparse_csr_tensor(
        indices(rows + 1), indices(values), floats(values), (rows, rows), check_invariants=False
    )


def bsr(rows: int) -> tt.Tensor:
    """Return a square matrix of 16x16 blocks."""
    count = rows // 16
    blocks = tensor(count, 16, 16)
    return tt.sparse_bsr_tensor(
        indices(count + 1), indices(count), blocks, (rows, rows), check_invariants=False
    )


CASES: dict[str, Callable[[], object]] = {
    # Batch norm: images up to 2**31 positions in all, ResNet-50's layers, and one huge image.
    "batch_norm 256x64x112x112, channels-last": lambda: batch_norm(256, 64, 112, 112, last=True),
    "batch_norm 256x64x112x112, channels-last, eval": lambda: batch_norm(
        256, 64, 112, 112, last=True, training=False
    ),
    "batch_norm 256x64x112x112 float32, channels-last": lambda: batch_norm(
        256, 64, 112, 112, dtype="float32", last=True
    ),
    "batch_norm 256x64x112x112": lambda: batch_norm(256, 64, 112, 112),
    "batch_norm of 2**31 positions, channels-last": lambda: batch_norm(2**13, 8, 2**9, 2**9, last=True),
    "batch_norm of one image": lambda: batch_norm(1, 4, 2**15, 2**15),
    "batch_norm of volumes": lambda: batch_norm(2, 64, 512, 512, 512),
    "batch_norm 2**23x512": lambda: batch_norm(2**23, 512),
    "group_norm 64x256x256x256, channels-last": lambda: both(
        lambda x: F.group_norm(x, 32), (64, 256, 256, 256), last=True
    ),
    "group_norm of one image": lambda: both(lambda x: F.group_norm(x, 2), (1, 4, 2**15, 2**15)),
    "group_norm of 2**20 samples": lambda: both(lambda x: F.group_norm(x, 8), (2**20, 64, 4, 4)),
    "instance_norm of one image": lambda: both(F.instance_norm, (1, 4, 2**15, 2**15)),
    "instance_norm of 2**20 samples": lambda: both(F.instance_norm, (2**20, 64, 4, 4)),
    # Norms and softmax of rows.
    "layer_norm 2**26x64": lambda: both(
        lambda x, w, b: F.layer_norm(x, (64,), w, b), (2**26, 64), (64,), (64,)
    ),
    "layer_norm 256x2**24": lambda: both(lambda x, w: F.layer_norm(x, (2**24,), w), (256, 2**24), (2**24,)),
    "rms_norm 2**26x64": lambda: both(lambda x, w: F.rms_norm(x, (64,), w), (2**26, 64), (64,)),
    "rms_norm 256x2**24": lambda: both(lambda x, w: F.rms_norm(x, (2**24,), w), (256, 2**24), (2**24,)),
    "softmax 2**26x64": lambda: both(lambda x: F.softmax(x, 1), (2**26, 64)),
    "softmax of 2**32 elements": lambda: both(lambda x: F.softmax(x, 0), (2**32,)),
    "softmax of channels": lambda: both(lambda x: F.softmax(x, 1), (64, 256, 512, 512)),
    "log_softmax of channels of one image": lambda: both(lambda x: F.log_softmax(x, 1), (2, 64, 2**26)),
    # Losses.
    "cross_entropy 2**20x1000": lambda: both(lambda x: F.cross_entropy(x, indices(2**20)), (2**20, 1000)),
    "cross_entropy 4096x2**20": lambda: both(lambda x: F.cross_entropy(x, indices(4096)), (4096, 2**20)),
    "cross_entropy of images": lambda: both(
        lambda x: F.cross_entropy(x, indices(64, 512, 512)), (64, 150, 512, 512)
    ),
    "cross_entropy of one image": lambda: both(
        lambda x: F.cross_entropy(x, indices(1, 2**15, 2**15)), (1, 4, 2**15, 2**15)
    ),
    "nll_loss of images": lambda: both(lambda x: F.nll_loss(x, indices(64, 512, 512)), (64, 150, 512, 512)),
    "nll_loss of one image": lambda: both(
        lambda x: F.nll_loss(x, indices(1, 2**15, 2**15)), (1, 4, 2**15, 2**15)
    ),
    "nll_loss of 2**20 classes of positions": lambda: both(
        lambda x: F.nll_loss(x, indices(64, 2)), (64, 2**20, 2)
    ),
    "mse_loss": lambda: both(lambda x: F.mse_loss(x, tensor(2**32)), (2**32,)),
    "ctc_loss": lambda: both(
        lambda x: F.ctc_loss(x, indices(16, 8), indices(16), indices(16)), (64, 16, 2**24), dtype="float32"
    ),
    # Convolutions; transposed ones have a phase for each position of a stride.
    "conv2d, ResNet-50's stem": lambda: both(
        lambda x, w: F.conv2d(x, w, None, 2, 3), (256, 3, 224, 224), (64, 3, 7, 7), last=True
    ),
    "conv2d 1024x64x112x112, channels-last": lambda: both(
        lambda x, w: F.conv2d(x, w, None, 1, 1), (1024, 64, 112, 112), (64, 64, 3, 3), last=True
    ),
    "conv2d 4096x64x112x112": lambda: both(
        lambda x, w: F.conv2d(x, w, None, 1, 1), (4096, 64, 112, 112), (64, 64, 3, 3)
    ),
    "conv2d 512x64x112x112 float32": lambda: both(
        lambda x, w: F.conv2d(x, w, None, 1, 1), (512, 64, 112, 112), (64, 64, 3, 3), dtype="float32"
    ),
    "conv2d 1x1, 2048x256x56x56": lambda: both(F.conv2d, (2048, 256, 56, 56), (256, 256, 1, 1), last=True),
    "conv2d of patches of 256x256": lambda: both(
        lambda x, w: F.conv2d(x, w, None, 256), (4, 3, 4096, 4096), (16, 3, 256, 256)
    ),
    "conv2d depthwise, channels-last": lambda: both(
        lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 96), (2048, 96, 112, 112), (96, 1, 3, 3), last=True
    ),
    "conv2d depthwise": lambda: both(
        lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 96), (2048, 96, 112, 112), (96, 1, 3, 3)
    ),
    "conv1d 2**20x64x64": lambda: both(lambda x, w: F.conv1d(x, w, None, 1, 1), (2**20, 64, 64), (64, 64, 3)),
    "conv1d, stride 2**17": lambda: both(
        lambda x, w: F.conv1d(x, w, None, 2**17), (4, 1, 2**24), (16, 1, 2**17), dtype="float32"
    ),
    "conv3d 8x64x32x112x112": lambda: both(
        lambda x, w: F.conv3d(x, w, None, 1, 1), (8, 64, 32, 112, 112), (64, 64, 3, 3, 3)
    ),
    "conv_transpose2d 256x256x128x128": lambda: both(
        lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1), (256, 256, 128, 128), (256, 128, 3, 3)
    ),
    "conv_transpose2d, stride 257, two groups": lambda: both(
        lambda x, w: F.conv_transpose2d(x, w, None, 257, groups=2), (1, 16, 4, 4), (16, 4, 3, 3)
    ),
    "conv_transpose3d, stride 64": lambda: both(
        lambda x, w: F.conv_transpose3d(x, w, None, 64), (1, 16, 4, 4, 4), (16, 4, 64, 64, 64)
    ),
    # Pooling and resampling.
    "max_pool2d 1024x64x112x112, channels-last": lambda: both(
        lambda x: F.max_pool2d(x, 3, 2, 1), (1024, 64, 112, 112), last=True
    ),
    "max_pool2d 4096x64x112x112": lambda: both(lambda x: F.max_pool2d(x, 3, 2, 1), (4096, 64, 112, 112)),
    "max_pool2d of 2**23 channels, channels-last": lambda: both(
        lambda x: F.max_pool2d(x, 2), (1, 2**23, 4, 4), last=True
    ),
    "avg_pool2d of 2**23 channels, channels-last": lambda: both(
        lambda x: F.avg_pool2d(x, 2), (1, 2**23, 4, 4), last=True
    ),
    "avg_pool2d of 2**20 samples": lambda: both(lambda x: F.avg_pool2d(x, 2), (2**20, 64, 4, 4)),
    "adaptive_avg_pool2d": lambda: both(
        lambda x: F.adaptive_avg_pool2d(x, 1), (2**15, 2048, 7, 7), last=True
    ),
    "interpolate, bilinear": lambda: both(
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (64, 64, 512, 512), last=True
    ),
    "interpolate, bicubic": lambda: both(
        lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), (64, 64, 512, 512)
    ),
    "interpolate, nearest": lambda: both(lambda x: F.interpolate(x, scale_factor=2), (2**20, 16, 8, 8)),
    "grid_sample of 2**23 channels": lambda: sampled(1, 2**23, 4, 4),
    "grid_sample of 2**23 channels, channels-last": lambda: sampled(1, 2**23, 4, 4, last=True),
    "grid_sample 256x32x512x512": lambda: sampled(256, 32, 512, 512),
    "unfold": lambda: both(lambda x: F.unfold(x, 3, 1, 1), (256, 64, 112, 112)),
    "pixel_shuffle": lambda: both(lambda x: F.pixel_shuffle(x, 2), (64, 256, 512, 512)),
    # Attention.
    "attention of 2**20 samples": lambda: attention(2**20, 4, 16, 64),
    "attention of 2**20 heads": lambda: attention(1, 2**20, 16, 128),
    "attention of 2**22 tokens": lambda: attention(1, 2, 2**22, 64, is_causal=True),
    "attention of 2**20 tokens, 32 heads": lambda: attention(1, 32, 2**20, 128, is_causal=True),
    "attention float32": lambda: attention(4096, 16, 256, 64, dtype="float32"),
    "attention of one query": lambda: F.scaled_dot_product_attention(
        tensor(512, 32, 1, 128), *(tensor(512, 8, 8192, 128) for _ in range(2)), enable_gqa=True
    ),
    # Matmuls.
    "mm 2**29x8x8": lambda: both(tt.mm, (2**29, 8), (8, 8)),
    "mm 2**26x64x64": lambda: both(tt.mm, (2**26, 64), (64, 64)),
    "mm 2**26x64x64 float32": lambda: both(tt.mm, (2**26, 64), (64, 64), dtype="float32"),
    "mm 64x2**26": lambda: tt.mm(tensor(64, 64), tensor(64, 2**26)),
    "mm of depth 2**28": lambda: tt.mm(tensor(8, 2**28), tensor(2**28, 8)),
    "linear of 256k words": lambda: both(F.linear, (8192, 4096), (256_000, 4096)),
    "bmm of 2**20": lambda: both(tt.bmm, (2**20, 64, 64), (2**20, 64, 64)),
    "bmm of 2**22 float32": lambda: both(tt.bmm, (2**22, 32, 32), (2**22, 32, 32), dtype="float32"),
    "bmm of 2**20 complex64": lambda: tt.bmm(*(tensor(2**20, 8, 8, dtype="complex64") for _ in range(2))),
    "bmm of 2**20 rows": lambda: tt.bmm(tensor(2**20, 1, 128), tensor(2**20, 128, 128)),
    "mv 2**26x64": lambda: tt.mv(tensor(2**26, 64), tensor(64)),
    "mv 8x2**30": lambda: tt.mv(tensor(8, 2**30), tensor(2**30)),
    "_int_mm 2**20x64x64": lambda: tt._int_mm(tensor(2**20, 64, dtype="int8"), tensor(64, 64, dtype="int8")),
    "grouped_mm": lambda: F.grouped_mm(tensor(2**26, 64), tensor(8, 64, 64), offs=tensor(8, dtype="int32")),
    "csr matmul": lambda: tt.mm(csr(2**20, 2**24), floats(2**20, 4096)),
    "csr matmul of 2**23 columns": lambda: tt.mm(csr(256, 2**12), floats(256, 2**23)),
    "bsr matmul of 2**23 columns": lambda: tt.mm(bsr(256), tensor(256, 2**23)),
    # Reductions, scans, sorting.
    "sum 2**34": lambda: tensor(2**34).sum(),
    "sum of rows and columns": lambda: [tensor(2**26, 64).sum(dim) for dim in (0, 1)],
    "sum of the middle dimension": lambda: tensor(4, 64, 2**28).sum(1),
    "argmax": lambda: [tensor(2**26, 64).argmax(dim) for dim in (None, 0, 1)],
    "var": lambda: [tensor(2**26, 64).var(dim) for dim in (0, 1)],
    "var of channels": lambda: tensor(1024, 64, 224, 224).var((0, 2, 3)),
    "logsumexp": lambda: [tensor(64, 2**26).logsumexp(dim) for dim in (0, 1)],
    "vector_norm": lambda: tt.linalg.vector_norm(tensor(2**20, 4096), dim=1),
    "cumsum": lambda: [tensor(2**26, 64).cumsum(dim) for dim in (0, 1)],
    "cumsum of one line": lambda: tensor(2**32).cumsum(0),
    "cumprod, cummax, logcumsumexp": lambda: [
        floats(4, 64, 2**26).cumprod(1),
        floats(4, 64, 2**26).cummax(1),
        floats(4, 64, 2**26).logcumsumexp(1),
    ],
    "segment_reduce": lambda: both(
        lambda x: tt.segment_reduce(x, "sum", lengths=indices(4), axis=0, unsafe=True),
        (16, 2**28),
        dtype="float32",
    ),
    "sort of 2**32": lambda: floats(2**32).sort(),
    "sort of 2**20 rows": lambda: floats(2**20, 256).sort(1),
    "sort of columns": lambda: floats(2**10, 2**22).sort(0),
    "topk of 2**20 rows": lambda: floats(2**20, 4096).topk(8, 1),
    "kthvalue of 2**20 rows": lambda: floats(2**20, 4096).kthvalue(8, 1),
    "searchsorted": lambda: tt.searchsorted(floats(2**20, 64), floats(2**20, 4096)),
    "unique": lambda: tt.unique(indices(2**31)),
    # Indexing, copies, joins.
    "embedding": lambda: both(lambda w: F.embedding(indices(2**23), w), (50304, 768)),
    "embedding of 2**27 columns": lambda: both(lambda w: F.embedding(indices(32), w), (32, 2**27)),
    "embedding_bag of 2**27 columns": lambda: [
        both(lambda w, mode=mode: F.embedding_bag(indices(8, 2), w, mode=mode), (32, 2**27), dtype="float32")
        for mode in ("mean", "max")
    ],
    "embedding_bag of 2**26 bags": lambda: both(
        lambda w: F.embedding_bag(indices(2**26, 2), w), (2**20, 64), dtype="float32"
    ),
    "index_select of 2**29 columns": lambda: both(lambda x: tt.index_select(x, 0, indices(4)), (8, 2**29)),
    "index_put, index_add": lambda: [
        floats(16, 2**28).index_put((indices(4),), floats(4, 2**28), accumulate=True),
        floats(16, 2**28).index_add(0, indices(4), floats(4, 2**28)),
    ],
    "gather": lambda: both(lambda x: tt.gather(x, 1, indices(2**20, 64)), (2**20, 4096)),
    "scatter_add": lambda: floats(2**26, 64).scatter_add(0, indices(2**26, 64), floats(2**26, 64)),
    "nonzero": lambda: (tensor(2**32) > 0).nonzero(),
    "masked_select": lambda: tt.masked_select(tensor(2**32), tensor(2**32, dtype="bool")),
    "cat, stack": lambda: [
        tt.cat([tensor(2**26, 32) for _ in range(2)], 1),
        tt.stack([tensor(2**26, 32) for _ in range(4)], 1),
    ],
    "transpose": lambda: tensor(2**26, 64).t().contiguous(),
    "permutations": lambda: [
        tensor(1024, 64, 256, 256).permute(0, 2, 3, 1).contiguous(),
        tensor(4096, 1024, 16, 64).transpose(1, 2).contiguous(),
    ],
    "roll, flip": lambda: [
        tt.roll(tensor(64, 1024, 1024, 64), (3, 3), (1, 2)),
        tt.flip(tensor(64, 1024, 1024, 64), (1, 2)),
    ],
    "tril of 2**20": lambda: tt.tril(tensor(2**20, 64, 64)),
    "pad": lambda: both(lambda x: F.pad(x, (1, 1, 1, 1)), (2**20, 64, 8, 8)),
    # Elementwise work, random numbers, lists.
    "add": lambda: tensor(2**32) + tensor(2**32),
    "add, broadcast": lambda: [
        tensor(65536, 1, 65536) + tensor(65536),
        tensor(2**20, 8, 512) + tensor(2**20, 1, 512),
    ],
    "where": lambda: tt.where(tensor(2**32) > 0, tensor(2**32), tensor(1)),
    "gelu": lambda: both(F.gelu, (2**32,)),
    "dropout": lambda: both(lambda x: F.dropout(x, 0.1), (2**32,)),
    "random numbers": lambda: [
        tt.rand(2**32, device="cuda"),
        tt.randn(2**32, device="cuda"),
        tt.poisson(floats(2**31)),
    ],
    "randperm": lambda: tt.randperm(2**30, device="cuda"),
    "multinomial of 2**27 samples": lambda: tt.multinomial(floats(32, 2**10), 2**27, replacement=True),
    "multinomial of 2**24 categories": lambda: tt.multinomial(floats(2, 2**24), 16, replacement=False),
    "foreach": lambda: [
        tt._foreach_add([tensor(2**32), tensor(7)], 1.0),
        tt._foreach_norm([tensor(2**32), tensor(7)]),
    ],
    "fused optimizers": optimizer_steps,
    "LSTM, GRU": lambda: [
        layer(64, 64).to("cuda")(floats(4, 2**20, 64)) for layer in (tt.nn.LSTM, tt.nn.GRU)
    ],
}


def faults_of(driver: RecordingDriver, case: Callable[[], object]) -> list[str]:
    """Plan a case; return its faults, each once."""
    driver.launched.clear()
    driver.grids.clear()
    faults.clear()
    try:
        case()
    except (RuntimeError, ValueError, TypeError, OverflowError, NotImplementedError) as error:
        return [f"{type(error).__name__}: {error}"]
    if not driver.launched:
        return ["nothing was launched"]
    return sorted(set(faults))


def main() -> None:
    os.environ["TRITEN_TUNING_STORE"] = "0"  # what was measured on some machine is nothing that ships
    warnings.simplefilter("ignore")
    note_sizes()
    if interpreted():
        raise SystemExit("TRITEN_CUDA=interpret plans other launches than a GPU gets")
    driver = cuda._driver = CheckingDriver(KNOWN[90])  # type: ignore[abstract] # its methods are set below the class
    print(json.dumps({name: faults_of(driver, case) for name, case in CASES.items()}))


if __name__ == "__main__":
    main()
