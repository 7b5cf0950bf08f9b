"""Interpreted kernels agree with compiled ones: Python's builtins and `tl` functions at their edges."""

from pathlib import Path

import numpy as np
import pytest

from triten.runtime.cuda.interpreter import syntax
from triten.tests.runtime.cuda.interpreter import language_cases
from triten.tests.shared.processes import run_python, without_device_choice

pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.skipif(
        not syntax._COMPILES_CHAINS, reason="Triton before 3.9 compiles no chain of comparisons"
    ),
]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    archive = tmp_path_factory.mktemp("compiled") / "results.npz"
    script = Path(language_cases.__file__)
    done = run_python(script, archive, environment=without_device_choice(TRITEN_CUDA="emulate"))
    assert done.returncode == 0, done.stderr
    with np.load(archive) as results:
        return dict(results)


@pytest.fixture(scope="module")
def interpreted():
    return dict(language_cases.results())


@pytest.mark.parametrize("name", language_cases.CASES)
def test_interpreted_results_are_the_compiled_ones(compiled, interpreted, name):
    tolerance = language_cases.CASES[name][-1]
    for row, (found, expected) in enumerate(zip(interpreted[name], compiled[name], strict=True)):
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=f"row {row}")
        if not tolerance and found.dtype.kind == "f":
            numbers = ~np.isnan(expected)
            np.testing.assert_array_equal(
                np.signbit(found)[numbers], np.signbit(expected)[numbers], f"row {row}"
            )
