"""`tt.distributed` in a program of one process: questions are answered, what needs a group is refused."""

import pytest

import triten as tt
from triten import distributed
from triten.utils.data import DataLoader, DistributedSampler


def test_questions_are_answered() -> None:
    assert not distributed.is_available() and not distributed.is_initialized()
    assert not distributed.is_nccl_available() and not distributed.is_gloo_available()
    assert distributed.group.WORLD is None
    assert not isinstance(tt.ones(1), distributed.ProcessGroup)
    assert distributed.Backend("NCCL") == distributed.Backend.NCCL
    assert distributed.ReduceOp.SUM is not distributed.ReduceOp.MAX


def test_the_environment_tells_of_torchrun(monkeypatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert not distributed.is_torchelastic_launched()
    with pytest.raises(RuntimeError, match="LOCAL_RANK is not in the environment"):
        distributed.get_node_local_rank()
    assert distributed.get_node_local_rank(3) == 3
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert distributed.is_torchelastic_launched() and distributed.get_node_local_rank() == 2


@pytest.mark.parametrize("name", ["get_rank", "get_world_size", "get_backend", "barrier", "new_group"])
def test_what_needs_a_group_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        getattr(distributed, name)()


def test_communication_leaves_tensors_as_they_were() -> None:
    from triten.distributed import nn

    x = tt.ones(2)
    for function in (distributed.all_reduce, distributed.broadcast, nn.all_reduce, nn.functional.all_gather):
        with pytest.raises(ValueError, match="please make sure to call init_process_group"):
            function(x, 0)
    assert x.tolist() == [1.0, 1.0]


def test_no_group_can_be_made() -> None:
    from triten.distributed.optim import ZeroRedundancyOptimizer
    from triten.distributed.tensor import DTensor

    with pytest.raises(RuntimeError, match="init_process_group: triten has no distributed communication"):
        distributed.init_process_group("gloo")
    with pytest.raises(RuntimeError, match="DTensor: triten has no distributed communication"):
        DTensor(tt.ones(2))
    with pytest.raises(RuntimeError, match="ZeroRedundancyOptimizer: triten has no distributed"):
        ZeroRedundancyOptimizer([tt.ones(2)], tt.optim.SGD, lr=1.0)
    assert not isinstance(tt.ones(1), DTensor)


# Of PyTorch: the indices of each of three ranks, for sizes 1, 2, 7 and 9.
SHARES = [
    (1, False, [[0], [0], [0]]),
    (1, True, [[], [], []]),
    (2, False, [[0], [1], [0]]),
    (2, True, [[], [], []]),
    (7, False, [[0, 3, 6], [1, 4, 0], [2, 5, 1]]),
    (7, True, [[0, 3], [1, 4], [2, 5]]),
    (9, False, [[0, 3, 6], [1, 4, 7], [2, 5, 8]]),
    (9, True, [[0, 3, 6], [1, 4, 7], [2, 5, 8]]),
]


@pytest.mark.parametrize(("size", "drop_last", "shares"), SHARES)
def test_a_sampler_gives_each_rank_its_share(size: int, drop_last: bool, shares: list[list[int]]) -> None:
    samplers = [
        DistributedSampler(range(size), num_replicas=3, rank=rank, shuffle=False, drop_last=drop_last)
        for rank in range(3)
    ]
    assert [list(sampler) for sampler in samplers] == shares
    assert [len(sampler) for sampler in samplers] == [len(share) for share in shares]


def test_a_shuffled_order_is_the_same_on_all_ranks_and_another_each_epoch() -> None:
    samplers = [DistributedSampler(range(20), num_replicas=2, rank=rank, seed=3) for rank in range(2)]
    first = [list(sampler) for sampler in samplers]
    assert sorted(first[0] + first[1]) == list(range(20))
    assert first == [list(sampler) for sampler in samplers]
    samplers[0].set_epoch(1)
    assert list(samplers[0]) != first[0]
    dataset = tt.utils.data.TensorDataset(tt.arange(20))
    loaded = [batch[0] for batch in DataLoader(dataset, batch_size=4, sampler=samplers[1])]
    assert tt.cat(loaded).tolist() == first[1]


def test_a_sampler_refuses_ranks() -> None:
    with pytest.raises(ValueError, match=r"Invalid rank 2, rank should be in the interval \[0, 1\]"):
        DistributedSampler(range(5), num_replicas=2, rank=2)
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DistributedSampler(range(5))
