"""Fused optimizer steps: bitwise identical to the host, one launch for each dtype, tables, streams, graphs."""

import itertools

import numpy as np
import pytest

import triten as tt
from triten.runtime.cuda.memory.pinned import PINNED_ALLOCATOR
from triten.tests.shared import operands

DTYPES = [tt.float32, tt.float64, tt.float16, tt.bfloat16]
SGD = operands.SGD | {"weight_decay": 0.1, "momentum": 0.9, "dampening": 0.3}
ADAM = operands.ADAM | {"weight_decay": 0.1}
SGD_CHANGES = [
    {"weight_decay": 0.0, "momentum": 0.0, "maximize": True},
    {"is_first_step": True},
    {"dampening": 0.0, "nesterov": True},
]
ADAM_CHANGES = [{"maximize": True}, {"weight_decay": 0.0, "amsgrad": True}, {"beta1": 0.25, "amsgrad": True}]
SHAPES = [(3,), (0,), (1,), (5, 7), (1031,), ()]


def rows(rng, count, dtype, shapes=SHAPES):
    """Return `count` lists on the host, with some non-finite values; lists from the fourth on are not
    negative.
    """
    made = []
    for place in range(count):
        values = [np.asarray(rng.standard_normal(shape)) for shape in shapes]
        values = [np.asarray(np.abs(v)) if place >= 3 else v for v in values]
        for value in values:
            if value.size > 9:
                value.flat[place] = [np.nan, np.inf, -np.inf, np.inf, np.nan][place % 5]
        made.append([tt.from_numpy(v).to(dtype) for v in values])
    return made


def to(lists, device):
    return [[t.to(device) for t in row] for row in lists]


def identical(found, expected):
    for got, wanted in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
        np.testing.assert_array_equal(got.cpu().to(tt.float64).numpy(), wanted.to(tt.float64).numpy())


@pytest.mark.parametrize("scale", [None, 4.0])
@pytest.mark.parametrize("changes", SGD_CHANGES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_sgd_has_the_bits_of_the_host(rng, launches, dtype, changes, scale):
    host, options = rows(rng, 3, dtype), SGD | changes
    device = to(host, "cuda")
    for p, g, b in (host, device):
        scaled = None if scale is None else tt.tensor(scale, device=p[0].device)
        tt._fused_sgd_(p, g, b if options["momentum"] else [], **options, grad_scale=scaled)
    assert launches.count == 1
    identical(device, host)


@pytest.mark.parametrize("scale", [None, 4.0])
@pytest.mark.parametrize("changes", ADAM_CHANGES, ids=str)
@pytest.mark.parametrize("name", ["_fused_adam_", "_fused_adamw_"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_adam_has_the_bits_of_the_host(rng, dtype, name, changes, scale):
    host, options = rows(rng, 5, dtype), ADAM | changes
    device = to(host, "cuda")
    for p, g, m, v, x in (host, device):
        where = p[0].device
        steps = [tt.tensor(float(place + 1), device=where) for place in range(len(p))]
        scaled = None if scale is None else tt.tensor(scale, device=where)
        largest = x if options["amsgrad"] else []
        getattr(tt, name)(p, g, m, v, largest, steps, **options, grad_scale=scaled)
    identical(device, host)


def test_one_launch_for_each_dtype_and_none_for_nothing(rng, launches):
    lists = [[t for d in DTYPES for t in rows(rng, 1, d, [(4,), (40,)])[0]] for _ in range(2)]
    device = to(lists, "cuda")
    before = launches.count
    tt._fused_sgd_(*device, [], **SGD | {"momentum": 0.0})
    assert launches.count - before == len(DTYPES)
    tt._fused_sgd_(*lists, [], **SGD | {"momentum": 0.0})
    identical(device, lists)
    before = launches.count
    tt._fused_sgd_([tt.zeros(0, device="cuda")], [tt.zeros(0, device="cuda")], [], **SGD | {"momentum": 0.0})
    assert launches.count == before


@pytest.mark.parametrize("count", [1, 2, 3, 64, 65])
def test_any_number_of_tensors(rng, count):
    shapes = [(n % 7,) for n in range(count)]
    host = rows(rng, 3, tt.float32, shapes)
    device = to(host, "cuda")
    for lists in (host, device):
        tt._fused_sgd_(*lists, **SGD)
    identical(device, host)


def test_several_programs_a_tensor_and_unaligned_ones(rng, monkeypatch):
    """Use blocks of the size of a GPU: whole ones in vectors, the tail and odd addresses element by element."""
    from triten.triton_kernels.optimizers import fused

    monkeypatch.setattr(fused, "interpreted", lambda: False)
    for dtype in (tt.float32, tt.bfloat16):
        wide = rows(rng, 3, dtype, [(2 * 1024 + 5,), (1025,), (1024 + 2,), (1030,)])
        # Each operand of a row begins elsewhere, so that each of them alone is unaligned in some row.
        shifts = [(0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]
        sizes = [t.numel() - 1 for t in wide[0]]
        host, device = (
            [
                [t.to(where)[o : o + n] for o, t, n in zip(shift, row, sizes, strict=True)]
                for shift, row in zip(shifts, wide, strict=True)
            ]
            for where in ("cpu", "cuda")
        )
        for lists in (host, device):
            tt._fused_sgd_(*lists, **SGD)
        identical(device, host)
        step = [tt.tensor(2.0) for _ in range(4)]
        for (p, g, m), s in ((host, step), (device, [t.to("cuda") for t in step])):
            v = [t.abs() for t in g]
            tt._fused_adamw_(p, g, m, v, [], s, **ADAM)
        identical(device, host)


def test_found_infinities_stop_the_step_on_the_device(rng):
    before = rows(rng, 3, tt.float32)
    device = to(before, "cuda")
    amp = {"grad_scale": tt.tensor(4.0, device="cuda"), "found_inf": tt.tensor(1.0, device="cuda")}
    tt._fused_sgd_(*device, **SGD, **amp)
    step = [tt.ones((), device="cuda") for _ in SHAPES]
    tt._fused_adamw_(*device, [t.abs() for t in device[2]], [], step, **ADAM, **amp)
    identical(device, before)


def test_a_rate_on_the_device_or_on_the_host(rng):
    host = rows(rng, 2, tt.float32)
    lists = [to(host, "cuda") for _ in range(4)]
    rates = [0.1, tt.tensor(0.1, dtype=tt.float64), tt.tensor(0.1, dtype=tt.float64, device="cuda")]
    rates.append(tt.tensor([0.5, 0.1, 0.5, 0.5], device="cuda")[1:2])
    for (p, g), rate in zip(lists, rates, strict=True):
        tt._fused_sgd_(p, g, [], **SGD | {"momentum": 0.0, "lr": rate})
    tt._fused_sgd_(*host, [], **SGD | {"momentum": 0.0})
    for each in lists:
        identical(each, host)
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Half in lr"):
        tt._fused_sgd_(*lists[0], [], **SGD | {"momentum": 0.0, "lr": rates[3].half()})


def test_what_is_on_another_device_is_refused(rng):
    p, g = to(rows(rng, 2, tt.float32), "cuda")
    for args, changes in (
        ((p, [t.cpu() for t in g], []), {}),
        ((p, g, []), {"found_inf": tt.zeros(())}),
        (([t.cpu() for t in p], [t.cpu() for t in g], []), {"lr": tt.tensor(0.1, device="cuda")}),
    ):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            tt._fused_sgd_(*args, **SGD | {"momentum": 0.0} | changes)
    with pytest.raises(RuntimeError, match="same device"):
        tt._fused_adam_(p, g, g, g, [], [tt.ones(()) for _ in p], **ADAM)
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double in state_steps"):
        tt._fused_adam_(p, g, g, g, [], [tt.ones((), dtype=tt.float64, device="cuda") for _ in p], **ADAM)


def test_tables_are_moved_when_addresses_change_and_only_then(rng, monkeypatch):
    from triten.triton_kernels.optimizers.tensor_table import KEPT, TensorTable

    moves = []
    move = TensorTable._move
    monkeypatch.setattr(TensorTable, "_move", lambda self, at: (moves.append(at), move(self, at))[1])
    host = rows(rng, 3, tt.float32, [(5,), (6,)])
    p, g, b = to(host, "cuda")
    others = [[t.clone() for t in g] for _ in range(KEPT)]
    for expected, grads in ((1, g), (1, g), (2, others[0]), (2, g), (2, others[0])):
        tt._fused_sgd_(p, grads, b, **SGD)
        tt._fused_sgd_(*host, **SGD)
        assert len(moves) == expected
    for grads in others:
        tt._fused_sgd_(p, grads, b, **SGD)
        tt._fused_sgd_(*host, **SGD)
    tt._fused_sgd_(p, g, b, **SGD)
    tt._fused_sgd_(*host, **SGD)
    assert len(moves) == KEPT + 2
    identical((p, b), (host[0], host[2]))


def test_each_stream_has_a_table_of_its_own(rng):
    """Read no table that another stream has not copied yet."""
    cuda = tt.library.driver()
    host = rows(rng, 3, tt.float32, [(5,), (600,)])
    device = to(host, "cuda")
    first, second = tt.cuda.Stream(), tt.cuda.Stream()
    tt.cuda.synchronize()
    cuda.hold(first.cuda_stream)
    try:
        with tt.cuda.stream(first):
            tt._fused_sgd_(*device, **SGD)
        with tt.cuda.stream(second):
            tt._fused_sgd_(*device, **SGD)
        second.synchronize()
        tt._fused_sgd_(*host, **SGD)
        identical(device, host)
    finally:
        cuda.release(first.cuda_stream)
    tt.cuda.synchronize()
    tt._fused_sgd_(*host, **SGD)
    identical(device, host)


def test_a_graph_replays_a_step_with_its_own_table(rng):
    host = rows(rng, 3, tt.float32, [(5,), (600,)])
    p, g, b = to(host, "cuda")
    found = tt.zeros((), device="cuda")
    tt._fused_sgd_(p, g, b, **SGD, found_inf=found)
    tt._fused_sgd_(*host, **SGD)
    graph = tt.cuda.CUDAGraph()
    tt.cuda.synchronize()
    PINNED_ALLOCATOR.empty_cache()
    never_replayed = tt.cuda.CUDAGraph()
    with tt.cuda.graph(never_replayed):
        tt._fused_sgd_(p, g, b, **SGD, found_inf=found)
    with tt.cuda.graph(graph):
        tt._fused_sgd_(p, g, b, **SGD, found_inf=found)
        tt._fused_sgd_(p, g, b, **SGD, found_inf=found)
    for _ in range(20):
        other = [t.clone() for t in g]
        tt._fused_sgd_([t.clone() for t in p], other, [t.clone() for t in b], **SGD, found_inf=found)
    graph.replay()
    for _ in range(2):
        tt._fused_sgd_(*host, **SGD)
    identical((p, b), (host[0], host[2]))
    found.fill_(1.0)
    graph.replay()
    identical((p, b), (host[0], host[2]))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_unscaling_has_the_bits_of_the_host(rng, launches, dtype):
    for bad in (None, np.nan, np.inf, -np.inf):
        host = [tt.from_numpy(np.asarray(rng.standard_normal(shape))).to(dtype) for shape in SHAPES]
        if bad is not None:
            host[4][1030] = bad
        device = [t.to("cuda") for t in host]
        found = [tt.zeros(1, device=where) for where in ("cpu", "cuda")]
        before = launches.count
        tt._amp_foreach_non_finite_check_and_unscale_(device, found[1], tt.tensor([0.3], device="cuda"))
        assert launches.count == before + 1
        tt._amp_foreach_non_finite_check_and_unscale_(host, found[0], tt.tensor([0.3]))
        identical([device], [host])
        assert found[1].item() == found[0].item() == (bad is not None)
        unchanged = [t.clone() for t in device]
        tt._amp_foreach_non_finite_check_and_unscale_(device, found[1], tt.ones(1, device="cuda"))
        identical([device], [[t.cpu() for t in unchanged]])
