"""`tt.quasirandom.SobolEngine`; the expected numbers are those of PyTorch 2.13."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import triten as tt
from triten.quasirandom import SobolEngine


@pytest.fixture
def mersenne_twister() -> Iterator[None]:
    """Generate PyTorch's random numbers."""
    tt.random.set_cpu_engine("mt19937")
    yield
    tt.random.set_cpu_engine("philox")


def test_points_are_those_of_joe_and_kuo() -> None:
    engine = SobolEngine(5)
    first = [[0.0] * 5, [0.5] * 5, [0.75, 0.25, 0.25, 0.25, 0.75], [0.25, 0.75, 0.75, 0.75, 0.25]]
    assert engine.draw(4).tolist() == first
    assert engine.draw(2, dtype=tt.float64).tolist() == [
        [0.375, 0.375, 0.625, 0.875, 0.375],
        [0.875, 0.875, 0.125, 0.375, 0.875],
    ]
    assert engine.num_generated == 6
    assert engine.sobolstate[:, :4].tolist() == DIRECTIONS
    assert engine.reset() is engine
    assert engine.draw(4).tolist() == first


DIRECTIONS = [
    [536870912, 268435456, 134217728, 67108864],
    [536870912, 805306368, 671088640, 1006632960],
    [536870912, 805306368, 402653184, 603979776],
    [536870912, 805306368, 134217728, 335544320],
    [536870912, 268435456, 134217728, 738197504],
]
"""The first direction numbers of five dimensions."""


@pytest.mark.usefixtures("mersenne_twister")
def test_a_seed_gives_the_scramble_of_pytorch() -> None:
    engine = SobolEngine(3, scramble=True, seed=5)
    assert engine.shift.tolist() == [515708045, 125905764, 133132919]
    assert engine.sobolstate[:, 1].tolist() == [409717082, 653810118, 825514845]
    points = engine.draw(4)
    expected = [
        [0.4803, 0.1173, 0.1240],
        [0.9115, 0.8687, 0.5391],
        [0.5351, 0.2715, 0.3079],
        [0.1069, 0.5230, 0.8571],
    ]
    tt.testing.assert_close(points, tt.tensor(expected), atol=5e-5, rtol=0)
    assert repr(engine) == "SobolEngine(dimension=3, scramble=True, seed=5)"


@pytest.mark.parametrize("scramble", [False, True])
@pytest.mark.parametrize("skipped", [0, 1, 2, 7, 8, 21])
def test_skipping_equals_drawing(scramble: bool, skipped: int) -> None:
    drawn, forwarded = (SobolEngine(4, scramble, seed=1) for _ in range(2))
    wanted = drawn.draw(40)[skipped:]
    forwarded.fast_forward(skipped)
    found = [forwarded.draw(3), forwarded.fast_forward(5).draw(2)]
    assert tt.equal(found[0], wanted[:3]) and tt.equal(found[1], wanted[8:10])


def test_points_of_many_dimensions_are_balanced() -> None:
    points = SobolEngine(200).draw_base2(6, dtype=tt.float64).numpy()
    assert points.shape == (64, 200)
    np.testing.assert_array_equal(
        np.sort(points, axis=0), np.repeat(np.arange(64)[:, None] / 64, 200, axis=1)
    )


def test_an_output_and_refused_arguments() -> None:
    engine, out = SobolEngine(2), tt.empty(0)
    assert engine.draw(2, out=out) is out and out.tolist() == [[0.0, 0.0], [0.5, 0.5]]
    with pytest.raises(ValueError, match="2 points have been previously generated, then: n=2\\+2\\*\\*2=6"):
        engine.draw_base2(2)
    for dimension in (0, 21202):
        with pytest.raises(
            ValueError, match=r"Supported range of dimensionality for SobolEngine is \[1, 21201\]"
        ):
            SobolEngine(dimension)
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        SobolEngine(2).draw(0)
