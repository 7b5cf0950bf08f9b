"""Compiled fused kernels are bitwise identical to eager in the emulator, without spills, with accesses of
128 bits.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

PROGRAM = """
import json
from pathlib import Path

import triton
import triten as tt
from triten.compiler.triton.block_reductions import plan_launch, write_reduction_kernel
from triten.compiler.triton.launch_arguments import LaunchArguments
from triten.compiler.triton.pointwise import block_of, launch_arguments, write_kernel
from triten.compiler.triton.rows import write_rows_kernel
from triten.compiler.triton.source_files import module_of
from triten.perf.ahead_of_time.disassembly import count_instructions, disassemble_together
from triten.runtime.cuda.emulator.images import code_sizes
from triten.runtime.cuda.triton.compile import compile_kernel

F = tt.nn.functional


def chain(a, b, c):
    return tt.relu((a + b) * c)


def gated(a, b, c):
    x = F.gelu(a * 2.5 + b)
    return (x.clamp(min=0.1) * c).to(tt.bfloat16) * 1.5, x > 0.5


def broadcast(a, b, c):
    return F.silu(a) * b[:1] + c[:, :1]


def mixed(a, b, c):
    x = tt.where(a > 0, b.to(tt.float16), 0.25).exp()
    return x, (x.float() * c).to(tt.int32)


def residual_norm(a, b, c):
    return F.layer_norm(a * 1.25 + b, (96,), c[0]) * 2


def softmax(a, b, c):
    e = (a - a.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def scores(a, b, c):
    return (a * 0.125).masked_fill(b > 1, -1e9).to(tt.bfloat16).softmax(-1)


def column_sums(a, b, c):
    y = a * b.sigmoid()
    return y.sum(0), (y * c).sum(0), a.sum(0)


def rotary(a, b, c):
    x, y = a.chunk(2, -1)
    return a * b + tt.cat([-y, x], -1) * c


def dropped(a, b, c):
    return F.dropout(a + b, 0.3) * c


def pixels(a, b, c):
    x, y = (each.view(2, 5, 8, 96).permute(0, 3, 1, 2) for each in (a, b))
    return F.silu(x) * c[0, :, None, None] + y


def normed(a, b, c):
    x = a.view(2, 5, 8, 96).permute(0, 3, 1, 2)
    return F.relu(F.batch_norm(x, c[0], c[1], c[2], c[3], eps=10.0))


def normed_planes(a, b, c):
    x = a.view(2, 12, 20, 16)
    return F.relu(F.batch_norm(x, c[0, :12], c[1, :12], c[2, :12], c[3, :12], eps=10.0)) + x


tokens = tt.arange(80, device="cuda") * 7 % 80
places = tokens[:, None].expand(80, 96).contiguous()


def picked(a, b, c):
    return a.gather(0, places) * b + c


def embedded(a, b, c):
    return F.layer_norm(F.embedding(tokens, a) + b, (96,), c[0])


def dropped_norm(a, b, c):
    return F.layer_norm(F.dropout(a, 0.3) + b, (96,), c[0])


ROWS = (residual_norm, softmax, scores, embedded, dropped_norm)
REDUCTIONS = (column_sums,)
found, cubins = {}, {}
tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
POINTWISE = (chain, gated, broadcast, mixed, rotary, dropped, picked, pixels, normed, normed_planes)
for function in (*POINTWISE, *ROWS, *REDUCTIONS):
    operands = [tt.randn(80, 96, device="cuda") for _ in range(3)]
    tt.manual_seed(0)
    got = tt.compile(function, fullgraph=True)(*operands)
    tt.manual_seed(0)
    expected = function(*operands)
    pairs = zip(got, expected) if isinstance(got, tuple) else [(got, expected)]
    if function in (*ROWS, *REDUCTIONS):  # added in the order of another tile
        equal = all(a.dtype is b.dtype and tt.allclose(a, b, rtol=1e-6, atol=3e-6) for a, b in pairs)
    else:
        equal = all(a.dtype is b.dtype and tt.equal(a, b) for a, b in pairs)
    (kernel,) = tt.compiler.explain(function, *operands).schedules[0].kernels
    nodes = (*kernel.inputs, *kernel.outputs)
    names = [f"a{i}" for i in range(len(kernel.inputs))] + [f"b{i}" for i in range(len(kernel.outputs))]
    signature = {name: f"*{node.val.dtype.triton_name}" for name, node in zip(names, nodes)}
    if function in REDUCTIONS:
        written = write_reduction_kernel(kernel)
        launch = plan_launch(kernel, written)
        signature, constants, warps = launch._signature, launch._options[0], written.tile.warps
        names, sizes = [name for name in signature if name[0] in "abc"], {}
    elif function in ROWS:
        written = write_rows_kernel(kernel)
        sizes, warps = {"n_rows": written.index_type}, written.tile.warps
        signature |= LaunchArguments(kernel.device, written.bounds, kernel.draws).signature
        constants = {"BLOCK_O": written.tile.rows, "BLOCK_R": written.tile.elements}
    else:
        written = write_kernel(kernel)
        sizes, warps, constants = {"n": written.index_type}, 4, {"BLOCK": block_of(kernel, written)}
        signature |= launch_arguments(kernel).signature
    found[function.__name__] = [equal, {}]
    for target in (80, 90, 100):
        binary = compile_kernel(
            getattr(module_of(written.text), written.name), {**signature, **sizes},
            constants, frozenset([*names, *sizes]), target,
            {"num_warps": warps, "enable_fp_fusion": False},
        )
        cubins[function.__name__, target] = binary
for (name, target), sass in zip(cubins, disassemble_together([each.cubin for each in cubins.values()], tools)):
    instructions, binary = count_instructions(sass), cubins[name, target]
    found[name][1][target] = [
        instructions.spills, max(instructions.widths["LDG"]), code_sizes(binary.cubin, binary.name)[0]
    ]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("compiled")
    clean = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    program = Path(folder) / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-P", str(program)],
        capture_output=True,
        text=True,
        env={**clean, "TRITEN_CUDA": "emulate", "TRITEN_CACHE_DIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


FUNCTIONS = (
    *(
        "chain",
        "gated",
        "broadcast",
        "mixed",
        "rotary",
        "dropped",
        "picked",
        "pixels",
        "normed",
        "normed_planes",
    ),
    *("residual_norm", "softmax", "scores", "embedded", "dropped_norm", "column_sums"),
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_compiled_kernel_gives_what_eager_calls_give(found: dict, name: str) -> None:
    assert found[name][0]


@pytest.mark.parametrize("target", ["80", "90", "100"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_spills_and_loads_are_wide(found: dict, name: str, target: str) -> None:
    spills, widest, registers = found[name][1][target]
    assert spills == 0
    assert widest == 128
    assert registers <= 128
