"""A backend in a package of its own: named, with memory, kernels and devices that triten knows nothing of.

Names and kernels are for the life of a process, so each test is a program in one of its own.
"""

import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

import triten as tt

HERE = Path(__file__).parent
PRELUDE = """
import warnings
import numpy as np
import triten as tt
"""


def run(program: str, backend: bool = True) -> str:
    """Run a program with triten, and with the backend unless it is to do without; gives what it printed."""
    text = PRELUDE + ("import pytest\n" if "pytest." in program else "")
    text += "import triten_npu\nfrom triten_npu.kernels import calls\n" if backend else ""
    paths = [str(Path(tt.__file__).parents[1]), str(HERE)]
    done = subprocess.run(
        [sys.executable, "-P", "-W", "ignore::UserWarning", "-c", text + textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_is_one_that_pip_installs():
    project = tomllib.loads((HERE / "pyproject.toml").read_text())
    for package in project["tool"]["setuptools"]["packages"]:
        assert (HERE / package / "__init__.py").exists()


def test_devices_and_keys_carry_the_name():
    run("""
    import pickle
    assert str(tt.device("npu:0")) == "npu:0" and repr(tt.device("npu", 1)) == "device(type='npu', index=1)"
    assert tt.device("privateuseone:1") is tt.device("npu:1")
    key = tt.DispatchKey.PrivateUse1
    assert str(key) == "NPU" and repr(tt.DispatchKey.AutogradPrivateUse1) == "DispatchKey.AutogradNPU"
    assert tt.DispatchKey.NPU is key and tt.DispatchKey.QuantizedNPU is tt.DispatchKey.QuantizedPrivateUse1
    assert str(tt.ones(2, device="npu").key_set()) == "DispatchKeySet(NPU, ADInplaceOrView, AutogradNPU)"
    for name in ("NPU", "PrivateUse1"):
        with tt.library.Library("names", "FRAGMENT") as lib:
            lib.define("f(Tensor x) -> Tensor")
            lib.impl("f", lambda x: x, name)
            lib.impl("f", lambda x: x, "Autograd" + name)
            assert tt.ops.names.f.default.has_kernel_for_dispatch_key(key)
    assert b"AutogradPrivateUse1" in pickle.dumps(tt.DispatchKey.AutogradNPU)
    assert pickle.loads(pickle.dumps(key)) is key
    """)


def test_names_that_are_refused():
    run(
        """
    rename = tt.utils.rename_privateuse1_backend
    for taken in ("cuda", "cpu", "meta", "mps", "privateusetwo"):
        with pytest.raises(RuntimeError, match=f"in-tree device name: {taken}"):
            rename(taken)
    for bad in ("9pu", "a b", "", "Npu", "n-pu"):
        with pytest.raises(RuntimeError, match="lower-case identifier"):
            rename(bad)
    with pytest.raises(TypeError, match="must be str, not int"):
        rename(3)
    with pytest.raises(RuntimeError, match="slot must be 1, 2 or 3, got 4"):
        rename("npu", slot=4)
    with pytest.raises(RuntimeError, match="Expected one of .*privateuseone"):
        tt.device("npu")
    rename("npu")
    rename("npu")
    with pytest.raises(RuntimeError, match="already been set! Current backend: npu"):
        rename("other")
    with pytest.raises(RuntimeError, match="in-tree device name: npu"):
        rename("npu", slot=2)
    with pytest.raises(RuntimeError, match="in-tree device name: privateuseone"):
        rename("privateuseone", slot=2)
    assert str(tt.DispatchKey.PrivateUse2) == "PrivateUse2"
    """,
        backend=False,
    )


def test_what_was_registered_under_the_old_name_follows_the_new_one():
    run(
        """
    class Allocator(tt.library.Allocator):
        def allocate(self, nbytes, device):
            return tt.library.DataPtr(1 << 60, nbytes, device)
        def copy_data(self, dst, src, nbytes):
            raise AssertionError
    class Guard(tt.library.DeviceGuardImpl):
        current_device = lambda self: 2
        device_count = lambda self: 3
        def set_device(self, index): pass
    old = tt.device("privateusetwo:1")
    tt.library.set_allocator("privateusetwo", Allocator())
    tt.library.register_device_guard("privateusetwo", Guard())
    launched = []
    kernel = tt.library.PlannedKernel(lambda *pointers: launched.append(pointers))
    tt.library.register_stub("neg_stub", "privateusetwo", lambda call: kernel)
    x = tt.empty(2, device=old)
    tt.utils.rename_privateuse1_backend("tpu", slot=2)
    tt.utils.generate_methods_for_privateuse1_backend(slot=2, for_storage=True)
    assert str(old) == "tpu:1" == str(x.device) and tt.device("tpu:1") is old and x.is_tpu
    assert x.untyped_storage().is_tpu and not tt.ones(1).untyped_storage().is_tpu
    x.neg()
    tt.empty(2, device="tpu").neg()
    assert [p[0].device.index for p in launched] == [1, 2]
    with pytest.raises(RuntimeError, match="tpu device 3 does not exist: there are 3 devices"):
        tt.empty(2, device="tpu:3")
    with pytest.raises(RuntimeError, match="tpu has a device guard already"):
        tt.library.register_device_guard("tpu", Guard())
    with pytest.raises(TypeError, match="must be DeviceGuardImpl, not int"):
        tt.library.register_device_guard("privateuseone", 3)
    with pytest.raises(RuntimeError, match="stub neg_stub has a tpu kernel already"):
        tt.library.register_stub("neg_stub", "tpu", None)
    for register in (tt.library.set_allocator, tt.library.register_device_guard):
        with pytest.raises(RuntimeError, match="Expected one of .* device type"):
            register("gpu", Allocator())
    assert str(tt.DispatchKey.AutogradPrivateUse2) == "AutogradTPU"
    """,
        backend=False,
    )


def test_the_device_module():
    run("""
    import sys
    import triten.npu
    assert tt.npu is triten_npu is triten.npu and tt.npu.is_available() and tt.npu.device_count() == 2
    with pytest.raises(RuntimeError, match="The runtime module of 'npu' has already been registered"):
        tt._register_device_module("npu", sys)
    with pytest.raises(RuntimeError, match="Expected one of .* device type"):
        tt._register_device_module("unheard", sys)
    """)


def test_generated_methods():
    run("""
    x = tt.ones(2)
    assert not x.is_npu and x.npu().is_npu and x.npu().npu() is not None
    assert str(x.npu(1).device) == "npu:1" == str(x.npu("npu:1").device) and str(x.npu().device) == "npu:0"
    assert x.npu(dtype=tt.float64).dtype is tt.float64
    with pytest.raises(RuntimeError, match="Invalid device, must be npu device"):
        x.npu("cpu")
    with pytest.raises(RuntimeError, match="has already been registered with is_npu"):
        tt.utils.generate_methods_for_privateuse1_backend()
    """)


def test_a_module_class_gets_the_method():
    run("""
    from triten.dispatch.methods.privateuse1 import module_methods
    class Module:
        weight = tt.ones(2)
        def _apply(self, f):
            self.weight = f(self.weight)
            return self
    module_methods("npu", Module)
    assert str(Module().npu(1).weight.device) == "npu:1"
    with pytest.raises(RuntimeError, match="has already been registered with npu"):
        module_methods("npu", Module)
    with pytest.raises(RuntimeError, match="try setting for_tensor=True"):
        module_methods("tpu", Module)
    """)


def test_memory_is_the_allocators_and_comes_back_when_the_last_view_is_gone():
    run("""
    import gc
    x = tt.ones(4, 8, device="npu")
    assert tt.npu.memory_allocated() == 128
    row, column = x[2], x.t()[1:]
    assert (row.storage_offset(), row.data_ptr() - x.data_ptr()) == (16, 64)
    assert row.untyped_storage() is x.untyped_storage()
    del x, column
    assert tt.npu.memory_allocated() == 128 and row.tolist() == [1.0] * 8
    y = tt.zeros(2, device="npu:1")
    assert tt.npu.memory_allocated(1) == 8
    del row
    w = tt.ones(4, 8, device="npu")
    w.untyped_storage().resize_(256)
    assert tt.npu.memory_allocated() == 256 and w.sum().item() == 32
    del w, y
    assert tt.npu.memory_allocated() == tt.npu.memory_allocated(1) == 0
    z = tt.empty(0, 3, device="npu")
    assert z.data_ptr() == 0 and z.sum().item() == 0 and tt.npu.memory_allocated() == 0
    """)


def test_memory_is_not_the_hosts():
    run("""
    x = tt.arange(3.0, device="npu")
    assert not isinstance(x._data, np.ndarray)
    with pytest.raises(TypeError, match="can't convert npu:0 device type tensor to numpy"):
        x.numpy()
    with pytest.raises(TypeError, match="can't convert npu:0"):
        np.asarray(x)
    assert x.numpy(force=True).tolist() == [0, 1, 2]
    """)


def test_printing():
    assert run("print(tt.tensor([[1.5, 2], [3, 4]], device='npu'), tt.ones(1, device='npu:1'))") == (
        "tensor([[1.5000, 2.0000],\n        [3.0000, 4.0000]], device='npu:0') tensor([1.], device='npu:1')\n"
    )


def test_factories():
    run("""
    made = {
        "ones": tt.ones(2, device="npu"), "zeros": tt.zeros(2, device="npu"), "full": tt.full((2,), 3.0, device="npu"),
        "empty": tt.empty(2, device="npu"), "arange": tt.arange(2, device="npu"), "eye": tt.eye(2, device="npu"),
        "linspace": tt.linspace(0, 1, 2, device="npu"), "rand": tt.rand(2, device="npu"),
        "strided": tt.empty_strided((2, 2), (1, 2), device="npu"), "tensor": tt.tensor([1, 2], device="npu"),
        "scalar": tt.scalar_tensor(1.0, device="npu"), "randperm": tt.randperm(3, device="npu"),
    }
    like = made["full"]
    made |= {"ones_like": tt.ones_like(like), "zeros_like": tt.zeros_like(like), "new_ones": like.new_ones(2),
             "new_empty": like.new_empty(2), "rand_like": tt.rand_like(like), "full_like": tt.full_like(like, 2),
             "new_tensor": like.new_tensor([1.0]), "clone": like.clone()}
    assert {name: str(x.device) for name, x in made.items()} == dict.fromkeys(made, "npu:0")
    assert made["ones"].tolist() == [1, 1] and made["zeros_like"].tolist() == [0, 0] and made["eye"].sum().item() == 2
    assert made["strided"].stride() == (1, 2) and made["full_like"].tolist() == [2, 2]
    x = tt.empty(2, 3, 4, 5, device="npu", memory_format=tt.channels_last)
    assert x.stride() == (60, 1, 15, 3) == tt.empty_like(x).stride()
    tt.set_default_device("npu")
    assert tt.ones(2).is_npu and tt.tensor([1.0]).is_npu and tt.empty(1).is_npu
    tt.set_default_device(None)
    assert "empty.memory_format" in calls and "fill_.Scalar" in calls
    """)


def test_copies_in_every_direction_with_casts_and_strides():
    run("""
    host = tt.arange(12.0).reshape(3, 4)
    there = host.npu()
    assert there.cpu().tolist() == host.tolist() and there.to("npu:0") is there
    assert there.npu(1).t().contiguous().cpu().tolist() == host.t().tolist()
    assert there.to(tt.int32).cpu().tolist() == host.to(tt.int32).tolist()
    assert there.t().to("cpu", tt.float64).tolist() == host.t().tolist()
    assert there[:, 1].clone().tolist() == host[:, 1].tolist()
    target = tt.zeros(4, 3, device="npu").t()
    assert target.copy_(host) is target and target.cpu().tolist() == host.tolist()
    back = tt.zeros(4, 3).t()
    assert back.copy_(there).tolist() == host.tolist()
    assert target.copy_(tt.tensor(2.0)).tolist() == [[2.0] * 4] * 3
    assert there.to("meta").shape == (3, 4)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        there.copy_(tt.empty(3, 4, device="meta"))
    with pytest.raises(RuntimeError, match="must match the size of tensor"):
        there.copy_(tt.ones(5))
    """)


def test_kernels_under_the_key_the_out_form_and_the_stub():
    run("""
    x, y = tt.tensor([1.0, 2.0], device="npu"), tt.tensor([3.0, 5.0], device="npu")
    def ran(f):
        calls.clear()
        f()
        return [c for c in calls if c not in ("empty.memory_format", "empty_strided", "_copy_from")]
    assert ran(lambda: x + y) == ["add.Tensor"]
    assert ran(lambda: x.add_(0)) == ["add_.Tensor"]
    assert ran(lambda: x - y) == ["sub.out"] == ran(lambda: x.clone().sub_(y))
    assert ran(lambda: x * y) == ["mul_stub"] == ran(lambda: x.clone().mul_(2.0))
    assert ran(lambda: tt.mul(x, y, out=tt.empty(0, device="npu"))) == ["mul_stub"]
    assert ran(lambda: x.div(y)) == []
    assert (x - y).tolist() == [-2, -3] and (x * y).tolist() == [3, 10] and (2 * x).tolist() == [2, 4]
    assert (x.unsqueeze(1) * y).tolist() == [[3, 5], [6, 10]] and (x.unsqueeze(1) - y).tolist() == [[-2, -4], [-1, -3]]
    z = x.clone()
    assert z.sub_(y, alpha=2) is z and z.tolist() == [-5, -8]
    assert tt.sub(x, y, out=z) is z and z.tolist() == [-2, -3]
    assert (x.to(tt.int32) - 1.5).dtype is tt.float32
    assert (tt.ones(2, 2, device="npu") @ x).tolist() == [3, 3] and x.exp_().sum().item() == pytest.approx(10.107338)
    with pytest.raises(RuntimeError, match="size of tensor a"):
        x * tt.ones(3, device="npu")
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        x.sub_(tt.ones(3, 2, device="npu"))
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x * tt.ones(2)
    with pytest.raises(RuntimeError, match="one is on|Expected all tensors to be on the same device"):
        x * tt.ones(2, device="npu:1")
    """)


def test_everything_else_runs_on_the_cpu_and_gives_the_same():
    run("""
    functions = [
        lambda x: x.softmax(1), lambda x: x.max(1), lambda x: x.max(1).values, lambda x: x > 1, lambda x: x[x > 1],
        lambda x: x.nonzero(), lambda x: tt.cat([x, x]), lambda x: tt.var_mean(x), lambda x: x.clamp(1, 2),
        lambda x: x.argmax(), lambda x: x.cumsum(0), lambda x: tt.where(x > 2, x, -x), lambda x: x.flip(0),
        lambda x: x.index_select(1, tt.tensor([0, 2]).to(x.device)), lambda x: x.clone().clamp_(0, 1),
        lambda x: tt.add(x, x, out=tt.empty(0, device=x.device)), lambda x: tt.stack([x, x]), lambda x: x.std(),
        lambda x: x.clone().index_put_((tt.tensor([0]),), tt.tensor(7.0)), lambda x: (x == x).all().item(),
        lambda x: tt.nn.functional.gelu(x),
    ]
    host = tt.arange(6.0).reshape(2, 3)
    for number, f in enumerate(functions):
        expected, got = f(host), f(host.npu())
        many = isinstance(expected, tuple)
        assert type(got) is type(expected), number
        for e, g in zip(expected, got) if many else [(expected, got)]:
            if isinstance(e, tt.Tensor):
                assert g.is_npu and g.dtype is e.dtype and g.tolist() == e.tolist(), number
            else:
                assert e == g, number
    """)


def test_the_fallback_warns_of_an_operator_once():
    run("""
    x = tt.ones(2, device="npu")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        x.tanh(), x.tanh(), tt.ones(3, device="npu").tanh(), x.cos()
    assert [str(w.message).partition("'")[2].partition("'")[0] for w in seen] == ["aten::tanh.out", "aten::cos.out"]
    assert "not currently supported on the NPU backend and will fall back to run on the CPU" in str(seen[0].message)
    """)


def test_the_fallback_copies_writes_back_once_and_counts_them_once():
    run("""
    x = tt.tensor([-1.0, 2.0, 5.0], device="npu")
    cell, address = x.version_cell(), x.data_ptr()
    for number, write in enumerate([
        lambda: x.clamp_(0, 3), lambda: x.add_(1), lambda: x.mul_(2), lambda: x.fill_(1), lambda: x.zero_(),
        lambda: x.sub_(1), lambda: tt.cos(x, out=x), lambda: x.copy_(tt.ones(3)), lambda: x[1:].tanh_(),
    ], 1):
        assert write() is x or number == 9
        assert cell[0] == number and x.data_ptr() == address, number
    assert x.tolist() == pytest.approx([1.0, 0.7615942, 0.7615942])
    with tt.library.Library("npu_writes", "DEF") as lib:
        lib.define("both(Tensor(a!) x, Tensor(b!) y, Tensor z) -> (Tensor(a!), Tensor, Tensor[])")
        def both(x, y, z):
            x.add_(z)
            y.mul_(z)
            return x, x + y, [y, z]
        lib.impl("both", both, "CPU")
        a, b = tt.ones(2, device="npu"), tt.ones(2, device="npu:0")
        first, total, rest = tt.ops.npu_writes.both(a, b, tt.tensor([3.0, 4.0], device="npu"))
        assert first is a and a.tolist() == [4, 5] and b.tolist() == [3, 4] and total.tolist() == [7, 9]
        assert rest[0] is b and all(t.is_npu for t in (total, *rest)) and rest[1].tolist() == [3, 4]
        same = tt.ones(2, device="npu")
        tt.ops.npu_writes.both(same, same, same)
        assert same.tolist() == [4, 4]
    """)


def test_the_fallback_draws_from_the_backends_generator():
    run("""
    generator, host = tt.Generator("npu").manual_seed(5), tt.Generator().manual_seed(5)
    for _ in range(2):
        there, here = tt.rand(5, device="npu", generator=generator), tt.rand(5, generator=host)
        assert there.is_npu and there.tolist() == here.tolist()
    assert generator.get_offset() == host.get_offset() > 0
    """)


def test_the_fallback_refuses_views_and_what_the_cpu_cannot_do():
    run("""
    with tt.library.Library("npu_views", "DEF") as lib:
        lib.define("first(Tensor(a) x) -> Tensor(a)")
        lib.define("nobody(Tensor x) -> Tensor")
        lib.impl("first", lambda x: x[0], "CPU")
        x = tt.ones(2, device="npu")
        with pytest.raises(NotImplementedError, match="npu_views::first appears to be a view operator.*npu:0"):
            tt.ops.npu_views.first(x)
        with pytest.raises(NotImplementedError, match="Could not run 'npu_views::nobody'.*'CPU' backend"):
            tt.ops.npu_views.nobody(x)
    """)


def test_autograd_serves_the_backend():
    run("""
    def work(device):
        a = tt.tensor([[1.0, -2.0], [3.0, 0.5]], device=device, requires_grad=True)
        b = (a * 2)[1:]
        b.mul_(3)
        c = a @ a.t() - a.exp()
        c[0] = 5.0
        loss = (c.relu().sum() + b.sum() + a.softmax(0).pow(2).sum() + a.unsqueeze(0).expand(2, 2, 2).mean())
        loss.backward()
        second, = tt.autograd.grad((a ** 3).sum(), a, create_graph=True)
        return loss.item(), a.grad.tolist(), tt.autograd.grad(second.sum(), a)[0].tolist(), str(a.grad.device)
    def parts(device):
        a = tt.arange(9.0, device=device).reshape(3, 3).requires_grad_()
        (a[0].sum() + a[1:].sum() + a.diagonal().sum() + a[:, 1].sum() + a.narrow(1, 0, 2).sum()).backward()
        b = tt.arange(9.0, device=device).reshape(3, 3).requires_grad_()
        b.as_strided((2, 2), (3, 2), 1).mul(2).sum().backward()
        return a.grad.tolist(), b.grad.tolist()
    assert parts("npu") == parts("cpu")
    loss, grad, second, device = work("npu")
    expected = work("cpu")
    assert device == "npu:0" and loss == pytest.approx(expected[0], rel=1e-6)
    np.testing.assert_allclose(grad, expected[1], rtol=1e-5)
    np.testing.assert_allclose(second, expected[2], rtol=1e-6)
    x = tt.ones(2, device="npu", requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.*ExpBackward0"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x.add_(1)
    with tt.no_grad():
        x.add_(1)
    with tt.inference_mode():
        assert tt.ones(2, device="npu").add(1).is_inference()
    """)


def test_views_of_the_backends_own_kernels_are_tied_to_their_base():
    run("""
    with tt.library.Library("aten", "IMPL", "PrivateUse1") as lib:
        lib.impl("alias", lambda x: x.detach())
        lib.impl("neg", lambda x: tt.zeros_like(x))
        x = tt.ones(3, device="npu", requires_grad=True)
        y = x * 1
        view = tt.alias(y)
        view.add_(1)
        assert y.current_version() == view.current_version() == 1 and y.tolist() == [2, 2, 2]
        (y * y).sum().backward()
        assert x.grad.tolist() == [4, 4, 4]
        assert tt.neg(tt.ones(2, device="npu")).tolist() == [0, 0]
        lib.impl("max.dim", lambda x, dim, keepdim=False: (x[0], x[1]))
        found = tt.ones(2, 2, device="npu").max(0)
        assert found.values.tolist() == found.indices.tolist() == [1, 1]
    """)


def test_two_devices_and_the_current_one():
    run("""
    import threading
    assert tt.ones(2, device="npu").device.index == 0
    tt.npu.set_device(1)
    assert str(tt.ones(2, device="npu").device) == str(tt.tensor([1.0], device="npu").device) == "npu:1"
    assert str(tt.ones(2).npu().device) == str(tt.zeros(2, 2, device="npu").t().device) == "npu:1"
    seen = []
    thread = threading.Thread(target=lambda: seen.append(str(tt.ones(2, device="npu").device)))
    thread.start(); thread.join()
    assert seen == ["npu:0"]
    x = tt.ones(2, device="npu:0")
    assert (x * x + x).tolist() == [2, 2] and tt.npu.current_device() == 1
    with pytest.raises(ZeroDivisionError), tt.library.DeviceGuard(tt.device("npu:0")):
        assert tt.npu.current_device() == 0
        1 / 0
    assert tt.npu.current_device() == 1
    for name in ("npu:2", "npu:17"):
        with pytest.raises(RuntimeError, match="npu device .* does not exist"):
            tt.empty(2, device=name)
        with pytest.raises(RuntimeError, match="npu device .* does not exist"):
            tt.ones(2).to(name)
    """)


def test_a_backend_without_kernels_or_fallback_refuses_clearly():
    run(
        """
    with pytest.raises(NotImplementedError, match="Allocator for privateuseone is not set"):
        tt.empty(2, device="privateuseone")
    tt.utils.rename_privateuse1_backend("npu")
    with pytest.raises(NotImplementedError, match="Allocator for npu is not set.*those with one: cpu, .*meta"):
        tt.empty(2, device="npu")
    class Allocator(tt.library.Allocator):
        count = 0
        def allocate(self, nbytes, device):
            self.count += 1
            return tt.library.DataPtr(1 << 60, nbytes, device)
        def copy_data(self, dst, src, nbytes):
            raise AssertionError
    allocator = Allocator()
    tt.library.set_allocator("npu", allocator)
    x = tt.empty(2, device="npu")
    with pytest.raises(NotImplementedError, match="'aten::add.out'"):
        x + x
    assert allocator.count == 1
    for operator, call in {
        "add.out": lambda: x + x, "relu": lambda: x.relu(), "fill_.Scalar": lambda: tt.ones(2, device="npu"),
        "uniform_": lambda: x.uniform_(), "rand": lambda: tt.rand(2, device="npu"), "nonzero": lambda: x.nonzero(),
        "index.Tensor": lambda: x[tt.tensor([0])],
    }.items():
        with pytest.raises(NotImplementedError, match=f"Could not run 'aten::{operator}.*'NPU' backend"):
            call()
    with pytest.raises(NotImplementedError, match="'aten::_copy_from' from cpu to npu:0: the backend of 'npu' has to"):
        tt.ones(2).to("npu")
    with pytest.raises(NotImplementedError, match="_copy_from"):
        print(x)
    filled = []
    kernel = tt.library.PlannedKernel(lambda *data: filled.append(data[-1]))
    tt.library.register_stub("fill_stub", "npu", lambda call: kernel)
    tt.ones(2, device="npu"), tt.full((2,), 7.0, device="npu"), tt.zeros(2, device="npu"), x.zero_()
    assert filled == [1, 7.0, 0, 0]
    """,
        backend=False,
    )


def test_a_network_trains_on_the_device_as_on_the_cpu():
    digits = Path(tt.__file__).parents[1] / "examples" / "digits.npz"
    if not digits.exists():
        pytest.skip("the package is installed without its examples")
    out = run(f"""
    with np.load({str(digits)!r}) as archive:
        images = archive["images"].astype(np.float32).reshape(-1, 64)[:512] / 16
        labels = archive["labels"].astype(np.int64)[:512]

    def train(device):
        tt.manual_seed(0)
        x, target = tt.from_numpy(images).to(device), tt.from_numpy(labels).to(device)
        w1, b1 = tt.randn(64, 32).mul(0.2).to(device).requires_grad_(), tt.zeros(32, device=device, requires_grad=True)
        w2, b2 = tt.randn(32, 10).mul(0.2).to(device).requires_grad_(), tt.zeros(10, device=device, requires_grad=True)
        losses = []
        for step in range(40):
            rows = slice(step % 4 * 128, step % 4 * 128 + 128)
            logits = (x[rows] @ w1 + b1).relu() @ w2 + b2
            loss = tt.nn.functional.cross_entropy(logits, target[rows])
            loss.backward()
            with tt.no_grad():
                for p in (w1, b1, w2, b2):
                    assert p.grad.device == p.device
                    p.add_(p.grad, alpha=-0.5)
                    p.grad = None
            losses.append(loss.item())
        return losses

    there, here = train("npu"), train("cpu")
    np.testing.assert_allclose(there, here, rtol=0, atol=1e-5)
    assert here[0] > 2.2 and there[-1] < 0.6, there
    assert {{"mm", "relu", "add_.Tensor", "sum.dim_IntList"}} <= set(calls)
    print(there[0], there[-1])
    """)
    first, last = map(float, out.split())
    assert last < first / 3
