"""Writes that overlap a read: a compiled function raises the errors of eager."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt

WRITES: dict[str, Callable[[tt.Tensor], Any]] = {
    "out": lambda x: tt.mul(x[:-1], 2, out=x[1:]),
    "sub_": lambda x: x[1:].sub_(x[:-1]),
    "copy_": lambda x: x[1:].copy_(x[:-1]),
    "by index": lambda x: x.__setitem__(slice(1, None), x[:-1]),
    "addcmul_": lambda x: x[1:].addcmul_(x[:-1], tt.ones(15)),
    "clamp": lambda x: tt.clamp(x[:-1], 0, 1, out=x[1:]),
    "where": lambda x: tt.where(x[1:] > 0, x[1:], 0.0, out=x[:-1]),
    "transposed": lambda x: x.view(4, 4).mul_(x.view(4, 4).T),
    "an element": lambda x: x.add_(x[0]),
    "list": lambda x: tt._foreach_add_([x[1:]], [x[:-1]]),
    "reduction": lambda x: tt.sum(x.view(4, 4), 0, out=x[:4]),
    "matmul": lambda x: tt.mm(x[:4].view(2, 2), tt.ones(2, 2), out=x[2:6].view(2, 2)),
    "two results": lambda x: tt.max(x.view(4, 4), 0, out=(x[:4], tt.empty(4, dtype=tt.int64))),
    "outer": lambda x: tt.outer(x[:2], x[2:4], out=x[:4].view(2, 2)),
    "frexp": lambda x: tt.frexp(x[:4], out=(x[1:5], tt.empty(4, dtype=tt.int32))),
    "expanded": lambda x: x[:1].expand(3).add_(1),
    "scatter": lambda x: x[1:].scatter_(0, tt.tensor([0, 1]), x[:2]),
}
RUNS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda function: function,
    "compiled": tt.compile,
    "functionalized": tt.func.functionalize,
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("write", WRITES)
def test_what_overlaps_is_refused(write: str, run: str) -> None:
    function = RUNS[run](WRITES[write])
    for _ in range(2):
        x = tt.arange(16.0)
        with pytest.raises(RuntimeError, match=r"refers? to a single memory location"):
            function(x)
        assert x.tolist() == [*map(float, range(16))]


def test_the_same_elements_are_written() -> None:
    for write in (lambda x: x[1:].mul_(x[1:]), lambda x: x[::2].add_(x[1::2])):
        x, expected = tt.arange(16.0), tt.arange(16.0)
        write(expected)
        tt.compile(write, fullgraph=True)(x)
        assert x.tolist() == expected.tolist()


@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_that_overlap_are_refused_after_sizes_that_do_not(dynamic: bool | None) -> None:
    compiled = tt.compile(WRITES["out"], dynamic=dynamic)
    for size in (2, 5, 2, 7, 3, 2):
        x = tt.arange(float(size))
        if size == 2:
            compiled(x)
            assert x.tolist() == [0.0, 0.0]
        else:
            with pytest.raises(RuntimeError, match="refer to a single memory location"):
                compiled(x)


def test_arguments_that_overlap_are_refused_after_arguments_that_do_not() -> None:
    compiled = tt.compile(lambda a, b: a.mul_(b), fullgraph=True)
    for _ in range(2):
        x = tt.arange(8.0)
        assert compiled(x[:3], x[4:7]).tolist() == [0.0, 5.0, 12.0]
        for other in (x[1:4], x[2:5]):
            with pytest.raises(RuntimeError, match="refer to a single memory location"):
                compiled(x[:3], other)
        assert compiled(x[:3], x[:3]).tolist() == [0.0, 25.0, 144.0]
