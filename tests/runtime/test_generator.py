"""Generators: seeds, offsets, states, defaults."""

import threading

import pytest

import triten as tt
from triten.runtime.generator import DEFAULT_SEED, Generator, default_generator

CPU = tt.device("cpu")


def test_a_new_generator() -> None:
    g = tt.Generator()
    assert (g.device, g.initial_seed(), g.get_offset()) == (CPU, DEFAULT_SEED, 0)
    assert tt.Generator("cuda:1").device is tt.device("cuda:1")
    assert "cpu" in repr(g)


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1])
def test_manual_seed(seed: int) -> None:
    g = tt.Generator()
    g.reserve(10)
    assert g.manual_seed(seed) is g
    assert (g.initial_seed(), g.get_offset()) == (seed, 0)


def test_negative_seeds_wrap() -> None:
    assert tt.Generator().manual_seed(-1).initial_seed() == 2**64 - 1
    assert tt.Generator().manual_seed(-(2**63)).initial_seed() == 2**63


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_seeds_beyond_64_bits_are_refused(seed: int) -> None:
    g = tt.Generator().manual_seed(5)
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        g.manual_seed(seed)
    assert g.initial_seed() == 5


def test_a_seed_from_the_system() -> None:
    g = tt.Generator()
    first, second = g.seed(), g.seed()
    assert first != second
    assert g.initial_seed() == second


def test_reservations_follow_each_other() -> None:
    g = tt.Generator().manual_seed(3)
    assert g.reserve(4) == (3, 0)
    assert g.reserve(1) == (3, 4)
    assert g.get_offset() == 5
    g.set_offset(2)
    assert g.reserve(1) == (3, 2)


def test_reservations_of_threads_do_not_overlap() -> None:
    g = tt.Generator()
    starts: list[int] = []

    def work() -> None:
        starts.extend(g.reserve(3)[1] for _ in range(1000))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(starts) == list(range(0, 12_000, 3))


def test_states_come_back() -> None:
    g = tt.Generator().manual_seed(2**64 - 1)
    g.reserve(7)
    state = g.state_bytes()
    expected = g.reserve(2)
    g.manual_seed(0)
    g.set_state_bytes(state)
    assert g.reserve(2) == expected
    other = tt.Generator()
    other.set_state_bytes(state)
    assert other.reserve(2) == expected


@pytest.mark.parametrize("state", [b"", b"x" * 15, b"x" * 17])
def test_states_of_another_length_are_refused(state: bytes) -> None:
    with pytest.raises(RuntimeError, match="Generator state has 16 bytes"):
        tt.Generator().set_state_bytes(state)


def test_each_device_has_one_default() -> None:
    assert default_generator(CPU) is default_generator(CPU)
    assert default_generator(CPU) is not default_generator(tt.device("meta"))
    assert isinstance(default_generator(CPU), Generator)


def test_seeding_all_of_them() -> None:
    meta = default_generator(tt.device("meta"))
    meta.reserve(3)
    assert tt.manual_seed(11) is default_generator(CPU)
    assert (tt.initial_seed(), meta.initial_seed(), meta.get_offset()) == (11, 11, 0)
    value = tt.seed()
    assert tt.initial_seed() == meta.initial_seed() == value


def test_devices_that_come_later_have_the_common_seed() -> None:
    tt.manual_seed(23)
    assert default_generator(tt.device("privateusethree:5")).initial_seed() == 23
