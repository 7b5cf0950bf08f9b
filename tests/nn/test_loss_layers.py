"""Losses as layers: each is its function of its options, and has PyTorch's signature and text."""

import inspect
import math

import pytest

import triten as tt
import triten.nn.functional as F

nn = tt.nn
PROBABLE = (lambda: tt.rand(4, 3) * 0.8 + 0.1, lambda: (tt.rand(4, 3) > 0.5).float())
REAL = (lambda: tt.randn(4, 3), lambda: tt.randn(4, 3))
CLASSES = (lambda: tt.randn(4, 3), lambda: tt.tensor([0, 2, 1, 1]))
SIGNS = (lambda: tt.randn(4, 3), lambda: (tt.rand(4, 3) > 0.5).float() * 2 - 1)
PAIR = (lambda: tt.randn(4, 3), lambda: tt.randn(4, 3), lambda: tt.tensor([1.0, -1.0, 1.0, -1.0]))
TRIPLET = (lambda: tt.randn(4, 3),) * 3
WEIGHT = {"weight": tt.tensor([0.5, 1.0, 2.0])}

LOSSES = {
    "BCELoss": (F.binary_cross_entropy, PROBABLE, WEIGHT),
    "BCEWithLogitsLoss": (
        F.binary_cross_entropy_with_logits,
        PROBABLE,
        {"pos_weight": tt.tensor([2.0, 1.0, 3.0])},
    ),
    "CosineEmbeddingLoss": (F.cosine_embedding_loss, PAIR, {"margin": 0.2}),
    "CrossEntropyLoss": (F.cross_entropy, CLASSES, {"ignore_index": 1, "label_smoothing": 0.1, **WEIGHT}),
    "GaussianNLLLoss": (F.gaussian_nll_loss, (*REAL, lambda: tt.rand(4, 3)), {"full": True, "eps": 0.5}),
    "HingeEmbeddingLoss": (F.hinge_embedding_loss, SIGNS, {"margin": 0.3}),
    "HuberLoss": (F.huber_loss, REAL, {"delta": 0.5}),
    "KLDivLoss": (F.kl_div, REAL, {"log_target": True}),
    "L1Loss": (F.l1_loss, REAL, {}),
    "MSELoss": (F.mse_loss, REAL, {}),
    "MarginRankingLoss": (F.margin_ranking_loss, (*REAL, SIGNS[1]), {"margin": 0.3}),
    "MultiLabelSoftMarginLoss": (F.multilabel_soft_margin_loss, PROBABLE, WEIGHT),
    "MultiMarginLoss": (F.multi_margin_loss, CLASSES, {"p": 2, "margin": 0.5, **WEIGHT}),
    "NLLLoss": (F.nll_loss, CLASSES, {"ignore_index": 2, **WEIGHT}),
    "PoissonNLLLoss": (F.poisson_nll_loss, PROBABLE, {"log_input": False, "full": True, "eps": 1e-3}),
    "SmoothL1Loss": (F.smooth_l1_loss, REAL, {"beta": 0.5}),
    "SoftMarginLoss": (F.soft_margin_loss, SIGNS, {}),
    "TripletMarginLoss": (
        F.triplet_margin_loss,
        TRIPLET,
        {"margin": 0.5, "p": 1.0, "eps": 1e-3, "swap": True},
    ),
    "TripletMarginWithDistanceLoss": (
        F.triplet_margin_with_distance_loss,
        TRIPLET,
        {"margin": 0.5, "swap": True},
    ),
}


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_its_function(name, reduction):
    function, makers, options = LOSSES[name]
    layer = getattr(nn, name)(**options, reduction=reduction)
    operands = [make() for make in makers]
    assert tt.equal(layer(*operands), function(*operands, **options, reduction=reduction))
    assert set(layer.state_dict()) == {key for key in options if key.endswith("weight")}


@pytest.mark.parametrize("name", [*LOSSES, "CosineSimilarity", "PairwiseDistance"])
def test_signatures_and_text_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    ours, theirs = getattr(nn, name), getattr(torch.nn, name)
    for a, b in ((ours, theirs), (ours.forward, theirs.forward)):
        first, second = inspect.signature(a).parameters, inspect.signature(b).parameters
        assert list(first) == [{"log_input": "input"}.get(n, n) if a is ours.forward else n for n in second]
        assert [p.default for p in first.values()] == [p.default for p in second.values()]
    assert repr(ours()) == repr(theirs())


def test_the_two_flags_that_names_replaced_warn():
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        layer = nn.L1Loss(size_average=False)
    assert layer.reduction == "sum"


def test_distances():
    a, b = tt.randn(4, 3), tt.randn(4, 3)
    assert tt.equal(nn.CosineSimilarity(0, 0.1)(a, b), F.cosine_similarity(a, b, 0, 0.1))
    assert tt.equal(nn.PairwiseDistance(1.0, 0.1, True)(a, b), F.pairwise_distance(a, b, 1.0, 0.1, True))
    with pytest.raises(ValueError, match="margin to be greater than 0"):
        nn.TripletMarginWithDistanceLoss(margin=0)


def test_kl_div_of_targets_that_are_no_probabilities():
    target = tt.tensor([0.0, -1.0, float("nan"), 0.5], requires_grad=True)
    loss = F.kl_div(tt.full((4,), 0.5), target, reduction="none")
    assert loss.isnan().tolist() == [False, True, True, False]
    loss[3].backward()
    assert target.grad[3].item() == pytest.approx(math.log(0.5) + 1 - 0.5)


def test_a_variance_may_be_shared_along_any_one_dimension():
    input, target = tt.zeros(2, 3, 4), tt.ones(2, 3, 4)
    for shape in ((2, 1, 4), (1, 3, 4), (2, 3, 1), (2, 3)):
        loss = tt.nn.GaussianNLLLoss()(input, target, tt.full(shape, 2.0))
        assert loss.item() == pytest.approx(0.5 * (math.log(2) + 0.5))
    with pytest.raises(ValueError, match="var is of incorrect size"):
        F.gaussian_nll_loss(input, target, tt.ones(1, 1, 4))


def test_a_bound_of_the_huber_loss_is_a_number():
    with pytest.raises(TypeError, match="delta must be a float or int"):
        tt.nn.HuberLoss(delta=1j)
    with pytest.raises(TypeError, match="argument 'delta'"):
        F.huber_loss(tt.ones(1), tt.ones(1), delta=1j)


@pytest.mark.parametrize("sizes", [(), (4,), (2, 3)])
@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_layer_and_its_loss_in_one(sizes, bias):
    weight = tt.tensor([0.5, 1.0])
    layer = nn.LinearCrossEntropyLoss(3, 2, out_features=sizes, bias=bias, weight=weight, ignore_index=1)
    x, target = tt.randn(5, 3), tt.randint(0, 2, (5, *sizes))
    target.view(-1)[0] = 0
    logits = layer.linear(x).reshape(5, 2, *sizes)
    assert tt.allclose(layer(x, target), F.cross_entropy(logits, target, weight, ignore_index=1))
    assert list(layer.state_dict()) == ["weight", "linear.weight", *(["linear.bias"] if bias else [])]
    with pytest.raises(RuntimeError, match=r"expected weight shape to be \(2,\), got \(3,\)"):
        nn.LinearCrossEntropyLoss(3, 2, weight=tt.ones(3))
    with pytest.raises(RuntimeError, match=r"expected label_smoothing to be in range \[0, 1\], got 2.0"):
        nn.LinearCrossEntropyLoss(3, 2, label_smoothing=2.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("acc_policy", "fast"),
        ("chunking_method", "aspect_ratio:0"),
        ("chunking_method", "rows"),
        ("batch_chunk_size", 0),
        ("acc_dtype", tt.int8),
    ],
)
def test_options_of_chunks_are_checked(name, value):
    assert (
        nn.LinearCrossEntropyOptions(chunking_method="aspect_ratio:2", acc_dtype=tt.float32).batch_chunk_size
        is None
    )
    with pytest.raises(ValueError, match=name):
        nn.LinearCrossEntropyOptions(**{name: value})
