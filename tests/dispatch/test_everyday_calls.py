"""A dispatch mode sees PyTorch's operators: the same overloads, with arguments of the same kinds."""

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
OPTIMIZER = "PyTorch's optimizers profile a step, and update by other operators than one fused kernel"
CONJUGATED = "conjugates are computed at once, where PyTorch's are lazy views"
CHECKED = "operators check the indices, which PyTorch does only on demand"
ALIAS = "an alias over the same bytes is made without an operator"

DIFFERENT: dict[str, str] = {
    "torch.take_along_dim(x, i % 4, 0)": SHORTER,
    "F.logsigmoid(x)": FUSED,
    "torch.special.ndtr(x)": SHORTER,
    "torch.linalg.matrix_rank(x)": SHORTER,
    "torch.cov(x)": SHORTER,
    "torch.corrcoef(x)": SHORTER,
    "torch.vander(v)": SHORTER,
    "F.triplet_margin_loss(x, y, p)": SHORTER,
    "F.multilabel_soft_margin_loss(x, p)": SHORTER,
    "F.ctc_loss(x.log_softmax(-1)[:, None], k[None] % 5 + 1, torch.tensor([4]), torch.tensor([3]))": SHORTER,
    "torch.nn.Bilinear(6, 6, 2)(x, y)": SHORTER,
    "torch.nn.PairwiseDistance()(x, y)": SHORTER,
    "torch.nn.EmbeddingBag(10, 4)(k[None])": SHORTER,
    "torch.complex(x, y).conj()": CONJUGATED,
    "torch.complex(x, y) @ torch.complex(x, y).mH": CONJUGATED,
    "x.view(torch.int32)": ALIAS,
    "g.prod().backward()": FORMULA,
    "torch.quantile(x, torch.tensor([0.25, 0.75]), dim=1)": SHORTER,
    "F.pairwise_distance(x, y)": SHORTER,
    "torch.nn.LSTM(6, 3)(m)": FUSED,
    "F.scaled_dot_product_attention(g[None, None], m4, m4).sum().backward()": FORMULA,
    "F.smooth_l1_loss(g, y).backward()": FORMULA,
    "F.huber_loss(g, y).backward()": FORMULA,
    "F.binary_cross_entropy(torch.sigmoid(g), p).backward()": FORMULA,
    "F.logsigmoid(g).mean().backward()": FORMULA,
    "g.permute(1, 0).reshape(2, 12).sum(0).prod().backward()": FORMULA,
    "g.cumprod(0).sum().backward()": FORMULA,
    "torch.autograd.grad((g ** 2).sum(), g, create_graph=True)[0].sum().backward()": FORMULA,
    "optimizer = torch.optim.SGD([g], momentum=0.9); (g * 2).sum().backward(); optimizer.step(); optimizer.zero_grad()": OPTIMIZER,  # noqa: E501
    "optimizer = torch.optim.Adam([g], lr=0.1); (g * 2).sum().backward(); optimizer.step()": OPTIMIZER,
    "optimizer = torch.optim.AdamW([g], foreach=True); (g * 2).sum().backward(); optimizer.step()": OPTIMIZER,
    "optimizer = torch.optim.SGD([g], lr=0.1, foreach=True, weight_decay=0.1); (g * 2).sum().backward(); optimizer.step()": OPTIMIZER,  # noqa: E501
    "torch.nn.utils.clip_grad_norm_([g.requires_grad_()], 1.0)": FUSED,
    "torch.from_numpy(x.numpy())": SHORTER,
}
"""Calls that dispatch other operators than PyTorch's on purpose, and why."""


class Recorder(tt.TensorDispatchMode):
    """Mode that records the operators that it sees."""

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
