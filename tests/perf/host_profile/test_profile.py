"""`python -m triten.perf profile`: what it says of a program, and of what is no program."""

import json
import re
import subprocess
import sys
import time

import pytest

import triten as tt
from triten.perf.host_profile.layers import LAYERS, ROOT, layer_of
from triten.perf.host_profile.sampling import BACKWARD, NO_OPERATOR, is_available, sampled

pytestmark = pytest.mark.skipif(not is_available(), reason="the system has no interval timer")


def profile(tmp_path, source, *options, arguments=()):
    script = tmp_path / "program.py"
    script.write_text(source)
    command = [sys.executable, "-P", "-m", "triten.perf", "profile", *options, str(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)


PROGRAM = """
import sys
import triten as tt
assert sys.argv[1:] == ["--rounds", "200"], sys.argv
assert __name__ == "__main__"
x, w = tt.ones(400, 400), tt.ones(400, 400, requires_grad=True)
for _ in range(12):
    (x @ w).relu().sum().backward()
"""


def test_a_program_is_told_by_layer_operator_and_line(tmp_path):
    done = profile(tmp_path, PROGRAM, "-o", "found.json", arguments=("--rounds", "200"))
    assert done.returncode == 0, done.stderr
    for word in (*LAYERS, "operator", "line", "matmul", BACKWARD):
        assert word in done.stdout
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


def test_a_failing_program_is_shown_with_its_own_traceback_and_its_profile(tmp_path):
    done = profile(tmp_path, "import time\ntime.sleep(0.05)\nraise ValueError('mine')\n")
    assert done.returncode == 1
    assert "ValueError: mine" in done.stderr and "runpy" not in done.stderr
    assert "outside" in done.stdout


@pytest.mark.parametrize(("code", "status"), [("0", 0), ("3", 1), ("'words'", 1), ("None", 0)])
def test_the_programs_exit_status(tmp_path, code, status):
    done = profile(tmp_path, f"import sys\nsys.exit({code})\n")
    assert done.returncode == status
    assert ("words" in done.stderr) == (code == "'words'")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["missing.py"], "no such script: missing.py"),
        (["--interval", "0", __file__], "--interval must be from 0.1 to 10000 ms, got 0"),
        (["--top", "0", __file__], "--top must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_profiled_is_said_in_a_line(tmp_path, options, says):
    command = [sys.executable, "-P", "-m", "triten.perf", "profile", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() == f"profile: {says}"


def test_time_goes_to_what_takes_it():
    x = tt.ones(600, 600)
    with sampled(0.001) as found:
        for _ in range(10):
            x @ x
        time.sleep(0.05)
    product = max(found.operators, key=lambda name: found.operators[name]["kernel"])
    assert re.search("matmul|mm", product)
    kernel = found.operators[product]["kernel"]
    assert kernel > 0.5 * sum(found.operators[product].values()), "a product is its kernel, mostly"
    assert found.operators[NO_OPERATOR]["outside"] >= 0.03, "sleeping is no operator's"


def test_every_file_of_the_package_has_a_layer():
    folders = [path for path in ROOT.iterdir() if (path / "__init__.py").exists()]
    assert len(folders) > 5
    for path in (file for folder in folders for file in folder.rglob("*.py")):
        inside = path.relative_to(ROOT).parts[0]
        expected = inside in ("perf", "tests", "examples")
        assert (layer_of(str(path)) is None) == expected, path


def test_the_timer_is_given_back():
    import signal

    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(ZeroDivisionError), sampled(0.001):
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    with pytest.raises(ValueError, match="interval must be positive, got -1"), sampled(-1):
        pass
