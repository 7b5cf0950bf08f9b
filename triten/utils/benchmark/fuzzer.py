"""Operands of random sizes and layouts for benchmarks (`torch.utils.benchmark.Fuzzer`).

Parameters are drawn, tensors are made of those that satisfy all constraints. A seed gives the same sizes and layouts on
every machine.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...dispatch.generated import functions as _ops
from ...dispatch.random import manual_seed
from ...dispatch.tensor import Tensor
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float32

__all__ = ["FuzzedParameter", "FuzzedTensor", "Fuzzer", "ParameterAlias"]

ATTEMPTS = 1000
"""How often parameters are drawn before a fuzzer gives up."""

Parameters = Mapping[str, Any]


class ParameterAlias:
    """The value of another parameter, as a choice in a `FuzzedParameter`'s distribution.

    Args:
        alias_to: the other one's name.
    """

    def __init__(self, alias_to: str) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """Parameter sampled for each set of operands: a number or another value.

    Args:
        name: for sizes and steps of tensors to refer to.
        minval, maxval: the least and the greatest value.
        distribution: ``"uniform"``, among integers if both bounds are; ``"loguniform"``, integers whose logarithms are
            uniform; or a dict of choices and their probabilities, without bounds.
        strict: keep the first value that is drawn for a set while the others are drawn again for the constraints.

    Raises:
        AssertionError: for another distribution, and bounds that do not go with it.
    """

    def __init__(
        self,
        name: str,
        minval: float | None = None,
        maxval: float | None = None,
        distribution: str | dict[Any, float] | None = None,
        strict: bool = False,
    ) -> None:
        if isinstance(distribution, dict):
            if any(probability < 0 for probability in distribution.values()):
                raise AssertionError(f"FuzzedParameter {name!r}: Probabilities cannot be negative")
            if abs(sum(distribution.values()) - 1) > 1e-5:
                raise AssertionError(f"FuzzedParameter {name!r}: Distribution is not normalized")
            if minval is not None or maxval is not None:
                raise AssertionError(
                    f"FuzzedParameter {name!r}: When passing a custom distribution, 'minval' and 'maxval' must be None"
                )
        elif distribution not in ("loguniform", "uniform"):
            raise AssertionError(f"FuzzedParameter {name!r}: Unknown distribution: {distribution}")
        elif minval is None or maxval is None or maxval < minval:
            raise AssertionError(
                f"FuzzedParameter {name!r}: expected minval and maxval in this order, got {minval} and {maxval}"
            )
        self._name = name
        self._bounds = minval, maxval
        self._distribution = distribution
        self.strict = strict

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def sample(self, state: np.random.RandomState) -> Any:
        """Sample a value, or the `ParameterAlias` of another parameter."""
        if isinstance(self._distribution, dict):
            choices = list(self._distribution)
            return choices[state.choice(len(choices), p=list(self._distribution.values()))]
        low, high = self._bounds
        assert low is not None and high is not None
        if self._distribution == "loguniform":
            drawn = int(2 ** state.uniform(math.log2(low), math.log2(high)))
            return min(max(drawn, low), high)
        if isinstance(low, int) and isinstance(high, int):
            return int(state.randint(low, high + 1))
        return state.uniform(low, high)


class FuzzedTensor:
    """Fuzzed tensor, whose size and layout follow from the parameters.

    Args:
        name: in the dicts that `Fuzzer.take` gives.
        size: numbers and names of parameters.
        steps: likewise; of a tensor that is larger by these every step-th element is taken in each dimension.
        probability_contiguous: The probability that the tensor is contiguous, before `steps`.
        min_elements, max_elements: constraints on the number of elements.
        max_allocation_bytes: a constraint on the memory, before `steps`.
        dim_parameter: the name of a parameter that says how many dimensions there are: `size` and `steps` are cut, or
            filled up with 1.
        dtype: The dtype of the tensor.
        cuda: If True, it goes to the current CUDA device. Default: False.
        tensor_constructor: called with size, dtype and all parameters by name, instead of uniform numbers below 1, or
            integers from 1 to 126.
    """

    def __init__(
        self,
        name: str,
        size: Sequence[str | int],
        steps: Sequence[str | int] | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        dtype: ScalarType = float32,
        cuda: bool = False,
        tensor_constructor: Callable[..., Tensor] | None = None,
    ) -> None:
        self._name = name
        self._size = tuple(size)
        self._steps = tuple(steps or ())
        self._probability_contiguous = probability_contiguous
        self._elements = min_elements, max_elements
        self._max_allocation_bytes = max_allocation_bytes
        self._dim_parameter = dim_parameter
        self._dtype = dtype
        self._cuda = cuda
        self._make = tensor_constructor or self.default_tensor_constructor

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @staticmethod
    def default_tensor_constructor(size: Sequence[int], dtype: ScalarType, **parameters: Any) -> Tensor:
        """Create a random CPU tensor of a dtype."""
        if dtype.is_floating_point or dtype.is_complex:
            return _ops.rand(size, dtype=dtype, device="cpu")
        return _ops.randint(1, 127, size, dtype=dtype, device="cpu")

    def _geometry(self, parameters: Parameters) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return the size, the steps, and the size before slicing with the steps."""
        dims = len(self._size) if self._dim_parameter is None else parameters[self._dim_parameter]

        def numbers(values: tuple[str | int, ...]) -> tuple[int, ...]:
            resolved = [parameters.get(each, each) if isinstance(each, str) else each for each in values]
            return tuple((resolved + [1] * dims)[:dims])

        size, steps = numbers(self._size), numbers(self._steps)
        return size, steps, tuple(n * step for n, step in zip(size, steps, strict=True))

    def satisfies_constraints(self, params: Parameters) -> bool:
        """Return whether the tensor of these parameters is within the limits on elements and bytes."""
        size, _, allocated = self._geometry(params)
        count, min_elements, max_elements = math.prod(size), *self._elements
        nbytes = math.prod(allocated) * self._dtype.itemsize
        return not (
            (min_elements is not None and count < min_elements)
            or (max_elements is not None and count > max_elements)
            or (self._max_allocation_bytes is not None and nbytes > self._max_allocation_bytes)
        )

    def _made(self, parameters: Parameters, state: np.random.RandomState) -> tuple[Tensor, dict[str, Any]]:
        """Build the tensor and its properties."""
        size, steps, allocated = self._geometry(parameters)
        raw = self._make(size=allocated, dtype=self._dtype, **parameters)
        if self._cuda:
            raw = raw.cuda()
        order = np.arange(len(size))
        if state.rand() > self._probability_contiguous:
            while len(size) > 1 and (order == np.arange(len(size))).all():
                order = state.permutation(len(size))
            back = [int(dim) for dim in np.argsort(order)]
            raw = raw.permute([int(dim) for dim in order]).contiguous().permute(back)
        tensor = raw[tuple(slice(0, n * step, step) for n, step in zip(size, steps, strict=True))]
        return tensor, {
            "numel": tensor.numel(),
            "order": order,
            "steps": steps,
            "is_contiguous": tensor.is_contiguous(),
            "dtype": str(self._dtype),
        }


class Fuzzer:
    """Generator of operand sets by rejection sampling: parameters must satisfy all constraints.

    Args:
        parameters: objects of `FuzzedParameter`, and lists of them.
        tensors: objects of `FuzzedTensor`, and lists of them.
        constraints: functions of the dict of parameters; where one gives False they are drawn again.
        seed: The seed of parameters and tensor values. Default: from the operating system.

    Raises:
        ValueError: for a name of a parameter and a tensor; from `take`, where 1000 draws do not satisfy the
            constraints, and for aliases that go round in a circle.

    Example:
        >>> from triten.utils.benchmark import FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias
        >>> fuzzer = Fuzzer(
        ...     parameters=[
        ...         FuzzedParameter("n", minval=4, maxval=8, distribution="uniform"),
        ...         FuzzedParameter("m", distribution={1: 0.5, ParameterAlias("n"): 0.5}),
        ...     ],
        ...     tensors=[FuzzedTensor("x", size=("n", 2)), FuzzedTensor("y", size=("m", 2))],
        ...     seed=0,
        ... )
        >>> [tensors["x"].shape[0] == params["n"] for tensors, properties, params in fuzzer.take(3)]
        [True, True, True]
    """

    def __init__(
        self,
        parameters: Iterable[FuzzedParameter | Iterable[FuzzedParameter]],
        tensors: Iterable[FuzzedTensor | Iterable[FuzzedTensor]],
        constraints: Iterable[Callable[[Parameters], bool]] | None = None,
        seed: int | None = None,
    ) -> None:
        self._seed = (
            int(np.random.RandomState().randint(0, 2**32 - 1, dtype=np.int64)) if seed is None else seed
        )
        self._parameters: tuple[FuzzedParameter, ...] = _flat(parameters, FuzzedParameter)
        self._tensors: tuple[FuzzedTensor, ...] = _flat(tensors, FuzzedTensor)
        self._constraints = tuple(constraints or ())
        both = {each.name for each in self._parameters} & {each.name for each in self._tensors}
        if both:
            raise ValueError(f"Duplicate names in parameters and tensors: {both}")
        self._rejections = 0
        self._drawn = 0

    @property
    def rejection_rate(self) -> float:
        """Fraction of samples that violated the constraints so far."""
        return self._rejections / self._drawn if self._drawn else 0.0

    def take(self, n: int) -> Iterator[tuple[dict[str, Tensor], dict[str, dict[str, Any]], dict[str, Any]]]:
        """Yield `n` samples, each the tensors by name, their properties by name, and the parameters."""
        state = np.random.RandomState(self._seed)
        manual_seed(int(state.randint(0, 2**63, dtype=np.uint64)))
        for _ in range(n):
            parameters = self._satisfying(state)
            made = {each.name: each._made(parameters, state) for each in self._tensors}
            yield (
                {name: tensor for name, (tensor, _) in made.items()},
                {name: properties for name, (_, properties) in made.items()},
                parameters,
            )

    def _satisfying(self, state: np.random.RandomState) -> dict[str, Any]:
        strict_values: dict[str, Any] = {}
        for _ in range(ATTEMPTS):
            sampled: dict[str, Any] = {}
            for each in self._parameters:
                sampled[each.name] = (
                    strict_values[each.name] if each.name in strict_values else each.sample(state)
                )
                if each.strict:
                    strict_values[each.name] = sampled[each.name]
            resolved = _without_aliases(sampled)
            self._drawn += 1
            if all(allows(resolved) for allows in self._constraints) and all(
                each.satisfies_constraints(resolved) for each in self._tensors
            ):
                return resolved
            self._rejections += 1
        raise ValueError("Failed to generate a set of valid parameters.")


def _flat(values: Iterable[Any], kind: type) -> tuple[Any, ...]:
    return tuple(itertools.chain.from_iterable([each] if isinstance(each, kind) else each for each in values))


def _without_aliases(parameters: Parameters) -> dict[str, Any]:
    """Resolve each alias to the value at the end of its chain."""
    resolved = {}
    for name, value in parameters.items():
        seen = {name}
        while isinstance(value, ParameterAlias):
            if value.alias_to in seen:
                raise ValueError(f"ParameterAlias cycle detected\n{parameters}")
            seen.add(value.alias_to)
            value = parameters[value.alias_to]
        resolved[name] = value
    return resolved
