"""Adam and AdamW over many tensors in one launch; dispatch/structured/meta/optimizers.py has the terms.

Sources: Adam: A Method for Stochastic Optimization (D. P. Kingma and J. Ba, 2015); Decoupled Weight Decay
Regularization (I. Loshchilov and F. Hutter, 2019); On the Convergence of Adam and Beyond (S. J. Reddi, S. Kale and
S. Kumar, 2018), for `amsgrad`.
"""

from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from .table_kernels import column, divided, number, root_of, row_of, unscaled, whole_vectors


@triton.jit
def adam_terms(
    parameter,
    gradient,
    average,
    square,
    largest,
    decay,
    weight,
    beta2,
    rest2,
    step_size,
    root,
    eps,
    DECOUPLED: tl.constexpr,
    DECAY: tl.constexpr,
    AMSGRAD: tl.constexpr,
    MAXIMIZE: tl.constexpr,
):
    """Return the next parameter, both moments and the maximum of the second moment, in the dtype of the arithmetic."""
    if MAXIMIZE:
        gradient = -gradient
    if DECAY:
        if DECOUPLED:
            parameter = parameter * decay
        else:
            gradient = gradient + parameter * decay
    # From the nearer end, as `lerp` has it: a weight of 1 gives the gradient, whatever the average is.
    gap = gradient - average
    near = weight < 0.5
    average = tl.where(near, average, gradient) + tl.where(near, weight, weight - 1.0) * gap
    square = square * beta2 + rest2 * gradient * gradient
    if AMSGRAD:
        largest = tl.maximum(largest, square, propagate_nan=tl.PropagateNan.ALL)
        second = largest
    else:
        second = square
    denominator = divided(root_of(second), root) + eps
    return parameter - divided(step_size * average, denominator), average, square, largest


@triton.jit
def fused_adam(
    base,
    counts,
    table,
    rows,
    lr,
    beta1,
    beta2,
    weight_decay,
    eps,
    scale,
    found_inf,
    INDIRECT: tl.constexpr,
    DECOUPLED: tl.constexpr,
    DECAY: tl.constexpr,
    AMSGRAD: tl.constexpr,
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
    m = column(table, rows, row, 4)
    v = column(table, rows, row, 5)
    step = tl.load(counts + column(table, rows, row, 6)).to(tl.float64)
    x = column(table, rows, row, 7) if AMSGRAD else p
    rate = number(lr, INDIRECT)
    decay = (1.0 - rate * weight_decay if DECOUPLED else weight_decay).to(TYPE)
    step_size = (rate / (1.0 - libdevice.pow(beta1, step))).to(TYPE)
    root = root_of(1.0 - libdevice.pow(beta2, step)).to(TYPE)
    weight, kept2, rest2 = (1.0 - beta1).to(TYPE), beta2.to(TYPE), (1.0 - beta2).to(TYPE)
    little = eps.to(TYPE)
    index = tl.arange(0, BLOCK)
    if (start + BLOCK <= numel) & ((p | g | m | v | x) % V == 0):
        at = base + start + index
        parameter = convert(tl.load(at + whole_vectors(p, V)), TYPE)
        gradient = unscaled(convert(tl.load(at + whole_vectors(g, V)), TYPE), scale)
        average = convert(tl.load(at + whole_vectors(m, V)), TYPE)
        square = convert(tl.load(at + whole_vectors(v, V)), TYPE)
        largest = convert(tl.load(at + whole_vectors(x, V)), TYPE) if AMSGRAD else square
        new, average, square, largest = adam_terms(
            parameter, gradient, average, square, largest, decay, weight, kept2, rest2, step_size, root, little,
            DECOUPLED, DECAY, AMSGRAD, MAXIMIZE,
        )  # fmt: skip
        tl.store(at + whole_vectors(p, V), convert(new, stored))
        tl.store(at + whole_vectors(m, V), convert(average, stored))
        tl.store(at + whole_vectors(v, V), convert(square, stored))
        if AMSGRAD:
            tl.store(at + whole_vectors(x, V), convert(largest, stored))
        if scale is not None:
            tl.store(at + whole_vectors(g, V), convert(gradient, stored))
    else:
        at = base + start + index
        inside = start + index < numel
        parameter = convert(tl.load(at + p, mask=inside), TYPE)
        gradient = unscaled(convert(tl.load(at + g, mask=inside), TYPE), scale)
        average = convert(tl.load(at + m, mask=inside), TYPE)
        square = convert(tl.load(at + v, mask=inside), TYPE)
        largest = convert(tl.load(at + x, mask=inside), TYPE) if AMSGRAD else square
        new, average, square, largest = adam_terms(
            parameter, gradient, average, square, largest, decay, weight, kept2, rest2, step_size, root, little,
            DECOUPLED, DECAY, AMSGRAD, MAXIMIZE,
        )  # fmt: skip
        tl.store(at + p, convert(new, stored), mask=inside)
        tl.store(at + m, convert(average, stored), mask=inside)
        tl.store(at + v, convert(square, stored), mask=inside)
        if AMSGRAD:
            tl.store(at + x, convert(largest, stored), mask=inside)
        if scale is not None:
            tl.store(at + g, convert(gradient, stored), mask=inside)


declare(
    fused_adam,
    why="32 warps, as kernels that wait for memory have; 12 where a vector has eight elements of each of five operands,"
    " whose bytes in flight are as many",
    operand="base",
    dtypes={
        ("fp32",): (Configuration((512,), 4), Configuration((1024,), 8)),
        ("fp16", "bf16"): (Configuration((1024,), 4, blocks=3),),
        ("fp64",): (Configuration((256,), 4), Configuration((512,), 8)),
    },
    operations="18 n, with two divisions and a square root each, and two powers for each program",
    traffic="7 n itemsize, 2 n more for amsgrad, n more where gradients are scaled",
    loads=("base",),
    stores=("base",),
)
