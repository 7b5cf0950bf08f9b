"""`nn.DataParallel` on one device and on two, and `DistributedDataParallel`, which needs a process group."""

import importlib

import pytest

import triten as tt
from triten import nn
from triten.nn.parallel import (
    DataParallel,
    DistributedDataParallel,
    data_parallel,
    gather,
    parallel_apply,
    replicate,
    scatter,
)

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


class Pair(nn.Module):
    """Results in a dict, running statistics, a child that is used twice, and an argument that is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = self.same = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x, factor, *, scale):
        assert self.layer is self.same
        return {"sum": (self.norm(self.layer(x)) * scale * factor, None), "mean": self.same(x).mean()}


@pytest.mark.skipif(tt.cuda.device_count() < 2, reason="needs two devices, as the simulated CUDA has")
def test_inputs_are_divided_among_devices() -> None:
    tt.manual_seed(0)
    module = Pair().to("cuda:0")
    parallel = DataParallel(module, device_ids=[0, 1])
    x = tt.randn(5, 2, device="cuda:0")
    scale = tt.randn(5, 1, device="cuda:0")
    out = parallel(x, 2.0, scale=scale)
    assert out["sum"][0].shape == (5, 3) and out["sum"][1] is None and out["mean"].shape == (2,)
    assert out["sum"][0].device == x.device
    parts = [slice(0, 3), slice(3, 5)]
    mean = module.norm.running_mean.clone()
    kept, module.norm.running_mean = module.norm.running_mean, mean * 0
    expected = [module(x[part], 2.0, scale=scale[part]) for part in parts]
    tt.testing.assert_close(
        out["sum"][0], tt.cat([each["sum"][0] for each in expected]), rtol=1e-4, atol=1e-5
    )
    module.norm.running_mean = kept
    # Running statistics are those of the first device's part.
    tt.testing.assert_close(kept, 0.1 * module.layer(x[:3]).mean(0).detach(), rtol=1e-4, atol=1e-5)
    (out["sum"][0].square().sum() + out["mean"].sum()).backward()
    own = [each.grad.clone() for each in module.parameters()]
    module.zero_grad()
    (sum(each["sum"][0].square().sum() + each["mean"] for each in expected)).backward()
    for grad, single in zip(own, module.parameters(), strict=True):
        tt.testing.assert_close(grad, single.grad, rtol=1e-3, atol=1e-4)
    with pytest.raises(
        RuntimeError, match=r"on device cuda:0 \(device_ids\[0\]\) but found one of them on device: cuda:1"
    ):
        DataParallel(nn.Linear(2, 2).to("cuda:1"), device_ids=[0, 1])(x)


@pytest.mark.skipif(tt.cuda.device_count() < 2, reason="needs two devices, as the simulated CUDA has")
def test_an_error_says_which_replica() -> None:
    class Fails(nn.Module):
        def forward(self, x):
            if x.device.index == 1:
                raise ValueError("wrong")
            return x

    with pytest.raises(ValueError, match="wrong") as error:
        DataParallel(Fails(), device_ids=[0, 1])(tt.ones(2, 1, device="cuda:0"))
    assert "replica 1" in error.value.__notes__[0]


def test_replicas_on_the_cpu() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    replicas = replicate(module, ["cpu", "cpu"])
    inputs = scatter(tt.randn(4, 2), ["cpu", "cpu"])
    out = gather(parallel_apply(replicas, inputs, devices=["cpu", "cpu"]), "cpu")
    tt.testing.assert_close(out, module(tt.cat(inputs)))
    out.sum().backward()
    assert module[0].bias.grad is not None and not list(replicas[0].parameters())
    assert not replicate(module, ["cpu"], detach=True)[0](inputs[0]).requires_grad
    with tt.no_grad():
        assert not parallel_apply(replicas, inputs)[0].requires_grad
    with pytest.raises(AssertionError, match="number of inputs 1"):
        parallel_apply(replicas, inputs[:1])
    with pytest.raises(RuntimeError, match="device cannot be resolved"):
        parallel_apply([nn.ReLU()], [()])


def test_without_a_gpu_the_module_is_called(monkeypatch) -> None:
    monkeypatch.setattr(MODULE, "is_available", lambda: False)
    module = nn.Linear(2, 3)
    parallel = DataParallel(module)
    assert parallel.device_ids == [] and tt.equal(parallel(tt.ones(1, 2)), module(tt.ones(1, 2)))


def test_distributed_data_parallel_needs_a_group() -> None:
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DistributedDataParallel(nn.Linear(2, 3))
