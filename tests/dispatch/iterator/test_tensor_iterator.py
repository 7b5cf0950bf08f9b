"""Decisions of an iterator: output geometry as in PyTorch, dtypes, devices, errors, coalescing."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

import triten as tt
from triten.dispatch.iterator.tensor_iterator import (
    TensorIterator,
    TensorIteratorConfig,
    config_for,
    review_reduce_result,
)
from triten.runtime.device import CPU, META
from triten.runtime.device import device as Device
from triten.runtime.scalar_type import bool_, complex32, float16, float32, float64, int32, int64
from triten.runtime.tensor_spec import TensorSpec

CUDA = Device("cuda", 0)


def spec(sizes, strides=None, dtype=float32, device=CPU) -> TensorSpec:
    if strides is None:
        return TensorSpec.contiguous(sizes, dtype, device)
    return TensorSpec.of(sizes, strides, dtype, device)


# Operands as (sizes, strides), and the sizes and strides of torch.add's or torch.neg's result (PyTorch 2.13).
GEOMETRY = [
    ([((2, 3), (3, 1)), ((2, 3), (1, 2))], (2, 3), (3, 1)),
    ([((2, 3), (1, 2)), ((2, 3), (3, 1))], (2, 3), (1, 2)),
    ([((2, 3), (1, 2)), ((3,), (1,))], (2, 3), (1, 2)),
    ([((3,), (1,)), ((2, 3), (1, 2))], (2, 3), (1, 2)),
    ([((2, 3, 4), (0, 1, 3)), ((2, 1, 4), (4, 4, 1))], (2, 3, 4), (12, 1, 3)),
    ([((2, 3, 4, 5), (60, 1, 15, 3)), ((3, 1, 1), (1, 1, 1))], (2, 3, 4, 5), (60, 1, 15, 3)),
    ([((2, 3, 4, 5), (60, 20, 5, 1)), ((2, 3, 4, 5), (60, 1, 15, 3))], (2, 3, 4, 5), (60, 20, 5, 1)),
    ([((2, 3, 4, 5), (60, 1, 15, 3)), ((2, 3, 4, 5), (60, 20, 5, 1))], (2, 3, 4, 5), (60, 1, 15, 3)),
    ([((2, 3, 4, 5), (60, 1, 15, 3)), ((2, 3, 4, 5), (60, 1, 15, 3))], (2, 3, 4, 5), (60, 1, 15, 3)),
    ([((2, 1, 4, 4), (16, 16, 4, 1)), ((2, 1, 4, 4), (16, 1, 4, 1))], (2, 1, 4, 4), (16, 16, 4, 1)),
    ([((4, 1, 3), (3, 50, 1)), ((4, 1, 3), (3, 3, 1))], (4, 1, 3), (3, 3, 1)),
    ([((4, 1), (1, 9)), ((), ())], (4, 1), (1, 4)),
    ([((1, 4), (1, 1)), ((), ())], (1, 4), (1, 1)),
    ([((0, 3), (1, 1)), ((0, 3), (3, 1))], (0, 3), (3, 1)),
    ([((3, 0, 2), (2, 6, 1)), ((3, 1, 1), (1, 7, 3))], (3, 0, 2), (2, 6, 1)),
    ([((2, 3, 4), (1, 2, 6)), ((2, 3, 4), (1, 2, 6))], (2, 3, 4), (1, 2, 6)),
    ([((5, 4), (8, 2)), ((5, 4), (8, 2))], (5, 4), (4, 1)),
    ([((5, 4), (2, 10)), ((4,), (1,))], (5, 4), (1, 5)),
    ([((1,), (1,)), ((2, 2), (1, 2))], (2, 2), (1, 2)),
    ([((2, 3, 4, 5, 6), (360, 1, 90, 18, 3)), ((5, 1), (1, 1))], (2, 3, 4, 5, 6), (360, 1, 90, 18, 3)),
    ([((3, 3), (1, 3)), ((3, 3), (0, 1))], (3, 3), (1, 3)),
    ([((2, 2, 2), (0, 0, 1)), ((2, 2, 2), (1, 2, 4))], (2, 2, 2), (1, 2, 4)),
    ([((4, 6), (12, 2))], (4, 6), (6, 1)),
    ([((4, 6), (1, 4))], (4, 6), (1, 4)),
    ([((4, 3, 2), (0, 1, 3))], (4, 3, 2), (6, 1, 3)),
    ([((), ())], (), ()),
    ([((3, 4), (0, 0))], (3, 4), (4, 1)),
]


def outcome(iterator: TensorIterator):
    (out,) = iterator.output_specs()
    return out.sizes, out.strides


@pytest.mark.parametrize(("operands", "sizes", "strides"), GEOMETRY, ids=str)
@pytest.mark.parametrize("device", [CPU, META, CUDA], ids=str)
def test_outputs_keep_the_stride_order_of_the_inputs(operands, sizes, strides, device) -> None:
    specs = [spec(*each, device=device) for each in operands]
    build = TensorIterator.unary_op if len(specs) == 1 else TensorIterator.binary_op
    assert outcome(build(None, *specs)) == (sizes, strides)


def test_a_number_beside_a_tensor_keeps_its_layout() -> None:
    channels_last = spec((2, 3, 4, 5), (60, 1, 15, 3))
    assert outcome(TensorIterator.binary_op(None, channels_last, float)) == ((2, 3, 4, 5), (60, 1, 15, 3))
    assert outcome(TensorIterator.binary_op(None, float, spec((4, 1), (1, 9)))) == ((4, 1), (1, 4))


def test_a_host_cast_makes_a_dense_temporary_and_other_devices_do_not() -> None:
    # The int operand is expanded: its temporary on the host has strides that decide, its own have not.
    operands = [((2, 3), (0, 0), int64), ((2, 3), (1, 2), float32)]
    host = [spec(s, st, d) for s, st, d in operands]
    iterator = TensorIterator.binary_op(None, *host)
    assert iterator.operands[1].spec is spec((2, 3), (3, 1), float32)
    assert iterator.operands[1].original_spec is host[0]
    assert outcome(iterator) == ((2, 3), (3, 1))
    meta = TensorIterator.binary_op(None, *[spec(s, st, d, META) for s, st, d in operands])
    assert outcome(meta) == ((2, 3), (1, 2))


@given(some.permutations(range(4)), some.lists(some.integers(1, 3), min_size=4, max_size=4))
def test_dense_operands_of_one_order_are_one_run(order, sizes) -> None:
    strides, running = [0] * 4, 1
    for dim in order:
        strides[dim] = running
        running *= sizes[dim]
    a = spec(tuple(sizes), tuple(strides))
    iterator = TensorIterator.binary_op(None, a, a)
    assert iterator.ndim == 1
    assert iterator.is_contiguous
    assert iterator.output_specs()[0].is_dense()
    assert iterator.numel == a.numel


@given(some.data())
def test_strides_and_order_describe_every_operand(data) -> None:
    sizes = tuple(data.draw(some.lists(some.integers(1, 3), min_size=1, max_size=4)))
    strides = tuple(data.draw(some.integers(1, 20)) for _ in sizes)
    a, b = spec(sizes, strides), spec(sizes)
    iterator = TensorIterator.binary_op(None, a, b)

    def offsets(shape, stride_bytes):
        found = [0]
        for size, stride in zip(shape, stride_bytes, strict=True):
            found = [base + i * stride for base in found for i in range(size)]
        return sorted(found)

    for operand, own in zip(iterator.operands, [iterator.output_specs()[0], a, b], strict=True):
        expected = offsets(own.sizes, [s * own.itemsize for s in own.strides])
        assert offsets(iterator.shape, operand.stride_bytes) == expected


def test_iteration_order_is_fastest_first() -> None:
    iterator = TensorIterator.binary_op(None, spec((2, 3, 4)), spec((3, 1)))
    assert iterator.shape == [4, 3, 2]
    assert iterator.perm == [2, 1, 0]
    assert [o.stride_bytes for o in iterator.operands] == [[4, 16, 48], [4, 16, 48], [0, 4, 0]]
    assert iterator.broadcast_shape == (2, 3, 4)


def test_adjacent_dimensions_coalesce() -> None:
    iterator = TensorIterator.binary_op(None, spec((2, 3, 4)), spec((2, 1, 1)))
    assert iterator.shape == [12, 2]
    assert [o.stride_bytes for o in iterator.operands] == [[4, 48], [4, 48], [0, 4]]
    assert iterator.has_coalesced_dimensions


def test_linear_iteration_ignores_strides() -> None:
    a = spec((2, 3), (1, 2))
    config = TensorIteratorConfig().add_output(None).add_input(a).enforce_linear_iteration()
    iterator = config.build()
    assert iterator.perm == [1, 0]
    assert outcome(iterator) == ((2, 3), (3, 1))


@pytest.mark.parametrize(
    ("build", "operands", "common", "output"),
    [
        (TensorIterator.binary_op, [int32, int64], int64, int64),
        (TensorIterator.binary_op, [int32, float], float32, float32),
        (TensorIterator.binary_op, [float16, complex], complex32, complex32),
        (TensorIterator.binary_float_op, [int32, int64], float32, float32),
        (TensorIterator.binary_float_op, [float64, int], float64, float64),
        (TensorIterator.binary_float_op, [bool_, bool_], float32, float32),
        (TensorIterator.comparison_op, [int32, float64], float64, bool_),
        (TensorIterator.unary_op, [int32], int32, int32),
        (TensorIterator.unary_float_op, [bool_], float32, float32),
        (TensorIterator.unary_force_boolean_op, [float64], float64, bool_),
        (TensorIterator.ternary_op, [int32, float16, int], float16, float16),
    ],
)
def test_builders_promote(build, operands, common, output) -> None:
    given_operands = [o if isinstance(o, type) else spec((2, 3), dtype=o) for o in operands]
    iterator = build(None, *given_operands)
    assert iterator.common_dtype is common
    assert iterator.output_specs()[0].dtype is output
    assert iterator.device is CPU


def test_a_comparison_casts_to_an_output_that_is_not_bool() -> None:
    a, out = spec((3,), dtype=int64), spec((3,))
    iterator = TensorIterator.comparison_op(out, a, a)
    assert iterator.common_dtype is int64
    assert iterator.operands[0].current_dtype is int64
    assert iterator.output_specs() == [out]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: TensorIterator.binary_op(spec((2,), dtype=int64), spec((2,)), spec((2,))),
            "result type Float can't be cast to the desired output type Long",
        ),
        (
            lambda: TensorIterator.unary_op(spec((2,)), spec((2,), dtype=int64)),
            "Found dtype Float but expected Long",
        ),
        (
            lambda: TensorIterator.binary_op(None, spec((2, 3)), spec((2, 4))),
            r"The size of tensor a \(3\) must match the size of tensor b \(4\) at non-singleton dimension 1",
        ),
        (
            lambda: TensorIterator.binary_op(None, spec((2,), device=CUDA), spec((2,))),
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        ),
        (
            lambda: TensorIterator.binary_op(spec((), device=CPU), spec((2,), device=CUDA), float),
            "found at least two devices, cuda:0 and cpu!",
        ),
        (
            lambda: TensorIterator.ternary_op(None, spec((2,), device=CUDA), spec(()), spec(())),
            "Trying to pass too many CPU scalars to non-CPU kernel!",
        ),
        (
            lambda: TensorIterator.unary_op(spec((2, 3), (0, 1)), spec((2, 3))),
            "more than one element of the written-to tensor refers to a single memory location",
        ),
        (
            lambda: (
                TensorIteratorConfig()
                .resize_outputs(False)
                .add_output(spec((3,)))
                .add_input(spec((2, 3)))
                .build()
            ),
            r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]",
        ),
        (lambda: TensorIterator.nullary_op(None), "has no dtype"),
        (lambda: TensorIterator.reduce_op(None, spec((2,))), "output must be defined"),
    ],
)
def test_refusals(call, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()


def test_one_host_scalar_may_stand_beside_device_operands() -> None:
    iterator = TensorIterator.binary_op(None, spec(()), spec((2,), device=CUDA))
    assert iterator.device is CUDA
    assert iterator.output_specs()[0].device is CUDA
    unindexed = TensorIterator.binary_op(None, spec((2,), device=Device("cuda")), spec((2,), device=CUDA))
    assert unindexed.device.type == "cuda"


def test_devices_may_be_left_unchecked() -> None:
    config = TensorIteratorConfig().check_all_same_device(False).add_output(spec((2,), device=CUDA))
    assert config.add_input(spec((2,))).build().device is CUDA


def test_an_output_of_another_shape_is_resized() -> None:
    out, a = spec((7,), dtype=float64), spec((2, 3), (1, 2))
    iterator = TensorIterator.binary_op(out, a, float)
    assert iterator.operands[0].will_resize
    assert iterator.output_specs() == [spec((2, 3), (1, 2), float64)]


def test_an_output_of_the_shape_keeps_its_strides() -> None:
    out = spec((2, 3), (1, 2))
    iterator = TensorIterator.binary_op(out, spec((2, 3)), float)
    assert iterator.output_specs() == [out]
    assert not iterator.operands[0].will_resize


def test_an_output_that_is_an_input_is_read_write() -> None:
    x = tt.ones(2, 3)
    assert TensorIterator.binary_op(x, x, tt.ones(3)).operands[0].is_read_write
    with pytest.raises(
        RuntimeError, match=r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]"
    ):
        y = tt.ones(3)
        TensorIterator.binary_op(y, y, x)


def test_partial_overlap_of_tensors_is_refused_unless_unchecked() -> None:
    x = tt.ones(5)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        TensorIterator.unary_op(x[1:], x[:4])
    config = TensorIteratorConfig().set_check_mem_overlap(False).add_output(x[1:]).add_input(x[:4])
    assert config.build().numel == 4


def test_a_static_shape_bypasses_the_operands() -> None:
    config = TensorIteratorConfig().check_all_same_dtype(False).resize_outputs(False)
    config.add_output(spec((4, 6))).add_input(spec((4, 6), dtype=int64)).declare_static_shape((4, 6), [1])
    iterator = config.build()
    assert iterator.broadcast_shape == (4, 1)
    assert iterator.numel == 4
    assert iterator.operands[0].stride_bytes == [24]


def test_a_static_dtype_and_device_are_those_of_new_outputs() -> None:
    config = TensorIteratorConfig().check_all_same_dtype(False).declare_static_dtype_and_device(bool_, CPU)
    assert config.add_output(None).add_input(spec((2,))).build().output_specs() == [spec((2,), dtype=bool_)]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda c: c.add_input(spec(())).add_output(None), RuntimeError, "outputs before"),
        (lambda c: c.add_input(None), TypeError, "not None"),
        (lambda c: c.add_input("x"), TypeError, "not str"),
        (lambda c: c.add_output(1.0), TypeError, "not float"),
        (lambda c: c.declare_static_dtype(bool_), RuntimeError, r"check_all_same_dtype\(false\)"),
        (lambda c: c.declare_static_shape((2,)), RuntimeError, r"resize_outputs\(false\)"),
        (lambda c: c.resize_outputs(False).declare_static_shape((2,), [1]), RuntimeError, "squash_dim 1"),
        (lambda c: c.promote_integer_inputs_to_float(True), RuntimeError, "promote_inputs_to_common_dtype"),
    ],
)
def test_a_config_refuses_contradictions(call, error, message: str) -> None:
    with pytest.raises(error, match=f"(?i){message}"):
        call(TensorIteratorConfig())


def test_unpromoted_inputs_have_no_common_dtype() -> None:
    config = TensorIteratorConfig().check_all_same_dtype(False).check_all_same_device(False)
    config.declare_static_dtype_and_device(bool_, CPU).add_output(None)
    iterator = config.add_input(spec((2,))).add_input(spec((2,), dtype=int64)).build()
    with pytest.raises(RuntimeError, match="not brought to a common dtype"):
        _ = iterator.common_dtype


def test_configs_by_kind() -> None:
    assert config_for("binary").cpu_scalars and not config_for("unary").cpu_scalars
    assert config_for("reduce").reduction and not config_for("reduce").mem_overlap
    with pytest.raises(ValueError, match="unknown kind of operator 'quaternary'"):
        config_for("quaternary")


@pytest.mark.parametrize(
    ("result", "dims", "keepdim", "sizes", "strides"),
    [
        ((3,), [0], False, (1, 3), (0, 1)),
        ((), [], False, (1, 1), (0, 0)),
        ((2,), [-1], False, (2, 1), (1, 0)),
        ((1, 3), [0], True, (1, 3), (3, 1)),
    ],
)
def test_a_reduced_result_is_viewed_with_all_dimensions(result, dims, keepdim, sizes, strides) -> None:
    viewed = review_reduce_result(spec(result), 2, dims, keepdim)
    assert (viewed.sizes, viewed.strides) == (sizes, strides)


def test_reduced_dimensions_come_first() -> None:
    iterator = TensorIterator.reduce_op(spec((2, 1, 4), (4, 0, 1)), spec((2, 3, 4)))
    assert iterator.shape == [3, 4, 2]
    assert iterator.operands[0].stride_bytes == [0, 4, 16]
    assert iterator.is_dim_reduced(0) and not iterator.is_dim_reduced(1)


def test_two_outputs_share_one_reduction() -> None:
    values, indices = spec((2, 1)), spec((2, 1), dtype=int64)
    iterator = TensorIterator.reduce_op(values, spec((2, 3)), second_out=indices)
    assert (iterator.noutputs, iterator.ninputs) == (2, 1)
    assert iterator.output_specs() == [values, indices]


def test_32_bit_indexing_is_decided_by_bytes() -> None:
    assert TensorIterator.unary_op(None, spec((1 << 28,))).can_use_32bit_indexing()
    assert not TensorIterator.unary_op(None, spec((1 << 30,))).can_use_32bit_indexing()
    assert not TensorIterator.unary_op(None, spec((2, 2), (1 << 30, 1))).can_use_32bit_indexing()


def test_parts_for_32_bit_indexing_cover_the_whole_in_order() -> None:
    iterator = TensorIterator.binary_op(None, spec((4, 1 << 30)), spec((4, 1)))
    parts = list(iterator.with_32bit_indexing())
    assert len(parts) > 1
    assert all(part.can_use_32bit_indexing() for part in parts)
    assert sum(part.numel for part in parts) == iterator.numel
    at = 0
    for part in parts:
        assert part.operands[0].offset_bytes == at
        at += part.numel * 4
    assert iterator.numel == 4 << 30


def test_parts_of_a_reduction_accumulate() -> None:
    iterator = TensorIterator.reduce_op(spec((1,), (0,)), spec((1 << 10,)))
    parts = list(iterator.with_32bit_indexing(limit=1 << 11))
    assert [part.is_final_output for part in parts] == [False, True]
    assert [part.accumulates for part in parts] == [False, True]


def test_building_is_a_function_of_specs() -> None:
    a, b = spec((2, 3), (1, 2)), spec((3,), dtype=int64)
    one, two = TensorIterator.binary_op(None, a, b), TensorIterator.binary_op(None, a, b)
    assert one.output_specs() == two.output_specs()
    assert one.output_specs()[0] is two.output_specs()[0]
    with pytest.raises(RuntimeError, match="built from specs"):
        one.output()
