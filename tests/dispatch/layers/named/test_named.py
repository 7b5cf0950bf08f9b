"""Names of dimensions propagate as in PyTorch; unnamed tensors are unaffected."""

import re
import subprocess
import sys
import threading
import warnings
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.layers.named import rules
from triten.runtime import named_spec
from triten.runtime.dimname import checked_names, position_of, unify_from_right
from triten.runtime.local_dispatch_key_set import local, modes
from triten.runtime.tensor_spec import TensorSpec

pytestmark = pytest.mark.filterwarnings("ignore:Named tensors and all their associated APIs")

SETUP = compile(
    """
x = T.ones(2, 3, names=('N', 'C'))
y = T.ones(2, 3, names=('N', 'C'))
u = T.ones(2, 3)
p = T.ones(2, 3, names=('N', None))
h = T.ones(2, 3, names=('H', 'W'))
c = T.ones(3, names=('C',))
k = T.ones(3, names=('K',))
n = T.ones(2, names=('N',))
q = T.ones(3, 4, names=('C', 'K'))
w = T.ones(4, 3, names=('K', 'C'))
b = T.ones(4, 2, 3, names=('B', 'N', 'C'))
d = T.ones(4, 3, 5, names=('B', 'C', 'K'))
i = T.ones(2, 3, names=('N', 'C'), dtype=T.int64)
m = T.ones(2, 3, names=('N', 'C'), dtype=T.bool)
z = T.ones(2, 3, names=('N', 'C'), dtype=T.complex64)
s = T.ones(3, 3, names=('N', 'C'))
o = T.ones(2, 3, 4, 4, names=('N', 'C', 'H', 'W'))
e = T.ones(2, 1, 3, names=('N', 'L', 'C'))
z0 = T.ones(())
""",
    "tensors",
    "exec",
)
UNSUPPORTED = (
    "is not yet supported with named tensors. Please drop names via `tensor = tensor.rename(None)`, call the op with "
    "an unnamed tensor, and set names on the result of the operation."
)
NEEDS_VALUES = re.compile(r"masked_select|T\.tensor|T\.equal|index_fill|__setitem__|cpu")


def coverage():
    table, calls = {}, []
    for line in Path(__file__).with_name("named_coverage.txt").read_text().splitlines():
        if line.startswith("    "):
            calls += re.split(r"  +", line.strip())
        elif not line.startswith("#"):
            calls = table.setdefault(line.replace("<unsupported>", UNSUPPORTED), [])
    return list(table.items())


def described(value):
    if hasattr(value, "names"):
        return f"({', '.join(map(str, value.names))})"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(described, value))}]"
    return repr(value)


def answer(package, call):
    scope = {"T": package}
    exec(SETUP, scope)
    try:
        return described(eval(call, scope))
    except Exception as error:
        return f"!{type(error).__name__}: {error}"


@pytest.mark.parametrize("place", ["cpu", "meta"])
@pytest.mark.parametrize(("expected", "calls"), [pytest.param(*row, id=row[0][:60]) for row in coverage()])
def test_names_and_refusals_are_pytorchs(expected, calls, place):
    tt.set_default_device(place)
    try:
        given = {call: answer(tt, call) for call in calls if place == "cpu" or not NEEDS_VALUES.search(call)}
    finally:
        tt.set_default_device("cpu")
    assert {call: got for call, got in given.items() if got != expected} == {}


def test_every_row_of_the_rules_is_an_operator():
    known = {name.removeprefix("aten::") for name in Dispatcher.singleton().get_all_op_names()}
    bases = {name.partition(".")[0] for name in known}
    rows = [name for names in rules.KINDS.values() for name in names.split()]
    assert len(rows) == len(set(rows))
    assert [row for row in rows if row not in bases] == []
    others = rules.REFUSED | rules.TAKEN_APART
    assert [name for name in others if name not in known and name not in bases] == []


@pytest.mark.parametrize("name", ["", "1", "a.b", "a b", "é", "-"])
def test_names_are_identifiers(name):
    with pytest.raises(RuntimeError, match=rf"Invalid name: a valid identifier .* got: '{re.escape(name)}'"):
        checked_names(("N", name), 2)
    with pytest.raises(RuntimeError, match="Invalid name"):
        tt.zeros(2, names=(name,))


def test_names_are_matched_from_the_right_and_wildcards_match_all():
    assert unify_from_right(("N", None), ("B", None, "C")) == ("B", "N", "C")
    assert unify_from_right((), ("C",)) == ("C",)
    with pytest.raises(RuntimeError, match=r"attempting to cat dims \['N'\] and dims \['C'\]: dim 'N' and"):
        unify_from_right(("N",), ("C",), "cat")
    with pytest.raises(RuntimeError, match=r"Misaligned dims .* dim 'N' appears in a different position"):
        unify_from_right((None, "N"), ("N", None))
    assert position_of("C", ("N", "C")) == 1
    with pytest.raises(RuntimeError, match=r"Please look up dimensions by name, got: name = None\."):
        position_of("*", ("N",))


def test_batches_of_products_are_matched():
    a, b = tt.ones(2, 2, 3, 3, names=("A", None, "N", "C")), tt.ones(2, 3, 5, names=("A", "C", "K"))
    message = (
        "matmul: Cannot match 'A' (index 0 of ['A', 'C', 'K']) with None (index 1 of ['A', None, 'N', 'C']) because "
        "the latter names already have 'A'. Are your tensors misaligned?"
    )
    with pytest.raises(RuntimeError, match=re.escape(message)):
        a @ b
    assert (a.rename("B", None, "N", "C") @ b).names == ("B", "A", "N", "K")
    # PyTorch lets a name through that it then has twice, which no tensor may have.
    with pytest.raises(RuntimeError, match=r"duplicate names. Got names: \['B', 'N', 'B'\]"):
        tt.ones(4, 2, 3, names=("B", "N", "C")) @ tt.ones(3, 5, names=("C", "B"))


def test_joining_passes_over_tensors_of_nothing():
    x = tt.ones(2, 3, names=("N", "C"))
    assert tt.cat([tt.ones(0, names=("Q",)), x]).names == ("N", "C")


def test_an_unnamed_tensor_has_no_trace():
    a = tt.ones(2, 3)
    (a + a).sum(0)
    assert a._spec.__class__ is TensorSpec and not hasattr(a._spec, "__dict__")
    assert tt.DispatchKey.Named not in a.key_set() and not a.has_names() and a.names == (None, None)
    named = a.rename("N", "C")
    assert tt.DispatchKey.Named in named.key_set() and tt.DispatchKey.Named not in a.key_set()
    assert type(named).__slots__ == () and sys.getsizeof(named) == sys.getsizeof(a)
    assert named.rename(None)._spec is a._spec


def test_nothing_of_names_is_loaded_before_the_first():
    program = (
        "import sys, triten as tt; x = tt.ones(2, requires_grad=True); (x + x).sum().backward();"
        "loaded = [m for m in sys.modules if m.startswith('triten.dispatch.layers.named')];"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-P", "-c", program], check=True, cwd="/")


def test_the_first_named_tensor_of_a_process_warns(monkeypatch):
    monkeypatch.setattr(named_spec, "_has_warned", [])
    monkeypatch.setattr(named_spec, "_table", {})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tt.zeros(2, 7, names=("N", "C"))
        tt.zeros(3, names=("N",))
    assert [w.category for w in caught] == [UserWarning]
    assert str(caught[0].message) == (
        "Named tensors and all their associated APIs are an experimental feature and subject to change. Please do not "
        "use them for anything important until they are released as stable."
    )
    assert caught[0].filename == __file__


def test_operators_on_every_device(device):
    x = tt.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device=device, names=("N", "C"))
    row = tt.tensor([1.0, 2.0, 3.0], device=device, names=("C",))
    total = (x - row).exp().log().sum("N")
    assert total.names == ("C",) and total.device.type == device
    np.testing.assert_allclose(total.rename(None).cpu().numpy(), [3, 3, 3], rtol=1e-5)
    assert (x @ row).tolist() == [14.0, 32.0] and (x @ row).names == ("N",)
    assert x.max("C").indices.tolist() == [2, 2] and x.max("C").values.names == ("N",)
    assert x.transpose("N", "C").contiguous().tolist() == [[1, 4], [2, 5], [3, 6]]
    np.testing.assert_allclose(x.softmax("C").sum("C").rename(None).cpu().numpy(), [1, 1], rtol=1e-6)
    x += row
    assert x.names == ("N", "C") and x.tolist() == [[2, 4, 6], [5, 7, 9]]
    assert x.cpu().names == x.to(tt.float64).names == ("N", "C")
    with pytest.raises(RuntimeError, match=f"aten::tril {UNSUPPORTED[:30]}"):
        x.tril()


def test_printing():
    assert repr(tt.zeros(2, names=("N",))) == "tensor([0., 0.], names=('N',))"
    assert repr(tt.zeros(1, 1, names=("N", None), dtype=tt.int32)) == (
        "tensor([[0]], dtype=triten.int32, names=('N', None))"
    )
    assert repr(tt.zeros(2, names=("N",), requires_grad=True)) == (
        "tensor([0., 0.], requires_grad=True, names=('N',))"
    )
    assert "names" not in repr(tt.zeros(2, names=(None,)))


def test_names_can_be_assigned():
    x = tt.zeros(2, 3)
    x.names = "N", "C"
    assert x.names == ("N", "C") and x.size("C") == 3 and x.stride("N") == 3
    x.names = None
    assert not x.has_names()
    for bad in ("NC", 3):
        with pytest.raises(TypeError, match="names must be a tuple of names or None, not"):
            x.names = bad
    with pytest.raises(TypeError, match="expected None or string for Dimname but got int"):
        x.names = (1, 2)
    with pytest.raises(RuntimeError, match="duplicate names"):
        x.names = ("N", "N")
    assert x.names == (None, None)
    with pytest.raises(TypeError):
        x.size(1.5)


def test_a_renamed_tensor_is_a_view():
    a = tt.zeros(2, 3)
    view = a.rename("N", "C")
    assert view._is_view() and view._base is a and view.data_ptr() == a.data_ptr()
    view.add_(1)
    assert a.tolist() == [[1.0] * 3] * 2 and a.current_version() == view.current_version() == 1
    row = view[0]
    assert row._base is a and row.names == ("C",)
    row.mul_(5)
    assert a.tolist() == [[5.0] * 3, [1.0] * 3]
    named = tt.zeros(2, 3, names=("N", "C"))
    assert named.t()._base is named and named.align_to("C", "N")._base is named
    assert named.flatten(["N"], "N")._base is named and named.contiguous() is named


def test_views_by_name():
    x = tt.arange(24.0).reshape(2, 3, 4).refine_names("A", "B", "C")
    assert x.flatten(["B", "C"], "D").shape == (2, 12)
    assert tt.flatten(x, dims=["A", "B"], out_dim="D").names == ("D", "C")
    ordered = x.unflatten("C", OrderedDict([("E", 2), ("F", -1)]))
    assert ordered.names == ("A", "B", "E", "F") and ordered[1, 2, 1, 1].item() == 23.0
    for bad in (3, ("E", 2), (("E", 2.0),)):
        with pytest.raises(TypeError, match="sizes must be pairs of name and size"):
            x.unflatten("C", bad)
    aligned = x.align_to("C", "Z", ..., "A")
    assert aligned.shape == (4, 1, 3, 2) and aligned[3, 0, 2, 1].item() == 23.0
    low, high = tt.align_tensors(tt.ones(4, names=("C",)), x)
    assert low.names == high.names == x.names and (low + high).names == x.names
    assert [part.names for part in x] == [("B", "C")] * 2
    with pytest.raises(TypeError, match="expected Tensor as element 1, but got int"):
        tt.align_tensors(x, 1)


def test_overloads_by_name_are_operators():
    aten = tt.ops.aten
    x = tt.ones(2, 3, 4, names=("A", "B", "C"))
    assert aten.sum.dim_DimnameList(x, ["A", "C"]).tolist() == [8.0] * 3
    assert aten.diagonal.Dimname(x, outdim="D", dim1="A", dim2="B").names == ("C", "D")
    assert aten.unflatten.Dimname(x, "C", [2, 2], ["E", "F"]).shape == (2, 3, 2, 2)
    assert aten.zeros.names([2], names=["N"]).names == ("N",)
    assert str(aten.softmax.Dimname._schema).startswith("aten::softmax.Dimname(Tensor self, Dimname dim")
    out = tt.empty(3)
    assert tt.sum(x, ("A", "C"), out=out) is out and out.names == ("B",)
    with pytest.raises(RuntimeError, match="gather: You passed a dimname"):
        x.gather("A", tt.zeros(1, 1, 1, dtype=tt.int64))


def test_generators_and_factories_take_names():
    generator = tt.Generator()
    generator.manual_seed(3)
    a = tt.rand(2, 3, names=("N", "C"), generator=generator)
    generator.manual_seed(3)
    b = tt.rand(2, 3, generator=generator)
    assert a.names == ("N", "C") and a.tolist() == b.tolist()
    assert tt.zeros(2, 3, names=("N", "C"), requires_grad=True).is_leaf
    with pytest.raises(RuntimeError, match="Number of names"):
        tt.tensor(1.0, names=("N",))


def test_writing_gives_names_and_refuses_others():
    x = tt.ones(2, 3, names=("N", "C"))
    unnamed = tt.ones(2, 3)
    assert unnamed.add_(x) is unnamed and unnamed.names == ("N", "C")
    out = tt.empty(2, 3)
    assert tt.mul(x, 2, out=out) is out and out.names == ("N", "C") and out.tolist() == [[2.0] * 3] * 2
    other = tt.zeros(2, 3, names=("A", "B"))
    partly = tt.zeros(2, 3, names=("N", None))
    for call in (lambda: other.add_(x), lambda: tt.exp(x, out=other), lambda: partly.copy_(x)):
        with pytest.raises(
            RuntimeError, match=r"Error when attempting to broadcast|Name mismatch: specified out"
        ):
            call()
    assert other.names == ("A", "B") and other.current_version() == 0 and not other.any()
    with pytest.raises(
        RuntimeError, match=r"Cannot resize named tensor .* Tensor\['N'\] with size \[0\] to \[2, 3\]"
    ):
        tt.exp(x, out=tt.empty(0, names=("N",)))
    assert x.resize_(2, 3) is x
    with pytest.raises(RuntimeError, match="Cannot resize named tensor"):
        x.resize_(3, 3)
    assert x.shape == (2, 3) and x.names == ("N", "C")


def test_gradients_ignore_names(device):
    w = tt.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device=device, names=("N", "C")).requires_grad_()
    v = tt.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    loss = (w * v.rename("C")).exp().log().softmax("C").log().sum()
    loss.backward()
    assert w.grad.names == (None, None) and v.grad.names == (None,) and w.is_leaf and w.grad_fn is None
    plain = w.detach().rename(None).requires_grad_()
    plain_v = v.detach().requires_grad_()
    (plain * plain_v).softmax(1).log().sum().backward()
    np.testing.assert_allclose(w.grad.cpu().numpy(), plain.grad.cpu().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(v.grad.cpu().numpy(), plain_v.grad.cpu().numpy(), rtol=1e-4, atol=1e-5)


def test_second_derivatives_through_saved_named_tensors():
    x = tt.tensor([2.0, 3.0], names=("N",)).requires_grad_()
    (first,) = tt.autograd.grad((x * x * x).sum(), x, create_graph=True)
    assert first.names == (None,) and first.tolist() == [12.0, 27.0]
    (second,) = tt.autograd.grad(first.sum(), x)
    assert second.tolist() == [12.0, 18.0]


def test_histories_follow_writes_to_named_views():
    x = tt.ones(2, 3, names=("N", "C")).requires_grad_()
    y = x * 1.0
    y[0].mul_(5.0)
    z = y.select("N", 1)
    z.mul_(tt.full((3,), 7.0, names=("C",)))
    assert y.grad_fn is not None and z.grad_fn is not None and y.names == ("N", "C")
    (y * y).sum().backward()
    assert x.grad.tolist() == [[50.0] * 3, [98.0] * 3]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
        x.add_(1)
    base = tt.zeros(2, 3, names=("N", "C"))
    view = base[0]
    base.add_(x)
    assert base.requires_grad and view.requires_grad and view.names == ("C",)
    view.sum().backward()


def test_a_saved_named_tensor_that_was_written_to_is_refused():
    x = tt.ones(2, names=("N",)).requires_grad_()
    y = x * 2.0
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_hooks_and_retained_gradients_of_named_tensors():
    seen = []
    x = tt.ones(2, names=("N",)).requires_grad_()
    y = x * 3.0
    y.retain_grad()
    x.register_hook(lambda grad: seen.append(grad.names))
    with pytest.warns(UserWarning, match=r"Autograd was passed a named grad tensor with dims \['N'\]"):
        y.backward(tt.ones(2, names=("N",)))
    assert seen == [(None,)] and x.grad.tolist() == [3.0, 3.0] and y.grad.names == (None,)
    one = tt.ones(1, names=("N",)).requires_grad_()
    (one * 2.0).backward()
    assert one.grad.names == (None,)


def test_a_function_of_ones_own_gets_saved_tensors_without_names():
    class Square(tt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            assert x.names == (None,)
            return 2.0 * x * grad

    x = tt.tensor([3.0], names=("N",)).requires_grad_()
    y = Square.apply(x)
    assert y.names == ("N",)
    y.sum().backward()
    assert x.grad.tolist() == [6.0] and x.grad.names == (None,)


def test_modes_see_operators_without_names():
    seen = []

    class Log(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((func.name(), [a.names for a in args if isinstance(a, tt.Tensor)]))
            return func(*args, **(kwargs or {}))

    x = tt.ones(2, 3, names=("N", "C")).requires_grad_()
    with Log():
        y = x.sum("N")
    assert y.names == ("C",) and y.grad_fn.name() == "SumBackward1"
    assert seen == [("aten::sum.dim_IntList", [(None, None)])]


def test_names_of_a_subclass_stay():
    class Loud(tt.Tensor):
        @classmethod
        def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
            assert all(a.tag == "kept" for a in args if isinstance(a, cls))
            plain = [a.as_subclass(tt.Tensor) if isinstance(a, cls) else a for a in args]
            return func(*plain, **(kwargs or {})).as_subclass(cls)

    x = tt.ones(2, 3).as_subclass(Loud)
    x.tag = "kept"
    x.rename_("N", "C")
    y = x + x
    assert type(y) is Loud and y.names == ("N", "C") and x.tag == "kept" and x.names == ("N", "C")
    y.tag = "kept"
    assert y.sum("C").as_subclass(tt.Tensor).names == ("N",)


def test_names_are_handled_before_autograd_records(capsys):
    x = tt.ones(2, names=("N",)).requires_grad_()
    with tt.dispatch.show_trace(sys.stdout):
        x.exp()
    keys = re.findall(r"key=\[(\w+)\]", capsys.readouterr().out)
    assert keys == ["Named", "AutogradCPU", "CPU"]


def test_operators_of_ones_own():
    x = tt.ones(2, 3, names=("N", "C")).requires_grad_()
    with tt.library.Library("named_test", "DEF") as lib:
        lib.define("leaf(Tensor x) -> Tensor")
        lib.impl("leaf", lambda x: x.clone(), "CPU")
        lib.define("parts(Tensor x) -> Tensor")
        lib.impl("parts", lambda x: (x + x).sum("C"), "CompositeImplicitAutograd")
        lib.define("knows(Tensor x) -> Tensor")
        lib.impl("knows", lambda x: x.clone(), "CPU")
        lib.impl("knows", lambda x: x.rename(None).clone().rename("A", "B"), "Named")
        ops = tt.ops.named_test
        with pytest.raises(RuntimeError, match=f"named_test::leaf {re.escape(UNSUPPORTED)}"):
            ops.leaf(x)
        assert ops.leaf(x.rename(None)).shape == (2, 3)
        assert ops.parts(x).names == ("N",) and ops.parts(x).requires_grad
        assert ops.knows(x).names == ("A", "B")


def test_grad_modes_and_inference():
    x = tt.ones(2, names=("N",)).requires_grad_()
    with tt.no_grad():
        assert not (x * 2).requires_grad and (x * 2).names == ("N",)
    with tt.inference_mode():
        y = tt.ones(2, names=("N",)) + 1
        y.mul_(2)
        assert y.is_inference() and y.names == ("N",) and y[0:1].names == ("N",) and y.tolist() == [4.0, 4.0]
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        y.add_(1)
    assert (y + 1).names == ("N",)


def test_an_error_leaves_tensors_and_thread_as_they_were():
    x = tt.ones(2, 3, names=("N", "C"))
    before = list(modes), local.included, local.excluded
    for call in (
        lambda: x.add_(tt.ones(4)),
        lambda: x.add_(tt.ones(2, 3, names=("C", "N"))),
        lambda: x.unsqueeze(0),
        lambda: x.matmul(tt.ones(4, 4)),
    ):
        with pytest.raises(RuntimeError):
            call()
    assert (list(modes), local.included, local.excluded) == before
    assert x.names == ("N", "C") and x.tolist() == [[1.0] * 3] * 2 and x.current_version() == 0


def test_threads_share_names_and_plans():
    errors = []
    barrier = threading.Barrier(4)

    def work(number):
        try:
            barrier.wait()
            for size in range(1, 60):
                names = ("N", f"C{number}")
                x = tt.ones(size, 2, names=names)
                assert (x + x).names == names and x.sum("N").names == names[1:]
                with pytest.raises(RuntimeError, match="do not match"):
                    x + tt.ones(2, names=("other",))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    spec = tt.zeros(5, 2, names=("N", "C"))._spec
    assert tt.ones(5, 2, names=("N", "C"))._spec is spec


def test_a_spec_keeps_its_names_as_long_as_they_fit():
    spec = tt.zeros(2, 3, names=("N", "C"))._spec
    assert spec.replace(sizes=(5, 6)).names == ("N", "C") and spec.twin.names == ("N", "C")
    assert spec.twin.twin is spec and spec.twin.requires_grad
    assert spec.replace(sizes=(6,)).names == (None,) and spec.replace(keys=spec.keys) is spec
    assert "names=('N', 'C')" in repr(spec) and spec.unnamed is tt.zeros(2, 3)._spec


def test_an_iterator_of_ones_own_names_its_outputs():
    x = tt.ones(2, 3, names=("N", "C"))
    assert tt.TensorIterator.binary_op(None, x, tt.ones(3)).output().names == ("N", "C")
    for out in (tt.ones(2, 3), tt.empty(0)):
        tt.TensorIterator.unary_op(out, x)
        assert out.names == ("N", "C") and out.shape == (2, 3)
    assert tt.TensorIterator.unary_op(None, tt.ones(3)).names is None
    with pytest.raises(RuntimeError, match=r"Name mismatch: specified out tensor with names \['A', 'B'\]"):
        tt.TensorIterator.unary_op(tt.ones(2, 3, names=("A", "B")), x)
    with pytest.raises(RuntimeError, match="Error when attempting to broadcast"):
        tt.TensorIterator.binary_op(None, x, tt.ones(3, names=("N",)))
    with pytest.raises(RuntimeError, match="Cannot resize named tensor"):
        tt.TensorIterator.unary_op(tt.ones(1, names=("Q",)), x)
