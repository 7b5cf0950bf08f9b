"""Every operator of the library that writes, and every view, survives functionalization with the same results."""

import numpy as np
import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.core.op_overload import OpOverload
from triten.dispatch.schema import base_type
from triten.func import functionalize, make_graph
from triten.tests.ops.test_grad_input import CALLS as BACKWARD_CALLS
from triten.tests.shared import operands

REMOVE = ("mutations", "mutations_and_views")


def operators(wanted, others=()):
    dispatcher = Dispatcher.singleton()
    entries = [dispatcher.find_schema(name) for name in dispatcher.get_all_op_names()]
    # Overloads by dimension names are made of those by positions, of named tensors alone.
    return [
        e.name
        for e in entries
        if e and e.name.startswith("aten::") and wanted(e.schema) and "Dimname" not in str(e.schema)
        if e.name not in others
    ]


def make(kind, shape=(3, 4)):
    rng = np.random.default_rng(0)
    if kind == "bool":
        return tt.from_numpy(rng.random(shape) < 0.5)
    if kind == "int":
        return tt.from_numpy(rng.integers(1, 5, shape))
    if kind == "index":
        return tt.from_numpy(rng.permutation(3)[: shape[0]].astype(np.int64))
    if kind == "complex":
        return tt.from_numpy((rng.random(shape) + 1j * rng.random(shape)).astype(np.complex64))
    return tt.from_numpy(rng.random(shape).astype(np.float32) * 0.8 + 0.1)


F = "float"
INDEX_2D = tt.tensor([[0, 1, 2, 0], [1, 2, 0, 1]])
SAMPLES = {
    **{f"{name}dropout_": (make(F), 0.5, True) for name in ("alpha_", "feature_", "feature_alpha_")},
    "addbmm_": (make(F), make(F, (2, 3, 5)), make(F, (2, 5, 4))),
    "addmm_": (make(F), make(F, (3, 5)), make(F, (5, 4))),
    "addmv_": (make(F, (3,)), make(F, (3, 5)), make(F, (5,))),
    "addr_": (make(F), make(F, (3,)), make(F, (4,))),
    "baddbmm_": (make(F, (2, 3, 4)), make(F, (2, 3, 5)), make(F, (2, 5, 4))),
    "clamp_": (make(F), 0.3),
    "clamp_.Tensor": (make(F), make(F) * 0.5),
    "clip_": (make(F), 0.3),
    "clip_.Tensor": (make(F), make(F) * 0.5),
    "div_.Tensor_mode": (make(F), make(F), {"rounding_mode": "floor"}),
    "divide_.Tensor_mode": (make(F), make(F), {"rounding_mode": "floor"}),
    "dropout_": (make(F), 0.5, True),
    "embedding_renorm_": (make(F), tt.tensor([0, 2]), 0.5, 2.0),
    "fill_.Tensor": (make(F), tt.tensor(3.0)),
    "float_power_.Scalar": (make(F).double(), 2.0),
    "float_power_.Tensor": (make(F).double(), make(F)),
    "geometric_": (make(F), 0.5),
    "index_add_": (make(F), 0, make("index"), make(F)),
    "index_copy_": (make(F), 0, make("index"), make(F)),
    "index_reduce_": (make(F), 0, make("index"), make(F), "mean"),
    "index_fill_.int_Scalar": (make(F), 0, tt.tensor([0, 2]), 9.0),
    "index_fill_.int_Tensor": (make(F), 0, tt.tensor([0, 2]), tt.tensor(9.0)),
    "index_put_": (make(F), (tt.tensor([0, 2]),), make(F, (2, 4))),
    "_index_put_impl_": (make(F), (tt.tensor([0, 2]),), make(F, (2, 4))),
    "masked_fill_.Scalar": (make(F), make("bool"), 2.0),
    "masked_fill_.Tensor": (make(F), make("bool"), tt.tensor(2.0)),
    "random_.from": (make(F), 2, 9),
    "scatter_.reduce": (make(F), 0, INDEX_2D, make(F), {"reduce": "add"}),
    "scatter_.src": (make(F), 0, INDEX_2D, make(F)),
    "scatter_.value": (make(F), 0, INDEX_2D, 5.0),
    "scatter_.value_reduce": (make(F), 0, INDEX_2D, 5.0, {"reduce": "multiply"}),
    "masked_scatter_": (make(F), make("bool"), make(F)),
    "scatter_reduce_.two": (make(F), 0, INDEX_2D, make(F), "amax"),
    "scatter_reduce.two_out": (make(F), 0, INDEX_2D, make(F), "sum"),
    "scatter_add_": (make(F), 0, INDEX_2D, make(F)),
}
CHANGES_MEMORY = ("resize_", "set_", "resize_as_", "record_stream")
BECOMES_A_VIEW = ("as_strided_", "squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_")
"""An argument that changes its shape is no value that a program without memory could give back."""


def sample_value(argument, kind):
    """Return a value for a schema's argument; KeyError means the default."""
    base = base_type(argument.type).name
    if str(argument.type) == "Tensor":
        return make(kind)
    if argument.has_default or base == "Generator":
        raise KeyError(argument.name)
    return {
        "Scalar": 2,
        "float": 2.0,
        "int": (1,) if "[" in str(argument.type) else 1,
        "SymInt": (1,) if "[" in str(argument.type) else 1,
        "bool": False,
    }[base]


def sample(op, call):
    """Return (args, kwargs) of an operator, with the first kind of tensors that it accepts."""
    short = op.name().removeprefix("aten::")
    if short in SAMPLES:
        *args, last = SAMPLES[short]
        return (args, last) if isinstance(last, dict) else ((*args, last), {})
    for kind in ("float", "int", "bool", "complex"):
        args, kwargs = [], {}
        for argument in op._schema.arguments:
            if argument.is_out:
                continue
            try:
                value = sample_value(argument, kind)
            except KeyError:
                continue
            if argument.kwarg_only:
                kwargs[argument.name] = value
            else:
                args.append(value)
        try:
            call(op, args, kwargs)
        except (RuntimeError, TypeError, IndexError, NotImplementedError):
            continue
        return args, kwargs
    raise AssertionError(f"{op._schema}: no sample; add one to SAMPLES")


def assert_same(actual, expected):
    assert type(actual) is tt.Tensor
    assert (actual.shape, actual.dtype, actual.device) == (expected.shape, expected.dtype, expected.device)
    a, b = actual.detach().numpy(), expected.detach().numpy()
    np.testing.assert_array_equal(a, b)


def targets(function, *args):
    graph = make_graph(function)(*args).graph
    graph.lint()
    return [n.target for n in graph.nodes if n.op == "call_function" and isinstance(n.target, OpOverload)]


def writes(function, *args):
    return [t.name() for t in targets(function, *args) if t._schema.is_mutable]


def views(function, *args):
    found = targets(function, *args)
    return [
        t.name() for t in found if not t._schema.is_mutable and any(r.alias_info for r in t._schema.returns)
    ]


def writes_lists(schema):
    return any(a.is_write and "[]" in str(a.type) for a in schema.arguments)


SPARSE = {
    "aten::_coalesced_",
    "aten::copy_sparse_to_sparse_",
    "aten::resize_as_sparse_",
    "aten::sparse_resize_",
    "aten::sparse_resize_and_clear_",
}
"""What writes to sparse tensors alone; tests/sparse/ has it."""
PARTS = {
    *("aten::values", "aten::indices", "aten::_values", "aten::_indices", "aten::coalesce"),
    *("aten::crow_indices", "aten::col_indices", "aten::ccol_indices", "aten::row_indices"),
    "aten::_sparse_broadcast_to",
}
"""Views of sparse tensors, which no program of strided ones has."""
IN_PLACE = operators(lambda s: s.is_mutable and not s.out_arguments and not writes_lists(s), SPARSE)
OUT = [
    name
    for name in operators(lambda s: bool(s.out_arguments) and not writes_lists(s))
    # The second writes running statistics besides its outputs, and raises an error: it has no functional form.
    if name
    not in ("aten::empty.out", "aten::_batch_norm_with_update.out", "aten::_native_batch_norm_legit.out")
    # Operators of sparse tensors alone, whose `out=` forms are in tests/sparse/.
    and name.removeprefix("aten::")
    not in (
        *("_sparse_addmm.out", "_sparse_csr_prod.dim_dtype_out", "_sparse_csr_sum.dim_dtype_out"),
        *("hspmm.out", "sparse_sampled_addmm.out", "sspaddmm.out"),
        *("crow_indices_copy.out", "col_indices_copy.out", "ccol_indices_copy.out", "row_indices_copy.out"),
        *("indices_copy.out", "values_copy.out"),
        # CUDA alone has their kernels: tests/ops/test_product_dtypes.py.
        *("mm.dtype_out", "bmm.dtype_out", "addmm.dtype_out", "baddbmm.dtype_out"),
    )
]
# Copies of views write to lists of one kind alone: tests/ops/test_out_of_compositions.py.
LISTS = [name for name in operators(writes_lists) if "_copy." not in name and "::_foreach" not in name]
FOREACH = ("_foreach_exp_", "_foreach_add_.List", "_foreach_addcmul_.ScalarList", "_foreach_zero_")
LISTS += [f"aten::{name}" for name in FOREACH]  # the others have the same kernel
VIEWS = operators(lambda s: not s.is_mutable and any(r.alias_info for r in s.returns), PARTS)


def test_the_lists_are_of_the_registry():
    assert len(IN_PLACE) > 100 and len(OUT) > 150 and len(VIEWS) > 50


def seed(kwargs):
    (kwargs.get("generator") or tt).manual_seed(0)


def write(op, args, kwargs, target=None):
    seed(kwargs)
    target = args[0].clone() if target is None else target
    op(target, *args[1:], **kwargs)
    return target


def changes_memory(name):
    """Return True if an operator changes memory or its owner; `test_changes_of_memory_are_refused` covers
    those.
    """
    return name.partition("::")[2].partition(".")[0] in (*CHANGES_MEMORY, *BECOMES_A_VIEW)


WRITES_BESIDE = {
    "aten::_native_batch_norm_legit",
    "aten::_batch_norm_with_update",
    "aten::_fused_moving_avg_obs_fq_helper",
    "aten::fused_moving_avg_obs_fake_quant",
    "aten::rrelu_with_noise",
}
"""Operators with results of their own that write to arguments beside."""
OF_COMPILED_GRAPHS = {"aten::_batch_norm_statistics"}
"""Operators of graphs that are functional already."""


def test_operators_of_compiled_graphs_are_refused():
    x, mean, var = make(F), tt.zeros(4), tt.ones(4)
    program = functionalize(lambda *given: tt.ops.aten._batch_norm_statistics(*given, 0.1, 1e-5))
    with pytest.raises(RuntimeError, match="has no functional form"):
        program(x, mean, var)
    assert (mean == 0).all()


@pytest.mark.parametrize("remove", REMOVE)
def test_writes_beside_results(remove):
    x, mean, var = make(F), tt.zeros(4), tt.ones(4)

    def program(x, mean, var):
        return tt.nn.functional.batch_norm(x, mean, var, training=True)

    expected, written = program(x, first := mean.clone(), second := var.clone()), (mean, var)
    assert_same(functionalize(program, remove=remove)(x, *written), expected)
    for got, wanted in zip(written, (first, second), strict=True):
        assert_same(got, wanted)
    left = writes(functionalize(program, remove=remove), x, mean.clone(), var.clone())
    assert left == ["aten::copy_", "aten::copy_"]


@pytest.mark.parametrize("remove", REMOVE)
def test_observers_write_beside_results(remove):
    on = tt.ones(1, dtype=tt.int64)

    def program(x, *seen):
        return tt.fused_moving_avg_obs_fake_quant(x, on, on, *seen, 0.01, 0, 15, 0)

    def state():
        infinite = (tt.full((1,), sign * float("inf")) for sign in (1, -1))
        return (*infinite, tt.ones(1), tt.zeros(1, dtype=tt.int32))

    x = make(F)
    expected, written = program(x, *(first := state())), state()
    assert_same(functionalize(program, remove=remove)(x, *written), expected)
    for got, wanted in zip(written, first, strict=True):
        assert_same(got, wanted)
    assert writes(functionalize(program, remove=remove), x, *state()) == ["aten::copy_"] * 4


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in IN_PLACE
        if not changes_memory(name) and name not in WRITES_BESIDE | OF_COMPILED_GRAPHS
    ],
)
@pytest.mark.parametrize("remove", REMOVE)
def test_in_place_operators(name, remove):
    op = OpOverload(Dispatcher.singleton().find_schema_or_throw(name))
    args, kwargs = sample(op, write)
    expected = write(op, args, kwargs)

    def program(x):
        return write(op, args, kwargs, x)

    x = args[0].clone()
    assert_same(functionalize(program, remove=remove)(x), expected)
    assert_same(x, expected)
    assert writes(functionalize(program, remove=remove), args[0].clone()) == ["aten::copy_"]

    def through_a_view(x):
        y = tt.zeros(2, *x.shape, dtype=x.dtype)
        y[1] = x
        write(op, args, kwargs, y.transpose(0, 1)[:, 1])
        return y

    expected = through_a_view(args[0])
    assert_same(functionalize(through_a_view, remove=remove)(args[0]), expected)
    assert writes(functionalize(through_a_view, remove=remove), args[0]) == []
    if remove == "mutations_and_views":
        assert views(functionalize(through_a_view, remove=remove), args[0]) == []


LINE = tt.tensor([3, 1, 1, 2])
BAGS = (make(F), tt.tensor([0, 2, 2, 1]), tt.tensor([0, 1]))
SEQUENCE = (tt.zeros(3, 1, 4).log_softmax(2), tt.tensor([[1, 2]]))
LENGTHS = {"lengths": tt.tensor([1, 2])}
OUT_SAMPLES = {
    **{f"{name}.grad_input": sample for name, sample in BACKWARD_CALLS.items()},
    "_ctc_loss.out": (*SEQUENCE, [3], [2]),
    "_ctc_loss_backward.out": (tt.ones(1), *SEQUENCE, [3], [2], tt.ones(1), tt.zeros(1, 3, 5), 0),
    "segment_reduce.out": (make(F), "sum", LENGTHS),
    "_segment_reduce_backward.out": (tt.ones(2, 4), tt.ones(2, 4), make(F), "sum", LENGTHS),
    "_thnn_fused_lstm_cell.out": (tt.ones(3, 8), tt.ones(3, 8), tt.ones(3, 2)),
    "_thnn_fused_gru_cell.out": (tt.ones(3, 6), tt.ones(3, 6), tt.ones(3, 2)),
    "_chunk_cat.out": ([make(F), make(F)], 0, 2),
    "_embedding_bag.out": (*BAGS, False, 2),
    "_embedding_bag_forward_only.out": (*BAGS, False, 1),
    "_unique.out": (LINE, True, True),
    "_unique2.out": (LINE, True, True, True),
    "bincount.out": (LINE,),
    "frobenius_norm.out": (make(F), (0, 1)),
    "nuclear_norm.dim_out": (make(F), (0, 1)),
    "range.out": (1, 7, 2),
    "range.out_": (1, 5),
    "bucketize.Scalar_out": (2, tt.tensor([1, 2, 3])),
    "bucketize.Tensor_out": (LINE, tt.tensor([1, 2, 3])),
    "index_reduce.out": (make(F), 0, make("index"), make(F), "mean"),
    "max_unpool2d.out": (make(F, (1, 2, 2)), tt.tensor([[[0, 3], [4, 6]]]), (3, 3)),
    "max_unpool3d.out": (
        *(make(F, (1, 1, 2, 2)), tt.tensor([[[[0, 3], [4, 6]]]])),
        *((1, 3, 3), (1, 2, 2), (0, 0, 0)),
    ),
    "nonzero.out": (LINE,),
    "repeat_interleave.Tensor_out": (LINE,),
    "searchsorted.Scalar_out": (tt.tensor([1, 2, 3]), 2),
    "unique_consecutive.out": (LINE, True, True),
    "unique_dim.out": (LINE, 0, True, True, True),
    "unique_dim_consecutive.out": (LINE, 0, True, True),
    **{f"{name}quantile.out": (make(F), tt.tensor([0.5, 0.2])) for name in ("", "nan")},
    **{f"{name}quantile.scalar_out": (make(F), 0.5) for name in ("", "nan")},
    "multilabel_margin_loss.out": (make(F), tt.tensor([[1, 0, -1, 2]] * 3)),
    "multilabel_margin_loss_forward.output": (make(F), tt.tensor([[1, 0, -1, 2]] * 3), 1),
    "multilabel_margin_loss_backward.grad_input": (
        *(tt.tensor(2.0), make(F), tt.tensor([[1, 0, -1, 2]] * 3), 1, make(F)),
    ),
    "multi_margin_loss_backward.grad_input": (tt.tensor(2.0), make(F), tt.tensor([1, 0, 3]), 1, 1.0),
    "arange.out": (5,),
    "arange.start_out": (1, 7, 2),
    "_addmm_activation.out": SAMPLES["addmm_"],
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.out": (
        *(make(F), tt.tensor(0.1), tt.tensor(0, dtype=tt.int32), tt.tensor(True), 0, 255),
    ),
    "_int_mm.out": (tt.ones(3, 4, dtype=tt.int8), tt.ones(4, 5, dtype=tt.int8)),
    "_scaled_mm.out": (
        make(F, (16, 32)).to(tt.float8_e4m3fn),
        make(F, (48, 32)).to(tt.float8_e4m3fn).t(),
        tt.tensor(0.5),
        tt.tensor(2.0),
        {"out_dtype": tt.float32},
    ),
    "addbmm.out": SAMPLES["addbmm_"],
    "addmm.out": SAMPLES["addmm_"],
    "addmv.out": SAMPLES["addmv_"],
    "addr.out": SAMPLES["addr_"],
    "baddbmm.out": SAMPLES["baddbmm_"],
    "clamp.out": (make(F), 0.3),
    "clamp.Tensor_out": (make(F), make(F) * 0.5),
    "clip.out": (make(F), 0.3),
    "clip.Tensor_out": (make(F), make(F) * 0.5),
    "bmm.out": (make(F, (2, 3, 5)), make(F, (2, 5, 4))),
    "mm.out": (make(F, (3, 5)), make(F, (5, 4))),
    "mv.out": (make(F, (3, 5)), make(F, (5,))),
    "dot.out": (make(F, (3,)), make(F, (3,))),
    "vdot.out": (make(F, (3,)), make(F, (3,))),
    "cat.out": ([make(F), make(F)],),
    "concat.out": ([make(F), make(F)],),
    "concatenate.out": ([make(F), make(F)],),
    "stack.out": ([make(F), make(F)],),
    **{f"{name}stack.out": ([make(F), make(F)],) for name in ("h", "v", "d", "row_", "column_")},
    "take_along_dim.out": (make(F), INDEX_2D, 0),
    "slice_scatter.out": (make(F), make(F, (1, 4)), 0, 1, 2),
    "expand_copy.out": (make(F), (2, 3, 4)),
    "permute_copy.out": (make(F), (1, 0)),
    "view_copy.out": (make(F), (4, 3)),
    "view_copy.dtype_out": (make(F), tt.int32),
    "view_as_complex_copy.out": (make(F, (3, 2)),),
    "block_diag.out": ([make(F), make(F)],),
    "chain_matmul.out": ([make(F), make(F, (4, 2))],),
    "linalg_matrix_norm.out": (make(F), 1),
    "linalg_norm.ord_str_out": (make(F), "fro"),
    "linalg_multi_dot.out": ([make(F), make(F, (4, 2))],),
    "linalg_cross.out": (make(F, (2, 3)), make(F, (2, 3))),
    "div.out_mode": (make(F), make(F), {"rounding_mode": "trunc"}),
    "divide.out_mode": (make(F), make(F), {"rounding_mode": "trunc"}),
    "index_add.out": SAMPLES["index_add_"],
    "index_copy.out": SAMPLES["index_copy_"],
    "index_fill.int_Scalar_out": SAMPLES["index_fill_.int_Scalar"],
    "index_put.out": SAMPLES["index_put_"],
    "index_select.out": (make(F), 0, tt.tensor([0, 2])),
    "gather.out": (make(F), 0, INDEX_2D),
    "scatter.src_out": SAMPLES["scatter_.src"],
    "scatter.value_out": SAMPLES["scatter_.value"],
    "scatter.reduce_out": SAMPLES["scatter_.reduce"],
    "scatter.value_reduce_out": SAMPLES["scatter_.value_reduce"],
    "scatter_add.out": SAMPLES["scatter_add_"],
    "masked_select.out": (make(F), make("bool")),
    "full.out": ((3,), 2.0),
    "eye.out": (3,),
    "eye.m_out": (3, 4),
    "linspace.out": (0, 1, 5),
    **{
        f"{name}.{kind}_out": (*bounds, 5)
        for name in ("linspace", "logspace")
        for kind, bounds in {
            "Tensor_Tensor": (tt.tensor(0.0), tt.tensor(1.0)),
            "Tensor_Scalar": (tt.tensor(0.0), 1),
            "Scalar_Tensor": (0, tt.tensor(1.0)),
        }.items()
    },
    "randperm.out": (5,),
    "randint.out": (9, (3,)),
    "randint.low_out": (2, 9, (3,)),
    "normal.float_float_out": (0.0, 1.0, (3,)),
    "bernoulli.out": (make(F),),
    "multinomial.out": (make(F), 2),
    "take.out": (make(F), tt.tensor([0, 5])),
    "_softmax_backward_data.out": (make(F), make(F), 1, tt.float32),
    "_log_softmax_backward_data.out": (make(F), make(F), 1, tt.float32),
    "avg_pool2d.out": (make(F, (1, 2, 4, 4)), (2, 2)),
    "max_pool2d_with_indices.out": (make(F, (1, 2, 4, 4)), (2, 2)),
    "avg_pool3d.out": (make(F, (1, 2, 4, 4, 4)), (2, 2, 2)),
    "max_pool3d_with_indices.out": (make(F, (1, 2, 4, 4, 4)), (2, 2, 2)),
    "adaptive_max_pool2d.out": (make(F, (1, 2, 4, 4)), (2, 2)),
    "adaptive_max_pool3d.out": (make(F, (1, 2, 4, 4, 4)), (2, 2, 2)),
    "fractional_max_pool2d.output": (make(F, (1, 2, 4, 4)), (2, 2), (2, 3), make(F, (1, 2, 2))),
    "fractional_max_pool3d.output": (make(F, (1, 2, 4, 4, 4)), (2, 2, 2), (2, 3, 1), make(F, (1, 2, 3))),
    "fractional_max_pool2d_backward.grad_input": (
        *(make(F, (1, 1, 2, 2)), make(F, (1, 1, 4, 4)), (2, 2), (2, 2)),
        tt.tensor([[[[5, 5], [13, 15]]]]),
    ),
    "fractional_max_pool3d_backward.grad_input": (
        *(make(F, (1, 1, 1, 2, 2)), make(F, (1, 1, 2, 4, 4)), (2, 2, 2), (1, 2, 2)),
        tt.tensor([[[[[5, 5], [13, 30]]]]]),
    ),
    "hash_tensor.out": (make(F), (1,)),
    "_batch_norm_no_update.out": (make(F), None, None, tt.zeros(4), tt.ones(4), 0.1, 0.1),
    "histogram.bin_ct_out": (make(F), 3),
    "histogram.bins_tensor_out": (make(F), tt.tensor([-1.0, 0.0, 1.0])),
    "_histogramdd_from_bin_cts.out": (make(F), (2, 3, 2, 1)),
    "_histogramdd_from_bin_tensors.out": (make(F), [tt.tensor([-1.0, 0.0, 1.0])] * 4),
    "ger.out": (make(F, (3,)), make(F, (4,))),
    "outer.out": (make(F, (3,)), make(F, (4,))),
    "matmul.out": (make(F, (2, 3, 5)), make(F, (5, 4))),
    "native_layer_norm.out": (make(F), (4,), None, None, 0.1),
    "native_group_norm.out": (make(F), None, None, 3, 4, 1, 2, 0.1),
    "native_batch_norm.out": (make(F), None, None, None, None, True, 0.1, 0.1),
    "_native_batch_norm_legit.no_stats_out": (make(F), None, None, True, 0.1, 0.1),
    "nll_loss_forward.output": (make(F), make("index"), None, 1, -100),
    "nll_loss_backward.grad_input": (tt.tensor(1.0), make(F), make("index"), None, 1, -100, tt.tensor(3.0)),
    "nll_loss2d_forward.output": (make(F, (1, 3, 2, 4)), INDEX_2D[None], None, 1, -100),
    "nll_loss2d_backward.grad_input": (
        *(tt.tensor(1.0), make(F, (1, 3, 2, 4)), INDEX_2D[None]),
        *(None, 1, -100, tt.tensor(8.0)),
    ),
    "rand.generator_out": ((3,), {"generator": tt.Generator()}),
    "randn.generator_out": ((3,), {"generator": tt.Generator()}),
    "randint.generator_out": (9, (3,), {"generator": tt.Generator()}),
    "randint.low_generator_out": (2, 9, (3,), {"generator": tt.Generator()}),
    "randperm.generator_out": (5, {"generator": tt.Generator()}),
}


def call_out(op, args, kwargs, outs=None):
    """Call an ``out=`` overload on zeros of the results' geometry, or on these."""
    names = [a.name for a in op._schema.out_arguments]
    if outs is None:
        outs = [tt.empty(0, dtype=kind) for kind in out_dtypes(op, args, kwargs)]
    seed(kwargs)
    op(*args, **kwargs, **dict(zip(names, outs, strict=True)))
    return outs


UPSAMPLES = {
    **{f"{kind}{r}d": (r, ()) for kind in ("upsample_nearest", "_upsample_nearest_exact") for r in (1, 2, 3)},
    "upsample_linear1d": (1, (False,)),
    "upsample_bilinear2d": (2, (False,)),
    "upsample_bicubic2d": (2, (False,)),
    "upsample_trilinear3d": (3, (False,)),
    "_upsample_bilinear2d_aa": (2, (False,)),
    "_upsample_bicubic2d_aa": (2, (False,)),
}
"""Operators of interpolation: how many dimensions, and what stands between sizes and factors."""

for _name, (_rank, _corners) in UPSAMPLES.items():
    _from, _to = (2, 3, 4, 5, 3)[: _rank + 2], (6, 3, 4)[:_rank]
    OUT_SAMPLES[f"{_name}.out"] = (make(F, _from), _to, *_corners, *(None,) * _rank)
    OUT_SAMPLES[f"{_name}_backward.grad_input"] = (
        make(F, (2, 3, *_to)), _to, _from, *_corners, *(None,) * _rank,
    )  # fmt: skip
for _kind in ("reflection", "replication"):
    for _rank in (1, 2, 3):
        _from, _pad = (2, 3, 4, 5, 3)[: _rank + 2], (1, 2) * _rank
        _to = tuple(n + 3 * (i > 1) for i, n in enumerate(_from))
        OUT_SAMPLES[f"{_kind}_pad{_rank}d.out"] = (make(F, _from), _pad)
        OUT_SAMPLES[f"{_kind}_pad{_rank}d_backward.grad_input"] = (make(F, _to), make(F, _from), _pad)
OUT_SAMPLES |= {
    "constant_pad_nd.out": (make(F), (1, 2), 1.5),
    "im2col.out": (make(F, (1, 2, 4, 4)), (2, 2), (1, 1), (0, 0), (1, 1)),
    "col2im.out": (make(F, (1, 8, 9)), (4, 4), (2, 2), (1, 1), (0, 0), (1, 1)),
    "grid_sampler_2d.out": (make(F, (1, 2, 4, 4)), make(F, (1, 3, 3, 2)), 0, 0, False),
    "grid_sampler_3d.out": (make(F, (1, 2, 3, 4, 4)), make(F, (1, 3, 3, 2, 3)), 0, 0, False),
    "_fft_r2c.out": (make(F), (0, 1), 0, True),
    "_fft_c2r.out": (make("complex"), (1,), 2, 5),
    "_fft_c2c.out": (make("complex"), (0, 1), 1, True),
}


def out_dtypes(op, args, kwargs):
    """Return dtypes for the outputs of an ``out=`` overload by trial, since PyTorch rejects lossy casts."""
    names = [a.name for a in op._schema.out_arguments]
    first = [tt.float32, tt.int64, tt.int32, tt.bool, tt.float64, tt.complex64, tt.uint8, tt.uint64]
    for last in first:
        for head in first:
            rest = len(names) - 1
            tried = (
                [head] * rest + [last],
                [head] + [last] * rest,
                [head, *[tt.int32] * (rest - 1), last][-rest - 1 :],
            )
            for kinds in tried:
                trial = [tt.empty(0, dtype=kind) for kind in kinds]
                try:
                    op(*args, **kwargs, **dict(zip(names, trial, strict=True)))
                except (RuntimeError, TypeError, IndexError, NotImplementedError):
                    continue
                return kinds
    raise TypeError(op.name())


SQUARE = make(F, (3, 3)) + 2 * tt.eye(3)
POSITIVE = SQUARE @ SQUARE.mT
FACTORS = tt.linalg.lu_factor(SQUARE)
LDL = tt.linalg.ldl_factor(POSITIVE)
RIGHT = make(F, (3, 2))
OUT_SAMPLES |= {
    "_cdist_backward.out": (make(F, (3, 3)), make(F), make(F), 2.0, tt.cdist(make(F), make(F) + 1)),
    "_pdist_backward.out": (make(F, (3,)), make(F), 2.0, tt.nn.functional.pdist(make(F))),
    "linalg_householder_product.out": (make(F, (4, 3)), make(F, (3,))),
    "orgqr.out": (make(F, (4, 3)), make(F, (3,))),
    "ormqr.out": (make(F, (3, 3)), make(F, (3,)), RIGHT),
    "linalg_ldl_solve.out": (*LDL, RIGHT),
    "linalg_lu_solve.out": (*FACTORS, RIGHT),
    "lu_solve.out": (RIGHT, *FACTORS),
    "lu_unpack.out": FACTORS,
    "linalg_matmul.out": (SQUARE, RIGHT),
    "linalg_solve_triangular.out": (SQUARE, RIGHT, {"upper": True}),
    "triangular_solve.X": (RIGHT, SQUARE),
    "cholesky_solve.out": (RIGHT, tt.linalg.cholesky(POSITIVE)),
    "cholesky_inverse.out": (tt.linalg.cholesky(POSITIVE),),
    "linalg_cond.p_str_out": (SQUARE, "nuc"),
    "linalg_tensorinv.out": (SQUARE, 1),
    "linalg_tensorsolve.out": (SQUARE, make(F, (3,))),
    "linalg_matrix_power.out": (SQUARE, 3),
    "matrix_power.out": (SQUARE, 3),
    **dict.fromkeys(("_linalg_solve_ex.result", "linalg_solve.out", "linalg_solve_ex.out"), (SQUARE, RIGHT)),
    **dict.fromkeys(
        (
            *("_linalg_eigh.eigenvalues", "linalg_eigh.eigvals", "linalg_eigvalsh.out", "cholesky.out"),
            *(
                "linalg_cholesky.out",
                "linalg_cholesky_ex.L",
                "linalg_ldl_factor.out",
                "linalg_ldl_factor_ex.out",
            ),
        ),
        (POSITIVE,),
    ),
    **dict.fromkeys(
        (
            *(
                "_linalg_det.result",
                "_linalg_slogdet.sign",
                "linalg_det.out",
                "linalg_slogdet.out",
                "slogdet.out",
            ),
            *(
                "inverse.out",
                "linalg_inv.out",
                "linalg_inv_ex.inverse",
                "linalg_eig.out",
                "linalg_eigvals.out",
            ),
            *("linalg_lu_factor_ex.out", "linalg_matrix_exp.out"),
        ),
        (SQUARE,),
    ),
}


def out_sample(op):
    short = op.name().removeprefix("aten::")
    if OUT_SAMPLES.get(short) is not None:
        *args, last = OUT_SAMPLES[short]
        return (args, last) if isinstance(last, dict) else ((*args, last), {})
    return sample(op, call_out)


@pytest.mark.parametrize("name", OUT)
@pytest.mark.parametrize("remove", REMOVE)
def test_out_forms(name, remove):
    op = OpOverload(Dispatcher.singleton().find_schema_or_throw(name))
    args, kwargs = out_sample(op)
    expected = call_out(op, args, kwargs)

    def program(*outs):
        return tuple(call_out(op, args, kwargs, list(outs)))

    outs = [tt.zeros_like(e) for e in expected]
    results = functionalize(program, remove=remove)(*outs)
    for out, result, wanted in zip(outs, results, expected, strict=True):
        assert result is out
        assert_same(out, wanted)
    left = writes(functionalize(program, remove=remove), *[tt.zeros_like(e) for e in expected])
    assert left == ["aten::copy_"] * len(outs)

    def own(x):
        made = [tt.zeros_like(e) for e in expected]
        call_out(op, args, kwargs, made)
        return [m + x.to(m.dtype) for m in made]

    zero = tt.zeros(())
    for result, wanted in zip(functionalize(own, remove=remove)(zero), own(zero), strict=True):
        assert_same(result, wanted)
    assert writes(functionalize(own, remove=remove), zero) == []


SCALE = {"grad_scale": tt.tensor(2.0)}
SGD = operands.SGD | {"weight_decay": 0.1, "momentum": 0.9, "dampening": 0.5} | SCALE
ADAM = operands.ADAM | {"weight_decay": 0.1, "amsgrad": True} | SCALE
LIST_SAMPLES = {"_fused_sgd": (3, SGD), "_fused_adam": (5, ADAM), "_fused_adamw": (5, ADAM)}
"""How many lists an operator writes, and its keyword arguments."""


def write_lists(name, lists):
    """Write to lists of two tensors each, the last of which is for ``out=``."""
    op = OpOverload(Dispatcher.singleton().find_schema_or_throw(name))
    base, _, overload = name.removeprefix("aten::").partition(".")
    out = {"out": lists[-1]} if op._schema.out_arguments else {}
    if base.startswith("_amp"):
        found = tt.zeros(())
        assert op(lists[0], found, tt.tensor(0.5), **out) is None
        return
    if base.startswith("_multi_tensor"):
        assert op(lists[0], "add", lists[1], [], 2.0) is None
        return
    if base.startswith("_foreach"):
        count = sum(str(argument.type) == "Tensor[]" for argument in op._schema.arguments)
        assert op(*lists[:count], *([[2.0, 3.0]] if overload == "ScalarList" else [])) is None
        return
    count, options = LIST_SAMPLES[base.rstrip("_")]
    steps = [] if "sgd" in base else [[tt.tensor(3.0), tt.tensor(4.0)]]
    options = options | ({"lr": tt.tensor(0.1)} if "tensor_lr" in overload else {})
    assert op(*lists[:count], *steps, **options, **out) is None


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("remove", REMOVE)
def test_operators_that_write_to_lists(name, remove):
    tensors = [[make(F), make(F, (5,))] for _ in range(6)]

    def copies():
        return [t.clone() for row in tensors for t in row]

    def program(*flat):
        write_lists(name, [list(flat[i : i + 2]) for i in range(0, len(flat), 2)])
        return flat

    expected = program(*copies())
    given = copies()
    functionalize(program, remove=remove)(*given)
    for found, wanted in zip(given, expected, strict=True):
        assert_same(found, wanted)
    assert any(not np.array_equal(t.numpy(), old.numpy()) for t, old in zip(given, copies(), strict=True))

    def own(x):
        made = [t + x for row in tensors for t in row]
        return program(*made)

    zero = tt.zeros(())
    for found, wanted in zip(functionalize(own, remove=remove)(zero), own(zero), strict=True):
        assert_same(found, wanted)
    assert writes(functionalize(own, remove=remove), zero) == []


X = make(F, (2, 3, 4))
COMPLEX = make("complex")
VIEW_SAMPLES = {
    "_basic_index": (X, (1, 1, 0, 0, 2, 1, 3, 1, 0, 0, 0, 0)),
    "_select_first": (X, 1),
    "_slice_first": (X, 0, 2, 1),
    "_strided_from": (X, (2, 3), (4, 2), 3),
    "adjoint": (X,),
    "alias": (X,),
    "as_strided": (X, (2, 3), (4, 2), 3),
    "broadcast_to": (X[:, :1], (2, 3, 4)),
    "chunk": (X, 2, 1),
    "conj": (X,),
    "contiguous": (X,),
    "detach": (X,),
    "dsplit.array": (X, (1, 3)),
    "dsplit.int": (X, 2),
    "diagonal": (X, 1, 1, 2),
    "expand": (X[:, :1], (2, 3, 4)),
    "expand_as": (X[:, :1], X),
    "flatten.using_ints": (X, 1),
    "hsplit.array": (X, (1, 2)),
    "hsplit.int": (X, 3),
    "imag": (COMPLEX,),
    "linalg_diagonal": (X,),
    "lift_fresh": (X,),
    "moveaxis.int": (X, 0, 2),
    "moveaxis.intlist": (X, (0,), (2,)),
    "movedim.int": (X, 0, 2),
    "movedim.intlist": (X, (0,), (2,)),
    "narrow": (X, 2, 1, 2),
    "narrow.Tensor": (X, 2, tt.tensor(1), 2),
    "permute": (X, (2, 0, 1)),
    "positive": (X,),
    "ravel": (X,),
    "real": (COMPLEX,),
    "pin_memory": (X,),
    "reshape": (X, (4, 6)),
    "reshape_as": (X, make(F, (4, 6))),
    "resolve_conj": (X,),
    "resolve_neg": (X,),
    "select.int": (X, 1, 2),
    "slice.Tensor": (X, 2, 1, 4, 2),
    "split.Tensor": (X, 2, 2),
    "split.sizes": (X, (1, 3), 2),
    "split_with_sizes": (X, (1, 3), 2),
    "squeeze": (X[:, :1],),
    "squeeze.dim": (X[:, :1], 1),
    "squeeze.dims": (X[:, :1], (1,)),
    "swapaxes": (X, 0, 1),
    "swapdims": (X, 0, 1),
    "t": (make(F),),
    "tensor_split.indices": (X, (1, 3), 2),
    "tensor_split.sections": (X, 3, 2),
    "tensor_split.tensor_indices_or_sections": (X, tt.tensor([1, 3]), 2),
    "to.device": (X, "cpu", tt.float32),
    "to.dtype": (X, tt.float32),
    "to.dtype_layout": (X,),
    "to.other": (X, X),
    "to.prim_Device": (X, "cpu"),
    "transpose.int": (X, 0, 2),
    "unbind.int": (X, 1),
    "unflatten.int": (X, 2, (2, 2)),
    "unfold": (X, 2, 2, 2),
    "unsqueeze": (X, 1),
    "view": (X, (4, 6)),
    "view.dtype": (X, tt.int32),
    "view_as": (X, make(F, (4, 6))),
    "view_as_complex": (make(F, (3, 2)),),
    "view_as_real": (COMPLEX,),
    "vsplit.array": (X, (1,)),
    "vsplit.int": (X, 2),
}


def test_every_view_has_a_sample():
    assert set(VIEWS) == {f"aten::{name}" for name in VIEW_SAMPLES}


@pytest.mark.parametrize("short", VIEW_SAMPLES)
@pytest.mark.parametrize("remove", REMOVE)
def test_views(short, remove):
    """Propagate writes from a view to its base and other views, and back."""
    if short == "pin_memory":
        pytest.importorskip("triton", reason="triton has no wheel for this platform")
    op = OpOverload(Dispatcher.singleton().find_schema_or_throw(f"aten::{short}"))
    first, *rest = VIEW_SAMPLES[short]
    repeats = any(n > 1 and s == 0 for n, s in zip(*_geometry(op(first, *rest)), strict=True))

    def parts(x):
        made = op(x, *rest)
        return list(made) if isinstance(made, tuple | list) else [made]

    def program(base):
        x = base.clone() if first.is_contiguous() else base.clone(memory_format=tt.contiguous_format)
        before = parts(x)
        x.add_(1)
        seen = [p.clone() for p in before]
        if not repeats:
            for part in before:
                part.add_(part)
        after = parts(x)
        return [x, *seen, *before, *after]

    expected = program(first)
    actual = functionalize(program, remove=remove)(first)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert_same(a, e)
        if remove == "mutations":
            assert a.stride() == e.stride()
    assert writes(functionalize(program, remove=remove), first) == []
    if remove == "mutations_and_views":
        assert views(functionalize(program, remove=remove), first) == []

    def on_the_input(x):
        for part in parts(x):
            part.mul_(3)

    if not repeats:
        x, y = first.clone(), first.clone()
        on_the_input(x)
        functionalize(on_the_input, remove=remove)(y)
        assert_same(y, x)


def _geometry(result):
    one = result[0] if isinstance(result, tuple | list) else result
    return one.shape, one.stride()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.resize_(7), r"aten::resize_ resizes an argument from \[3, 4\] to \[7\]"),
        (lambda x: x.clone().resize_(7), r"aten::resize_ resizes elements from \[3, 4\] to \[7\]"),
        (lambda x: x.set_(x.clone()), "aten::set_.source_Tensor gives a tensor other memory"),
        (lambda x: x.set_(), "aten::set_ gives a tensor other memory"),
        (lambda x: tt.add(x, 1, out=x.new_zeros(2)), "resizes elements from .* give out= a tensor of the"),
        (lambda x: tt.add(x.clone(), 1, out=x[0]), "resizes an argument"),
    ],
)
def test_changes_of_memory_are_refused(change, message):
    x = make(F)
    with pytest.raises(RuntimeError, match=message):
        functionalize(change)(x)
    assert_same(x, make(F))


def test_a_resize_to_the_same_sizes_and_an_empty_out_are_no_change():
    def program(x):
        out = x.new_empty(0)
        tt.exp(x, out=out)
        return out.add_(1), x.clone().resize_(3, 4)

    for actual, expected in zip(functionalize(program)(make(F)), program(make(F)), strict=True):
        assert_same(actual, expected)
    assert writes(functionalize(program), make(F)) == []
