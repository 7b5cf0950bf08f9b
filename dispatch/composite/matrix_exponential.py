"""Matrix exponential by Taylor polynomials with scaling and squaring; the norm selects the degree.

Source: P. Bader, S. Blanes and F. Casas, Computing the matrix exponential with an optimized Taylor polynomial
approximation (2019). Its polynomials of degree 1, 2, 4, 8, 12 and 18 take 0 to 5 matmuls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..generated import functions as ops
from ..tensor_data import tensor

if TYPE_CHECKING:
    from ..tensor import Tensor

Polynomial = Callable[[Any], Any]

BOUNDS = {
    4: (1.1920928007687878e-07, 5.978858893805233e-04, 5.116619363445086e-02, 0.5800524627688768, 1.4616615072090335),
    8: (2.2204460492503128e-16, 2.580956802971767e-08, 3.397168839976962e-04, 0.049912288711153226, 0.2996158913811581),
}  # fmt: skip
"""By the size of a real number in bytes: the largest 1-norm for which degrees 1, 2, 4, 8 and 12 have a backward error
of half a unit.

With log(exp(-x) T_m(x)) = sum of c_k x^k over k > m, the bound is where the sum of

c_k

x^(k - 1) is 2^-24, or 2^-53.

With log(exp(-x) T_m(x)) = sum of c_k x^k over k > m, the bound is where the sum of |c_k| x^(k - 1) is 2^-24, or 2^-53.
"""
LARGEST = {4: 3.0100663628176343, 8: 1.0908637192900361}
"""The same bound for degree 18; matrices beyond it are halved first."""

ROOT = math.sqrt(177)
# Coefficients: of A and A^2 beside A^2 in A^4; of A^2 in the left factor; of I, A, A^2, A^4 in the right one; of A^2.
DEGREE_8_FOURTH = ((1 + ROOT) / 132, (1 + ROOT) / 528)
DEGREE_8_LEFT = 2 / 3
DEGREE_8_RIGHT = (
    *((-271 + 29 * ROOT) / 210, 11 * (ROOT - 1) / 840, 11 * (ROOT - 9) / 3360, (89 - ROOT) / 2240),
)
DEGREE_8_SQUARE = (857 - 58 * ROOT) / 630
# Rows of coefficients of I, A, A^2, A^3 and, of degree 18, A^6.
DEGREE_12 = (
    (9.0198e-16, 0.46932117595418237389, -0.20099424927047284052, -0.04623946134063071740),
    (5.31597895759871264183, 1.19926790417132231573, 0.01179296240992997031, 0.01108844528519167989),
    (0.18188869982170434744, 0.05502798439925399070, 0.09351590770535414968, 0.00610700528898058230),
    (-2.0861320e-13, -0.13181061013830184015, -0.02027855540589259079, -0.00675951846863086359),
)
DEGREE_18 = (
    (0.0, -0.100365581030144618291, -0.00802924648241156932449, -0.000892138498045729985177, 0.0),
    (0.0, 0.397849749499645077844, 1.36783778460411720168, 0.498289622525382669416, -6.37898194594723280150e-04),
    (-10.9676396052962062, 1.68015813878906206, 0.0571779846478865511, -0.0069821012248805206, 3.3497501708607047e-05),
    (-0.090431683239081059, -0.067640451907138188, 0.067596130177045965, 0.029555257042931552, -1.3918025751606069e-05),
    (0.0, 0.0, -0.0923364619367118555360, -0.0169364939002081722752, -1.40086798182036094347e-05),
)  # fmt: skip


def exponential(A: Tensor) -> Tensor:
    """Compute the exponential of each matrix of a non-empty batch (b, n, n), in the precision of its dtype.

    The host waits for the norms, so that a small norm takes few matmuls, even in a batch with large ones. A matrix with
    NaN or infinity, or whose norm overflows, gives NaN everywhere.
    """
    width = A.dtype.itemsize // (2 if A.dtype.is_complex else 1)
    norms = ops.amax(ops.sum(ops.abs(A), [-2]), [-1]).cpu()
    bounds = tensor(BOUNDS[width], dtype=norms.dtype)
    degrees = ops.bucketize(norms, bounds)
    lowest, highest = int(ops.amin(degrees)), int(ops.amax(degrees))
    if lowest == highest:
        return _of_one_degree(A, norms, lowest, LARGEST[width])
    result = ops.empty(A._spec.sizes, dtype=A.dtype, device=A.device)
    for degree in range(lowest, highest + 1):
        chosen = ops.nonzero(ops.eq(degrees, degree)).squeeze(1)
        if chosen.numel():
            indices = chosen.to(A.device)
            part = ops.index_select(A, 0, indices)
            made = _of_one_degree(part, ops.index_select(norms, 0, chosen), degree, LARGEST[width])
            result.index_copy_(0, indices, made)
    return result


def _of_one_degree(A: Tensor, norms: Tensor, degree: int, largest: float) -> Tensor:
    return POLYNOMIALS[degree](A) if degree < len(POLYNOMIALS) else _scaled_and_squared(A, norms, largest)


def _scaled_and_squared(A: Tensor, norms: Tensor, largest: float) -> Tensor:
    """Compute exp(A / 2^s)^(2^s), with s for each matrix; matrices with the most squarings come first."""
    sound = ops.isfinite(norms)
    all_sound = bool(ops.all(sound))
    halvings = ops.clamp(ops.ceil(ops.log2(norms / largest)), min=0.0)
    if not all_sound:
        halvings = ops.where(sound, halvings, 0.0)
    min_squarings, max_squarings = int(ops.amin(halvings)), int(ops.amax(halvings))
    if not max_squarings and all_sound:
        return _degree_18(A)
    order: Any = None
    if min_squarings != max_squarings:
        halvings, order = ops.sort(halvings, -1, True)
        A = ops.index_select(A, 0, order.to(A.device))
        sound = ops.index_select(sound, 0, order)
    scale = ops.exp2(-halvings).to(A.device).reshape((-1, 1, 1))
    result = _degree_18(A * scale)
    for step in range(max_squarings):
        left = A._spec.sizes[0] if step < min_squarings else int(ops.count_nonzero(ops.gt(halvings, step)))
        part = ops.narrow(result, 0, 0, left)
        squared = ops.matmul(part, part)
        if left == A._spec.sizes[0]:
            result = squared
        else:
            part.copy_(squared)
    if not all_sound:
        result = ops.where(sound.to(A.device).reshape((-1, 1, 1)), result, math.nan)
    if order is None:
        return result
    return ops.index_select(result, 0, ops.argsort(order).to(A.device))


def _combined(coefficients: Sequence[Sequence[float]], powers: Sequence[Tensor]) -> list[Tensor]:
    """Return a linear combination of powers for each row of coefficients, with one matmul."""
    first = powers[1]
    rows = tensor(coefficients, dtype=first.dtype, device=first.device)
    made = ops.mm(rows, ops.stack(powers).reshape((len(powers), -1)))
    return [made.select(0, row).reshape(first._spec.sizes) for row in range(len(coefficients))]


def _identity(A: Tensor) -> Tensor:
    return ops.eye(A._spec.sizes[-1], dtype=A.dtype, device=A.device)


def _degree_1(A: Tensor) -> Tensor:
    return A + _identity(A)


def _degree_2(A: Tensor) -> Tensor:
    return ops.matmul(A, A) / 2 + A + _identity(A)


def _degree_4(A: Tensor) -> Tensor:
    A2 = ops.matmul(A, A)
    identity = _identity(A)
    return ops.matmul(A2, A2 / 24 + A / 6 + identity / 2) + A + identity


def _degree_8(A: Tensor) -> Tensor:
    identity, (c0, c1, c2, c4) = _identity(A), DEGREE_8_RIGHT
    A2 = ops.matmul(A, A)
    A4 = ops.matmul(A2, A * DEGREE_8_FOURTH[0] + A2 * DEGREE_8_FOURTH[1])
    right = identity * c0 + A * c1 + A2 * c2 + A4 * c4
    return ops.matmul(A2 * DEGREE_8_LEFT + A4, right) + A2 * DEGREE_8_SQUARE + A + identity


def _degree_12(A: Tensor) -> Tensor:
    A2 = ops.matmul(A, A)
    powers = [_identity(A).expand(A._spec.sizes), A, A2, ops.matmul(A2, A)]
    B0, B1, B2, B3 = _combined(DEGREE_12, powers)
    A6 = ops.matmul(B3, B3) + B2
    return ops.matmul(B1 + A6, A6) + B0


def _degree_18(A: Tensor) -> Tensor:
    A2 = ops.matmul(A, A)
    A3 = ops.matmul(A2, A)
    powers = [_identity(A).expand(A._spec.sizes), A, A2, A3, ops.matmul(A3, A3)]
    B0, B1, B2, B3, B4 = _combined(DEGREE_18, powers)
    A9 = ops.matmul(B0, B4) + B3
    return ops.matmul(B2 + A9, A9) + B1


POLYNOMIALS: tuple[Polynomial, ...] = (_degree_1, _degree_2, _degree_4, _degree_8, _degree_12)
"""Degrees for matrices below the bounds, by the index of the bound; beyond the last one it is degree 18."""
