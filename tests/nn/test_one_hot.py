"""`one_hot` takes its number of classes as a tensor of one integer, as other functions take sizes."""

import pytest

import triten as tt
from triten.nn.functional import one_hot


def test_classes_may_be_counted_by_a_tensor(device: str) -> None:
    classes = tt.tensor([0, 2], device=device)
    assert one_hot(classes, tt.tensor(3, device=device)).tolist() == [[1, 0, 0], [0, 0, 1]]
    for wrong in (tt.tensor(3.0), tt.tensor(True), tt.tensor([3, 3])):
        with pytest.raises(TypeError, match="argument 'num_classes' must be int, not Tensor"):
            one_hot(classes, wrong)
