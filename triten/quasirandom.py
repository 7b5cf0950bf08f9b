"""Sobol sequences (`torch.quasirandom`): points that fill the unit cube more evenly than random ones.

The direction numbers are Joe and Kuo's, for up to 21201 dimensions. SciPy ships them, and this module reads its file.
Points equal PyTorch's. Scrambled points equal PyTorch's for the same seed with ``tt.random.set_cpu_engine("mt19937")``.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .dispatch.generated import functions as _ops
from .dispatch.random import Generator
from .dispatch.tensor_data import from_numpy
from .runtime.scalar_type import get_default_dtype

if TYPE_CHECKING:
    from .dispatch.tensor import Tensor
    from .runtime.scalar_type import dtype as ScalarType

__all__ = ["SobolEngine"]

_MAXBIT: Final = 30
_MAXDIM: Final = 21201


@cache
def _published_numbers() -> tuple[np.ndarray, np.ndarray]:
    """Return the primitive polynomials, and the first direction numbers of each dimension."""
    with as_file(files("scipy.stats") / "_sobol_direction_numbers.npz") as path, np.load(path) as published:
        return published["poly"], published["vinit"]


def _direction_numbers(dimension: int) -> np.ndarray:
    """Return the direction numbers of the first dimensions, shape (dimension, 30), as fractions of 2 ** 30.

    Bratley and Fox, Algorithm 659: Implementing Sobol's quasirandom sequence generator (1988).
    """
    polynomials, initial = (each[:dimension] for each in _published_numbers())
    numbers = np.ones((dimension, _MAXBIT), np.int64)
    degrees = np.array([int(each).bit_length() - 1 for each in polynomials])
    for degree in range(1, int(degrees.max(initial=0)) + 1):
        selected = np.flatnonzero(degrees == degree)
        if not selected.size:
            continue
        coefficients = polynomials[selected]
        rows = np.empty((selected.size, _MAXBIT), np.int64)
        rows[:, :degree] = initial[selected, :degree]
        for j in range(degree, _MAXBIT):
            rows[:, j] = rows[:, j - degree]
            for k in range(degree):
                has_term = coefficients >> (degree - 1 - k) & 1
                rows[:, j] ^= has_term * rows[:, j - k - 1] << (k + 1)
        numbers[selected] = rows
    shifted: np.ndarray = numbers << np.arange(_MAXBIT - 1, -1, -1)
    return shifted


def _changed_bits(first: int, count: int) -> np.ndarray:
    """Return, for each of `count` points from number `first`, the lowest zero bit: the direction that it adds."""
    following = np.arange(first + 1, first + count + 1)
    bits: np.ndarray = np.bitwise_count((following & -following) - 1)
    return bits.astype(np.intp)


class SobolEngine:
    """Generator of a Sobol sequence, scrambled on request (`torch.quasirandom.SobolEngine`).

    The first point of an unscrambled sequence is the origin. A scrambled sequence is uniformly distributed, and keeps
    the even spacing.

    Args:
        dimension: The number of coordinates of a point, from 1 to 21201.
        scramble: If True, apply a random linear scramble and a digital shift. Default: False.
        seed: The seed of the scramble. Default: None, which draws from the default generator.

    Attributes:
        num_generated: The number of points drawn so far.

    Raises:
        ValueError: `dimension` is out of range.

    References:
        Owen, Scrambling Sobol and Niederreiter-Xing points (1998); Joe and Kuo, Constructing Sobol sequences with
        better two-dimensional projections (2008).

    Example:
        >>> import triten as tt
        >>> engine = tt.quasirandom.SobolEngine(dimension=3)
        >>> engine.draw(4)
        tensor([[0.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.5000],
                [0.7500, 0.2500, 0.2500],
                [0.2500, 0.7500, 0.7500]])
    """

    MAXBIT = _MAXBIT
    MAXDIM = _MAXDIM

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        numbers = _direction_numbers(dimension)
        shift = np.zeros(dimension, np.int64)
        if scramble:
            numbers, shift = self._scrambled(numbers)
        self.sobolstate = from_numpy(numbers)
        self.shift = from_numpy(shift)
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def _scrambled(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the direction numbers times random triangular matrices over GF(2), and a random shift."""
        generator = None
        if self.seed is not None:
            generator = Generator()
            generator.manual_seed(self.seed)
        sizes = (self.dimension, self.MAXBIT)
        shift = _ops.randint(2, sizes, device="cpu", generator=generator).numpy()
        matrices = _ops.randint(2, (*sizes, self.MAXBIT), device="cpu", generator=generator).numpy()
        matrices = np.tril(matrices, -1).astype(np.uint8) | np.eye(self.MAXBIT, dtype=np.uint8)
        weights = np.arange(self.MAXBIT - 1, -1, -1)
        # The most significant bit comes first; a sum of at most 30 ones fits a byte.
        bits = (numbers[:, :, None] >> weights & 1).astype(np.uint8)
        product = np.matmul(bits, matrices.transpose(0, 2, 1)) & 1
        return (product.astype(np.int64) << weights).sum(-1), (shift << np.arange(self.MAXBIT)).sum(-1)

    def _advance(self, count: int, first: int) -> np.ndarray:
        """Return the coordinates of `count` points from number `first`, as integers, and step to the last point."""
        if count < 0:
            sizes = [count, self.dimension]
            raise RuntimeError(f"Trying to create tensor with negative dimension {count}: {sizes}")
        steps: np.ndarray = self.sobolstate.numpy().T[_changed_bits(first, count)]
        if count:
            steps[0] ^= self.quasi.numpy()
            np.bitwise_xor.accumulate(steps, axis=0, out=steps)
            self.quasi = from_numpy(steps[-1].copy())
        return steps

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: ScalarType | None = None) -> Tensor:
        """Return the next points of the sequence.

        Args:
            n: The number of points. Default: 1.
            out: The output tensor; it is resized. Default: a new tensor.
            dtype: The dtype of the points. Default: the default floating dtype.

        Returns:
            A tensor of shape (n, dimension), with elements in [0, 1).
        """
        dtype = get_default_dtype() if dtype is None else dtype
        is_first = not self.num_generated
        points = self._advance(n - 1, 0) if is_first else self._advance(n, self.num_generated - 1)
        result = from_numpy(points).to(dtype) * 2.0**-self.MAXBIT
        if is_first:
            result = _ops.cat((self._first_point.to(dtype), result), dim=-2)
        self.num_generated += n
        if out is not None:
            out.resize_as_(result).copy_(result)
            return out
        return result

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: ScalarType | None = None) -> Tensor:
        """Return the next ``2 ** m`` points, which keep the balance of the sequence.

        Args:
            m: The exponent of the number of points.
            out: The output tensor; it is resized. Default: a new tensor.
            dtype: The dtype of the points. Default: the default floating dtype.

        Returns:
            A tensor of shape (2 ** m, dimension).

        Raises:
            ValueError: The number of points drawn so far plus ``2 ** m`` is not a power of 2.
        """
        n = 2**m
        total_n = self.num_generated + n
        if total_n & (total_n - 1):
            raise ValueError(
                "The balance properties of Sobol' points require "
                f"n to be a power of 2. {self.num_generated} points have been "
                f"previously generated, then: n={self.num_generated}+2**{m}={total_n}. "
                "If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Return to the first point of the sequence, and return the engine."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip points of the sequence, and return the engine.

        Args:
            n: The number of points.
        """
        last = max(self.num_generated - 1, 0)
        count = max(n if self.num_generated else n - 1, 0)
        # Point number k is the sum of the directions in the Gray code of k.
        changed = (last ^ last >> 1) ^ ((last + count) ^ (last + count) >> 1)
        added = [bit for bit in range(self.MAXBIT) if changed >> bit & 1]
        step = np.bitwise_xor.reduce(self.sobolstate.numpy()[:, added], axis=1)
        self.quasi = from_numpy(self.quasi.numpy() ^ step)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        shown: dict[str, Any] = {"dimension": self.dimension}
        if self.scramble:
            shown["scramble"] = True
        if self.seed is not None:
            shown["seed"] = self.seed
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in shown.items())})"
