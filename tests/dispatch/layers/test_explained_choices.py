"""`tt.explain` names the algorithm: a case for each side of every decision by sizes and layouts."""

import pytest

import triten as tt
from triten.nn import functional as F
from triten.runtime.cpu.object_code import target


def algorithms(function, *args):
    """Return the algorithms of a call, in the order in which they ran."""
    found = []

    def walk(hop):
        found.extend(name for name, _ in hop.planning.choices)
        for each in hop.calls:
            walk(each)

    for hop in tt.explain(function, *args).calls:
        walk(hop)
    return found


def backward(function):
    return lambda x: function(x).sum().backward()


def ints(*sizes):
    return lambda device: tt.zeros(sizes, dtype=tt.int64, device=device)


def floats(*sizes, grad=False, turned=False, last=False):
    def make(device):
        x = tt.ones(sizes, device=device)
        x = x.t() if turned else x.to(memory_format=tt.channels_last) if last else x
        return x.requires_grad_() if grad else x

    return make


IMAGE, LARGE = floats(1, 2, 6, 6), floats(4, 16, 40, 40)
SAMPLE = lambda x, g: F.grid_sample(x, g, align_corners=False)  # noqa: E731 - a row of the table each
RESIZE = lambda x: F.interpolate(x, size=(9, 9), mode="bilinear")  # noqa: E731
LOOP = "a compiled loop" if target() else None
PASSES, TABLE = LOOP or "a pass for each tap", "a table of windows"
ROWS = {
    "max_pool2d of few": (lambda x: F.max_pool2d(x, 2), [IMAGE], TABLE, "places side by side"),
    "max_pool2d of many": (lambda x: F.max_pool2d(x, 2), [LARGE], PASSES, "places side by side"),
    "max_pool2d, channels last": (
        lambda x: F.max_pool2d(x, 2), [floats(1, 4, 6, 6, last=True)], TABLE, "channels side by side",
    ),
    "max_pool2d backward, apart": (
        backward(lambda x: F.max_pool2d(x, 2)), [floats(1, 2, 6, 6, grad=True)], "stores", "places side by side",
    ),
    "max_pool2d backward, overlapping": (
        backward(lambda x: F.max_pool2d(x, 3, 1)), [floats(1, 2, 6, 6, grad=True)], "sums by index",
        "places side by side",
    ),
    "avg_pool2d of few": (
        lambda x: F.avg_pool2d(x, 2), [IMAGE], "products with matrices of windows", "places side by side",
    ),
    "avg_pool2d of many": (lambda x: F.avg_pool2d(x, 2), [LARGE], PASSES, "places side by side"),
    "adaptive_avg_pool2d of few": (
        lambda x: F.adaptive_avg_pool2d(x, 3), [IMAGE], "products with matrices of windows", "places side by side",
    ),
    "adaptive_avg_pool2d of many": (
        lambda x: F.adaptive_avg_pool2d(x, 3), [LARGE], LOOP or "running sums", "places side by side",
    ),
    "adaptive_avg_pool2d backward, even": (
        backward(lambda x: F.adaptive_avg_pool2d(x, 3)), [floats(1, 2, 6, 6, grad=True)], "shares", None,
    ),
    "adaptive_avg_pool2d backward, uneven": (
        backward(lambda x: F.adaptive_avg_pool2d(x, 4)), [floats(1, 2, 6, 6, grad=True)],
        "running sums of shares", None,
    ),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 3), [IMAGE], TABLE, "places side by side"),
    "fractional_max_pool2d": (
        lambda x: F.fractional_max_pool2d(x, 2, (3, 3)), [IMAGE], "all windows at once", None,
    ),
    "one index": (lambda x, i: x[i], [floats(4, 3), ints(5)], "taken along a dimension", "one launch"),
    "two indices": (
        lambda x, i: x[i, i], [floats(4, 3), ints(5)], "NumPy's indexing by arrays", "places first, then elements",
    ),
    "index_put": (
        lambda x, i, v: x.index_put((i,), v), [floats(4, 3), ints(5), floats(5, 3)], None, "a store each",
    ),
    "index_put that adds": (
        lambda x, i, v: x.index_put((i,), v, accumulate=True), [floats(4, 3), ints(5), floats(5, 3)], None,
        "places in order, then runs of equal ones",
    ),
    "scatter_add": (
        lambda x, i, v: x.scatter_add(0, i, v), [floats(4, 3), ints(2, 3), floats(2, 3)], None,
        "places in order, then runs of equal ones",
    ),
    "interpolate by a factor": (lambda x: F.interpolate(x, scale_factor=2), [IMAGE], "by the factors", "one pass"),
    "bilinear of few": (RESIZE, [IMAGE], "products with matrices of weights", "one pass"),
    "bilinear of many": (RESIZE, [LARGE], "line by line", "one pass"),
    "reflected borders": (
        lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), [IMAGE], "a table of places", "one pass",
    ),
    "grid_sample of few": (SAMPLE, [IMAGE, floats(1, 3, 3, 2)], "all places at once", "places by channels"),
    "grid_sample of many": (SAMPLE, [LARGE, floats(4, 64, 64, 2)], "sample by sample", "places by channels"),
    "contiguous": (lambda x: x.contiguous(), [floats(8, 4, turned=True)], "NumPy's copyto", "rows"),
    "cast": (lambda x: x.to(tt.float64), [floats(8)], "a cast", "dense"),
    "cat": (lambda x, y: tt.cat([x, y]), [floats(2), floats(3)], "joined as they lie", "one launch"),
    "cat of views": (
        lambda x, y: tt.cat([x, y]), [floats(2, 3), floats(3, 2, turned=True)], "joined with casts or gaps",
        "one launch",
    ),
    "gelu of many": (
        F.gelu, [floats(100_000)], LOOP or "a chain of polynomials, in blocks", "dense"
    ),
    "linear algebra of a batch": (
        tt.linalg.lu_factor, [lambda device: tt.eye(3, device=device).expand(40, 3, 3).contiguous()],
        "LAPACK's routine for each matrix of a batch", None,
    ),
    "var": (lambda x: tt.var(x, 1), [floats(8, 8)], None, "one launch"),
    "aminmax": (tt.aminmax, [floats(100)], None, "one launch"),
    "max along a dimension": (lambda x: x.max(1), [floats(4, 8)], None, "one launch"),
    "randperm of few": (lambda x: tt.randperm(100, device=x.device), [floats(1)], None, "ranks by counting"),
    "randperm of many": (lambda x: tt.randperm(20_000, device=x.device), [floats(1)], None, "ranks within buckets"),
    "multinomial, one": (lambda p: tt.multinomial(p, 1), [floats(5)], None, "a race for the first place"),
    "multinomial, several": (lambda p: tt.multinomial(p, 3), [floats(5)], None, "a race ranked by counting"),
    "multinomial, replaced": (lambda p: tt.multinomial(p, 3, True), [floats(5)], None, "a search in running sums"),
    "rand": (lambda x: tt.rand(5, device=x.device), [floats(1)], None, "draws in place"),
    "uniform_ of a view": (lambda x: x.uniform_(), [floats(3, 4, turned=True)], None, "draws, then a copy"),
    "dropout": (lambda x: F.dropout(x, 0.5), [floats(10)], None, "mask and products in one launch"),
    "dropout of a view": (
        lambda x: F.dropout(x, 0.5), [floats(10, 4, turned=True)], None, "a mask, then products",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_the_algorithm_is_named(device, name):
    function, makers, on_host, on_gpu = ROWS[name]
    expected = on_gpu if device == "cuda" else on_host
    if expected is None:
        pytest.skip("one algorithm")
    assert expected in algorithms(function, *[make(device) for make in makers])


def test_sides_of_one_branch_are_told_apart():
    for name, (function, _, on_host, _) in ROWS.items():
        if name.endswith(" of few") and on_host is not None:
            _, makers, other, _ = ROWS[name.replace("few", "many")]
            assert other != on_host and on_host not in algorithms(function, *[make("cpu") for make in makers])
