"""``tt.ops``: operators as objects."""

import copy
import pickle

import pytest

import triten as tt
from triten.dispatch.core.op_overload import OpNamespace
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


X = tt.ones(2)


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, r"aten::add\(\) is missing value for argument 'self'. Declaration: aten::add.Tensor\("),
        ((X,), {}, "missing value for argument 'other'"),
        (
            (X, "x"),
            {},
            "value of type 'Tensor' for argument 'other' but instead found type 'str'.\nPosition: 1",
        ),
        ((X, X), {"alpha": "x"}, "value of type 'Scalar' for argument 'alpha'"),
        ((X, X, 2), {}, r"takes 2 positional argument\(s\) but 3"),
        ((X, X, 2, 3), {}, r"at most 3 argument\(s\) but received 4"),
        ((X, X), {"nothing": 1}, "Unknown keyword argument 'nothing' for operator 'aten::add'"),
        ((X, X), {"other": X}, "'other' specified both as positional and keyword argument"),
        ((X, X), {"input": X}, "'input' specified both as positional and keyword argument"),
        ((X,), {"x2": X, "other": X}, "'(x2|other)' specified both as positional and keyword argument"),
    ],
)
def test_arguments_that_do_not_fit(args: tuple[object, ...], kwargs: dict[str, object], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        ATEN.add.Tensor(*args, **kwargs)
    with pytest.raises(RuntimeError, match=f"(?s)aten::add invoked .* failed to match any schema:.*{words}"):
        ATEN.add(*args, **kwargs)
    with pytest.raises(TypeError):
        tt.add(*args, **kwargs)


def test_out_arguments_that_do_not_fit() -> None:
    with pytest.raises(RuntimeError, match="'Tensor' for argument 'out' but instead found type 'int'"):
        ATEN.add(X, X, out=3)


def test_composites_decompose() -> None:
    found = ATEN.matmul.default.decompose(X, other=X)
    assert found.item() == 2.0
    assert ATEN.add.Tensor.decompose(X, X) is NotImplemented
    w = tt.ones(2, requires_grad=True)
    ATEN.linear.default.decompose(w, X.reshape(1, 2)).backward()
    assert w.grad.tolist() == [1.0, 1.0]


def test_a_user_s_composite_decomposes() -> None:
    with Library("t_decompose", "DEF") as lib:
        lib.define("f(Tensor x, int n=2) -> Tensor", lambda x, n=2: x * n)
        assert tt.ops.t_decompose.f.default.decompose(X).tolist() == [2.0, 2.0]


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


def test_names_and_text() -> None:
    add = ATEN.add.Tensor
    assert (str(add), add.__name__, add._opname, add._overloadname) == (
        "aten.add.Tensor",
        "add.Tensor",
        "add",
        "Tensor",
    )
    assert (str(ATEN.add), ATEN.add.__name__, list(ATEN.add)) == ("aten.add", "add", ATEN.add.overloads())
    assert ATEN.relu.default.overloadpacket == ATEN.relu


def test_the_same_operator_is_equal_and_survives_pickling() -> None:
    assert ATEN.add.Tensor == ATEN.add.Tensor != ATEN.add.Scalar
    assert len({ATEN.add.Tensor, ATEN.add.Tensor, ATEN.add.Scalar}) == 2
    for op in (ATEN.add.Tensor, ATEN.relu.default, ATEN.add):
        again = pickle.loads(pickle.dumps(op))
        assert again == op
        assert copy.deepcopy(op) == op
    assert pickle.loads(pickle.dumps(ATEN.relu.default))(tt.tensor([-1.0])).item() == 0.0
    assert ATEN.add != "aten::add"


def test_an_operator_that_is_gone_cannot_be_unpickled() -> None:
    with Library("t_gone", "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor", lambda x: x)
        pickled = pickle.dumps(tt.ops.t_gone.f.default)
    with pytest.raises(RuntimeError, match="Could not find schema for t_gone::f"):
        pickle.loads(pickled)


def test_a_search_for_similar_names_waits_until_the_error_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    monkeypatch.setattr(OpNamespace, "__dir__", lambda self: searched.append(self._name) or ["sigmoid"])
    assert not hasattr(ATEN, "sigmoidd") and not searched
    with pytest.raises(AttributeError) as raised:
        ATEN.sigmoidd  # noqa: B018 - reading it raises
    assert "did you mean 'sigmoid'" in str(raised.value) and searched == ["aten"]


def test_misspelt_names_get_suggestions() -> None:
    with pytest.raises(AttributeError, match="'aten' has no operator 'sigmoidd'; did you mean 'sigmoid'"):
        ATEN.sigmoidd  # noqa: B018 - reading it raises
    with pytest.raises(
        AttributeError, match=r"no operator is defined in this namespace; did you mean 'aten'\?"
    ):
        tt.ops.atn.relu  # noqa: B018
    with Library("t_gone", "IMPL", "CPU") as lib:
        lib.impl("f", lambda x: x)
        with Library("t_gone", "FRAGMENT") as fragment:
            fragment.define("g(Tensor x) -> Tensor")
            with pytest.raises(AttributeError, match="kernels are registered for it, but no schema"):
                tt.ops.t_gone.f  # noqa: B018
            assert dir(tt.ops.t_gone) == list(tt.ops.t_gone) == ["g"]


def test_what_probes_for_attributes_gets_an_answer() -> None:
    assert not hasattr(tt.ops, "_repr_html_")
    assert "aten" in list(tt.ops)
    assert repr(ATEN) == "<operators of namespace 'aten'>"
    with Library("_t_private", "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor", lambda x: x)
        assert tt.ops._t_private.f.overloads() == ["default"]


def test_operators_may_be_compared_by_identity():
    from triten.dispatch.layers.python_key import TensorDispatchMode

    seen = []

    class Mode(TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(
                (
                    func is tt.ops.aten.relu.default,
                    func.overloadpacket is tt.ops.aten.relu,
                    func is tt.ops.aten.mm,
                )
            )
            return func(*args, **(kwargs or {}))

    x = tt.ones(2)
    with Mode():
        tt.relu(x)
    assert seen == [(True, True, False)]
    for each in (tt.ops.aten.add.Tensor, tt.ops.aten.add):
        assert pickle.loads(pickle.dumps(each)) is copy.deepcopy(each) is each


def test_a_tensor_stands_for_a_list_of_optional_tensors() -> None:
    x, index = tt.arange(24).reshape(2, 3, 4), tt.tensor([1, 2])
    for operator in (tt.ops.aten.index, tt.ops.aten.index.Tensor):
        assert operator(x, index).tolist() == x[1, 2].tolist()
        with pytest.raises(RuntimeError, match="Expected a value of type"):
            operator(x, tt.tensor(1))
        with pytest.raises(RuntimeError):
            operator(x, index, index, index)
