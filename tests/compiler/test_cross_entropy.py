"""Cross-entropy in compiled programs agrees with eager; on CUDA it uses eager's operator."""

import math
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.runtime.cuda.driver import driver
from triten.tests.compiler.beside_eager import drawn

F = tt.nn.functional
SAMPLES, CLASSES = 24, 40


def targets(device: str) -> tt.Tensor:
    """Return class indices, some equal to the default ignore_index and some 0."""
    found = tt.arange(SAMPLES) * 7 % CLASSES
    found[3] = -100
    return found.to(device)


def loss(**options: Any) -> Callable[..., tt.Tensor]:
    """Return a function that computes cross-entropy of a matmul's result."""

    def made(a: tt.Tensor, b: tt.Tensor, t: tt.Tensor) -> tt.Tensor:
        found = F.cross_entropy(a @ b.t(), t, **options)
        return (found * tt.arange(found.numel(), device=a.device).cos()).sum() if found.ndim else found

    return made


def weighted(a: tt.Tensor, b: tt.Tensor, t: tt.Tensor) -> tt.Tensor:
    return F.cross_entropy(a @ b.t(), t, weight=b.detach()[:, 0].abs())


def scores_too(a: tt.Tensor, b: tt.Tensor, t: tt.Tensor) -> tt.Tensor:
    scores = a @ b.t()
    return F.cross_entropy(scores, t) + scores.square().mean()


def logarithms_too(a: tt.Tensor, b: tt.Tensor, t: tt.Tensor) -> tt.Tensor:
    logarithms = (a @ b.t()).log_softmax(1)
    return F.nll_loss(logarithms, t) - (logarithms * logarithms.exp()).sum(1).mean()


def hidden(a: tt.Tensor, b: tt.Tensor, t: tt.Tensor) -> tt.Tensor:
    scores = a @ b.t()
    beyond = tt.arange(CLASSES, device=a.device) > CLASSES // 2
    return F.cross_entropy(scores.masked_fill(beyond, -math.inf), t.clamp(max=CLASSES // 2))


def narrow(a: tt.Tensor, b: tt.Tensor, t: tt.Tensor) -> tt.Tensor:
    return F.cross_entropy((a.bfloat16() @ b.bfloat16().t()).float(), t)


LOSSES: dict[str, Callable[..., tt.Tensor]] = {
    "a mean": loss(),
    "a sum": loss(reduction="sum"),
    "one for each sample": loss(reduction="none"),
    "class 0 is ignored": loss(ignore_index=0),
    "class 7 is ignored": loss(ignore_index=7),
    "weights": weighted,
    "smoothing": loss(label_smoothing=0.2),
    "scores are read": scores_too,
    "logarithms are read": logarithms_too,
    "minus infinity": hidden,
    "narrow scores": narrow,
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_gradients(name: str, device: str) -> None:
    function, t = LOSSES[name], targets(device)
    if "ignored" in name:
        t = t.masked_fill(t == -100, 1)
    found = []
    for run in (function, tt.compile(function, fullgraph=True)):
        a, b = (drawn(n, 16, device=device, grad=True) for n in (SAMPLES, CLASSES))
        made = run(a, b, t)
        made.backward()
        with tt.no_grad():
            found.append([made.detach(), a.grad, b.grad, run(a, b, t)])
    for mine, theirs in zip(*found, strict=True):
        tt.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6, equal_nan=True)
        assert mine.stride() == theirs.stride()


@pytest.mark.parametrize("value", [-1, CLASSES])
def test_a_target_that_is_no_class_is_refused(value: int) -> None:
    t = targets("cpu")
    t[5] = value
    given = drawn(SAMPLES, 16, grad=True), drawn(CLASSES, 16), t
    messages = []
    for run in (LOSSES["a mean"], tt.compile(LOSSES["a mean"])):
        with pytest.raises(IndexError) as error:
            run(*given)
        messages.append(str(error.value))
    assert messages[0] == messages[1] == f"Target {value} is out of bounds."


def test_all_samples_are_ignored(device: str) -> None:
    t = tt.full((SAMPLES,), -100, device=device)
    a, b = (drawn(n, 16, device=device, grad=True) for n in (SAMPLES, CLASSES))
    made = tt.compile(LOSSES["a mean"])(a, b, t)
    assert made.isnan()
    made.backward()
    assert (a.grad == 0).all()


def names(function: Callable[..., Any], device: str, grad: bool = True) -> list[list[str]]:
    given = (*(drawn(n, 16, device=device, grad=grad) for n in (SAMPLES, CLASSES)), targets(device))
    schedules = tt.compiler.explain(function, *given).schedules
    return [[str(step).split(" = ")[-1].split("(")[0] for step in each.steps] for each in schedules]


def test_cuda_has_the_operator_of_eager_calls() -> None:
    forward, backward = names(LOSSES["a mean"], "cuda")
    assert "aten._cross_entropy_forward" in forward and "aten._cross_entropy_backward" in backward
    compiled = tt.compile(LOSSES["a mean"])
    given = (*(drawn(n, 16, device="cuda") for n in (SAMPLES, CLASSES)), targets("cuda"))
    compiled(*given)
    before = driver().launches
    compiled(*given)
    assert driver().launches == before + 2, "the product and the loss"


@pytest.mark.parametrize("grad", [True, False])
def test_logarithms_that_another_step_reads_stay(grad: bool) -> None:
    for steps in names(LOSSES["logarithms are read"], "cuda", grad):
        assert not any("cross_entropy" in step for step in steps)
    assert "aten._cross_entropy_forward" in names(LOSSES["a mean"], "cuda", grad)[0]


def test_narrow_scores_are_read_as_they_are() -> None:
    def scored(a: tt.Tensor, t: tt.Tensor) -> tt.Tensor:
        return F.cross_entropy(a.float(), t)

    a = drawn(SAMPLES, CLASSES, device="cuda", dtype=tt.bfloat16, grad=True)
    forward, backward = tt.compiler.explain(scored, a, targets("cuda")).schedules
    assert "_to_copy" not in str(forward) and "_to_copy" not in str(backward)
