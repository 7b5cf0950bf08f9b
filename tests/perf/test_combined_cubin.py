"""Cubins that are disassembled together give the same code as separately."""

import base64
import subprocess
import sys
from pathlib import Path

import pytest

from triten.perf.ahead_of_time import disassembly
from triten.perf.ahead_of_time.combined_cubin import FILE, codes, combine, target_of
from triten.perf.ahead_of_time.compilation import tools, with_code
from triten.perf.ahead_of_time.disassembly import (
    count_instructions,
    disassemble_code,
    disassemble_together,
)
from triten.perf.ahead_of_time.schedule import schedule_of

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

PTX = """
.version 8.0
.target sm_{target}
.address_size 64
.func (.reg .f32 %out) outside(.reg .f32 %in)
{{
    .reg .f32 %f<2>;
    div.rn.f32 %f0, %in, %in;
    add.f32 %out, %f0, %in;
    ret;
}}
.visible .entry {name}(.param .u64 pointer, .param .u32 count)
.reqntid 128
{{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .f32 %f<6>;
    .reg .b64 %d<4>;
    ld.param.u64 %d0, [pointer];
    ld.param.u32 %r0, [count];
    cvta.to.global.u64 %d1, %d0;
again:
    ld.global.v{lanes}.f32 {{{values}}}, [%d1];
    {sum}
    call (%f5), outside, (%f0);
    st.global.f32 [%d1], %f5;
    add.s64 %d1, %d1, 16;
    sub.s32 %r0, %r0, 1;
    setp.ne.s32 %p0, %r0, 0;
    @%p0 bra again;
    ret;
}}
"""
KERNELS = (("one", 90, 4), ("two", 80, 2), ("three", 90, 2), ("one", 90, 2))


@pytest.fixture(scope="module")
def cubins(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder, found = tmp_path_factory.mktemp("cubins"), []
    for i, (name, target, lanes) in enumerate(KERNELS):
        source, made = folder / f"{i}.ptx", folder / f"{i}.cubin"
        values = ", ".join(f"%f{lane}" for lane in range(lanes))
        total = " ".join(f"add.f32 %f0, %f0, %f{lane};" for lane in range(1, lanes))
        source.write_text(PTX.format(name=name, target=target, lanes=lanes, values=values, sum=total))
        command = [str(tools() / "ptxas"), f"--gpu-name=sm_{target}", str(source), "-o", str(made)]
        subprocess.run(command, check=True)
        found.append(made.read_bytes())
    return found


def test_code_is_what_it_is_alone(cubins: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def counted(cubin: bytes, folder: Path) -> str:
        runs.append(target_of(cubin))
        return disassemble_code(cubin, folder)

    monkeypatch.setattr(disassembly, "disassemble_code", counted)
    together = disassemble_together(cubins, tools())
    assert runs == [target_of(cubins[0]), target_of(cubins[1])]
    for kernel, cubin, sass in zip(KERNELS, cubins, together, strict=True):
        alone = disassemble_code(cubin, tools())
        assert count_instructions(sass) == count_instructions(alone), kernel
        assert schedule_of(sass) == schedule_of(alone), kernel
        assert count_instructions(sass).widths["LDG"] == {32 * kernel[2]: 1}
        assert "CALL" in count_instructions(sass).opcodes and schedule_of(sass).is_loop


def test_positions_are_those_of_the_cubins(cubins: list[bytes]) -> None:
    text = disassemble_code(combine([cubins[3], cubins[2], cubins[0]]), tools())
    found = {position: count_instructions(code).widths["LDG"] for position, code in codes(text)}
    assert found == {0: {64: 1}, 1: {64: 1}, 2: {128: 1}}


def test_what_the_disassembler_refuses_is_an_error_of_its_own(cubins: list[bytes]) -> None:
    strange = bytearray(cubins[0])
    file = list(FILE.unpack_from(strange))
    file[7] = 0xFFFF  # flags that name no target
    FILE.pack_into(strange, 0, *file)
    answers = [
        {
            "found": {"threads": 128, "tensor_memory_operations": 0},
            "cubin": base64.b64encode(cubin).decode(),
        }
        for cubin in (cubins[0], bytes(strange), cubins[1])
    ]
    right, wrong, also = with_code(answers)
    assert wrong.keys() == {"error"} and wrong["error"].startswith("the disassembler failed: ")
    assert (right["widths"]["LDG"], also["widths"]["LDG"]) == ({"128": 1}, {"64": 1})
    assert right["spills"] == 0 and right["matrix"] == {} and right["schedule"]["is_loop"]
