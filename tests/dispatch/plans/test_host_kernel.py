"""Host kernels give what their composites give, which modes are still shown."""

from __future__ import annotations

import numpy as np
import pytest

import triten as tt


class Through(tt.TensorDispatchMode):
    """Mode that records operators, and runs them unchanged."""

    def __init__(self):
        self.names = set()

    def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func._schema.name)
        return func(*args, **(kwargs or {}))


def of(*values, dtype=tt.float32):
    return tt.tensor(values, dtype=dtype)


NAN, INF = float("nan"), float("inf")
ODD = ((1.0, NAN, -0.0), (INF, 2.0, 2.0))
CALLS = {
    "nansum": lambda: tt.nansum(of(*ODD), 1),
    "nansum of opposite infinities": lambda: tt.nansum(of(INF, -INF, 1.0)),
    "nanmean": lambda: tt.nanmean(of(*ODD), 0),
    "nanmean of nothing else": lambda: tt.nanmean(of(NAN, NAN)),
    "count_nonzero": lambda: tt.count_nonzero(of(*ODD), 0),
    "histc": lambda: tt.histc(of(0.0, 1.0, 5.0, 9.99, 10.0, 11.0, NAN), 4, 0, 10),
    "histogram": lambda: tt.histogram(of(0.25, 0.5, 3.0, 3.0), 3),
    "isin": lambda: tt.isin(of(*ODD), of(NAN, 2.0, 0.0), invert=True),
    "bucketize": lambda: tt.bucketize(of(*ODD), of(0.0, 1.0, 2.0), right=True),
    "mode": lambda: tt.mode(of(*ODD, dtype=tt.float64), 1),
    "trace": lambda: tt.trace(of(*ODD)),
    "quantile": lambda: tt.quantile(of(*ODD), 0.4, 1, keepdim=True),
    "put": lambda: of(*ODD).put(of(-1, 0, -1, dtype=tt.int64), of(7.0, 8.0, 9.0)),
    "put accumulated": lambda: of(*ODD).put(of(-1, 0, -1, dtype=tt.int64), of(7.0, 8.0, 9.0), True),
    "index_fill": lambda: of(*ODD).index_fill(-1, of(-1, 0, dtype=tt.int64), 3),
    "take_along_dim": lambda: tt.take_along_dim(of(*ODD), of((-1, 0, 1), dtype=tt.int64), 0),
    "masked_scatter": lambda: of(*ODD).masked_scatter(of(*ODD) > 1, of(1.0, 2.0, 3.0, 4.0)),
    "diag_embed": lambda: tt.diag_embed(of(*ODD), -1),
    "diagflat": lambda: tt.diagflat(of(*ODD), 2),
    "block_diag": lambda: tt.block_diag(of(1.0), of(*ODD), of(2.0, 3.0)),
    "complex": lambda: tt.complex(of(*ODD), of(2.0)),
    "polar": lambda: tt.polar(of(*ODD), of(2.0)),
    "as_strided_copy": lambda: tt.as_strided_copy(of(1.0, 2.0, 3.0, 4.0), (2, 2), (1, 2), 1 - 1),
    "as_strided_scatter": lambda: tt.as_strided_scatter(tt.zeros(6), of(1.0, 2.0), (2,), (2,), 1),
    "movedim": lambda: tt.movedim(tt.ones(2, 3, 4), (0, 1), (2, 0)),
    "linspace": lambda: tt.linspace(-1, 2, 7),
    "fill": lambda: tt.fill(of(*ODD), True),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_host_kernel_gives_what_the_composition_gives(name):
    call = CALLS[name]
    made = call()
    with Through() as mode:
        expected = call()
    assert mode.names
    both = (made, expected) if isinstance(made, tuple) else ((made,), (expected,))
    for ours, theirs in zip(*both, strict=True):
        assert ours.dtype is theirs.dtype and ours.stride() == theirs.stride()
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_calls_that_are_the_compositions_follow_those_that_are_not():
    """Call several shapes: a plan of one shape must not decide for shapes that the kernel does not support."""
    for rows in (3, 40, 200):
        x = tt.arange(rows * 50).reshape(rows, 50).to(tt.float32) % 7
        values, _ = tt.mode(x, 1)
        assert values.tolist() == [min(range(7), key=lambda v, r=r: (-r.count(v), v)) for r in x.tolist()]


def test_a_gradient_goes_through_the_composition():
    x = of(1.0, NAN, 3.0).requires_grad_()
    tt.nansum(x).backward()
    assert x.grad.tolist() == [1.0, 0.0, 1.0]


def test_a_bool_in_a_tensors_place_is_planned_once():
    from triten.dispatch.core.overload_packet import packets

    x = tt.zeros(3)
    x.fill_(True)
    before = packets["fill_"].count
    for _ in range(3):
        x.fill_(True)
    assert packets["fill_"].count == before and x.tolist() == [1.0, 1.0, 1.0]


def test_a_small_draw_is_the_part_of_a_large_one():
    """Compare small random samples with a large one: values cached for a run of counters must agree."""
    for draw in (tt.randn, tt.rand):
        tt.manual_seed(3)
        whole = draw(4096)
        tt.manual_seed(3)
        parts = tt.cat([draw(12) for _ in range(341)])
        np.testing.assert_array_equal(parts.numpy(), whole.numpy()[: 341 * 12])
