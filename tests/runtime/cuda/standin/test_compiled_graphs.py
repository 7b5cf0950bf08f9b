"""Compiled programs as CUDA graphs over the executing stand-in: replays run late, and have eager's results."""

import pytest

import triten as tt

pytestmark = pytest.mark.standin(execute=1)


def numbers(*sizes, seed=0):
    return tt.randn(*sizes, generator=tt.Generator().manual_seed(seed)).cuda()


def test_a_replay_launches_no_kernel(standin):
    def chain(x, y):
        return tt.relu((x + y) * 2).sum(1)

    compiled = tt.compile(chain, fullgraph=True, mode="reduce-overhead")
    x, y = numbers(8, 40), numbers(40, seed=1)
    for call in range(5):
        x = numbers(8, 40, seed=call)
        standin.clear()
        found = compiled(x, y)
        if call >= 2:
            assert not standin.launches
            assert standin.counts["cuGraphLaunch"] == 1
        assert tt.equal(found, chain(x, y))


def test_a_training_step_is_two_graphs(standin):
    found = []
    for mode in (None, "reduce-overhead"):
        tt.manual_seed(0)
        model = tt.nn.Sequential(
            tt.nn.Linear(8, 16), tt.nn.LayerNorm(16), tt.nn.GELU(), tt.nn.Dropout(0.3), tt.nn.Linear(16, 4)
        ).cuda()
        run = model if mode is None else tt.compile(model, fullgraph=True, mode=mode)
        optimizer = tt.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for step in range(6):
            tt.manual_seed(step)
            standin.clear()
            loss = run(numbers(5, 8, seed=step)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if mode is not None:
            assert standin.counts["cuGraphLaunch"] == 2
        found.append((losses, [p.detach().cpu().tolist() for p in model.parameters()]))
    assert found[0] == found[1]


def test_results_that_are_held_are_not_overwritten(standin):
    compiled = tt.compile(lambda x: x * 2 + 1, fullgraph=True, mode="reduce-overhead")
    found = [compiled(tt.full((200, 100), float(call), device="cuda")) for call in range(6)]
    assert standin.counts["cuGraphLaunch"]
    for call, result in enumerate(found):
        assert (result.cpu().numpy() == 2 * call + 1).all()
