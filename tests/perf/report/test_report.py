"""The report has the right data and texts, and refuses invalid files."""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from triten.perf import __main__ as command
from triten.perf.report.data import geometric_mean, report_data
from triten.perf.report.markdown import format_markdown

_spec = importlib.util.spec_from_file_location("report_files", Path(__file__).with_name("report_files.py"))
assert _spec is not None and _spec.loader is not None
report_files = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(report_files)

Report = Callable[..., int]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return report_files.write_files(tmp_path)


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Report:
    """Return a function that runs the command in this process."""

    def called(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["perf", "report", *map(str, arguments)])
        try:
            return command.main()
        except SystemExit as stop:
            return int(stop.code or 0)

    return called


def test_files_stand_in_the_order_of_their_commits(files: list[Path]) -> None:
    data = report_data(files)
    assert [file["label"] for file in data["files"]] == ["oldoldold", "newnewnew"]
    row = data["rows"][1]
    assert row["file"] == 1
    assert [point["ratios"]["torch"] for point in row["history"]] == pytest.approx([0.5, 1.0])


def test_means_leave_out_new_shapes_and_are_held_to_the_suites_bar(files: list[Path]) -> None:
    data = report_data(files[1:])
    [overhead, elementwise] = data["suites"]
    assert overhead["means"]["torch"] == {"count": 2, "mean": pytest.approx(0.5), "faster": 2}
    assert overhead["bar"] == {"least": 0.55, "aim": 0.45, "verdict": "met"}
    assert elementwise["means"]["torch"]["mean"] == pytest.approx(geometric_mean([2, 1, 2]))
    assert elementwise["bar"]["verdict"] == "MISSED"
    assert data["totals"]["rows"] == 7
    assert (data["totals"]["timed"], data["totals"]["met"], data["totals"]["missed"]) == (6, 2, 1)


def test_the_worst_exceed_their_bar_or_else_the_peer_by_the_most(files: list[Path]) -> None:
    data = report_data(files[1:])
    excess = [(data["rows"][index]["operator"], data["rows"][index]["excess"]) for index in data["worst"]]
    assert [operator for operator, _ in excess[:3]] == ["new shapes", "add", "mul"]
    assert [value for _, value in excess[:3]] == pytest.approx([9.0, 2.0, 2.0])
    assert len(excess) == 6


def test_what_became_slower_is_named_and_what_stayed_is_not(files: list[Path]) -> None:
    data = report_data(files)
    [change] = [each for each in data["changes"] if each["verdict"] in ("slower", "faster")]
    assert len(data["changes"]) == 6
    assert data["rows"][change["row"]]["operator"] == "views"
    assert (change["verdict"], change["regression"], change["ratio"]) == ("slower", True, pytest.approx(2.0))
    assert {each["verdict"] for each in report_data(files, threshold=1.5)["changes"]} == {"no change"}
    said = data["summary"]["sentences"][1]
    assert said.startswith("Since oldoldold (1 Jan 2026): 1 benchmark slower (most: overhead: a.T")


def test_intensity_and_rates_are_those_of_the_row(files: list[Path]) -> None:
    row = report_data(files)["rows"][0]
    assert row["intensity"] == pytest.approx(4096 / 48_000)
    assert row["flops_per_second"] == pytest.approx(4.096e9)
    assert row["limit"] == "copy"


def test_files_of_different_machines_raise_doubts(files: list[Path]) -> None:
    changed = json.loads(files[0].read_text())
    changed["machine"]["host"] = "other"
    changed["complete"] = False
    files[0].write_text(json.dumps(changed))
    host, incomplete = report_data(files)["doubts"]
    assert host == "host differs between the files: h, other"
    assert "incomplete" in incomplete


def test_markdown_has_means_regressions_the_worst_and_no_markup_of_files(
    files: list[Path],
) -> None:
    text = format_markdown(report_data(files))
    assert "| overhead | cpu | 3/3 | 1 | 2 | 0 | 0 | 1.41 (2) | 1.82, aim 2.22: missed |" in text
    assert "1 benchmarks slower by more than 5% and beyond the noise, 0 faster, of 6." in text
    assert "| overhead: a.T 64x64 float32 | oldoldold | 1.00 | 2.00 | 2.00 |" in text
    assert "| overhead: a.T 64x64 float32 | 2.00 | 1.00 over torch | at least 1.33 | missed |" in text
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert r"a \* b \| c" in text


def test_json_is_the_derived_data(
    report: Report, files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(*files, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found == report_data(files)


def test_the_page_holds_no_markup_of_files_and_loads_nothing(
    report: Report, files: list[Path], tmp_path: Path
) -> None:
    assert report(*files, "-o", tmp_path / "made" / "d.html") == 0
    text = (tmp_path / "made" / "d.html").read_text(encoding="utf-8")
    assert report_files.HOSTILE not in text
    assert text.count("</script") == 2
    assert "src=" not in text
    assert text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "").count("http") == 0
    assert "default-src &#x27;none&#x27;" in text


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda found: found | {"version": 0}, "older than 1"),
        (lambda found: found | {"version": 99}, "newer than 1"),
        (lambda found: {"some": "object"}, "no result of"),
        (lambda found: found | {"started": "yesterday"}, "started: expected a moment"),
        (lambda found: found | {"commit": {"hash": "a", "time": 3}}, "commit.time: expected a moment"),
        (lambda found: found | {"rows": [found["rows"][0] | {"bytes": 10**400}]}, "rows[0].bytes: expected a"),
        (lambda found: found | {"rows": [found["rows"][0] | {"dtype": 3}]}, "rows[0].dtype"),
    ],
)  # fmt: skip
def test_what_is_no_result_is_refused_by_name(
    report: Report, files: list[Path], capsys: pytest.CaptureFixture[str], damage: Callable, message: str
) -> None:
    files[0].write_text(json.dumps(damage(json.loads(files[0].read_text()))))
    assert report(*files, "--format", "markdown") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err and str(files[0]) in said.err


def test_a_request_that_cannot_be_served_says_why(
    report: Report, files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = files[0].parent
    (folder / "cut.json").write_text(files[0].read_text()[:100])
    for arguments, message in [
        ((), "the following arguments are required: FILE"),
        ((folder / "none.json", "--format", "json"), "no such file"),
        ((folder, "--format", "json"), "cannot be read"),
        ((folder / "cut.json", "--format", "json"), "not JSON"),
        ((files[0], files[0], "--format", "json"), "given twice"),
        ((files[0], "--format", "json", "-o", files[0]), "would be lost"),
        ((files[0], "--format", "json", "-o", folder), "cannot write"),
        ((files[0], "--format", "json", "-o", files[1] / "below"), "cannot write"),
        ((files[0], "--format", "json", "--threshold", "-1"), "must not be negative"),
        ((files[0],), "needs -o FILE"),
    ]:
        assert report(*arguments) == 2, arguments
        assert message in capsys.readouterr().err
    assert json.loads(files[0].read_text())["format"] == "triten.perf.run"


def test_half_a_surrogate_pair_in_a_file_is_written_as_its_escape(report: Report, files: list[Path]) -> None:
    found = json.loads(files[0].read_text())
    found["rows"][0]["name"] = "\ud800"
    files[0].write_text(json.dumps(found))
    for form in ("markdown", "json"):
        assert report(files[0], "--format", form, "-o", files[0].parent / form) == 0
    assert "\\ud800" in (files[0].parent / "markdown").read_text()
