"""Random numbers: the same bits as the CPU's, for the same seed."""

from __future__ import annotations

import numpy as np

import triten as tt

from .first_checks import agree, check, require

SHAPE = (257, 33)


def both(draw: str, *args: object, **kwargs: object) -> tuple[np.ndarray, np.ndarray]:
    """Return a factory's random values on the CPU and on the device after the same seed."""
    tt.manual_seed(1234)
    host = getattr(tt, draw)(*args, **kwargs).numpy()
    tt.cuda.manual_seed(1234)
    return host, getattr(tt, draw)(*args, device="cuda", **kwargs).cpu().numpy()


@check("random: uniform numbers, integers and permutations have the CPU's bits")
def same_bits() -> str:
    for draw, args, kwargs in (
        ("rand", SHAPE, {}),
        ("rand", SHAPE, {"dtype": tt.float64}),
        ("randint", (0, 1 << 40, SHAPE), {}),
        ("randint", (-7, 100, SHAPE), {"dtype": tt.int32}),
        ("randperm", (10_007,), {}),
    ):
        host, device = both(draw, *args, **kwargs)
        agree(device, host, f"{draw}{args}")
    return "rand, randint, randperm"


@check("random: normal numbers are within two units in the last place of the CPU's")
def normal_numbers() -> str:
    host, device = both("randn", *SHAPE)
    ulps = np.abs(host - device) / np.spacing(np.abs(host))
    require(float(ulps.max()) <= 2, f"{float(ulps.max())} units apart")
    return f"at most {float(ulps.max()):.1f} units apart, {100 * float((ulps == 0).mean()):.1f} % equal"


@check("random: a generator's state goes there and back")
def generator_state() -> str:
    generator = tt.Generator("cuda")
    generator.manual_seed(7)
    state = generator.get_state()
    first = tt.rand(1000, device="cuda", generator=generator).cpu().numpy()
    generator.set_state(state)
    agree(tt.rand(1000, device="cuda", generator=generator).cpu().numpy(), first, "after set_state")
    return "1000 numbers again"
