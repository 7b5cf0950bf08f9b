"""A CuPy for ROCm: triten has no driver for it and says so, where a CUDA call would fail later."""

from types import SimpleNamespace

import pytest

pytest.importorskip("cupy", reason="cupy is not installed")

from triten.runtime.cuda.cupy import driver


def test_a_cupy_for_rocm_has_no_usable_device(monkeypatch):
    def get_device_count():
        raise AssertionError("asked a HIP runtime for CUDA devices")

    monkeypatch.setattr(driver, "runtime", SimpleNamespace(is_hip=True, getDeviceCount=get_device_count))
    count, reason = driver.count_devices()
    assert count == 0
    assert "built for ROCm" in reason
    monkeypatch.setattr(driver, "runtime", SimpleNamespace(is_hip=False, getDeviceCount=lambda: 2))
    assert driver.count_devices() == (2, "")
