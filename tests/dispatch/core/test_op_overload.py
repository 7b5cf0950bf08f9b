"""``tt.ops``: operators as objects."""

import pytest

import triten as tt
from triten.library import Library

ATEN = tt.ops.aten


@pytest.mark.parametrize(
    ("group", "overload", "text"),
    [
        ("relu", "default", "aten::relu(Tensor self) -> Tensor"),
        ("add", "Tensor", "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"),
        (
            "add_",
            "Tensor",
            "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
        ),
        ("mm", "default", "aten::mm(Tensor self, Tensor mat2) -> Tensor"),
        ("relu", "out", "aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"),
    ],
)
def test_schemas(group: str, overload: str, text: str) -> None:
    op = getattr(getattr(ATEN, group), overload)
    assert str(op._schema) == text
    assert op.namespace == "aten"
    assert op._name == op.name() == text.partition("(")[0]


def test_overloads_and_dir() -> None:
    assert set(ATEN.add.overloads()) >= {"Tensor", "Scalar", "out"}
    assert dir(ATEN.add) == sorted(ATEN.add.overloads())
    assert {"add", "relu", "mm", "sum"} <= set(dir(ATEN))
    assert "aten" in dir(tt.ops)


def test_repr() -> None:
    assert repr(ATEN.add.Tensor) == "<OpOverload(op='aten.add', overload='Tensor')>"
    assert repr(ATEN.relu.default) == "<OpOverload(op='aten.relu', overload='default')>"
    assert repr(ATEN.add) == "<OpOverloadPacket(op='aten.add')>"


def test_calling_an_overload() -> None:
    x = tt.tensor([1.0, -2.0])
    assert ATEN.relu.default(x).tolist() == [1.0, 0.0]
    assert ATEN.add.Tensor(x, x, alpha=2).tolist() == [3.0, -6.0]
    assert ATEN.add.Tensor(x, 1).tolist() == [2.0, -1.0]
    assert ATEN.add.Scalar(x, 1, 3).tolist() == [4.0, 1.0]
    assert ATEN.sum.dim_IntList(tt.ones(2, 3), [1], keepdim=True).tolist() == [[3.0], [3.0]]
    out = tt.empty(2)
    assert ATEN.relu.out(x, out=out) is out
    assert out.tolist() == [1.0, 0.0]


def test_calling_a_packet_picks_the_overload() -> None:
    assert ATEN.add(tt.ones(1), tt.ones(1)).item() == 2.0
    assert ATEN.add(tt.ones(1), 2).item() == 3.0
    assert ATEN.sum(tt.ones(2, 3)).item() == 6.0
    assert ATEN.sum(tt.ones(2, 3), [0]).tolist() == [2.0] * 3


def test_gradients_flow() -> None:
    w = tt.tensor([1.0, -1.0]).requires_grad_()
    ATEN.relu.default(w).sum().backward()
    assert w.grad.tolist() == [1.0, 0.0]


def test_results_are_those_of_the_functions() -> None:
    x = tt.ones(2, 3)
    assert ATEN.view.default(x, [3, 2]).shape == (3, 2)
    assert ATEN.mm.default(x, x.t()).tolist() == tt.mm(x, x.t()).tolist()
    assert ATEN.transpose.int(x, 0, 1).stride() == (1, 3)
    assert ATEN.zeros.default([2], dtype=tt.int8).dtype is tt.int8
    assert ATEN.full.default([2], 1.5, device="meta").is_meta


def test_redispatch_and_kernels() -> None:
    relu = ATEN.relu.default
    keys = tt.DispatchKeySet(tt.DispatchKey.CPU)
    w = tt.tensor([-1.0]).requires_grad_()
    assert not relu.redispatch(keys, w).requires_grad
    assert relu.has_kernel_for_dispatch_key(tt.DispatchKey.CPU)
    assert relu.has_kernel_for_dispatch_key(tt.DispatchKey.Autograd)
    assert not relu.has_kernel_for_dispatch_key(tt.DispatchKey.XLA)
    assert "schema: aten::relu" in relu.dump()
    assert "core" in relu.tags


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "missing 1 required positional argument"),
        ((1,), {}, "must be Tensor, not int"),
        ((tt.ones(1), 2), {}, "takes 1 positional argument but 2 were given"),
        ((tt.ones(1),), {"nothing": 1}, "nothing"),
    ],
)
def test_arguments_that_do_not_fit(args: tuple[object, ...], kwargs: dict[str, object], words: str) -> None:
    for op in (ATEN.relu.default, tt.relu):
        with pytest.raises(TypeError, match=words):
            op(*args, **kwargs)


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match=r"'aten::add' has no overload 'nope'; it has \["):
        ATEN.add.nope  # noqa: B018 - reading it raises
    with pytest.raises(AttributeError, match="'aten' has no operator 'nope'"):
        ATEN.nope  # noqa: B018
    with pytest.raises(AttributeError, match="'nope' has no operator 'f'"):
        tt.ops.nope.f  # noqa: B018
    assert not hasattr(ATEN, "__wrapped__")
    assert not hasattr(ATEN.add, "__wrapped__")


def test_what_is_closed_is_gone() -> None:
    with Library("t_gone", "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor", lambda x: x)
        assert dir(tt.ops.t_gone) == ["f"]
    assert "t_gone" not in dir(tt.ops)
    assert dir(tt.ops.t_gone) == []
    with pytest.raises(AttributeError):
        tt.ops.t_gone.f  # noqa: B018
