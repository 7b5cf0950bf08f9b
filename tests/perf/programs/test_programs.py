"""Programs of other people: the harness on a small one of ours, and the page that it writes."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from triten.perf.programs import command
from triten.perf.programs.catalogue import PROGRAMS
from triten.perf.programs.comparison import disagreements, distance
from triten.perf.programs.contest import (
    MOVES,
    Effort,
    StoppedError,
    Worker,
    build,
    hold_contest,
    moved_results,
    triten_command,
)
from triten.perf.programs.program import SCRIPTS
from triten.perf.programs.table import gaps, page, summary
from triten.perf.programs.training_steps import TRAINING_STEPS, operator_table, operators_of
from triten.perf.programs.worker import sketch

sys.path.insert(0, str(Path(__file__).parent))
from small_program import SECONDS, SMALL, read_record, results

sys.path.pop(0)


def test_a_program_gives_what_pytorch_gave(tmp_path: Path) -> None:
    found, expected = results(triten_command(), tmp_path), read_record()
    assert {"forward 0", "forward 1", "gradient head.bias", "losses"} <= expected.keys()
    assert disagreements(found, expected, 1e-5) == []


def test_a_library_agrees_with_itself_by_way_of_its_file_of_weights(tmp_path: Path) -> None:
    # The stand-in for PyTorch is a Python in which torch is triten.
    stand_in = tmp_path / "python"
    stand_in.write_text(f'#!/bin/sh\nshift\nexec "{sys.executable}" -P -m triten.as_torch "$@"\n')
    stand_in.chmod(0o755)
    outcome, trace = hold_contest(SMALL, "1", str(stand_in), None, Effort(SECONDS, 2, 1e-6))
    assert (outcome.status, outcome.gap, trace) == ("agrees", "", "")
    assert outcome.ratio is not None and min(outcome.seconds.values()) > 0
    assert set(outcome.peak_bytes) == {"torch", "triten"} and min(outcome.peak_bytes.values()) > 1 << 20


def test_operators_of_both_libraries_are_counted(tmp_path: Path) -> None:
    stand_in = tmp_path / "python"
    stand_in.write_text(f'#!/bin/sh\nshift\nexec "{sys.executable}" -P -m triten.as_torch "$@"\n')
    stand_in.chmod(0o755)
    operators = operators_of(
        replace(TRAINING_STEPS[0], model="perceptron(784, 8, 10)"), str(stand_in), SECONDS
    )
    assert operators["torch"]["aten::addmm"][1] == operators["triten"]["aten::addmm"][1] == 2
    assert len(operator_table(operators, 3).splitlines()) == 5


def test_what_stops_a_program_is_told(tmp_path: Path) -> None:
    broken = replace(SMALL, call="model(*inputs)['missing name']")
    with Worker(triten_command(), None, SECONDS) as worker:
        build(worker, broken, tmp_path, make_weights=True)
        with pytest.raises(StoppedError, match="KeyError: 'missing name'") as stopped:
            worker.ask("results", file=str(tmp_path / "r.npz"))
    assert "Traceback" in stopped.value.answer["traceback"]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("import os; os._exit(7)", "ended with status 7"),
        (
            "import sys; print('last words', file=sys.stderr, flush=True); import os; os._exit(7)",
            "last words",
        ),
    ],
)
def test_a_process_that_ends_is_told(tmp_path: Path, statement: str, said: str) -> None:
    with (
        Worker(triten_command(), None, SECONDS) as worker,
        pytest.raises(StoppedError, match=said),
    ):
        build(worker, replace(SMALL, setup=statement), tmp_path, make_weights=True)


def test_a_process_that_hangs_is_ended(tmp_path: Path) -> None:
    with (
        Worker(triten_command(), None, 0.2) as worker,
        pytest.raises(StoppedError, match="took more than 0 seconds"),
    ):
        build(worker, replace(SMALL, setup="import time; time.sleep(600)"), tmp_path, make_weights=True)
    assert worker.process.returncode is not None


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("forward 0", lambda x: x + 1e-3, "forward 0: differs by"),
        ("forward 1", lambda x: x + 1, "forward 1: 100.00% of the elements differ"),
        ("gradient a", lambda x: x * 1.01, "gradient a: differs by"),
        ("losses", lambda x: x * 1.01, "losses: differs by"),
        ("losses", lambda x: x * np.nan, "losses: differs by inf"),
        ("forward 0", lambda x: x[:1], r"forward 0: shape \[1\], PyTorch's \[2\]"),
    ],
)
def test_what_differs_is_named(name, change, said) -> None:
    expected = {
        "forward 0": np.array([1.0, np.nan]),
        "forward 1": np.array([1, 2]),
        "gradient a": np.array([5.0, 3.0, 4.0]),
        "gradient b": np.array([1e-9, 1e-9]),
        "losses": np.array([2.0, 1.5, 1.0]),
    }
    assert disagreements(expected, expected, 1e-4) == []
    assert disagreements(expected | {"gradient b": np.array([3e-9, 3e-9])}, expected, 1e-4) == []
    lines = disagreements(expected | {name: change(expected[name])}, expected, 1e-4)
    assert len(lines) == 1
    assert re.match(said, lines[0])
    assert (
        "missing ['losses']"
        in disagreements({k: v for k, v in expected.items() if k != "losses"}, expected, 1)[0]
    )


def test_what_amplifies_rounding_may_differ_as_much_as_pytorch_from_itself() -> None:
    expected = {
        "forward 0": np.array([1.0, -2.0]),
        "losses": np.array([1.0, 0.5]),
        "forward 1": np.array([1, 2]),
    }
    found = expected | {"losses": np.array([1.0, 0.51])}
    still = {name: each.copy() for name, each in expected.items()}
    assert disagreements(found, expected, 1e-4, [still]) == disagreements(found, expected, 1e-4)
    assert disagreements(found, expected, 1e-4, [still, still | {"losses": np.array([1.0, 0.504])}]) == []
    assert len(disagreements(found, expected, 1e-4, [still | {"losses": np.array([1.0, 0.502])}])) == 1
    assert len(disagreements(found, expected, 1e-4, [still | {"losses": np.array([1.0, np.nan])}])) == 1
    assert len(disagreements(expected | {"forward 1": np.array([1, 3])}, expected, 1e-4, [still])) == 1


@pytest.mark.parametrize("size", [1, 65, 5000])
def test_the_sketch_of_a_gradient_keeps_distances(size: int) -> None:
    generator = np.random.default_rng(size)
    a, b = generator.standard_normal(size), generator.standard_normal(size)
    assert sketch(a)[0] == np.linalg.norm(a)
    assert distance(sketch(a), sketch(a)) == 0
    assert 0.6 < distance(sketch(a), sketch(b)) / np.linalg.norm(a - b) < 1.5


def test_a_kink_moves_gradients_as_far_in_other_directions() -> None:
    # Rounding decides on which side of a kink a value lies. Either side moves the gradient by about 3%.
    generator = np.random.default_rng(0)
    gradient = generator.standard_normal(4000)
    ours, moved = (sketch(gradient + 0.03 * generator.standard_normal(4000)) for _ in range(2))
    expected, still = {"gradient a": sketch(gradient)}, {"gradient a": sketch(gradient)}
    assert len(disagreements({"gradient a": ours}, expected, 1e-4, [still])) == 1
    assert disagreements({"gradient a": ours}, expected, 1e-4, [still, {"gradient a": moved}]) == []


def test_weights_move_by_their_last_bit(tmp_path: Path) -> None:
    stand_in = tmp_path / "python"
    stand_in.write_text(f'#!/bin/sh\nshift\nexec "{sys.executable}" -P -m triten.as_torch "$@"\n')
    stand_in.chmod(0o755)
    with Worker(triten_command(), None, SECONDS) as worker:
        build(worker, SMALL, tmp_path, make_weights=True)
        worker.ask("results", file=str(tmp_path / "results.npz"))
    expected = dict(np.load(tmp_path / "results.npz"))
    several = moved_results(SMALL, str(stand_in), None, Effort(SECONDS, 0), tmp_path)
    assert len(several) == MOVES
    for moved in several:
        assert not np.array_equal(moved["forward 0"], expected["forward 0"])
        assert disagreements(moved, expected, 1e-4) == []


def test_every_program_has_a_pinned_package_and_a_name_of_its_own() -> None:
    versions = command.pinned_versions()
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS) >= 40
    for program in PROGRAMS:
        assert versions.get(program.package), program
        assert not program.script or (SCRIPTS / program.script).is_file(), program
    assert "torch" not in versions and "numpy" not in versions  # they come from the environments


def test_the_page_says_what_the_result_file_says() -> None:
    report = json.loads(command.RESULTS.read_text())
    assert page(report) == command.PAGE.read_text()
    assert [row["name"] for row in report["results"]] == [program.name for program in PROGRAMS]


def test_gaps_are_counted_and_the_page_escapes_them() -> None:
    row = {
        "name": "a_b",
        "package": "a",
        "version": "1",
        "at": "x.py:3",
        "during": "run",
        "seconds": {},
        "ratio": None,
        "amplifies": False,
    }
    rows = [
        {**row, "status": "stops", "gap": "KeyError: 'a|b'", "peak_bytes": {}},
        {**row, "status": "stops", "gap": "KeyError: 'a|b'", "peak_bytes": {}},
        {**row, "status": "differs", "gap": "losses", "peak_bytes": {}},
        {**row, "status": "not comparable", "gap": "x", "peak_bytes": {}},
        {**row, "status": "agrees", "gap": "", "peak_bytes": {"torch": 2 << 20, "triten": 1 << 20}},
    ]
    assert gaps(rows) == [("KeyError: 'a|b'", 2), ("losses", 1)]
    assert summary(rows) == {"programs": 4, "agree": 1, "differ": 1, "stop": 2, "not comparable": 1}
    report = {
        "measured_at": "2030-01-02T00:00:00", "versions": {"triten": "1"},
        "machine": {"processor": "p", "python": "q"}, "results": rows,
    }  # fmt: skip
    text = page(report)
    assert "1 of 4 give" in text and r"KeyError: 'a\|b'" in text
    assert r"| a\_b | a 1 |  |  |  | 1 | 2 |" in text
