"""Unsupported uses of autocast raise an error, or warn and leave autocast off."""

import warnings

import pytest

import triten as tt


def test_register_autocast_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="Device type 'meta' does not support autocast"):
        tt.library.register_autocast("aten::add.Tensor", "meta", tt.float16)
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        tt.library.register_autocast("aten::add.Tensor", 3, tt.float16)
    with pytest.raises(TypeError, match=r"cast_inputs must be triten\.dtype, not str"):
        tt.library.register_autocast("aten::add.Tensor", "cpu", "float16")
    with pytest.raises(ValueError, match="unexpected type for op: int"):
        tt.library.register_autocast(3, "cpu", tt.float16)


def test_unsupported_dtypes_are_warned_of_and_leave_it_off():
    a = tt.ones(2, 2)
    with pytest.warns(
        UserWarning, match=r"In CPU autocast, but the target dtype triten\.float32 is not supported"
    ):
        context = tt.autocast("cpu", dtype=tt.float32)
    with context:
        assert not tt.is_autocast_enabled("cpu") and tt.mm(a, a).dtype is tt.float32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tt.autocast("cpu", dtype=tt.float32, enabled=False)
        tt.autocast("cpu", dtype=tt.float16)
        tt.autocast("cuda", dtype=tt.bfloat16)


def test_cuda_where_there_is_none_is_warned_of_and_off(monkeypatch):
    from triten.runtime.cuda import driver

    monkeypatch.setattr(driver, "is_available", lambda: False)
    with pytest.warns(UserWarning, match="CUDA is not available"):
        context = tt.autocast("cuda")
    with context:
        assert not tt.is_autocast_enabled("cuda")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tt.autocast("meta"), RuntimeError, "unsupported autocast device_type 'meta'"),
        (lambda: tt.autocast("nope"), RuntimeError, "Expected one of cpu, cuda"),
        (
            lambda: tt.autocast(tt.device("cpu")),
            ValueError,
            "Expected `device_type` of type `str`, got: `<class",
        ),
        (lambda: tt.autocast(lambda: None), ValueError, "Expected `device_type` of type `str`"),
        (
            lambda: tt.autocast("cpu", cache_enabled=3),
            TypeError,
            "cache_enabled must be bool or None, not int",
        ),
        (lambda: tt.autocast("cuda", dtype=3).__enter__(), TypeError, "dtype must be triten.dtype, not int"),
        (lambda: tt.get_autocast_dtype("meta"), RuntimeError, "unknown device type for autocast: 'meta'"),
        (
            lambda: tt.get_autocast_dtype(3),
            TypeError,
            r"get_autocast_dtype\(\): argument 'device_type' .* str, not int",
        ),
        (
            lambda: tt.set_autocast_dtype("cpu", 3),
            TypeError,
            "argument 'dtype' .* must be triten.dtype, not int",
        ),
        (lambda: tt.set_autocast_dtype("cpu", None), TypeError, "must be triten.dtype, not NoneType"),
        (lambda: tt.set_autocast_enabled("cpu", 1), TypeError, "argument 'enabled' .* must be bool, not int"),
        (
            lambda: tt.set_autocast_enabled("cpu"),
            TypeError,
            "argument 'enabled' .* must be bool, not NoneType",
        ),
        (
            lambda: tt.set_autocast_enabled(3, True),
            TypeError,
            "argument 'device_type' .* must be str, not int",
        ),
        (lambda: tt.set_autocast_enabled("meta", True), RuntimeError, "unknown device type for autocast"),
        (lambda: tt.is_autocast_enabled("meta"), RuntimeError, "unknown device type for autocast"),
        (lambda: tt.set_autocast_cache_enabled(1), TypeError, r"enabled must be a bool \(got int\)"),
        (lambda: tt.is_autocast_available("nope"), RuntimeError, "Expected one of cpu, cuda"),
        (
            lambda: tt.amp.is_autocast_available(3),
            TypeError,
            "argument 'device_type' .* must be str, not int",
        ),
        (lambda: tt.amp.custom_fwd(device_type=3), ValueError, "Expected `device_type` of type `str`"),
        (lambda: tt.amp.custom_bwd(device_type=3), ValueError, "Expected `device_type` of type `str`"),
    ],
)
def test_bad_arguments_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
