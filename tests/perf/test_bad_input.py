"""Every command refuses bad input with a one-line error and status 2, and measures nothing."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import triten as tt
from triten.perf import __main__ as command
from triten.perf.suite import results
from triten.perf.suite.results import Result, Row

SAMPLES = [1.0, 1.1, 0.9, 1.0, 1.2, 1.0, 1.1]

# Files in the folder, by name.
BAD_FILES = {
    "cut.json": ("damaged, or no result file: not JSON", lambda text: text[:200]),
    "empty.json": ("damaged, or no result file: not JSON", lambda text: ""),
    "binary.json": ("not UTF-8 at byte 0", lambda text: b"\xc8\xff\x00" * 100),
    "older.json": ("version 0 of the format is older than 1", lambda text: text.replace(": 1,", ": 0,", 1)),
    "newer.json": ("version 9 of the format is newer than 1", lambda text: text.replace(": 1,", ": 9,", 1)),
    "other.json": ("no result of `python -m triten.perf run`", lambda text: '{"format": "another"}'),
    "deep.json": ("not JSON", lambda text: "[" * 10_000),
    "digits.json": ("not JSON", lambda text: text.replace('"version": 1', f'"version": {"9" * 5000}')),
    "huge.json": ("larger than 0 MiB", lambda text: text + " " * (1 << 16)),
    "folder": ("Is a directory", None),
    "none.json": ("no such file", None),
}  # fmt: skip

# (arguments, what the message says)
REFUSED = [
    ("nosuch", "invalid choice: 'nosuch' (choose from 'run', 'compare'"),
    ("", "arguments are required: measurement"),
    ("run --suite speed", "no suite is called 'speed'; there are overhead"),
    ("run --suite", "argument --suite: expected at least one argument"),
    ("run --rows (", "--rows '(' is no regular expression"),
    ("run --rows nosuchrow", "matches 'nosuchrow'"),
    ("run --threads x", "invalid int value: 'x'"),
    ("run --threads -1", "--threads must be positive, got -1"),
    ("run --rounds 0", "--rounds must be positive, got 0"),
    ("run --precision nan", "--precision must be positive, got nan"),
    ("run --row-seconds -2", "--row-seconds must be positive, got -2.0"),
    ("run --device tpu", "invalid choice: 'tpu'"),
    ("run --device cuda", "no CUDA GPU is available here"),
    ("run --graph", "--graph replays CUDA graphs: it needs --device cuda"),
    ("run --python nosuch", "--python nosuch: there is no such program"),
    ("run --nope", "unrecognized arguments: --nope"),
    ("run --rehearse --peers -o folder", "cannot write folder: Is a directory"),
    ("run --rehearse --peers -o good.json/x.json", "cannot write good.json/x.json"),
    ("compare good.json", "expected two result files, BASE and NEW, got 1"),
    ("compare good.json good.json --threshold x", "invalid float value: 'x'"),
    ("compare good.json good.json --threshold nan", "--threshold must not be negative, got nan"),
    ("compare good.json good.json --relative-to jax", "no benchmark in common that was timed beside jax"),
    ("compare --git HEAD HEAD --turns -3", "--turns must be positive, got -3"),
    ("compare --git HEAD HEAD --suite speed", "no suite is called 'speed'"),
    ("compare --git HEAD HEAD --rows (", "--rows '(' is no regular expression"),
    ("compare --git HEAD HEAD --rows nosuchrow", "no benchmark of overhead matches 'nosuchrow'"),
    ("compare --git HEAD HEAD -o good.json", "cannot write good.json"),
    ("compare --git HEAD", "argument --git: expected 2 arguments"),
    ("report", "arguments are required: FILE"),
    ("report good.json", "needs -o FILE"),
    ("report good.json --format pdf", "invalid choice: 'pdf'"),
    ("report good.json --format json --threshold -1", "--threshold must not be negative, got -1.0"),
    ("report good.json -o folder", "cannot write folder"),
    ("report good.json -o good.json", "would be lost"),
    ("profile", "arguments are required: script"),
    ("profile none.py", "no such script: none.py"),
    ("profile folder", "no such script: folder"),
    ("profile --interval 0 script.py", "--interval must be from 0.1 to 10000 ms, got 0"),
    ("profile --interval nan script.py", "got nan"),
    ("profile --interval inf script.py", "got inf"),
    ("profile --interval 1e-9 script.py", "got 1e-09"),
    ("profile --interval x script.py", "invalid float value: 'x'"),
    ("profile --top 0 script.py", "--top must be at least 1, got 0"),
    ("profile -o folder script.py", "cannot write folder: it is a folder"),
    ("profile -o good.json/x.json script.py", "cannot write good.json/x.json"),
    ("memory --json folder", "cannot write folder: it is a folder"),
    ("memory --json", "argument --json: expected one argument"),
    ("graph", "needs a GPU"),
    ("graph --rounds -1", "--rounds must be positive, got -1"),
    ("graph --batch-size 0", "--batch-size must be positive, got 0"),
    ("graph --example none.py", "--example none.py: no such file"),
    ("graph --json folder", "cannot write folder"),
    ("launch --rounds 0", "--rounds must be positive, got 0"),
    ("launch --slice-ms -1", "--slice-ms must be positive, got -1.0"),
    ("launch --json folder", "cannot write folder"),
    ("aot --target 70", "invalid choice: 70"),
    ("aot --workers 0", "--workers must be positive, got 0"),
    ("aot --cache good.json --quick", "cannot write good.json"),
    ("aot --results good.json", "cannot write good.json"),
    ("aot --samples no.such.module", "--samples no.such.module cannot be loaded: No module named 'no'"),
    ("aot --samples none.py", "--samples none.py cannot be loaded"),
    ("aot --samples json", "--samples json has no samples()"),
    ("gpu", "no CUDA GPU is available here"),
    ("gpu --rows (", "--rows '(' is no regular expression"),
    ("gpu --rounds 0", "--rounds must be positive, got 0"),
    ("gpu --seconds -1", "--seconds must be positive, got -1.0"),
    ("gpu --row-seconds nan", "--row-seconds must be positive, got nan"),
    ("gpu --output folder", "cannot write folder: it is a folder"),
    ("gpu --output cut.json", "--output cut.json is there and no result file"),
    ("interconnect --ranks 1", "--ranks must be at least 2"),
    ("tune", "arguments are required: -o/--output"),
    ("tune -o table.json", "no CUDA GPU is available here"),
    ("tune -o table.json --rows (", "--rows '(' is no regular expression"),
    ("tune -o good.json", "--output good.json is there and no table"),
    ("tune -o folder", "cannot write folder: it is a folder"),
    ("tune -o table.json --seconds 0", "--seconds must be positive, got 0.0"),
    ("variants", "no CUDA GPU is available here"),
    ("variants --seconds nan", "--seconds must be positive, got nan"),
    ("variants --output folder", "cannot write folder: it is a folder"),
    ("plan", "no CUDA GPU is available here"),
    ("plan --budget 0", "--budget must be positive, got 0.0"),
    ("plan --tasks (", "--tasks '(' is no regular expression"),
    ("aot --target 90 gfx942", "name them in two runs"),
    ("aot --target gfx7", "invalid choice: 'gfx7'"),
]


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[list[str]], str]:
    """Return the one-line error of a command, run in a folder of good and bad files without a GPU."""
    row = Row("s", "o", "n", "1", "float32", "cpu", samples={"triten": SAMPLES})
    Result({"host": "h"}, {}, {"confidence": 0.95}, rows=[row]).write(tmp_path / "good.json")
    text = (tmp_path / "good.json").read_text()
    for name, (_, change) in BAD_FILES.items():
        if change is not None:
            content = change(text)
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "folder").mkdir()
    (tmp_path / "script.py").write_text("raise AssertionError('was run')\n")
    monkeypatch.setattr(results, "MAX_BYTES", 1 << 14)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRITEN_CUDA", raising=False)
    monkeypatch.setattr(tt.cuda, "is_available", lambda: False)
    before = sorted(os.listdir(tmp_path))

    def run(arguments: list[str]) -> str:
        monkeypatch.setattr(sys, "argv", ["perf", *arguments])
        try:
            status = command.main()
        except SystemExit as stop:
            status = int(stop.code or 0)
        said = capsys.readouterr()
        assert (status, said.out) == (2, ""), said
        assert sorted(os.listdir(tmp_path)) == before
        assert json.loads((tmp_path / "good.json").read_text())["rows"]
        [line] = said.err.splitlines()
        assert line.startswith(
            f"{arguments[0]}: " if arguments[:1] not in ([], ["nosuch"]) else "triten.perf: "
        ) or ("unrecognized" in line)
        return line

    return run


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=[arguments for arguments, _ in REFUSED])
def test_bad_input_is_refused_in_one_line(
    refused: Callable[[list[str]], str], arguments: str, message: str
) -> None:
    if arguments.split()[:1] == ["aot"] or "tune" in arguments:
        pytest.importorskip("triton", reason="triton has no wheel for this platform")
    assert message in refused(arguments.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("aot --quick", "kernels are compiled by Triton, which is not installed"),
        ("run --device cuda --rehearse", "TRITEN_CUDA=interpret needs Triton, which is not installed"),
    ],
)
def test_without_triton_it_is_said_that_it_is_missing(
    refused: Callable[[list[str]], str], monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    monkeypatch.setenv("TRITEN_CUDA", "interpret")
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "triton" else found(name))
    assert message in refused(arguments.split())


def test_a_library_that_is_no_stand_in_is_refused(refused: Callable[[list[str]], str]) -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed: nothing would be launched")
    assert "--standin good.json: no stand-in for libcuda.so.1" in refused(
        ["launch", "--standin", "good.json"]
    )


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.parametrize(
    "before",
    ["compare good.json", "compare --threshold 1 --relative-to torch good.json", "report --format json"],
)
def test_what_is_no_result_file_is_refused_by_its_name(
    refused: Callable[[list[str]], str], before: str, name: str
) -> None:
    line = refused([*before.split(), name])
    assert f"{name}: " in line and BAD_FILES[name][0] in line


def test_a_reader_that_has_gone_is_no_failure(tmp_path: Path) -> None:
    program = [sys.executable, "-P", "-m", "triten.perf", "run", "--list"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        said = running.stderr.read()
    assert (running.returncode, said) == (command.PIPE_CLOSED, b"")


def test_ctrl_c_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_run", interrupted)
    monkeypatch.setattr(sys, "argv", ["perf", "memory"])
    assert command.main() == 130
    assert capsys.readouterr().err == "memory: interrupted\n"
