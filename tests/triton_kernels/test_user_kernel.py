"""A user's own Triton kernel: `launch` and `wrap_triton`, and an operator made of one."""

import os
import subprocess
import sys
import textwrap

import pytest
import triton
import triton.language as tl

import triten as tt
from triten.library import launch, opcheck, wrap_triton


@triton.jit
def add_one_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@triton.jit
def typed_kernel(out, n, scale, flag, wide: tl.int64, absent, TYPE: tl.constexpr = tl.float32):
    value = n * scale + tl.where(flag, 100, 0)
    if absent is None:
        value += 0.25
    tl.store(out, value.to(TYPE))
    tl.store(out + 1, (wide.dtype == tl.int64) * 1.0)


@triton.jit
def sizes_kernel(out, ONE_OR_MORE):
    i = tl.program_id(0) + 10 * tl.program_id(1) + 100 * tl.program_id(2)
    tl.store(out + i, ONE_OR_MORE)


@pytest.fixture
def add_one():
    @tt.library.custom_op("t_user::add_one", mutates_args=())
    def add_one(x: tt.Tensor) -> tt.Tensor:
        return x + 1

    @add_one.register_kernel("cuda")
    def _(x):
        out = tt.empty_like(x)
        launch(add_one_kernel, (triton.cdiv(x.numel(), 64),), x, out, x.numel(), BLOCK=64)
        return out

    add_one.register_fake(lambda x: tt.empty_like(x))
    add_one.register_autograd(lambda ctx, grad: grad)
    return add_one


@pytest.mark.parametrize("n", [1, 3, 64, 1000])
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.float16, tt.int64, tt.uint8], ids=repr)
def test_an_operator_of_ones_own_kernel(same, random, launches, add_one, n, dtype):
    a = random((n,), dtype)
    before = launches.count
    same(add_one(a.to("cuda")), add_one(a))
    assert launches.count == before + 1


def test_it_is_an_operator_like_any_other(add_one, device):
    x = tt.ones(3, dtype=tt.float64, device=device, requires_grad=True)
    assert set(opcheck(add_one, (x,)).values()) == {"SUCCESS"}


@pytest.mark.parametrize("offset", range(4))
def test_addresses_of_any_alignment(same, random, add_one, offset):
    a = random((70,))
    same(add_one(a.to("cuda")[offset:]), a[offset:] + 1)


def test_tritons_notation(same, random):
    a = random((100,))
    x = a.to("cuda")
    out = tt.empty_like(x)
    wrap_triton(add_one_kernel)[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](
        x, out, n=100, BLOCK=32, num_warps=2, num_stages=1
    )
    same(out, a + 1)


def test_the_current_device_and_stream_are_kept():
    before = tt.cuda.current_device()
    x = tt.zeros(5, device="cuda:1")
    out = tt.empty_like(x)
    launch(add_one_kernel, [1], x, out, 5, BLOCK=8)
    assert tt.cuda.current_device() == before
    assert (out.device, out.tolist()) == (tt.device("cuda:1"), [1.0] * 5)


@pytest.mark.parametrize("n", [1, 16, 2**31, 2**63])
def test_numbers_become_the_types_that_triton_gives_them(n):
    out = tt.empty(2, dtype=tt.float64, device="cuda")
    launch(typed_kernel, (1,), out, n, 0.5, True, 3, None, TYPE=tt.float64)
    assert out.tolist() == pytest.approx([n * 0.5 + 100.25, 1.0], rel=1e-6)
    launch(typed_kernel, (1,), out, 2, 0.5, False, 3, 5)
    assert out.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("grid", "written"), [((2,), 2), ((2, 3), 6), ((2, 3, 2), 12), ((0,), 0), ((2, 0), 0)]
)
def test_grids(grid, written):
    out = tt.zeros(200, dtype=tt.int32, device="cuda")
    launch(sizes_kernel, grid, out, 1)
    assert out.sum().item() == written


def test_an_empty_tensor():
    x = tt.empty(0, device="cuda")
    launch(add_one_kernel, (0,), x, x, 0, BLOCK=16)


def test_an_access_out_of_bounds_is_found():
    if os.environ["TRITEN_CUDA"] != "interpret":
        pytest.skip("a GPU does not check addresses")
    x = tt.ones(8, device="cuda")
    launch(add_one_kernel, (1,), x, tt.empty(4, device="cuda"), 8, BLOCK=8)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        tt.cuda.synchronize()


@pytest.mark.parametrize("where", ["cpu", "meta"])
def test_tensors_elsewhere_are_refused(where):
    x, y = tt.ones(4, device="cuda"), tt.ones(4, device=where)
    with pytest.raises(
        RuntimeError, match=f"'add_one_kernel': argument 'out' is on {where}, expected a CUDA tensor"
    ):
        launch(add_one_kernel, (1,), x, y, 4, BLOCK=4)


def test_several_devices_are_refused():
    x, y = tt.ones(4, device="cuda:0"), tt.ones(4, device="cuda:1")
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cuda:1"):
        launch(add_one_kernel, (1,), x, y, 4, BLOCK=4)


@triton.autotune([triton.Config({"BLOCK": 16})], key=["n"])
@triton.jit
def tuned_kernel(x, out, n, BLOCK: tl.constexpr):
    tl.store(out, n)


def test_what_is_no_kernel_is_refused():
    x = tt.ones(4, device="cuda")
    with pytest.raises(TypeError, match=r"kernel must be a triton.jit function, got function"):
        launch(lambda x: x, (1,), x)
    with pytest.raises(
        TypeError, match="kernel 'tuned_kernel' is wrapped in a Autotuner: choose a configuration"
    ):
        launch(tuned_kernel, (1,), x, x, 4)


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((4,), {}, "missing a required argument: 'BLOCK'"),
        ((4,), {"BLOCK": 4, "num_ctas": 2}, "unexpected keyword argument 'num_ctas'.*num_warps, num_stages"),
        (("4",), {"BLOCK": 4}, "argument 'n': expected a Tensor, a number or None, got str"),
    ],
)
def test_arguments_that_do_not_fit(args, kwargs, words):
    x = tt.ones(4, device="cuda")
    with pytest.raises(TypeError, match=words):
        launch(add_one_kernel, (1,), x, x, *args, **kwargs)


def test_values_that_do_not_fit():
    x = tt.ones(4, device="cuda")
    with pytest.raises(TypeError, match="argument 'BLOCK' is a constexpr, got a Tensor"):
        launch(add_one_kernel, (1,), x, x, 4, BLOCK=x)
    with pytest.raises(TypeError, match=r"argument 'x': Triton has no triten.complex64"):
        launch(add_one_kernel, (1,), tt.ones(4, dtype=tt.complex64).to("cuda"), x, 4, BLOCK=4)
    with pytest.raises(OverflowError, match="argument 'n': 18446744073709551616 has more than 64 bits"):
        launch(add_one_kernel, (1,), x, x, 2**64, BLOCK=4)
    for grid in (4, (), (1, 1, 1, 1), (1.0,), lambda meta: "4"):
        with pytest.raises(TypeError, match="expected a grid of one to three ints"):
            launch(add_one_kernel, grid, x, x, 4, BLOCK=4)
    assert x.tolist() == [1.0] * 4


@pytest.mark.skipif(os.environ.get("TRITEN_CUDA") != "interpret", reason="about the interpreter")
def test_a_program_needs_no_setting_but_its_device(tmp_path):
    """Define a kernel before the first use of a device; TRITEN_CUDA alone selects the interpreter."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import triten as tt
        import triton
        import triton.language as tl

        @triton.jit
        def fill(out, value):
            tl.store(out + tl.program_id(0), value)

        out = tt.empty(3, device="cuda")
        tt.library.launch(fill, (3,), out, 2.5)
        print(out.tolist())
        """)
    )
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {
        "TRITEN_CUDA": "interpret"
    }
    done = subprocess.run(
        [sys.executable, "-P", str(program)], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.stdout == "[2.5, 2.5, 2.5]\n", done.stderr


def test_an_operator_of_triton_kernels():
    @tt.library.triton_op("user_kernel::one_more", mutates_args=())
    def one_more(x: tt.Tensor) -> tt.Tensor:
        out = tt.empty_like(x)
        wrap_triton(add_one_kernel)[(1,)](x, out, n=x.numel(), BLOCK=8)
        return out

    assert one_more(tt.arange(5.0, device="cuda")).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert tt.ops.user_kernel.one_more(tt.ones(1, device="cuda")).item() == 2.0
    made = tt.library.triton_op(
        "user_kernel::same", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    assert made(tt.ones(2)).tolist() == [1.0, 1.0]
