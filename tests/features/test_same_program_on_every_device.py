"""Works by import: one program, with a GPU, interpreted, or on the CPU alone, where the CUDA functions say so."""

import os
import subprocess
import sys

import pytest

import triten as tt

WITHOUT_CUDA = """
import sys
import importlib.util

find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "cupy" else find(name, *rest)
import triten as tt

assert tt.cuda.is_available() is False and tt.cuda.device_count() == 0 and not tt.cuda.is_initialized()
assert tt.cuda.get_arch_list() == [] and tt.cuda.is_bf16_supported() is False
assert tt.cuda.get_rng_state_all() == [] and tt.cuda.host_memory_stats() == {}
tt.cuda.manual_seed(1); tt.cuda.manual_seed_all(1); tt.cuda.seed(); tt.cuda.seed_all()
with tt.cuda.stream(None), tt.cuda.device(-1), tt.cuda.device_of(tt.ones(1)):
    assert (tt.ones(2) + 1).tolist() == [2.0, 2.0]
tt.cuda.set_stream(None)
assert tt.ones(2).is_pinned() is False and tt.cuda.Event().query()

for call in (
    lambda: tt.cuda.init(),
    lambda: tt.cuda.current_device(),
    lambda: tt.cuda.current_stream(),
    lambda: tt.cuda.Stream(),
    lambda: tt.cuda.ExternalStream(3),
    lambda: tt.cuda.Event().record(),
    lambda: tt.cuda.synchronize(),
    lambda: tt.cuda.get_device_properties(),
    lambda: tt.ones(2).cuda(),
    lambda: tt.ones(2).pin_memory(),
    lambda: tt.empty(2, pin_memory=True),
    lambda: tt.tensor([1.0], pin_memory=True),
):
    try:
        call()
    except RuntimeError as error:
        assert "No CUDA GPUs are available" in str(error) or "requires a CUDA device" in str(error), error
    else:
        raise SystemExit("not refused")
assert (tt.ones(2) + 1).tolist() == [2.0, 2.0]
print(sorted(name for name in ("triton", "cupy") if name in sys.modules))
"""


def program(device: str) -> list[object]:
    """Run a small training loop, written once for every device."""
    tt.manual_seed(0)
    x, target = tt.randn(16, 4, device=device), tt.rand(16, 1, device=device)
    weight = tt.randn(4, 1, device=device).mul_(0.1).requires_grad_()
    losses = []
    for _ in range(3):
        loss = tt.nn.functional.mse_loss(x @ weight, target)
        loss.backward()
        with tt.no_grad():
            weight -= 0.1 * weight.grad
            weight.grad = None
        losses.append(loss.item())
    host = weight.detach().to("cpu", non_blocking=True)
    if device == "cuda":
        tt.cuda.synchronize()
    return [*losses, *host.flatten().tolist()]


def test_the_same_program_gives_the_same_numbers():
    pytest.importorskip("triton", reason="triton has no wheel for this platform")
    here, there = program("cpu"), program("cuda")
    assert here == pytest.approx(there, rel=1e-5)


def test_without_a_gpu_the_program_runs_and_cuda_says_so():
    environment = {
        name: value for name, value in os.environ.items() if name not in ("TRITEN_CUDA", "TRITON_INTERPRET")
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_CUDA], env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
