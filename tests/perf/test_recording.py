"""The gate launches every candidate that a kernel declares, not only the default choice."""

from triten.dispatch.structured.stub import load_kernels
from triten.perf.ahead_of_time.recording import takes, untried
from triten.runtime.device import device as Device
from triten.triton_kernels.budget import DECLARATIONS, Configuration
from triten.triton_kernels.tuning.question import Question

SGD = "triten.triton_kernels.optimizers.sgd_kernel:fused_sgd"


def test_other_candidates_are_each_tried_once() -> None:
    import triten as tt

    tt.library.driver()
    load_kernels("cuda")
    default, *others = DECLARATIONS[SGD].configurations["fp32"]
    here = Device("cuda", 0)
    small, large = (Question(SGD, here, "fp32", shape) for shape in ("1", "4096:16"))
    tried: set = set()
    found = list(untried({small: default, large: default}, tried))
    assert found == [(one, other) for one in (small, large) for other in others]
    tried |= {(SGD, "fp32", other) for other in others}
    assert list(untried({large: default}, tried)) == []


def test_a_candidate_counts_where_a_launch_takes_it() -> None:
    import triten as tt

    tt.library.driver()
    load_kernels("cuda")
    declaration = DECLARATIONS[SGD]
    question = Question(SGD, Device("cuda", 0), "fp32", "1")
    wanted = declaration.configurations["fp32"][0]
    noted = {
        "kernel": declaration.kernel,
        "constants": dict(zip(declaration.tile, wanted.tile, strict=True)),
        "options": {"num_warps": wanted.warps, "num_stages": wanted.stages},
    }
    assert takes(noted, question, wanted)
    assert not takes(noted, question, Configuration((*wanted.tile[:-1], 17), wanted.warps, wanted.stages))
    assert not takes({**noted, "kernel": tt.triton_kernels.elementwise.elementwise.dense}, question, wanted)


def test_candidates_of_one_dtype_are_not_those_of_another() -> None:
    import triten as tt

    tt.library.driver()
    load_kernels("cuda")
    here = Device("cuda", 0)
    tried = {(SGD, "fp32", other) for other in DECLARATIONS[SGD].configurations["fp32"]}
    half = DECLARATIONS[SGD].configurations["bf16"]
    found = list(untried({Question(SGD, here, "bf16", "1"): half[0]}, tried))
    assert [candidate for _, candidate in found] == list(half[1:])
