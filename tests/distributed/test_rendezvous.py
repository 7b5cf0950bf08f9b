"""Agents agree on who takes part: rounds, ranks, nodes that come, go and fail. Agents are threads of this process."""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from triten.distributed.elastic.multiprocessing.errors import ChildFailedError
from triten.distributed.elastic.multiprocessing.logs import LogsSpecs, Std
from triten.distributed.elastic.rendezvous import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousTimeoutError,
)
from triten.distributed.elastic.rendezvous.parameters import (
    RendezvousTimeouts,
    parse_rendezvous_config,
    parse_rendezvous_endpoint,
)
from triten.distributed.elastic.rendezvous.state import Node, RendezvousState
from triten.distributed.elastic.worker_environment import worker_environment
from triten.distributed.launcher import LaunchConfig, elastic_launch
from triten.distributed.stores.tcp_server import TCPStoreServer
from triten.distributed.stores.tcp_store import TCPStore

LIMIT = 60.0
SOON = RendezvousTimeouts(join=LIMIT, last_call=0.01, close=5.0, keep_alive=0.02, keep_alive_attempts=3000)
IMPATIENT = replace(SOON, keep_alive_attempts=25)
"""Those of nodes that are to be missed soon; others may stand still on a machine that has much to do."""


@pytest.fixture
def agents():
    with ThreadPoolExecutor(8) as threads:
        yield threads


def free_port() -> int:
    server = TCPStoreServer("127.0.0.1", 0)
    server.close()
    return server.port


def elastic(least: int, most: int, port: int, **settings) -> RendezvousParameters:
    return RendezvousParameters("c10d", "127.0.0.1", port, "job", least, most, timeouts=SOON, **settings)


def static(nodes: int, port: int, rank: int, **settings) -> RendezvousParameters:
    return RendezvousParameters(
        "static", "127.0.0.1", port, "job", nodes, nodes, node_rank=rank, timeouts=SOON, **settings
    )


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.005)


def test_a_state_is_read_as_it_was_written() -> None:
    nodes = Node("a", "10.0.0.1", 2, "trainer"), Node("b", "10.0.0.2", 1, "reader", 1, True)
    state = RendezvousState(3, 1, True, nodes, ("c",), ("a",), "a failed", "a 7")
    assert RendezvousState.from_bytes(state.to_bytes()) == state


def test_ranks_follow_the_order_of_nodes_and_roles() -> None:
    nodes = Node("a", "a", 2, "trainer"), Node("b", "b", 1, "reader"), Node("c", "c", 3, "trainer")
    told = worker_environment(RendezvousInfo(4, 1, 2, nodes, "a", 5), local_rank=1)
    expected = {"RANK": 4, "LOCAL_RANK": 1, "GROUP_RANK": 2, "ROLE_RANK": 3, "ROLE_NAME": "trainer"}
    expected |= {"WORLD_SIZE": 6, "LOCAL_WORLD_SIZE": 3, "GROUP_WORLD_SIZE": 3, "ROLE_WORLD_SIZE": 5}
    expected |= {"MASTER_ADDR": "a", "MASTER_PORT": 5, "TORCHELASTIC_RESTART_COUNT": 1}
    assert {name: told[name] for name in expected} == {name: str(each) for name, each in expected.items()}


def come_together(agents: ThreadPoolExecutor, *handlers: RendezvousHandler) -> list[RendezvousInfo]:
    """Return the results of handlers that join the rendezvous concurrently."""
    joined = [agents.submit(handler.next_rendezvous) for handler in handlers]
    return [each.result(LIMIT) for each in joined]


def start(agents: ThreadPoolExecutor, *all_parameters: RendezvousParameters) -> list[RendezvousHandler]:
    """Handlers of nodes with one worker each."""
    made = [agents.submit(RendezvousHandler, parameters, 1, "default") for parameters in all_parameters]
    return [each.result(LIMIT) for each in made]


def close(agents: ThreadPoolExecutor, *handlers: RendezvousHandler) -> None:
    for each in [agents.submit(handler.close) for handler in handlers]:
        each.result(LIMIT)


@pytest.mark.parametrize("is_static", [False, True], ids=["c10d", "static"])
def test_a_node_alone_needs_nobody(is_static: bool) -> None:
    found = static(1, free_port(), 0, max_restarts=1) if is_static else elastic(1, 1, 0, max_restarts=1)
    handler = RendezvousHandler(replace(found, timeouts=replace(SOON, close=LIMIT)), 2, "default")
    info = handler.next_rendezvous()
    assert (info.rank, info.restarts, info.master_addr) == (0, 0, "127.0.0.1")
    for server in filter(None, (handler._server, handler._workers_server)):
        assert server.listener.getsockname()[0] == "127.0.0.1"
    assert handler.is_current(info) and handler.fail(info, "rank 0 failed")
    info = handler.next_rendezvous()
    assert (info.round, info.restarts) == (1, 1)
    assert handler.finish(info)
    begun = time.monotonic()
    handler.close()
    assert time.monotonic() - begun < LIMIT, "nobody is there to hear of it"


def test_nodes_of_a_static_job_have_their_ranks_and_begin_again_with_an_empty_store(agents) -> None:
    port = free_port()
    second, first = handlers = start(
        agents, static(2, port, 1, max_restarts=1), static(2, port, 0, max_restarts=1)
    )
    infos = come_together(agents, *handlers)
    assert [info.rank for info in infos] == [1, 0]
    assert {(info.master_addr, info.master_port) for info in infos} == {("127.0.0.1", port)}
    workers = TCPStore("127.0.0.1", port)
    workers.set("key", "value")
    workers.queue_push("queue", "value")
    presence = TCPStore("127.0.0.1", port).presence("gone/1", b"is gone, without a word")

    assert second.fail(infos[0], "rank 1 failed")
    until(lambda: not first.is_current(infos[1]))
    infos = come_together(agents, *handlers)
    assert {(info.round, info.restarts) for info in infos} == {(1, 1)}
    assert not workers.check(["key"]) and not workers.queue_len("queue")
    connections = len(first._server._connections)
    del presence  # a worker of before breaks its connection late
    until(lambda: len(first._server._connections) < connections)
    assert not workers.check(["gone/1"])

    assert not second.fail(infos[0], "rank 1 failed again")
    with pytest.raises(RendezvousClosedError, match="the job 'job' has ended: rank 1 failed again"):
        until(lambda: not first.is_current(infos[1]))
    close(agents, *handlers)


def test_the_store_is_served_by_whoever_comes_first_and_that_node_is_first(agents) -> None:
    port = free_port()
    handlers = start(agents, *[elastic(3, 3, port)] * 3)
    infos = come_together(agents, *handlers)
    assert sorted(info.rank for info in infos) == [0, 1, 2]
    assert {info.nodes for info in infos} == {infos[0].nodes}
    assert [node.is_host for node in infos[0].nodes] == [True, False, False]
    (master,) = {(info.master_addr, info.master_port) for info in infos}
    assert master[1] != port and not TCPStore(*master).check(["key"])
    ends = [agents.submit(handler.finish, info) for handler, info in zip(handlers, infos, strict=True)]
    assert all(each.result(LIMIT) for each in ends)
    close(agents, *handlers)


def test_a_node_that_comes_later_is_taken_in_while_there_is_room(agents) -> None:
    port = free_port()
    (first,) = start(agents, elastic(1, 2, port))
    (alone,) = come_together(agents, first)
    assert len(alone.nodes) == 1 and first.is_current(alone)

    def meet(own: RendezvousHandler, other: RendezvousHandler, info: RendezvousInfo | None) -> RendezvousInfo:
        """Repeat the rendezvous until another node is in it, and return the result."""
        while info is None or other.node not in info.nodes:
            if info is not None:
                until(lambda info=info: not own.is_current(info))
            info = own.next_rendezvous()
        return info

    second, third = start(agents, *[elastic(1, 2, port)] * 2)
    joins = agents.submit(meet, second, first, None)
    both = meet(first, second, alone)
    assert both.nodes == joins.result(LIMIT).nodes and both.restarts == 0

    waits = agents.submit(meet, third, first, None)
    with pytest.raises(TimeoutError):
        waits.result(0.3)
    assert first.is_current(both)
    second.leave()
    again = meet(first, third, both)
    assert again.nodes == waits.result(LIMIT).nodes and second.node not in again.nodes
    close(agents, second, third, first)


def test_a_node_that_is_gone_has_the_others_begin_again_or_end(agents) -> None:
    port = free_port()
    first, second, third = handlers = start(agents, *[replace(elastic(3, 3, port), timeouts=IMPATIENT)] * 3)
    infos = dict(zip(handlers, come_together(agents, *handlers), strict=True))
    for handler in handlers:
        handler.parameters = replace(handler.parameters, min_nodes=2)  # from now on two will do
    come_together(agents, *handlers)
    third._alive.stop()  # as if its machine was lost
    noticed: set[RendezvousHandler] = set()

    def have_noticed() -> bool:
        noticed.update(each for each in (first, second) if not each.is_current(infos[each]))
        return len(noticed) == 2

    until(have_noticed)
    infos = dict(zip((first, second), come_together(agents, first, second), strict=True))
    assert {node.name for node in infos[first].nodes} == {first.node.name, second.node.name}
    assert infos[first].restarts == 0

    second._alive.stop()
    with pytest.raises(RendezvousClosedError, match=f"{second.node.name} is gone, and no restart is left"):
        until(lambda: not first.is_current(infos[first]))
    close(agents, *handlers)


def test_a_node_that_is_done_begins_again_where_another_fails(agents) -> None:
    port = free_port()
    first, second = handlers = start(agents, *[static(2, port, rank, max_restarts=1) for rank in (0, 1)])
    infos = come_together(agents, *handlers)
    ends = agents.submit(first.finish, infos[0])
    assert second.fail(infos[1], "rank 1 failed") and not ends.result(LIMIT)
    assert [info.restarts for info in come_together(agents, *handlers)] == [1, 1]
    close(agents, *handlers)


def test_who_hosts_the_store_ends_the_job_when_it_leaves(agents) -> None:
    port = free_port()
    first, second = handlers = start(agents, *[static(2, port, rank, max_restarts=1) for rank in (0, 1)])
    infos = come_together(agents, *handlers)
    first.leave()
    with pytest.raises(RendezvousClosedError, match="which serves the store, was ended by a signal"):
        until(lambda: not second.is_current(infos[1]))
    close(agents, *handlers)


def test_a_store_that_is_lost_is_told_of(agents) -> None:
    port = free_port()
    first, second = start(agents, *[static(2, port, rank) for rank in (0, 1)])
    agents.submit(first.next_rendezvous)
    info = second.next_rendezvous()
    first._server.close()  # as if its machine was lost
    with pytest.raises(RendezvousConnectionError, match="the rendezvous's store is lost"):
        until(lambda: not second.is_current(info))
    assert not second.fail(info, "rank 1 failed")
    second.close()
    first._alive.stop()


def test_nodes_that_do_not_come_are_told_of() -> None:
    hurried = replace(SOON, join=0.05)
    handler = RendezvousHandler(replace(elastic(2, 2, free_port()), timeouts=hurried), 1, "default")
    with pytest.raises(RendezvousTimeoutError, match=r"1 of 2 nodes joined 127\.0\.0\.1:.* within 0.05 s"):
        handler.next_rendezvous()
    handler.close()
    nowhere = replace(static(2, free_port(), 1), timeouts=hurried)
    with pytest.raises(RendezvousConnectionError, match=r"no agent serves 127\.0\.0\.1:"):
        RendezvousHandler(nowhere, 1, "default")


def test_agents_of_two_nodes_start_their_workers_again_together(agents, tmp_path: Path) -> None:
    """Rank 2, of the second node, fails in the first attempt, while all others would wait for ever."""
    program = """
import os, signal, sys
print(*(os.environ[name] for name in ("RANK", "GROUP_RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")), flush=True)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    sys.exit(1) if os.environ["RANK"] == "2" else signal.pause()
"""
    port = free_port()

    def agent(rank: int) -> object:
        logs = LogsSpecs(str(tmp_path / str(rank)), Std.OUT)
        config = LaunchConfig(
            *(2, 2, 2, logs, "job"),
            rdzv_backend="static",
            rdzv_endpoint=f"127.0.0.1:{port}",
            rdzv_configs={"rank": rank},
            max_restarts=1,
        )
        return elastic_launch(config, sys.executable)("-S", "-c", program)

    ends = [agents.submit(agent, rank) for rank in (0, 1)]
    assert [end.result(LIMIT) for end in ends] == [{0: None, 1: None}, {2: None, 3: None}]
    said = sorted(path.read_text().strip() for path in tmp_path.glob("*/*/attempt_1/*/stdout.log"))
    assert said == ["0 0 4 1", "1 0 4 1", "2 1 4 1", "3 1 4 1"]


def test_a_node_ends_where_workers_of_another_fail(agents) -> None:
    port = free_port()

    def agent(rank: int) -> object:
        config = LaunchConfig(
            *(2, 2, 1, None, "job"),
            rdzv_backend="static",
            rdzv_endpoint=f"127.0.0.1:{port}",
            rdzv_configs={"rank": rank},
            max_restarts=0,
        )
        return elastic_launch(config, "sh")("-c", 'test "$RANK" = 0 && exec sleep 600; exit 4')

    ends = [agents.submit(agent, rank) for rank in (0, 1)]
    with pytest.raises(ChildFailedError, match="exitcode  : 4"):
        ends[1].result(LIMIT)
    with pytest.raises(RendezvousClosedError, match=r"rank 1 .* ended with exit code 4"):
        ends[0].result(LIMIT)


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("", ("localhost", 29400)),
        ("node0", ("node0", 29400)),
        ("node0:7", ("node0", 7)),
        ("10.0.0.1:0", ("10.0.0.1", 0)),
        ("[::1]", ("::1", 29400)),
        ("[::1]:7", ("::1", 7)),
    ],
)
def test_endpoints_are_read(endpoint: str, expected: tuple[str, int]) -> None:
    assert parse_rendezvous_endpoint(endpoint) == expected


@pytest.mark.parametrize("endpoint", ["node0:", "node0:65536", "node 0:7", ":7"])
def test_endpoints_that_are_none_are_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="rdzv-endpoint: expected a"):
        parse_rendezvous_endpoint(endpoint)


def test_configurations_are_read() -> None:
    assert parse_rendezvous_config(" a = 1,b=c=d ") == {"a": "1", "b": "c=d"}
    assert RendezvousTimeouts.from_config({"timeout": "3", "last_call_timeout": "0.5"}) == RendezvousTimeouts(
        3, 0.5
    )
