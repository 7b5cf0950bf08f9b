"""Operators wait for the device only if their result's shape depends on values, or if they return a Python
number.

The stand-in calls and differentiates every row of the GPU check (`gpu_check.samples`), on kernels without
code. The test reads the driver's calls of a second run. Memory holds the host's last values, so that a
data-dependent shape is defined.
"""

import sys
from pathlib import Path

import pytest

import triten as tt
import triten.nn.functional as F
from triten.tests.runtime.cuda.standin.made_up_kernels import names, settled, without_code

WITHOUT_CODE = pytest.mark.standin(without_code=1)
WAITING = {
    "cuStreamSynchronize",
    "cuCtxSynchronize",
    "cuEventSynchronize",
    "cuMemcpyDtoH",
    "cuMemcpyHtoD",
    "cuMemFree",
}

MAY_WAIT = {
    **dict.fromkeys(
        (
            "_unique",
            "_unique2",
            "argwhere",
            "bincount",
            "index.Tensor#2",
            "index.Tensor#3",
            "masked_scatter",
            "masked_select",
            "nonzero",
            "nonzero.as_tuple",
            "nonzero_numpy",
            "repeat_interleave.Tensor",
            "repeat_interleave.self_Tensor",
            "unique_consecutive",
            "unique_dim",
            "unique_dim_consecutive",
            "where",
        ),
        "the shape of its result depends on values",
    ),
    **dict.fromkeys(("allclose", "equal"), "gives a Python bool"),
    **dict.fromkeys(
        (
            "linspace.Scalar_Tensor",
            "linspace.Tensor_Scalar",
            "linspace.Tensor_Tensor",
            "randint_like.Tensor",
        ),
        "takes the value of a tensor for a number, as PyTorch does",
    ),
    "narrow.Tensor": "the place of the view that it gives depends on a value",
    "histc": "the ends of its bins are values where none are given",
}
"""Operators, or rows of one, that may wait, and why."""

NOT_RUN = {
    **dict.fromkeys(("_fft_c2c", "_fft_c2r", "_fft_r2c"), "calls cuFFT, which the stand-in has not"),
    **dict.fromkeys(("nuclear_norm", "nuclear_norm.dim"), "calls cuSOLVER, which the stand-in has not"),
    "_copy_from": "is for backends of other packages",
}


def _rows():
    sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "gpu"))
    from gpu_check.arguments import SMALL
    from gpu_check.cases import Case, dtypes_of, table
    from gpu_check.forms import Call

    for (name, row), sample in table().items():
        # The same shapes as elsewhere, wide enough for every window.
        yield sample, Call(Case(name, row, dtypes_of(sample)[0], "contiguous"), 0, SMALL | {"w": 9})


def _waits(standin, program):
    return [name for name in names(settled(standin, program)) if name in WAITING]


def _differentiable(found):
    results = [found] if isinstance(found, tt.Tensor) else found
    return [x for x in results if isinstance(x, tt.Tensor) and x.requires_grad]


def may_wait(row):
    """Return True if a row of the samples may wait."""
    return row in MAY_WAIT or row.partition("#")[0] in MAY_WAIT


@WITHOUT_CODE
def test_no_operator_waits_but_those_that_must(standin):
    without_code()
    rows = list(_rows())
    from gpu_check.operators import overload

    waited, failed, calls, gradients = {}, {}, 0, 0
    for sample, call in rows:
        name = call.case.operator
        row = f"{name}#{call.case.row}"
        form = call.forms.functional or call.forms.inplace
        if form is None or name in NOT_RUN:
            continue
        operator = overload(form)
        args, kwargs, _ = call.arguments("cuda", None, False)
        try:
            found = _waits(standin, lambda operator=operator, a=args, k=kwargs: operator(*a, **k))
        except Exception as error:
            failed[row] = f"{type(error).__name__}: {error}"
            continue
        calls += 1
        if found:
            waited[row] = found
        if not sample.backward or call.forms.functional is None:
            continue
        args, kwargs, leaves = call.arguments("cuda", None, True)
        try:
            results = _differentiable(operator(*args, **kwargs)) if leaves else []
        except RuntimeError as error:
            assert "not differentiable" in str(error) or may_wait(row), row
            continue
        if not results:
            continue
        result = results[0]
        seed = tt.ones_like(result)

        def backward(result=result, leaves=leaves, seed=seed):
            tt.autograd.grad(result, leaves, seed, retain_graph=True, allow_unused=True)

        try:
            found = _waits(standin, backward)
        except (RuntimeError, NotImplementedError) as error:
            assert "not implemented" in str(error) or may_wait(row), row
            continue
        gradients += 1
        if found:
            waited[f"{row}, backward"] = found
    assert {row: found for row, found in waited.items() if not may_wait(row)} == {}
    assert {row: why for row, why in failed.items() if not may_wait(row)} == {}
    excused = {row.partition(",")[0] for row in (*waited, *failed)}
    excused |= {row.partition("#")[0] for row in excused}
    assert sorted(set(MAY_WAIT) - excused) == [], "these wait no longer"
    assert calls > 900 and gradients > 600, (calls, gradients)


@WITHOUT_CODE
def test_the_operators_that_wait_are_seen_to(standin):
    without_code()
    x = tt.ones(16, device="cuda")
    assert _waits(standin, lambda: tt.equal(x, x)) == ["cuStreamSynchronize"]
    assert _waits(standin, x.nonzero) == ["cuStreamSynchronize"]


LAUNCHES = {
    "gather": ["pick"],
    "index_select": ["pick"],
    "embedding": ["pick_runs"],
    "x[i]": ["pick"],
    "cross_entropy": ["cross_entropy"],
}


@WITHOUT_CODE
@pytest.mark.parametrize("call", ["gather", "index_select", "embedding", "x[i]", "cross_entropy"])
def test_a_check_of_indices_takes_no_call_of_its_own(standin, call):
    without_code()
    x, i = tt.ones(5, 64, device="cuda"), tt.zeros(5, dtype=tt.int64, device="cuda")
    programs = {
        "gather": lambda: x.gather(1, i[:, None]),
        "index_select": lambda: x.index_select(1, i),
        "embedding": lambda: F.embedding(i, x),
        "x[i]": lambda: x[:, i],
        "cross_entropy": lambda: F.cross_entropy(x, i),
    }
    calls = settled(standin, programs[call])
    assert set(names(calls)) == {"cuLaunchKernel"}
    assert [each["function"] for each in calls] == LAUNCHES[call]


@WITHOUT_CODE
def test_repeats_whose_sum_is_known_are_not_waited_for(standin):
    without_code()
    x, repeats = tt.ones(5, device="cuda"), tt.ones(5, dtype=tt.int64, device="cuda")
    calls = settled(standin, lambda: x.repeat_interleave(repeats, output_size=5))
    assert set(names(calls)) == {"cuLaunchKernel"}
    assert {"report", "bisect", "pick"} <= {each["function"] for each in calls}


@WITHOUT_CODE
def test_the_words_are_page_locked_and_mapped_and_taken_once(standin):
    without_code()
    x = tt.ones(5, 64, device="cuda:1")
    i = tt.zeros(5, dtype=tt.int64, device="cuda:1")
    x.index_select(0, i), x.gather(0, i[None]), F.embedding(i, x)
    taken = [call for call in standin.named("cuMemHostAlloc") if call.integer("flags") & 2]
    assert len(taken) <= 1, "one block of words, unless an earlier test of this process took it"
    words = [call for call in standin.launches if call["function"] in ("pick", "pick_runs")]
    assert len(words) == 3
    if taken:
        assert taken[0].integer("bytes") == 4096


@WITHOUT_CODE
def test_launch_blocking_waits_for_the_kernel_that_checks(standin):
    without_code()
    from triten.runtime.cuda.driver import driver

    x, i = tt.ones(5, 64, device="cuda"), tt.zeros(5, dtype=tt.int64, device="cuda")
    driver().launch_blocking = True
    try:
        assert names(settled(standin, lambda: x.index_select(0, i))) == [
            "cuLaunchKernel",
            "cuStreamSynchronize",
        ]
    finally:
        driver().launch_blocking = False
