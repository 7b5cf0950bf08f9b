"""Stochastic gradient descent over many tensors in one launch; dispatch/structured/meta/optimizers.py says what."""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import STREAMING, Configuration, declare
from ..conversion import convert
from .table_kernels import column, number, row_of, unscaled, whole_vectors


@triton.jit
def sgd_terms(
    parameter,
    gradient,
    buffer,
    lr,
    weight_decay,
    momentum,
    undamped,
    DECAY: tl.constexpr,
    MOMENTUM: tl.constexpr,
    FIRST: tl.constexpr,
    NESTEROV: tl.constexpr,
    MAXIMIZE: tl.constexpr,
):
    """Return the next parameter and momentum buffer, in the dtype of the arithmetic."""
    if MAXIMIZE:
        gradient = -gradient
    if DECAY:
        gradient = gradient + parameter * weight_decay
    if MOMENTUM:
        buffer = gradient if FIRST else buffer * momentum + gradient * undamped
        gradient = gradient + buffer * momentum if NESTEROV else buffer
    return parameter - gradient * lr, buffer


@triton.jit
def fused_sgd(
    base,
    table,
    rows,
    lr,
    weight_decay,
    momentum,
    dampening,
    scale,
    found_inf,
    INDIRECT: tl.constexpr,
    DECAY: tl.constexpr,
    MOMENTUM: tl.constexpr,
    FIRST: tl.constexpr,
    NESTEROV: tl.constexpr,
    MAXIMIZE: tl.constexpr,
    TYPE: tl.constexpr,
    V: tl.constexpr,
    BLOCK: tl.constexpr,
):
    stored = base.dtype.element_ty
    program = tl.program_id(0)
    row = row_of(table, rows, program)
    start = (program - column(table, rows, row, 0)) * BLOCK
    numel = column(table, rows, row, 1)
    if found_inf is not None:
        numel = tl.where(tl.load(found_inf) == 1.0, 0, numel)
    p = column(table, rows, row, 2)
    g = column(table, rows, row, 3)
    m = column(table, rows, row, 4) if MOMENTUM else p
    rate = number(lr, INDIRECT).to(TYPE)
    decay, keep, undamped = weight_decay.to(TYPE), momentum.to(TYPE), (1.0 - dampening).to(TYPE)
    index = tl.arange(0, BLOCK)
    if (start + BLOCK <= numel) & ((p | g | m) % V == 0):
        at = base + start + index
        parameter = convert(tl.load(at + whole_vectors(p, V)), TYPE)
        gradient = unscaled(convert(tl.load(at + whole_vectors(g, V)), TYPE), scale)
        buffer = convert(tl.load(at + whole_vectors(m, V)), TYPE) if MOMENTUM and not FIRST else gradient
        new, kept = sgd_terms(
            parameter,
            gradient,
            buffer,
            rate,
            decay,
            keep,
            undamped,
            DECAY,
            MOMENTUM,
            FIRST,
            NESTEROV,
            MAXIMIZE,
        )
        tl.store(at + whole_vectors(p, V), convert(new, stored))
        if MOMENTUM:
            tl.store(at + whole_vectors(m, V), convert(kept, stored))
        if scale is not None:
            tl.store(at + whole_vectors(g, V), convert(gradient, stored))
    else:
        at = base + start + index
        inside = start + index < numel
        parameter = convert(tl.load(at + p, mask=inside), TYPE)
        gradient = unscaled(convert(tl.load(at + g, mask=inside), TYPE), scale)
        buffer = convert(tl.load(at + m, mask=inside), TYPE) if MOMENTUM and not FIRST else gradient
        new, kept = sgd_terms(
            parameter,
            gradient,
            buffer,
            rate,
            decay,
            keep,
            undamped,
            DECAY,
            MOMENTUM,
            FIRST,
            NESTEROV,
            MAXIMIZE,
        )
        tl.store(at + p, convert(new, stored), mask=inside)
        if MOMENTUM:
            tl.store(at + m, convert(kept, stored), mask=inside)
        if scale is not None:
            tl.store(at + g, convert(gradient, stored), mask=inside)


declare(
    fused_sgd,
    why=STREAMING + "; 16 where a lane has several vectors of each operand, or eight elements in a vector",
    operand="base",
    dtypes={
        ("fp32",): (Configuration((512,), 4), Configuration((1024,), 8), Configuration((1024,), 4, blocks=4)),
        ("fp16", "bf16"): (Configuration((1024,), 4, blocks=4), Configuration((2048,), 8, blocks=2)),
        ("fp64",): (Configuration((256,), 4), Configuration((512,), 8), Configuration((512,), 4, blocks=4)),
    },
    operations="up to 6 n: a product and a sum each for decay, momentum, step",
    traffic="3 n itemsize, 2 n more for momentum (n in the first step), n more where gradients are scaled",
    loads=("base",),
    stores=("base",),
)
