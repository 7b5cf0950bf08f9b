"""Questions to NVIDIA's management library, answered by a stand-in for `pynvml`: there is no device to ask about."""

import sys
from types import SimpleNamespace

import pytest

import triten as tt
from triten.runtime.cuda import driver as drivers
from triten.runtime.cuda.device_properties import DeviceProperties


class OneDevice:
    """A driver with a device on bus 0x1b."""

    def current_device(self):
        return 0

    def device_count(self):
        return 1

    def properties(self, device):
        return DeviceProperties("one", 9, 0, 0, 0, 32, 0, pci_domain_id=0, pci_bus_id=0x1B, pci_device_id=0)


class NVMLError(Exception):
    pass


@pytest.fixture
def library(monkeypatch):
    """`pynvml` for that device, as its documentation has it: memory in bytes, power in mW, clocks in MHz."""
    asked = []

    def of(answer):
        def question(handle, *which):
            assert handle == "handle of 00000000:1B:00.0"
            asked.append(which)
            return answer

        return question

    found = SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByPciBusId=lambda place: f"handle of {place.decode()}",
        nvmlDeviceGetUtilizationRates=of(SimpleNamespace(gpu=63, memory=17)),
        nvmlDeviceGetMemoryInfo=of(SimpleNamespace(used=3 << 30)),
        nvmlDeviceGetTemperature=of(41),
        nvmlDeviceGetPowerUsage=of(352_118),
        nvmlDeviceGetClockInfo=of(1980),
        nvmlDeviceGetComputeRunningProcesses=of([SimpleNamespace(pid=7, usedGpuMemory=5 << 20)]),
        asked=asked,
    )
    monkeypatch.setitem(sys.modules, "pynvml", found)
    return found


@pytest.fixture
def device(monkeypatch):
    one = OneDevice()
    monkeypatch.setattr("triten.cuda.nvml.driver", lambda: one)
    monkeypatch.setattr("triten.runtime.cuda.devices.driver", lambda: one)


@pytest.mark.parametrize(
    ("name", "expected", "which"),
    [
        ("utilization", 63, ()),
        ("memory_usage", 17, ()),
        ("device_memory_used", 3 << 30, ()),
        ("temperature", 41, (0,)),
        ("power_draw", 352_118, ()),
        ("clock_rate", 1980, (1,)),
    ],
)
def test_a_device_is_asked_by_its_place_on_the_bus(library, device, name, expected, which):
    assert getattr(tt.cuda, name)() == expected
    assert getattr(tt.cuda, name)("cuda:0") == expected
    assert library.asked == [which, which]


def test_processes_are_listed(library, device):
    assert tt.cuda.list_gpu_processes() == "GPU:0\nprocess          7 uses        5.000 MB GPU memory"
    library.nvmlDeviceGetComputeRunningProcesses = lambda handle: []
    assert tt.cuda.list_gpu_processes() == "GPU:0\nno processes are running"


def test_a_process_whose_memory_is_hidden_is_listed(library, device):
    hidden = SimpleNamespace(pid=7, usedGpuMemory=None)
    library.nvmlDeviceGetComputeRunningProcesses = lambda handle: [hidden]
    line = tt.cuda.list_gpu_processes().splitlines()[1]
    assert line.split() == ["process", "7", "uses", "0.000", "MB", "GPU", "memory"]


def test_a_device_that_does_not_exist_is_refused(library, device):
    with pytest.raises(AssertionError, match="Invalid device id: got 3"):
        tt.cuda.temperature(3)


def test_a_simulated_device_is_unknown_there(library):
    if not drivers.wants_interpreter():
        pytest.skip("the devices are real")
    with pytest.raises(RuntimeError, match="cuda:0 is simulated"):
        tt.cuda.utilization()


def test_without_a_driver(library):
    def fail():
        raise NVMLError("Driver Not Loaded")

    library.nvmlInit = fail
    with pytest.raises(RuntimeError, match="cuda driver can't be loaded, is cuda enabled"):
        tt.cuda.power_draw()
    assert tt.cuda.list_gpu_processes() == "cuda driver can't be loaded, is cuda enabled?"


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(ModuleNotFoundError, match="pip install nvidia-ml-py"):
        tt.cuda.clock_rate()
    assert tt.cuda.list_gpu_processes() == "pynvml module not found, please install nvidia-ml-py"
