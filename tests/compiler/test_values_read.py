"""Values of tensors that a function closes over: a read is no part of a graph, and a graph holds no copy."""

import gc
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, graphs, same

HELD = tt.tensor(2.0)

READS: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: x * HELD.item(),
    "float": lambda x: x * float(HELD),
    "tolist": lambda x: x * HELD.tolist(),
    "numpy": lambda x: x * float(HELD.numpy()),
    "bool": lambda x: x if HELD > 2 else -x,
    "what it wrote": lambda x: (HELD.add_(1), x * HELD.item())[1],
}


@pytest.mark.parametrize("name", READS)
def test_a_value_that_is_read_is_no_constant(name: str) -> None:
    compiled = tt.compile(READS[name])
    for i in range(4):
        HELD.fill_(i)
        found = compiled(drawn(2))
        HELD.fill_(i)
        same(found, READS[name](drawn(2)))
    assert graphs(compiled) == 0
    with pytest.raises(tt.compiler.Unsupported, match="value"):
        tt.compile(READS[name], fullgraph=True)(drawn(2))


def test_a_tensor_that_the_function_makes_of_numbers_may_be_read() -> None:
    compiled = tt.compile(lambda x: x * tt.tensor([1.0, 3.0])[1].item(), fullgraph=not gc.get_freeze_count())
    for _ in range(2):
        same(compiled(drawn(2)), drawn(2) * 3.0)
