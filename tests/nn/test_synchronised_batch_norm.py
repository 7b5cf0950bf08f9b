"""`SyncBatchNorm` in a world of one process."""

import pytest

import triten as tt
from triten import nn


def test_it_is_batch_norm_of_any_number_of_dimensions(device: str) -> None:
    tt.manual_seed(0)
    for shape, plain in [((4, 3), nn.BatchNorm1d), ((4, 3, 5, 2), nn.BatchNorm2d)]:
        x = tt.randn(shape, device=device)
        synchronised, usual = nn.SyncBatchNorm(3, device=device), plain(3, device=device)
        tt.testing.assert_close(synchronised(x), usual(x))
        tt.testing.assert_close(synchronised.running_var, usual.running_var)
        tt.testing.assert_close(synchronised.eval()(x), usual.eval()(x))
    with pytest.raises(ValueError, match="at least 2D input"):
        nn.SyncBatchNorm(3)(tt.ones(3))


def test_a_model_is_converted_over_the_same_tensors() -> None:
    model = nn.Sequential(
        nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3, momentum=None, affine=False))
    ).eval()
    kept = dict(model.named_buffers())
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    layer = converted[1][0]
    assert type(layer) is nn.SyncBatchNorm and not layer.training
    assert (layer.momentum, layer.affine, layer.weight) == (None, False, None)
    assert all(buffer is kept[name] for name, buffer in converted.named_buffers())
    assert type(nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(3))) is nn.SyncBatchNorm
