"""The GPU check passes on compiled kernels under emulation and reaches every kernel of sm_80.

The run is brief. It takes half of an operator's further rows, an eighth of the composite operators and of the
gradients, and half of a check's dtypes. `test_check.py` runs every operator with its gradients in the
interpreter. `make emulate` runs everything on compiled kernels; `EMULATE_ARGS=--first-pass` runs every
operator once. For sm_90 the test runs only the kernels specific to it; `TRITEN_EMULATE=90 make emulate` runs
all.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from gpu_check.command import KERNELS_CHECK
from gpu_check.kernels import WITH_TENSOR_MAPS, unreached

EMULATED = ("--emulate", "--brief", "--task-seconds", "600")


@pytest.fixture
def emulated(check: Callable[..., Any], pytestconfig: pytest.Config) -> Callable[..., Any]:
    """Return a function for brief runs on compiled kernels; random choices change with the run's seed."""
    seed = str(7 + pytestconfig.getoption("seed"))
    return partial(check, *EMULATED, "--seed", seed, interpret=False)


def test_every_operator_with_kernels_and_every_kernel(emulated: Callable[..., Any]) -> None:
    run = emulated("--first-pass", "--workers", "2")
    assert run.status == 0, run.output
    section = run.section
    assert section["complete"] is True and section["device"] == "PTX emulator"
    assert section["counts"]["passed"] > 500, run.output
    assert run.checks[KERNELS_CHECK]["status"] == "passed"


def test_kernels_of_newer_devices_are_known_by_name() -> None:
    assert {name.rpartition(" ")[2] for name in unreached(set(), 9)} >= set(WITH_TENSOR_MAPS)
    assert not {name.rpartition(" ")[2] for name in unreached(set(), 8)} & set(WITH_TENSOR_MAPS)


def test_kernels_with_tensor_maps(emulated: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITEN_EMULATE", "90")
    run = emulated("--only", "^sizes: .*16-bit|^products: 8-bit")
    assert run.status == 0, run.output
    assert run.section["device"] == "PTX emulator sm_90" and run.section["counts"]["passed"] == 12
    assert {*WITH_TENSOR_MAPS, "matmul_stream_k_specialized", "matmul_warp_specialized"} <= set(
        run.section["kernels"]
    )


SOME = r"^(add|mul|div|where\.self|sum\.dim_IntList|cumsum|mm|max\.dim|sort|gather|index_add|copy|_softmax|bitwise_and)"


def test_dtypes_and_layouts(emulated: Callable[..., Any], pytestconfig: pytest.Config) -> None:
    """Elements of every size, at offsets and strides that no vector fits: a third of the cases, by the run's seed."""
    part = (pytestconfig.getoption("seed") + 1) % 3 + 1
    run = emulated(
        "--only",
        SOME + r"(\.Tensor)?#0/",
        "--layouts",
        "contiguous,unaligned,transposed",
        "--shard",
        f"{part}/3",
    )
    assert run.status == 0, run.output
    dtypes = {name.split("/")[1] for name in run.checks if "#0/" in name}
    assert {"bool", "uint8", "int16", "int64", "float16", "bfloat16", "float64", "complex64"} <= dtypes
