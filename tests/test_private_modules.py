"""Modules with PyTorch's private names that compute something, as PyTorch does."""

from __future__ import annotations

import warnings

import pytest

import triten as tt
from triten import _prims_common as prims
from triten import _utils as private
from triten._dynamo import config as dynamo_config
from triten._dynamo.utils import disable_cache_limit, warn_once
from triten._higher_order_ops import triton_kernel_wrap
from triten._inductor import config, list_mode_options
from triten._inductor.decomposition import decompositions, register_decomposition
from triten._inductor.utils import is_big_gpu, is_gpu, parallel_num_threads
from triten.dispatch.methods import print_options
from triten.distributed.fsdp import wrap
from triten.fx.experimental import symbolic_shapes
from triten.nn import functional, reductions
from triten.optim import optimizer
from triten.utils import _triton, cpp_extension

KIND = prims.ELEMENTWISE_TYPE_PROMOTION_KIND


@pytest.mark.parametrize(
    ("kind", "args", "expected"),
    [
        (KIND.DEFAULT, (tt.ones(2).half(), 3), (tt.float32, tt.float16)),
        (KIND.NO_OPMATH, (tt.ones(2).bfloat16(), None), (tt.bfloat16, tt.bfloat16)),
        (KIND.INT_TO_FLOAT, (tt.ones(2, dtype=tt.int8), True), (tt.float32, tt.float32)),
        (KIND.ALWAYS_BOOL, (tt.ones(2), tt.ones((), dtype=tt.float64)), (tt.float32, tt.bool)),
        (KIND.COMPLEX_TO_FLOAT, (tt.ones(2), 2j), (tt.complex64, tt.float32)),
        (KIND.BOOL_TO_LONG, (tt.ones(2, dtype=tt.bool),), (tt.int64, tt.int64)),
    ],
)
def test_dtypes_of_operators_of_elements(
    kind: KIND, args: tuple[object, ...], expected: tuple[tt.dtype, ...]
) -> None:
    assert prims.elementwise_dtypes(*args, type_promotion_kind=kind) == expected
    with pytest.raises(ValueError, match="Unexpected type"):
        prims.elementwise_dtypes("text", type_promotion_kind=kind)


def test_strides_and_memory_formats() -> None:
    x = tt.ones(2, 3, 4, 5)
    last = x.contiguous(memory_format=tt.channels_last)
    assert prims.make_channels_last_strides_for(x.shape) == last.stride()
    assert prims.make_channels_last_strides_for((2, 0, 4, 5)) == (0, 1, 0, 0)
    assert prims.make_contiguous_strides_for((2, 3, 4), row_major=False) == (12, 1, 3)
    assert [prims.suggest_memory_format(each) for each in (x, last)] == [
        tt.contiguous_format,
        tt.channels_last,
    ]
    assert prims.is_non_overlapping_and_dense(last) and not prims.is_non_overlapping_and_dense(x[..., ::2])
    assert prims.canonicalize_dims(3, (-1, 0)) == (2, 0)
    with pytest.raises(IndexError, match=r"range of \[-3, 2\], but got 3"):
        prims.canonicalize_dim(3, 3)


def test_settings_are_kept_and_the_limit_of_graphs_is_one() -> None:
    before = dynamo_config.recompile_limit
    with dynamo_config.patch(cache_size_limit=before + 1):
        assert dynamo_config.recompile_limit == before + 1 == dynamo_config.to_dict()["cache_size_limit"]
    with disable_cache_limit():
        assert dynamo_config.cache_size_limit == 2**31
    assert dynamo_config.recompile_limit == before
    with config.patch({"triton.cudagraphs": True}), config.patch("a_new_setting", 3):
        assert config.get_config_copy()["triton.cudagraphs"] is True and config.a_new_setting == 3
    assert config.triton.cudagraphs is False and not hasattr(config, "a_new_setting")
    assert list_mode_options("max-autotune") == {"max_autotune": True, "triton.cudagraphs": True}


@pytest.mark.parametrize(
    "name",
    [
        "post_grad_custom_post_pass",
        "pre_grad_custom_pass",
        "joint_custom_pre_pass",
        "_pre_fusion_custom_pass",
    ],
)
def test_passes_of_a_program_are_refused(name: str) -> None:
    def rewrite(graph: object) -> None:
        raise AssertionError("no pass runs")

    setattr(config, name, None)
    with pytest.raises(NotImplementedError, match=name):
        setattr(config, name, rewrite)
    with pytest.raises(NotImplementedError, match=name), config.patch({"debug": True, name: rewrite}):
        pass
    assert getattr(config, name) is None and config.debug is False
    with pytest.raises(NotImplementedError, match=name):
        tt.compile(lambda x: x, options={name: rewrite})


def test_a_text_warns_once() -> None:
    with pytest.warns(UserWarning, match="a text of this test"):
        warn_once("a text of this test")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_once("a text of this test")


def test_tensors_as_one_and_apart() -> None:
    tensors = [tt.arange(4.0).view(2, 2), tt.ones(3)]
    flat = private._flatten_dense_tensors(tensors)
    assert flat.tolist() == [0, 1, 2, 3, 1, 1, 1]
    assert all(map(tt.equal, private._unflatten_dense_tensors(flat, tensors), tensors))
    taken = private._take_tensors([tt.ones(4), tt.ones(4), tt.ones(4, dtype=tt.int8), tt.ones(2)], 32)
    assert [len(each) for each in taken] == [2, 1, 1]
    assert private._get_device_index("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError, match="Expected a non cpu device"):
        private._get_device_index("cpu")


def test_reductions_by_name_and_by_flags() -> None:
    assert [reductions.get_enum(each) for each in ("none", "mean", "sum")] == [0, 1, 2]
    with pytest.raises(ValueError, match="product is not a valid value for reduction"):
        reductions.get_enum("product")
    flags = [(None, None), (False, True), (True, False)]
    assert [reductions.legacy_get_enum(*each, emit_warning=False) for each in flags] == [1, 2, 0]
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert reductions.legacy_get_string(False, None) == "sum"


def test_sizes_are_numbers() -> None:
    assert symbolic_shapes.guard_or_false(3 > 2) and not symbolic_shapes.guard_or_true(3 < 2)
    assert symbolic_shapes.statically_known_true(2 == 2) and symbolic_shapes.free_symbols(3) == set()
    assert not symbolic_shapes.has_free_symbols(3) and symbolic_shapes.sym_eq([2, 3], (2, 3))


def test_questions_about_devices() -> None:
    assert _triton.has_triton_package() and _triton.get_triton_version() >= (3, 0)
    assert _triton.has_triton() is tt.cuda.is_available()
    assert is_gpu("cuda") and not is_gpu("cpu") and parallel_num_threads() == tt.get_num_threads()
    assert isinstance(is_big_gpu(), bool)


@pytest.mark.parametrize("name", ["load", "load_inline", "CUDAExtension", "CppExtension", "BuildExtension"])
def test_extensions_in_cpp_are_refused(name: str) -> None:
    with pytest.raises(
        NotImplementedError, match=rf"cpp_extension\.{name}: .*no libtorch; write the kernel in Triton"
    ):
        getattr(cpp_extension, name)("kernels", ["kernels.cu"])


def test_policies_of_wrapping() -> None:
    linear, relu = tt.nn.Linear(2, 2), tt.nn.ReLU()
    assert wrap.transformer_auto_wrap_policy(linear, False, 0, {tt.nn.Linear})
    assert not wrap.lambda_auto_wrap_policy(relu, False, 0, lambda module: module is linear)
    assert wrap.size_based_auto_wrap_policy(linear, False, 10, min_num_params=10)
    assert not wrap.size_based_auto_wrap_policy(tt.nn.ModuleList(), False, 10, min_num_params=10)
    assert wrap.wrap(linear) is linear
    with wrap.enable_wrap(wrapper_cls=tt.nn.Sequential):
        assert isinstance(wrap.wrap(linear), tt.nn.Sequential)


@pytest.mark.parametrize("dtype", [tt.float8_e4m3fnuz, tt.float8_e5m2fnuz])
def test_float8_without_negative_zero(dtype: tt.dtype) -> None:
    bits = tt.tensor([0.0, -0.0, 1.0, -1.0, float("inf"), float("nan")]).to(dtype).view(tt.uint8)
    assert bits.tolist() == [0, 0, 64, 192, 128, 128]
    every = tt.arange(256).to(tt.uint8).view(dtype)
    assert tt.equal(every.float().to(dtype).view(tt.uint8), every.view(tt.uint8))
    assert tt.finfo(dtype).max == {tt.float8_e4m3fnuz: 240.0, tt.float8_e5m2fnuz: 57344.0}[dtype]
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"):
        tt.promote_types(dtype, tt.float32)


def test_reductions_have_their_enumeration_in_the_class() -> None:
    assert tt.distributed.ReduceOp.RedOpType.SUM is tt.distributed.ReduceOp.SUM


def test_operators_by_their_private_place() -> None:
    x = tt.arange(4.0).view(1, 1, 2, 2)
    assert tt._C._nn.upsample_nearest2d(x, [4, 4]).shape == (1, 1, 4, 4)
    assert tt._C._dispatch_has_kernel_for_dispatch_key("aten::mm", "CPU")
    assert not tt._C._dispatch_has_kernel_for_dispatch_key("aten::mm", "VE")
    with pytest.raises(ValueError, match="expected 4D input"):
        tt.nn.BatchNorm2d(2)._check_input_dim(tt.ones(2, 2))


@pytest.mark.parametrize("dim", [0, 2])
@pytest.mark.parametrize("dtype", [tt.float64, tt.float32, tt.bfloat16])
def test_weight_norm_and_its_gradients(dim: int, dtype: tt.dtype) -> None:
    v = tt.linspace(-1, 1.3, 24, dtype=tt.float64).view(3, 4, 2).to(dtype).requires_grad_()
    sizes = [size if each == dim else 1 for each, size in enumerate(v.shape)]
    g = tt.linspace(0.5, 2, v.shape[dim], dtype=tt.float64).view(sizes).to(dtype).requires_grad_()
    w, norms = tt.ops.aten._weight_norm_interface(v, g, dim)
    wide = tt.float32 if dtype is tt.bfloat16 else dtype
    assert w.dtype is dtype and norms.dtype is wide
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype is tt.bfloat16 else {}
    tt.testing.assert_close(tt._weight_norm(v, g, dim), w, **tolerance)
    given = tt.cos(v.detach())
    expected = tt.autograd.grad(w, (v, g), given)
    found = tt.ops.aten._weight_norm_interface_backward(given, v.detach(), g.detach(), norms.detach(), dim)
    for each, wanted in zip(found, expected, strict=True):
        tt.testing.assert_close(each, wanted, **tolerance)
    with pytest.raises(RuntimeError, match="first or last dim"):
        tt.ops.aten._weight_norm_interface(v, g, 1)

    flat, count = g.detach().flatten(), (g.numel(),)
    w_of_flat, norms_of_flat = tt.ops.aten._weight_norm_interface(v, flat, dim)
    assert norms_of_flat.shape == count and w_of_flat.equal(w)
    assert tt._weight_norm(v, flat, dim).equal(tt._weight_norm(v, g, dim))
    v_of_flat, g_of_flat = tt.ops.aten._weight_norm_interface_backward(
        given, v.detach(), flat, norms_of_flat.detach(), dim
    )
    assert v_of_flat.equal(found[0]) and g_of_flat.shape == count and g_of_flat.equal(found[1].flatten())


@pytest.mark.parametrize("is_result", [False, True])
def test_gradient_of_elu_by_its_operator(is_result: bool) -> None:
    x = tt.linspace(-2, 2, 9, dtype=tt.float64).requires_grad_()
    y = tt.ops.aten.elu(x, 0.5, 2.0, 1.5)
    (expected,) = tt.autograd.grad(y, x, tt.cos(x.detach()))
    known = y.detach() if is_result else x.detach()
    found = tt.ops.aten.elu_backward(tt.cos(x.detach()), 0.5, 2.0, 1.5, is_result, known)
    tt.testing.assert_close(found, expected)
    with pytest.raises(RuntimeError, match="negative slope"):
        tt.ops.aten.elu_backward(x, -0.5, 2.0, 1.5, True, known)


def test_gradients_of_glu_and_embedding_and_whether_elements_are_dense() -> None:
    x = tt.linspace(-1, 1.3, 24, dtype=tt.float64).view(3, 4, 2).requires_grad_()
    given = tt.ones(3, 2, 2, dtype=tt.float64)
    (expected,) = tt.autograd.grad(tt.nn.functional.glu(x, 1), x, given)
    tt.testing.assert_close(tt.ops.aten.glu_backward(given, x.detach(), 1), expected)
    for sparse in (False, True):
        rows = tt.ops.aten.embedding_backward(tt.ones(3, 2), tt.tensor([1, 1, 2]), 4, -1, False, sparse)
        assert rows.is_sparse is sparse
        dense = rows.to_dense() if sparse else rows
        assert dense.tolist() == [[0, 0], [2, 2], [1, 1], [0, 0]]
    dense = tt.ops.aten.is_non_overlapping_and_dense
    assert dense(x) is dense(x.transpose(0, 2)) is True and dense(x[:, ::2]) is False


def test_hooks_of_all_optimizers_stand_around_their_own() -> None:
    seen: list[str] = []
    sgd = tt.optim.SGD([tt.ones(2, requires_grad=True)])
    sgd.register_step_pre_hook(lambda *_: seen.append("own pre"))
    sgd.register_step_post_hook(lambda *_: seen.append("own post"))
    handles = [
        optimizer.register_optimizer_step_pre_hook(lambda *_: seen.append("pre")),
        optimizer.register_optimizer_step_post_hook(lambda *_: seen.append("post")),
    ]
    sgd.step()
    for handle in handles:
        handle.remove()
    sgd.step()
    assert seen == ["pre", "own pre", "own post", "post", "own pre", "own post"]


def test_print_options_of_a_block() -> None:
    before = print_options.get_printoptions()
    with print_options.printoptions(precision=2, sci_mode=False):
        assert repr(tt.ones(1) / 3) == "tensor([0.33])"
    assert print_options.get_printoptions() == before


def test_captured_graphs_hold_registered_decompositions() -> None:
    with tt.library.Library("decomposed", "DEF") as library:
        library.define("whole(Tensor x) -> Tensor")
        library.impl("whole", lambda x: x.sin(), "CompositeExplicitAutograd")
        operator = tt.ops.decomposed.whole

        @register_decomposition([operator])
        def parts(x: tt.Tensor) -> tt.Tensor:
            return x.cos()

        assert decompositions[operator.default] is parts
        assert tt.equal(operator(tt.zeros(2)), tt.zeros(2))
        assert tt.equal(tt.compile(lambda x: operator(x) + 1)(tt.zeros(2)), 2 * tt.ones(2))


def test_launches_of_triton_kernels_are_an_operator_by_its_private_name() -> None:
    operator = triton_kernel_wrap.triton_kernel_wrapper_mutation
    assert operator.name() == "higher_order::triton_kernel_wrapper_mutation" and operator._schema.is_mutable
    assert not triton_kernel_wrap.triton_kernel_wrapper_functional._schema.is_mutable
    with pytest.raises(RuntimeError, match="knows no Triton launch 999"):
        operator(999, [1, 1, 1], [], [], [])


def test_data_of_one_kind_is_compatible() -> None:
    dense, sparse = tt.ones(2), tt.ones(2).to_sparse()
    compatible = tt._has_compatible_shallow_copy_type
    assert compatible(dense, tt.ones(3)) and compatible(sparse, sparse)
    assert not compatible(dense, tt.ones(3, device="meta"))
    assert not compatible(dense, sparse) and not compatible(sparse, dense)


def test_scaled_grouped_matmuls_have_a_scale_for_each_row() -> None:
    x = tt.eye(16).to(tt.float8_e4m3fn)
    w, scales = tt.stack([x, x]).transpose(-2, -1), tt.tensor([[2.0], [3.0]]).expand(2, 16).contiguous()
    offs, rows = tt.tensor([1, 16], dtype=tt.int32), functional.ScalingType.RowWise
    given = (x, w, tt.ones(16), rows, scales)
    found = functional.scaled_grouped_mm(*given, rows, offs=offs)
    assert tt.equal(found, tt._scaled_grouped_mm(x, w, tt.ones(16), scales, offs=offs))
    with pytest.raises(NotImplementedError, match="RowWise"):
        functional.scaled_grouped_mm(*given, functional.ScalingType.TensorWise, offs=offs)
