"""Kernels whose launches may begin early wait before they access memory, or are refused."""

import json
import os
import subprocess
import sys

import pytest

from triten.runtime.cuda.triton.dependent_launch import check_waits, early_access

WAIT = "\tgriddepcontrol.wait ;\n"
LOAD = "\t@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];\n"
ENTRY = ".visible .entry kernel(\n.param .u64 a\n)\n{\n$L__func_begin0:\n\tld.param.b64 %rd1, [a];\n"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (WAIT + LOAD, None),
        ("\tst.shared.b32 [%r1], %r2;\n" + WAIT + LOAD, None),
        ("\tmov.u32 %r1, %ctaid.x;\n", None),
        (LOAD + WAIT, "ld.global.v4.b32"),
        (LOAD, "ld.global.v4.b32"),
        ("\tatom.global.add.s32 %r1, [%rd1], 1;\n" + WAIT, "atom.global.add.s32"),
        ("\tcp.async.cg.shared.global [%r1], [%rd1], 16;\n" + WAIT, "cp.async.cg.shared.global"),
        ("\t@%p2 bra \t$L__BB0_2;\n" + WAIT + "$L__BB0_2:\n" + LOAD, "ld.global.v4.b32"),
    ],
)
def test_the_first_access_that_has_waited_for_nothing(body, found):
    assert early_access(ENTRY + body + "}") == found
    if found is None:
        check_waits("kernel", ENTRY + body + "}")
    else:
        with pytest.raises(RuntimeError, match=f"kernel 'kernel' is launched .* got {found} before it"):
            check_waits("kernel", ENTRY + body + "}")


COMPILED = """
import json
from triten.runtime.cuda.triton.compile import compile_kernel
from triten.triton_kernels.products.split_k import add_parts
from triten.tests.gpu.gpu_check.probe_kernels import add
from triten.runtime.cuda.triton.lazy_triton import tl

types = {"a": "*fp32", "b": "*fp32", "out": "*fp32", "n": "i32"}
try:
    compile_kernel(add, types, {"BLOCK": 256}, capability=90, options={"launch_pdl": True})
    refused = ""
except RuntimeError as error:
    refused = str(error)
names = ("apart", "oz", "om", "on", "count", "m", "n")
constants = {name: None for name in ("addend", "scale_a", "scale_b", "scale_out", "sz", "sm", "sn", "ACTIVATION")}
constants |= {"ROW_WISE": False, "SATURATES": False, "BLOCK_M": 1, "BLOCK_N": 512, "alpha": 1, "beta": 1}
made = {}
for overlaps in (True, False):
    binary = compile_kernel(
        add_parts,
        {"parts": "*fp32", "out": "*fp32", **dict.fromkeys(names, "i32")},
        {**constants, "ACTIVATION": "", "OVERLAPS": overlaps},
        capability=90,
        options={"launch_pdl": overlaps},
    )
    made[str(overlaps)] = [binary.launch_pdl, "griddepcontrol.wait" in binary.asm["ptx"]]
print(json.dumps({"refused": refused, "made": made}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="triton has no wheel for this platform")
def test_kernels_are_compiled_with_their_wait_or_refused():
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", COMPILED], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert (
        "expected griddepcontrol.wait before all accesses to global memory, got ld.global" in found["refused"]
    )
    assert found["made"] == {"True": [True, True], "False": [False, False]}
