"""The dispatch trace prints every hop, below the one that it belongs to, and costs nothing when off."""

import io
import subprocess
import sys
import threading

import pytest

import triten as tt
from triten.dispatch.core.operator_entry import observers


def lines_of(call):
    file = io.StringIO()
    with tt.dispatch.show_trace(file):
        result = call()
    return file.getvalue().splitlines(), result


def test_hops_are_indented_below_their_caller(device):
    w = tt.ones(2, 3, device=device).requires_grad_()
    b = tt.ones(3, 2, device=device)
    lines, _ = lines_of(lambda: w @ b)
    where, key = ("cuda:0", "CUDA") if device == "cuda" else ("cpu", "CPU")
    args = f"(float32[2, 3]@{where}, float32[3, 2]@{where})"
    assert lines == [
        f" [call] op=[aten::matmul], key=[Autograd{key}] {args}",
        f"  [call] op=[aten::mm], key=[Autograd{key}] {args}",
        f"   [redispatch] op=[aten::mm], key=[{key}] {args}",
    ]


def test_plans_made_before_and_during_show_every_call():
    a = tt.ones(2)
    a + a
    lines, _ = lines_of(lambda: [a + a, a + a, tt.zeros(2)])
    assert [line.split("],")[0] for line in lines] == [
        " [call] op=[aten::add.Tensor",
        " [call] op=[aten::add.Tensor",
        " [call] op=[aten::zeros",
    ]
    assert lines[2].endswith("key=[CPU] ([2], None, None, None, None)")


def test_backward_shows_its_operators():
    w = tt.ones(2, requires_grad=True)
    loss = (w * 2.0).sum()
    lines, _ = lines_of(loss.backward)
    assert [line.split("op=[")[1].split("]")[0] for line in lines] == ["aten::expand", "aten::mul.Tensor"]


def test_traces_nest_and_an_error_leaves_the_depth_as_it_was():
    outer, inner = io.StringIO(), io.StringIO()
    a = tt.ones(2)
    with tt.dispatch.show_trace(outer):
        with tt.dispatch.show_trace(inner):
            a.exp()
        with pytest.raises(RuntimeError):
            tt.mm(a, a)
        a.neg()
    assert "aten::exp" in inner.getvalue() and "aten::exp" not in outer.getvalue()
    assert outer.getvalue().splitlines()[-1].startswith(" [call] op=[aten::neg]")
    assert observers == []
    before = outer.getvalue()
    a.neg()
    assert outer.getvalue() == before


def test_another_threads_calls_are_not_printed():
    file = io.StringIO()
    with tt.dispatch.show_trace(file):
        thread = threading.Thread(target=lambda: tt.ones(2).exp())
        thread.start()
        thread.join()
    assert file.getvalue() == ""


def test_the_environment_variable_traces_a_whole_program():
    program = "import triten as tt; tt.ones(2).exp()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"TRITEN_SHOW_DISPATCH_TRACE": "1", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "[call] op=[aten::exp], key=[CPU] (float32[2]@cpu)" in done.stderr
    assert done.stdout == ""
