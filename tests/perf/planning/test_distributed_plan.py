"""`tt.perf.plan` on a mesh: bytes, calls, memory and order equal counts made by hand."""

import json
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

import triten as tt
import triten.nn.functional as F
from triten.perf import (
    DataParallel,
    DistributedPlan,
    FullyShard,
    Interconnect,
    Link,
    Pipeline,
    TensorParallel,
)
from triten.perf.planning.parallel.mesh import Mesh, mesh_of
from triten.perf.planning.parallel.stage import Stage
from triten.perf.planning.parallel.timeline import Event, Kind, Phase, PlannedParameter, Timeline

MEBI = 1 << 20
WIDTH = 512
NETWORK = Interconnect("n", Link("unit", 1.0, 1e12))
LAYERS = {"*.up": "colwise", "*.down": "rowwise"}


class Block(tt.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = tt.nn.Linear(width, 4 * width)
        self.down = tt.nn.Linear(4 * width, width)

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        return x + self.down(F.relu(self.up(x)))


class Model(tt.nn.Module):
    def __init__(self, width: int = 8, blocks: int = 4) -> None:
        super().__init__()
        self.first = tt.nn.Linear(width, width)
        self.blocks = tt.nn.ModuleList(Block(width) for _ in range(blocks))
        self.last = tt.nn.Linear(width, 3)

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def step(model: Any, optimizer: Any, x: tt.Tensor) -> None:
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def trained(model: Any, x: tt.Tensor) -> Any:
    """Return an optimizer that has its states, as in all steps but the first."""
    optimizer = tt.optim.Adam(model.parameters())
    step(model, optimizer, x)
    return optimizer


def nbytes(model: Any) -> int:
    return sum(parameter.numel() * 4 for parameter in model.parameters())


def planned(mesh: Mapping[str, int], model: Any = None, rows: int = 8, **options: Any) -> DistributedPlan:
    model = Model() if model is None else model
    x = tt.randn(rows, next(iter(model.parameters())).shape[1])
    options = {"interconnect": NETWORK, "device": "h100"} | options
    return tt.perf.plan(step, model, trained(model, x), x, mesh=mesh, **options)


def calls_and_bytes(found: DistributedPlan) -> dict[tuple[str, str], tuple[int, float]]:
    rows: dict[tuple[str, str], tuple[int, float]] = {}
    for row in found.collectives:
        calls, moved = rows.get((row.dimension, row.collective), (0, 0.0))
        rows[row.dimension, row.collective] = calls + row.calls, moved + row.bytes
    return rows


def test_a_mesh_of_one_rank_is_the_single_device() -> None:
    found = planned({"dp": 1, "fsdp": 1, "pp": 1})
    assert found.collectives == ()
    assert found.step_seconds == pytest.approx(found.single.seconds)
    assert found.efficiency == pytest.approx(1.0)
    assert found.peak_bytes == found.single.peak_bytes


def test_gradients_are_reduced_in_buckets() -> None:
    square = lambda: tt.nn.Linear(WIDTH, WIDTH, bias=False)  # noqa: E731 - 1 MiB each
    model = tt.nn.Sequential(*(square() for _ in range(8)))
    rings = Interconnect("n", Link("unit", 0.0, 1e12))
    found = planned({"dp": 4}, model, interconnect=rings, strategies={"dp": DataParallel(bucket_cap_mb=2)})
    # The first bucket has 1 MiB, three have 2, and the last gradient is left.
    assert calls_and_bytes(found) == {("dp", "all_reduce"): (5, 8 * MEBI)}
    (row,) = found.collectives
    assert row.sent == 2 * 3 / 4 * 8 * MEBI
    assert calls_and_bytes(planned({"dp": 4}, model)) == {("dp", "all_reduce"): (2, 8 * MEBI)}


def test_what_does_not_overlap_is_exposed() -> None:
    hosts = Interconnect("hosts", Link("unit", 1.0, 1e9), overlaps=False)
    found = planned({"dp": 2}, interconnect=hosts)
    assert found.exposed_seconds == pytest.approx(found.communication_seconds)
    assert found.communication_seconds == pytest.approx(2.0 + nbytes(Model()) / 1e9)
    assert found.overlapped_seconds == pytest.approx(0.0)
    assert found.step_seconds == pytest.approx(found.single.seconds + found.communication_seconds)
    assert found.efficiency == pytest.approx(found.single.seconds / found.step_seconds)
    assert "communication is waited for" in str(found)


def test_sharded_parameters_are_gathered_twice_and_gradients_scattered() -> None:
    model = Model()
    found = calls_and_bytes(planned({"fsdp": 4}, model))
    ends = nbytes(model.first) + nbytes(model.last)  # stay gathered from forward to backward
    assert found == {
        ("fsdp", "all_gather"): (2 * 4 + 2, 2 * nbytes(model.blocks) + ends),
        ("fsdp", "reduce_scatter"): (4 + 2, nbytes(model)),
    }
    kept = calls_and_bytes(
        planned({"fsdp": 4}, model, strategies={"fsdp": FullyShard(reshard_after_forward=False)})
    )
    assert kept["fsdp", "all_gather"] == (4 + 2, nbytes(model))


def test_copies_of_shards_average_the_shards() -> None:
    found = calls_and_bytes(planned({"dp": 2, "fsdp": 4}))
    assert found["dp", "all_reduce"] == (6, nbytes(Model()) / 4)


def test_tensor_parallel_layers_reduce_once_in_each_direction() -> None:
    found = planned({"tp": 2}, strategies={"tp": TensorParallel(LAYERS)})
    assert calls_and_bytes(found) == {
        ("tp", "all_reduce"): (8, 8 * 8 * 8 * 4)
    }  # blocks x directions, rows x width x 4
    assert found.exposed_seconds == pytest.approx(found.communication_seconds)
    assert found.speedup == pytest.approx(found.single.seconds / found.step_seconds)


def test_inputs_without_gradients_need_none_reduced() -> None:
    model = Block(8)
    x = tt.empty(4, 8, device="meta")
    found = tt.perf.plan(
        lambda m, x: m(x).sum().backward(), model, x, device="h100", mesh={"tp": 2}, interconnect=NETWORK,
        strategies={"tp": TensorParallel({"up": "colwise", "down": "rowwise"})},
    )  # fmt: skip
    assert calls_and_bytes(found) == {("tp", "all_reduce"): (1, 4 * 8 * 4)}


def test_memory_by_strategy() -> None:
    model = Model(width=64)
    whole, counts = (
        nbytes(model),
        4 * len([*model.parameters()]),
    )  # Adam counts steps, in one number a parameter
    plain = planned({"dp": 1}, model).memory[0]
    assert (plain.parameters, plain.optimizer_state) == (whole, 2 * whole + counts)

    copies = planned({"dp": 2}, model).memory[0]
    assert copies.communication == whole
    assert copies.peak == plain.peak + whole
    views = planned({"dp": 2}, model, strategies={"dp": DataParallel(gradient_as_bucket_view=True)}).memory[0]
    assert views == plain

    sharded = planned({"fsdp": 4}, model).memory[0]
    assert (sharded.parameters, sharded.optimizer_state) == (whole / 4, 2 * whole / 4 + counts)
    block, ends = nbytes(model.blocks[0]), nbytes(model.first) + nbytes(model.last)
    assert sharded.communication == ends + 2 * block + block * 3 / 4

    columns = planned({"tp": 4}, model, strategies={"tp": TensorParallel(LAYERS)}).memory[0]
    undivided = ends + sum(nbytes(block.down) - block.down.weight.numel() * 4 for block in model.blocks)
    assert columns.parameters == undivided + (whole - undivided) / 4
    assert columns.activations < plain.activations


def test_activations_between_tensor_parallel_layers_are_divided() -> None:
    def saved(ranks: int) -> int:
        model = Block(256)
        x = tt.empty(64, 256, device="meta")
        return tt.perf.plan(
            lambda m, x: m(x), model, x, device="h100", mesh={"tp": ranks}, interconnect=NETWORK,
            strategies={"tp": TensorParallel({"up": "colwise", "down": "rowwise"})},
        ).memory[0].activations  # fmt: skip

    narrow = 64 * 256 * 4
    wide = 4 * narrow
    assert saved(1) == 2 * wide  # what `up` and `relu` give
    assert saved(4) == wide / 4 + 2 * narrow  # what `relu`, `down` and the sum give


def test_a_pipeline_divides_the_units_and_sends_activations() -> None:
    model = Model(width=64)
    found = planned({"pp": 2}, model, rows=32, strategies={"pp": Pipeline(4)})
    assert found.units == (("blocks.0", "blocks.1"), ("blocks.2", "blocks.3"))
    assert calls_and_bytes(found) == {("pp", "send"): (4, 32 * 64 * 4)}
    first, second = found.memory
    assert first.parameters == nbytes(model.first) + 2 * nbytes(model.blocks[0])
    assert second.parameters == nbytes(model.last) + 2 * nbytes(model.blocks[0])
    assert found.peak_bytes_by_rank == [first.peak, second.peak]
    everything = planned({"pp": 2}, model, rows=32, strategies={"pp": Pipeline(4, "gpipe")})
    assert everything.memory[0].activations > first.activations > 0
    assert found.bubble_seconds > 0
    busy = found.compute_seconds + found.exposed_seconds
    assert found.step_seconds == pytest.approx(busy + found.bubble_seconds)


def test_ranks_know_their_stage() -> None:
    found = planned({"pp": 2, "dp": 3})
    assert [found.memory_of(rank) for rank in range(6)] == [found.memory[0]] * 3 + [found.memory[1]] * 3
    with pytest.raises(IndexError, match="the mesh has ranks 0 to 5, got 6"):
        found.memory_of(6)


def test_thousands_of_ranks() -> None:
    found = planned({"dp": 512, "tp": 8}, interconnect="dgx_h100", strategies={"tp": TensorParallel(LAYERS)})
    assert len(found.peak_bytes_by_rank) == found.ranks == 4096
    assert {row.dimension for row in found.collectives} == {"dp", "tp"}
    assert "between 512 nodes: InfiniBand NDR 400" in str(found)


class Tied(tt.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = tt.nn.Linear(8, 8, bias=False)
        self.last = tt.nn.Linear(8, 8, bias=False)
        self.last.weight = self.first.weight

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        return self.last(self.first(x))


def test_a_shared_parameter_is_reduced_once_a_pass() -> None:
    assert calls_and_bytes(planned({"dp": 2}, Tied())) == {("dp", "all_reduce"): (1, 8 * 8 * 4)}
    assert calls_and_bytes(planned({"fsdp": 2}, Tied()))["fsdp", "reduce_scatter"] == (1, 8 * 8 * 4)


def twice(model: Any, x: tt.Tensor) -> None:
    for _ in range(2):
        model(x).sum().backward()


def test_each_backward_pass_reduces() -> None:
    found = tt.perf.plan(twice, Model(), tt.randn(4, 8), device="h100", mesh={"dp": 2}, interconnect=NETWORK)
    assert calls_and_bytes(found) == {("dp", "all_reduce"): (2, 2 * nbytes(Model()))}
    assert found.exposed_seconds == pytest.approx(found.communication_seconds - found.overlapped_seconds)
    sharded = tt.perf.plan(
        twice, Model(), tt.randn(4, 8), device="h100", mesh={"fsdp": 2}, interconnect=NETWORK
    )
    assert calls_and_bytes(sharded)["fsdp", "reduce_scatter"] == (2 * 6, 2 * nbytes(Model()))


# The order of things on a clock: two units, one second forward and two seconds backward for each.


def clocked(strategies: Mapping[str, Any], link: Link, nbytes: int = 4 * MEBI) -> Stage:
    events = [Event(Kind.CALL, place, key="1", phase=Phase.FORWARD) for place in (1, 2)]
    for place in (2, 1):
        events.append(Event(Kind.CALL, place, key="2", phase=Phase.BACKWARD))
        events.append(Event(Kind.GRADIENT, place, number=place - 1, phase=Phase.BACKWARD))
    parameters = [PlannedParameter(str(place), nbytes, True, place) for place in (1, 2)]
    timeline = Timeline(events, parameters, units=["a", "b"])
    network = Interconnect("n", link)
    mesh = mesh_of(dict.fromkeys(strategies, 2), strategies, network)
    return Stage(timeline, range(4), mesh, network, lambda event: float(event.key or 0), 1)


SECONDS = Link("slow", 0.0, 4 * MEBI)  # the bytes of a unit's parameters in one second


def test_gradients_travel_while_backward_goes_on() -> None:
    # A ring of 2 sends n bytes: 1 s for each bucket. The first is over before backward is, the second is exposed.
    found = clocked({"dp": DataParallel(bucket_cap_mb=4)}, SECONDS).run(reduces_gradients=True)
    assert (found.forward, found.backward, found.exposed) == (2.0, 5.0, 1.0)
    assert clocked({"dp": DataParallel()}, SECONDS).run(reduces_gradients=False).backward == 4.0


def test_units_are_gathered_while_others_compute() -> None:
    # A gather of 2 ranks and a scatter send half: 0.5 s each. Forward: 0.5 waits, then both compute. Backward: unit 2
    # was dropped and is gathered anew (0.5 waits), 1 is meanwhile; the last scatter is exposed.
    found = clocked({"fsdp": FullyShard()}, SECONDS).run(reduces_gradients=True)
    assert (found.forward, found.backward, found.exposed) == (2.5, 5.0, 1.5)
    alone = clocked({"fsdp": FullyShard(prefetch=0)}, SECONDS).run(reduces_gradients=True)
    # Nothing ahead: each of the four gathers is waited for, the last after the scatter of unit 2.
    assert (alone.forward, alone.backward, alone.exposed) == (3.0, 6.0, 3.0)


@pytest.fixture
def functional_collectives() -> Iterator[None]:
    """Define `_c10d_functional` if it is undefined."""
    if hasattr(getattr(tt.ops, "_c10d_functional", None), "all_reduce"):
        yield
        return
    with tt.library.Library("_c10d_functional", "DEF") as library:
        library.define("all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor")
        library.define("wait_tensor(Tensor tensor) -> Tensor")
        library.impl("all_reduce", lambda input, reduce_op, group_name: tt.empty_like(input), "Meta")
        library.impl("wait_tensor", lambda tensor: tensor.view_as(tensor), "Meta")
        yield


def test_collectives_of_the_program_itself_count(functional_collectives: None) -> None:
    def program(x: tt.Tensor) -> tt.Tensor:
        total = tt.ops._c10d_functional.all_reduce(x, "sum", "dp")
        return tt.ops._c10d_functional.wait_tensor(total) + 1.0

    x = tt.empty(1000, device="meta")
    options: dict[str, Any] = {
        "device": "h100",
        "interconnect": NETWORK,
        "strategies": {"dp": None, "other": None},
    }
    found = tt.perf.plan(program, x, mesh={"dp": 4, "other": 2}, **options)
    assert calls_and_bytes(found) == {("dp", "all_reduce"): (1, 4000)}
    assert found.exposed_seconds == pytest.approx(found.communication_seconds)
    whole = tt.perf.plan(program, x, mesh={"other": 2}, **options | {"strategies": {"other": None}})
    assert calls_and_bytes(whole) == {("(program)", "all_reduce"): (1, 4000)}


class FakeDeviceMesh:
    mesh_dim_names = ("dp", "pp")
    mesh = tt.arange(4).view(2, 2)

    def get_group(self, name: str) -> Any:
        return SimpleNamespace(group_name=f"mesh_{name}")


def test_a_device_mesh_gives_names_and_sizes() -> None:
    found = mesh_of(FakeDeviceMesh(), None, NETWORK)
    assert [(each.name, each.size, type(each.strategy)) for each in found.dimensions] == [
        ("dp", 2, DataParallel),
        ("pp", 2, Pipeline),
    ]
    assert found.group_of("mesh_pp") == found.group_of("pp") == ("pp", found.dimensions[1].group)
    assert found.group_of("others") == ("(program)", found.everybody)


def refused(message: str, call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_what_does_not_fit_is_refused() -> None:
    refused(
        "interconnect and strategies need a mesh", lambda: tt.perf.plan(lambda: None, interconnect="pcie4")
    )
    refused("mesh needs an interconnect", lambda: tt.perf.plan(lambda: None, mesh={"dp": 2}))
    refused("dimension 'dp' of mesh must have at least 1 rank, got 0", lambda: planned({"dp": 0}))
    refused("strategies must say what dimension 'x' of mesh does", lambda: planned({"x": 2}))
    refused(
        "strategies has 'tp', and the dimensions of mesh are dp",
        lambda: planned({"dp": 2}, strategies={"tp": TensorParallel(LAYERS)}),
    )
    refused(
        "one dimension of mesh can be FullyShard, got fsdp and shard",
        lambda: planned({"fsdp": 2, "shard": 2}),
    )
    refused("names '.*', which no module of the program is called", lambda: planned(
        {"tp": 2}, strategies={"tp": TensorParallel({"blocks.*.left": "colwise"})}
    ))  # fmt: skip
    refused("divides 'blocks.0.up' column-wise, and no row-wise layer follows", lambda: planned(
        {"tp": 2}, strategies={"tp": TensorParallel({"*.up": "colwise"})}
    ))  # fmt: skip
    refused("divides 'blocks.0.down' row-wise, and no column-wise layer", lambda: planned(
        {"tp": 2}, strategies={"tp": TensorParallel({"*.down": "rowwise"})}
    ))  # fmt: skip
    refused("a pipeline of 5 ranks needs as many units", lambda: planned({"pp": 5}))
    refused("must be 'colwise' or 'rowwise', got 'sequence'", lambda: TensorParallel({"a": "sequence"}))
    refused("schedule must be '1f1b' or 'gpipe', got 'zero'", lambda: Pipeline(4, "zero"))
    small = Interconnect("small", Link("l", 0.0, 1.0), devices_per_node=2)
    refused(
        "mesh has 4 ranks on 2 nodes, and interconnect 'small'",
        lambda: planned({"dp": 4}, interconnect=small),
    )


def test_a_plan_of_a_mesh_prints_and_is_numbers() -> None:
    found = planned({"dp": 16}, interconnect="dgx_h100")
    lines = str(found).splitlines()
    assert lines[0] == "mesh of 16 ranks: dp 16 (DataParallel)"
    assert lines[1].split() == ["collective", "of", "a", "rank", "calls", "bytes", "sent", "us"]
    assert lines[2].startswith("dp: all_reduce, hierarchical")
    assert lines[3].startswith("predicted step on h100: ")
    assert lines[4].startswith("one device: ")
    assert lines[5].startswith(f"peak memory of each rank: {found.peak_bytes:,} bytes")
    assert json.loads(json.dumps(found.as_dict()))["mesh"] == {"dp": 16}
    assert found.as_dict()["collectives"][0]["bytes"] == nbytes(Model())


def test_what_does_not_fit_a_rank_is_said_and_what_fits_is_not() -> None:
    with tt.device("meta"):
        model = tt.nn.Sequential(
            *(tt.nn.Linear(1 << 16, 1 << 16, bias=False) for _ in range(4))
        )  # 16 GiB each
        x = tt.empty(1, 1 << 16)

    def program(model: Any, x: tt.Tensor) -> None:
        model(x).sum().backward()

    whole, parts = (
        tt.perf.plan(program, model, x, device="h100", mesh={"fsdp": ranks}, interconnect=NETWORK)
        for ranks in (1, 64)
    )
    assert whole.peak_bytes > 80e9 > parts.peak_bytes
    assert "does not fit: H100" in str(whole)
    assert "does not fit" not in str(parts)


def test_the_mesh_is_numbered_with_the_last_dimension_inside() -> None:
    eight = Interconnect("n", Link("a", 0.0, 1.0), Link("b", 0.0, 1.0), devices_per_node=8)
    found: Mesh = mesh_of({"dp": 4, "pp": 2, "fsdp": 4}, None, eight)
    assert [tuple(each.group) for each in found.dimensions] == [(1, 4), (2, 1), (4, 1)]
    assert [found.coordinate(13, name) for name in ("dp", "pp", "fsdp")] == [1, 1, 1]
