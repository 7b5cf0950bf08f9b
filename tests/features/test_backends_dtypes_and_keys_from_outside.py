"""Devices: the list of backends, and a device type, a dtype and a dispatch key that come from outside."""

import os
import subprocess
import sys

import pytest

import triten as tt

PROGRAM = """
import ml_dtypes
import triten as tt

tt.utils.rename_privateuse1_backend("toy")
assert str(tt.device("toy", 1)) == "toy:1" and tt.device("toy:1").index == 1
assert str(tt.DispatchKey.PrivateUse1) == "TOY"
lib = tt.library.Library("aten", "IMPL", "PrivateUse1")

half = tt.library.register_dtype(
    "float8_e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz, promotes={tt.float32: tt.float32}, computes_in=tt.float32
)
x = tt.tensor([1.0, 1.5], dtype=half)
assert (x + x).dtype is half and (x + x).tolist() == [2.0, 3.0]
assert (x + tt.ones(2)).dtype is tt.float32

audit = tt.DispatchKey.register("Audit")
seen = []


def audited(op, keys, stack):
    seen.append(op.name)
    tt.dispatch.Dispatcher.singleton().redispatch_boxed(op, keys - audit, stack)


fallbacks = tt.library.Library("_", "IMPL")
fallbacks.fallback(audited, "Audit")
with tt.dispatch.IncludeDispatchKeyGuard(audit):
    tt.ones(2).neg()
assert seen == ["aten::ones", "aten::neg"], seen
print("done")
"""


@pytest.mark.parametrize(
    "text", ["cpu", "cuda", "cuda:1", "meta", "xla:0", "mps", "xpu:2", "hpu", "ipu", "ve"]
)
def test_devices_parse_and_print(text: str) -> None:
    device = tt.device(text)
    assert str(device) == text
    assert tt.device(device.type, device.index) == device


@pytest.mark.parametrize("text", ["gpu", "cuda:x", "cuda:-1", ":1", ""])
def test_bad_devices_are_refused(text: str) -> None:
    with pytest.raises(RuntimeError):
        tt.device(text)


@pytest.mark.parametrize("backend", ["XLA", "XPU", "IPU", "HPU", "VE", "Lazy", "MPS", "PrivateUse2"])
def test_other_backends_route_to_their_kernels(backend: str) -> None:
    with tt.library.Library("t_backends", "DEF") as lib:
        lib.define("f(Tensor x) -> str")
        lib.impl("f", lambda x: backend, backend)
        key = tt.DispatchKeySet(getattr(tt.DispatchKey, backend))
        assert tt.ops.t_backends.f.default.redispatch(key, tt.ones(1)) == backend
        with pytest.raises(NotImplementedError, match="'CPU' backend"):
            tt.ops.t_backends.f(tt.ones(1))


def test_a_device_type_a_dtype_and_a_key_come_from_outside() -> None:
    """Test in a new process, because registrations last as long as the process."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], env={**os.environ}, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
