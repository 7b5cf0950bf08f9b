"""Rows of the GPU's benchmark by the model: from a workload's launches to a line, and the table that is kept."""

import dataclasses
import sys

import pytest

from triten.perf.ahead_of_time.schedule import Schedule
from triten.perf.gpu import expected
from triten.perf.gpu.expected import ExpectedRow, expected_row, kept_rows, rows_for, sides_of, write_rows
from triten.perf.gpu.rows import OURS, Row, format_rows
from triten.perf.gpu.workloads import Operand, Workload, product
from triten.perf.planning.multiprocessor import MULTIPROCESSORS

H100 = MULTIPROCESSORS[90]
COPY = Schedule(instructions=40, pipes={"memory": 8}, loaded=64, stored=64, batches=1)
PRODUCT = Schedule(
    True,
    160,
    {"matrix": 4, "alu": 70},
    asynchronous=True,
    matrix_operations=2 * 128 * 256 * 64 / 8,
    matrix="HGMMA",
)


def launch(kernel, schedule, programs, tile, reuses=False, warps=4, shared=0):
    return {
        "request": {"kernel": f"module:{kernel}", "target": 90, "options": {"num_stages": 4}},
        "dtype": "bf16",
        "warps": warps,
        "reuses": reuses,
        "programs": programs,
        "tile": tile,
        "found": {
            "registers": 160 if reuses else 32, "shared": shared, "tensor_memory": 0,
            "schedule": schedule.as_json(),
        },
    }  # fmt: skip


def test_a_clone_takes_what_its_bytes_take():
    numel = 1 << 28
    x = Operand((numel,), "bfloat16")
    row = expected_row(
        H100,
        Workload("g", "clone", "a.clone()", {"a": x}, x.nbytes),
        [launch("dense", COPY, numel // 4096, [4096])],
    )
    assert row.term == row.limit == "bandwidth"
    assert row.share == pytest.approx(0.9, abs=0.05)
    assert row.microseconds == pytest.approx(1e6 * 2 * x.nbytes / 3.35e12 / row.share, rel=0.01)
    assert (row.in_flight, row.needed, row.waits) == (16 * 128 * 64, 8470, False)
    assert "131.1 / 8.5 kB" in str(row)


def test_persistent_blocks_go_over_the_tiles_of_the_result():
    cube = product("g", 3072, 3072, 3072, "bfloat16")
    one = launch("matmul_persistent", PRODUCT, 132, [128, 256, 64], True, 8, 196608)
    row = expected_row(H100, cube, [one])
    assert row.waves == 2.18
    assert row.needed == 0 and "kB" not in str(row), "operands come from the L2 cache"
    assert row.term == "tail"
    tiled = launch("matmul", PRODUCT, 288, [128, 256, 64], True, 8, 196608)
    assert expected_row(H100, cube, [tiled]).microseconds == row.microseconds


def test_other_launches_of_a_row_add_their_time():
    cube = product("g", 4096, 4096, 4096, "bfloat16")
    one = launch("matmul", PRODUCT, 512, [128, 256, 64], True, 8, 196608)
    other = launch("dense", COPY, 1 << 12, [4096])
    alone, both = expected_row(H100, cube, [one]), expected_row(H100, cube, [other, one])
    assert both.microseconds > alone.microseconds + 3
    assert both.kernels == ["dense", "matmul"]
    assert both.limit == "bfloat16"


@pytest.mark.parametrize(
    ("workload", "sides"),
    [
        (product("g", 100, 200, 300, "bfloat16"), (100, 200)),
        (
            Workload("g", "n", "a @ b.t()", {"a": Operand((16, 64), "bfloat16"), "b": Operand((48, 64), "bfloat16")},
                     flops=2 * 16 * 48 * 64),
            (16, 48),
        ),
        (
            Workload("g", "n", "conv",
                     {"x": Operand((2, 8, 10, 10), "bfloat16"), "w": Operand((32, 8, 3, 3), "bfloat16")},
                     flops=2 * 200 * 32 * 72),
            (200, 32),
        ),
    ],
)  # fmt: skip
def test_sides_of_a_result(workload, sides):
    assert sides_of(workload) == sides


ROW = ExpectedRow(
    "matmul, cubes", "mm 8192x8192x8192 bfloat16", 1500.0, 0.74, "bfloat16", "tensor pipe", 15.5, 1, []
)


def test_a_table_keeps_the_rows_of_other_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(expected, "RESULTS", tmp_path)
    other = dataclasses.replace(ROW, name="mm 4096x4096x4096 bfloat16")
    gone = dataclasses.replace(ROW, name="a row that is timed no more")
    write_rows(90, [ROW, gone])
    write_rows(90, [other, dataclasses.replace(ROW, microseconds=1400.0)])
    assert [(row.name, row.microseconds) for row in kept_rows(90).values()] == [
        (ROW.name, 1400.0), (other.name, 1500.0)
    ]  # fmt: skip
    assert set(rows_for(90, "NVIDIA H100 80GB HBM3")) == set(kept_rows(90))
    assert rows_for(90, "NVIDIA H200") == rows_for(89, "NVIDIA L40S") == rows_for(86, "NVIDIA A10") == {}


def test_the_model_stands_beside_what_was_measured():
    text = format_rows(
        [Row("matmul, cubes", "mm", times={OURS: [2.0]}, expected=1.5), Row("matmul, cubes", "nn")]
    )
    heads, first, second = text.strip().splitlines()
    assert heads.split()[2:6] == ["triten", "us", "model", "us"]
    assert first.split()[:3] == ["mm", "2.00", "1.50"]
    assert second.split()[0] == "nn"


@pytest.mark.skipif(sys.platform != "linux", reason="triton has no wheel for this platform")
def test_rows_are_recorded_compiled_and_modelled(tmp_path):
    """With the rows' own sizes and the planner that ships, which takes no memory and no GPU."""
    clone, product = expected.expected_rows(
        90, "mm 8192x8192x8192 bfloat16|clone bfloat16", workers=1, cache=tmp_path
    )[::-1]
    assert (clone.name, clone.term) == ("clone bfloat16", "bandwidth")
    assert 0.8 < clone.share < 0.9
    assert (product.limit, product.kernels) == ("bfloat16", ["matmul_warp_specialized"])
    assert 0.5 < product.share < 0.8
    assert product.waves == round(64 * 32 / 132 / product.resident, 2)
    assert product.of_best == pytest.approx(product.share / (685 / 835.5), abs=0.001)
    assert product.published[0].startswith("cuBLAS on H200 NVL: 685 TFLOP/s, 82%")
