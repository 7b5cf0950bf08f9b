"""Batch norm in training on CUDA uses an operator for statistics, and fuses with an activation and a
residual.
"""

from typing import Any

import pytest

import triten as tt
from triten.runtime.cuda.driver import driver
from triten.tests.compiler.beside_eager import drawn, same

F = tt.nn.functional


class Block(tt.nn.Module):
    """Convolution, its norm and the steps after it."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.convolution = tt.nn.Conv2d(6, 6, 3, padding=1, bias=False)
        self.norm = tt.nn.BatchNorm2d(6, **options)

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        return F.relu(self.norm(self.convolution(x)) + x)


def pair(**options: Any) -> list[Block]:
    made = [Block(**options).cuda() for _ in range(2)]
    for tensor in (*made[0].parameters(), *made[0].buffers()):
        if tensor.is_floating_point():
            tensor.data.copy_(drawn(*tensor.shape, device="cuda").abs())
    made[1].load_state_dict(made[0].state_dict())
    return made


OPTIONS: list[dict[str, Any]] = [
    {}, {"affine": False}, {"track_running_stats": False}, {"momentum": None}, {"eps": 0.5},
]  # fmt: skip


@pytest.mark.parametrize("layout", [tt.contiguous_format, tt.channels_last], ids=str)
@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_results_gradients_and_running_statistics(options: dict[str, Any], dtype: Any, layout: Any) -> None:
    eager, other = (each.to(dtype) for each in pair(**options))
    exact = pair(**options)[0].double()
    compiled = tt.compile(other)
    for call in range(2):
        gradients = []
        results = []
        for run in (exact, eager, compiled):
            run.zero_grad()
            x = drawn(2, 6, 5, 7, device="cuda", dtype=dtype, seed=call).contiguous(memory_format=layout)
            x = (x.double() if run is exact else x).requires_grad_()
            made = run(x)
            made.square().sum().backward()
            results.append(made.detach())
            gradients.append([x.grad, *[p.grad for p in run.parameters()]])
        same(results[2], results[1])
        # Eager sums and fused ones are equally far from the exact ones.
        tolerance = 1e-5 if dtype is tt.float32 else 0.1
        for wanted, theirs, mine in zip(*gradients, strict=True):
            assert (mine.dtype, mine.stride()) == (theirs.dtype, theirs.stride())
            error = (mine.double() - wanted).abs().max() / wanted.abs().max()
            assert error <= max(tolerance, 2 * (theirs.double() - wanted).abs().max() / wanted.abs().max())
    same(list(other.buffers()), list(eager.buffers()))


def test_what_follows_is_in_one_kernel() -> None:
    block = Block().cuda()
    schedule = tt.compiler.explain(block, drawn(2, 6, 5, 7, device="cuda")).schedules[0]
    assert [kernel.name for kernel in schedule.kernels] == ["sub_mul_mul_add_add_relu"]
    assert "_batch_norm_statistics" in str(schedule)


def test_it_takes_fewer_launches() -> None:
    eager, other = pair()
    x = drawn(2, 6, 5, 7, device="cuda")
    counts = []
    for run in (eager, tt.compile(other)):
        run(x)
        before = driver().launches
        run(x)
        counts.append(driver().launches - before)
    assert counts[1] <= counts[0] - 2, "the activation and the residual"


def test_channels_that_lie_innermost() -> None:
    block = Block().cuda()
    x = drawn(2, 6, 5, 7, device="cuda").contiguous(memory_format=tt.channels_last)
    schedule = tt.compiler.explain(block.to(memory_format=tt.channels_last), x).schedules[0]
    (elements,) = schedule.kernels
    assert elements.name == "sub_mul_add_add_relu"
    assert [node.val.strides[1] for node in elements.outputs] == [1]


def test_the_derivative_of_what_follows_is_in_its_kernels() -> None:
    block = Block().cuda()
    backward = tt.compiler.explain(block, drawn(2, 6, 5, 7, device="cuda", grad=True)).schedules[1]
    assert "native_batch_norm_backward" not in str(backward)
    sums, elements = [kernel for kernel in backward.kernels if "sub" in kernel.name]
    assert sums.name.startswith("threshold_backward") and "sum" in sums.name
    assert [node.val.ndim for node in elements.outputs] == [4]


def test_what_nobody_else_reads_is_computed_again() -> None:
    def chain(x: tt.Tensor, w: tt.Tensor) -> tt.Tensor:
        return F.relu(F.batch_norm(x * 2, None, None, w, None, training=True)).exp()

    given = drawn(2, 6, 5, 7, device="cuda", grad=True), drawn(6, device="cuda", grad=True)
    backward = tt.compiler.explain(chain, *given).schedules[1]
    sums, _ = backward.kernels
    assert all(node.val.ndim == 1 for node in sums.outputs)


def test_a_norm_that_nothing_follows_stays() -> None:
    block = tt.nn.BatchNorm2d(6).cuda()
    schedule = tt.compiler.explain(block, drawn(2, 6, 5, 7, device="cuda")).schedules[0]
    assert "_native_batch_norm_legit" in str(schedule) and not list(schedule.kernels)


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("sizes", [(5, 4), (2, 4, 3), (3, 4, 40, 40)], ids=str)
def test_statistics_are_those_of_the_norm(sizes: tuple[int, ...], running: bool, device: str) -> None:
    x = drawn(*sizes, device=device)
    found = []
    for call in (tt.ops.aten.native_batch_norm, tt.ops.aten._batch_norm_statistics):
        kept = [drawn(4, device=device), drawn(4, device=device).abs()] if running else [None, None]
        given = (
            (x, *kept, 0.2, 1e-5) if "statistics" in str(call) else (x, None, None, *kept, True, 0.2, 1e-5)
        )
        found.append([*call(*given)[-2:], *[each for each in kept if each is not None]])
    same(found[1], found[0])
