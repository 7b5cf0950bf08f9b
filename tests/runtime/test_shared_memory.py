"""Storages in shared memory: the state that moves with them, and the cleanup."""

import gc
import os
import weakref
from pathlib import Path

import numpy as np
import pytest

import triten as tt
from triten import nn
from triten.runtime import shared_memory

pytestmark = pytest.mark.skipif(not shared_memory.CAN_SHARE, reason="this system shares no memory")


@pytest.fixture(params=shared_memory.STRATEGIES)
def strategy(request):
    """Select each strategy for shared blocks; none of its blocks may remain after a test."""
    before = blocks()
    shared_memory.set_strategy(request.param)
    yield request.param
    shared_memory.set_strategy(shared_memory.STRATEGIES[0])
    gc.collect()
    assert blocks() == before


def blocks():
    """Count the blocks of this process: open descriptors, mappings and names."""
    links = [Path(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    found = [os.readlink(link) for link in links if os.path.islink(link)]
    maps = Path("/proc/self/maps").read_text().splitlines()
    mine = f"{shared_memory.PREFIX}{os.getpid()}_"
    return (
        sum("memfd:triten" in each for each in found),
        sum("memfd:triten" in each or mine in each for each in maps),
        [name for name in os.listdir(shared_memory.FOLDER) if name.startswith(mine)],
    )


def test_all_tensors_over_a_storage_follow(strategy):
    x = tt.arange(6.0)
    views = [x[2:], x.view(2, 3).t(), x.detach(), x.view(tt.int32)]
    values = [view.tolist() for view in views]
    assert x.share_memory_() is x
    assert x.is_shared() and x.untyped_storage().is_shared() and all(view.is_shared() for view in views)
    assert [view.tolist() for view in views] == values
    x[3] = 7
    assert views[0].tolist() == [2, 7, 4, 5] and views[1][0, 1].item() == 7 and views[2][3].item() == 7
    assert views[0].data_ptr() == x.data_ptr() + 8 and views[1].stride() == (1, 3)


def test_a_view_is_shared_with_what_it_is_a_view_of(strategy):
    x = tt.arange(6.0)
    y = x[2:]
    y.share_memory_()
    y.fill_(1)
    assert x.is_shared() and x.tolist() == [0, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    "make", [lambda: tt.ones(3), lambda: tt.from_numpy(np.ones(4)[1:]), lambda: tt.empty(0)]
)
def test_sharing_again_changes_nothing(strategy, make):
    x = make()
    values = x.tolist()
    address = x.share_memory_().data_ptr()
    assert x.share_memory_().data_ptr() == address and x.tolist() == values and x.is_shared()
    assert x.untyped_storage().share_memory_() is x.untyped_storage()


def test_autograd_and_versions_go_on(strategy):
    x = tt.ones(3, requires_grad=True)
    y = x * x
    version = x._version
    x.share_memory_()
    y.share_memory_()
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2] and x.is_leaf and x._version == version


def test_a_shared_storage_keeps_its_size(strategy):
    x = tt.ones(3).share_memory_()
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        x.untyped_storage().resize_(100)
    gc.collect()  # The storage is an object of its own, made anew.
    with pytest.raises(RuntimeError, match="not resizable"):
        x.untyped_storage().resize_(100)


def test_modules_are_shared_with_gradients_and_buffers(strategy):
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    model(tt.randn(4, 2)).sum().backward()
    expected = model.eval()(tt.ones(1, 2)).tolist()
    assert model.share_memory() is model
    tensors = [*model.parameters(), *model.buffers(), *(p.grad for p in model.parameters())]
    assert all(tensor.is_shared() for tensor in tensors)
    assert all(isinstance(parameter, nn.Parameter) for parameter in model.parameters())
    assert model(tt.ones(1, 2)).tolist() == expected
    tt.optim.SGD(model.parameters(), 0.1).step()
    assert all(tensor.is_shared() for tensor in tensors)


def test_the_memory_lives_as_long_as_a_tensor(strategy):
    x = tt.ones(3).share_memory_()
    y = x.detach()[1:].detach()
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None and y.is_shared() and y.tolist() == [1, 1]


def test_tensors_without_bytes_and_on_a_gpu():
    meta = tt.empty(3, device="meta")
    assert not meta.is_shared()
    with pytest.raises(RuntimeError, match="only available on CPU and CUDA, got a tensor on meta"):
        meta.share_memory_()
    x = tt.ones(3, device="cuda")
    address = x.data_ptr()
    assert x.is_shared() and x.share_memory_() is x and x.data_ptr() == address


def test_a_tensor_alone_is_found_without_a_look_at_all_objects(monkeypatch):
    def fail(root):
        raise AssertionError("looked at all objects")

    monkeypatch.setattr(shared_memory, "_tensors_over", fail)
    x = tt.ones(3)
    x.share_memory_()
    nn.Linear(3, 2).share_memory()
    for make_other in (lambda t: t[1:], lambda t: t.detach()):
        x = tt.ones(3)
        other = make_other(x)
        with pytest.raises(AssertionError, match="looked at all objects"):
            x.share_memory_()
        assert other.tolist() == [1] * other.numel() and not x.is_shared()
