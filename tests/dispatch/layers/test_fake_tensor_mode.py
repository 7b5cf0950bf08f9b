"""`FakeTensorMode`: operators, factories, modules and launches without data."""

import copy
import pickle

import pytest
import triton
import triton.language as tl

import triten as tt
from triten._subclasses import fake_tensor
from triten._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    is_fake,
)
from triten.fx.experimental.symbolic_shapes import ShapeEnv, has_free_symbols
from triten.library import wrap_triton


@triton.jit
def double_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=0) * 2, mask=i < n)


def launched(x):
    out = tt.empty_like(x, dtype=tt.float64)
    double_kernel[(1,)](x, out, x.numel(), BLOCK=64)
    wrap_triton(double_kernel)[(1,)](x, out, x.numel(), BLOCK=64)
    return out


OPERATIONS = {
    "pointwise": lambda x: x * 2 + 1,
    "matmul": lambda x: (x @ x.t()).relu(),
    "numbers": lambda x: tt.where(x > 0, x, 1.0).sum(0),
    "index": lambda x: x[tt.tensor([0, 1], device=x.device)],
    "view": lambda x: x.t()[1:],
    "other device": lambda x: x.to("cpu", tt.float16),
    "in place": lambda x: x.clone().add_(1),
    "several": lambda x: tt.cat(x.split(2)),
    "normal": lambda x: tt.randn(3, 5, device=x.device)[None],
    "launch": launched,
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_results_look_like_those_of_real_tensors(operation, device):
    x = tt.arange(12.0, device=device).reshape(3, 4)
    if operation is launched and device == "cpu":
        pytest.skip("Triton takes tensors on CUDA")
    expected = operation(x)
    with FakeTensorMode() as mode:
        made = operation(mode.from_tensor(x))
    assert isinstance(made, FakeTensor) and is_fake(made) and not is_fake(x)
    for attribute in ("shape", "dtype", "device"):
        assert getattr(made, attribute) == getattr(expected, attribute)
    assert made.stride() == expected.stride() and made.storage_offset() == expected.storage_offset()
    assert made.fake_mode is mode and (made + 1).fake_mode is mode  # outside of the block, too


def test_a_module_is_made_and_trained_without_memory():
    with FakeTensorMode():
        layers = tt.nn.Sequential(tt.nn.Linear(4, 2**40), tt.nn.Dropout(), tt.nn.BatchNorm1d(2**40)).to(
            "cuda"
        )
        optimizer = tt.optim.Adam(layers.parameters())
        layers(tt.ones(3, 4, device="cuda")).sum().backward()
        optimizer.step()
    weight = layers[0].weight
    assert isinstance(weight, tt.nn.Parameter) and is_fake(weight) and is_fake(weight.grad)
    assert weight.grad.shape == (2**40, 4) and weight.grad.device == tt.device("cuda", 0)


READS = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: bool(x.any()),
    "tolist": lambda x: x.tolist(),
    "equal": lambda x: tt.equal(x, x),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_of_elements_is_refused(read):
    with FakeTensorMode(), pytest.raises(DataDependentOutputException, match="no elements to read"):
        read(tt.ones(3))


@pytest.mark.parametrize(
    "pick", [tt.nonzero, tt.unique, lambda x: x[x > 0]], ids=["nonzero", "unique", "mask"]
)
def test_a_size_that_depends_on_elements_is_refused(pick):
    with FakeTensorMode(), pytest.raises(DynamicOutputShapeException, match="size of its result"):
        pick(tt.ones(3))


def test_memory_is_refused():
    with FakeTensorMode() as mode:
        x = tt.ones(3, device="cuda")
        for read in (x.data_ptr, x.numpy, lambda: pickle.dumps(x)):
            with pytest.raises(RuntimeError):
                read()
        assert copy.deepcopy(x).fake_mode is mode and "size=(3,)" in f"{x.sum(0, keepdim=True).expand(3)}"
    with pytest.raises(RuntimeError, match="data pointer"):
        double_kernel[(1,)](x, x, 3, BLOCK=64)


def test_real_tensors_and_those_of_other_modes_are_refused():
    real, other = tt.ones(3), FakeTensorMode()
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(real)
        with pytest.raises(AssertionError, match="convert all Tensors to FakeTensors"):
            fake + real
        with pytest.raises(AssertionError, match="Mixing fake modes"):
            fake + other.from_tensor(real)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert is_fake(real + 1)
    with pytest.raises(RuntimeError, match="from_tensor"):
        fake_tensor.FakeTensor()
    assert (real + 1).tolist() == [2.0] * 3


def test_a_shape_env_specializes_all_sizes():
    shape_env = ShapeEnv(allow_dynamic_output_shape_ops=True)
    with FakeTensorMode(shape_env=shape_env) as mode:
        x = mode.from_tensor(tt.ones(3, 1))
        y = mode.from_tensor(tt.ones(4, 5), static_shapes=True)
        assert (x + y[:3]).sum(0).shape == (5,) and x.reshape(-1).shape == (3,) and x.shape[0] == 3
        with pytest.raises(DynamicOutputShapeException, match="size of its result"):
            tt.nonzero(x)
    assert mode.shape_env is shape_env and not has_free_symbols(x.shape[0]) and not shape_env.guards
    assert not mode.static_shapes and FakeTensorMode(shape_env=shape_env, static_shapes=True).static_shapes
    assert FakeTensorMode().static_shapes
    with pytest.raises(TypeError, match="unexpected keyword argument 'allow'"):
        ShapeEnv(allow=True)


def test_views_share_memory_and_gradients_flow():
    mode = FakeTensorMode()
    base = tt.ones(3, 4)
    x = mode.from_tensor(base)
    assert mode.from_tensor(base) is x and mode.from_tensor(x) is x
    row = mode.from_tensor(base[1])
    assert row.storage_offset() == 4 and row._data.root is x._data.root
    w = mode.from_tensor(tt.ones(4, requires_grad=True))
    (grad,) = tt.autograd.grad((x @ w).sum(), w)
    assert is_fake(grad) and grad.shape == (4,)


def test_an_element_that_the_program_gave_can_be_read():
    with FakeTensorMode():
        x = tt.tensor(4.0)
        y = x.add_(1)
        assert x.item() == y.item() == 5.0 and bool(x == 5) and float(x * 2) == 10.0
        assert isinstance(x, FakeTensor) and x.constant.item() == 5.0
        a = tt.tensor([4.0])
        b = a[:]
        b.mul_(2)
        assert a.item() == 8.0 and tt.stack([x, y]).shape == (2,)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(tt.rand([1])),
        lambda x: x[:].copy_(tt.empty(1)),
        lambda x: x.resize_([2]),
        lambda x: x.expand([4]),
        lambda x: x.uniform_(),
        lambda x: tt.add(tt.rand(1), 1, out=x),
    ],
)
def test_a_write_of_unknown_elements_is_seen_through_all_views(write):
    with FakeTensorMode():
        x = tt.tensor([1.0])
        y = x.view(1, 1)
        assert y.item() == 1.0
        write(x)
        for each in (x, y):
            assert each.constant is None
        with pytest.raises(DataDependentOutputException):
            y.item()


def test_only_one_element_without_random_numbers_is_known():
    with FakeTensorMode(allow_fallback_kernels=False) as mode:
        assert tt.tensor([1, 2]).constant is None and tt.rand(1).constant is None
        assert mode.from_tensor(tt.ones(1)).constant is None
        assert (tt.tensor(1.0) + tt.rand(1)).constant is None


def test_tensors_without_a_fake_counterpart_are_refused() -> None:
    from triten._subclasses.fake_tensor import FakeTensorMode, UnsupportedFakeTensorException

    for tensor in (
        tt.eye(2).to_sparse(),
        tt.eye(2).to_sparse_csr(),
        tt.quantize_per_tensor(tt.ones(2), 1.0, 0, tt.qint8),
    ):
        with pytest.raises(
            UnsupportedFakeTensorException, match="FakeTensorMode has no fake tensors of"
        ) as caught:
            FakeTensorMode().from_tensor(tensor)
        assert caught.value.reason == str(caught.value)


def test_the_states_of_generators_are_real() -> None:
    outside = tt.get_rng_state()
    with FakeTensorMode():
        state = tt.get_rng_state()
        assert type(state) is tt.Tensor
        tt.manual_seed(7)
        tt.set_rng_state(state)
        assert tt.get_rng_state().tolist() == outside.tolist()
        tt.set_rng_state(outside)


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_functionalized_functions_of_fake_tensors_give_fake_tensors_of_the_mode(remove: str) -> None:
    def function(x):
        y = x.clone()
        row = y[0]
        row.add_(1)
        x.mul_(2)
        return y, row

    mode = FakeTensorMode()
    x = mode.from_tensor(tt.ones(2, 3))
    results = tt.func.functionalize(function, remove=remove)(x)
    assert [type(each) for each in results] == [FakeTensor, FakeTensor]
    assert [each.shape for each in results] == [(2, 3), (3,)]
    assert all(each.fake_mode is mode for each in results)
    assert type(results[0].sum() + 1) is FakeTensor
    with pytest.raises(DataDependentOutputException):
        tt.func.functionalize(lambda x: x.sum().item())(x)
