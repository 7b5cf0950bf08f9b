"""Random numbers: a generator for each device with a seed and a state, and the same bits on every backend."""

import threading
from collections.abc import Callable

import pytest

import triten as tt

EXACT: dict[str, Callable[[str, tt.Generator | None], tt.Tensor]] = {
    "rand": lambda device, g: tt.rand(1000, device=device, generator=g),
    "rand float64": lambda device, g: tt.rand(1000, device=device, dtype=tt.float64, generator=g),
    "rand bfloat16": lambda device, g: tt.rand(1000, device=device, dtype=tt.bfloat16, generator=g),
    "randint": lambda device, g: tt.randint(-7, 1 << 40, (1000,), device=device, generator=g),
    "randperm": lambda device, g: tt.randperm(1000, device=device, generator=g),
    "bernoulli": lambda device, g: tt.full((1000,), 0.3, device=device).bernoulli(generator=g),
    "random_": lambda device, g: tt.empty(1000, dtype=tt.int32, device=device).random_(generator=g),
}


@pytest.mark.parametrize("name", EXACT)
def test_the_same_seed_gives_the_same_bits_on_every_device(name: str) -> None:
    draw = EXACT[name]
    devices = ("cpu", "cuda:0", "cuda:1")
    results = [draw(device, tt.Generator(device).manual_seed(2**40 + 3)).tolist() for device in devices]
    assert results[0] == results[1] == results[2]
    assert results[0] != draw("cpu", tt.Generator().manual_seed(4)).tolist()


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=str)
def test_normal_numbers_agree_within_two_units_in_the_last_place(dtype: tt.dtype) -> None:
    cpu, cuda = (
        tt.randn(2000, dtype=dtype, device=d, generator=tt.Generator(d).manual_seed(5)).cpu()
        for d in ("cpu", "cuda")
    )
    unit = tt.finfo(dtype).eps * cpu.abs()
    assert bool(((cpu - cuda).abs() <= 2 * unit).all())


def test_every_device_has_a_default_generator_of_its_own() -> None:
    tt.manual_seed(11)
    first = tt.rand(4, device="cuda:0").tolist()
    assert tt.rand(4, device="cuda:1").tolist() == first
    assert tt.rand(4).tolist() == first
    assert tt.rand(4, device="cuda:0").tolist() != first


def test_manual_seed_restarts_every_device() -> None:
    tt.manual_seed(1)
    before = [tt.rand(3, device=d).tolist() for d in ("cpu", "cuda:0", "cuda:1")]
    tt.manual_seed(1)
    assert [tt.rand(3, device=d).tolist() for d in ("cpu", "cuda:0", "cuda:1")] == before


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_state_is_a_tensor_and_comes_back(device: str) -> None:
    g = tt.Generator(device).manual_seed(3)
    tt.rand(17, device=device, generator=g)
    state = g.get_state()
    assert (state.dtype, state.device.type) == (tt.uint8, "cpu")
    after = tt.rand(5, device=device, generator=g).tolist()
    g.set_state(state)
    assert tt.rand(5, device=device, generator=g).tolist() == after
    other = tt.Generator(device)
    other.set_state(state)
    assert tt.rand(5, device=device, generator=other).tolist() == after


def test_a_generator_of_another_device_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        tt.rand(2, device="cuda", generator=tt.Generator())
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        tt.rand(2, generator=tt.Generator("cuda"))


def test_a_broken_state_is_refused_and_changes_nothing() -> None:
    g = tt.Generator().manual_seed(9)
    for broken in (tt.zeros(3, dtype=tt.uint8), tt.zeros(16), [1, 2]):
        with pytest.raises((RuntimeError, TypeError)):
            g.set_state(broken)  # type: ignore[arg-type]
    assert (g.initial_seed(), g.get_offset()) == (9, 0)


def test_threads_draw_from_one_generator_without_repeating_a_number() -> None:
    g = tt.Generator().manual_seed(0)
    drawn: list[float] = []

    def draw() -> None:
        for _ in range(50):
            drawn.extend(tt.rand(8, dtype=tt.float64, generator=g).tolist())

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == len(drawn) == 1600
    alone = tt.Generator().manual_seed(0)
    assert sorted(drawn) == sorted(
        x for _ in range(200) for x in tt.rand(8, dtype=tt.float64, generator=alone).tolist()
    )
