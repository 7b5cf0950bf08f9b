"""BackendSelect stands between the layers' keys and the backends; an operator without a kernel there has no
overhead.
"""

import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher

SELECT = tt.DispatchKey.BackendSelect


def entry(name):
    return Dispatcher.singleton().find_schema_or_throw(name)


def watching(seen):
    """Return a boxed kernel that records the call and redispatches."""

    def kernel(op, keys, stack):
        arguments = list(stack)
        seen.append((op.name, keys.highest_priority(), (keys - SELECT).highest_priority()))
        stack[:] = [op.call_with_keys((keys - SELECT).raw_repr(), arguments)]

    return kernel


def test_without_a_kernel_the_key_is_in_no_call():
    bits = entry("aten::empty.memory_format").key_set_of([(2,), None, None, tt.device("meta"), None, None])
    assert bits == tt.DispatchKey.Meta.bits


@pytest.mark.parametrize("device", ["cpu", "meta", "cuda"])
def test_a_factorys_call_comes_through_it_to_the_backend_of_its_device(device):
    if device == "cuda":
        pytest.importorskip("triton", reason="triton has no wheel for this platform")
    seen = []
    tt.ones(2, 3, device=device)
    with tt.library.Library("aten", "IMPL", SELECT) as lib:
        lib.impl("ones", watching(seen), boxed=True)
        lib.impl("empty.memory_format", watching(seen), boxed=True)
        for _ in range(2):
            made = tt.ones(2, 3, device=device), tt.full((2,), 1.0, device=device)
        assert {x.device.type for x in made} == {device}
        backend = tt.DispatchKey.Meta if device == "meta" else getattr(tt.DispatchKey, device.upper())
        assert seen == [("aten::ones", SELECT, backend), ("aten::empty.memory_format", SELECT, backend)] * 2
    tt.ones(2, 3, device=device)
    assert len(seen) == 4


def test_the_kernel_may_send_the_call_elsewhere():
    with tt.library.Library("aten", "IMPL", SELECT) as lib:

        def everything_is_meta(keys, size, **options):
            return tt.ops.aten.zeros.default.redispatch(
                tt.DispatchKeySet(tt.DispatchKey.Meta), size, **{**options, "device": tt.device("meta")}
            )

        lib.impl("zeros", everything_is_meta, with_keyset=True)
        assert tt.zeros(2).is_meta and tt.zeros(3, device="cpu").is_meta
    assert tt.zeros(2).is_cpu


def test_a_fallback_sees_every_call_below_autograd():
    seen = []
    with tt.library.Library("_", "IMPL", SELECT) as lib:
        lib.fallback(watching(seen))
        w = tt.ones(2, requires_grad=True)
        (w * 2).sum().backward()
    assert [name for name, *_ in seen][:3] == ["aten::ones", "aten::mul.Tensor", "aten::sum"]
    assert all(key is SELECT for _, key, _ in seen) and w.grad.tolist() == [2, 2]
    count = len(seen)
    tt.ones(2)
    assert len(seen) == count


def test_it_may_be_excluded_and_stands_below_python_and_autograd():
    seen = []

    class Log(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append("mode")
            return func(*args, **(kwargs or {}))

    with tt.library.Library("aten", "IMPL", SELECT) as lib:
        lib.impl("ones", watching(seen), boxed=True)
        with Log():
            tt.ones(2)
        assert [s if s == "mode" else s[0] for s in seen] == ["mode", "aten::ones"]
        with tt.dispatch.ExcludeDispatchKeyGuard(SELECT):
            tt.ones(2)
        assert len(seen) == 2


def test_an_operator_with_no_tensor_and_no_device_is_served_by_it_alone():
    with tt.library.Library("t_select", "DEF") as lib:
        lib.define("make(int n) -> Tensor")
        with pytest.raises(NotImplementedError):
            tt.ops.t_select.make(2)
        lib.impl("make", lambda n: tt.ones(n), SELECT)
        assert tt.ops.t_select.make(2).tolist() == [1, 1]
