"""Lanes that a load's mask excludes hold 0, and are reported where a kernel uses them."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import triton
import triton.language as tl

import triten as tt
from triten.runtime.cuda.interpreter import UndefinedLoadWarning, semantics
from triten.tests.shared.processes import run_python

pytestmark = pytest.mark.interpreter


@pytest.fixture(autouse=True)
def no_poison(monkeypatch):
    monkeypatch.setattr(semantics._builder, "poisons", False)


@triton.jit
def uses(x, out, n, USE: tl.constexpr):
    i = tl.arange(0, 16)
    a = tl.load(x + i, mask=i < n)
    if USE == "sum":
        tl.store(out + i, tl.sum(a * 2 + 1) + a, mask=i < n)
    elif USE == "max of a choice":
        tl.store(out + i, tl.max(tl.where(i < n - 1, -a, a), 0) + a, mask=i < n)
    elif USE == "scan":
        tl.store(out + i, tl.cumsum(a.to(tl.float64), 0).to(tl.float32), mask=i < n)
    elif USE == "store":
        tl.store(out + i, tl.exp(a))
    elif USE == "dot":
        square = tl.reshape(i, (4, 4)) * 0.0 + 1.0
        rows = tl.load(x + tl.arange(0, 16)[:, None] + i[None, :] * 0, mask=(i < n)[:, None])
        tl.store(out + i, tl.sum(tl.dot(rows, rows), 0) + tl.sum(square))
    elif USE == "masked":
        tl.store(out + i, tl.exp(a) * 2, mask=i < n)
    elif USE == "where":
        tl.store(out + i, tl.where(i < n, a, 3.0) + tl.sum(tl.where(i >= n, 0.0, a)))


def run(use: str, n: int = 5) -> list[float]:
    x, out = tt.arange(1.0, 17.0, device="cuda"), tt.zeros(16, device="cuda")
    uses[(2,)](x, out, n, use)
    return out.tolist()


@pytest.mark.parametrize("use", ["sum", "max of a choice", "scan", "store", "dot"])
def test_a_use_is_reported_with_the_line_of_the_load(use):
    with pytest.warns(UndefinedLoadWarning, match="kernel 'uses': the mask of this load") as caught:
        run(use)
    assert {each.filename for each in caught} == {__file__}
    line = Path(__file__).read_text().splitlines()[caught[0].lineno - 1]
    assert "tl.load(" in line and ("rows" in line) == (use == "dot")


@pytest.mark.parametrize("use", ["masked", "where"])
def test_lanes_that_are_not_used_are_not_reported(use):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(use)
        run("sum", 16)


def test_undefined_lanes_are_zero():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedLoadWarning)
        assert run("store")[4:7] == pytest.approx([np.exp(5), 1, 1])
        assert run("sum")[:2] == [15 * 2 + 16 + 1, 15 * 2 + 16 + 2]


def test_a_load_is_reported_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        uses.fn.__globals__.pop("__warningregistry__", None)
        run("store")
        run("store")
    assert [each.category for each in caught] == [UndefinedLoadWarning]


def test_tritens_own_kernels_report_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tt.ones(5, device="cuda").exp().sum().item() == pytest.approx(5 * np.e)


PROGRAM = """
from triten.runtime.cuda.driver import driver
driver()
from triten.runtime.cuda.interpreter import semantics
print(semantics._builder.poisons)
"""


def test_the_environment_chooses_poison():
    done = run_python(PROGRAM, environment=os.environ | {"TRITEN_INTERPRET_POISON": "1"})
    assert done.stdout == "True\n", done.stderr
