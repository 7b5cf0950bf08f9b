"""The command runs every row at tiny sizes with agreeing results, refuses bad input, and keeps finished rows."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import triten as tt
from triten.perf import __main__ as command
from triten.perf.suite import processes
from triten.perf.suite import run as run_module
from triten.perf.suite.display import format_result, geometric_means, shown_verdict
from triten.perf.suite.libraries import Library
from triten.perf.suite.measurement import Effort, Measurement
from triten.perf.suite.results import OURS, Bar, Limits, Result, Row, read_results
from triten.perf.suite.workload import Operand, Phrase, Scale, Workload, normal
from triten.perf.suite.workloads import MEAN_BARS, SUITES, all_workloads
from triten.perf.suite.workloads.chains import CHAINS, NUMBERS, Chain
from triten.perf.suite.workloads.overhead import most_rounds
from triten.perf.suite.workloads.small_calls import NEW_SHAPE_CALLS, SMALL_CALLS

Perf = Callable[..., int]


@pytest.fixture
def perf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Perf]:
    """Yield a function that runs the command in this process; restore threads and cores afterwards."""
    cores, threads = os.sched_getaffinity(0), tt.get_num_threads()

    def called(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["perf", *map(str, arguments)])
        monkeypatch.delenv("TRITEN_CUDA", raising=False)
        try:
            return command.main()
        except SystemExit as stop:
            return int(stop.code or 0)

    yield called
    os.sched_setaffinity(0, cores)
    tt.set_num_threads(threads)


def numpy_and_triten(effort: Effort | None = None) -> Measurement:
    return Measurement(
        [Library(OURS, "cpu"), Library("numpy", "cpu")], effort or Effort(rounds=7, row_seconds=0.1), 1
    )


def an_add(**changes: object) -> Workload:
    fields = {
        "suite": "s", "operator": "add", "name": "add", "size": "4x4", "dtype": "float32", "statement": "a + b",
        "arrays": "a + b", "operands": {"a": Operand(normal(4, 4)), "b": Operand(normal(4, 4))},
    }  # fmt: skip
    return Workload(**{**fields, **changes})


def test_a_row_has_a_sample_of_every_library_in_every_round() -> None:
    row = numpy_and_triten(Effort(rounds=7, precision=1e-9)).row(an_add())
    assert {name: len(times) for name, times in row.samples.items()} == {"triten": 7, "numpy": 7}
    assert all(time > 0 for times in row.samples.values() for time in times)
    assert (row.bytes, row.flops, row.note, row.threads) == (3 * 64, 16, "", 1)


def test_rounds_end_when_the_ratio_is_known_or_time_is_up() -> None:
    wide = numpy_and_triten(Effort(rounds=40, slice_seconds=1e-5, precision=1e9)).row(an_add())
    assert len(wide.samples["triten"]) == 6
    late = numpy_and_triten(Effort(rounds=40, slice_seconds=1e-5, row_seconds=0.0, precision=0.0)).row(
        an_add()
    )
    assert len(late.samples["triten"]) == 6


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"arrays": "a + b + 0.01"}, "WRONG: 0.0"),
        ({"arrays": "(a + b)[:2]"}, "WRONG: shape (4, 4), numpy's is (2, 4)"),
        ({"arrays": "(a + b) * np.float32('nan')"}, "WRONG: nan from numpy's"),
        ({"statement": "tt.no_such_function(a)"}, "missing in triten: module 'triten' has no attribute"),
        ({"statement": "a @ b[:2]"}, "FAILED in triten: RuntimeError: mat1 and mat2"),
    ],
)
def test_what_is_wrong_is_not_timed(changes: dict[str, str], note: str) -> None:
    row = numpy_and_triten().row(an_add(**changes))
    assert row.note.startswith(note), row.note
    assert row.samples == {}


def test_a_peer_without_the_call_leaves_the_row_to_triten() -> None:
    row = numpy_and_triten().row(an_add(arrays="np.no_such_function(a)"))
    assert row.note.startswith("missing in numpy: module 'numpy' has no attribute")
    assert list(row.samples) == ["triten"]
    assert list(numpy_and_triten().row(an_add(arrays="")).samples) == ["triten"]


def test_small_errors_of_another_order_of_summation_agree_and_whole_numbers_must_be_equal() -> None:
    near = an_add(arrays="(a + b) * np.float32(1 + 1e-6)")
    assert numpy_and_triten().row(near).note == ""
    whole = {name: Operand(normal(4, 4, scale=100.0), "int64") for name in "ab"}
    assert numpy_and_triten().row(an_add(operands=whole)).note == ""
    off = an_add(operands=whole, arrays="a + b + (a == a[0, 0])")
    assert numpy_and_triten().row(off).note.startswith("WRONG")


@pytest.mark.parametrize("name", ["numexpr", "numba"])
def test_libraries_with_words_of_their_own_run_nothing_else(name: str) -> None:
    library = Library.__new__(Library)
    library.name = name
    row = an_add(arrays="a + b", setup="c = 1", phrases={name: Phrase("add(a, b)", "add = ready()")})
    assert row.phrase_for(library) == Phrase("add(a, b)", "add = ready()")
    assert row.phrase_for(Library("numpy", "cpu")) == Phrase("a + b", "c = 1")
    assert an_add(arrays="a + b").phrase_for(library).statement == ""


@pytest.mark.parametrize("chain", [c for c in CHAINS if c.arrays or c.expression], ids=lambda c: c.name)
def test_chains_say_the_same_in_other_words(chain: Chain) -> None:
    a, b, c = (normal(6, 8, scale=0.5 + i / 4)() for i in range(3))
    wanted = eval(f"lambda a, b, c: {chain.body}", {"tt": tt})(*map(tt.from_numpy, (a, b, c))).numpy()
    names = {"a": a, "b": b, "c": c, **{name: np.float32(number) for name, number in NUMBERS.items()}}
    functions = {"where": np.where, "exp": np.exp, "tanh": np.tanh}
    for text in (chain.arrays, chain.expression):
        found = eval(text, {"np": np, **functions, **names})
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["numexpr", "numba"])
def test_chains_agree_with(name: str, perf: Perf, tmp_path: Path) -> None:
    pytest.importorskip(name, reason=f"{name} is not installed: no values to compare with")
    path = tmp_path / "r.json"
    assert perf("run", "--rehearse", "--suite", "chains", "--peers", name, "-o", path) == 0
    found = read_results(path)
    assert [(str(row.key), row.note) for row in found.rows if row.note] == []
    assert any(name in row.samples for row in found.rows)


def test_a_gradient_is_compared_and_cleared() -> None:
    seen = []
    operands = {"w": Operand(normal(3), requires_grad=True)}
    row = an_add(
        statement="seen(w.grad)\n(w * w).sum().backward()", arrays="", operands=operands, result="w.grad",
        reset="w.grad = None", direction="both",
    )  # fmt: skip
    library = Library(OURS, "cpu")
    names = library.names()
    library.names = lambda: names | {"seen": seen.append}  # type: ignore[method-assign]
    found = Measurement([library], Effort(rounds=2, row_seconds=0), 1).row(row)
    assert found.note == "" and len(seen) > 3
    assert set(seen) == {None}


def test_what_is_set_up_is_made_once_and_is_there_for_the_statement() -> None:
    seen: list[bool] = []
    row = an_add(statement="c + c", arrays="", setup="seen(a is not b)\nc = a + b", counted=False)
    library = Library(OURS, "cpu")
    names = library.names()
    library.names = lambda: names | {"seen": seen.append}  # type: ignore[method-assign]
    found = Measurement([library], Effort(rounds=2, row_seconds=0), 1).row(row)
    assert found.note == "" and seen == [True]


def test_small_calls_have_names_of_their_own_and_shapes_enough_for_all_rounds() -> None:
    assert len({call.name for call in SMALL_CALLS}) == len(SMALL_CALLS) >= 40
    assert most_rounds() >= Effort().rounds
    assert {call.bar for call in NEW_SHAPE_CALLS} == {10.0}
    assert max(call.bar for call in SMALL_CALLS) == 2.0
    assert set(MEAN_BARS) <= set(SUITES)


@pytest.mark.parametrize(
    "scale", [Scale(), Scale(quick=True), Scale("cuda"), Scale("cuda", rehearsal=True)], ids=str
)
def test_rows_have_names_of_their_own(scale: Scale) -> None:
    found = list(all_workloads(list(SUITES), scale))
    keys = [(w.suite, w.operator, w.name, w.size, w.dtype, w.direction) for w in found]
    assert len(set(keys)) == len(keys)
    assert {w.suite for w in found} == set(SUITES)


def test_every_row_runs_and_agrees_with_numpy(
    perf: Perf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.json"
    assert perf("run", "--rehearse", "--threads", 1, "--peers", "numpy", "-o", path) == 0, capsys.readouterr()
    found = read_results(path)
    assert (found.complete, found.rehearsal) == (True, True)
    assert {row.suite for row in found.rows} == set(SUITES)
    without_mpi = set() if tt.distributed.is_mpi_available() else {"distributed"}
    assert [
        (str(row.key), row.note)
        for row in found.rows
        if (row.note or not row.samples) and row.suite not in without_mpi
    ] == []
    printed = capsys.readouterr()
    assert "threads" in printed.err and "a rehearsal: its times say nothing" in printed.out


def test_every_row_agrees_with_pytorch(perf: Perf, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: no values to compare with")
    path = tmp_path / "r.json"
    suites = [
        name for name in SUITES if name not in ("import", "end_to_end", "chains")
    ]  # PyTorch's optimizers import for seconds, and its compiler takes them
    assert perf("run", "--rehearse", "--threads", 1, "--peers", "torch", "--suite", *suites, "-o", path) == 0
    found = read_results(path)
    assert [(str(row.key), row.note) for row in found.rows if row.note] == []
    assert all("torch" in row.samples for row in found.rows if row.suite != "allocator")


def test_ctrl_c_leaves_what_was_done(
    perf: Perf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = Measurement.row
    calls = []

    def interrupted(self: Measurement, workload: Workload) -> Row:
        calls.append(workload)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return measured(self, workload)

    monkeypatch.setattr(Measurement, "row", interrupted)
    path = tmp_path / "r.json"
    assert perf("run", "--rehearse", "--peers", "--suite", "overhead", "-o", path) == 130
    found = read_results(path)
    assert (len(found.rows), found.complete) == (2, False)
    printed = capsys.readouterr()
    assert "INCOMPLETE: 2 of 2 benchmarks" in printed.out
    assert f"interrupted; {path} has what was done" in printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--suite", "speed"), "no suite is called 'speed'; there are overhead, elementwise"),
        (("--rows", "("), "--rows '(' is no regular expression"),
        (("--rows", "nothing is called so"), "matches 'nothing is called so'"),
        (("--peers", "jax"), "invalid choice: 'jax'"),
        (("--peers", "cupy"), "the peer cupy "),
        (("--device", "cuda"), "no CUDA GPU is available here"),
        (("--threads", "0"), "--threads must be positive, got 0"),
        (("--threads", "100000"), "this process may use"),
        (("--precision", "-1"), "--precision must be positive, got -1.0"),
        (("-o", "/proc/no/such/file.json"), "cannot write /proc/no/such/file.json"),
    ],
)
def test_bad_input_is_refused_with_status_2(
    perf: Perf, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...], message: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(run_module.tt.cuda, "is_available", lambda: False)
    assert perf("run", "--rehearse", "--rows", "elementwise: relu", *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_missing_peer_is_named(
    perf: Perf, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run_module.load_libraries.__globals__["importlib"].util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torch" else found(name))
    assert perf("run", "--peers", "torch") == 2
    assert "the peer torch is not installed: install it, or name others by --peers" in capsys.readouterr().err
    assert perf("run", "--list", "--suite", "attention") == 0


def test_a_simulated_device_runs_every_row_and_its_times_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="triton has no wheel for this platform")
    environment = os.environ | {"TRITEN_CUDA": "interpret"}
    base = [sys.executable, "-P", "-m", "triten.perf", "run", "--device", "cuda", "--peers", "--rows"]
    refused = subprocess.run([*base, "a"], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "whose times say nothing: --rehearse runs every benchmark" in refused.stderr
    rows = "pointwise: a . b|relu float32|sum of rows float32|engine: two leaves"
    done = subprocess.run(
        [*base, rows, "--rehearse", "--graph", "-o", "r.json"], capture_output=True, text=True, env=environment,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = read_results(tmp_path / "r.json")
    assert found.machine["gpu"] and {row.device for row in found.rows} == {"cuda"}
    assert {row.suite for row in found.rows} == {"overhead", "elementwise", "reduction", "autograd"}
    assert [row.note for row in found.rows if row.note] == []


def test_the_table_has_ratios_rates_limits_and_means() -> None:
    rows = [
        Row("conv", "c", name, "1", "float32", "cpu", bytes=2000, flops=4000,
            samples={"triten": [ours] * 7, "torch": [1e-6] * 7}, bar=Bar("torch", 2.0))
        for name, ours in (("fast", 1e-6), ("slow", 4e-6))
    ]  # fmt: skip
    result = Result(
        {}, {}, {"confidence": 0.95}, limits=Limits(4e9, {"float32": 1e10}), rows=rows, complete=True
    )
    lines = format_result(result).splitlines()
    fast = next(line for line in lines if line.startswith("fast"))
    assert fast.split() == ["fast", "1", "float32", "1.00", "0%", "7", "1.00", "[1.00,", "1.00]", "2.00", "4.00", "50%",
                            "2.00", "met"]  # fmt: skip
    assert next(line for line in lines if line.startswith("slow")).endswith("missed")
    assert geometric_means(rows, "torch") == {"conv": (2, pytest.approx(2.0))}
    assert "conv: geometric mean of 2 ratios to torch: 2.00 (target 2.00, aim 1.30: target met)" in lines
    assert "complete: 2 of 2 benchmarks timed: 1 met, 1 missed" in lines


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ([1.0] * 9, "met"),
        ([3.0] * 9, "MISSED"),
        ([1.5, 1.6, 1.7, 1.8, 1.9, 2.1, 2.2, 2.3, 2.4], "unsure"),
        ([1.0] * 5, "unsure"),  # too few for an interval
    ],
)
def test_a_verdict_whose_interval_contains_the_bar_is_unsure(ours: list[float], verdict: str) -> None:
    samples = {"triten": ours, "torch": [1.0] * len(ours)}
    for bar in (Bar("torch", 2.0), Bar(None, 2.0)):
        row = Row("conv", "c", "n", "1", "float32", "cpu", samples=samples, bar=bar)
        assert row.derived(Limits(), 0.95)["verdict"] == row.verdict == verdict
        text = format_result(Result({}, {}, {"confidence": 0.95}, rows=[row], complete=True))
        assert text.splitlines()[5].endswith(shown_verdict(verdict))
        said = "1 inconclusive (inconclusive: the target is within the interval)"
        assert (said in text) is (verdict == "unsure")
    assert Row("conv", "c", "n", "1", "float32", "cpu", samples=samples).verdict == ""
    assert Row("conv", "c", "n", "1", "float32", "cpu", bar=Bar("torch", 2.0)).verdict == ""


class Processes:
    """Stands for the processes of a run: the n-th writes the n-th result, and ends with its status."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *outcomes: tuple[int, list[float]]) -> None:
        self.outcomes = list(outcomes)
        self.rows: list[str] = []
        monkeypatch.setattr(processes, "_run", self)

    def __call__(self, arguments: list[str]) -> int:
        self.rows.append(arguments[arguments.index("--rows") + 1] if "--rows" in arguments else "")
        assert arguments[-4:-2] != ["--processes", "1"] or arguments[-2] == "-o"
        status, ours = self.outcomes.pop(0)
        rows = [
            Row("overhead", "add", name, "1", "float32", "cpu", samples={"triten": [time], "torch": [1.0]},
                bar=Bar("torch", 1.0))
            for name, time in zip(("a + b", "w [1]"), ours, strict=bool(ours))
            if not self.rows[-1] or name in self.rows[-1].replace("\\", "")
        ]  # fmt: skip
        if ours:
            Result({}, {}, {"confidence": 0.95}, rows=rows, complete=status == 0).write(Path(arguments[-1]))
        return status


def test_a_whole_run_is_made_of_processes_and_rows_at_their_bar_get_more(
    perf: Perf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    near = [0.9, 1.1, 0.95, 1.05, 0.9, 1.1]
    ran = Processes(monkeypatch, *((0, [0.5, time]) for time in [*near, *near]))
    assert perf("run", "--suite", "overhead", "--processes", 6, "-o", tmp_path / "r.json") == 0
    assert ran.rows[:6] == [""] * 6
    assert set(ran.rows[6:]) == {r"^(?:overhead:\ add:\ w\ \[1\]\ 1\ float32\ forward)$"}
    found = read_results(tmp_path / "r.json")
    assert [(row.name, len(row.samples["triten"]), row.verdict) for row in found.rows] == [
        ("a + b", 6, "met"),
        ("w [1]", 12, "unsure"),
    ]
    assert (found.complete, found.settings["processes"]) == (True, 6)
    assert "samples are medians of processes, 6 or more" in capsys.readouterr().out


def test_what_processes_did_until_they_were_interrupted_is_kept(
    perf: Perf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Processes(monkeypatch, (0, [0.5, 0.5]), (130, [0.6, 0.6]))
    assert perf("run", "--suite", "overhead", "-o", tmp_path / "r.json") == 130
    found = read_results(tmp_path / "r.json")
    assert (found.complete, [row.samples["triten"] for row in found.rows]) == (False, [[0.5, 0.6]] * 2)
    Processes(monkeypatch, (2, []))
    assert perf("run", "--suite", "overhead", "-o", tmp_path / "r.json") == 2
    assert perf("run", "--processes", 0) == 2


def test_rows_measured_by_two_real_processes(perf: Perf, tmp_path: Path) -> None:
    rows = "pointwise: a . b|a.sum.. 16"
    assert perf("run", "--rehearse", "--processes", 2, "--peers", "numpy", "--suite", "overhead", "--rows", rows,
                "-o", tmp_path / "r.json") == 0  # fmt: skip
    found = read_results(tmp_path / "r.json")
    assert {row.name for row in found.rows} >= {"a + b", "a.sum()"}
    assert all(len(times) == 2 for row in found.rows for times in row.samples.values())
    assert found.limits.copy_bytes_per_second


def test_operands_are_the_same_in_every_library() -> None:
    operand = Operand(normal(5, 3), "float64")
    ours = Library(OURS, "cpu").tensor(operand)
    assert ours.dtype.name == "float64"
    assert np.array_equal(ours.numpy(), Library("numpy", "cpu").tensor(operand))
