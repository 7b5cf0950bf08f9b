"""ADInplaceOrView stands between autograd and the backends, for tensors outside inference mode."""

import re
import threading

import numpy as np
import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher

KEY = tt.DispatchKey.ADInplaceOrView


@pytest.fixture
def seen():
    """Record the operators that pass kernels for ``mul_.Tensor``, ``t`` and ``add.Tensor``."""
    found = []

    def kernel(op, keys, stack):
        found.append(op.name)
        arguments = list(stack)
        stack[:] = [op.call_with_keys((keys - KEY).raw_repr(), arguments)]

    with tt.library.Library("aten", "IMPL", KEY) as lib:
        for name in ("mul_.Tensor", "t", "add.Tensor"):
            lib.impl(name, kernel, boxed=True)
        yield found


def test_without_a_kernel_the_key_is_in_no_call():
    x = tt.ones(2)
    assert KEY in x.key_set()
    assert (
        Dispatcher.singleton().find_schema_or_throw("aten::mul_.Tensor").key_set_of([x, x])
        == tt.DispatchKey.CPU.bits
    )


def test_inplace_and_view_operators_come_through_it(seen, device):
    x = tt.ones(2, 2, device=device)
    x.mul_(x)
    x.t()
    assert seen == ["aten::mul_.Tensor", "aten::t"]
    assert x.current_version() == 1 and x.t().t()._view_base is x


def test_it_comes_below_autograd_and_the_gradient_is_the_same(seen):
    order = []
    with tt.dispatch.show_trace(Lines(order)):
        w = tt.ones(2, requires_grad=True)
        (w + w).mul_(w)
    hops = [re.search(r"op=\[aten::(.*?)\], key=\[(.*?)\]", line).groups() for line in order]
    hops = [hop for hop in hops if hop[0] in ("add.Tensor", "mul_.Tensor")]
    assert hops == [
        ("add.Tensor", "AutogradCPU"), ("add.Tensor", "ADInplaceOrView"), ("add.Tensor", "CPU"),
        ("mul_.Tensor", "AutogradCPU"), ("mul_.Tensor", "ADInplaceOrView"), ("mul_.Tensor", "CPU"),
    ]  # fmt: skip
    a = tt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    b = a + 0
    b.t().mul_(a)
    b.sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), [[2.0, 6.0], [4.0, 8.0]])


class Lines:
    """File object that keeps its lines."""

    def __init__(self, lines):
        self.lines = lines

    def write(self, text):
        if text.strip():
            self.lines.append(text)


def test_inference_mode_and_inference_tensors_as_in_pytorch(seen):
    plain = tt.ones(2)
    with tt.inference_mode():
        made = tt.ones(2)
        made + made
        made.mul_(made)
        assert seen == []
        plain + made
        plain.mul_(2)
        assert seen == ["aten::add.Tensor", "aten::mul_.Tensor"]
    seen.clear()
    made + made
    assert seen == ["aten::add.Tensor"]
    with tt.no_grad():
        plain + plain
    assert len(seen) == 2


def test_what_a_kernel_below_calls_does_not_come_there_again(seen):
    with tt.library.Library("t_below", "DEF") as lib:
        lib.define("explicit(Tensor x) -> Tensor")
        lib.define("implicit(Tensor x) -> Tensor")
        lib.define("cpu(Tensor x) -> Tensor")
        for name, key in {
            "explicit": "CompositeExplicitAutograd",
            "implicit": "CompositeImplicitAutograd",
            "cpu": "CPU",
        }.items():
            lib.impl(name, lambda x: x + x, key)
        for x in (tt.ones(2), tt.ones(2, requires_grad=True)):
            tt.ops.t_below.explicit(x)
            tt.ops.t_below.cpu(x)
            assert seen == []
            tt.ops.t_below.implicit(x)
            assert seen == ["aten::add.Tensor"]
            seen.clear()


def test_it_is_gone_with_its_library_also_in_other_threads():
    count = []

    def kernel(op, keys, stack):
        count.append(threading.get_ident())
        arguments = list(stack)
        stack[:] = [op.call_with_keys((keys - KEY).raw_repr(), arguments)]

    def work():
        x.mul_(x)

    x = tt.ones(2)
    with tt.library.Library("aten", "IMPL", KEY) as lib:
        lib.impl("mul_.Tensor", kernel, boxed=True)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
            thread.join()
        assert len(count) == 3
        lib.impl("mul_.Tensor", tt.library.fallthrough_kernel, allow_override=True)
        x.mul_(x)
    x.mul_(x)
    assert len(count) == 3


@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
def test_a_users_own_kernel_for_a_backend_is_counted_and_refused_in_backward_like_any_write():
    with tt.library.Library("aten", "IMPL", "CPU") as lib:
        lib.impl("tanh_", lambda x: np.tanh(x.numpy(), out=x.numpy()) is None)
        lib.impl("cos.out", lambda x, out: out.copy_(x))
        z = tt.ones(2, requires_grad=True).exp()
        with tt.no_grad():
            assert z.detach().tanh_().tolist() == pytest.approx([0.9913289] * 2)
        assert z.current_version() == 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()
        out = tt.zeros(2)
        assert tt.cos(tt.ones(2), out=out) is out and out.tolist() == [1, 1] and out.current_version() == 1
        with tt.inference_mode():
            assert tt.ones(2).tanh_().is_inference()


@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
def test_a_users_own_view_kernel_gives_a_view():
    with tt.library.Library("aten", "IMPL", "CPU") as lib:
        lib.impl("t", lambda x: x.detach().permute(1, 0).detach())
        lib.impl("alias", lambda x: x.clone())
        x = tt.zeros(2, 3)
        view = x.t()
        view.add_(1)
        assert view._view_base is x and x.current_version() == 1 and x.sum().item() == 6
        copy = tt.alias(x)
        copy.add_(1)
        assert copy._view_base is None and x.current_version() == 1
