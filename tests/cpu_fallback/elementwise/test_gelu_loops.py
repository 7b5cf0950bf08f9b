"""gelu of large float32 by a compiled loop, and the hyperbolic tangent in it."""

import math

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.elementwise.gelu import CHAINED_FROM
from triten.runtime.cpu.element_loop import Loop
from triten.runtime.cpu.element_program import ElementProgram
from triten.runtime.cpu.elementary_functions import F32
from triten.runtime.cpu.hyperbolic_tangent import tanh
from triten.runtime.cpu.llvm_source import write_loop
from triten.runtime.cpu.object_code import loop_function, target
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm
F = tt.nn.functional
COUNT = 5 * CHAINED_FROM + 7


def reference(x: np.ndarray, approximate: str) -> tuple[np.ndarray, np.ndarray]:
    """Return gelu and its derivative in float64."""
    if approximate == "none":
        share = 0.5 * (1 + np.array([math.erf(v / math.sqrt(2)) for v in x]))
        return x * share, share + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    root = math.sqrt(2 / math.pi)
    t = np.tanh(root * (x + 0.044715 * x**3))
    return 0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x**2)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_values_and_gradients_against_float64(approximate: str) -> None:
    x = np.linspace(-7, 7, COUNT).astype(np.float32)
    t = tt.from_numpy(x).requires_grad_()
    found = F.gelu(t, approximate=approximate)
    found.backward(tt.full_like(t, 0.5))
    values, slopes = reference(x.astype(np.float64), approximate)
    np.testing.assert_allclose(found.detach().numpy(), values, 0, 1e-6)
    np.testing.assert_allclose(t.grad.numpy(), 0.5 * slopes, 0, 1e-6)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_special_values(approximate: str) -> None:
    x = tt.zeros(COUNT)
    x[-3], x[-2], x[-1], x[0], x[1] = math.nan, math.inf, 1e-30, -0.0, -1e30
    found = F.gelu(x, approximate=approximate)
    assert math.isnan(found[-3]) and found[-2] == math.inf
    assert found[-1] == 5e-31 and math.copysign(1, found[0]) == -1 and found[1] == 0


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_results_are_those_of_one_thread_and_of_compiled_functions(approximate: str) -> None:
    x, grad = tt.randn(3, 3 * CHAINED_FROM), tt.randn(3, 3 * CHAINED_FROM)
    before, found = tt.get_num_threads(), []
    try:
        for threads in (1, 3):
            tt.set_num_threads(threads)
            backward = tt.ops.aten.gelu_backward(grad, x, approximate=approximate)
            found.append((F.gelu(x, approximate=approximate), backward))
    finally:
        tt.set_num_threads(before)
    found.append(tt.compile(lambda x, g: (
        F.gelu(x, approximate=approximate), tt.ops.aten.gelu_backward(g, x, approximate=approximate)
    ))(x, grad))  # fmt: skip
    for other in found[1:]:
        assert all(tt.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_the_output_may_be_the_input() -> None:
    x = tt.randn(COUNT)
    want = F.gelu(x)
    tt.ops.aten.gelu.out(x, out=x)
    assert tt.equal(x, want)


def test_tanh_is_within_1_2_units_in_the_last_place() -> None:
    found = target()
    if found is None or not found.fuses:
        pytest.skip("the instructions need fused multiply-add")
    p = ElementProgram(True, True)
    value = p.value("input", F32, detail=0)
    loop = loop_function(write_loop(Loop((value,), ((tanh(p, value), "o0"),)), ["unit", "unit"], 1))
    x = np.arange(0, 0x41200000, 4099, np.uint32).view(np.float32)
    x, out = np.concatenate([x, -x]), np.empty(2 * x.size, np.float32)
    loop(np.array([x.size, 0, 4, 0, 4]), out, x)
    exact = np.tanh(x.astype(np.float64))
    unit = np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)
    assert (np.abs(out - exact) <= 1.2 * unit).all()
    edges = np.array([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-45, 88.0, -1e38], np.float32)
    made = np.empty_like(edges)
    loop(np.array([edges.size, 0, 4, 0, 4]), made, edges)
    np.testing.assert_array_equal(made, np.tanh(edges))
    np.testing.assert_array_equal(np.signbit(made), np.signbit(edges))
