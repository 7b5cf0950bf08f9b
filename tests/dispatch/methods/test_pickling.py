"""Pickles and deep copies of tensors: elements, geometry, history, and shared storage."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt


def through_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


WAYS = [through_pickle, copy.deepcopy]
TENSORS: dict[str, Callable[[], Any]] = {
    "contiguous": lambda: tt.arange(6.0).view(2, 3),
    "transposed": lambda: tt.arange(6).view(2, 3).t(),
    "stepped": lambda: tt.arange(7)[1::2],
    "row": lambda: tt.arange(6).view(2, 3)[1],
    "expanded": lambda: tt.tensor([1.0, 2.0]).expand(3, 2),
    "channels_last": lambda: tt.arange(24.0).view(1, 2, 3, 4).to(memory_format=tt.channels_last),
    "number": lambda: tt.tensor(2.5, dtype=tt.float64),
    "empty": lambda: tt.ones(0, 3),
    "bool": lambda: tt.tensor([True, False]),
    "bfloat16": lambda: tt.tensor([1.5, -2.0], dtype=tt.bfloat16),
    "complex": lambda: tt.tensor([1 + 2j]),
    "of NumPy": lambda: tt.from_numpy(np.arange(12.0).reshape(3, 4)[:, ::2]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", TENSORS.values(), ids=TENSORS)
def test_elements_and_geometry_are_kept(way: Any, make: Callable[[], Any]) -> None:
    tensor = make()
    made = way(tensor)
    assert tt.equal(made, tensor) and made.dtype is tensor.dtype
    assert (made.stride(), made.storage_offset()) == (tensor.stride(), tensor.storage_offset())
    assert made.untyped_storage().nbytes() == tensor.untyped_storage().nbytes()
    # A spec of its own would be another tensor to every table of plans.
    assert made._spec is tensor._spec
    made.add_(1) if not made._spec.overlaps and made.dtype is not tt.bool else None
    assert tt.equal(tensor, make())


@pytest.mark.parametrize("way", WAYS)
def test_what_shares_bytes_shares_them_after(way: Any) -> None:
    x = tt.arange(6)
    a, b, alone = way([x, x[2:], tt.arange(6)])
    a[3] = 77
    assert b.tolist() == [2, 77, 4, 5] and alone[3] == 3 and x[3] == 3
    assert a.untyped_storage() is b.untyped_storage()
    again = tt.arange(3)
    first, second = way([again, again])
    assert first is second


@pytest.mark.parametrize("way", WAYS)
def test_copies_made_after_another_storage_died_are_not_mixed_up(way: Any) -> None:
    # The storage object of a temporary goes, and the next may have its identity.
    made = way([tt.full((4,), float(i))[1:] for i in range(20)])
    gc.collect()
    assert [m.tolist() for m in made] == [[float(i)] * 3 for i in range(20)]


@pytest.mark.filterwarnings("ignore:Named tensors")
@pytest.mark.parametrize("way", WAYS)
def test_devices_names_and_gradients(way: Any) -> None:
    meta = way(tt.ones(2, 3, dtype=tt.int32, device="meta").t())
    assert (meta.device, meta.shape, meta.stride(), meta.dtype) == (
        tt.device("meta"),
        (3, 2),
        (1, 3),
        tt.int32,
    )
    named = tt.ones(2, 3, names=("a", "b"))
    assert way(named).names == ("a", "b")
    leaf = tt.ones(2, requires_grad=True)
    made = way(leaf)
    assert made.requires_grad and made.is_leaf
    made.sum().backward()
    assert leaf.grad is None


def test_a_deep_copy_has_the_gradient_and_a_pickle_has_not() -> None:
    x = tt.ones(2, requires_grad=True)
    x.grad = tt.full((2,), 3.0)
    made = copy.deepcopy(x)
    assert made.grad.tolist() == [3.0, 3.0] and made.grad is not x.grad
    assert through_pickle(x).grad is None


def test_recorded_tensors() -> None:
    y = tt.ones(2, requires_grad=True) * 2
    made = through_pickle(y)
    assert made.is_leaf and made.requires_grad and made.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(y)


class Marked(tt.Tensor):
    """Tensor subclass with attributes."""


@pytest.mark.parametrize("way", WAYS)
def test_subclasses_keep_class_and_attributes(way: Any) -> None:
    tensor = tt.ones(2).as_subclass(Marked)
    tensor.note = [1]
    made = way(tensor)
    assert type(made) is Marked and made.note == [1] and made.note is not tensor.note
    assert type(made + 1) is Marked


@pytest.mark.parametrize("way", WAYS)
def test_tied_parameters_stay_tied(way: Any) -> None:
    module = tt.nn.Sequential(tt.nn.Linear(2, 2), tt.nn.Linear(2, 2))
    module[1].weight = module[0].weight
    made = way(module)
    assert made[1].weight is made[0].weight and type(made[0].weight) is tt.nn.Parameter
    assert tt.equal(made[0].weight, module[0].weight)


@pytest.mark.parametrize("way", WAYS)
def test_read_only_memory_gives_a_copy_that_can_be_written(way: Any) -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    made = way(tt.from_numpy(array))
    made += 1
    assert made.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("way", WAYS)
def test_generators_keep_device_and_state(way: Any) -> None:
    generator = tt.Generator().manual_seed(3)
    tt.rand(5, generator=generator)
    made = way(generator)
    assert made.device == generator.device
    assert tt.equal(tt.rand(4, generator=made), tt.rand(4, generator=generator))


@pytest.mark.parametrize("way", WAYS)
def test_on_cuda(way: Any) -> None:
    if not tt.cuda.is_available():
        pytest.skip("no CUDA device, real or interpreted")
    x = tt.arange(6, device="cuda")
    a, b = way([x, x[2:]])
    a[3] = 77
    assert b.device == x.device and b.tolist() == [2, 77, 4, 5] and x[3].item() == 3


def test_the_first_pickle_of_a_process_may_be_one_of_multiprocessing() -> None:
    # Its picklers copy the table of reducers when they are made.
    program = (
        "import triten as tt\n"
        "from multiprocessing.reduction import ForkingPickler\n"
        "import pickle\n"
        "print(pickle.loads(ForkingPickler.dumps(tt.arange(3) * 2)).tolist())\n"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "[0, 2, 4]", ran.stderr


class Private(Marked):
    __slots__ = ("__secret", "other")

    def __init__(self, *_: Any) -> None:
        self.__secret = [1]


@pytest.mark.parametrize("way", WAYS)
def test_private_slots_are_kept(way: Any) -> None:
    x = tt.ones(2).as_subclass(Private)
    Private.__init__(x)
    found = way(x)
    assert found._Private__secret == [1] and not hasattr(found, "other") and type(found) is Private
