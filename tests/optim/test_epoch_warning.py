"""The warning about the argument `epoch` of a scheduler's `step`."""

import pytest

import triten as tt
from triten.optim.lr_scheduler import EPOCH_DEPRECATION_WARNING, StepLR


def test_the_text_is_public():
    optimizer = tt.optim.SGD([tt.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = StepLR(optimizer, 1)
    optimizer.step()
    with pytest.warns(UserWarning) as found:
        scheduler.step(2)
    assert EPOCH_DEPRECATION_WARNING in [str(each.message) for each in found]
