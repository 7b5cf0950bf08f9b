"""Declarations of kernels are complete, and possible on every target."""

from dataclasses import replace

import pytest

import triten as tt
from triten.dispatch.structured.kernel_packages import KernelPackage
from triten.perf.ahead_of_time.coverage import Launched, element_bits, expectation, kernels_in, kernels_of
from triten.perf.ahead_of_time.request import Request
from triten.perf.ahead_of_time.samples import kernel_files
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.occupancy import TARGETS, register_budget, shared_budget
from triten.triton_kernels import launch
from triten.triton_kernels.budget import DECLARATIONS, Configuration, declare, register_limit
from triten.triton_kernels.products.matmul import matmul
from triten.triton_kernels.tuning.choice import make_plans_anew

KernelPackage("triten.triton_kernels", "cuda").load()
OURS = {name: one for name, one in DECLARATIONS.items() if name.startswith("triten.")}


def test_every_kernel_is_declared_and_nothing_else():
    assert set(kernels_in(kernel_files())) == set(OURS)
    assert len(OURS) > 40


def test_a_kernel_is_a_compiled_function_that_returns_nothing():
    source = """
@triton.jit
def element(x):
    return x
@triton.jit(do_not_specialize=["n"])
def kernel(x, n):
    def inner(): pass
    if n: return
    tl.store(x, element(n))
def plain(x): pass
@tl.core.builtin
def builtin(x): pass
"""
    assert kernels_of(source) == ["kernel"]


@pytest.mark.parametrize("name", OURS)
def test_a_declaration_is_possible_on_every_target_and_says_why(name):
    declared = OURS[name]
    parameters = declared.kernel.arg_names
    assert declared.operand in parameters
    assert set(declared.tile) <= set(parameters)
    assert {*declared.loads, *declared.stores} <= set(parameters)
    assert min(map(len, (declared.why, declared.operations, declared.traffic))) > 2
    assert len(declared.why) > 30, "a reason is more than a number"
    assert {*declared.tensor_cores, *declared.exact} <= set(declared.configurations)
    assert not set(declared.tensor_cores) & set(declared.exact)
    for configurations in declared.configurations.values():
        assert configurations
        for one in configurations:
            assert len(one.tile) == len(declared.tile)
            for target in TARGETS.values():
                if not one.is_for(target.capability):
                    continue
                blocks = declared.blocks(one, target.capability)
                assert register_budget(target, blocks, one.warps) >= 32
                assert shared_budget(target, blocks) > 0


def test_occupancy_follows_from_warps_or_from_blocks():
    declared = DECLARATIONS["triten.triton_kernels.products.matmul:matmul"]
    large, _, small, *_ = declared.configurations["bf16"]
    assert [declared.blocks(large, capability) for capability in (90, 100)] == [1, 1]
    assert declared.blocks(small, 90) == 2
    assert declared.blocks(Configuration((64, 64, 64), 8), 90) == declared.warps // 8
    unlike = Configuration((64, 64, 64), 8, blocks=2, unaligned=1)
    assert declared.blocks(unlike, 90, aligned=False) == 1, "an occupancy of its own"
    assert declared.blocks(small, 90, aligned=False) == 2, "the same"


def test_a_card_may_take_what_the_design_that_it_is_like_does_not():
    declared = DECLARATIONS["triten.triton_kernels.products.matmul:matmul"]
    (narrow,) = declared.configurations["fp8e4nv"]
    asked = (75, 80, 86, 89, 90, 100, 103, 120)
    assert [narrow.is_for(one) for one in asked] == [False] * 3 + [True] * 5
    assert [declared.blocks(narrow, one) for one in (89, 90, 103, 120)] == [2] * 4
    assert declared.covering("fp8e4nv", narrow, 89) is narrow
    assert declared.covering("fp8e4nv", narrow, 86) is None
    own = Configuration((64, 64, 64), blocks={80: 3, 120: 1, 90: 2})
    assert [declared.blocks(own, one) for one in (80, 89, 120, 90)] == [3, 3, 1, 2]
    assert not own.is_for(100)


def test_a_function_may_have_an_occupancy_of_its_own():
    dense = DECLARATIONS["triten.triton_kernels.elementwise.elementwise:dense"]
    (whole, *_) = dense.configurations["i32"]
    assert (dense.blocks(whole, 90), dense.blocks(whole, 90, functions=["add"])) == (8, 8)
    assert dense.blocks(whole, 90, functions=["pow"]) == 6


def test_local_memory_may_be_justified_by_a_flag_of_the_kernel():
    name = "triten.triton_kernels.attention.backward_warp_specialized_kernels:attention_backward_keys_warp_specialized"
    declared = DECLARATIONS[name]
    launched = Launched(declared, "bf16", declared.configurations["bf16"][1], True)

    def justified(causal):
        request = Request(name, 90, {}, {"CAUSAL": causal, "BLOCK_M": 1}, [], {}, "0" * 64)
        return expectation(launched, TARGETS[90], request, wide=False).local

    assert (justified(True), justified(False)) == (declared.local["CAUSAL"][0], 0)


def test_a_launch_is_covered_by_its_configuration_or_by_a_larger_one():
    declared = DECLARATIONS["triten.triton_kernels.products.matmul:matmul"]
    large, _, small, *_ = declared.configurations["bf16"]
    assert declared.covering("bf16", Configuration((128, 128, 64), 8, 3), 90) is large
    assert declared.covering("bf16", Configuration((16, 128, 64), 8, 3), 90) is large
    assert declared.covering("bf16", Configuration((16, 16, 16), 4, 3), 90) is small
    assert declared.covering("bf16", Configuration((128, 128, 64), 4, 3), 90) is None, (
        "too large for four warps"
    )
    assert declared.covering("bf16", Configuration((128, 128, 64), 8, 4), 90) is None, "other stages"
    assert declared.covering("bf16", Configuration((128, 128, 64), 8, 3), 80) is None, "not of this target"
    assert declared.covering("i1", Configuration((16, 16, 16), 4, 3), 90) is None, "no dtype of its"
    dense = DECLARATIONS["triten.triton_kernels.elementwise.elementwise:dense"]
    assert dense.covering("fp64", Configuration((512,)), 90) is not None
    assert dense.covering("fp64", Configuration((128,)), 90) is None, "no smaller tiles"


def test_a_configuration_may_take_all_registers_on_some_devices_alone():
    declared = DECLARATIONS["triten.triton_kernels.products.matmul:matmul"]
    large, small = declared.configurations["fp64"]

    def limits(one):
        constants = dict(zip(declared.tile, one.tile, strict=True))
        asked = {"a": "*fp64"}, constants, {"a", "b", "out"}, one.warps, one.stages
        return [register_limit(declared.kernel, *asked, capability) for capability in (80, 89, 90)]

    assert limits(large) == [None, register_budget(TARGETS[80], 2, large.warps), None]
    assert limits(small) == [None] * 3


def test_a_configuration_may_take_all_registers_that_its_occupancy_leaves():
    extreme = DECLARATIONS["triten.triton_kernels.reduction.extreme_index_kernels:extreme_with_index"]
    rows, *_ = extreme.configurations["fp32"]
    signature = {"x": "*fp32"}
    constants = dict(zip(extreme.tile, rows.tile, strict=True))
    asked = signature, constants, {"x"}, rows.warps, rows.stages
    assert rows.all_registers and extreme.blocks(rows, 90) == 3
    assert register_limit(extreme.kernel, *asked, 90) == register_budget(TARGETS[90], 3, rows.warps) == 80
    assert (
        register_limit(extreme.kernel, *asked, 86) == register_limit(extreme.kernel, *asked, 80) is not None
    )
    other = signature, constants, {"x"}, rows.warps * 2, rows.stages
    assert register_limit(extreme.kernel, *other, 90) is None, "tiles of the interpreter are not declared"
    plain = DECLARATIONS["triten.triton_kernels.products.matvec:matvec"]
    (one, *_) = plain.configurations["fp32"]
    tile = dict(zip(plain.tile, one.tile, strict=True))
    assert not one.all_registers
    assert register_limit(plain.kernel, {plain.operand: "*fp32"}, tile, (), one.warps, one.stages, 90) is None


def test_the_limit_reaches_the_compiler(monkeypatch):
    seen = []
    device = driver()
    compiled = type(device).compile
    monkeypatch.setattr(
        type(device), "compile", lambda self, *a, **k: seen.append(k["maxnreg"]) or compiled(self, *a, **k)
    )
    monkeypatch.setattr(launch, "register_limit", lambda *asked: 80)
    x = tt.arange(6, device="cuda", dtype=tt.float32)
    assert (x * 7.5).max().item() == 37.5
    make_plans_anew()
    assert (x * 7.5).max().item() == 37.5
    assert 80 in seen


def test_a_second_declaration_is_refused():
    with pytest.raises(ValueError, match="is declared already"):
        declare(matmul, why="", dtypes=("fp32",), operations="", traffic="")


def test_a_dtype_in_two_groups_is_refused():
    def fresh(x, out): ...

    class Kernel:
        fn = fresh

    groups = {("fp32", "fp64"): (Configuration(),), ("fp64",): (Configuration(),)}
    with pytest.raises(ValueError, match="dtype fp64 is declared twice"):
        declare(Kernel, why="", dtypes=groups, operations="", traffic="")
    assert not any("fresh" in name for name in DECLARATIONS)


@pytest.mark.parametrize(
    ("pointer", "bits"), [("*fp32", 32), ("*bf16", 16), ("*i1", 8), ("*u8", 8), ("*fp8e5", 8), ("*i64", 64)]
)
def test_elements_take_their_bits(pointer, bits):
    assert element_bits(pointer) == bits


@pytest.fixture
def old_device(monkeypatch):
    cuda = driver()
    old = replace(cuda.properties(0), major=8, minor=0)
    monkeypatch.setattr(cuda, "properties", lambda device: old)


def test_a_dtype_that_the_device_is_too_old_for_is_refused_and_the_runtime_works_on(old_device):
    x = tt.ones(37, device="cuda")
    message = (
        r"not implemented for 'Float8_e4m3fn' on cuda:0: expected compute capability 8.9 or later, got 8.0"
    )
    with pytest.raises(NotImplementedError, match=message):
        x.to(tt.float8_e4m3fn)
    assert x.to(tt.float8_e5m2).to(tt.float32).sum().item() == 37
    assert x.to(tt.float16).sum().item() == 37
