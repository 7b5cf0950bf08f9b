"""Connectionist temporal classification: against all alignments, one by one, and its operators' edges."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import triten as tt

DEVICES = ("cpu", "cuda")


def collapsed(path: tuple[int, ...], blank: int) -> tuple[int, ...]:
    """Merge repeated labels and drop blanks."""
    return tuple(label for label, _ in itertools.groupby(path) if label != blank)


def likelihoods(log_probs: np.ndarray, blank: int) -> dict[tuple[int, ...], float]:
    """Compute the probability of every label sequence by enumerating all of its alignments."""
    found: dict[tuple[int, ...], float] = {}
    times, classes = log_probs.shape
    for path in itertools.product(range(classes), repeat=times):
        labels = collapsed(path, blank)
        p = math.exp(sum(log_probs[t, c] for t, c in enumerate(path)))
        found[labels] = found.get(labels, 0.0) + p
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("blank", [0, 2])
def test_losses_are_those_of_all_alignments(rng: np.random.Generator, device: str, blank: int) -> None:
    targets = [(1, 1), (), (1,), (0 if blank else 2, 1)]
    lengths = [5, 4, 1, 3]
    x = tt.from_numpy(rng.standard_normal((5, 4, 3))).to(device).log_softmax(2)
    given = x.cpu().numpy()
    wanted = [
        -math.log(likelihoods(given[:t, n], blank)[labels])
        for n, (t, labels) in enumerate(zip(lengths, targets, strict=True))
    ]
    flat = tt.tensor([c for labels in targets for c in labels], device=device, dtype=tt.int32)
    losses, alpha = tt.ops.aten._ctc_loss(x, flat, lengths, [len(t) for t in targets], blank)
    np.testing.assert_allclose(losses.cpu().numpy(), wanted, 1e-12)
    assert tuple(alpha.shape) == (4, 5, 5)
    assert np.isneginf(alpha[2, 1:].cpu().numpy()).all()
    padded = tt.tensor([[*t, *[7] * (3 - len(t))] for t in targets], device=device)
    again, _ = tt.ops.aten._ctc_loss.Tensor(
        x, padded, tt.tensor(lengths), tt.tensor([len(t) for t in targets]), blank
    )
    assert tt.equal(again, losses)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_those_of_activations(rng: np.random.Generator, device: str) -> None:
    a = tt.from_numpy(rng.standard_normal((4, 3, 4))).to(device).requires_grad_()
    targets = tt.tensor([[1, 1, 3], [2, 3, 1], [3, 0, 0]], device=device)
    weights = tt.tensor([1.0, -2.0, 0.5], dtype=tt.float64, device=device)

    def loss(x: tt.Tensor) -> tt.Tensor:
        losses = tt.nn.functional.ctc_loss(x.log_softmax(2), targets, (4, 3, 4), (2, 3, 1), reduction="none")
        return (losses * weights).sum()

    loss(a).backward()
    step = 1e-6
    for place in [(0, 0, 1), (2, 1, 1), (3, 2, 3)]:
        up, down = a.detach().clone(), a.detach().clone()
        up[place] += step
        down[place] -= step
        slope = (loss(up) - loss(down)).item() / (2 * step)
        assert a.grad[place].item() == pytest.approx(slope, abs=1e-7), place


@pytest.mark.parametrize("device", DEVICES)
def test_what_no_path_fits(device: str) -> None:
    x = tt.zeros(3, 2, 3, device=device).log_softmax(2).requires_grad_()
    targets = tt.tensor([[1, 1], [1, 2]], device=device)
    arguments = targets, (2, 3), (2, 2)
    losses = tt.nn.functional.ctc_loss(x, *arguments, reduction="none")
    assert losses[0].item() == math.inf
    losses[1].backward()
    assert math.isnan(x.grad[0, 0, 0].item())
    x.grad = None
    losses = tt.nn.functional.ctc_loss(x, *arguments, reduction="none", zero_infinity=True)
    assert losses[0].item() == 0
    losses.sum().backward()
    assert x.grad[:, 0].tolist() == [[0.0] * 3] * 3
    assert bool((x.grad[:, 1] != 0).all())
    losses, _ = tt.ops.aten._ctc_loss(x, targets, [0, 0], [0, 1])
    assert losses.tolist() == [0.0, math.inf]


@pytest.mark.parametrize("device", DEVICES)
def test_a_class_without_probability_makes_only_its_paths_impossible(device: str) -> None:
    x = tt.zeros(3, 1, 3, device=device).log_softmax(2)
    x[0, 0, 1] = -math.inf
    losses, _ = tt.ops.aten._ctc_loss(x, tt.tensor([[1]], device=device), [3], [1])
    assert losses.item() == pytest.approx(-math.log(3 / 27))
    x[1, 0, 1] = math.nan
    assert math.isnan(tt.ops.aten._ctc_loss(x, tt.tensor([[1]], device=device), [3], [1])[0].item())


@pytest.mark.parametrize("device", DEVICES)
def test_any_layout_and_any_number_of_labels(rng: np.random.Generator, device: str) -> None:
    for labels in (1, 5):
        a = rng.standard_normal((12, 2, 7))
        plain = tt.from_numpy(a).to(device).log_softmax(2)
        classes = tt.from_numpy(rng.integers(1, 7, (2, labels))).to(device)
        strided = tt.empty(7, 2, 24, dtype=tt.float64, device=device)[:, :, ::2].permute(2, 1, 0)
        strided.copy_(plain)
        want = tt.nn.functional.ctc_loss(plain, classes, (12, 11), (labels, labels))
        assert tt.equal(tt.nn.functional.ctc_loss(strided, classes, (12, 11), (labels, labels)), want)
        one = tt.nn.functional.ctc_loss(plain[:, 0], classes[0], (12,), (labels,))
        both = tt.nn.functional.ctc_loss(plain, classes, (12, 11), (labels, labels), reduction="none")
        np.testing.assert_allclose(one.item(), both[0].item() / labels, 1e-12)


@pytest.mark.usefixtures("launch_blocking")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"blank": 4}, RuntimeError, "blank must be in label range"),
        ({"inputs": [6, 4]}, RuntimeError, "input_lengths to have value at most 5, but got value 6"),
        ({"inputs": [-1, 4]}, RuntimeError, "input_lengths to have value at least 0, but got value -1"),
        ({"inputs": [5]}, RuntimeError, "input_lengths must be of size batch_size"),
        ({"labels": [2]}, RuntimeError, "target_lengths must be of size batch_size"),
        ({"labels": [2, 3]}, RuntimeError, "size at least 3 at dimension 1, but got size 2"),
        ({"targets": [1, 2, 3, 3]}, RuntimeError, "size 3 at dimension 0, but got size 4"),
        ({"targets": [[1.0, 2.0], [3.0, 3.0]]}, RuntimeError, "targets"),
        ({"targets": [[1, 7], [3, 3]]}, RuntimeError, "expected targets within \\[0, 4\\)"),
    ],
)
def test_refusals(device: str, change: dict, error: type[Exception], message: str) -> None:
    given = {"targets": [[1, 2], [3, 3]], "inputs": [5, 4], "labels": [2, 1], "blank": 0} | change
    x = tt.zeros(5, 2, 4, device=device)
    targets = tt.tensor(given["targets"], device=device)
    with pytest.raises(error, match=message):
        tt.ops.aten._ctc_loss(x, targets, given["inputs"], given["labels"], given["blank"])
    with pytest.raises(NotImplementedError, match=f"ctc_loss_{device}\" not implemented for 'Half'"):
        tt.ops.aten._ctc_loss(x.half(), tt.ones(2, 2, dtype=tt.int64, device=device), [5, 4], [2, 1])


@pytest.mark.parametrize(("dtype", "most"), [(tt.float32, 2047), (tt.float64, 1023)])
def test_labels_that_no_tile_holds_are_refused_on_cuda(dtype: tt.dtype, most: int) -> None:
    x = tt.zeros(2, 1, 3, dtype=dtype, device="cuda")
    targets = tt.ones(1, most + 1, dtype=tt.int64, device="cuda")
    assert tt.ops.aten._ctc_loss(x, targets, [2], [most])[0].item() == float("inf")
    message = f"target_lengths of at most {most} of {dtype.scalar_name} on CUDA, but got {most + 1}"
    with pytest.raises(NotImplementedError, match=message):
        tt.ops.aten._ctc_loss(x, targets, [2], [most + 1])
