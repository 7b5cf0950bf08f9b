"""`AdaptiveLogSoftmaxWithLoss`, against numbers of PyTorch's."""

import pytest

import triten as tt
from triten import nn


def layer(device: str) -> nn.AdaptiveLogSoftmaxWithLoss:
    """Return a layer of eight features and twelve classes, a head of four and two clusters, with fixed weights."""
    made = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 8], div_value=2.0, head_bias=True, device=device)
    with tt.no_grad():
        for i, parameter in enumerate(made.parameters()):
            values = (tt.arange(parameter.numel(), dtype=tt.float32) * (i + 3)) % 7 - 3
            parameter.copy_(values.reshape(parameter.shape) / 5)
    return made


def rows(device: str) -> tt.Tensor:
    return (((tt.arange(32.0) * 5 % 11) - 5).reshape(4, 8) / 4).to(device).requires_grad_()


def test_loss_and_gradients(device: str) -> None:
    loss, x = layer(device), rows(device)
    out = loss(x, tt.tensor([0, 5, 11, 3], device=device))
    expected = tt.tensor([-0.6341681480407715, -1.2412207126617432, -3.8119845390319824, -2.540511131286621])
    tt.testing.assert_close(out.output.cpu(), expected)
    tt.testing.assert_close(out.loss.item(), 2.0569710731506348, rtol=1e-5, atol=1e-6)
    out.loss.backward()
    gradients = tt.tensor([0.0426433384, -0.0423130356, -0.1404482871, 0.0488786027])
    tt.testing.assert_close(x.grad.sum(1).cpu(), gradients)
    tt.testing.assert_close(
        loss.tail[1][0].weight.grad.abs().sum().item(), 1.3275247812271118, rtol=1e-5, atol=1e-6
    )


def test_probabilities_and_predictions(device: str) -> None:
    loss, x = layer(device), rows(device)
    assert loss.predict(x).tolist() == [0, 5, 1, 2]
    tt.testing.assert_close(loss.log_prob(x).exp().sum(1).cpu(), tt.ones(4))
    tt.testing.assert_close(
        loss.log_prob(x)[2, 11], loss(x, tt.tensor([0, 5, 11, 3], device=device)).output[2]
    )


def test_one_row_and_its_class(device: str) -> None:
    out = layer(device)(rows(device)[0], tt.tensor(0, device=device))
    assert out.output.shape == ()
    tt.testing.assert_close(out.output.item(), -0.6341681480407715, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cutoffs", [[], [4, 4], [0, 3], [12], [5, 3]])
def test_cutoffs_that_rise_between_the_classes(cutoffs: list[int]) -> None:
    with pytest.raises(ValueError, match="cutoffs should be"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 12, cutoffs)


def test_shapes_and_classes_that_do_not_fit() -> None:
    loss, x = layer("cpu"), rows("cpu")
    with pytest.raises(RuntimeError, match=r"in \[0, 11\].*range \[0, 12\]"):
        loss(x, tt.tensor([0, 5, 12, 3]))
    with pytest.raises(RuntimeError, match="batch dimension"):
        loss(x[:3], tt.tensor([0, 5, 11, 3]))
    with pytest.raises(RuntimeError, match="1D input expected"):
        loss(x, tt.tensor(0))
    with pytest.raises(RuntimeError, match="multi-target"):
        loss(x, tt.zeros(4, 1, dtype=tt.int64))
