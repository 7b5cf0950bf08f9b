"""``kernel[grid](tensors)``, interpreted or compiled: results, streams, and the compiled kernel's errors."""

import collections

import pytest
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import triten as tt
from triten.runtime.cuda.driver import driver


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def describe(out, a, b: tl.int64, c, d, absent, one):
    tl.store(out, (a.dtype == tl.int32) * 1)
    tl.store(out + 1, (b.dtype == tl.int64) * 1)
    tl.store(out + 2, (c.dtype == tl.float32) * 1)
    tl.store(out + 3, (d.dtype == tl.int1) * 1)
    tl.store(out + 4, 1 if absent is None else 0)
    tl.store(out + 5 + tl.arange(0, one), 1)


@triton.jit
def of_tuple(pair, out):
    tl.store(out, tl.load(pair[0]) + pair[1])


@triton.jit
def double_tiles(source, target, M: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * M
    target.store([i, 0], source.load([i, 0]) * 2)


@pytest.fixture(autouse=True)
def settled():
    yield
    tt.cuda.set_device(0)
    tt.cuda.synchronize()


def numbers(n, device="cuda", dtype=tt.float32):
    return tt.arange(n, dtype=dtype, device=device)


@pytest.mark.parametrize(
    "dtype", [tt.float32, tt.float64, tt.float16, tt.bfloat16, tt.int64, tt.uint8], ids=repr
)
@pytest.mark.parametrize("n", [1, 16, 100])
def test_results(n, dtype):
    x, y = numbers(n, dtype=dtype), tt.ones(n, dtype=dtype, device="cuda")
    out = tt.empty_like(x)
    before = driver().launches
    add[(triton.cdiv(n, 32),)](x, y, out, n, BLOCK=32, num_warps=8, num_stages=2)
    assert driver().launches == before + 1
    assert out.tolist() == (x + 1).tolist()


def test_a_view_begins_where_it_begins():
    x, out = numbers(50), tt.zeros(50, device="cuda")
    add[(1,)](x[7:], x[7:], out[9:], 20, BLOCK=32)
    assert out.tolist() == [0.0] * 9 + [2.0 * i for i in range(7, 27)] + [0.0] * 21


@pytest.mark.parametrize("grid", [(4,), [4], (2, 2), lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)])
def test_grids(grid):
    x, out = numbers(128), tt.zeros(128, device="cuda")
    add[grid](x, x, out, n=128, BLOCK=32)
    written = 64 if grid == (2, 2) else 128
    assert out.tolist() == [2.0 * i for i in range(written)] + [0.0] * (128 - written)


@pytest.mark.parametrize("grid", [(0,), (3, 0)])
def test_an_empty_grid_launches_nothing(grid):
    x = numbers(8)
    before = driver().launches
    add[grid](x, x, x, 8, BLOCK=8)
    assert driver().launches == before
    with pytest.raises(RuntimeError, match="invalid configuration argument: kernel 'add'"):
        add[(1, 65536)](x, x, x, 8, BLOCK=8)


def test_numbers_have_the_types_of_a_compiled_kernel():
    out = tt.empty(6, dtype=tt.int32, device="cuda")
    describe[(1,)](out, 5, 6, 0.5, True, None, 1)
    assert out.tolist() == [1] * 6


def test_tuples():
    Pair = collections.namedtuple("Pair", "tensor number")
    out = tt.empty(1, device="cuda")
    of_tuple[(1,)]((numbers(9)[3:], 5), out)
    assert out.item() == 8.0
    of_tuple[(1,)](Pair(numbers(9)[2:], 5), out)
    assert out.item() == 7.0


def test_descriptors():
    source = numbers(64 * 32).view(64, 32)
    target = tt.zeros_like(source)
    double_tiles[(3,)](
        TensorDescriptor.from_tensor(source, [16, 32]), TensorDescriptor.from_tensor(target, [16, 32]), 16, 32
    )
    assert target[:48].tolist() == (source[:48] * 2).tolist()
    assert target[48:].sum().item() == 0


@pytest.mark.parametrize(("padding", "total"), [("zero", 0.0), ("nan", float("nan"))])
def test_a_descriptor_reads_its_padding_outside(padding, total):
    source, target = tt.ones(8, 32, device="cuda"), tt.empty(16, 32, device="cuda")
    double_tiles[(1,)](
        TensorDescriptor.from_tensor(source, [16, 32], padding),
        TensorDescriptor.from_tensor(target, [16, 32]),
        16,
        32,
    )
    assert target[:8].tolist() == [[2.0] * 32] * 8
    assert str(target[8:].sum().item()) == str(total)


def test_the_same_memory_as_another_dtype():
    x, out = tt.ones(4, device="cuda"), tt.empty(4, dtype=tt.int32, device="cuda")
    add[(1,)](triton.reinterpret(x, tl.int32), triton.reinterpret(x, tl.int32), out, 4, BLOCK=4)
    assert out.tolist() == [0x3F800000 * 2] * 4


def test_heuristics_and_options():
    @triton.heuristics({"TWICE": lambda args: args["n"] > 4})
    @triton.jit
    def fill(out, n, TWICE: tl.constexpr):
        tl.store(out, n * 2 if TWICE else n)

    out = tt.empty(1, dtype=tt.int32, device="cuda")
    fill[(1,)](out, 7, num_warps=1)
    assert out.item() == 14
    fill[(1,)](out, 3)
    assert out.item() == 3


def test_tuning_runs_every_configuration_and_then_the_chosen_one():
    @triton.autotune(
        [triton.Config({"BLOCK": 8}), triton.Config({"BLOCK": 16})], key=["n"], restore_value=["out"]
    )
    @triton.jit
    def tuned(out, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(out + i, mask=i < n) + 1, mask=i < n)

    out = tt.zeros(8, device="cuda")
    tuned[(1,)](out, 8)
    assert out.tolist() == [1.0] * 8
    assert set(tuned.configs_timings) == set(tuned.configs)


def test_hooks_before_a_run_see_the_tensors():
    seen = []

    @triton.jit
    def fill(out, n):
        tl.store(out, n)

    fill.add_pre_run_hook(lambda *args, **kwargs: seen.append((args, kwargs["n"])))
    out = tt.zeros(1, device="cuda")
    fill[(1,)](out, n=3)
    assert seen == [((out,), 3)]
    assert out.item() == 3.0


@pytest.mark.interpreter
def test_work_is_enqueued_on_the_current_stream():
    cuda = driver()
    out = tt.zeros(8, device="cuda")
    ones = tt.ones(8, device="cuda")
    tt.cuda.synchronize()
    stream = cuda.create_stream(0)
    cuda.set_stream(0, stream)
    try:
        add[(1,)](ones, ones, out, 8, BLOCK=8)
    finally:
        cuda.set_stream(0, 0)
    assert not cuda.query_stream(stream), "it has not run yet"
    cuda.synchronize_stream(stream)
    assert cuda.query_stream(stream)
    assert out.tolist() == [2.0] * 8


def test_it_runs_on_the_current_device():
    x = numbers(8, device="cuda:1")
    with pytest.raises(ValueError, match=r"Pointer argument \(at 0\).*expected a tensor on cuda:0"):
        add[(1,)](x, x, x, 8, BLOCK=8)
    with tt.cuda.device(1):
        add[(1,)](x, x, x, 8, BLOCK=8)
    assert x.tolist() == [2.0 * i for i in range(8)]


@pytest.mark.interpreter
def test_accesses_are_checked():
    x = tt.ones(8, device="cuda")
    add[(1,)](x, x, tt.empty(4, device="cuda"), 8, BLOCK=8)
    with pytest.raises(RuntimeError, match=r"illegal memory access.*kernel 'add'"):
        tt.cuda.synchronize()
    add[(1,)](x, x, x, 8, BLOCK=8)
    assert x.tolist() == [2.0] * 8


def test_an_empty_tensor_is_a_null_pointer():
    @triton.jit
    def unused(x, out):
        tl.store(out, x.to(tl.int64))

    out = tt.ones(1, dtype=tt.int64, device="cuda")
    unused[(1,)](tt.empty(0), out)
    assert out.item() == 0


class Foreign:
    dtype = tt.float32

    def data_ptr(self):
        return 4096


class Window:
    """A program's own view of a tensor, which only has what Triton asks for."""

    def __init__(self, base, offset):
        self.tensor, self.offset, self.dtype = base, offset, base.dtype

    def data_ptr(self):
        return self.tensor.data_ptr() + self.offset * self.tensor.element_size()


def test_objects_with_an_address_and_a_dtype():
    x, out = tt.arange(8.0, device="cuda"), tt.zeros(8, device="cuda")
    add[(1,)](Window(x, 2), Window(x, 4), Window(out, 1), 4, BLOCK=4)
    assert out.tolist() == [0, 6, 8, 10, 12, 0, 0, 0]


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize(
    "wrong", [tt.ones(4), tt.ones(4, device="meta"), Foreign()], ids=["cpu", "meta", "foreign"]
)
def test_memory_out_of_reach_is_refused(wrong, position):
    tensors = [tt.ones(4, device="cuda") for _ in range(3)]
    tensors[position] = wrong
    words = rf"Pointer argument \(at {position}\) cannot be accessed from Triton \(cpu tensor\?\)"
    with pytest.raises(ValueError, match=words):
        add[(1,)](*tensors, 4, BLOCK=4)


@pytest.mark.interpreter
@pytest.mark.parametrize(
    ("args", "kwargs", "error", "words"),
    [
        ((4,), {}, TypeError, "missing a required argument: 'BLOCK'"),
        ((4, 4, 4), {}, TypeError, "too many positional arguments"),
        ((4,), {"BLOCK": 4, "other": 2}, KeyError, "Keyword argument other was specified but unrecognised"),
        (("4",), {"BLOCK": 4}, TypeError, "argument 'n': expected a Tensor, a number or None, got str"),
        ((2**64,), {"BLOCK": 4}, OverflowError, "has more than 64 bits"),
        ((4,), {"BLOCK": tt.ones(1)}, TypeError, "argument 'BLOCK' is a constexpr, got a Tensor"),
    ],
)
def test_arguments_that_do_not_fit(args, kwargs, error, words):
    x = tt.ones(4, device="cuda")
    with pytest.raises(error, match=words):
        add[(1,)](x, x, x, *args, **kwargs)
    with pytest.raises(TypeError, match=r"argument 'x': Triton has no triten.complex64"):
        add[(1,)](tt.ones(4, dtype=tt.complex64).to("cuda"), x, x, 4, BLOCK=4)


@pytest.mark.interpreter
def test_values_beyond_an_annotated_type_are_refused():
    @triton.jit
    def narrow(out, n: tl.int8):
        tl.store(out, n)

    with pytest.raises(TypeError, match="kernel 'narrow': argument 'n': expected int8, got 1000"):
        narrow[(1,)](tt.ones(1, device="cuda"), 1000)


@pytest.mark.interpreter
def test_warmup_runs_nothing():
    x = tt.ones(4, device="cuda")
    before = driver().launches
    warm = add.warmup(x, x, x, 4, BLOCK=4, grid=(1,))
    assert driver().launches == before
    with pytest.raises(AttributeError, match=r"n_regs of kernel 'add': .* TRITEN_CUDA=emulate"):
        _ = warm.n_regs


@pytest.mark.interpreter
def test_programs_may_ask_about_the_device():
    active = triton.runtime.driver.active
    assert active.get_current_target().arch == 90
    properties = active.utils.get_device_properties(0)
    assert properties["multiprocessor_count"] == tt.cuda.get_device_properties(0).multi_processor_count
    assert tt.empty(3, device=active.get_active_torch_device()).is_cuda
    with pytest.raises(RuntimeError, match="runs no machine code"):
        active.utils.load_binary("kernel", b"", 0, 0)
