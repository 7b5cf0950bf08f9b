"""What the gate launches: every candidate that a kernel declares, not only what is chosen where nothing is known."""

from triten.perf.ahead_of_time.recording import untried
from triten.runtime.device import device as Device
from triten.triton_kernels.budget import DECLARATIONS
from triten.triton_kernels.tuning.question import Question

SGD = "triten.triton_kernels.optimizers.sgd_kernel:fused_sgd"


def test_other_candidates_are_each_tried_once() -> None:
    import triten as tt

    tt.library.driver()
    assert tt.triton_kernels.REGISTERING
    default, *others = DECLARATIONS[SGD].configurations["fp32"]
    here = Device("cuda", 0)
    small, large = (Question(SGD, here, "fp32", shape) for shape in ("1", "4096:16"))
    tried: set = set()
    found = list(untried({small: default, large: default}, tried))
    assert found == [(small, other) for other in others]
    assert list(untried({large: default}, tried)) == []
    half = DECLARATIONS[SGD].configurations["bf16"]
    found = list(untried({Question(SGD, here, "bf16", "1"): half[0]}, tried))
    assert [candidate for _, candidate in found] == list(half[1:])
