"""A program for a process of its own: run operators on a driver that compiles every launch and runs none.

`python ahead_of_time.py CAPABILITY` prints a JSON list of the kernels that the operators would have launched
on a GPU of that capability, with what the gate looks at.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton

from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.compile import compile_kernel

CAPABILITY = int(sys.argv[1])
SHARED = {80: 166_912, 90: 232_448}[CAPABILITY]
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


class NothingLaunched(cuda.CompiledKernel):
    def __init__(self, owner, binary):
        self.owner, self.binary, self.name = owner, binary, binary.name

    def launch(self, grid, stream, *values):
        assert len(values) == len(self.binary.parameter_types), (self.name, len(values))
        self.owner.launches += 1
        self.owner.launched.append((self.owner.label, self.binary))


class CompilingDriver(cuda.Driver):
    """One device whose memory does not exist."""

    label = ""
    top = 1 << 40

    def __init__(self):
        super().__init__()
        self.launched = []

    def _compile(self, kernel, signature, constexprs, divisible, options):
        return NothingLaunched(
            self, compile_kernel(kernel, signature, constexprs, divisible, CAPABILITY, options)
        )

    def device_count(self):
        return 1

    def properties(self, device):
        return cuda.DeviceProperties(
            "none", CAPABILITY // 10, CAPABILITY % 10, 1 << 36, {80: 108, 90: 132}[CAPABILITY], 32, SHARED
        )

    def malloc(self, device, nbytes):
        self.top += nbytes + -nbytes % 512
        return self.top

    def free(self, device, address): ...
    def memory_info(self, device):
        return 1 << 36, 1 << 36

    def _nothing(self, *args, **kwargs): ...

    copy_host_to_device = copy_device_to_host = copy_device_to_device = memset = _nothing
    create_stream = query_stream = synchronize_stream = synchronize = create_event = record_event = _nothing
    wait_event = query_event = synchronize_event = elapsed = destroy_event = _nothing


def inspect(binary):
    """Registers, local memory and the widest access of a kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary.cubin)
        file.flush()
        usage = subprocess.run(
            [TOOLS / "cuobjdump", "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    numbers = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", usage))
    ptx = binary.asm["ptx"]
    bits = [
        int(v or 1) * int(w) for v, w in re.findall(r"(?:ld|st)\.global[.\w:]*?(?:\.v(\d))?\.b(\d+)", ptx)
    ]
    return {
        "registers": int(numbers["REG"]),
        "local": int(numbers["LOCAL"]) + int(numbers["STACK"]),
        "shared_left": SHARED - binary.shared,
        "widest": max(bits, default=0),
        "trap": "trap;" in ptx,
        "matrix": sorted(set(re.findall(r"(wgmma\.mma_async|mma\.sync)", ptx))),
    }


driver = CompilingDriver()
cuda._driver = driver

import triten as tt  # noqa: E402


def empty(*sizes, dtype=tt.float32, offset=0):
    flat = tt.empty((offset + tt.empty(sizes, device="meta").numel(),), dtype=dtype, device="cuda")
    return flat[offset:].view(sizes)


def operators():
    """(label, thunk)"""
    yield "add float32 aligned, whole", lambda: empty(4096) + empty(4096)
    yield "add float32 unaligned", lambda: empty(4096, offset=1) + empty(4096)
    yield "add bfloat16 aligned, whole", lambda: empty(4096, dtype=tt.bfloat16) + 1.5
    yield "relu float64 aligned, whole", lambda: empty(4096, dtype=tt.float64).relu()
    yield "add strided", lambda: empty(64, 32).t() + empty(64)
    yield "copy int8 to float16 aligned, whole", lambda: empty(4096, dtype=tt.int8).to(tt.float16)
    yield "copy float64 to bfloat16 aligned, whole", lambda: empty(4096, dtype=tt.float64).to(tt.bfloat16)
    yield "copy float32 to bool aligned, whole", lambda: empty(4096).to(tt.bool)
    yield "copy float32 to float8_e5m2", lambda: empty(4096).to(tt.float8_e5m2)
    if CAPABILITY >= 90:
        yield "copy float32 to float8_e4m3fn", lambda: empty(4096).to(tt.float8_e4m3fn)
    yield "fill aligned, whole", lambda: tt.ones(4096, device="cuda")
    yield "sum rows aligned, whole", lambda: empty(512, 4096).sum(1)
    yield "sum columns aligned, whole", lambda: empty(4096, 512).sum(0)
    yield "sum all", lambda: empty(1 << 20).sum()
    yield "sum bfloat16 aligned, whole", lambda: empty(512, 4096, dtype=tt.bfloat16).sum(1)
    for name in ("amax", "any", "all", "prod", "mean"):
        yield f"{name} rows", lambda name=name: reduce(f"{name}_stub", empty(64, 100))
    yield from joint_reductions()
    yield from rows()
    yield from losses()
    for dtype in (tt.float32, tt.float64, tt.float16, tt.bfloat16, tt.int32, tt.int64):
        yield f"mm {dtype.name}", lambda d=dtype: empty(2048, 2048, dtype=d).mm(empty(2048, 2048, dtype=d))
    yield (
        "mm bfloat16 transposed",
        lambda: empty(2048, 2048, dtype=tt.bfloat16).t().mm(empty(2048, 2048, dtype=tt.bfloat16)),
    )
    for dtype in (tt.float32, tt.float16, tt.bfloat16):
        yield f"conv2d {dtype.name}", lambda d=dtype: convolve(d)
    yield from product_sums()
    yield from pools()
    yield from random_numbers()
    yield from indexing()


def product_sums():
    for dtype in (tt.float64, tt.bfloat16, tt.int64):
        matrix, vector = empty(2048, 2048, dtype=dtype), empty(2048, dtype=dtype)
        yield f"addmm {dtype.name}", lambda v=vector, m=matrix: tt.addmm(v, m, m, alpha=2, beta=3)
        yield f"mv {dtype.name}", lambda v=vector, m=matrix: m.mv(v)
        yield f"mv transposed {dtype.name}", lambda v=vector, m=matrix: m.t().mv(v)
        yield f"dot {dtype.name}", lambda d=dtype: empty(1 << 20, dtype=d).dot(empty(1 << 20, dtype=d))
    batch = empty(4, 512, 512, dtype=tt.float16)
    yield "baddbmm float16", lambda: tt.baddbmm(batch[0], batch, batch, beta=2)
    yield "addbmm float16", lambda: tt.addbmm(batch[0], batch, batch)


def pools():
    from triten.dispatch.generated.functions import avg_pool2d, max_pool2d

    for dtype in (tt.float64, tt.bfloat16):
        for name, function in (("max_pool2d", max_pool2d), ("avg_pool2d", avg_pool2d)):
            yield f"{name} {dtype.name}", lambda d=dtype, f=function: pool(d, f)


def pool(dtype, function):
    x = empty(32, 64, 56, 56, dtype=dtype).requires_grad_()
    y = function(x, (3, 3), (2, 2), (1, 1))
    y.backward(empty(*y.shape, dtype=dtype))


def random_numbers():
    yield "uniform_ float32 aligned, whole", lambda: empty(4096).uniform_()
    for dtype in (tt.float64, tt.bfloat16):
        for name in ("uniform_", "normal_", "random_", "bernoulli_"):
            yield f"{name} {dtype.name}", lambda n=name, d=dtype: getattr(empty(4096, dtype=d), n)()
    for name in ("exponential_", "cauchy_", "log_normal_"):
        yield name, lambda n=name: getattr(empty(4096), n)()
    for dtype in (tt.float32, tt.bfloat16):
        yield f"dropout {dtype.name}", lambda d=dtype: tt.native_dropout(empty(4096, dtype=d), 0.5, True)
    yield "geometric_", lambda: empty(4096).geometric_(0.5)
    yield "random_ int64", lambda: empty(4096, dtype=tt.int64).random_(-5, 1 << 40)
    yield "random_ uint8", lambda: empty(4096, dtype=tt.uint8).random_()
    yield "normal", lambda: tt.normal(empty(64, 64), 1.0)
    yield "few randperm", lambda: tt.randperm(1000, device="cuda")
    yield "many randperm", lambda: tt.randperm(1000000, device="cuda")
    yield "multinomial with replacement", lambda: tt.multinomial(empty(8, 5000), 1000, True)
    yield "multinomial", lambda: tt.multinomial(empty(8, 5000), 10)
    yield "arange float32 aligned, whole", lambda: tt.arange(4096.0, device="cuda")
    yield "arange int64", lambda: tt.arange(4096, device="cuda")
    yield "linspace bfloat16", lambda: tt.linspace(0, 1, 4096, dtype=tt.bfloat16, device="cuda")


def indexing():
    rows, two = empty(100, dtype=tt.int64), empty(7, 100, dtype=tt.int32)
    each = empty(70, 64, dtype=tt.int64)
    for dtype in (tt.float32, tt.float64, tt.bfloat16, tt.uint8):
        x = empty(1000, 64, dtype=dtype)
        wide = empty(100, 64, dtype=dtype)
        yield f"index {dtype.name}", lambda x=x: x[rows]
        yield f"index twice {dtype.name}", lambda x=x: x[rows, two]
        yield f"gather {dtype.name}", lambda x=x: x.gather(0, each)
        yield f"index_put {dtype.name}", lambda x=x, v=wide: x.index_put((rows,), v)
        yield f"index_put twice {dtype.name}", lambda x=x: x.index_put((rows, two), x[:7, :1])
        yield f"index_put accumulate {dtype.name}", lambda x=x, v=wide: x.index_put((rows,), v, True)
        yield f"index_add {dtype.name}", lambda x=x, v=wide: x.index_add(0, rows, v, alpha=3)
        yield f"scatter_add {dtype.name}", lambda x=x: x.scatter_add(0, each, x)
        yield f"scatter multiply {dtype.name}", lambda x=x: x.scatter(0, each, x, reduce="multiply")
        yield f"tril {dtype.name}", lambda x=x: x.tril(-1)
        yield f"flip {dtype.name}", lambda x=x: x.flip((0,))
        yield f"cat {dtype.name}", lambda x=x, v=wide: tt.cat([x, v])
        yield f"masked_fill {dtype.name}", lambda x=x: x.masked_fill(empty(1000, 64, dtype=tt.bool), 2.5)
        yield f"nonzero {dtype.name}", lambda x=x: found_nonzero(x)
        if dtype.is_floating_point:
            yield (
                f"embedding {dtype.name}",
                lambda v=wide: tt.embedding_dense_backward(v, rows, 1000, 3, True),
            )
            for norm in (0.0, 1.0, 2.0, 3.0, float("inf")):
                yield (
                    f"renorm {norm} {dtype.name}",
                    lambda x=x, p=norm: tt.embedding_renorm_(x, rows, 1.0, p),
                )


def found_nonzero(x):
    driver.copy_device_to_host = lambda dst, *_: dst.fill(5)
    x.nonzero()
    del driver.copy_device_to_host


def joint_reductions():
    for name in ("argmax", "logsumexp", "var_mean", "std"):
        function = getattr(tt, name)
        yield f"{name} rows", lambda f=function: f(empty(64, 100), 1)
        yield f"{name} columns of float64", lambda f=function: f(empty(3000, 64, dtype=tt.float64), 0)
    yield "max bfloat16", lambda: empty(64, 4096, dtype=tt.bfloat16).max(1)
    yield "argmax int8 all", lambda: empty(1 << 20, dtype=tt.int8).argmax()
    yield "var all", lambda: empty(1 << 20).var()
    yield "aminmax int64", lambda: tt.aminmax(empty(64, 100, dtype=tt.int64), dim=1)


def rows():
    for function in (tt.softmax, tt.log_softmax):
        name = function.__name__
        for dtype in (tt.float32, tt.bfloat16):
            x = empty(64, 4096, dtype=dtype)
            yield f"{name} {dtype.name} aligned, whole", lambda f=function, x=x: f(x, 1)
            yield f"{name} {dtype.name} backward", lambda f=function, x=x: gradients(f, x, 1)
        yield f"{name} columns", lambda f=function: gradients(f, empty(64, 4096), 0)
        for dtype in (tt.float32, tt.float64):
            x = empty(4, 50_257, dtype=dtype)
            yield f"{name} {dtype.name} long", lambda f=function, x=x: gradients(f, x, 1)
    for dtype in (tt.float32, tt.float64):
        yield f"cumsum {dtype.name}", lambda d=dtype: empty(64, 4096, dtype=d).cumsum(1)
    yield "cumsum columns", lambda: empty(4096, 64).cumsum(0)
    yield "cumsum all of int32", lambda: empty(1 << 20, dtype=tt.int32).cumsum(0)


def gradients(function, x, dim):
    x = x.detach().requires_grad_()
    y = function(x, dim)
    y.backward(empty(*y.shape, dtype=y.dtype))


def losses():
    nll, mse = tt.nn.functional.nll_loss, tt.nn.functional.mse_loss
    target, labels = empty(64, dtype=tt.int64), empty(2, 8, 8, dtype=tt.int64)
    for dtype in (tt.float32, tt.bfloat16):
        x, weight, image = (empty(*sizes, dtype=dtype) for sizes in ((64, 1000), (1000,), (2, 10, 8, 8)))
        for label, function, given in (
            ("nll_loss", lambda y, _: nll(y, target), x),
            ("nll_loss weighted", lambda y, _, w=weight: nll(y, target, w, reduction="sum"), x),
            ("nll_loss2d", lambda y, _: nll(y, labels, reduction="none"), image),
            ("mse_loss", lambda y, _, x=x: mse(y, x), x),
        ):
            yield f"{label} {dtype.name}", lambda f=function, x=given: gradients(f, x, 0)


def reduce(stub, x, dtype=None):
    from triten.dispatch.structured.stub import StructuredCall, find_kernel
    from triten.runtime.tensor_spec import TensorSpec

    if stub in ("any_stub", "all_stub"):
        dtype = tt.bool
    out = TensorSpec.contiguous(x.shape[:1], dtype or x.dtype, x.device)
    call = StructuredCall(stub, {"self": x._spec}, ("self",), (out,), None, x.device, {"dims": (1,)})
    find_kernel(stub, "cuda", stub)(call).into(
        tt.empty(out.sizes, dtype=out.dtype, device="cuda")._data, x._data
    )


def convolve(dtype):
    x = empty(32, 64, 56, 56, dtype=dtype).requires_grad_()
    w = empty(128, 64, 3, 3, dtype=dtype).requires_grad_()
    y = tt.conv2d(x, w, None, (1, 1), (1, 1))
    y.backward(empty(*y.shape, dtype=dtype))


found = []
seen = set()
for label, run in operators():
    driver.label = label
    driver.launched.clear()
    run()
    assert driver.launched, label
    for _, binary in driver.launched:
        if id(binary) not in seen:
            seen.add(id(binary))
            found.append({"label": label, "kernel": binary.name, **inspect(binary)})
json.dump(found, sys.stdout)
