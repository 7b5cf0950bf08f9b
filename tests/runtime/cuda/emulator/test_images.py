"""Contents of a cubin: the properties of its kernels, and its PTX."""

import re
import subprocess
from pathlib import Path

import pytest
import triton

from triten.runtime.cuda.emulator.driver import AMPERE, HOPPER
from triten.runtime.cuda.emulator.images import ImageError, check_resources, code_sizes, most_threads, ptx_of
from triten.runtime.cuda.emulator.ptx import parse
from triten.runtime.cuda.machine_code import LaunchShape

ASSEMBLER = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
COUNT = 100
LINES = [
    *(f"ld.volatile.global.f32 %f{i}, [%d3+{4 * i}];" for i in range(COUNT)),
    *(f"st.volatile.global.f32 [%d3+{4 * i}], %f{COUNT - 1 - i};" for i in range(COUNT)),
]
TEXT = f""".version 8.7
.target sm_CAPABILITY
.address_size 64
.visible .entry wide(.param .u64 wide_param_0)
{{
.reg .b64 %d<4>; .reg .f32 %f<{COUNT}>;
ld.param.u64 %d3, [wide_param_0];
{chr(10).join(LINES)}
ret;
}}
.visible .entry other(.param .u64 other_param_0)
{{
ret;
}}
"""


def assembled(folder: Path, capability: int, *options: str) -> tuple[bytes, dict[str, int]]:
    """Assemble `TEXT`, and return the cubin and the registers of each kernel as the assembler prints them."""
    source, target = folder / "wide.ptx", folder / "wide.cubin"
    source.write_text(TEXT.replace("CAPABILITY", str(capability)))
    command = [str(ASSEMBLER), f"-arch=sm_{capability}", "-v", *options, "-o", str(target), str(source)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    names, used = re.findall(r"entry function '(\w+)'", told), re.findall(r"Used (\d+) registers", told)
    return target.read_bytes(), {name: int(count) for name, count in zip(names, used, strict=True)}


@pytest.mark.parametrize("capability", [80, 90])
def test_registers_are_those_that_the_assembler_tells(tmp_path, capability):
    cubin, told = assembled(tmp_path, capability)
    assert told["wide"] > 96 > told["other"]
    assert {name: code_sizes(cubin, name)[0] for name in told} == told
    with pytest.raises(ValueError, match="kernel 'absent' is not in the cubin"):
        code_sizes(cubin, "absent")


def test_a_frame_in_local_memory_is_told(tmp_path):
    cubin, told = assembled(tmp_path, 90, "-maxrregcount=32")
    registers, frame = code_sizes(cubin, "wide")
    assert registers == told["wide"] <= 32 and frame >= 4 * (COUNT - 32)


@pytest.mark.parametrize("capability", [80, 90])
def test_more_threads_than_the_registers_allow_are_refused(tmp_path, capability):
    cubin, told = assembled(tmp_path, capability)
    most = most_threads(told["wide"])
    module = parse(TEXT.replace("CAPABILITY", str(capability)))
    check_resources("wide", module, cubin, LaunchShape(most), HOPPER)
    with pytest.raises(RuntimeError, match=f"wants {most + 32} threads .* allow {most}: take fewer warps"):
        check_resources("wide", module, cubin, LaunchShape(most + 32), HOPPER)
    check_resources("wide", module, cubin, LaunchShape(most, 0, 2), HOPPER)
    with pytest.raises(RuntimeError, match=r"wants clusters of 2 blocks, .* has no clusters"):
        check_resources("wide", module, cubin, LaunchShape(most, 0, 2), AMPERE)
    module.kernel("wide").cluster = 4
    with pytest.raises(RuntimeError, match="compiled for clusters of 4 blocks, not of 2"):
        check_resources("wide", module, cubin, LaunchShape(most, 0, 2), HOPPER)


def test_ptx_of_a_cubin_is_what_it_was_made_from(tmp_path):
    cubin, _ = assembled(tmp_path, 80, "-lineinfo")
    found = parse(ptx_of(cubin))
    assert set(found.functions) == {"wide", "other"}
    assert len(found.kernel("wide").instructions) == 2 * COUNT + 2
    with pytest.raises(ImageError, match="no PTX to execute"):
        ptx_of(assembled(tmp_path, 80)[0])
