"""Parsers of disassemblies read small outputs of the tools correctly."""

import pytest

from triten.perf.ahead_of_time.disassembly import (
    count_instructions,
    operands_of,
    resources,
    tensor_memory_columns,
    threads_of,
)

SASS = """
	code for sm_90
.text.kernel:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/              @!P1 LDG.E R12, [R10.64+0x8] ;
        /*0030*/         @!UP0     LDG.E.U8.CONSTANT R12, [R10.64] ;
        /*0040*/                   LDGSTS.E.BYPASS.LTC128B.128 [R5], [R2.64] ;
        /*0050*/              @P0  LDGSTS.E.LTC128B [R5+0x10], [R2.64] ;
        /*0060*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24 ;
        /*0070*/                   HMMA.16816.F32.BF16 R8, R4, R2, R8 ;
        /*0080*/                   STL.64 [R1+0x8], R4 ;
        /*0090*/              @P3  LDL R9, [R1+0x10] ;
        /*00a0*/                   STG.E.64 desc[UR4][R2.64], R4 ;
        /*00b0*/                   STG.E.U16 desc[UR4][R2.64], R4 ;
        /*00c0*/                   BPT.TRAP 0x1 ;
        /*00d0*/                   EXIT ;
"""


def test_opcodes_and_widths_are_counted():
    found = count_instructions(SASS)
    assert found.widths == {"LDG": {128: 1, 32: 1, 8: 1}, "LDGSTS": {128: 1, 32: 1}, "STG": {64: 1, 16: 1}}
    assert found.matrix == {"HGMMA": 1, "HMMA": 1}
    assert found.spills == 2
    assert found.traps == 1


def test_a_kernel_of_nothing_has_nothing():
    found = count_instructions("        /*0000*/                   EXIT ;\n")
    assert (found.widths, found.matrix, found.spills, found.traps) == ({}, {}, 0, 0)


USAGE = """
Resource usage:
 Common:
  GLOBAL:35 CONSTANT[4]:16
 Function kernel:
  REG:186 STACK:48 SHARED:1024 LOCAL:0 CONSTANT[0]:416 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


def test_resources_are_those_of_the_function():
    assert resources(USAGE) == {"REG": 186, "STACK": 48, "SHARED": 1024, "LOCAL": 0}


def test_two_functions_or_none_are_refused():
    with pytest.raises(ValueError, match="expected one kernel, got 0"):
        resources("nothing")
    with pytest.raises(ValueError, match="expected one kernel, got 2"):
        resources(USAGE + USAGE)
    with pytest.raises(ValueError, match="no registers"):
        resources(" Function kernel:\n  STACK:48\n")


PTX = """
.visible .entry kernel(
	.param .u64 .ptr .global .align 16 kernel_param_0,
	.param .u64 .ptr .global .align 16 kernel_param_1,
	.param .u32 kernel_param_2,
	.param .u64 .ptr .global .align 16 kernel_param_3
)
.reqntid 256
{
	ld.param.b64 	%rd1, [kernel_param_0];
	ld.param.b64 	%rd2, [kernel_param_1];
	ld.param.b32 	%r1, [kernel_param_2];
	ld.param.u64 	%rd3, [kernel_param_3];
	mul.wide.s32 	%rd4, %r1, 4;
	add.s64 	%rd5, %rd1, %rd4;
	mov.b64 	%rd6, %rd2;
$L__BB0_1:
	@%p1 ld.global.v4.b32 { %r2, %r3, %r4, %r5 }, [ %rd5 + 0 ];
	@%p1 ld.global.nc.b32 { %r2 }, [ %rd5 + 16 ];
	cp.async.cg.shared.global [ %r10 + 0 ], [ %rd6 + 0 ], 0x10, %r11;
	cp.async.ca.shared.global [ %r10 + 0 ], [ %rd6 + 0 ], 0x4, %r11;
	add.s64 	%rd6, %rd6, 128;
	ld.global.b64 	%rd7, [%rd5+8];
	add.s64 	%rd8, %rd7, 8;
	@%p2 st.global.v2.b32 [ %rd9 + 0 ], { %r2, %r3 };
	st.global.b16 	[%rd12], %rs1;
	mov.b64 	%rd12, %rd11;
	add.s64 	%rd11, %rd9, 4;
	st.global.b8 	[%rd8], %rs1;
	selp.b64 	%rd9, %rd3, %rd10, %p1;
	st.shared.v4.b32 [ %r10 ], { %r2, %r3, %r4, %r5 };
	@%p1 bra 	$L__BB0_1;
	tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r29], 128;
	@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r30], 64;
}
"""


def test_accesses_belong_to_the_pointer_that_the_address_comes_from():
    found = operands_of(PTX, ["a", "b", None, "out"])
    assert found["a"].loads == {128: 1, 32: 1, 64: 1}
    assert found["a"].stores == {}
    assert found["b"].loads == {128: 1, 32: 1}, "the pointer is moved in the loop"
    assert found["out"].stores == {64: 1, 16: 1}, "an address is found where it is computed after its use"
    assert found["out"].loads == {}


def test_an_address_that_was_loaded_belongs_to_nobody():
    found = operands_of(PTX, ["a", "b", None, "out"])
    assert all(8 not in operand.stores for operand in found.values())


def test_threads_and_tensor_memory():
    assert threads_of(PTX) == 256
    assert tensor_memory_columns(PTX) == 192
    assert tensor_memory_columns("") == 0
    with pytest.raises(ValueError, match="reqntid"):
        threads_of("")


def test_functions_beside_the_kernel_have_registers_of_their_own():
    ptx = """
.func helper()
{
\tmov.b64 \t%rd9, %rd1;
}
.visible .entry kernel(
\t.param .u64 kernel_param_0,
\t.param .u64 kernel_param_1
)
{
\tld.param.b64 \t%rd1, [kernel_param_0];
\tld.param.b64 \t%rd2, [kernel_param_1];
\tadd.s64 \t%rd9, %rd2, 16;
\tst.global.v4.b32 [ %rd9 + 0 ], { %r6, %r7, %r8, %r9 };
\tret;
}
.func other()
{
\tadd.s64 \t%rd9, %rd1, 4;
}
"""
    found = operands_of(ptx, ["state", "out"])
    assert found["out"].stores == {128: 1}
    assert found["state"].stores == {}
