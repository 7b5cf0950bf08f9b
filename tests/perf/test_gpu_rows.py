"""Rows of the GPU benchmark beyond its first table: each is planned at full size, and programs run scaled down."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton has no wheel for this platform")

import triten as tt
from triten.perf.gpu.as_result import as_result_rows
from triten.perf.gpu.command import REHEARSAL_SCALE
from triten.perf.gpu.further_workloads import further_workloads
from triten.perf.gpu.llama_programs import LLAMA_8B, TINY, decode, llama_programs
from triten.perf.gpu.network_programs import (
    RESNET50_MULTIPLY_ADDS,
    STAGES,
    bottleneck_network,
    network_programs,
)
from triten.perf.gpu.optimizer_programs import gpt2_shapes, optimizer_programs
from triten.perf.gpu.peer import Pair, Peer
from triten.perf.gpu.program import Program, measure_program
from triten.perf.gpu.rows import COMPILED, OURS, OURS_COMPILED, PEER, Row, format_rows
from triten.perf.gpu.statements import statement_runner
from triten.perf.gpu.workloads import Operand, Workload, all_workloads

PROGRAMS = (network_programs, llama_programs, optimizer_programs)


def test_every_row_is_planned_at_full_size() -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    script = Path(__file__).with_name("plan_rows.py")
    run = subprocess.run([sys.executable, "-P", script], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert len(found) == len(further_workloads())
    errors = {name: error for name, error in found.items() if isinstance(error, str)}
    assert not errors
    assert found["backward: softmax 16384x4096 bfloat16"] == 1
    assert min(count for count in found.values() if not isinstance(count, str)) >= 1


@pytest.mark.parametrize("scale", [1, REHEARSAL_SCALE])
def test_rows_have_keys_of_their_own_and_a_limit(scale: int) -> None:
    workloads = [*all_workloads(scale), *further_workloads(scale)] if scale == 1 else further_workloads(scale)
    programs = [program for family in PROGRAMS for program in family(scale)]
    rows = [Row(each.group, each.name) for each in (*workloads, *programs)]
    if scale == 1:
        assert len({row.key for row in as_result_rows(rows)}) == len(rows)
        limited = [each for each in (*further_workloads(), *programs) if each.nbytes or each.flops]
        assert len(limited) == len(further_workloads()) + len(programs)


def test_limits_are_counts_of_bytes_and_operations() -> None:
    rows = {workload.name: workload for workload in further_workloads()}
    assert rows["softmax 16384x4096 bfloat16"].nbytes == 3 * 2 * 16384 * 4096
    assert rows["relu((a + b) * c) 67108864 float32"].nbytes == 4 * 4 * 67108864
    assert rows["sort 16777216 float32"].nbytes == 16 * 16777216
    assert sum(map(len, (LLAMA_8B.shapes(), gpt2_shapes()))) == 291 + 148
    counts = [sum(tt.empty(shape, device="meta").numel() for shape in shapes)
              for shapes in (LLAMA_8B.shapes(), gpt2_shapes())]  # fmt: skip
    assert counts == [8_030_261_248, 124_475_904]
    batch1, batch8, _ = llama_programs(1)
    caches = (batch8.nbytes - batch1.nbytes) // 7
    assert caches == 2 * 2 * 32 * 8 * 128 * 2048
    assert batch1.nbytes == 2 * (8_030_261_248 - 128_256 * 4096) + caches


def test_the_bottleneck_network_is_resnet50() -> None:
    network = bottleneck_network(64, STAGES, 1000, tt).to("meta")
    assert sum(parameter.numel() for parameter in network.parameters()) == 25_557_032
    macs: list[int] = []

    def count(module: tt.nn.Module, _: object, result: tt.Tensor) -> None:
        macs.append(result.numel() * module.weight.numel() // module.weight.shape[0])

    for module in network.modules():
        if isinstance(module, (tt.nn.Conv2d, tt.nn.Linear)):
            module.register_forward_hook(count)
    network(tt.empty(1, 3, 224, 224, device="meta"))
    assert sum(macs) == pytest.approx(RESNET50_MULTIPLY_ADDS, rel=1e-3)


def test_a_setup_runs_once_for_each_set_and_the_peer_has_its_own_statement() -> None:
    workload = Workload(
        "g", "n", "b + a", {"a": Operand((2,), "float32")}, setup="b = a * 2", peer_statement="b - a"
    )
    sets = [{"a": Pair(tt.full((2,), value), tt.full((2,), value))} for value in (1.0, 5.0)]
    ours, theirs = statement_runner(workload, tt, sets, 0), statement_runner(workload, tt, sets, 1)
    assert [ours(1).tolist(), theirs(1).tolist(), ours(0).tolist()] == [[15.0] * 2, [5.0] * 2, [3.0] * 2]


def test_a_decoded_token_is_the_last_of_the_prefill() -> None:
    """Decode reads its cache: another cache gives other logits, and a replay gives the same ones."""
    step = decode(TINY, 1, 4, tt, "cuda", False)
    model, tokens, position, logits = step.kept
    step()
    first = logits.cpu()
    assert tt.isfinite(first).all() and first.shape == (1, 1, TINY.vocabulary)
    step()
    assert tt.equal(logits.cpu(), first)
    model.caches[0][1].add_(1.0)
    step()
    assert not tt.equal(logits.cpu(), first)
    assert tt.equal(model(tokens, position).cpu(), logits.cpu())


def program(build, **options) -> Row:
    peer = Peer(enabled=False, rehearsal=True)
    made = Program("g", "n", build, **options)
    return measure_program(made, peer, rounds=3, seconds=0.0, count=1, compiled=True)


def test_a_program_has_first_times_peak_memory_and_its_result() -> None:
    def build(library, device, compiled):
        x = library.ones(1 << 10, device=device)
        return lambda: (x + 1).sum() * 0 + (2.0 if compiled else 1.0)

    row = program(build, can_compile=True)
    assert row.note == "" and row.times.keys() == {OURS, OURS_COMPILED}
    assert len(row.times[OURS]) == 3
    assert row.facts["triten: result after 3 steps"] == 1.0
    assert row.facts["compiled: result after 3 steps"] == 2.0
    assert row.facts["triten: peak memory, MB"] >= 2 * 4096 / 1e6
    assert {"triten: first step, ms", "triten: second step, ms"} <= row.facts.keys()
    assert "triten: first step, ms" in format_rows([row])
    assert program(build, is_alone=True).times.keys() == {OURS}


def test_a_program_that_fails_says_why() -> None:
    def build(library, device, compiled):
        if not compiled:
            raise RuntimeError("no such kernel")
        return lambda: tt.tensor(float("nan"))

    row = program(build, can_compile=True)
    assert row.note == "FAILED: RuntimeError: no such kernel"
    assert row.absent[OURS_COMPILED] == "ValueError: the step's result is nan"
    assert PEER not in row.absent and COMPILED not in row.absent
    assert "no time of triten: RuntimeError: no such kernel" in format_rows([row])
