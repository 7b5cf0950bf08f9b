"""The timing command: rows and targets, and a rehearsal in Triton's interpreter."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("triton", reason="triton has no wheel for this platform")

import triten as tt
from triten.perf.gpu.as_result import as_result_rows, limits_of
from triten.perf.gpu.command import REHEARSAL_SCALE, Bench, copied_bytes, numbered
from triten.perf.gpu.host_time import Intercepted
from triten.perf.gpu.peer import Peer
from triten.perf.gpu.rows import CUDNN, EAGER, OURS, PEER, Row, counted, format_rows, group_means
from triten.perf.gpu.targets import MEANS
from triten.perf.gpu.timing import DeviceClock
from triten.perf.gpu.training_step import work_of_step
from triten.perf.gpu.work import work_of
from triten.perf.gpu.workloads import FEW_ROWS, LANGUAGE_MODEL, RESNET50, Operand, Workload, all_workloads
from triten.perf.report.data import report_data
from triten.perf.suite.compare import compare_results
from triten.perf.suite.results import Bar, Limits, Result, read_results
from triten.runtime.cuda.driver import driver
from triten.triton_kernels.tuning.flush import FLUSHES

GROUPS = {
    "matmul, cubes", "matmul, tf32", "matmul, language models", "matmul, at most 64 rows", "elementwise and copies",
    "reductions", "softmax", "norms", "conv2d, ResNet-50", "attention",
    "conv2d gradients, ResNet-50",
}  # fmt: skip
WITHOUT_A_TARGET = {
    "matmul, 8 bits", "attention, backward", "attention, grouped heads", "attention, decoding", "attention, sequences",
}  # fmt: skip


def bench(*arguments: str, cuda: str | None = "interpret", cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    if cuda is not None:
        environment["TRITEN_CUDA"] = cuda
    command = [sys.executable, "-P", "-m", "triten.perf", "gpu", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd)


@pytest.mark.parametrize(
    ("name", "times", "verdict"),
    [
        ("a + b, 16 elements", {OURS: [5.0] * 3, PEER: [5.0, 5.0, 4.0]}, "aim met"),
        ("a + b, 16 elements", {OURS: [6.5], PEER: [5.0]}, "met"),
        ("a + b, 16 elements", {OURS: [7.5], PEER: [5.0]}, "MISSED: PyTorch's time over ours"),
        ("a + b, 16 elements", {OURS: [7.5]}, "no PyTorch's time over ours"),
        ("digits step, captured", {OURS: [1.0], EAGER: [3.1]}, "aim met"),
        ("digits step, captured", {OURS: [1.0], EAGER: [2.9]}, "MISSED: eager's time over ours"),
        ("malloc + free of a cached size", {OURS: [0.9, 0.95, 1.4]}, "aim met"),
        ("something else", {OURS: [1.0], PEER: [1.0]}, "no target set"),
    ],
)
def test_a_verdict_follows_from_the_medians(name: str, times: dict[str, list[float]], verdict: str) -> None:
    row = Row("host time", name, times=times)
    assert row.verdict == verdict
    assert row.as_json()["verdict"] == verdict
    assert row.as_json()["times"] == times


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        (1000.0, 1300.0, "aim met"),
        (1111.0, 1300.0, "met"),
        (1000.0, 900.0, "MISSED: PyTorch's time over ours"),
        (1200.0, 1300.0, "MISSED: of the copy's bandwidth"),
        (2000.0, 1300.0, "MISSED: of the copy's bandwidth, PyTorch's time over ours"),
    ],
)
def test_what_moves_rows_is_held_to_the_copy_and_to_pytorch(ours: float, theirs: float, verdict: str) -> None:
    row = Row("softmax", "n", nbytes=10**9, times={OURS: [ours], PEER: [theirs]}, copy_bandwidth=1e12)
    assert row.verdict == verdict
    row.copy_bandwidth = None
    assert row.verdict in ("no of the copy's bandwidth", "MISSED: PyTorch's time over ours")


def test_attention_aims_at_cudnn_and_is_held_to_flash() -> None:
    times = {OURS: [10.0], PEER: [9.6], CUDNN: [9.0]}
    assert Row("attention", "n", times=times).verdict == "met"
    assert Row("attention", "n", times=times | {CUDNN: [10.0]}).verdict == "aim met"
    assert Row("attention", "n", times=times | {PEER: [9.0]}).verdict == "MISSED: PyTorch's time over ours"


def test_groups_are_held_to_the_mean_of_their_speeds() -> None:
    def row(group: str, name: str, speed: float, note: str = "") -> Row:
        return Row(group, name, times={OURS: [10.0], PEER: [10.0 * speed]}, note=note)

    rows = [
        row("matmul, cubes", "x", 2.0),
        row("matmul, language models", "y", 0.45),
        row("matmul, language models", "z", 9.0, note="WRONG: z"),
        row("norms", "n", 1.0),
        Row("softmax", "without a peer", times={OURS: [1.0]}),
    ]
    matmul, norms = group_means(rows)
    assert (matmul.name, matmul.rows, matmul.slowest, matmul.verdict) == ("matmul", 2, "0.45 y", "met")
    assert matmul.speed == pytest.approx(0.9**0.5)
    assert (norms.name, norms.verdict) == ("norms", "met")
    text = format_rows(rows)
    assert text.splitlines()[-2].split()[:5] == ["matmul", "2", "0.95", "0.92", "1.00"]
    assert {name for _, groups, _ in MEANS for name in groups} == GROUPS


def test_the_table_has_speed_share_of_the_copy_and_rate() -> None:
    rows = [
        Row(
            "g",
            "x",
            nbytes=10**9,
            flops=10**12,
            times={OURS: [1000.0] * 5, PEER: [500.0] * 5},
            copy_bandwidth=2e12,
        ),
        Row("g", "y", note="not built: tt.y"),
    ]
    text = format_rows(rows)
    line = next(line for line in text.split("\n") if line.startswith("x"))
    assert line.split() == ["x", "1000.00", "500.00", "0.50", "0%", "50%", "1000.0", "no", "target", "set"]
    assert counted(rows) == {"no target set": 1, "not built": 1}


def test_every_group_has_its_rows() -> None:
    workloads = all_workloads()
    assert {w.group for w in workloads} == GROUPS | WITHOUT_A_TARGET
    assert len({(w.group, w.name) for w in workloads}) == len(workloads)
    assert len(LANGUAGE_MODEL) == 12
    assert all(m <= 64 for m, _, _ in FEW_ROWS)
    assert len(RESNET50) == 23
    gradients = [w.name.split()[0] for w in workloads if w.group == "conv2d gradients, ResNet-50"]
    assert (gradients.count("input"), gradients.count("weight")) == (22, 23)
    memory = [w for w in workloads if w.group in ("elementwise and copies", "reductions")]
    assert all(max(o.nbytes for o in w.operands.values()) >= 64 * 2**20 for w in memory)


def test_bytes_are_each_operand_read_once_and_the_result_written() -> None:
    row = Workload(
        "g", "n", "a + b", {"a": Operand((4, 8), "float32"), "b": Operand((8,), "bfloat16")}, written=128
    )
    assert row.nbytes == 128 + 128 + 16


MOVES_ONLY = {"clone", "transpose", "every second column", "float32 to bfloat16"}
"""Rows without floating-point operations."""


def test_every_row_has_its_bytes_and_operations() -> None:
    for workload in all_workloads():
        nbytes, flops = work_of(workload)
        moves = any(workload.name.startswith(name) for name in MOVES_ONLY)
        read = sum(operand.nbytes for operand in workload.operands.values())
        assert nbytes > read * 0.99 and (flops == 0) == moves, workload.name
    assert all(work_of_step())


def test_where_moves_its_condition_and_both_operands_too() -> None:
    (where,) = (workload for workload in all_workloads() if workload.name == "where")
    elements = 8192 * 4096
    # a > 0 reads 4 bytes and writes 1; where reads 1 + 4 + 4 and writes 4.
    assert work_of(where)[0] == 18 * elements == 603979776


def test_work_that_cannot_be_counted_is_what_the_table_says() -> None:
    operands = {"a": Operand((4,), "float32")}
    assert work_of(Workload("g", "n", "lib.no_such_function(a)", operands, written=16)) == (32, 0)
    assert work_of(Workload("g", "n", "a.nonzero()", operands, flops=8)) == (0, 8)


def test_rows_with_bytes_and_operations_are_in_the_roofline(tmp_path: Path) -> None:
    rows = [Row(w.group, w.name, *work_of(w), times={OURS: [100.0, 110.0]}) for w in all_workloads()]
    path = tmp_path / "nvidia.json"
    limits = limits_of(4e12, rows)
    assert set(limits.matrix_flops_per_second) == {"bfloat16", "float16", "tf32"}
    Result({}, {}, {"device": "cuda"}, limits=limits, rows=as_result_rows(rows), complete=True).write(path)
    data = report_data([path])
    shown = [row for row in data["rows"] if row["current"] and row["intensity"] and row["flops_per_second"]]
    assert len(shown) == len(rows) - sum(row.flops == 0 for row in rows) > 100
    assert all(row["limit"] and row["of_limit"] for row in data["rows"])
    assert data["files"][0]["limits"]["copy_bytes_per_second"] == 4e12


@pytest.mark.parametrize("flush", FLUSHES)
def test_each_flush_is_what_it_says(flush: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = DeviceClock(True, flush)
    cuda, set_bytes = driver(), []
    memset = cuda.memset
    monkeypatch.setattr(cuda, "memset", lambda *a: (set_bytes.append(a[2]), memset(*a))[1])
    clock.microseconds(lambda number: None, 0)  # compiles
    before = cuda.launches
    set_bytes.clear()
    assert clock.microseconds(lambda number: None, 0) > 0
    assert set_bytes == ([1 << 12] if flush == "memset" else [])
    assert (cuda.launches > before) == (flush == "read")


def test_another_flush_is_refused() -> None:
    with pytest.raises(ValueError, match="flush: expected one of read, memset, none, got 'write'"):
        DeviceClock(True, "write")


def test_a_row_is_held_to_a_copy_of_as_many_bytes() -> None:
    assert copied_bytes(268435456) == copied_bytes(268435456 + 65536) == 1 << 27
    assert all(abs(2 * copied_bytes(n) - n) <= n / 64 + 1 for n in (2, 1000, 12345678, 603979776, 3 << 30))
    measured: list[int] = []
    bench = Bench.__new__(Bench)
    bench.copies, bench.found, bench._saved = {}, [], float("inf")
    bench.arguments = SimpleNamespace(rounds=3, rehearse=False)
    bench.clock = SimpleNamespace(
        copy_bandwidth=lambda nbytes, rounds: (measured.append(nbytes), (2e12, [7.0]))[1]
    )
    assert bench.copy_of(1 << 27) == bench.copy_of(1 << 27) == 2e12
    assert bench.copy_of(1 << 30) == 2e12
    assert measured == [1 << 27, 1 << 30]
    assert [(row.name, row.nbytes) for row in bench.found] == [
        ("device-to-device copy of 128 MiB", 1 << 28), ("device-to-device copy of 1 GiB", 1 << 31)
    ]  # fmt: skip


def test_rows_become_rows_of_the_suites_result_file(tmp_path: Path) -> None:
    rows = [
        Row("host time", "a + b, 16 elements", times={OURS: [5.0, 6.0], PEER: [4.0, 8.0]}),
        Row("host time", "malloc + free of a cached size", times={OURS: [0.5, 0.5]}),
        Row("training step", "digits step, captured", times={OURS: [1.0], EAGER: [4.0]}),
        Row("matmul, tf32", "mm 64x64x64 tf32", flops=1 << 19, times={OURS: [1.0], PEER: [2.0]}),
        Row("attention", "causal 8x16x64 bfloat16", times={OURS: [1.0], PEER: [2.0], CUDNN: [3.0]}),
        Row("norms", "layer_norm 8x8 float32", note="WRONG: far"),
        Row("norms", "rms_norm 8x8 float32", note="rehearsed", times={OURS: [1.0]}),
        Row("yardstick", "copy", 2048, times={OURS: [1.0]}),
    ]
    path = tmp_path / "r.json"
    Result({}, {}, {}, limits=Limits(1e12), rows=as_result_rows(rows), complete=True).write(path)
    small, malloc, step, mm, attention, wrong, rehearsed, copy = read_results(path).rows
    assert small.samples == {"triten": [pytest.approx(5e-6), pytest.approx(6e-6)], "torch": [4e-6, 8e-6]}
    assert (small.bar, malloc.bar, step.bar) == (
        Bar("torch", 1.4),
        Bar(None, 1e-6),
        Bar("eager", pytest.approx(1 / 3)),
    )
    assert (mm.operator, mm.size, mm.dtype, mm.flops) == ("mm", "64x64x64", "tf32", 1 << 19)
    assert set(attention.samples) == {"triten", "torch", "cudnn"}
    assert (wrong.verdict, rehearsed.note, copy.bytes) == ("WRONG: far", "", 2048)


def test_every_row_has_a_key_of_its_own_in_the_suites_result_file() -> None:
    rows = [Row(workload.group, workload.name) for workload in all_workloads()]
    assert len({row.key for row in as_result_rows(rows)}) == len(rows)


def test_every_row_of_a_rehearsal_has_a_key_of_its_own_too() -> None:
    rows: list[Row] = []
    for workload in all_workloads(REHEARSAL_SCALE):
        row = Row(workload.group, workload.name)
        row.name = numbered(row, rows)
        rows.append(row)
    assert any(row.name.endswith("(2)") for row in rows)
    assert len({row.key for row in as_result_rows(rows)}) == len(rows)


def test_launches_are_recorded_or_left_out() -> None:
    x = tt.ones(4, device="cuda")
    with Intercepted(run=True) as seen:
        y = x + 1
    assert len(seen.calls) == 1
    assert y.tolist() == [2.0] * 4
    with Intercepted(run=False) as left_out:
        x + 1
    assert left_out.calls == []
    assert (x + 2).tolist() == [3.0] * 4


def test_rivals_are_timed_in_turn() -> None:
    order: list[str] = []
    clock = DeviceClock(rehearsal=True)
    rivals = {name: (lambda number, name=name: order.append(f"{name}{number}")) for name in "ab"}
    times = clock.contest(rivals, sets=2, rounds=6, seconds=60)
    assert [len(values) for values in times.values()] == [6, 6]
    assert order[6:] == ["a0", "b0", "b1", "a1", "a0", "b0", "b1", "a1", "a0", "b0", "b1", "a1"]
    assert len(clock.contest(rivals, sets=1, rounds=50, seconds=0.0)["a"]) == 5


def test_without_a_peer_there_are_numbers_still() -> None:
    peer = Peer(enabled=False, rehearsal=True)
    pair = peer.randn((3, 4), "bfloat16")
    assert pair.theirs is None
    assert (pair.ours.dtype, pair.ours.device.type) == (tt.bfloat16, "cuda")
    assert peer.note


def test_a_peer_has_the_same_numbers_and_sees_a_wrong_result() -> None:
    pytest.importorskip("torch")
    peer = Peer(enabled=True, rehearsal=True)
    a = peer.randn((3, 4, 5, 2), "bfloat16", channels_last=True)
    assert a.ours.stride() == a.theirs.stride()
    assert peer.disagreement(a.ours, a.theirs, 0.0) is None
    assert peer.disagreement(a.ours + 1, a.theirs, 0.1) is not None
    assert "shape" in (peer.disagreement(a.ours[0], a.theirs, 1.0) or "")
    assert peer.disagreement(a.ours * float("nan"), a.theirs, 1.0) is not None


def test_a_rehearsal_runs_rows_and_says_that_its_times_say_nothing(tmp_path: Path) -> None:
    rows = "^(host time|matmul, at most 64 rows: .*4096x4096|norms: layer_norm.*float32|reductions: argmax.*bfloat16)"
    path = tmp_path / "r.json"
    arguments = (
        "--rehearse",
        "--rows",
        rows,
        "--rounds",
        "5",
        "--row-seconds",
        "0.05",
        "--no-peer",
        "--output",
        str(path),
    )
    run = bench(*arguments, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "a rehearsal: its times say nothing" in run.stdout
    section = json.loads(path.read_text())["bench"]
    result = read_results(path)
    rows = {row.name: row for row in result.rows}
    assert (result.complete, result.rehearsal, result.settings["device"]) == (True, True, "cuda")
    assert len(rows["launch of 9 arguments"].samples["triten"]) == 5
    assert rows["a + b, 16 elements"].samples["triten"][0] < 20, "seconds"
    layer_norm = next(row for row in result.rows if row.operator == "layer_norm" and row.dtype == "float32")
    assert (layer_norm.suite, layer_norm.size, layer_norm.bar) == ("norms", "256x64", Bar("torch", 1.0))
    assert layer_norm.bytes and layer_norm.key.device == "cuda"
    data = report_data([path])
    assert len(data["rows"]) == len(section["rows"]) and "a rehearsal" in data["doubts"][0]
    assert len(compare_results(result, result)) == len(section["rows"])
    assert (section["complete"], section["rehearsal"], section["interpreted"]) == (True, True, True)
    assert section["flush"] == result.settings["flush"] == "read"
    tuning = result.settings["tuning"]
    assert section["tuning"] == tuning
    assert tuning.keys() == {"table", "sha256", "entries", "valid", "recorded"}
    found = {row["name"]: row for row in section["rows"]}
    assert found["a + b, 16 elements"]["breakdown"].keys() == {"plan", "allocation", "launch"}
    assert {row["verdict"] for row in found.values()} == {"rehearsed"}
    assert "layer_norm 256x64 float32" in found


def test_rows_that_a_device_has_no_dtype_for_say_so(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    run = bench(
        "--rehearse", "--rows", "8 bits", "--no-peer", "--output", str(path), cuda="emulate", cwd=tmp_path
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    section = json.loads(path.read_text())["bench"]
    assert section["rows"] and section["device"] == "PTX emulator"
    assert {row["verdict"].partition(":")[0] for row in section["rows"]} == {"not on this device"}
    assert all("compute capability 8.9" in row["verdict"] for row in section["rows"])


@pytest.mark.parametrize("cuda", ["interpret", "emulate"])
def test_simulated_devices_have_no_times(cuda: str, tmp_path: Path) -> None:
    simulated = bench(cuda=cuda, cwd=tmp_path)
    assert (simulated.returncode, simulated.stdout) == (2, "")
    assert f"TRITEN_CUDA={cuda} simulates a device, whose times say nothing" in simulated.stderr


def test_without_a_gpu_it_says_so_and_measures_nothing(tmp_path: Path) -> None:
    if type(tt.library.driver()).__name__ == "InterpreterDriver":
        absent = bench(cuda=None, cwd=tmp_path)
        assert (absent.returncode, absent.stdout) == (2, "")
        assert "no CUDA GPU is available" in absent.stderr
