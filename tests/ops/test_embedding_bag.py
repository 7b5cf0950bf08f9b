"""Bags of rows of a table: against NumPy in float64, on the CPU and interpreted; refusals; layers."""

import re

import numpy as np
import pytest

import triten as tt

DEVICES = ("cpu", "cuda")
F = tt.nn.functional
MODES = ("sum", "mean", "max")


def reference(table, indices, offsets, mode, weights, last, padding):
    """Return a row for each bag, and the number of items in each bag."""
    ends = offsets[1:] if last else np.append(offsets[1:], len(indices))
    rows, counts = [], []
    for start, end in zip(offsets[: len(ends)], ends, strict=True):
        kept = [k for k in range(start, end) if indices[k] != padding]
        values = table[indices[kept]]
        if weights is not None:
            values = values * weights[kept][:, None]
        counts.append(len(kept))
        if not kept:
            rows.append(np.zeros(table.shape[1]))
        else:
            rows.append({"sum": np.sum, "mean": np.mean, "max": np.max}[mode](values, 0))
    return np.array(rows).reshape(-1, table.shape[1]), counts


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.float16, tt.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("mode", MODES)
def test_bags(rng, device, dtype, mode):
    table = tt.from_numpy(rng.standard_normal((13, 5))).to(dtype)
    exact = table.double().numpy()
    for last, padding, weighted in ((False, None, False), (True, 4, False), (False, 2, mode == "sum")):
        indices = rng.integers(0, 13, 23)
        offsets = np.sort(rng.integers(0, 24, 6))
        offsets[0], offsets[3] = 0, offsets[2]
        weights = tt.from_numpy(rng.standard_normal(23)).to(dtype) if weighted else None
        want, counts = reference(
            *(exact, indices, offsets, mode),
            *(None if weights is None else weights.double().numpy(), last, padding),
        )
        stepped = tt.from_numpy(np.repeat(indices, 2)).to(device)[::2]
        out, bag, sizes, _ = tt.embedding_bag(
            table.to(device).t().contiguous().t() if last else table.to(device),
            stepped,
            tt.from_numpy(offsets.astype(np.int32)).to(device),
            *(
                False,
                MODES.index(mode),
                False,
                None if weights is None else weights.to(device),
                last,
                padding,
            ),
        )
        rough = {tt.float64: 1e-13, tt.float32: 1e-5}.get(dtype, 1e-2)
        np.testing.assert_allclose(out.cpu().double().numpy(), want, rough, rough)
        assert sizes.tolist() == counts
        assert bag.shape == (23,) and bag.dtype is tt.int64


@pytest.mark.parametrize("device", DEVICES)
def test_the_rows_that_attain_the_maxima(device):
    nan = float("nan")
    table = tt.tensor([[1.0, nan], [5.0, 2.0], [5.0, 3.0], [nan, nan]], device=device)
    out, _, _, rows = tt.embedding_bag(
        table, tt.tensor([0, 1, 2, 1, 3], device=device), tt.tensor([0, 3, 3], device=device), mode=2
    )
    np.testing.assert_array_equal(out.cpu().numpy(), [[5, nan], [0, 0], [5, 2]])
    assert rows.tolist() == [[1, 0], [0, 0], [1, 1]]


@pytest.mark.parametrize("device", DEVICES)
def test_padding_adds_nothing_not_even_times_infinity(device):
    table = tt.tensor([[1.0], [float("inf")]], device=device)
    weights = tt.tensor([2.0, float("inf")], device=device)
    out = F.embedding_bag(
        tt.tensor([[0, 1]], device=device), table, mode="sum", per_sample_weights=weights[None], padding_idx=1
    )
    assert out.tolist() == [[2.0]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("last", [False, True])
def test_gradients_agree_with_differences(mode, last):
    rng = np.random.default_rng(5)
    table = tt.from_numpy(rng.permutation(20).reshape(5, 4) / 7.0).requires_grad_()
    indices, offsets = tt.tensor([0, 4, 2, 2, 1, 3, 3]), tt.tensor([0, 3, 3, 6])
    weights = tt.from_numpy(rng.standard_normal(7)).requires_grad_() if mode == "sum" else None
    assert tt.autograd.gradcheck(
        lambda t, *w: F.embedding_bag(
            *(indices, t, offsets),
            mode=mode,
            per_sample_weights=w[0] if w else None,
            padding_idx=3,
            include_last_offset=last,
        ),
        (table,) if weights is None else (table, weights),
    )


def test_gradients_by_frequency_and_of_gradients():
    table = tt.ones(4, 2, dtype=tt.float64).requires_grad_()
    bags = tt.tensor([[1, 1], [1, 3]])
    F.embedding_bag(bags, table, mode="sum", scale_grad_by_freq=True).sum().backward()
    assert table.grad.tolist() == [[0, 0], [1, 1], [0, 0], [1, 1]]
    out = F.embedding_bag(bags, table, mode="mean")
    v = tt.ones(2, 2, dtype=tt.float64).requires_grad_()
    (g,) = tt.autograd.grad(out, [table], [v], create_graph=True)
    (second,) = tt.autograd.grad(g.sum(), [v])
    assert second.tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("device", [*DEVICES, "meta"])
def test_no_bags_and_nothing_in_them(device):
    table = tt.ones(4, 3, device=device)
    none = tt.empty(0, dtype=tt.int64, device=device)
    assert tt.embedding_bag(table, none, none)[0].shape == (0, 3)
    out = tt.embedding_bag(table, none, tt.zeros(2, dtype=tt.int64, device=device))[0]
    assert out.shape == (2, 3) and (device == "meta" or out.sum() == 0)


T = tt.tensor
W = tt.ones(4, 3)
ERRORS = [
    (lambda on: tt.embedding_bag(on(W), on(T([0, 9])), on(T([0]))), RuntimeError, "but found idx to be 9"),
    (lambda on: tt.embedding_bag(on(W), on(T([0, -1])), on(T([0])), mode=2), RuntimeError, "found idx to be -1"),
    (lambda on: tt.embedding_bag(on(W), on(T([0, 1])), on(T([1]))), RuntimeError, "offsets[0] has to be 0"),
    (lambda on: tt.embedding_bag(on(W), on(T([0, 1])), on(T([0, 5]))), RuntimeError, "offsets[-1] can not be greater"),
    (lambda on: tt.embedding_bag(on(W), on(T([0, 1])), on(T([0, 2, 1]))), RuntimeError, "do not descend"),
    (lambda on: tt.embedding_bag(on(W), on(T([0.0])), on(T([0]))), RuntimeError, "scalar types: Long, Int"),
    (lambda on: tt.embedding_bag(on(W.long()), on(T([0])), on(T([0]))), RuntimeError, "scalar types: Half"),
    (lambda on: tt.embedding_bag(on(W), on(T([0])), on(T([0])), mode=1, per_sample_weights=on(tt.ones(1))),
     RuntimeError, "per_sample_weights only supported with mode='sum'"),
    (lambda on: tt.embedding_bag(on(W), on(T([0])), on(T([0])), per_sample_weights=on(tt.ones(2))),
     RuntimeError, "as long as indices"),
    (lambda on: tt.embedding_bag(on(W), on(T([0])), on(T([0])), False, 0, False, None, False, 7), RuntimeError,
     "padding_idx must be within the number of embeddings, -4 through 3, but got 7"),
    (lambda on: F.embedding_bag(on(T([0])), on(W)), ValueError, "offsets has to be a 1D Tensor but got None"),
    (lambda on: F.embedding_bag(on(T([[0]])), on(W), mode="most"), ValueError, "mode has to be one of"),
]  # fmt: skip


@pytest.mark.usefixtures("launch_blocking")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("call", "kind", "words"), ERRORS, ids=[str(i) for i in range(len(ERRORS))])
def test_refusals(device, call, kind, words):
    with pytest.raises(kind, match=re.escape(words)):
        call(lambda x: x.to(device))


def test_layers():
    layer = tt.nn.EmbeddingBag(6, 3, mode="sum", padding_idx=-1)
    assert layer.padding_idx == 5 and layer.weight[5].abs().sum() == 0
    assert "mode='sum'" in repr(layer) and layer(tt.tensor([[0, 5]])).tolist() == layer.weight[:1].tolist()
    frozen = tt.nn.EmbeddingBag.from_pretrained(W, mode="max")
    assert not frozen.weight.requires_grad and frozen(tt.tensor([0, 1]), tt.tensor([0])).shape == (1, 3)
    for rank in (1, 2, 3):
        pool = getattr(tt.nn, f"MaxPool{rank}d")(2, return_indices=True)
        unpool = getattr(tt.nn, f"MaxUnpool{rank}d")(2)
        x = tt.rand(2, 3, *[5] * rank)
        values, places = pool(x)
        whole = unpool(values, places, output_size=x.shape)
        assert whole.shape == x.shape and whole.sum().item() == pytest.approx(values.sum().item(), rel=1e-5)
        np.testing.assert_array_equal(*[t.numpy() for t in (pool(whole)[0], values)])
    with pytest.raises(ValueError, match="invalid output_size"):
        unpool(values, places, output_size=(9, 9, 9))
    with pytest.raises(RuntimeError, match="Found an invalid max index: 99"):
        F.max_unpool2d(tt.ones(1, 1, 1), tt.tensor([[[99]]]), 2)
