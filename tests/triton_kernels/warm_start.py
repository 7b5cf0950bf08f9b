"""Program that runs operators on a driver that finds or compiles each kernel and runs none.

`python warm_start.py [without]` prints as JSON the launches and the compilations; `without` blocks the import
of Triton.
"""

import ctypes
import json
import sys

if sys.argv[1:] == ["without"]:
    sys.modules["triton"] = None

import triten as tt
from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.triton import cubin_store

CAPABILITY = 80
compiled = []
compile_kernel = cubin_store.compile_kernel


def counting(kernel, *rest):
    compiled.append(kernel.__name__)
    return compile_kernel(kernel, *rest)


class NothingLaunched(cuda.CompiledKernel):
    def __init__(self, owner, binary):
        self.owner, self.binary, self.name = owner, binary, binary.name

    def launch(self, grid, stream, *values):
        assert len(values) == len(self.binary.parameter_types), (self.name, values)
        self.owner.launched.append((self.name, list(grid), len(self.binary.cubin)))

    def bound(self, tensors):
        return self.launch


def nothing(self, *args, **kwargs): ...


class FindingDriver(type("Inert", (cuda.Driver,), dict.fromkeys(cuda.Driver.__abstractmethods__, nothing))):
    """Driver of one device without memory."""

    top = 1 << 40

    def __init__(self):
        super().__init__()
        self.launched = []

    def _compile(self, kernel, signature, constexprs, divisible, options):
        return NothingLaunched(
            self, cubin_store.find_or_compile(kernel, signature, constexprs, divisible, CAPABILITY, options)
        )

    def device_count(self):
        return 1

    def properties(self, device):
        return cuda.DeviceProperties("none", CAPABILITY // 10, CAPABILITY % 10, 1 << 36, 108, 32, 166_912)

    def malloc(self, device, nbytes):
        self.top += nbytes + -nbytes % 512
        return self.top

    def malloc_mapped(self, nbytes):
        """Allocate real memory, since the host reads it; it is never freed."""
        self.mapped = ctypes.create_string_buffer(nbytes)
        return ctypes.addressof(self.mapped)

    def memory_info(self, device):
        return 1 << 36, 1 << 36


def empty(*sizes, dtype=tt.float32):
    return tt.empty(sizes, dtype=dtype, device="cuda")


cubin_store.compile_kernel = counting
driver = cuda._driver = FindingDriver()
x = empty(64, 128)
rows = empty(10, dtype=tt.int64)

_ = x + x
_ = x + x[:, :1]
_ = x.sum(1)
_ = x.mm(empty(128, 32))
_ = tt.softmax(x, 1)
_ = x.uniform_()
_ = tt.native_dropout(x, 0.5, True)
_ = x[rows]
json.dump(
    {
        "compiled": len(compiled),
        "launched": driver.launched,
        "imported": sys.modules.get("triton") is not None,
    },
    sys.stdout,
)
