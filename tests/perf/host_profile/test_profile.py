"""`python -m triten.perf profile` profiles a program, and refuses files that are not programs.

The clock is the test's: time passes where the test says so, and the timer's signal comes then.
"""

import json
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from types import FunctionType, SimpleNamespace

import pytest

import triten as tt
from triten.perf import __main__ as command
from triten.perf.host_profile import sampling
from triten.perf.host_profile.layers import AUTOGRAD, KERNEL, LAYERS, ROOT, layer_of
from triten.perf.host_profile.sampling import BACKWARD, NO_OPERATOR, is_available, sampled
from triten.tests.shared.package_files import package_files

pytestmark = pytest.mark.skipif(not is_available(), reason="the system has no interval timer")


class Clock:
    """Seconds that pass by `tick`, at whose end the timer's signal comes."""

    def __init__(self):
        self.now = 0.0

    def tick(self, seconds):
        self.now += seconds
        if callable(
            signal.getsignal(signal.SIGALRM)
        ):  # otherwise nothing is sampled, and the signal would end us
            signal.raise_signal(signal.SIGALRM)

    @contextmanager
    def ticking(self, seconds, layers=frozenset(LAYERS)):
        """So many seconds pass in each function of the package that belongs to one of the layers."""

        def returned(frame, event, argument):
            if event == "return" and layer_of(frame.f_code.co_filename) in layers:
                self.tick(seconds)

        sys.setprofile(returned)
        try:
            yield
        finally:
            sys.setprofile(None)


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(sampling.time, "perf_counter", lambda: made.now)
    monkeypatch.setattr(sampling.signal, "setitimer", lambda *_: None)
    return made


@pytest.fixture
def profile(tmp_path, monkeypatch, capsys):
    """Return a function that profiles a program of the given text in this process."""
    monkeypatch.chdir(tmp_path)

    def run(source, *options, arguments=()):
        script = tmp_path / "program.py"
        script.write_text(source)
        return called(*options, str(script), *arguments)

    def called(*arguments):
        monkeypatch.setattr(sys, "argv", ["perf", "profile", *arguments])
        status = command.main()
        return SimpleNamespace(returncode=status, **capsys.readouterr()._asdict())

    run.called = called
    return run


PROGRAM = """
import sys
import triten as tt
assert sys.argv[1:] == ["--rounds", "200"], sys.argv
assert __name__ == "__main__"
x, w = tt.ones(400, 400), tt.ones(400, 400, requires_grad=True)
for _ in range(12):
    (x @ w).relu().sum().backward()
"""


def test_a_program_is_told_by_layer_operator_and_line(tmp_path, profile, clock):
    with clock.ticking(0.001):
        done = profile(PROGRAM, "-o", "found.json", arguments=("--rounds", "200"))
    assert done.returncode == 0, done.err
    for word in (*LAYERS, "operator", "line", "matmul", BACKWARD):
        assert word in done.out
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["samples"] > 10
    total = sum(found["layers"].values())
    assert (
        total
        == pytest.approx(found["seconds"])
        == pytest.approx(sum(sum(row.values()) for row in found["operators"].values()))
    )
    kernels = {name: row.get("kernel", 0.0) for name, row in found["operators"].items()}
    assert kernels[f"{BACKWARD}: mm"] > 0, "the gradient of a product is one"
    assert any(name.endswith("matmul") or name == "__matmul__" for name in kernels)


def test_a_failing_program_is_shown_with_its_own_traceback_and_its_profile(profile, clock):
    with clock.ticking(0.001):
        done = profile("import triten as tt\ntt.ones(2) + 1\nraise ValueError('mine')\n")
    assert done.returncode == 1
    assert "ValueError: mine" in done.err and "runpy" not in done.err
    assert "outside" in done.out


@pytest.mark.parametrize(("code", "status"), [("0", 0), ("3", 1), ("'words'", 1), ("None", 0)])
def test_the_programs_exit_status(profile, code, status):
    done = profile(f"import sys\nsys.exit({code})\n")
    assert done.returncode == status
    assert ("words" in done.err) == (code == "'words'")


def test_it_is_a_command(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import sys\nsys.exit(3)\n")
    run = [sys.executable, "-P", "-m", "triten.perf", "profile", str(script)]
    assert subprocess.run(run, capture_output=True, cwd=tmp_path).returncode == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["missing.py"], "no such script: missing.py"),
        (["--interval", "0", __file__], "--interval must be from 0.1 to 10000 ms, got 0"),
        (["--top", "0", __file__], "--top must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_profiled_is_said_in_a_line(profile, options, says):
    done = profile.called(*options)
    assert done.returncode == 2
    assert done.err.strip() == f"profile: {says}"


def test_time_goes_to_what_takes_it(clock):
    x = tt.ones(60, 60)
    with sampled(0.001) as found:
        with clock.ticking(0.004, {KERNEL}):
            x @ x
        clock.tick(0.05)
    product = max(found.operators, key=lambda name: found.operators[name]["kernel"])
    assert re.search("matmul|mm", product)
    calls = found.operators[product]["kernel"] / 0.004
    assert calls == pytest.approx(round(calls)) and calls > 0
    assert found.operators[NO_OPERATOR] == {"outside": pytest.approx(0.05)}
    assert found.seconds == pytest.approx(0.05 + 0.004 * calls) and found.overhead == 0.0


def test_every_file_of_the_package_has_a_layer():
    for path in package_files():
        expected = path.relative_to(ROOT).parts[0] == "perf"
        assert (layer_of(str(path)) is None) == expected, path


def test_recorders_belong_to_autograd() -> None:
    def names(function):
        """Return the files of the functions in a plan."""
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        inner = [each for each in cells if isinstance(each, FunctionType)]
        return [function.__code__.co_filename, *(name for each in inner for name in names(each))]

    entry = tt.ops.aten.mul.Tensor._entry
    x = tt.ones(2, requires_grad=True)
    plan = entry.plan(entry.key_set_of((x, 2.0)), (x, 2.0))
    found = [name for name in names(plan) if name.startswith("<triten record aten::mul.Tensor")]
    assert found and {layer_of(name) for name in found} == {AUTOGRAD}


def test_an_environment_in_the_checkout_is_not_the_package():
    assert layer_of(str(ROOT.parent / ".venv/lib/python3.11/site-packages/numpy/__init__.py")) is None


def test_the_timer_is_given_back():
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(ZeroDivisionError), sampled(0.001):
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    with pytest.raises(ValueError, match="interval must be positive, got -1"), sampled(-1):
        pass
