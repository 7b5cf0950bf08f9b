"""Functions of CUDA's device runtime: formatted output and assertions."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from triten.runtime.cuda.emulator.basic_blocks import UntranslatableError
from triten.runtime.cuda.emulator.fault import EmulationError
from triten.runtime.cuda.emulator.machine import Launch, Program
from triten.runtime.cuda.emulator.ptx import parse

HEAD = """.version 8.8
.target sm_80
.address_size 64
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 vprintf_param_0, .param .b64 vprintf_param_1);
.extern .func __assertfail (.param .b64 a0, .param .b64 a1, .param .b32 a2, .param .b64 a3, .param .b64 a4) .noreturn;
.extern .func absent (.param .b64 absent_param_0);
.visible .entry kernel(.param .u64 kernel_param_0, .param .u64 kernel_param_1)
{
    .local .align 8 .b8 depot[32];
    .reg .b32 %SPL;
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %d<16>;
    ld.param.b64 %d0, [kernel_param_0];
    ld.param.b64 %d1, [kernel_param_1];
    mov.b32 %SPL, depot;
    cvt.u64.u32 %d2, %SPL;
    cvta.local.u64 %d3, %d2;
    mov.u32 %r0, %tid.x;
"""
PRINT = """
    { .param .b64 param0; .param .b64 param1; .param .b32 retval0;
    st.param.b64 [param0], %d0; st.param.b64 [param1], %d3;
    call.uni (retval0), vprintf, (param0, param1);
    ld.param.b32 %r9, [retval0]; }
"""


def run(machine: Any, body: str, *texts: str) -> int:
    """Run a body whose first arguments are the addresses of texts, the last one that of a word; return the word."""
    places = [machine.put(np.frombuffer(text.encode() + b"\0", np.uint8)) for text in texts]
    word = machine.put(np.zeros(1, np.uint32))
    program = Program(parse(f"{HEAD}{body}\nret;\n}}\n"), "kernel", {})
    packed = struct.pack("2Q", *[*places, word][:2])
    Launch(program, (1, 1, 1), 32, 0, packed, machine.memory, machine.host).run()
    return int(machine.get(word, 1, np.uint32)[0])


@pytest.mark.parametrize(
    ("text", "stores", "expected"),
    [
        ("%u of 100%%\n", ["b32 [%SPL], %r0"], "{i} of 100%\n"),
        ("%i|%3d|%d\n", ["v2.b32 [%SPL], {%r0, %r1}", "b32 [%SPL+8], %r0"], "{i}| -1|{i}\n"),
        ("%u %lli %x\n", ["b32 [%SPL], %r0", "b64 [%SPL+8], %d5", "b32 [%SPL+16], %r1"], "{i} -2 ffffffff\n"),
        (
            "%f, %.2e, %g\n",
            ["b64 [%SPL], %d6", "b64 [%SPL+8], %d6", "b64 [%SPL+16], %d7"],
            "1.500000, 1.50e+00, inf\n",
        ),
        ("%p 0x%08llx\n", ["b64 [%SPL], %d8", "b64 [%SPL+8], %d8"], "0xff 0x000000ff\n"),
        ("no argument\n", [], "no argument\n"),
    ],
)
def test_each_thread_prints(
    machine: Any, capsys: pytest.CaptureFixture[str], text: str, stores: list[str], expected: str
) -> None:
    constants = (
        "mov.b32 %r1, -1; mov.b64 %d5, -2; mov.b64 %d6, 0d3FF8000000000000; mov.b64 %d7, 0d7FF0000000000000;"
        "mov.b64 %d8, 255; setp.lt.u32 %p1, %r0, 3; @!%p1 bra $over;"
    )
    written = "".join(f"st.local.{store};" for store in stores)
    body = f"{constants} {written} {PRINT} st.global.b32 [%d1], %r9; $over:"
    assert run(machine, body, text) == text.replace("%%", "").count("%")
    assert capsys.readouterr().out == "".join(expected.format(i=i) for i in range(3))


def test_an_assertion_names_its_place(machine: Any) -> None:
    body = """
        setp.ne.u32 %p1, %r0, 7; @%p1 bra $over;
        { .param .b64 param0; .param .b64 param1; .param .b32 param2; .param .b64 param3; .param .b64 param4;
        st.param.b64 [param0], %d0; st.param.b64 [param1], %d1; st.param.b32 [param2], 12;
        st.param.b64 [param3], %d0; st.param.b64 [param4], 1;
        call.uni __assertfail, (param0, param1, param2, param3, param4); }
        $over:
    """
    with pytest.raises(
        EmulationError, match=r"assert triggered: file\.py:12: text: Assertion `text` failed.* thread 7"
    ):
        run(machine, body, "text", "file.py")


def test_a_function_without_a_body_is_named(machine: Any) -> None:
    body = "{ .param .b64 param0; st.param.b64 [param0], %d0; call.uni absent, (param0); }"
    with pytest.raises(UntranslatableError, match=r"'call\.uni' is not emulated .*the function 'absent'"):
        run(machine, body, "")
