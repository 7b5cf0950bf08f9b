"""Dispatch keys: backends times functionalities, runtime keys, aliases, and sets of them."""

import itertools
import pickle

import pytest

import triten as tt
from triten import DispatchKey as Key
from triten import DispatchKeySet as KeySet

BACKENDS = ("CPU", "CUDA", "Meta", "XLA", "XPU", "IPU", "HPU", "VE", "Lazy", "MPS", "PrivateUse1")
ORDER = (
    "CPU",
    "QuantizedCPU",
    "SparseCPU",
    "SparseCsrCPU",
    "BackendSelect",
    "Python",
    "FuncTorchDynamicLayerBackMode",
    "Functionalize",
    "Named",
    "ADInplaceOrView",
    "AutogradOther",
    "AutogradCPU",
    "Tracer",
    "Profiler",
    "AutocastCPU",
    "Batched",
    "VmapMode",
    "PythonTLSSnapshot",
    "PreDispatch",
    "PythonDispatcher",
)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_has_its_keys(backend: str) -> None:
    for spelling in ("{}", "Quantized{}", "Sparse{}", "SparseCsr{}", "Autograd{}", "Autocast{}"):
        key = getattr(Key, spelling.format(backend))
        assert key.backend.name == backend
        assert str(key) == spelling.format(backend)


def test_alias_keys_stand_for_others() -> None:
    for name in (
        "Autograd",
        "CompositeImplicitAutograd",
        "CompositeExplicitAutograd",
        "CompositeExplicitAutogradNonFunctional",
    ):
        assert getattr(Key, name).is_alias
        assert KeySet(getattr(Key, name)).empty()


def test_the_order_of_functionalities() -> None:
    for low, high in itertools.pairwise(ORDER):
        both = KeySet(getattr(Key, low)) | KeySet(getattr(Key, high))
        assert str(both.highestPriorityTypeId()) == high


def test_a_key_set_is_an_immutable_set_in_64_bits() -> None:
    keys = KeySet(Key.CPU) | KeySet(Key.AutogradCPU)
    assert keys.has(Key.CPU)
    assert keys.has(Key.AutogradCPU)
    assert not keys.has(Key.CUDA)
    assert keys.add(Key.Tracer).has(Key.Tracer)
    assert not keys.has(Key.Tracer)
    assert not keys.remove(Key.AutogradCPU).has(Key.AutogradCPU)
    assert (keys & KeySet(Key.CPU)).has(Key.CPU)
    assert not (keys - KeySet(Key.AutogradCPU)).has(Key.AutogradCPU)
    assert 0 < keys.raw_repr() < 1 << 64
    assert KeySet.from_raw_repr(keys.raw_repr()) == keys
    assert {keys: 1}[KeySet.from_raw_repr(keys.raw_repr())] == 1
    assert [str(k) for k in keys] == ["CPU", "AutogradCPU"]
    assert "AutogradCPU" in str(keys)
    assert "CPU" in str(keys)


def test_keys_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(Key.AutogradCUDA)) is Key.AutogradCUDA


def test_tensors_carry_their_keys() -> None:
    keys = KeySet.from_raw_repr(tt.ones(1)._spec.key_set)
    assert keys.has(Key.CPU)
    assert keys.has(Key.AutogradCPU)
    assert keys.has(Key.ADInplaceOrView)
    with tt.inference_mode():
        keys = KeySet.from_raw_repr(tt.ones(1)._spec.key_set)
    assert keys.has(Key.CPU)
    assert not keys.has(Key.AutogradCPU)
