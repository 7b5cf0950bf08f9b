"""Ranks whose calls differ: each must get the error that names the difference, and the group must go on.

A case has one to four steps. A step is a collective, which some ranks call with another operation, dtype, size,
reduction or root, or a message whose receiver expects another one. After the steps all ranks make a call that agrees.
"""

import random
from collections.abc import Iterator
from typing import Any, ClassVar

from triten.tests.distributed import ranks
from triten.tests.fuzz.campaign import AGREED, REFUSED_ALIKE, Campaign, Case, Finding, Outcome

REDUCING = "all_reduce", "reduce", "reduce_scatter"
ROOTED = "reduce", "broadcast", "gather", "scatter", "broadcast_object_list"
NAMES = (*dict.fromkeys((*REDUCING, *ROOTED)), "all_gather", "all_to_all", "barrier")
COUNTS = 0, 1, 7, 20, 1000, 9000, 70_000
"""Below and above the sizes at which a thread does the communication, and up to which MPI sends a message at once."""
DTYPES = "int32", "float32", "float64", "uint8"
REDUCTIONS = "SUM", "MAX", "MIN", "PRODUCT"
SECONDS = 20
"""The group's time limit: over it, a rank reports that it waits in vain."""

Call = dict[str, Any]


def compared(call: Call) -> tuple[Any, ...]:
    """Return what all ranks must have in common with a call."""
    name = call["name"]
    if name == "barrier":
        return (name,)
    sized = () if name == "broadcast_object_list" else (call["dtype"], call["count"])
    op = call["op"] if name in REDUCING else None
    return name, sized, op, call["root"] if name in ROOTED else None


class DistributedMismatches(Campaign):
    """Fuzz target with 2 and 3 ranks over MPI; the ranks serve case after case."""

    name = "distributed_mismatches"
    limit: ClassVar[float] = 300.0

    def __init__(self) -> None:
        self._ranks: dict[int, ranks.Ranks] = {}

    def draw(self, rng: random.Random) -> Case:
        size = rng.choice((2, 2, 3))
        return {"size": size, "steps": [_step(rng, size) for _ in range(rng.randrange(1, 5))]}

    def run(self, case: Case) -> Outcome:
        size = case["size"]
        if size not in self._ranks:
            self._ranks[size] = ranks.Ranks(size, {"TRITEN_CUDA": "off", "TRITON_INTERPRET": "0"})
        try:
            self._ranks[size].run(__name__, "steps_of_rank", case["steps"])
        except AssertionError as error:
            del self._ranks[size]
            lines = str(error).splitlines()
            last = next((line for line in reversed(lines) if "Error" in line), lines[-1])
            kind = "hang" if "not answered" in str(error) or "waited" in last else "wrong value"
            return Finding(kind, f"{last}\n{error}")
        differs = any(len({compared(call) for call in step["calls"]}) > 1 for step in case["steps"])
        return REFUSED_ALIKE if differs else AGREED

    def replay(self, case: Case) -> Outcome:
        try:
            return self.run(case)
        finally:
            for each in self._ranks.values():
                each.close()
            self._ranks.clear()

    def smaller(self, case: Case) -> Iterator[Case]:
        steps = case["steps"]
        for place in range(len(steps)):
            if len(steps) > 1:
                yield case | {"steps": steps[:place] + steps[place + 1 :]}

    def describe(self, case: Case) -> str:
        return f"DistributedMismatches().replay({case!r})"

    def family(self, case: Case, finding: Finding) -> str:
        return f"{finding.kind}: {finding.message.splitlines()[0]}"


def _step(rng: random.Random, size: int) -> dict[str, Any]:
    """Generate a step; the ranks agree one time in three."""
    if rng.random() < 0.25:
        sent, received = _call(rng, size, "send"), _call(rng, size, "recv")
        if rng.random() < 0.5:
            received |= {"dtype": sent["dtype"], "count": sent["count"]}
        peers = rng.sample(range(size), 2)
        return {"calls": [sent, received], "peers": peers}
    call = _call(rng, size, rng.choice(NAMES))
    calls = [dict(call) for _ in range(size)]
    for _ in range(rng.choice((0, 1, 2))):
        field = rng.choice(("name", "dtype", "count", "op", "root"))
        name = rng.choice(NAMES) if field == "name" else call["name"]
        calls[rng.randrange(size)][field] = _call(rng, size, name)[field]
    for each in calls:
        each["async"] = rng.random() < 0.4
    return {"calls": calls}


def _call(rng: random.Random, size: int, name: str) -> Call:
    return {
        "name": name,
        "dtype": rng.choice(DTYPES),
        "count": rng.choice(COUNTS),
        "op": rng.choice(REDUCTIONS),
        "root": rng.randrange(size),
    }


def _of_one_rank(function: Any) -> Any:
    function.in_ranks = function  # as `ranks.on_ranks` marks what a rank runs
    return function


_groups: dict[int, Any] = {}


@_of_one_rank
def steps_of_rank(rank: int, size: int, steps: list[dict[str, Any]]) -> None:
    """Make one rank's calls, and assert what becomes of each."""
    from datetime import timedelta

    import triten as tt
    from triten import distributed as dist

    if size not in _groups:
        _groups[size] = dist.new_group(timeout=timedelta(seconds=SECONDS))
    group = _groups[size]
    for step in steps:
        if "peers" in step:
            _message(step, rank, group)
        else:
            _collective(step["calls"], rank, group)
    x = tt.full((3,), rank + 1.0)
    dist.all_reduce(x, group=group)
    assert x.tolist() == [size * (size + 1) / 2] * 3, x


def _filled(call: Call, rank: int, times: int = 1) -> Any:
    import triten as tt

    return tt.full((times * call["count"],), rank + 1, dtype=getattr(tt, call["dtype"]))


def _message(step: dict[str, Any], rank: int, group: Any) -> None:
    from triten import distributed as dist

    (sent, received), (source, target) = step["calls"], step["peers"]
    if rank == source:
        dist.send(_filled(sent, rank), group=group, group_dst=target)
    elif rank == target:
        x = _filled(received, rank)
        agrees = (sent["dtype"], sent["count"]) == (received["dtype"], received["count"])
        error = _error_of(lambda: dist.recv(x, group=group, group_src=source))
        if agrees:
            assert error is None and (x == source + 1).all(), (error, step)
        else:
            assert error is not None and f"rank {source}: send(" in error, (error, step)


def _collective(calls: list[Call], rank: int, group: Any) -> None:
    call = calls[rank]
    results: list[Any] = []
    error = _error_of(lambda: _called(call, rank, len(calls), group, results))
    if len({compared(each) for each in calls}) > 1:
        assert error is not None and "differ" in error, (error, call, calls)
        # Each rank is told its own call, which may be that of other ranks as well.
        assert f"{_named(call)}(" in error and "rank" in error, (error, call)
        assert all((x == own).all() for x, own, _ in results), (results, calls)
        return
    assert error is None, (error, calls)
    for x, _, expected in results:
        assert (x == expected).all(), (x, expected, calls)


def _named(call: Call) -> str:
    return "broadcast" if call["name"] == "broadcast_object_list" else call["name"]


def _error_of(function: Any) -> str | None:
    from triten.distributed import DistBackendError

    try:
        function()
    except DistBackendError as error:
        return str(error)
    return None


def _called(call: Call, rank: int, size: int, group: Any, results: list[Any]) -> None:
    """Make a call, and add each written tensor, the number that it holds before, and that it is to hold."""
    from triten import distributed as dist

    name, root = call["name"], call["root"]
    op = getattr(dist.ReduceOp, call["op"])
    reduced = {
        "SUM": size * (size + 1) // 2,
        "MAX": size,
        "MIN": 1,
        "PRODUCT": (1, 2, 6)[size - 1],
    }[call["op"]]
    how = {"group": group, "async_op": call["async"]}
    own = rank + 1
    x, line = _filled(call, rank), [_filled(call, rank) for _ in range(size)]
    if name == "broadcast_object_list":
        values = [f"from {rank}"]
        dist.broadcast_object_list(values, group=group, group_src=root)
        assert values == [f"from {root}"], values
        return
    if name == "all_reduce":
        results.append((x, own, reduced))
        work = dist.all_reduce(x, op, **how)
    elif name == "reduce":
        results.append((x, own, reduced if rank == root else own))
        work = dist.reduce(x, op=op, group_dst=root, **how)
    elif name == "broadcast":
        results.append((x, own, root + 1))
        work = dist.broadcast(x, group_src=root, **how)
    elif name == "all_gather":
        results += [(each, own, place + 1) for place, each in enumerate(line)]
        work = dist.all_gather(line, x, **how)
    elif name == "reduce_scatter":
        results.append((x, own, reduced))
        work = dist.reduce_scatter(x, line, op, **how)
    elif name == "all_to_all":
        results += [(each, own, place + 1) for place, each in enumerate(line)]
        work = dist.all_to_all(line, [_filled(call, rank) for _ in range(size)], **how)
    elif name == "gather":
        if rank == root:
            results += [(each, own, place + 1) for place, each in enumerate(line)]
        work = dist.gather(x, line if rank == root else None, group_dst=root, **how)
    elif name == "scatter":
        results.append((x, own, root + 1))
        work = dist.scatter(x, line if rank == root else None, group_src=root, **how)
    else:
        work = dist.barrier(**how)
    if work is not None:
        work.wait()
