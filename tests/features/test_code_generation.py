"""Code generation from the YAML: what it makes of one declaration, and that the committed code is what it makes."""

import subprocess
import sys

import pytest

import triten as tt


@pytest.mark.parametrize("name", ["exp2", "exp2_", "add", "add_", "relu", "relu_"])
def test_one_declaration_gives_functions_methods_and_in_place_forms(name: str) -> None:
    assert hasattr(tt.Tensor, name)
    assert name.removesuffix("_") in dir(tt)
    assert name.removesuffix("_") in dir(tt.ops.aten)


def test_out_and_autograd_follow_from_it() -> None:
    assert "out" in tt.ops.aten.exp2.overloads()
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp2()
    assert y.grad_fn.name() == "Exp2Backward0"
    out = tt.empty(2)
    tt.exp2(x.detach(), out=out)
    assert out.tolist() == y.tolist()


def test_a_registration_says_where_it_was_declared() -> None:
    text = tt.ops.aten.exp2.default.dump()
    assert "native_functions/pointwise.yaml: exp2" in text
    assert "schema: aten::exp2(Tensor self) -> Tensor" in text


def test_the_committed_code_is_fresh() -> None:
    pytest.importorskip("ruff")
    pytest.importorskip("yaml")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "triten.dispatch.codegen", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
