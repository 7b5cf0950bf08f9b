"""Functions in a user's file are timed in the suite's machinery, with their baselines, and checked."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import triten as tt
from triten.perf import __main__ as command
from triten.perf.result_file import ROOT
from triten.perf.suite.results import Result, Row, read_results

FILE = """
import numpy as np
import triten as tt

def operands(size):
    return (tt.randn(size, size),)

def in_numpy(x):
    return x.numpy().sum(1)

@tt.perf.benchmark(setup=operands, baseline=in_numpy, size=[4, 8])
def row_sums(x):
    return x.sum(1)
"""


class Done(NamedTuple):
    returncode: int
    stderr: str
    result: Result | None

    @property
    def rows(self) -> list[Row]:
        assert self.result is not None, self.stderr
        return self.result.rows


Run = Callable[..., Done]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Run]:
    """Yield a function that runs a file's text by the command, in this process, for one round."""
    cores, threads, path = os.sched_getaffinity(0), tt.get_num_threads(), list(sys.path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRITEN_CUDA", raising=False)

    def called(text: str, *arguments: str, name: str = "bench_own.py") -> Done:
        (tmp_path / name).write_text(text)
        argv = ["perf", "run", name, "--rehearse", "-o", "result.json", *arguments]
        monkeypatch.setattr(sys, "argv", argv)
        status = command.main()
        written = tmp_path / "result.json"
        return Done(status, capsys.readouterr().err, read_results(written) if written.exists() else None)

    yield called
    os.sched_setaffinity(0, cores)
    tt.set_num_threads(threads)
    sys.path[:] = path


def test_each_case_is_a_row_beside_its_baseline(run: Run) -> None:
    done = run(FILE, "--rounds", "6")
    assert done.returncode == 0, done.stderr
    assert [(row.suite, row.operator, row.size, row.note) for row in done.rows] == [
        ("bench_own", "row_sums", "4", ""),
        ("bench_own", "row_sums", "8", ""),
    ]
    assert all({name: len(times) for name, times in row.samples.items()} == {"triten": 6, "in_numpy": 6}
               for row in done.rows)  # fmt: skip
    assert all(row.ratio("in_numpy").low is not None for row in done.rows)


def test_the_example_of_the_documentation_runs(run: Run) -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    name, text = re.search(
        r"^```python\n# (bench_\w+\.py)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    ).groups()
    assert f"triten.perf run {name}" in page
    done = run(text, name=name)
    assert done.returncode == 0, done.stderr
    assert [(row.name, row.size, row.note, sorted(row.samples)) for row in done.rows] == [
        ("layer_norm", "16", "", ["by_hand", "triten"]),
        ("layer_norm", "256", "", ["by_hand", "triten"]),
    ]


def test_rows_are_chosen_and_suites_are_added(run: Run) -> None:
    done = run(FILE, "--rows", " 8 |best fit", "--suite", "allocator", "--peers")
    assert [(row.suite, row.size) for row in done.rows if row.suite == "bench_own"] == [("bench_own", "8")]
    assert {row.suite for row in done.rows} == {"bench_own", "allocator"}


def test_parameters_combine_and_label_the_rows(run: Run) -> None:
    text = """
import triten as tt

@tt.perf.benchmark(size=[2, 3], dtype=[tt.float32, tt.float64])
def zeros(size, dtype, device):
    assert device == "cpu"
    return tt.zeros(size, dtype=dtype)

@tt.perf.benchmark
def alone():
    pass
"""
    assert [row.size for row in run(text).rows] == [
        "size=2, dtype=float32", "size=2, dtype=float64", "size=3, dtype=float32", "size=3, dtype=float64", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("baseline", "note"),
    [
        ("lambda x: x.sum(1) + 0.1", "WRONG: "),
        ("lambda x: x.sum()", "WRONG: shape (4,), other's is ()"),
        ("lambda x: {}['a']", "FAILED in other: FunctionFailed: KeyError: 'a'"),
        ("lambda x: x.sums()", "FAILED in other: FunctionFailed: AttributeError: "),
        (
            "lambda x: 'text'",
            "FAILED in other: FunctionFailed: benchmark 'row_sums' returned str, which cannot",
        ),
        ("lambda x: np.asarray(x.numpy().sum(1))", ""),
    ],
)
def test_results_of_baselines_are_checked(run: Run, baseline: str, note: str) -> None:
    text = FILE.replace("baseline=in_numpy", f"baseline={{'other': {baseline}}}").replace("[4, 8]", "[4]")
    [row] = run(text).rows
    assert row.note.startswith(note)
    assert (row.note == "") == (note == "")
    [unchecked] = run(text.replace("setup=", "check=False, setup=")).rows
    assert "WRONG" not in unchecked.note


def test_a_failing_benchmark_gives_status_1(run: Run) -> None:
    done = run(
        "import triten as tt\n@tt.perf.benchmark\ndef broken():\n    return tt.ones(2).no_such_method()\n"
    )
    assert done.returncode == 1
    assert done.rows[0].note.startswith("FAILED in triten: FunctionFailed: AttributeError: ")


def test_set_ups_draw_equal_operands_and_return_keywords(run: Run) -> None:
    text = """
import random
import numpy as np
import triten as tt

def operands():
    return {"a": tt.randn(4), "b": tt.from_numpy(np.random.rand(4)), "scale": random.random()}

def other(*, a, b, scale):
    return b * scale + a

@tt.perf.benchmark(setup=operands, baseline=other)
def scaled(a, b, scale):
    return a + b * scale
"""
    [row] = run(text).rows
    assert (row.note, sorted(row.samples)) == ("", ["other", "triten"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "no function is decorated with @tt.perf.benchmark"),
        ("from bench_real import *\n", "no function is decorated"),
        (f"{FILE}\nfirst = row_sums\n{FILE.replace('[4, 8]', '[2]')}", "two benchmarks are named 'row_sums'"),
    ],
)
def test_bad_files_are_refused_with_status_2(run: Run, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bench_real.py").write_text(FILE)
    done = run(text)
    assert (done.returncode, done.result) == (2, None)
    assert message in done.stderr


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["none.py"], "none.py: no such file"),
        (["bench.txt"], "bench.txt: a file of benchmarks ends in .py"),
        (["bench_own.py", "--rows", "zzz"], "no benchmark of bench_own.py matches 'zzz'"),
        (["bench_own.py", "--suite", "zzz"], "no suite is called 'zzz'"),
        (["bench_own.py", "./bench_own.py"], "would both be the suite 'bench_own'"),
    ],
)
def test_bad_arguments_are_refused_with_status_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    files: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench_own.py").write_text(FILE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", ["perf", "run", *files])
    assert command.main() == 2
    assert message in capsys.readouterr().err


def test_declarations_are_checked_at_once() -> None:
    with pytest.raises(ValueError, match="parameter 'size' of a benchmark has no values"):
        tt.perf.benchmark(size=[])
    with pytest.raises(TypeError, match=r"benchmark 'named_f' takes \(x\), but its parameters are size"):
        tt.perf.benchmark(size=[1])(named_f)
    with pytest.raises(ValueError, match="have equal labels: 1, 1"):
        tt.perf.benchmark(x=[1, "1"])(named_f)
    with pytest.raises(ValueError, match="a baseline must not be named 'triten'"):
        tt.perf.benchmark(x=[1], baseline={"triten": named_f})(named_f)
    with pytest.raises(TypeError, match="baseline 'a' must be a function, got int"):
        tt.perf.benchmark(x=[1], baseline={"a": 1})(named_f)
    with pytest.raises(TypeError, match="benchmark must decorate a function, got int"):
        tt.perf.benchmark(1)
    declared = tt.perf.benchmark(x=[1], setup=lambda x: x)(named_f)
    with pytest.raises(
        TypeError, match=r"must return a tuple or a dict of arguments, got int.*return \(x,\)"
    ):
        declared.arguments(next(declared.cases()), "cpu")


def named_f(x):
    return x


def test_a_declared_benchmark_is_still_the_function() -> None:
    declared = tt.perf.benchmark(x=[1])(named_f)
    assert isinstance(declared, tt.perf.Benchmark)
    assert declared(np.float32(3)) == 3
    assert (declared.__name__, declared.__module__) == ("named_f", named_f.__module__)


def test_a_set_up_receives_the_device(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    (tmp_path / "bench_own.py").write_text("""
import triten as tt

def operands(size, device):
    assert device == "cuda"
    return (tt.randn(size, size, device=device),)

@tt.perf.benchmark(setup=operands, baseline=lambda x: (x * x).sum(1), size=[4])
def squares(x):
    return x.square().sum(1)
""")
    argv = [
        sys.executable,
        "-P",
        "-m",
        "triten.perf",
        "run",
        "bench_own.py",
        "--device",
        "cuda",
        "--rehearse",
    ]
    done = subprocess.run(
        [*argv, "-o", "r.json"],
        cwd=tmp_path,
        env=os.environ | {"TRITEN_CUDA": "interpret"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    [row] = read_results(tmp_path / "r.json").rows
    assert (row.device, row.note, sorted(row.samples)) == ("cuda", "", ["<lambda>", "triten"])
