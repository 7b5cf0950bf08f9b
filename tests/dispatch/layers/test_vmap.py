"""`tt.vmap` as in PyTorch: arguments, errors, levels, and the properties of batched tensors."""

import functools
import sys
import threading
from collections import namedtuple
from functools import partial

import numpy as np
import pytest

import triten as tt
from triten.dispatch.layers.batched_tensor import BatchedTensor
from triten.dispatch.layers.levels import current_levels, entered_grad
from triten.runtime.local_dispatch_key_set import local, modes
from triten.tests.shared import comparison

Pair = namedtuple("Pair", ["left", "right"])


def numbers(*sizes):
    return tt.arange(int(np.prod(sizes)), dtype=tt.float32).reshape(sizes)


same = partial(comparison.close, rtol=1e-5, atol=1e-6)


def test_a_function_of_one_example_maps_over_many(device):
    x, y = numbers(3, 4).to(device), numbers(4, 2).to(device)
    out = tt.vmap(lambda row: (row @ y).relu())(x)
    assert out.device.type == device and out.shape == (3, 2)
    same(out, (x @ y).relu())


def test_meta_tensors_map():
    out = tt.vmap(lambda x, w: (x @ w).softmax(-1).sum(), in_dims=(0, None))(
        tt.ones(3, 2, 4, device="meta"), tt.ones(4, 5, device="meta")
    )
    assert out.shape == (3,) and out.device.type == "meta"


@pytest.mark.parametrize(
    "in_dim, out_dim, shape", [(0, 0, (2, 3, 4)), (1, 0, (3, 2, 4)), (-1, 1, (2, 4, 3)), (2, -1, (2, 3, 4))]
)
def test_dimensions_are_mapped_where_in_dims_says_and_appear_where_out_dims_says(in_dim, out_dim, shape):
    x = numbers(2, 3, 4)
    out = tt.vmap(lambda one: one + 1, in_dims=in_dim, out_dims=out_dim)(x)
    assert out.shape == shape
    same(out, (x + 1).movedim(in_dim, out_dim))


def test_inputs_and_outputs_may_be_nested():
    def f(pair, rest, *, scale):
        total = pair.left * pair.right + rest["a"][0]
        return {"sum": total * scale, "parts": [pair.left, (rest["b"],)]}

    x = numbers(3, 2)
    out = tt.vmap(f, in_dims=(0, {"a": 1, "b": None}), out_dims={"sum": 1, "parts": [0, None]})(
        Pair(x, x + 1), {"a": [x.t()], "b": tt.ones(2)}, scale=2.0
    )
    same(out["sum"], ((x * (x + 1) + x) * 2).t())
    same(out["parts"][0], x)
    assert out["parts"][1][0].shape == (2,)


def test_an_output_that_no_input_reaches_is_repeated():
    assert tt.vmap(lambda x: tt.ones(2), out_dims=1)(numbers(3)).shape == (2, 3)
    value = object()
    assert tt.vmap(lambda x: (x, value), out_dims=(0, None))(numbers(3))[1] is value


def test_the_name_and_docstring_are_the_functions():
    def doubled(x):
        """Twice."""
        return x * 2

    assert tt.vmap(doubled).__name__ == "doubled" and tt.vmap(doubled).__doc__ == "Twice."
    same(tt.vmap(functools.partial(tt.add, tt.ones(3)), 1)(numbers(3, 2)), (numbers(3, 2) + 1.0).t() + 0)


def test_an_empty_batch_computes_nothing():
    assert tt.vmap(lambda x: x.sin().sum(0, keepdim=True))(tt.empty(0, 3)).shape == (0, 1)
    assert tt.vmap(tt.mm)(tt.empty(0, 2, 3), tt.empty(0, 3, 4)).shape == (0, 2, 4)
    assert tt.vmap(tt.nn.functional.conv2d, (0, None))(
        tt.empty(0, 1, 2, 4, 4), tt.ones(3, 2, 3, 3)
    ).shape == (0, 1, 3, 2, 2)


@pytest.mark.parametrize("chunk_size", [1, 2, 5, 7])
def test_chunks_give_the_same(chunk_size):
    x = numbers(2, 5)
    f = lambda x: (x.cumsum(0), {"s": x.sum()}, 3)  # noqa: E731
    out = tt.vmap(f, 1, (1, 0, None), chunk_size=chunk_size)(x)
    same(out[0], x.cumsum(0))
    same(out[1]["s"], x.sum(0))
    assert out[2] == 3


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda f, x: tt.vmap(f, [0])(x), ValueError, r"in_dims=\[0\], .*: expected `in_dims` to be int"),
        (lambda f, x: tt.vmap(f, (0, 0))(x), ValueError, "in_dims is not compatible with the structure of `inputs`"),
        (lambda f, x: tt.vmap(f, ({"a": 0},))({"b": x}), ValueError, "in_dims is not compatible"),
        (lambda f, x: tt.vmap(f, ("x",))(x), ValueError, "in_dim must be either an integer dimension or None"),
        (lambda f, x: tt.vmap(f, (None,))(x), ValueError, "at least one Tensor must be vmapped over"),
        (lambda f, x: tt.vmap(f)(3), ValueError, "Got in_dim=0 for an input but the input is of type <class 'int'>"),
        (lambda f, x: tt.vmap(f, 2)(x), ValueError, "dimensionality 2 so expected in_dim to satisfy -2 <= in_dim < 2"),
        (lambda f, x: tt.vmap(f, -3)(x), ValueError, "expected in_dim to satisfy -2 <= in_dim < 2"),
        (lambda f, x: tt.vmap(tt.add)(x, tt.ones(5)), ValueError, r"got sizes \[3, 5\] for the mapped"),
        (lambda f, x: tt.vmap(f)(), ValueError, "got no inputs"),
        (lambda f, x: tt.vmap(f, out_dims="a")(x), ValueError, "`out_dims` must be an int, None or a"),
        (lambda f, x: tt.vmap(f, out_dims=(0, 0))(x), ValueError, "out_dims is not compatible with the struct"),
        (lambda f, x: tt.vmap(f, out_dims=None)(x), ValueError, "can not return a BatchedTensor when out_dim is None"),
        (lambda f, x: tt.vmap(lambda x: 3)(x), ValueError, "must only return Tensors, got type <class 'int'>"),
        (lambda f, x: tt.vmap(f, out_dims=2)(x), IndexError, r"expected to be in range of \[-2, 1\], but got 2"),
        (lambda f, x: tt.vmap(f, randomness="x"), RuntimeError, "'error', 'different', or 'same'. Got x"),
        (lambda f, x: tt.vmap(f, chunk_size=0), ValueError, r"chunk_size should be None or greater than 0. \(got 0\)"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(call, error, text):
    def f(x):
        return x * 2

    with pytest.raises(error, match=text):
        call(f, numbers(3, 4))


@pytest.mark.parametrize(
    "use, text",
    [
        (lambda x: x.sum().item(), "calling .item\\(\\) on a Tensor"),
        (lambda x: float(x.sum()), "calling .item\\(\\)"),
        (lambda x: int(x.sum()), "calling .item\\(\\)"),
        (lambda x: x if x.sum() > 0 else -x, "data-dependent control flow"),
        (lambda x: x.numpy(), "Cannot access data pointer"),
        (lambda x: np.asarray(x), "Cannot access data pointer"),
        (lambda x: x.tolist(), "Cannot access data pointer"),
        (lambda x: x.data_ptr(), "Cannot access data pointer"),
        (lambda x: x.untyped_storage(), "Cannot access data pointer"),
        (lambda x: x.nonzero(), "can output dynamic shape. Attempted to vmap over aten::nonzero"),
        (lambda x: x[x > 0], "indexing with a boolean mask"),
        (lambda x: x.masked_select(x > 0), "boolean mask"),
        (lambda x: x.resize_(1), "aten::resize_ changes the storage"),
        (lambda x: x.set_(), "aten::set_ changes the storage"),
        (lambda x: x.is_set_to(x), "We could not generate a fallback"),
        (
            lambda x: tt.add(x, x, out=tt.empty(4)),
            "aten::add.out; the fallback path doesn't work on out= or view ops",
        ),
        (lambda x: tt.zeros(4).add_(x), "aten::add_\\(self, \\*extra_args\\) is not possible"),
        (
            lambda x: tt.zeros(4).copy_(x),
            "inplace arithmetic\\(self, .* is not possible .*operator: aten::copy_",
        ),
        (
            lambda x: tt.zeros(4).index_add_(0, tt.arange(4), x),
            "vmap: index_add_\\(self, \\*extra_args\\) is not possible",
        ),
        (lambda x: tt.zeros(4).index_put_((tt.tensor(0),), x[0]), "not possible"),
    ],
)
def test_what_has_no_one_value_for_all_examples_is_refused(use, text):
    with pytest.raises(RuntimeError, match=text):
        tt.vmap(use)(numbers(3, 4))


@pytest.mark.parametrize(
    "use, error, text",
    [
        (lambda x: x.sum(1), IndexError, r"expected to be in range of \[-1, 0\], but got 1"),
        (lambda x: x.view(3), RuntimeError, r"shape '\[3\]' is invalid for input of size 4"),
        (lambda x: x @ tt.ones(3), RuntimeError, "inconsistent tensor size|size mismatch|must match|same number"),
        (lambda x: x + tt.ones(3), RuntimeError, r"size of tensor a \(4\) must match the size of tensor b \(3\)"),
        (lambda x: x.tril(), RuntimeError, "2 dim"),
        (lambda x: x.clone().add_(tt.ones(2, 4)), RuntimeError, r"\[4\] doesn't match the broadcast shape \[2, 4\]"),
        (lambda x: x.bitwise_not(), RuntimeError, "bitwise_not"),
        (lambda x: x[4], IndexError, "index 4 is out of bounds for dimension 0 with size 4"),
    ],
)  # fmt: skip
def test_errors_speak_of_one_example(use, error, text):
    with pytest.raises(error, match=text):
        tt.vmap(use)(numbers(3, 4))


def test_a_batched_tensor_has_the_metadata_of_one_example():
    seen = {}

    def f(x):
        seen.update(
            shape=x.shape, ndim=x.ndim, size=x.size(1), stride=x.stride(), numel=x.numel(), length=len(x),
            contiguous=x.is_contiguous(), text=repr(x), kind=type(x), rows=[row.shape for row in x],
        )  # fmt: skip
        return x

    tt.vmap(f, 1)(numbers(2, 3, 4))
    assert seen.pop("kind") is BatchedTensor and isinstance(seen.pop("rows"), list)
    assert seen.pop("text").startswith("BatchedTensor(lvl=1, bdim=1, value=\n    tensor([[[")
    assert seen == {
        "shape": (2, 4),
        "ndim": 2,
        "size": 4,
        "stride": (12, 1),
        "numel": 8,
        "length": 2,
        "contiguous": False,
    }


def test_nested_levels_are_numbered_from_outside():
    texts = []

    def inner(x, y):
        texts.append(repr(x + y))
        return x + y

    tt.vmap(lambda x, ys: tt.vmap(lambda y: inner(x, y))(ys), in_dims=(0, None))(numbers(3), numbers(2))
    assert texts[0].startswith("BatchedTensor(lvl=2, bdim=") and "BatchedTensor(lvl=1, bdim=" in texts[0]


def test_nested_maps_combine_levels():
    a, b = numbers(3), numbers(4)
    outer = tt.vmap(tt.vmap(lambda x, y: x * y + x, in_dims=(None, 0)), in_dims=(0, None))(a, b)
    same(outer, a[:, None] * b + a[:, None])
    three = tt.vmap(tt.vmap(tt.vmap(tt.dot, (0, None)), (None, 0)), (0, 0))(
        numbers(2, 3, 5), numbers(2, 4, 5)
    )
    same(three, numbers(2, 4, 5) @ numbers(2, 3, 5).mT)


def test_a_tensor_that_escapes_is_refused_even_where_the_level_is_in_use_again():
    kept = []
    tt.vmap(lambda x: kept.append(x) or x)(numbers(3))
    for use in (lambda: kept[0] + 1, lambda: tt.vmap(lambda y: kept[0] + y)(numbers(3))):
        with pytest.raises(RuntimeError, match="may have escaped from inside a function being vmapped"):
            use()
    assert "BatchedTensor(lvl=1" in repr(kept[0])


def test_another_thread_has_levels_of_its_own():
    errors, results = [], []

    def elsewhere(x):
        try:
            x + 1
        except RuntimeError as error:
            errors.append(str(error))
        results.append(tt.vmap(lambda y: y * 2)(numbers(2)).tolist())

    def f(x):
        thread = threading.Thread(target=elsewhere, args=(x,))
        thread.start()
        thread.join()
        return x

    tt.vmap(f)(numbers(3))
    assert "used in another thread" in errors[0] and results == [[0.0, 2.0]]


def test_an_exception_leaves_nothing_behind():
    before = (list(modes), local.included, local.excluded)

    def fails(x):
        raise KeyError("no")

    with pytest.raises(KeyError):
        tt.vmap(lambda x: tt.vmap(fails)(x))(numbers(3, 2))
    with pytest.raises(RuntimeError):
        tt.vmap(lambda x: x.item())(numbers(3))
    assert current_levels() == () and (list(modes), local.included, local.excluded) == before


def test_writes_reach_the_inputs_and_count_versions():
    x = numbers(3, 4)
    version = x.current_version()

    def f(row):
        before = row.current_version()
        row[1:3].mul_(10.0)
        row[0] = -1.0
        assert row.current_version() == before + 2
        return row

    tt.vmap(f)(x)
    assert x[:, 1].tolist() == [10.0, 50.0, 90.0] and x[:, 0].tolist() == [-1.0] * 3
    assert x.current_version() > version


def test_views_remember_their_base():
    def f(x):
        view = x[1:]
        assert view._base is x and view[0]._base is x
        return view

    tt.vmap(f)(numbers(3, 4))


def test_as_strided_counts_from_the_first_element_of_an_example():
    x = numbers(4, 6)[1:]
    out = tt.vmap(lambda r: r.as_strided((2, 2), (2, 1), r.storage_offset() + 1))(x)
    same(out, tt.stack([r.as_strided((2, 2), (2, 1), r.storage_offset() + 1) for r in x]))


def test_modes_and_traces_see_what_runs_on_all_examples():
    seen = []

    class Log(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((func.name(), [tuple(a.shape) for a in args if isinstance(a, tt.Tensor)]))
            return func(*args, **(kwargs or {}))

    x = numbers(3, 2, 2)
    with Log():
        tt.vmap(lambda x: tt.mm(x, x))(x)
    assert seen == [("aten::bmm", [(3, 2, 2), (3, 2, 2)])]


def test_a_tensor_subclass_may_be_mapped():
    calls = []

    class Loud(tt.Tensor):
        @classmethod
        def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
            calls.append(func.name())
            plain = [a.as_subclass(tt.Tensor) if isinstance(a, Loud) else a for a in args]
            return func(*plain, **(kwargs or {}))

    same(tt.vmap(lambda x: x.sin())(numbers(3, 2).as_subclass(Loud)), numbers(3, 2).sin())
    assert calls == ["aten::sin"]


def test_inference_mode_reaches_inside():
    with tt.inference_mode():
        out = tt.vmap(lambda x: x * 2)(numbers(3))
    assert out.is_inference() and out.tolist() == [0.0, 2.0, 4.0]


def test_a_grad_level_counts_and_keeps_the_grad_mode_around_it():
    w = numbers(2).requires_grad_()

    def f(x):
        with entered_grad() as level, tt.no_grad():
            assert level.number == 2 and current_levels()[1] is level
            assert level.outer_grad_mode
            return (x * w).sum()

    # The rule of the outer map runs in the grad mode around the grad level, not in that within it.
    assert tt.vmap(f)(numbers(3, 2)).requires_grad
    with tt.no_grad():
        assert not tt.vmap(f_without := lambda x: (x * w).sum())(numbers(3, 2)).requires_grad
    assert tt.vmap(f_without)(numbers(3, 2)).requires_grad


def test_a_trace_shows_the_call_of_one_example_and_what_it_becomes(capsys):
    x, y = numbers(3, 4), numbers(4)
    with tt.dispatch.show_trace(sys.stdout):
        tt.vmap(tt.mul, (0, None))(x, y)
    assert capsys.readouterr().out.splitlines() == [
        " [call] op=[aten::mul.Tensor], key=[FuncTorchDynamicLayerBackMode] (float32[4]@cpu, float32[4]@cpu)",
        "  [redispatch] op=[aten::mul.Tensor], key=[CPU] (float32[3, 4]@cpu, float32[4]@cpu)",
    ]


@pytest.mark.parametrize(
    ("chunks", "sizes"), [(1, [5]), (2, [3, 2]), (3, [2, 2, 1]), (4, [2, 2, 1]), (9, [1] * 5)]
)
def test_chunk_vmap_runs_that_many_chunks(chunks: int, sizes: list[int]) -> None:
    from triten.dispatch.layers.vmap import chunk_vmap

    seen: list[int] = []

    class Count(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            if func.name() == "aten::sin":
                seen.append(args[0].shape[1])
            return func(*args, **(kwargs or {}))

    x = tt.arange(10.0).reshape(2, 5)
    with Count():
        y = chunk_vmap(tt.sin, in_dims=1, out_dims=1, chunks=chunks)(x)
    assert tt.equal(y, x.sin()) and seen == sizes


def test_chunk_vmap_refuses_no_chunks() -> None:
    from triten.dispatch.layers.vmap import chunk_vmap

    with pytest.raises(ValueError, match="chunks should be greater than 0"):
        chunk_vmap(tt.sin, chunks=0)


@pytest.mark.parametrize(
    "operator",
    [
        lambda x: tt.normal(0.0, x),
        lambda x: tt.normal(x, 1.0),
        lambda x: tt.normal(x, x),
        lambda x: tt.bernoulli(x),
        lambda x: tt.bernoulli(x, 0.5),
        tt.poisson,
        tt._standard_gamma,
        tt._sample_dirichlet,
    ],
)
def test_draws_do_not_depend_on_which_dimension_is_mapped(operator):
    x = tt.rand(3, 5, 4)
    tt.manual_seed(3)
    expected = operator(x.movedim(-1, 0))
    tt.manual_seed(3)
    drawn = tt.vmap(operator, in_dims=-1, randomness="different")(x)
    tt.testing.assert_close(drawn, expected, rtol=0, atol=0)


def test_dirichlet_samples_of_a_mapped_last_dimension_sum_to_one():
    drawn = tt.vmap(tt._sample_dirichlet, in_dims=-1, randomness="different")(tt.ones(3, 4))
    tt.testing.assert_close(drawn.sum(-1), tt.ones(4))


def test_lengths_and_classes_of_examples_are_not_read():
    scores = [[0.1, 0.2, 0.3], [0.4, 0.1, 0.2], [0.3, 0.3, 0.1], [0.2, 0.5, 0.1]]
    log_probs = tt.tensor(scores).log_softmax(-1).unsqueeze(1)
    targets, counts = tt.tensor([[1, 2]]), tt.tensor([2])
    losses = tt.func.vmap(lambda n: tt.nn.functional.ctc_loss(log_probs, targets, n, counts))(
        tt.tensor([[4], [3]])
    )
    assert losses.tolist() == pytest.approx([0.97117, 0.91794], abs=1e-5)
    encoded = tt.func.vmap(lambda i: tt.nn.functional.one_hot(i, 3))(tt.tensor([[0, 1], [2, 0]]))
    assert encoded.tolist() == [[[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [1, 0, 0]]]
    x = tt.arange(4.0).reshape(2, 2, 1)
    packed = tt.func.vmap(lambda n: tt._pack_padded_sequence(x, n, False)[0])(tt.tensor([[2, 1], [2, 1]]))
    assert packed.tolist() == [[[0.0], [1.0], [2.0]]] * 2
