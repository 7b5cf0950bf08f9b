"""`nn.DataParallel` on one device, and `DistributedDataParallel`, which needs a process group."""

import importlib

import pytest

import triten as tt
from triten import nn
from triten.nn.parallel import DataParallel, DistributedDataParallel, data_parallel

# The package has a function of the module's name.
MODULE = importlib.import_module("triten.nn.parallel.data_parallel")


def test_the_module_is_called_and_holds_the_parameters(device: str) -> None:
    module = nn.Linear(2, 3).to(device)
    x = tt.ones(4, 2, device=device)
    if device == "cuda":
        parallel = DataParallel(module, device_ids=[0])
        assert parallel.device_ids == [0] and parallel.output_device == 0
        assert tt.equal(data_parallel(module, x, device_ids=[0]), module(x))
    else:
        parallel = DataParallel(module, device_ids=[])
    assert tt.equal(parallel(x), module(x))
    assert list(parallel.state_dict()) == ["module.weight", "module.bias"]
    parallel(x).sum().backward()
    assert module.bias.grad.tolist() == [4.0] * 3
    assert nn.DataParallel is DataParallel


def test_several_devices_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(MODULE, "is_available", lambda: True)
    with pytest.raises(
        NotImplementedError, match=r"several devices is not supported, got device_ids=\[0, 1\]"
    ):
        DataParallel(nn.Linear(2, 3), device_ids=[0, 1])


def test_without_a_gpu_the_module_is_called(monkeypatch) -> None:
    monkeypatch.setattr(MODULE, "is_available", lambda: False)
    module = nn.Linear(2, 3)
    parallel = DataParallel(module)
    assert parallel.device_ids == [] and tt.equal(parallel(tt.ones(1, 2)), module(tt.ones(1, 2)))


def test_distributed_data_parallel_needs_a_group() -> None:
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DistributedDataParallel(nn.Linear(2, 3))
