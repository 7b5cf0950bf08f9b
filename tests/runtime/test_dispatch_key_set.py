"""`DispatchKeySet`: set algebra in 64 bits, and the order of keys."""

import copy
import itertools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import triten as tt
from triten.runtime import dispatch_key as dk
from triten.runtime.dispatch_key import (
    ALIASES,
    BACKEND_MASK,
    BY_NAME,
    NUM_BACKENDS,
    PER_BACKEND,
    RUNTIME,
    BackendComponent,
    Functionality,
    highest_priority,
)

DispatchKey, DispatchKeySet = tt.DispatchKey, tt.DispatchKeySet
KEYS = list(RUNTIME.values())
BITS = NUM_BACKENDS + len(Functionality)

keys = st.sampled_from(KEYS)
key_lists = st.lists(keys, max_size=8)
raw = st.integers(0, (1 << BITS) - 1)
sets = raw.map(DispatchKeySet.from_raw_repr)


def test_it_fits_64_bits() -> None:
    assert BITS <= 64


def test_runtime_keys_are_backends_times_functionalities() -> None:
    expected = len(BackendComponent) * len(PER_BACKEND) + len(Functionality) - len(PER_BACKEND)
    assert len(RUNTIME) == expected
    assert len({key.bits for key in RUNTIME.values()}) == expected
    for name in ("CPU", "CUDA", "Meta", "XLA", "XPU", "IPU", "HPU", "VE", "Lazy", "MPS", "PrivateUse1"):
        for spelling in ("{}", "Sparse{}", "Quantized{}", "Autograd{}", "Autocast{}"):
            key = getattr(DispatchKey, spelling.format(name))
            assert key.backend is BackendComponent[name]
            assert not key.is_alias


def test_order_of_functionalities() -> None:
    """Check the order of the functionalities, lowest first."""
    names = [
        "CPU", "QuantizedCPU", "SparseCPU", "SparseCsrCPU", "BackendSelect", "Python",
        "FuncTorchDynamicLayerBackMode", "Functionalize", "Named", "ADInplaceOrView", "AutogradOther",
        "AutogradCPU", "Tracer", "Profiler", "AutocastCPU", "Batched", "VmapMode", "PythonTLSSnapshot",
        "PreDispatch", "PythonDispatcher",
    ]  # fmt: skip
    everything = DispatchKeySet(getattr(DispatchKey, name) for name in names)
    assert [key.name for key in everything] == names
    for lower, higher in itertools.pairwise(names):
        pair = DispatchKeySet([getattr(DispatchKey, lower), getattr(DispatchKey, higher)])
        assert pair.highest_priority().name == higher


def test_later_backends_have_priority() -> None:
    both = DispatchKeySet([DispatchKey.CPU, DispatchKey.CUDA])
    assert both.highest_priority() is DispatchKey.CUDA
    assert list(both) == [DispatchKey.CPU, DispatchKey.CUDA]
    assert both.highest_backend() is BackendComponent.CUDA


@given(key_lists)
def test_a_set_has_what_was_put_into_it(given_keys: list[dk.DispatchKey]) -> None:
    made = DispatchKeySet(given_keys)
    assert all(made.has(key) and key in made for key in given_keys)
    assert set(given_keys) <= set(made)
    assert made.empty() == (not given_keys) == (not made)


@given(sets, sets, sets)
def test_union_and_intersection_are_those_of_sets(
    a: dk.DispatchKey, b: dk.DispatchKey, c: dk.DispatchKey
) -> None:
    assert a | b == b | a
    assert a & b == b & a
    assert a | (b | c) == (a | b) | c
    assert a & (b & c) == (a & b) & c
    assert a & (b | c) == (a & b) | (a & c)
    assert a | a == a & a == a
    assert (a & b) | a == a


@given(sets, sets)
def test_difference_takes_functionalities_and_leaves_backends(a: dk.DispatchKey, b: dk.DispatchKey) -> None:
    rest = a - b
    assert rest.raw_repr() & BACKEND_MASK == a.raw_repr() & BACKEND_MASK
    assert rest.raw_repr() >> NUM_BACKENDS == (a.raw_repr() & ~b.raw_repr()) >> NUM_BACKENDS


@given(sets, keys)
def test_add_and_remove(a: dk.DispatchKey, key: dk.DispatchKey) -> None:
    assert a.add(key).has(key)
    assert not a.remove(key).has(key)
    assert a.add(key).remove(key) - DispatchKey.CPU == (a - key).add(key).remove(key) - DispatchKey.CPU


@given(sets)
def test_iteration_rises_in_priority_and_agrees_with_has(a: dk.DispatchKey) -> None:
    members = list(a)
    assert members == [key for key in KEYS if a.has(key)] or set(members) == {
        key for key in KEYS if a.has(key)
    }
    assert [k.priority for k in members] == sorted(k.priority for k in members)
    assert len(a) == len(members) == len(set(members))
    assert repr(a) == f"DispatchKeySet({', '.join(key.name for key in members)})"


@given(sets)
def test_highest_priority_is_the_last_of_the_iteration_or_has_no_backend(a: dk.DispatchKey) -> None:
    top = a.highest_priority()
    assert top is highest_priority(a.raw_repr()) is a.highestPriorityTypeId()
    functionality_bits = a.raw_repr() >> NUM_BACKENDS
    if not functionality_bits:
        assert top is DispatchKey.Undefined
        return
    functionality = Functionality(functionality_bits.bit_length() - 1)
    if functionality in PER_BACKEND and not a.raw_repr() & BACKEND_MASK:
        assert top is DispatchKey.Undefined
    else:
        assert top is list(a)[-1]


@given(raw)
def test_raw_round_trip_equality_and_hash(bits: int) -> None:
    a, b = DispatchKeySet.from_raw_repr(bits), DispatchKeySet.from_raw_repr(bits)
    assert a.raw_repr() == bits
    assert a == b
    assert hash(a) == hash(b)
    assert a != bits


@pytest.mark.parametrize("bits", [-1, 1 << 64])
def test_only_64_bits(bits: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        DispatchKeySet.from_raw_repr(bits)


def test_removing_a_per_backend_key_leaves_the_shared_backend_bit() -> None:
    both = DispatchKeySet([DispatchKey.CPU, DispatchKey.AutogradCPU])
    assert both - DispatchKey.AutogradCPU == DispatchKeySet(DispatchKey.CPU)
    assert both.has(DispatchKey.AutogradCPU)
    assert not DispatchKeySet(DispatchKey.CPU).has(DispatchKey.AutogradCPU)
    assert not DispatchKeySet([DispatchKey.CPU, DispatchKey.AutogradCUDA]).empty()


def test_a_set_is_immutable() -> None:
    a = DispatchKeySet(DispatchKey.CPU)
    with pytest.raises(AttributeError):
        a.repr_ = 0
    b = a
    b |= DispatchKey.CUDA
    assert a == DispatchKeySet(DispatchKey.CPU)


@pytest.mark.parametrize("alias", ALIASES)
def test_alias_keys_add_nothing_to_a_set(alias: str) -> None:
    key = getattr(DispatchKey, alias)
    assert key.is_alias
    cpu = DispatchKeySet(DispatchKey.CPU)
    assert DispatchKeySet(key).empty() and cpu | key == cpu == cpu - key
    assert cpu.has(key) and key in DispatchKeySet()  # PyTorch: a set has all of the bits of a key without any


def test_undefined_adds_nothing_to_a_set() -> None:
    assert DispatchKeySet(DispatchKey.Undefined).empty()
    assert DispatchKeySet(KEYS).has(DispatchKey.Undefined) and DispatchKeySet().has(DispatchKey.Undefined)
    assert DispatchKeySet().highest_priority() is DispatchKey.Undefined


def test_foreign_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="expected DispatchKey"):
        DispatchKeySet() | "CPU"
    with pytest.raises(TypeError, match="expected DispatchKey"):
        DispatchKeySet(["CPU"])


def test_parsing_names() -> None:
    for name, key in BY_NAME.items():
        assert dk.parse(name) is key
        assert str(key) == name
        assert repr(key) == f"DispatchKey.{name}"
        assert dk.parse(key) is key
        assert pickle.loads(pickle.dumps(key)) is key
    with pytest.raises(RuntimeError, match="could not parse dispatch key: Gpu"):
        dk.parse("Gpu")


def test_copies_and_pickles() -> None:
    a = DispatchKeySet([DispatchKey.CPU, DispatchKey.AutogradCPU])
    assert copy.copy(a) == a
    assert copy.deepcopy(a) == a
    assert pickle.loads(pickle.dumps(a)) == a


def test_key_sets_of_tensors() -> None:
    """Keep the autograd keys in a tensor's set even if it does not require grad, as c10 does."""
    plain = tt.ones(1).key_set()
    assert [key.name for key in plain] == ["CPU", "ADInplaceOrView", "AutogradCPU"]
    assert tt.ones(1).requires_grad_().key_set() == plain
    assert tt.ones(1, device="meta").key_set().has(DispatchKey.Meta)
