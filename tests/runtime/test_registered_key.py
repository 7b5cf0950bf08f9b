"""A functionality of a user's own takes a free bit of the key set and is reached first while it is included."""

import pickle

import pytest

import triten as tt
from triten.runtime import dispatch_key
from triten.runtime.dispatch_key import NUM_BACKENDS, Functionality
from triten.runtime.local_dispatch_key_set import local, modes
from triten.tests.shared.threads import together

AUDIT = tt.DispatchKey.register("TestAudit")
LATER = tt.DispatchKey.register("TestLater")


def passing(key, seen):
    def kernel(op, keys, stack):
        seen.append((str(key), op.name))
        arguments = list(stack)
        stack[:] = [op.call_with_keys((keys - key).raw_repr(), arguments)]

    return kernel


def test_the_key_is_one_like_the_others():
    assert (
        tt.DispatchKey.TestAudit is AUDIT
        and str(AUDIT) == "TestAudit"
        and repr(AUDIT) == "DispatchKey.TestAudit"
    )
    assert AUDIT.functionality is Functionality(AUDIT.functionality.value) and AUDIT.backend is None
    assert (
        not AUDIT.is_alias
        and pickle.loads(pickle.dumps(AUDIT)) is AUDIT
        and dispatch_key.parse("TestAudit") is AUDIT
    )
    keys = tt.DispatchKeySet([AUDIT, tt.DispatchKey.CPU, tt.DispatchKey.PythonDispatcher])
    assert list(keys) == [tt.DispatchKey.CPU, tt.DispatchKey.PythonDispatcher, AUDIT]
    assert keys.highest_priority() is AUDIT and (keys | LATER).highest_priority() is LATER and AUDIT in keys
    assert str(keys - AUDIT) == "DispatchKeySet(CPU, PythonDispatcher)" and keys.raw_repr() < 1 << 64


def test_it_is_above_all_that_was_there_and_below_what_comes_later():
    above = [f for f in Functionality if f > Functionality.PythonDispatcher]
    assert AUDIT.functionality in above and LATER.functionality > AUDIT.functionality
    assert bin(AUDIT.bits).count("1") == 1 and AUDIT.bits == 1 << (NUM_BACKENDS + AUDIT.functionality)


def test_a_fallback_sees_every_call_while_it_is_included(device):
    seen = []
    w = tt.ones(2, device=device, requires_grad=True)
    with tt.library.Library("_", "IMPL", AUDIT) as lib:
        lib.fallback(passing(AUDIT, seen))
        w.relu()
        assert seen == []
        with tt.dispatch.IncludeDispatchKeyGuard(AUDIT):
            loss = (w * 2).relu().sum()
            with tt.dispatch.ExcludeDispatchKeyGuard(AUDIT):
                w.neg()
        assert [name for _, name in seen] == ["aten::mul.Tensor", "aten::relu", "aten::sum"]
        loss.backward()
    assert w.grad.tolist() == [2, 2] and len(seen) == 3
    with tt.dispatch.IncludeDispatchKeyGuard(AUDIT):
        assert w.neg().tolist() == [-1, -1]
    assert len(seen) == 3 and (local.included, local.excluded, modes) == (0, 0, [])


def test_kernels_for_single_operators_and_two_keys_in_order():
    seen = []
    with tt.library.Library("aten", "IMPL") as lib:
        for key in (AUDIT, LATER):
            lib.impl("relu", passing(key, seen), key, boxed=True)
        x = tt.ones(2)
        with tt.dispatch.IncludeDispatchKeyGuard(tt.DispatchKeySet([AUDIT, LATER])):
            x.relu().neg()
    assert seen == [("TestLater", "aten::relu"), ("TestAudit", "aten::relu")]


def test_a_library_for_the_key_and_the_operators_table():
    with tt.library.Library("t_registered", "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x, "CPU")
        lib.impl("f", tt.library.fallthrough_kernel, "TestAudit")
        assert tt.ops.t_registered.f.default.has_kernel_for_dispatch_key(AUDIT)
        assert "TestAudit: own, fallthrough" in tt.ops.t_registered.f.default.dump()
        with tt.dispatch.IncludeDispatchKeyGuard(AUDIT):
            assert tt.ops.t_registered.f(tt.ones(1)).item() == 1


@pytest.mark.parametrize(
    "name", ["CPU", "AutogradCPU", "Autograd", "TestAudit", "register", "bits", "two words", ""]
)
def test_names_that_are_refused(name):
    count = len(Functionality)
    with pytest.raises(RuntimeError, match="must be an identifier that no key has"):
        tt.DispatchKey.register(name)
    assert len(Functionality) == count


def test_bits_run_out(monkeypatch):
    monkeypatch.setattr(dispatch_key, "NUM_BACKENDS", 64 - len(Functionality))
    with pytest.raises(RuntimeError, match="no bit is left for TestTooMany"):
        tt.DispatchKey.register("TestTooMany")
    assert not hasattr(tt.DispatchKey, "TestTooMany")


def test_of_threads_that_register_one_name_one_succeeds():
    def work():
        try:
            return tt.DispatchKey.register("TestOnce")
        except RuntimeError:
            return None

    outcomes = together(*[work] * 4)
    assert [o for o in outcomes if o is not None] == [tt.DispatchKey.TestOnce]
