"""The policy learns to keep the pole up, from advantages with known values."""

from collections.abc import Callable
from types import ModuleType

import pytest

import triten as tt

pytest.importorskip("gymnasium", reason="the carts are Gymnasium's")

Load = Callable[[str], ModuleType]


def test_advantages_are_those_of_the_definition(load_example: Load, device: str) -> None:
    example = load_example("cartpole")
    rewards = tt.ones(3, 1, device=device)
    values = tt.tensor([[1.0], [2.0], [3.0], [4.0]], device=device)
    ended = tt.tensor([[0.0], [1.0], [0.0]], device=device)
    found = example.advantages_of(rewards, values, ended)
    # Errors 1 + 0.99 * 2 - 1, 1 - 2 (the episode ends), 1 + 0.99 * 4 - 3; the trace is 0.99 * 0.95 a step.
    tt.testing.assert_close(found.cpu().flatten(), tt.tensor([1.98 - 0.9405, -1.0, 1.96]))


def test_episodes_become_longer(load_example: Load, capsys: pytest.CaptureFixture[str]) -> None:
    load_example("cartpole").main(["--updates", "6"])
    lines = capsys.readouterr().out.splitlines()
    lengths = [float(line.split("episodes of")[1].split()[0]) for line in lines]
    assert len(lengths) == 6 and lengths[-1] > 1.5 * lengths[0]
