"""`tt.library`: definitions, kernels, fragments, fallbacks, custom operators, selective registration."""

import threading
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.library import Library


def test_def_impl_and_fragment() -> None:
    with (
        Library("t_row", "DEF") as lib,
        Library("t_row", "FRAGMENT") as more,
        Library("t_row", "IMPL", "CPU") as cpu,
    ):
        lib.define("f(Tensor x) -> Tensor")
        more.define("f.scaled(Tensor x, float by) -> Tensor")
        cpu.impl("f", lambda x: x + 1)
        cpu.impl("f.scaled", lambda x, by: x * by)
        lib.define("g(Tensor x) -> Tensor", lambda x: x * 3)
        assert tt.ops.t_row.f(tt.ones(1)).item() == 2
        assert tt.ops.t_row.f(tt.ones(1), 5.0).item() == 5
        assert tt.ops.t_row.f.scaled(tt.ones(1), by=4.0).item() == 4
        w = tt.ones(1, requires_grad=True)
        tt.ops.t_row.g(w).backward()
        assert w.grad.item() == 3
        assert sorted(dir(tt.ops.t_row)) == ["f", "g"]
        assert tt.ops.t_row.f.overloads() == ["default", "scaled"]
    with pytest.raises(AttributeError, match="t_row"):
        tt.ops.t_row.f  # noqa: B018 - reading it raises


def test_only_one_library_defines_a_namespace() -> None:
    with Library("t_row", "DEF"), pytest.raises(RuntimeError, match="Only a single library"):
        Library("t_row", "DEF")
    with pytest.raises(ValueError, match="Unsupported kind"):
        Library("t_row", "NOPE")


def test_an_allowlist_registers_some_operators_alone() -> None:
    with Library("t_row", "DEF", allowlist=["kept*"]) as lib:
        lib.define("kept_one(Tensor x) -> Tensor", lambda x: x)
        lib.define("dropped(Tensor x) -> Tensor", lambda x: x)
        tt.ops.t_row.kept_one(tt.ones(1))
        with pytest.raises(AttributeError, match="allowlist"):
            tt.ops.t_row.dropped  # noqa: B018 - reading it raises


def test_a_boxed_kernel_serves_any_operator() -> None:
    seen: list[str] = []
    key = tt.DispatchKeySet(tt.DispatchKey.PreDispatch)

    def log(op: Any, key_set: Any, stack: list[Any]) -> None:
        seen.append(op.name)
        tt.dispatch.Dispatcher.singleton().redispatch_boxed(op, key_set - key, stack)

    with Library("t_row", "DEF") as lib, Library("aten", "IMPL", "PreDispatch") as aten:
        lib.define("f(Tensor x, int n) -> (Tensor, int)", lambda x, n: (x * n, n))
        lib.impl("f", log, "PreDispatch", boxed=True)
        aten.impl("relu", log, boxed=True)
        with tt.dispatch.IncludeDispatchKeyGuard(key):
            assert tt.relu(tt.tensor(-1.0)).item() == 0
            assert tt.ops.t_row.f(tt.ones(1), 3)[1] == 3
    assert seen == ["aten::relu", "t_row::f"]


def test_a_custom_operator_with_everything() -> None:
    @tt.library.custom_op("t_row::cube", mutates_args=())
    def cube(x: tt.Tensor) -> tt.Tensor:
        return tt.from_numpy(x.numpy() ** 3)

    @cube.register_fake
    def _(x: Any) -> Any:
        return tt.empty_like(x)

    cube.register_autograd(
        lambda ctx, grad: 3 * ctx.saved_tensors[0] ** 2 * grad,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    x = tt.tensor([1.0, 2.0], dtype=tt.float64, requires_grad=True)
    cube(x).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]
    assert tt.ops.t_row.cube(tt.ones(2, device="meta")).shape == (2,)
    report = tt.library.opcheck(cube, (x,))
    assert set(report.values()) == {"SUCCESS"}


def test_opcheck_finds_a_lie() -> None:
    @tt.library.custom_op("t_row::liar", mutates_args=())
    def liar(x: tt.Tensor) -> tt.Tensor:
        x.add_(1)
        return x.clone()

    liar.register_fake(lambda x: tt.empty_like(x))
    with pytest.raises(tt.library.OpCheckError):
        tt.library.opcheck(liar, (tt.ones(2),))


def test_a_pointwise_operator_is_one_function_for_each_device() -> None:
    def hypot(a: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
        iterator = tt.TensorIterator.binary_float_op(None, a, b)
        tt.library.cpu_kernel(iterator, np.hypot)
        return iterator.output()

    a, b = tt.tensor([[3.0], [6.0]]), tt.tensor([4, 8])
    assert hypot(a, b).tolist()[0][0] == 5.0
    assert hypot(a, b).shape == (2, 2)


def test_kernel_wrappers_have_hooks() -> None:
    kernel = tt.library.wrap_kernel(lambda x: x * 2, pre=lambda x: (x + 1,), post=lambda y: -y)
    assert kernel(tt.ones(1)).item() == -4


def test_libraries_of_several_threads() -> None:
    errors: list[Exception] = []

    def register(number: int) -> None:
        try:
            for _ in range(20):
                with Library(f"t_row_{number}", "DEF") as lib:
                    lib.define("f(Tensor x) -> Tensor", lambda x: x + number)
                    assert getattr(tt.ops, f"t_row_{number}").f(tt.zeros(1)).item() == number
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=register, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
