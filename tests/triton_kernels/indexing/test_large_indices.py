"""Indexing with offsets beyond 32 bits, which a lowered limit asks for at small sizes, against the same on the host."""

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels import launch

aten = tt.ops.aten


def table(*sizes):
    return tt.from_numpy(np.random.default_rng(3).standard_normal(sizes).astype(np.float32))


def numbers(size, *sizes):
    return tt.from_numpy(np.random.default_rng(5).integers(0, size, sizes))


CALLS = {
    "gather": (lambda x, i: x.gather(1, i), table(7, 9), numbers(9, 7, 5)),
    "gather from a transposed tensor": (lambda x, i: x.t().gather(0, i), table(7, 9), numbers(9, 5, 7)),
    "scatter": (lambda x, i, s: x.scatter(1, i, s), table(7, 9), numbers(9, 7, 5), table(7, 5)),
    "scatter_add": (lambda x, i, s: x.scatter_add(1, i, s), table(7, 9), numbers(9, 7, 5), table(7, 5)),
    "index": (lambda x, i: x[i], table(7, 9), numbers(7, 11)),
    "index long rows": (lambda x, i: x[i], table(5, 40), numbers(5, 4)),
    "index twice": (lambda x, i, j: x[i, j], table(7, 9), numbers(7, 11), numbers(9, 11)),
    "index_put": (lambda x, i, v: x.index_put((i,), v), table(7, 9), numbers(7, 11), table(11, 9)),
    "index_put twice": (
        lambda x, i, j, v: x.index_put((i, j), v),
        *(table(7, 9), numbers(7, 11), numbers(9, 11), table(11)),
    ),
    "index_put accumulate": (
        lambda x, i, v: x.index_put((i,), v, True),
        *(table(7, 9), numbers(7, 11), table(11, 9)),
    ),
    "index_select": (lambda x, i: x.index_select(1, i), table(7, 9), numbers(9, 6)),
    "index_reduce": (
        lambda x, i, v: x.index_reduce(0, i, v, "amax"),
        *(table(7, 9), numbers(7, 11), table(11, 9)),
    ),
    "embedding": (lambda x, i: tt.embedding(x, i), table(7, 9), numbers(7, 3, 4)),
    "embedding backward": (
        lambda g, i: tt.ops.aten.embedding_dense_backward(g, i, 7, 2, True),
        *(table(3, 4, 9), numbers(7, 3, 4)),
    ),
    "embedding_bag": (
        lambda x, i: tt._embedding_bag(x, i, tt.tensor([0, 5], device=x.device), mode=1)[0],
        *(table(7, 9), numbers(7, 12)),
    ),
    "nonzero": (lambda x: (x > 0).nonzero(), table(7, 9)),
    "nonzero_static": (lambda x: tt.nonzero_static(x > 0, size=50), table(7, 9)),
    "searchsorted": (
        lambda s, v: tt.searchsorted(s.sort(1)[0].t().contiguous().t(), v),
        *(table(7, 9), table(7, 5)),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_offsets_beyond_the_limit(monkeypatch, same, name):
    function, *host = CALLS[name]
    expected = function(*host)
    device = [x.cuda() for x in host]
    wide = []
    make = launch.Launch.__init__

    def noted(self, device, kernel, signature, constexprs, **options):
        wide.append(any("i64" in str(signature.get(size)) for size in ("n", "width", "rows")))
        make(self, device, kernel, signature, constexprs, **options)

    monkeypatch.setattr(launch, "INT32_MAX", 40)
    monkeypatch.setattr(launch.Launch, "__init__", noted)
    same(function(*device), expected, 1e-6 if name == "embedding_bag" else 0.0)
    # An earlier plan with these shapes would be reused.
    assert any(wide), name
