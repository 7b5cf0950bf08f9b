"""Every operator that takes a generator returns the same values on the CPU and on CUDA, for all sizes and
strides.

The registry lists those operators, and the test requires a case for each. Each run generates new shapes,
strides and seeds, and names them on failure.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.generated.registrations.operator_index import OPERATORS

F16, BF16, F32, F64 = tt.float16, tt.bfloat16, tt.float32, tt.float64
FLOATS, INTEGERS = (F32, F64, F16, BF16), (tt.int64, tt.int32, tt.int16, tt.int8, tt.uint8)
NORMALS = (*FLOATS, tt.complex64)
SHAPES = ((), (0,), (1,), (7,), (1031,), (5, 13), (3, 4, 5), (2, 1, 3, 2))


class Draw:
    """A drawn layout: `empty(dtype)` and `filled(dtype, low, high)` give tensors of it on one device."""

    def __init__(self, chance: random.Random, device: str) -> None:
        self.chance, self.device = chance, device
        self.shape = chance.choice(SHAPES)
        self.order = chance.sample(range(len(self.shape)), len(self.shape))
        self.step = chance.choice((1, 1, 2))
        self.seed = chance.getrandbits(40)

    def empty(self, dtype: Any) -> Any:
        return self.filled(dtype, 0, 1)

    def filled(self, dtype: Any, low: float, high: float) -> Any:
        strides, reach = [0] * len(self.shape), self.step
        for d in self.order:
            strides[d] = reach
            reach *= max(self.shape[d], 1)
        values = np.random.default_rng(self.seed).uniform(low, high, reach)
        base = tt.from_numpy(values).to(dtype).to(self.device)
        return base.as_strided(self.shape, strides)

    def like(self) -> Any:
        return self.empty(F32)

    def __str__(self) -> str:
        return f"shape {self.shape}, memory order {self.order}, step {self.step}, seed {self.seed}"


def with_noise(d: Draw, dtype: Any, generator: Any, name: str, out: Any = None) -> Any:
    """Return the slopes that an operator of `rrelu_with_noise` writes to its noise."""
    x = d.filled(dtype, -3, 3)
    noise = tt.empty_like(x, memory_format=tt.contiguous_format)
    packet = getattr(tt.ops.aten, name)
    if out is None:
        packet.default(x, noise, 0.1, 0.4, True, generator=generator)
    else:
        packet.out(x, noise, 0.1, 0.4, True, generator=generator, out=out)
    return noise


Case = tuple[tuple[Any, ...], Callable[[Draw, Any, Any], Any]]


def in_place(name: str, dtypes: tuple[Any, ...], *given: Any) -> dict[str, Case]:
    """Return the cases of an in-place method and of the function that returns a filled copy."""
    overload = name.split(".")
    packet, kind = overload[0], overload[1] if len(overload) > 1 else "default"

    def written(d: Draw, dtype: Any, generator: Any) -> Any:
        x = d.empty(dtype)
        getattr(getattr(tt.ops.aten, packet + "_"), kind)(x, *given, generator=generator)
        return x

    def functional(d: Draw, dtype: Any, generator: Any) -> Any:
        return getattr(getattr(tt.ops.aten, packet), kind)(d.empty(dtype), *given, generator=generator)

    return {
        f"{packet}_{'.' + kind if kind != 'default' else ''}": (dtypes, written),
        name: (dtypes, functional),
    }


def factory(overload: str, dtypes: tuple[Any, ...], *given: Any) -> Case:
    """Return the case of a factory by its schema: `given` follows the sizes or the tensor."""
    packet, kind = overload.split(".")
    function = getattr(getattr(tt.ops.aten, packet), kind)

    def draw(d: Draw, dtype: Any, generator: Any) -> Any:
        if packet.endswith("_like"):
            return function(d.empty(dtype), *given, generator=generator)
        return function(*given, list(d.shape), generator=generator, dtype=dtype, device=d.device)

    return dtypes, draw


def into(overload: str, dtypes: tuple[Any, ...], *given: Any) -> Case:
    packet, kind = overload.split(".")
    function = getattr(getattr(tt.ops.aten, packet), kind)

    def draw(d: Draw, dtype: Any, generator: Any) -> Any:
        return function(*given, list(d.shape), generator=generator, out=d.empty(dtype))

    return dtypes, draw


def of_probabilities(d: Draw, dtype: Any) -> Any:
    return d.filled(dtype, 0, 1)


def out_like(d: Draw, dtype: Any) -> Any:
    return tt.empty(d.shape, dtype=dtype, device=d.device)


def weights(d: Draw, dtype: Any) -> Any:
    return tt.from_numpy(np.random.default_rng(d.seed).uniform(0.1, 1, (3, 11))).to(dtype).to(d.device)


CASES: dict[str, Case] = {
    **in_place("uniform", FLOATS, -1.0, 2.0),
    **in_place("log_normal", FLOATS, 0.5, 0.5),
    **in_place("cauchy", FLOATS, 0.5, 2.0),
    **in_place("exponential", FLOATS, 1.5),
    **in_place("geometric", (*FLOATS, *INTEGERS), 0.3),
    **in_place("random.from", INTEGERS[:4], -5, 100),
    **in_place("random.to", (*INTEGERS, *FLOATS), 100),
    **in_place("random", (*INTEGERS, F32)),
    **in_place("bernoulli.float", (*FLOATS, *INTEGERS, tt.bool), 0.3),
    "normal_": (NORMALS, lambda d, t, g: d.empty(t).normal_(0.5, 2.0, generator=g)),
    "normal_functional": (
        NORMALS,
        lambda d, t, g: tt.ops.aten.normal_functional(d.empty(t), 0.5, 2.0, generator=g),
    ),
    "bernoulli": (FLOATS, lambda d, t, g: tt.bernoulli(of_probabilities(d, t), generator=g)),
    "bernoulli.out": (
        FLOATS,
        lambda d, t, g: tt.bernoulli(of_probabilities(d, t), generator=g, out=out_like(d, t)),
    ),
    "bernoulli.p": (FLOATS, lambda d, t, g: tt.bernoulli(d.empty(t), 0.4, generator=g)),
    "bernoulli_.Tensor": (
        FLOATS,
        lambda d, t, g: d.empty(t).bernoulli_(of_probabilities(d, F32), generator=g),
    ),
    "bernoulli.Tensor": (
        FLOATS,
        lambda d, t, g: tt.ops.aten.bernoulli.Tensor(d.empty(t), of_probabilities(d, F32), generator=g),
    ),
    "rand.generator": factory("rand.generator", FLOATS),
    "rand.generator_out": into("rand.generator_out", FLOATS),
    "rand.generator_with_names": (
        FLOATS,
        lambda d, t, g: tt.rand(d.shape, generator=g, names=(None,) * len(d.shape), dtype=t, device=d.device),
    ),
    "rand_like.generator": factory("rand_like.generator", FLOATS),
    "randn.generator": factory("randn.generator", NORMALS),
    "randn.generator_out": into("randn.generator_out", NORMALS),
    "randn.generator_with_names": (
        FLOATS,
        lambda d, t, g: tt.randn(
            d.shape, generator=g, names=(None,) * len(d.shape), dtype=t, device=d.device
        ),
    ),
    "randn_like.generator": factory("randn_like.generator", NORMALS),
    "randint.generator": factory("randint.generator", (*INTEGERS, F32), 90),
    "randint.low_generator": factory("randint.low_generator", (*INTEGERS[:4], F32), -9, 90),
    "randint.generator_out": into("randint.generator_out", INTEGERS, 90),
    "randint.low_generator_out": into("randint.low_generator_out", INTEGERS[:4], -9, 90),
    "randint_like.generator": factory("randint_like.generator", INTEGERS, 90),
    "randint_like.low_generator_dtype": factory("randint_like.low_generator_dtype", INTEGERS[:4], -9, 90),
    "randint_like.Tensor_generator": (
        INTEGERS,
        lambda d, t, g: tt.randint_like(d.empty(t), tt.tensor(90), generator=g),
    ),
    "randperm.generator": (
        (tt.int64, tt.int32),
        lambda d, t, g: tt.randperm(37 * len(d.shape), generator=g, dtype=t, device=d.device),
    ),
    "randperm.generator_out": (
        (tt.int64,),
        lambda d, t, g: tt.randperm(100, generator=g, out=tt.empty(100, dtype=t, device=d.device)),
    ),
    "normal.Tensor_float": (FLOATS, lambda d, t, g: tt.normal(d.filled(t, -3, 3), 0.5, generator=g)),
    "normal.float_Tensor": (FLOATS, lambda d, t, g: tt.normal(1.5, d.filled(t, 0, 3), generator=g)),
    "normal.Tensor_Tensor": (
        FLOATS,
        lambda d, t, g: tt.normal(d.filled(t, -3, 3), d.filled(t, 0, 3), generator=g),
    ),
    "normal.float_float": (
        FLOATS,
        lambda d, t, g: tt.normal(0.5, 2.0, d.shape, generator=g, dtype=t, device=d.device),
    ),
    "normal.Tensor_float_out": (
        FLOATS,
        lambda d, t, g: tt.normal(d.filled(t, -3, 3), 0.5, generator=g, out=out_like(d, t)),
    ),
    "normal.float_Tensor_out": (
        FLOATS,
        lambda d, t, g: tt.normal(1.5, d.filled(t, 0, 3), generator=g, out=out_like(d, t)),
    ),
    "normal.Tensor_Tensor_out": (
        FLOATS,
        lambda d, t, g: tt.normal(d.filled(t, -3, 3), d.filled(t, 0, 3), generator=g, out=out_like(d, t)),
    ),
    "normal.float_float_out": (
        FLOATS,
        lambda d, t, g: tt.normal(0.5, 2.0, d.shape, generator=g, out=out_like(d, t)),
    ),
    "_standard_gamma": (FLOATS, lambda d, t, g: tt._standard_gamma(d.filled(t, 0.1, 30), generator=g)),
    "_standard_gamma.out": (
        FLOATS,
        lambda d, t, g: tt.ops.aten._standard_gamma.out(
            d.filled(t, 0.1, 30), generator=g, out=out_like(d, t)
        ),
    ),
    "_sample_dirichlet": (FLOATS, lambda d, t, g: tt._sample_dirichlet(d.filled(t, 0.1, 30), generator=g)),
    "_sample_dirichlet.out": (
        FLOATS,
        lambda d, t, g: tt.ops.aten._sample_dirichlet.out(
            d.filled(t, 0.1, 30), generator=g, out=out_like(d, t)
        ),
    ),
    "poisson": (FLOATS, lambda d, t, g: tt.poisson(d.filled(t, 0, 30), generator=g)),
    "poisson.out": (
        FLOATS,
        lambda d, t, g: tt.ops.aten.poisson.out(d.filled(t, 0, 30), generator=g, out=out_like(d, t)),
    ),
    "binomial": (
        FLOATS,
        lambda d, t, g: tt.binomial(d.filled(t, 0, 60).round(), d.filled(t, 0, 1), generator=g),
    ),
    "binomial.out": (
        FLOATS,
        lambda d, t, g: tt.ops.aten.binomial.out(
            d.filled(t, 0, 60).round(), d.filled(t, 0, 1), generator=g, out=out_like(d, t)
        ),
    ),
    "multinomial": (FLOATS, lambda d, t, g: tt.multinomial(weights(d, t), 5, generator=g)),
    "multinomial.out": (
        FLOATS,
        lambda d, t, g: tt.multinomial(
            weights(d, t), 20, True, generator=g, out=tt.empty(3, 20, dtype=tt.int64, device=d.device)
        ),
    ),
    "rrelu": (FLOATS, lambda d, t, g: tt.rrelu(d.filled(t, -3, 3), 0.1, 0.4, True, generator=g)),
    "rrelu_": (FLOATS, lambda d, t, g: tt.rrelu_(d.filled(t, -3, 3), 0.1, 0.4, True, generator=g)),
    "rrelu_with_noise": (FLOATS, lambda d, t, g: with_noise(d, t, g, "rrelu_with_noise")),
    "rrelu_with_noise_": (FLOATS, lambda d, t, g: with_noise(d, t, g, "rrelu_with_noise_")),
    "rrelu_with_noise.out": (FLOATS, lambda d, t, g: with_noise(d, t, g, "rrelu_with_noise", out_like(d, t))),
}

ROUNDED = (
    "_standard_gamma",
    "_sample_dirichlet",
    "normal",
    "randn",
    "log_normal",
    "cauchy",
    "exponential",
    "rrelu",
)
"""Operators whose results are functions of the drawn bits, and rounded: the same but for the last places."""


def test_every_operator_that_takes_a_generator_has_a_case() -> None:
    dispatcher = Dispatcher.singleton()
    takers = set()
    for name in (name for family in OPERATORS.values() for name in family):
        schema = dispatcher.find_schema_or_throw(name).schema
        if any("Generator" in str(argument.type) for argument in schema.arguments):
            takers.add(name.removeprefix("aten::"))
    assert takers == CASES.keys()


def array(x: Any) -> np.ndarray:
    wide = tt.complex128 if x.dtype.is_complex else tt.float64 if x.dtype.is_floating_point else x.dtype
    return x.cpu().to(wide).numpy()


@pytest.mark.parametrize("name", CASES)
def test_the_same_generator_gives_the_same_numbers_on_every_device(name: str, seed: int) -> None:
    dtypes, draw = CASES[name]
    chance = random.Random(seed)
    for dtype in dtypes:
        start = chance.getrandbits(32)
        results, offsets = [], []
        for device in ("cpu", "cuda"):
            layout = Draw(random.Random(start), device)
            generator = tt.Generator(device).manual_seed(start)
            generator.set_offset(4 * (start % 1000))
            result = draw(layout, dtype, generator)
            again = draw(layout, dtype, generator)
            results.append([array(result), array(again)])
            offsets.append(generator.get_offset())
        said = f"{name} of {dtype}, {layout}, generator seed {start}"
        assert offsets[0] == offsets[1], said
        for ours, theirs in zip(*results, strict=True):
            if name.startswith(ROUNDED):
                rtol = 4 * tt.finfo(dtype).eps
                np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol, err_msg=said)
            else:
                np.testing.assert_array_equal(ours, theirs, err_msg=said)
