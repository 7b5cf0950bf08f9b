"""Copies of operands to the layout that kernels read in vectors: channels-last, in whole vectors.

If channels are not contiguous, pixels are, and a tap's shift breaks alignment along them. Pointers would then
load each element by itself, for each tap, and a block of a tensor descriptor must start at a whole vector.
Operands of large GEMMs are therefore copied first. Operands of small ones are read in place, since a launch
takes longer than the GEMM. Vendors' libraries convert likewise for tensor cores.

A copy reads and writes each source element once; the GEMM does `outputs * taps` multiply-adds with it. By an
H100's published figures (989 TFLOP/s of 16-bit floats, 3.35 TB/s), the copy takes 590 / (outputs * taps) of
the GEMM's time: a tenth for 640 outputs of nine taps, as long for 64, and longer for one tap up to 590
outputs. 1x1 convolutions are therefore not copied: they are matmuls that read planes, and so are their weight
gradients if descriptors serve (`bulk_weight`). Outputs are never copied: kernels transpose a tile
before the store of planes.

One launch copies all operands of a call, however many they are; the two gradients are one call (`gradients`).
A weight's copy is small, and the same launch makes it. It is not cached between calls: a user's kernel may
write a weight without bumping its version, and the cache would be stale. A large weight is not read in place
either: its taps are contiguous, so a tile of one tap would fetch all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...dispatch.structured import choices
from ...dispatch.structured.stub import StructuredCall
from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.copy import copy_kernel
from ..elementwise.factories import zero
from ..launch import INT32_MAX, Launch, cdiv, defaults_of, interpreted, next_power_of_2
from ..products.problem import CannotFuse, FusedEpilogue, Matrices
from .layout_kernels import TILES, lay_out
from .volume import BYTES, channels_last, unit_of

COPY_THRESHOLD = 1 << 24
"""Copy operands from this many multiplications on: a launch's time at a tenth of a large device's rate."""
MAX_OPERANDS = 3
"""Maximum number of operands of a launch."""
INTERPRETED_TILE = 1 << 14


class Operand(NamedTuple):
    """Spec of a volume, and the spec that the kernel reads (`laid`), the same object if nothing is copied."""

    spec: TensorSpec
    laid: TensorSpec

    @property
    def is_copied(self) -> bool:
        """True if the operand is copied to another layout."""
        return self.spec is not self.laid


def unit_of_spec(spec: TensorSpec) -> int:
    """Return the unit of a channels-last volume's strides, or 1 for other layouts."""
    n, c, *spatial = spec.strides
    return unit_of(n, *spatial, spec.sizes[1]) if c == 1 else 1


def laid_out(spec: TensorSpec, channels: int | None = None, dim: int = 1) -> Operand:
    """Return a volume with dimension 1 contiguous, and dimension `dim` padded by zeros to `channels`.

    The volume stays as it is if the copy would not lengthen its vectors.
    """
    count = spec.sizes[dim] if channels is None else channels
    sizes = (*spec.sizes[:dim], count, *spec.sizes[dim + 1 :])
    padded = channels_last(spec.replace(sizes=sizes))
    least = BYTES // spec.itemsize
    if count == spec.sizes[dim] and min(unit_of_spec(spec), least) >= min(unit_of_spec(padded), least):
        return Operand(spec, spec)
    return Operand(spec, padded)


def transposed(spec: TensorSpec) -> TensorSpec:
    """Return the spec with its first two dimensions exchanged."""
    sizes, strides = spec.sizes, spec.strides
    return spec.replace(
        sizes=(sizes[1], sizes[0], *sizes[2:]), strides=(strides[1], strides[0], *strides[2:])
    )


def pitch_of_pixels(spec: TensorSpec) -> int | None:
    """Return the common stride of an image's pixels, or None if there is none."""
    pitch, running = None, 1
    for size, stride in zip(spec.sizes[:1:-1], spec.strides[:1:-1], strict=True):
        if size == 1:
            continue
        if pitch is None:
            pitch = stride
        elif stride != pitch * running:
            return None
        running *= size
    return 0 if pitch is None else pitch


def plan_copies(operands: Sequence[Operand]) -> Callable[..., tuple[Any, ...]] | None:
    """Return ``copied(*data)``: the data of all operands as the kernels read them; None where nothing is copied."""
    slots = [i for i, operand in enumerate(operands) if operand.is_copied]
    if not slots:
        return None
    choices.chosen(
        "operands laid out anew",
        "one copy brings {} of {} to channels innermost in whole vectors",
        len(slots),
        len(operands),
    )
    evenly = [i for i in slots if pitch_of_pixels(operands[i].spec) is not None]
    steps: list[tuple[list[int], Callable[..., None]]] = []
    for first in range(0, len(evenly), MAX_OPERANDS):
        taken = evenly[first : first + MAX_OPERANDS]
        steps.append((taken, plan_one_launch([operands[i] for i in taken])))
    steps += [([i], plan_gather(operands[i])) for i in slots if i not in evenly]
    allocate, device = get_allocator("cuda").allocate, operands[0].spec.device
    sizes = [(i, operands[i].laid.numel * operands[i].laid.itemsize) for i in slots]

    def copied(*data: Any) -> tuple[Any, ...]:
        made = list(data)
        for i, nbytes in sizes:
            made[i] = allocate(nbytes, device)
        for taken, copy in steps:
            copy(*[side for i in taken for side in (data[i], made[i])])
        return tuple(made)

    return copied


def plan_computed_copies(operands: Sequence[Operand], fused: FusedEpilogue) -> Callable[..., tuple[Any, ...]]:
    """Return ``copied(addresses, *data)``: `plan_copies` where the launch computes operands of what is laid out.

    Args:
        operands: the input and the weight.
        fused: what is computed: its kernel, whose addresses come first, and what is loaded.

    Raises:
        CannotFuse: an operand that is computed is not copied.
    """
    computed: list[Operand] = []
    letters: list[str] = []
    for operand, source, letter in zip(operands, fused.sources, "lr", strict=True):
        computed.append(operand if source is None else of_source(operand, source.matrices))
        if operand.is_copied:
            letters.append("-" if source is None else letter)
        elif source is not None:
            raise CannotFuse("an operand that lies as its kernel wants it is read again for each tap")
    slots = [i for i, operand in enumerate(computed) if operand.is_copied]
    if any(pitch_of_pixels(computed[i].spec) is None for i in slots):
        raise CannotFuse("the pixels of an operand do not lie evenly")
    kernel = fused.kernel(f"lay_out {''.join(letters)}")
    launch, grid, numbers = prepared_launch([computed[i] for i in slots], kernel, fused)
    allocate, device = get_allocator("cuda").allocate, operands[0].spec.device
    sizes = [computed[i].laid.numel * computed[i].laid.itemsize for i in slots]

    def copied(addresses: Sequence[int], *data: Any) -> tuple[Any, ...]:
        made = list(data)
        launch_addresses = list(addresses)
        for i, nbytes, own in zip(slots, sizes, numbers, strict=True):
            made[i] = allocate(nbytes, device)
            launch_addresses += (data[i].address, made[i].address, *own)
        launch(grid, *launch_addresses)
        return tuple(made)

    return copied


def of_source(operand: Operand, source: Matrices) -> Operand:
    """Return an operand that is computed from a source whose pixels have a common stride."""
    spec, (row, pixel, channel) = operand.spec, source.strides
    h, w = spec.sizes[3:]
    strides = (row, channel, h * w * pixel, w * pixel, pixel)
    return Operand(spec.replace(sizes=spec.sizes, strides=strides, dtype=source.dtype), operand.laid)


def plan_gather(operand: Operand) -> Callable[[Any, Any], None]:
    """Return ``copy(data, made)`` of a volume in any strides."""
    spec, laid = operand
    gather = copy_kernel(spec.replace(strides=laid.strides), spec)
    fill = None
    if spec.sizes != laid.sizes:
        flat = TensorSpec.contiguous((laid.numel,), laid.dtype, laid.device)
        fill = zero(StructuredCall("zero", {"self": flat}, ("self",), (flat,), None, laid.device, {})).into

    def copy(data: Any, made: Any) -> None:
        if fill is not None:
            fill(made)
        gather(made, data)

    return copy


def block_of(pixels: int, channels: int, itemsize: int) -> tuple[int, int]:
    """Return the pixels and channels of a tile: as square as the operand allows, with whole cache lines."""
    max_elements = TILES[itemsize] if not interpreted() else INTERPRETED_TILE
    side = next_power_of_2(math.isqrt(max_elements))
    block_c = min(next_power_of_2(channels), side)
    block_p = min(next_power_of_2(pixels), max_elements // block_c)
    return block_p, min(next_power_of_2(channels), max_elements // block_p)


class Copied(NamedTuple):
    """Arguments of `lay_out` for one operand: names without its number."""

    values: dict[str, int]
    constants: dict[str, object]

    @staticmethod
    def of(operand: Operand) -> Copied:
        """Return sizes and strides divided by their units."""
        spec, laid = operand
        rows, channels, pixels, pitch = (
            spec.sizes[0],
            spec.sizes[1],
            math.prod(spec.sizes[2:]),
            laid.sizes[1],
        )
        xn, xc = spec.strides[:2]
        xp = pitch_of_pixels(spec)
        assert xp is not None
        c_inner = xc == 1
        inner, other, line = ("xc", "xp", xp) if c_inner else ("xp", "xc", xc)
        x_unit = unit_of(xn, line) if 1 in (xc, xp) else 1
        block_p, block_c = block_of(pixels, pitch, max(spec.itemsize, laid.itemsize))
        reach = max(channels * abs(xc) + pixels * abs(xp), (pixels + block_p) * (pitch + block_c))
        constants: dict[str, object] = {
            "C_UNIT": unit_of(channels),
            "P_UNIT": unit_of(pixels),
            "PITCH_UNIT": unit_of(pitch),
            "X_UNIT": x_unit,
            "C_INNER": c_inner,
            "BLOCK_P": block_p,
            "BLOCK_C": block_c,
            "INDEX": tl.int64 if 2 * reach > INT32_MAX else tl.int32,
        }
        values = {
            "tiles": cdiv(pixels, block_p) * cdiv(pitch, block_c) * laid.sizes[0],
            "rows": rows,
            "channels": channels // unit_of(channels),
            "pixels": pixels // unit_of(pixels),
            "pitch": pitch // unit_of(pitch),
            "xn": xn // x_unit,
            other: line // x_unit,
            inner: xc if c_inner else xp,
        }
        if values[inner] == 1:
            constants[inner] = values.pop(inner)
        return Copied(values, constants)


def prepared_launch(
    operands: Sequence[Operand], kernel: Any, fused: FusedEpilogue | None = None
) -> tuple[Launch, tuple[int, int, int], list[tuple[int, ...]]]:
    """Return the copy launch of volumes whose pixels have a common stride, its grid, and each operand's numbers."""
    signature: dict[str, str] = {}
    constants: dict[str, object] = {}
    numbers: list[tuple[int, ...]] = []
    every = [Copied.of(operand) for operand in operands]
    for i, (values, own) in enumerate(every):
        for letter, spec in zip("xy", operands[i], strict=True):
            signature[f"{letter}{i}"] = f"*{spec.dtype.triton_name}"
        signature |= {f"{name}{i}": "i32" if abs(n) <= INT32_MAX else "i64" for name, n in values.items()}
        constants |= {f"{name}{i}": value for name, value in own.items()}
    ordered = [name for name in lay_out.arg_names if name in signature]
    for i, (values, _) in enumerate(every):
        numbers.append(tuple(values[n[:-1]] for n in ordered if n[-1] == str(i) and n[:-1] in values))
    known = signature | constants | defaults_of(lay_out)
    constants |= {name: None for name in lay_out.arg_names if name not in known}
    launch = Launch(
        operands[0].spec.device,
        kernel,
        {**({} if fused is None else fused.pointers), **{name: signature[name] for name in ordered}},
        constants,
        elements=() if fused is None else fused.elements,
    )
    return launch, (sum(values["tiles"] for values, _ in every), 1, 1), numbers


def plan_one_launch(operands: Sequence[Operand]) -> Callable[..., None]:
    """Return ``copy(data, made, data, made, ...)`` of volumes whose pixels lie evenly."""
    launch, grid, numbers = prepared_launch(operands, lay_out)
    if len(operands) == 1:
        (own0,) = numbers
        return lambda x0, y0: launch(grid, x0.address, y0.address, *own0)
    if len(operands) == 2:
        own0, own1 = numbers
        return lambda x0, y0, x1, y1: launch(
            grid, x0.address, y0.address, *own0, x1.address, y1.address, *own1
        )
    own0, own1, own2 = numbers
    return lambda x0, y0, x1, y1, x2, y2: launch(
        grid, x0.address, y0.address, *own0, x1.address, y1.address, *own1, x2.address, y2.address, *own2
    )
