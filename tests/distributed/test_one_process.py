"""`tt.distributed` in one process answers queries and refuses calls that need a group."""

from collections.abc import Iterator
from typing import Any

import pytest

import triten as tt
from triten import distributed
from triten.utils.data import DataLoader, DistributedSampler


def test_questions_are_answered() -> None:
    assert distributed.is_available() and not distributed.is_initialized()
    assert distributed.is_backend_available("fake") and not distributed.is_backend_available("ucc")
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
    for function in (distributed.all_reduce, nn.all_reduce):
        with pytest.raises(ValueError, match="please make sure to call init_process_group"):
            function(x)
    assert x.tolist() == [1.0, 1.0]


@pytest.fixture
def alone() -> Iterator[None]:
    distributed.init_process_group("mpi", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()
    assert not distributed.is_initialized()


def test_a_group_of_one_needs_no_library(alone: None) -> None:
    x = tt.ones(2)
    distributed.all_reduce(x)
    out = tt.zeros(2)
    distributed.all_gather_into_tensor(out, x)
    work = distributed.broadcast(x, 0, async_op=True)
    assert work is not None and work.wait() and out.tolist() == x.tolist() == [1.0, 1.0]
    found = [None]
    distributed.all_gather_object(found, "a")
    distributed.barrier()
    distributed.monitored_barrier()
    assert found == ["a"] and distributed.get_world_size() == 1


def test_ranks_that_are_not_there() -> None:
    from triten.distributed.backends.fake import FakeStore

    distributed.init_process_group("fake", store=FakeStore(), rank=3, world_size=1000)
    try:
        x = tt.ones(2, device="meta")
        distributed.all_reduce(x)
        out = tt.zeros(1000, 2, device="meta")
        distributed.all_gather_into_tensor(out, x)
        assert distributed.get_rank() == 3 and distributed.get_rank(distributed.new_group([1, 3])) == 1
    finally:
        distributed.destroy_process_group()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"backend": "pigeons"}, ValueError, "expected a backend of"),
        ({"backend": "mpi", "init_method": "tcp://localhost"}, ValueError, "port number missing"),
        ({"backend": "mpi", "init_method": "tcp://localhost:0"}, ValueError, "rank parameter missing"),
        (
            {"backend": "mpi", "init_method": "gopher://x"},
            RuntimeError,
            "No rendezvous handler for gopher://",
        ),
        (
            {"backend": "mpi", "init_method": "file://", "rank": 0, "world_size": 1},
            ValueError,
            "path missing",
        ),
        ({"backend": "mpi", "rank": 2, "world_size": 2}, ValueError, "expected a rank from 0 to 1"),
        ({"backend": "cpu:mpi,cpu:gloo"}, ValueError, "Duplicate device type cpu"),
        ({"backend": "mpi", "timeout": 3}, TypeError, "timedelta"),
        ({"backend": "mpi", "store": distributed.HashStore()}, AssertionError, "world_size must be positive"),
    ],
)
def test_starts_that_cannot_be(
    arguments: dict[str, Any], error: type[Exception], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "1")
    with pytest.raises(error, match=text):
        distributed.init_process_group(**arguments)
    assert not distributed.is_initialized()


def test_a_variable_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PMI_RANK", "PMI_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(
        ValueError,
        match=r"RANK expected, but not set\. Start the program with `python -m triten\.distributed\.run ",
    ):
        distributed.init_process_group("mpi")


# PyTorch's indices of each of three ranks, for sizes 1, 2, 7 and 9.
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
