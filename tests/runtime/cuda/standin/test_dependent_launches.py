"""Which launches may begin before the one before them has ended, and what the driver is asked for them."""

from __future__ import annotations

import pytest

import triten as tt
import triten.nn.functional as F
from triten.tests.runtime.cuda.standin.made_up_kernels import settled, without_code

WITHOUT_CODE = pytest.mark.standin(without_code=1)
PROGRAMMATIC = "6:1:0:0"


def launches(standin, program) -> list[tuple[str, str]]:
    """Return the kernels of a settled program, each with the attributes of its launch."""
    calls = settled(standin, program)
    return [(c["function"], c["attributes"]) for c in calls if c.name.startswith("cuLaunchKernel")]


def sorting():
    x = tt.zeros(1 << 20, device="cuda", dtype=tt.bfloat16)
    return lambda: x.sort()


def embedding(rows: int):
    table = tt.zeros(1000, 64, device="cuda", requires_grad=True)
    loss = F.embedding(tt.zeros(rows, device="cuda", dtype=tt.int64), table)
    change = tt.ones_like(loss)
    return lambda: tt.autograd.grad(loss, table, change, retain_graph=True)


def norm():
    x, w = (tt.ones(*sizes, device="cuda", requires_grad=True) for sizes in ((4096, 1024), (1024,)))
    y = F.rms_norm(x, (1024,), w)
    change = tt.ones_like(y)
    return lambda: tt.autograd.grad(y, [x, w], change, retain_graph=True)


def product():
    a, b = (tt.ones(*sizes, device="cuda") for sizes in ((64, 16384), (16384, 64)))
    return lambda: a @ b


CHAINS = {
    "sort": (sorting, ["count_every_digit"], ["sweep_by_digit"] * 2),
    "embedding": (lambda: embedding(1 << 14), ["count_keys"], ["sweep_by_digit"] * 2 + ["combine_runs"]),
    "embedding of few": (lambda: embedding(64), ["count_keys", "sort_rows"], ["combine_runs"]),
    "rms_norm": (norm, ["normalise_rows_backward"], ["add_up_parts"]),
    "product in parts": (product, ["matmul"], ["add_parts"]),
}


@WITHOUT_CODE
@pytest.mark.parametrize("name", CHAINS)
def test_later_launches_of_an_operator_overlap_with_those_before(standin, name):
    without_code()
    make, first, later = CHAINS[name]
    expected = [(kernel, "") for kernel in first] + [(kernel, PROGRAMMATIC) for kernel in later]
    assert launches(standin, make()) == expected


@pytest.mark.standin(without_code=1, capability=80)
def test_older_devices_have_none_of_it(standin):
    without_code()
    assert {attributes for _, attributes in launches(standin, sorting())} == {""}


@pytest.mark.standin(without_code=1, driver=12020, runtime=12020)
def test_drivers_that_could_not_capture_it_are_not_asked(standin):
    without_code()
    assert {attributes for _, attributes in launches(standin, sorting())} == {""}


@WITHOUT_CODE
def test_a_graph_is_captured_with_it(standin):
    without_code()
    program = sorting()
    for _ in range(2):
        program()
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph):
        program()
    graph.replay()
    asked = [c["attributes"] for c in standin.launches if c["function"] == "sweep_by_digit"]
    assert set(asked) == {PROGRAMMATIC}
