"""The conformance run's own rules, which need no PyTorch: the list of known differences, and the exit status."""

import subprocess
import sys

import pytest

import triten as tt
from triten.tests.conformance import known_differences
from triten.tests.conformance.command import MODES

BLOCKED = """
import importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torch" else found(name, *rest)
from triten.tests.conformance.command import main
sys.exit(main([]))
"""


def test_every_known_difference_names_a_mode_and_a_reason():
    known = known_differences.read()
    assert known
    for (mode, operator), difference in known.items():
        assert mode.partition("/")[0] in (*MODES, "fuzz"), f"{operator}: {mode} is no mode"
        assert difference.reason.endswith("."), f"{mode} {operator}: a reason is a sentence"


def test_a_difference_without_a_reason_is_refused(tmp_path):
    path = tmp_path / "known.txt"
    path.write_text("# a comment\n\nout add\n")
    with pytest.raises(
        ValueError, match=r"known.txt, line 3: mode, operator and reason expected, 'out add' given"
    ):
        known_differences.read(path)
    path.write_text("out add Because.\n")
    assert known_differences.read(path)["out", "add"].reason == "Because."


def test_without_pytorch_the_command_says_so():
    done = subprocess.run([sys.executable, "-P", "-c", BLOCKED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "needs PyTorch as its oracle" in done.stderr


def test_help_needs_no_pytorch():
    done = subprocess.run(
        [sys.executable, "-P", "-m", "triten.tests.conformance", "--help"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0
    assert all(mode in done.stdout for mode in MODES)


def test_a_difference_may_be_one_of_a_kind_of_case(tmp_path):
    path = tmp_path / "known.txt"
    path.write_text("out add Everywhere.\nout/on-meta square There alone.\n")
    known = known_differences.read(path)
    assert known_differences.reason_for(known, "out", "out wide", "add") == "Everywhere."
    assert known_differences.reason_for(known, "out", "out on meta", "square") == "There alone."
    assert known_differences.reason_for(known, "out", "out wide", "square") == ""
    assert known_differences.reason_for(known, "errors", "error input", "add") == ""
    path.write_text("out/wide,on-meta add,sub Of several.\n")
    known = known_differences.read(path)
    assert {(mode, operator) for mode, operator in known} == {
        (f"out/{kind}", operator) for kind in ("wide", "on-meta") for operator in ("add", "sub")
    }


def test_what_rounds_differently_must_be_as_near():
    torch = pytest.importorskip("torch")
    from triten.tests.conformance.nearness import as_near, widened

    x = torch.tensor([1 / 3], dtype=torch.float32)
    exact = lambda: torch.tensor([1 / 3, 70000.0], dtype=torch.float64)  # noqa: E731
    theirs = torch.tensor([0.3340, float("inf")], dtype=torch.float16)
    for ours, expected in (
        ([0.33325, float("inf")], True),
        ([0.3340, float("inf")], True),
        ([0.3350, float("inf")], False),
        ([0.33325, 65504.0], False),
    ):
        assert as_near(exact, theirs, tt.tensor(ours, dtype=tt.float16)) is expected, ours
    assert widened((x, [torch.float16, 2]))[0].dtype is torch.float64
    assert widened((x, [torch.float16, 2]))[1] == [torch.float64, 2]


def test_indices_are_free_among_equal_values_alone():
    torch = pytest.importorskip("torch")
    from torch.testing._internal.common_methods_invocations import op_db

    from triten.tests.conformance.ties import differ_in_ties_alone

    sort = next(operator for operator in op_db if operator.name == "sort")
    x = torch.tensor([2.0, 1.0, 2.0])
    theirs = x.sort()
    for order, named, expected in (
        ([1, 2, 0], {}, True),
        ([1, 2, 0], {"stable": True}, False),
        ([1, 2, 2], {}, False),
        ([2, 1, 0], {}, False),
        ([1, 2, 3], {}, False),
    ):
        ours = (tt.tensor([1.0, 2.0, 2.0]), tt.tensor(order))
        assert differ_in_ties_alone(sort, [x], named, theirs, ours) is expected, order


def test_speeds_are_summed_up_by_their_geometric_mean_and_the_slow_ones_listed():
    pytest.importorskip("torch")
    from triten.tests.conformance.speed.survey import Row, summary

    rows = [Row("add", "small", "2x2", 2e-6, 1e-6), Row("mul", "small", "2x2", 8e-6, 1e-6)]
    lines = summary(rows).splitlines()
    assert lines[0].startswith("speed small: 4.000 times PyTorch's time (geometric mean of 2 operators")
    assert lines[1:] == ["    8.0 small mul(2x2): 8.0 us, PyTorch 1.0 us"]


def test_large_operands_grow_from_the_samples():
    torch = pytest.importorskip("torch")
    from torch.testing._internal.common_methods_invocations import op_db

    from triten.tests.conformance.speed.operands import large, small

    operator = next(operator for operator in op_db if operator.name == "atan2")
    first = next(iter(small(operator)))
    grown = list(next(large(operator)))
    assert first.positional[0].numel() < grown[0].positional[0].numel() < grown[-1].positional[0].numel()
    assert grown[-1].positional[0].numel() > 1 << 19
    for operands in grown:
        torch.broadcast_tensors(*[operands.positional[0], *operands.positional[1:]])
        low, high = first.positional[0].min(), first.positional[0].max()
        assert ((operands.positional[0] >= low) & (operands.positional[0] <= high)).all()


@pytest.mark.parametrize("text", ["0/3", "4/3"])
def test_a_part_that_is_none_is_refused(text, capsys):
    from triten.tests.conformance.command import _parser

    with pytest.raises(SystemExit):
        _parser().parse_args(["speed", "--part", text])
    assert "I/N with I from 1 to N expected" in capsys.readouterr().err


@pytest.mark.parametrize(("mode", "name"), [("modules", "nn.BatchNorm1d"), ("optimizers", "Adagrad")])
def test_classes_are_held_against_pytorch(mode, name, capsys):
    pytest.importorskip("torch")
    from triten.tests.conformance.command import main

    assert main([mode, "--ops", f"^{name}$"]) == 0
    assert f"conformance {mode} cpu float64: 1 of 1 operators pass" in capsys.readouterr().out
