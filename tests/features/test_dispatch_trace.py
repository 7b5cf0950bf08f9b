"""The dispatch trace: every hop of a call, by a context manager or an environment variable."""

import io
import os
import subprocess
import sys

import triten as tt


def test_hops_are_printed_as_a_tree() -> None:
    out = io.StringIO()
    w = tt.ones(2, requires_grad=True)
    with tt.dispatch.show_trace(out):
        tt.nn.functional.linear(tt.ones(1, 2), w.reshape(1, 2))
    lines = out.getvalue().splitlines()
    mm = next(i for i, line in enumerate(lines) if "op=[aten::mm], key=[AutogradCPU]" in line)
    assert "[call]" in lines[mm]
    assert "[redispatch] op=[aten::mm], key=[CPU] (float32[1, 2]@cpu, float32[2, 1]@cpu)" in lines[mm + 1]
    indent = [len(line) - len(line.lstrip()) for line in lines]
    assert indent[mm + 1] == indent[mm] + 1
    before = out.getvalue()
    tt.ones(2) + 1
    assert out.getvalue() == before


def test_the_environment_variable_traces_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", "import triten as tt; tt.ones(1).relu()"],
        env={**os.environ, "TRITEN_SHOW_DISPATCH_TRACE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "op=[aten::relu], key=[CPU]" in done.stderr
