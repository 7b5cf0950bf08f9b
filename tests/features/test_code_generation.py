"""Code generation from the YAML: what it makes of one declaration.

That the committed code is what it makes now is tested in `tests/dispatch/codegen/test_fresh.py`.
"""

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
