"""Exported programs with their kernels run without Triton: bitwise identical to eager, without compilation."""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import triten as tt
from triten import nn
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.occupancy import KNOWN
from triten.tests.compiler.beside_eager import drawn, same

pytestmark = pytest.mark.standin(execute=1, capability=90)

RUNNER = """
import json, sys

sys.modules["triton"] = None
from triten.tests.runtime.cuda.standin.install import install

install()
import triten as tt
from triten.runtime.cuda.triton import cubin_store

compiled = []
compile_kernel = cubin_store.compile_kernel
cubin_store.compile_kernel = lambda kernel, *rest: compiled.append(kernel.__name__) or compile_kernel(kernel, *rest)

program = tt.export.passes.move_to_device_pass(tt.export.load(sys.argv[1]), "cuda")
module = program.module()
given = tt.load(sys.argv[2])
inputs = [each.cuda() for each in given]
# The same at other addresses, for which kernels have variants.
moved = [tt.cat([each.flatten()[:1], each.flatten()]).cuda()[1:].view(each.shape) for each in given]
tt.manual_seed(0)
try:
    found = [module(*each) for each in (inputs, inputs)]
    found.append(program.module()(*moved))
except RuntimeError as error:
    print(json.dumps([len(compiled), str(error)]))
    sys.exit()
tt.save([[each.cpu() for each in result] for result in found], sys.argv[3])
state = {name: each.detach().cpu() for name, each in module.state_dict().items()}
tt.save(state, sys.argv[3] + ".state")
print(json.dumps([len(compiled), sum(archive.found for archive in program.kernels)]))
"""


class Everything(nn.Module):
    """Convolution with batch norm in training, fused pointwise steps, dropout, attention and a matmul."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.head, self.dropout = nn.Linear(16, 16), nn.Dropout(0.5)

    def forward(self, x: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
        x = self.norm(self.convolution(x))
        x = tt.relu(x * 0.5 + 1) * x
        rows = x.flatten(2).transpose(1, 2)[:, None]
        mixed = nn.functional.scaled_dot_product_attention(rows, rows, rows)
        return self.dropout(self.head(mixed)), x.mean((2, 3))


def target() -> object:
    """Return the target of the stand-in's devices."""
    properties = driver().properties(0)
    return replace(KNOWN[90], device=properties.name, multiprocessors=properties.multi_processor_count)


def run_without_triton(folder: Path, program: Path, *inputs: tt.Tensor) -> list:
    tt.save(list(inputs), folder / "inputs.pt")
    runner = folder / "runner.py"
    runner.write_text(RUNNER)
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            str(runner),
            str(program),
            str(folder / "inputs.pt"),
            str(folder / "found.pt"),
        ],
        capture_output=True,
        text=True,
        # No store: whatever is not in the program's archive is missing.
        env={**os.environ, "TRITEN_CACHE_MAXSIZE": "0"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_program_runs_by_its_own_kernels(standin):
    x = drawn(2, 3, 4, 4)
    tt.manual_seed(0)
    module = Everything().cuda()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = tt.export.export(module, (x.cuda(),))
        tt.export.save(program, folder / "program.pt2", targets=(target(),))
        with zipfile.ZipFile(folder / "program.pt2") as archive:
            files = archive.namelist()
            sources = [archive.read(file).decode() for file in files if file.endswith(".py")]
        compiled, found = run_without_triton(folder, folder / "program.pt2", x)
        assert compiled == 0 and found > 5, found
        assert any("mul_add_relu_mul" in source and "@triton.jit" in source for source in sources)
        results, state = tt.load(folder / "found.pt"), tt.load(folder / "found.pt.state")
    tt.manual_seed(0)
    for result in results:
        with tt.no_grad():
            same(result, [each.cpu() for each in module(x.cuda())])
    same(dict(state), {name: each.detach().cpu() for name, each in module.state_dict().items()})


def test_a_kernel_that_is_missing_is_named(standin):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = tt.export.export(nn.ReLU(), (drawn(4),))  # on the CPU, which is no device of kernels
        tt.export.save(program, folder / "other.pt2", targets=("sm_80",))
        compiled, message = run_without_triton(folder, folder / "other.pt2", drawn(4))
        assert compiled == 1
        assert "for sm_90 is not in the store of compiled kernels, nor among the kernels of" in message
        assert (
            "other.pt2' (sm_80); save the program with targets=('sm_90',) where Triton is installed"
            in message
        )
