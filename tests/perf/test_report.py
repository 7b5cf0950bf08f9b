"""The gate's table."""

import json
import sys

from triten.perf.ahead_of_time.report import COLUMNS, print_table, rows_of, with_rows_renewed, write_results
from triten.perf.ahead_of_time.schedule import Schedule

SCHEDULE = Schedule(
    True,
    160,
    {"matrix": 4, "alu": 80},
    asynchronous=True,
    matrix_operations=2 * 128 * 128 * 64 / 8,
    matrix="HGMMA",
)


def launch(registers, dtype="bf16", target=90, faults=(), **found):
    return {
        "request": {
            "kernel": "triten.triton_kernels.products.matmul:matmul",
            "target": target,
            "options": {"num_stages": 3},
        },
        "reuses": True,
        "dtype": dtype,
        "configuration": "128x128x64 w8 s3",
        "blocks": 2,
        "warps": 8,
        "expected": {"registers": 128, "shared": 115_712},
        "faults": list(faults),
        "found": {
            "registers": registers,
            "shared": 98_304,
            "tensor_memory": 0,
            "local": 0,
            "matrix": {"HGMMA": 4},
            "schedule": SCHEDULE.as_json(),
            "operands": {"a": {"loads": {"128": 4, "16": 2}, "stores": {}}},
            **found,
        },
    }


def test_a_row_holds_the_most_that_was_used_and_the_fewest_that_are_resident():
    (row,) = rows_of([launch(120), launch(128, "fp16"), launch(100)])
    assert (row.kernel, row.target, row.compiled, row.dtypes) == ("matmul", "sm_90", 3, ["bf16", "fp16"])
    assert (row.registers, row.shared, row.widest, row.matrix) == (128, 98_304, 128, ["HGMMA"])
    assert (row.resident, row.blocks, row.faults) == (2, 2, 0)


def test_a_row_says_what_the_model_makes_of_the_slowest():
    busy = Schedule(
        **SCHEDULE.as_json() | {"instructions": 4000, "pipes": {"matrix": 4, "alu": 3000}}
    ).as_json()
    (row,) = rows_of([launch(120), launch(120, schedule=busy)])
    assert (row.term, row.limit) == ("issue of alu", "bfloat16")
    assert row.share < 0.3
    assert f"{row.share:.0%} of bfloat16, issue of alu" in row.cells()
    (row,) = rows_of([launch(120)])
    assert (row.term, row.share) == ("tensor pipe", 0.8)
    (row,) = rows_of([launch(120, target=103)])
    assert (row.term, row.share) == ("", None), "of a device without a data sheet it makes nothing"


def test_of_several_the_fewest_resident_blocks_count():
    (row,) = rows_of([launch(129), launch(100)])
    assert (row.resident, row.registers) == (1, 129)


def test_rows_are_told_apart_and_sorted_by_target():
    rows = rows_of([launch(90, target=100), launch(90, target=80), launch(90)])
    assert [row.target for row in rows] == ["sm_80", "sm_90", "sm_100"]


def test_what_did_not_compile_is_never_resident():
    broken = launch(0, faults=["died"])
    broken["found"] = {"error": "died"}
    (row,) = rows_of([launch(90), broken])
    assert (row.resident, row.faults, row.registers) == (0, 1, 90)


def test_the_table_is_plain_where_it_is_piped(capsys):
    print_table(rows_of([launch(129, faults=["too many"], local=48)]))
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split()[0] == COLUMNS[0]
    assert "1 / 2" in line
    assert "129 / 128, 48 B local" in line
    assert line.endswith("1")
    print_table([])
    assert capsys.readouterr().out.count("\n") == 1


def test_results_are_written_as_json_and_as_a_table(tmp_path):
    rows = rows_of([launch(90), launch(90, target=100, tensor_memory=128)])
    data, text = write_results(tmp_path / "results", rows, [], "3.9.0")
    assert (data.name, text.name) == ("aot-3.9.0.json", "aot-3.9.0.md")
    report = json.loads(data.read_text())
    assert (report["triton"], report["faults"], len(report["rows"])) == ("3.9.0", [], 2)
    lines = [line for line in text.read_text().splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1
    assert "98,304 / 115,712, 128 columns" in lines[3]
    assert "No faults." in text.read_text()
    write_results(tmp_path, rows, ["sm_90: one"], "3.9.0")
    assert "- sm_90: one" in (tmp_path / "aot-3.9.0.md").read_text()


KEPT = ("addmm", "matmul", "matvec")


def test_some_kernels_take_their_rows_in_the_table_that_is_kept_and_others_leave_it(tmp_path):
    def of(kernel, registers, target=90):
        made = launch(registers, target=target)
        made["request"]["kernel"] = f"triten.triton_kernels.products.products:{kernel}"
        return made

    gone = rows_of([of("outer", 40)])
    both = [of("matvec", 40), of("matmul", 90), of("matmul", 90, target=100)]
    new = rows_of([of("matmul", 70), of("addmm", 50)])
    assert with_rows_renewed(tmp_path, new, "3.9.0", KEPT) is None
    write_results(tmp_path, rows_of(both) + gone, [], "3.9.0")
    renewed = with_rows_renewed(tmp_path, new, "3.9.0", KEPT)
    assert [(row.kernel, row.target, row.registers) for row in renewed] == [
        ("addmm", "sm_90", 50),
        ("matmul", "sm_90", 70),
        ("matvec", "sm_90", 40),
    ]
    assert with_rows_renewed(tmp_path, rows_of(both), "3.9.0", KEPT) == rows_of(both)
    write_results(tmp_path, rows_of(both), ["sm_90: one"], "3.9.0")
    assert with_rows_renewed(tmp_path, new, "3.9.0", KEPT) is None


def test_the_table_is_drawn_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    print_table(rows_of([launch(129, faults=["too many"])]))
    drawn = capsys.readouterr().out
    assert "matmul" in drawn
    assert "─" in drawn
