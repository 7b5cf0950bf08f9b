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
SCALARS = "PyTorch's composites in C++ call overloads for numbers, which its functions in Python do not"
CONJUGATED = "conjugates are computed at once, where PyTorch's are lazy views"
CHECKED = "operators check the indices, which PyTorch does only on demand"
ALIAS = "an alias over the same bytes is made without an operator"
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
    "x[torch.tensor(True)]": SHORTER,
    "x[:, 1:3] = v[:, None]": SHORTER,
    "torch.take_along_dim(x, i % 4, 0)": SHORTER,
    "torch.special.ndtr(x)": SHORTER,
    "torch.linalg.svdvals(x)": FUSED,
    "torch.linalg.matrix_rank(x)": SHORTER,
    "torch.linalg.eigvalsh(q)": FUSED,
    "torch.linalg.cond(q)": SHORTER,
    'torch.einsum("i,j->ij", v, v6)': SHORTER,
    'torch.einsum("ij->", x)': SHORTER,
    'torch.einsum("bij,jk->bik", m, y.T)': SHORTER,
    'torch.einsum("...ij,...kj->...ik", m, m)': SHORTER,
    'torch.einsum("ij,ij->i", x, y)': SHORTER,
    "torch.kron(q, q)": SHORTER,
    "torch.cov(x)": SHORTER,
    "torch.corrcoef(x)": SHORTER,
    "torch.triu_indices(3, 3)": SHORTER,
    "torch.vander(v)": SHORTER,
    "F.cross_entropy(x, p)": SCALARS,
    "F.binary_cross_entropy(p, p, weight=p)": SHORTER,
    "F.gaussian_nll_loss(x, y, p)": SHORTER,
    "F.hinge_embedding_loss(x, torch.sign(y))": SHORTER,
    "F.margin_ranking_loss(x, y, torch.sign(y))": SCALARS,
    "F.triplet_margin_loss(x, y, p)": SCALARS,
    "F.cosine_embedding_loss(x, y, torch.ones(4))": SCALARS,
    "F.multilabel_soft_margin_loss(x, p)": SHORTER,
    "F.ctc_loss(x.log_softmax(-1)[:, None], k[None] % 5 + 1, torch.tensor([4]), torch.tensor([3]))": SHORTER,
    "torch.nn.BatchNorm2d(4).eval()(im)": FUSED,
    "torch.nn.GRUCell(6, 3)(x)": FUSED,
    "torch.nn.LSTMCell(6, 3)(x)": FUSED,
    "torch.nn.Bilinear(6, 6, 2)(x, y)": SHORTER,
    "torch.nn.CosineSimilarity()(x, y)": SHORTER,
    "torch.nn.PairwiseDistance()(x, y)": SCALARS,
    "torch.nn.EmbeddingBag(10, 4)(k[None])": SHORTER,
    "torch.nn.LocalResponseNorm(2)(im)": SHORTER,
    "x.data.add_(1)": ALIAS,
    "torch.dropout(x, 0.5, True)": FUSED,
    "F.dropout2d(im, 0.5)": SCALARS,
    "F.alpha_dropout(x, 0.5, True)": SCALARS,
    "F.feature_alpha_dropout(im, 0.5, True)": SCALARS,
    "F.rrelu(x, training=True)": FUSED,
    "torch.stft(v.repeat(8), 8, return_complex=True)": SHORTER,
    "torch.sparse_coo_tensor(k[None], v[:3], (4,))": CHECKED,
    "torch.complex(x, y).conj()": CONJUGATED,
    "torch.complex(x, y) @ torch.complex(x, y).mH": CONJUGATED,
    "torch.where(b, i, 1.5)": SHORTER,
    "torch.combinations(v)": SHORTER,
    "x.view(torch.int32)": ALIAS,
    "torch.trapezoid(x)": SCALARS,
    "torch.gradient(v)": SCALARS,
    "x.quantile(0.5)": SHORTER,
    "x.nanmean()": SHORTER,
    "g.prod().backward()": FORMULA,
    "g.norm().backward()": FORMULA,
    "g.view(-1).cumsum(0).sum().backward()": FORMULA,
    "F.binary_cross_entropy_with_logits(g, p).backward()": SHORTER,
    "g.expand(2, 4, 6).sum().backward()": FORMULA,
    'torch.einsum("ij,kj->ik", g, y).sum().backward()': SHORTER,
    "g.var().backward()": FORMULA,
    "g.abs().sum().backward()": FORMULA,
    "g.clamp(0, 1).sum().backward()": FORMULA,
    "g.unsqueeze(0).squeeze(0).sum().backward()": FORMULA,
    "g.amax(0).sum().backward()": FORMULA,
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
    assert len(DIFFERENT) <= 0.1 * len(PYTORCH)
