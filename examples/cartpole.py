"""Balance a pole by reinforcement learning: proximal policy optimization on Gymnasium's CartPole.

    python examples/cartpole.py [--device cpu|cuda] [--updates 40] [--seed 0]

Sixteen carts run at once. After 64 steps of each, the policy takes a few gradient steps on the clipped objective. The
objective is that of Schulman et al., "Proximal Policy Optimization Algorithms" (2017). Advantages are those of
generalized advantage estimation (Schulman et al., 2016). The script prints the mean length of the episodes that
ended; 500 steps is the longest. It needs Gymnasium: pip install gymnasium.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import gymnasium
import numpy as np

import triten as tt
import triten.nn.functional as F
from triten import nn
from triten.distributions import Categorical

CARTS, STEPS = 16, 64
DISCOUNT, TRACE = 0.99, 0.95
EPOCHS, BATCH, CLIP = 6, 256, 0.2


class ActorCritic(nn.Module):
    """Policy over the actions, and the value of a state: states (N, 4) to logits (N, 2) and values (N,)."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.actor, self.critic = (
            nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), last)
            for last in (nn.Linear(width, 2), nn.Linear(width, 1))
        )

    def forward(self, states: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
        return self.actor(states), self.critic(states).squeeze(-1)


@dataclass
class Rollout:
    """Steps of all carts, (STEPS, CARTS) each; states have four numbers more."""

    states: tt.Tensor
    actions: tt.Tensor
    log_probabilities: tt.Tensor
    advantages: tt.Tensor
    returns: tt.Tensor


def advantages_of(rewards: tt.Tensor, values: tt.Tensor, ended: tt.Tensor) -> tt.Tensor:
    """Return generalized advantage estimates (T, N) of rewards and ends (T, N), and values (T + 1, N)."""
    advantages, later = [], tt.zeros_like(rewards[0])
    for step in reversed(range(len(rewards))):
        alive = 1 - ended[step]
        error = rewards[step] + DISCOUNT * alive * values[step + 1] - values[step]
        later = error + DISCOUNT * TRACE * alive * later
        advantages.append(later)
    return tt.stack(advantages[::-1])


class Carts:
    """Carts that start anew when their episode ends, with the lengths of finished episodes."""

    def __init__(self, seed: int) -> None:
        self.carts = [gymnasium.make("CartPole-v1") for _ in range(CARTS)]
        self.states = np.stack([cart.reset(seed=seed + i)[0] for i, cart in enumerate(self.carts)])
        self.steps = [0] * CARTS
        self.lengths: list[int] = []

    def step(self, actions: Sequence[int]) -> list[bool]:
        """Move each cart, and return which episodes ended."""
        ends = []
        for i, (cart, action) in enumerate(zip(self.carts, actions, strict=True)):
            self.states[i], _, fallen, is_over, _ = cart.step(action)
            self.steps[i] += 1
            ends.append(fallen or is_over)
            if ends[-1]:
                self.lengths.append(self.steps[i])
                self.steps[i] = 0
                self.states[i] = cart.reset()[0]
        return ends


@tt.no_grad()
def roll_out(model: ActorCritic, carts: Carts, device: str) -> Rollout:
    """Act by the policy for `STEPS` steps."""
    states, actions, log_probabilities, values, ended = [], [], [], [], []
    for _ in range(STEPS):
        state = tt.tensor(carts.states, device=device)
        logits, value = model(state)
        policy = Categorical(logits=logits)
        action = policy.sample()
        ends = carts.step(action.tolist())
        for series, each in ((states, state), (actions, action), (values, value)):
            series.append(each)
        log_probabilities.append(policy.log_prob(action))
        ended.append(tt.tensor(ends, dtype=tt.float32, device=device))
    values.append(model(tt.tensor(carts.states, device=device))[1])
    value = tt.stack(values)
    advantages = advantages_of(tt.ones(STEPS, CARTS, device=device), value, tt.stack(ended))
    return Rollout(*map(tt.stack, (states, actions, log_probabilities)), advantages, advantages + value[:-1])


def loss_of(model: ActorCritic, batch: Rollout) -> tt.Tensor:
    """Return the clipped objective with the error of the values and a bonus for entropy."""
    logits, values = model(batch.states)
    policy = Categorical(logits=logits)
    ratio = (policy.log_prob(batch.actions) - batch.log_probabilities).exp()
    advantages = (batch.advantages - batch.advantages.mean()) / (batch.advantages.std() + 1e-8)
    objective = tt.minimum(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages).mean()
    return F.mse_loss(values, batch.returns) / 2 - objective - 0.01 * policy.entropy().mean()


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, and print the mean length of the episodes between the lines."""
    parser = argparse.ArgumentParser(description="Balance a pole by reinforcement learning.")
    parser.add_argument("--device", default="cpu", help="default: cpu")
    parser.add_argument("--updates", type=int, default=40, help="of 1024 steps. Default: 40")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    tt.manual_seed(options.seed)
    model = ActorCritic().to(options.device)
    optimizer = tt.optim.Adam(model.parameters(), lr=1e-3, eps=1e-5)
    carts, shown = Carts(options.seed), 0
    for update in range(1, options.updates + 1):
        rollout = roll_out(model, carts, options.device)
        flat = [each.flatten(0, 1) for each in vars(rollout).values()]
        for _ in range(EPOCHS):
            for index in tt.randperm(STEPS * CARTS, device=options.device).split(BATCH):
                loss = loss_of(model, Rollout(*[each[index] for each in flat]))
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
        if update % max(1, options.updates // 8) == 0 and len(carts.lengths) > shown:
            mean, shown = float(np.mean(carts.lengths[shown:])), len(carts.lengths)
            bar = "#" * round(mean / 10)
            print(f"{update * STEPS * CARTS:7,} steps: episodes of {mean:5.1f} {bar}", flush=True)


if __name__ == "__main__":
    main()
