"""A kernel's parameters in PTX match those that a launch packs; injected mismatches are detected."""

import itertools
import json
import subprocess
import sys

import pytest

from triten.perf.ahead_of_time.compilation import compiling_environment
from triten.perf.ahead_of_time.parameters import Parameter, layout_faults, passed, taken
from triten.runtime.cuda.triton.compile import ParameterLayout

HEADER = ".visible .entry kernel(\n"
ENDING = "\n)\n.reqntid 128\n{\n ld.param.b64 %rd1, [kernel_param_0];\n ret;\n}\n"
TYPES = ("*fp32", "i8", "fp64", "i32")
PLAIN = (
    "\t.param .u64 .ptr .global .align 16 kernel_param_0",
    "\t.param .u8 kernel_param_1",
    "\t.param .f64 kernel_param_2",
    "\t.param .u32 kernel_param_3",
    "\t.param .u64 .ptr .global .align 1 kernel_param_4",
    "\t.param .u64 .ptr .global .align 1 kernel_param_5",
)
MAP = ("tensordesc<bf16[64, 64]>", "*fp32")
DESCRIBED = (
    "\t.param .align 64 .b8 kernel_param_0[128]",
    "\t.param .u32 kernel_param_1",
    "\t.param .u32 kernel_param_2",
    "\t.param .u64 kernel_param_3",
    "\t.param .u64 kernel_param_4",
    "\t.param .u64 .ptr .global .align 1 kernel_param_5",
    "\t.param .u64 .ptr .global .align 1 kernel_param_6",
    "\t.param .u64 .ptr .global .align 1 kernel_param_7",
)


def ptx(lines):
    return HEADER + ",\n".join(lines) + ENDING


@pytest.mark.parametrize(("types", "lines"), [(TYPES, PLAIN), (MAP, DESCRIBED)])
def test_what_a_launch_packs_is_what_the_kernel_takes(types, lines):
    assert layout_faults(ptx(lines), types) == []
    assert layout_faults(ptx(lines[:-2]), types) == [], "without scratch pointers"


def test_without_tensor_maps_the_buffer_of_a_launch_is_the_kernels_own_layout():
    assert [parameter.offset for parameter in taken(ptx(PLAIN))] == list(ParameterLayout(TYPES).offsets)


def test_places_of_maps_are_aligned_and_nothing_overlaps():
    types = ("i8", "tensordesc<bf16[64]>", "fp64", "tensordesc<fp16[4, 64, 64]>", "i32")
    ordered = sorted(passed(types))
    assert all(parameter.offset % parameter.alignment == 0 for parameter in ordered)
    assert all(one.offset + one.size <= other.offset for one, other in itertools.pairwise(ordered))


@pytest.mark.parametrize(
    ("types", "lines", "position", "instead", "fault"),
    [
        (TYPES, PLAIN, 1, "\t.param .u16 kernel_param_1", "parameter 1 is 2 bytes at 8, aligned to 2, where"),
        (
            TYPES,
            PLAIN,
            2,
            "\t.param .f32 kernel_param_2",
            "parameter 2 is 4 bytes at 12, aligned to 4, where",
        ),
        (TYPES, PLAIN, 5, None, "parameter 5 is absent, where a launch gives 8 bytes at 40, aligned to 8"),
        (
            MAP,
            DESCRIBED,
            0,
            "\t.param .align 128 .b8 kernel_param_0[128]",
            "parameter 0 is 128 bytes at 0, aligned to 128, where a launch gives 128 bytes at 0, aligned to 64",
        ),
        (MAP, DESCRIBED, 0, "\t.param .align 64 .b8 kernel_param_0[192]", "parameter 0 is 192 bytes at 0"),
        (MAP, DESCRIBED, 3, "\t.param .u32 kernel_param_3", "parameter 3 is 4 bytes at 136, aligned to 4"),
    ],
)
def test_a_planted_mismatch_is_told(types, lines, position, instead, fault):
    planted = [*lines[:position], *([] if instead is None else [instead]), *lines[position + 1 :]]
    assert any(found.startswith(fault) for found in layout_faults(ptx(planted), types))


def test_a_parameter_too_many_is_told():
    planted = (*PLAIN, "\t.param .u64 kernel_param_6")
    assert layout_faults(ptx(planted), TYPES) == [
        "parameter 6 is 8 bytes at 48, aligned to 8, where a launch gives nothing"
    ]


PROGRAM = """
import json, sys
import triton, triton.language as tl
from triten.perf.ahead_of_time.parameters import layout_faults, taken
from triten.runtime.cuda.triton.compile import compile_kernel

@triton.jit
def described(x, out, n, scale, BLOCK: tl.constexpr):
    tile = x.load([tl.program_id(0) * BLOCK, 0])
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.sum(tile.to(tl.float32), 1) * scale, mask=i < n)

signature = {"x": "tensordesc<bf16[64, 64]>", "out": "*fp32", "n": "i64", "scale": "bf16"}
for capability in map(int, sys.argv[1:]):
    binary = compile_kernel(described, signature, {"BLOCK": 64}, capability=capability)
    types = binary.parameter_types
    other = tuple("i32" if type_ == "i64" else type_ for type_ in types)
    ptx = binary.asm["ptx"]
    print(json.dumps([taken(ptx)[0], layout_faults(ptx, types), len(layout_faults(ptx, other))]))
"""


def test_a_tensor_map_by_value_as_it_is_compiled(tmp_path):
    program = tmp_path / "described.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-P", str(program), "90", "100", "120"],
        env=compiling_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        first, faults, planted = json.loads(line)
        assert first == list(Parameter(0, 128, 64))
        assert faults == []
        assert planted == 1
    assert len(done.stdout.splitlines()) == 3
