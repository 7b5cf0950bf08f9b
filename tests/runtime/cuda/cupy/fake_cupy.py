"""Fake of CuPy without CUDA: the bindings that the driver calls, over handles that the fake counts."""

import types


class CUDARuntimeError(RuntimeError):
    """CuPy's runtime error, with CUDA's number."""

    def __init__(self, status):
        super().__init__(f"cudaError {status}")
        self.status = status


class CUDADriverError(RuntimeError):
    """CuPy's error of the driver API."""


class FakeRuntime(types.ModuleType):
    """Fake of `cupy.cuda.runtime` that logs every call; a dead handle is undefined behavior, so the fake
    raises.
    """

    CUDARuntimeError = CUDARuntimeError
    eventDisableTiming, eventBlockingSync, eventInterprocess = 2, 1, 4
    hostAllocPortable, hostAllocMapped = 1, 2
    unified = True
    """Whether the device sees page-locked memory at the host's addresses."""
    memcpyHostToDevice, memcpyDeviceToHost, memcpyDefault = 1, 2, 4
    memoryTypeUnregistered, memoryTypeHost, memoryTypeDevice, memoryTypeManaged = 0, 1, 2, 3

    def __init__(self):
        super().__init__("cupy.cuda.runtime")
        self.log = []
        self.device = 0
        self.handles = iter(range(0x7000, 0x8000, 16))
        self.priorities = {}
        self.events = {}
        self.peers = set()
        self.pointers = {}
        self.host_memory = 1 << 20
        self.pageable = 0

    def _alive(self, stream):
        assert stream == 0 or stream in self.priorities, "CUDA may crash here"

    def driverGetVersion(self):
        return 13020

    def getDeviceCount(self):
        return 2

    def setDevice(self, device):
        self.device = device

    def getDevice(self):
        return self.device

    def streamCreateWithPriority(self, flags, priority):
        stream = next(self.handles)
        self.priorities[stream] = max(-5, min(0, priority))
        self.log.append(("streamCreateWithPriority", self.device, flags, priority))
        return stream

    def streamDestroy(self, stream):
        self._alive(stream)
        del self.priorities[stream]

    def streamGetPriority(self, stream):
        if stream and stream not in self.priorities:
            raise CUDARuntimeError(400)
        return self.priorities.get(stream, 0)

    def streamQuery(self, stream):
        self._alive(stream)
        return 600 if stream else 0

    def streamSynchronize(self, stream):
        self._alive(stream)
        self.log.append(("streamSynchronize", stream))

    def streamWaitEvent(self, stream, event):
        self._alive(stream)
        self.log.append(("streamWaitEvent", stream, self.events[event]))

    def eventCreateWithFlags(self, flags):
        if flags & 4 and not flags & 2:
            raise CUDARuntimeError(1)
        event = next(self.handles)
        self.events[event] = flags
        return event

    def eventRecord(self, event, stream):
        self._alive(stream)
        self.log.append(("eventRecord", self.events[event], stream))

    def eventQuery(self, event):
        return 0 if self.events[event] else 600

    def eventSynchronize(self, event):
        self.log.append(("eventSynchronize", self.events[event]))

    def eventElapsedTime(self, start, end):
        return float(self.events[end] - self.events[start])

    def eventDestroy(self, event):
        del self.events[event]

    def ipcGetEventHandle(self, event):
        return b"event %d" % self.events[event]

    def ipcOpenEventHandle(self, handle):
        event = next(self.handles)
        self.events[event] = handle
        return event

    def deviceCanAccessPeer(self, device, peer):
        return int(device != peer)

    def deviceEnablePeerAccess(self, peer):
        if (self.device, peer) in self.peers:
            raise CUDARuntimeError(704)
        if self.device == peer:
            raise CUDARuntimeError(101)
        self.peers.add((self.device, peer))

    def hostAlloc(self, nbytes, flags):
        if nbytes > self.host_memory:
            raise CUDARuntimeError(2)
        self.log.append(("hostAlloc", nbytes, flags))
        address = next(self.handles)
        self.pointers[address] = (self.memoryTypeHost, 0)
        return address

    def freeHost(self, address):
        del self.pointers[address]

    def pointerGetAttributes(self, address):
        if address == 0xBAD:
            raise CUDARuntimeError(700)
        if address == 0x1:
            raise CUDARuntimeError(1)
        kind, device = self.pointers.get(address, (self.memoryTypeUnregistered, -2))
        there = address if self.unified else address + 1
        return types.SimpleNamespace(type=kind, device=device, devicePointer=there)

    def memcpyAsync(self, dst, src, nbytes, kind, stream):
        self._alive(stream)
        self.log.append(("memcpyAsync", dst, src, nbytes, kind, stream))

    def getDeviceProperties(self, device):
        names = (
            *("totalGlobalMem", "multiProcessorCount", "sharedMemPerBlockOptin", "sharedMemPerBlock"),
            *("sharedMemPerMultiprocessor", "regsPerMultiprocessor", "maxThreadsPerMultiProcessor"),
            *("maxThreadsPerBlock", "l2CacheSize", "pciDomainID", "pciBusID", "pciDeviceID"),
        )
        fields = {name: 100 + place for place, name in enumerate(names)}
        return {"name": b"Fake", "major": 9, "minor": 0, "warpSize": 32, "uuid": bytes(range(16)), **fields}

    def deviceGetAttribute(self, attribute, device):
        return self.pageable if attribute == self.cudaDevAttrPageableMemoryAccess else attribute

    def __getattr__(self, name):
        if name.startswith("cudaDevAttr"):
            return len(name)
        raise AttributeError(name)


def modules():
    """Return the modules of `import cupy` by name, the runtime included."""
    runtime = FakeRuntime()
    cupy, cuda = types.ModuleType("cupy"), types.ModuleType("cupy.cuda")
    driver, device = types.ModuleType("cupy.cuda.driver"), types.ModuleType("cupy.cuda.device")
    driver.CUDADriverError = CUDADriverError
    cuda.runtime, cuda.driver, cuda.device, cupy.cuda = runtime, driver, device, cuda
    cuda.MemoryPool = lambda *_: None
    device.get_cublas_handle = lambda: 0xB1A5
    backends = {"cupy_backends": types.ModuleType("cupy_backends")}
    for name in ("cuda", "cuda.libs", "cuda.libs.cublas"):
        backends[f"cupy_backends.{name}"] = types.ModuleType(f"cupy_backends.{name}")
    backends["cupy_backends.cuda.libs.cublas"].setStream = lambda handle, stream: runtime.log.append(
        ("cublasSetStream", handle, stream)
    )
    named = {module.__name__: module for module in (cupy, cuda, driver, device, runtime)}
    return {**named, **backends}, runtime
