"""A dispatch mode sees the operators that PyTorch dispatches: the same overloads, with arguments of the same kinds."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

import triten as tt
from triten.tests.dispatch.everyday_calls import TABLE, calls, described, recorded

PYTORCH: dict[str, list[str]] = json.loads(TABLE.read_text())

FUSED = (
    "one kernel serves what PyTorch's CPU backend composes of several operators or chooses among libraries"
)
SHORTER = "the composite takes other steps than PyTorch's"
FORMULA = "the derivative's formula takes other steps than PyTorch's"
IN_PLACE = "the engine accumulates a gradient of its own in place"

DIFFERENT: dict[str, str] = {
    "torch.isfinite(x)": SHORTER,
    'torch.einsum("ij,kj->ik", x, y)': SHORTER,
    'torch.einsum("bij,bkj->bik", m, m)': SHORTER,
    "F.logsigmoid(x)": FUSED,
    "F.prelu(x, s)": SHORTER,
    "F.cosine_similarity(x, y)": SHORTER,
    "F.cross_entropy(x, k4, label_smoothing=0.1)": SHORTER,
    "F.rms_norm(x, (6,))": FUSED,
    "F.batch_norm(x, v6, p6, training=True)": FUSED,
    "F.batch_norm(x, v6, p6)": FUSED,
    "F.instance_norm(im)": FUSED,
    "F.dropout(x)": FUSED,
    "F.one_hot(k)": SHORTER,
    "g.std().backward()": FORMULA,
    "F.glu(g).sum().backward()": FORMULA,
    "g.mean().backward()": FORMULA,
    "(g ** 2).sum().backward()": FORMULA,
    "(g + g).sum().backward()": IN_PLACE,
}
"""Calls that dispatch other operators than PyTorch's on purpose, and why."""


class Recorder(tt.TensorDispatchMode):
    """A mode that writes down what it sees."""

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    def __tensor_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(described(str(func), args, kwargs or {}, tt.Tensor))
        return func(*args, **(kwargs or {}))


def dispatched(call: str) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return recorded(call, tt, Recorder)


@pytest.mark.parametrize("call", [call for call in calls() if call not in DIFFERENT])
def test_a_mode_sees_what_pytorch_dispatches(call: str) -> None:
    assert dispatched(call) == PYTORCH[call]


@pytest.mark.parametrize("call", DIFFERENT)
def test_the_table_of_differences_holds_differences_alone(call: str) -> None:
    assert dispatched(call) != PYTORCH[call]


def test_nearly_all_calls_agree() -> None:
    assert list(PYTORCH) == calls()
    assert len(DIFFERENT) <= 0.04 * len(PYTORCH)
