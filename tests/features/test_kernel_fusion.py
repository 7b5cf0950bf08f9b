"""A chain of operators is captured and runs as one kernel, on both backends."""

import pytest

import triten as tt


def chain(a, b, c):
    return tt.relu((a + b) * c)


@pytest.mark.parametrize("sizes", [(16, 16), (3, 1), (300, 500)], ids=str)
def test_a_chain_is_one_kernel_with_the_bits_of_three_calls(device: str, sizes: tuple[int, ...]) -> None:
    operands = [tt.randn(sizes, device=device) for _ in range(3)]
    compiled = tt.compile(chain, fullgraph=True)
    assert tt.equal(compiled(*operands), chain(*operands))
    assert tt.equal(compiled(*operands), chain(*operands))
    (schedule,) = tt.compiler.explain(chain, *operands).schedules
    assert [str(step).partition("(")[0] for step in schedule.steps] == ["kernel add_mul_relu"]


def test_the_kernel_of_a_gpu_names_its_operators() -> None:
    operands = [tt.randn(64, device="cuda") for _ in range(3)]
    found = tt.compiler.explain(chain, *operands)
    assert list(found.sources) == ["add_mul_relu"]
    for operator in ("aten.add.Tensor", "aten.mul.Tensor", "aten.relu"):
        assert operator in found.sources["add_mul_relu"]


def test_gradients_of_a_chain(device: str) -> None:
    given = [tt.randn(5, 4, device=device) for _ in range(3)]
    results = []
    for function in (chain, tt.compile(chain, fullgraph=True)):
        operands = [x.clone().requires_grad_() for x in given]
        result = function(*operands)
        result.square().sum().backward()
        results.append([result.detach(), *(x.grad for x in operands)])
    assert all(tt.equal(a, b) for a, b in zip(*results, strict=True))
