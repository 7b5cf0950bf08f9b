"""`tt.cuda.precompile` plans a function without running its kernels, and compiles them in other processes."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import triten as tt
from triten.cuda.precompilation import make_plan

if sys.platform != "linux" and importlib.util.find_spec("triton") is None:
    pytest.skip("triton has no wheel for this platform", allow_module_level=True)

PROGRAM = Path(__file__).with_name("precompiled.py")
SCRIPT = """
import sys, triten as tt
assert __name__ == "__main__" and sys.argv[1:] == ["--epochs", "2"], sys.argv
x = tt.ones(64, 128, device="cuda", requires_grad=True)
for epoch in range(int(sys.argv[2])):
    loss = x.exp()
    loss.backward(loss)
    print("loss", loss[0, 0].item())
"""


def run(folder, *arguments, **variables):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TRIT")}
    kept |= {"TRITEN_CACHE_DIR": str(folder / "ours"), "TRITON_CACHE_DIR": str(folder / "theirs")}
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        env=kept | variables,
        capture_output=True,
        text=True,
        timeout=600,
        cwd=folder,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("precompiled")


@pytest.fixture(scope="module")
def found(folder):
    done = run(folder, PROGRAM)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_kernels_are_compiled_once(found):
    cold, warm = found["cold"], found["warm"]
    assert cold["planned"] == cold["compiled"] > 1 and cold["cached"] == 0
    assert cold["launches"] > cold["planned"], "two steps launch the same kernels"
    assert (warm["planned"], warm["compiled"], warm["cached"]) == (cold["planned"], 0, cold["planned"])
    assert warm["launches"] == cold["launches"] and not warm["stopped"]


def test_progress_counts_kernels(found):
    count = found["cold"]["planned"]
    assert [done for done, _, _ in found["cold"]["progress"]] == list(range(count + 1))
    assert {total for _, total, _ in found["cold"]["progress"]} == {count}
    assert "dense" in {name for _, _, name in found["cold"]["progress"]}
    assert found["warm"]["progress"] == [[0, 0, ""]]


def test_the_calling_process_keeps_its_state_and_has_no_device(found):
    assert found["state"] == [0, False, False]


@pytest.mark.parametrize("name", ["read", "shape"])
def test_reading_a_value_is_an_error_that_says_what_to_do(found, name):
    kind, text, notes = found[name]
    assert kind == "UnknownValueError" and "tt.cuda.is_precompiling()" in text and "placeholder=1.0" in text
    assert "precompiled.py" in notes[0], "the note has the program's line"


def test_reads_return_the_placeholder_in_each_dtype(found):
    assert found["placeholder"]["planned"] == 0, "the program compares the values"


def test_errors_of_the_function_pass_on(found):
    assert found["error"][:2] == ["KeyError", "'name'"] and "broken(KeyError" in found["error"][2][0]
    kind, text, _ = found["odd error"]
    assert kind == "RuntimeError" and text.endswith("Unpicklable: first")


def test_each_kernel_that_does_not_compile_is_named(found):
    kind, text, _ = found["faulty"]
    assert kind == "RuntimeError" and text.startswith("precompile: 2 of ")
    assert "kernel 'dense': the compiler's process ended (signal SIGABRT)" in text
    assert "kernel 'reduce': ValueError: no such instruction" in text


def test_a_device_in_use_is_not_touched(folder, found):
    done = run(folder, PROGRAM.with_name("precompiled_in_use.py"), TRITEN_CUDA="emulate")
    assert done.stdout == "3 3 [0.0, 0.0, 0.0]\n", done.stderr


def test_the_command_compiles_a_script_until_it_reads_a_value(folder, found):
    (folder / "train.py").write_text(SCRIPT)
    command = ["-m", "triten.precompile", "--target", "sm_90", "--workers", "1"]
    done = run(folder, *command, "train.py", "--epochs", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" and ": 0 compiled, 3 cached" in done.stderr, done.stderr
    assert "the plan ended early, since a value of a CUDA tensor is read: " in done.stderr
    assert 'train.py", line 8: print("loss", loss[0, 0].item())' in done.stderr
    done = run(folder, *command, "--placeholder", "0.5", "--patience", "2", "train.py", "--epochs", "2")
    assert done.stdout.startswith("loss 0.5\n") and "since 2 launches needed no new kernel" in done.stderr


def test_the_command_names_what_is_missing(folder):
    done = run(folder, "-m", "triten.precompile", "--target", "91", "train.py")
    assert done.returncode == 2 and "expected a compute capability among 80, 86, 89, 90" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "sm_1"}, "target: expected a compute capability among 80,"),
        ({"target": 90, "cuda_version": "12."}, "cuda_version: expected a version such as '12.8', got '12.'"),
        ({"target": 90, "workers": 0}, "workers: expected a positive number, got 0"),
    ],
)
def test_wrong_arguments_are_refused(monkeypatch, arguments, message):
    monkeypatch.setenv("TRITEN_CUDA", "")
    with pytest.raises(ValueError, match=message):
        make_plan(**arguments)


def test_what_cannot_be_precompiled_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="steps: expected a positive number, got 0"):
        tt.cuda.precompile(print, target=90, steps=0)
    monkeypatch.setenv("TRITEN_CUDA", "interpret")
    with pytest.raises(RuntimeError, match="TRITEN_CUDA=interpret interprets kernels"):
        tt.cuda.precompile(print, target=90)
    monkeypatch.setenv("TRITEN_CACHE_MAXSIZE", "0")
    with pytest.raises(RuntimeError, match="there is no disk cache"):
        tt.cuda.precompile(print, target=90)
