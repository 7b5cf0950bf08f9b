"""Session with the CUDA driver, in which each test frees its device memory."""

import os
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.runtime.cuda.driver import Driver, driver

TRITON_NAMES = {
    "bool": "i1",
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "uint16": "u16",
    "int32": "i32",
    "uint32": "u32",
    "int64": "i64",
    "uint64": "u64",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "float8_e5m2": "fp8e5",
    "float8_e4m3fn": "fp8e4nv",
}


class DeviceSession:
    """Session that allocates, copies and launches on the current device's default stream."""

    def __init__(self, cuda: Driver) -> None:
        self.driver = cuda
        self._held: list[tuple[int, int]] = []

    def empty(self, nbytes: int, device: int = 0) -> int:
        address = self.driver.malloc(device, nbytes)
        self.driver.note_allocated(address, nbytes, device, 0)
        self._held.append((device, address))
        return address

    def put(self, array: np.ndarray) -> int:
        address = self.empty(array.nbytes)
        self.driver.copy_host_to_device(address, np.ascontiguousarray(array), 0)
        self.driver.synchronize_stream(0)
        return address

    def get(self, address: int, shape: int | tuple[int, ...], dtype: object) -> np.ndarray:
        array = np.empty(shape, dtype)
        self.driver.copy_device_to_host(array, address, 0)
        return array

    def map(
        self,
        kernel: object,
        *arrays: np.ndarray,
        dtype: object,
        size: int | None = None,
        **constexprs: object,
    ):
        """Run `kernel(*inputs, out, ...)` as one program over flat arrays and return `out`."""
        size = arrays[0].size if size is None else size
        out = np.empty(size, dtype)
        names = [name for name in kernel.arg_names if name not in constexprs]
        types = ["*" + TRITON_NAMES[array.dtype.name] for array in (*arrays, out)]
        compiled = self.driver.compile(kernel, dict(zip(names, types, strict=True)), constexprs)
        destination = self.empty(out.nbytes)
        compiled.launch((1, 1, 1), 0, *(self.put(array) for array in arrays), destination)
        return self.get(destination, size, dtype)

    def close(self) -> None:
        self.driver.set_device(0)
        self.driver.synchronize()
        for device, address in self._held:
            self.driver.note_freed(address, device, 0)
            self.driver.free(device, address)


@pytest.fixture
def cuda() -> Iterator[DeviceSession]:
    session = DeviceSession(driver())
    yield session
    session.close()


interpreted = os.environ.get("TRITEN_CUDA") == "interpret"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not interpreted and item.get_closest_marker("interpreter"):
            item.add_marker(pytest.mark.skip(reason="a promise of the interpreter, not of a GPU"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "interpreter: checks what only the interpreter promises")
