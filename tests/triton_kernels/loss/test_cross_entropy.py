"""Cross-entropy in one launch: values, gradients and second derivatives agree with float64; edges, launches."""

import numpy as np
import pytest

import triten as tt
import triten.nn.functional as F

REDUCTIONS = ["none", "mean", "sum"]
TARGETS = {
    "classes": (False, False, 0.0),
    "weighted": (False, True, 0.0),
    "smoothed": (False, False, 0.1),
    "smoothed and weighted": (False, True, 0.1),
    "probabilities": (True, False, 0.0),
    "smoothed and weighted probabilities": (True, True, 0.1),
}
IGNORED = 2


def sample_shape(shape):
    return () if len(shape) == 1 else (shape[0], *shape[2:])


def float32s(array):
    """Round to float32, and return float64."""
    return array.astype(np.float32).astype(np.float64)


def operands(rng, shape, kind):
    """Return scores, targets, weights and options of a shape."""
    likely, weighted, smoothing = TARGETS[kind]
    classes = shape[0 if len(shape) == 1 else 1]
    scores = float32s(rng.standard_normal(shape) * 3)
    weight = float32s(rng.random(classes)) if weighted else None
    if likely:
        return scores, float32s(rng.random(shape)), weight, {"label_smoothing": smoothing}
    target = np.where(
        rng.random(sample_shape(shape)) < 0.2, IGNORED, rng.integers(0, classes, sample_shape(shape))
    )
    return scores, target, weight, {"label_smoothing": smoothing, "ignore_index": IGNORED}


def derivatives(device, dtype, scores, target, weight, **options):
    """Return the loss, its gradient, and the gradient of a product with the gradient, as float64 arrays."""

    def given(array, dtype):
        made = tt.from_numpy(np.asarray(array))
        return (made.to(dtype) if made.dtype.is_floating_point else made).to(device)

    x = given(scores, dtype).requires_grad_()
    loss = F.cross_entropy(
        x, given(target, dtype), None if weight is None else given(weight, dtype), **options
    )
    (gradient,) = tt.autograd.grad(loss, x, tt.full_like(loss, 1.5), create_graph=True)
    along = given(np.cos(np.arange(np.size(scores))).reshape(np.shape(scores)), dtype)
    (second,) = tt.autograd.grad((gradient * along).sum(), x)
    return [each.detach().cpu().double().numpy() for each in (loss, gradient, second)]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("shape", [(7,), (40, 130), (2, 5, 3, 4)], ids=str)
def test_values_and_derivatives_of_both_orders(rng, shape, kind, reduction):
    scores, target, weight, options = operands(rng, shape, kind)
    got = derivatives("cuda", tt.float32, scores, target, weight, reduction=reduction, **options)
    expected = derivatives("cpu", tt.float64, scores, target, weight, reduction=reduction, **options)
    for order, (own, wanted) in enumerate(zip(got, expected, strict=True)):
        largest = np.abs(wanted).max() or 1.0
        # The logarithm of a sum near 1 has that sum's rounding; products cancel in the second derivative.
        error = (4e-6, 1e-6, 2e-5)[order]
        np.testing.assert_allclose(own / largest, wanted / largest, 0, error, err_msg=f"derivative {order}")


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.float64], ids=lambda d: d.name)
def test_other_dtypes_round_once(rng, dtype, kind):
    scores, target, weight, options = operands(rng, (30, 44), kind)
    rounded = [
        None if array is None else tt.from_numpy(array).to(dtype).double().numpy()
        for array in (scores, target.astype(np.float64), weight)
    ]
    labels = target if target.dtype == np.int64 else rounded[1]
    got = derivatives("cuda", dtype, rounded[0], labels, rounded[2], **options)
    expected = derivatives("cpu", tt.float64, rounded[0], labels, rounded[2], **options)
    # float64 is computed in itself on both sides.
    epsilon = tt.finfo(dtype).eps * (8 if dtype is tt.float64 else 1)
    for own, wanted in zip(got[:2], expected[:2], strict=True):
        np.testing.assert_allclose(own, wanted, epsilon, epsilon * np.abs(wanted).max() + 1e-7 * epsilon)


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("length", [16_389, 70_001])
def test_rows_that_begin_and_end_within_vectors(rng, length, kind):
    scores, target, weight, options = operands(rng, (3, length), kind)
    got = derivatives("cuda", tt.float32, scores, target, weight, **options)
    expected = derivatives("cpu", tt.float64, scores, target, weight, **options)
    for own, wanted in zip(got, expected, strict=True):
        largest = np.abs(wanted).max() or 1.0
        np.testing.assert_allclose(own / largest, wanted / largest, 0, 1e-5)


@pytest.mark.parametrize("kind", TARGETS)
def test_strides_of_any_order(rng, kind):
    scores, target, weight, options = operands(rng, (4, 5, 6, 3), kind)
    results = []
    for device in ("cuda", "cpu"):
        x = tt.from_numpy(np.ascontiguousarray(scores.transpose(2, 3, 0, 1))).to(device).permute(2, 3, 0, 1)
        t = tt.from_numpy(target).to(device)
        own = None if weight is None else tt.from_numpy(np.repeat(weight, 2)).to(device)[::2]
        x = x.detach().requires_grad_()
        loss = F.cross_entropy(x, t, own, reduction="none", **options)
        (gradient,) = tt.autograd.grad(
            loss, x, tt.ones_like(loss).transpose(0, 2).contiguous().transpose(0, 2)
        )
        results.append([loss.detach().cpu().numpy(), gradient.cpu().numpy()])
    for own, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(own, wanted, 1e-12, 1e-13)


INF, NAN = np.inf, np.nan
ROWS = [[1, 2, 3], [INF, 0, 1], [-INF, 0, 1], [-INF] * 3, [NAN, 0, 1], [INF, INF, 0], [0, -INF, -INF]]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "target", [[0] * 7, [1] * 7, [2, -100, 0, -100, -100, 2, 1], [-100] * 7], ids=["0", "1", "some", "none"]
)
def test_infinite_scores_ignored_samples_and_weights_of_nothing(target, weighted, smoothing, reduction):
    """Agree with the host, which uses other operators, on all samples together, each sample alone, and none."""
    weight = np.array([0.0, 1.0, 2.0]) if weighted else None
    for rows in (slice(None), *(slice(i, i + 1) for i in range(7)), slice(0, 0)):
        scores, labels = np.array(ROWS)[rows], np.array(target)[rows]
        results = []
        for device in ("cuda", "cpu"):
            x = tt.from_numpy(scores).float().to(device).requires_grad_()
            own = None if weight is None else tt.from_numpy(weight).float().to(device)
            loss = F.cross_entropy(
                x, tt.from_numpy(labels).to(device), own, reduction=reduction, label_smoothing=smoothing
            )
            (gradient,) = tt.autograd.grad(loss, x, tt.ones_like(loss))
            results.append([loss.detach().cpu().numpy(), gradient.cpu().numpy()])
        for own, wanted in zip(*results, strict=True):
            np.testing.assert_allclose(own, wanted, 1e-5, 1e-6)


def test_the_gradient_of_a_certain_sample_keeps_its_digits():
    """Keep a probability of 1e-6 beside scores near 100: a sum of the score and a logarithm would round it
    off.
    """
    scores = np.array([[100.0, 100.0 - np.log(1e6)]], np.float32)
    got = derivatives("cuda", tt.float32, scores, np.array([0]), None)[1]
    expected = derivatives("cpu", tt.float64, scores.astype(np.float64), np.array([0]), None)[1]
    np.testing.assert_allclose(got[0, 1], expected[0, 1], 1e-6)


def test_many_samples_are_added_up_in_float64(rng):
    scores, target, _, _ = operands(rng, (70_000, 3), "classes")
    got = derivatives("cuda", tt.float32, scores, target, None)[0]
    expected = derivatives("cpu", tt.float64, scores, target, None)[0]
    np.testing.assert_allclose(got, expected, 2.0**-23)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_one_launch_each_way(rng, launches, reduction):
    scores, target, _, _ = operands(rng, (64, 50), "classes")
    x, labels = tt.from_numpy(scores).to("cuda").requires_grad_(), tt.from_numpy(target).to("cuda")
    before = launches.count
    loss = F.cross_entropy(x, labels, reduction=reduction)
    assert launches.count - before == 1
    change = tt.ones_like(loss)
    before = launches.count
    tt.autograd.grad(loss, x, change)
    assert launches.count - before == 1


def test_counters_are_zero_again_after_each_launch_and_belong_to_a_stream(rng):
    scores, target, _, _ = operands(rng, (64, 50), "classes")
    x, labels = tt.from_numpy(scores).to("cuda"), tt.from_numpy(target).to("cuda")
    expected = F.cross_entropy(x, labels).item()
    stream = tt.cuda.Stream()
    for _ in range(3):
        assert F.cross_entropy(x, labels).item() == expected
        with tt.cuda.stream(stream):
            assert F.cross_entropy(x, labels).item() == expected


def test_a_graph_has_a_counter_of_its_own(rng):
    scores, target, _, _ = operands(rng, (64, 50), "classes")
    x, labels = tt.from_numpy(scores).to("cuda"), tt.from_numpy(target).to("cuda")
    expected = F.cross_entropy(x, labels).item()
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph):
        loss = F.cross_entropy(x, labels)
    for _ in range(2):
        loss.zero_()
        graph.replay()
        assert loss.item() == expected
    assert F.cross_entropy(x, labels).item() == expected


@pytest.mark.usefixtures("launch_blocking")
@pytest.mark.parametrize("wrong", [5, -1])
def test_a_target_out_of_bounds(wrong):
    x = tt.zeros(3, 5, device="cuda")
    with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
        F.cross_entropy(x, tt.tensor([0, wrong, 1], device="cuda"))


def test_what_has_a_gradient_beside_the_scores_is_the_operators_that_it_is_made_of(rng):
    scores, target, _, _ = operands(rng, (6, 5), "probabilities")
    results = []
    for device in ("cuda", "cpu"):
        x, t = (tt.from_numpy(each).to(device).requires_grad_() for each in (scores, target))
        results.append([g.cpu().numpy() for g in tt.autograd.grad(F.cross_entropy(x, t), [x, t])])
    for own, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(own, wanted, 1e-12)


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_forward_mode_agrees_with_backward(rng, reduction, kind):
    scores, target, weight, options = operands(rng, (6, 5), kind)
    x, tangent = (tt.from_numpy(a).to("cuda") for a in (scores, rng.standard_normal((6, 5))))
    labels = tt.from_numpy(target).to("cuda")
    own = None if weight is None else tt.from_numpy(weight).to("cuda")
    aten = tt.ops.aten._cross_entropy_forward
    given = (labels, own, REDUCTIONS.index(reduction), options.get("ignore_index", -100))
    with tt.autograd.forward_ad.dual_level():
        dual = tt.autograd.forward_ad.make_dual(x, tangent)
        out = aten(dual, *given, options["label_smoothing"], False)[0]
        moved = tt.autograd.forward_ad.unpack_dual(out).tangent
    leaf = x.detach().requires_grad_()
    out = aten(leaf, *given, options["label_smoothing"], False)[0]
    for place in np.ndindex(tuple(out.shape)):
        (gradient,) = tt.autograd.grad(out[place], leaf, retain_graph=True)
        np.testing.assert_allclose(
            moved[place].item(), (gradient * tangent).sum().item(), 1e-9, err_msg=str(place)
        )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16], ids=lambda d: d.name)
def test_autocast_gives_float32_of_narrow_scores_in_one_launch(rng, launches, dtype, reduction, weighted):
    scores, target, _, _ = operands(rng, (30, 44), "classes")
    weight = float32s(rng.random(44)) if weighted else None
    x, labels = tt.from_numpy(scores).to(dtype).to("cuda").requires_grad_(), tt.from_numpy(target).to("cuda")
    own = None if weight is None else tt.from_numpy(weight).float().to("cuda")
    with tt.autocast("cuda", dtype=dtype):
        before = launches.count
        loss = F.cross_entropy(x, labels, own, reduction=reduction)
        assert launches.count - before == 1
    assert loss.dtype is tt.float32
    (gradient,) = tt.autograd.grad(loss, x, tt.full_like(loss, 1.5))
    assert gradient.dtype is dtype
    rounded = x.detach().cpu().double().numpy()
    expected = derivatives("cpu", tt.float64, rounded, target, weight, reduction=reduction)
    np.testing.assert_allclose(loss.detach().cpu().numpy(), expected[0], 1e-6, 1e-6)
    epsilon = tt.finfo(dtype).eps
    np.testing.assert_allclose(gradient.cpu().double().numpy(), expected[1], epsilon, epsilon * 1e-2)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("sizes", [(4, 5), (4, 5, 3), (2, 5, 3, 2)], ids=str)
def test_autocast_widens_narrow_class_weights(rng, sizes, smoothing):
    """Cast the class weights as PyTorch does, which casts the arguments of `nll_loss`."""
    scores = tt.from_numpy(rng.standard_normal(sizes).astype(np.float32))
    target = tt.from_numpy(rng.integers(0, 5, (sizes[0], *sizes[2:])))
    weight = tt.tensor([0.5, 1.0, 2.0, 0.25, 4.0], dtype=tt.bfloat16)
    expected = tt.nn.functional.cross_entropy(scores, target, weight.float(), label_smoothing=smoothing)
    with tt.autocast("cuda", dtype=tt.bfloat16):
        got = tt.nn.functional.cross_entropy(
            scores.to("cuda"), target.to("cuda"), weight.to("cuda"), label_smoothing=smoothing
        )
    assert got.dtype is tt.float32
    np.testing.assert_allclose(got.item(), expected.item(), rtol=2e-6)
