"""Clusters of thread blocks: distributed shared memory, the barrier of a cluster, and their misuse."""

from typing import Any

import numpy as np
import pytest

from triten.runtime.cuda.emulator.basic_blocks import UntranslatableError
from triten.runtime.cuda.emulator.fault import EmulationError

BARRIER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
PLACES = """
    mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %cluster_nctarank;
    mad.lo.s32 %r4, %r2, 64, %r0; mul.wide.u32 %d10, %r4, 4; add.s64 %d1, %d0, %d10;
    shl.b32 %r5, %r0, 2; mov.b32 %r6, global_smem; add.s32 %r5, %r6, %r5;
"""
"""The thread, the block's rank, and the thread's places in global and in shared memory."""
WRITE = "st.shared.b32 [%r5], %r4;"
NEXT = """
    add.s32 %r7, %r1, 1; rem.u32 %r7, %r7, %r3;
    mapa.shared::cluster.u32 %r8, %r5, %r7;
"""
"""The thread's place in the shared memory of the next block of the cluster."""
READ = "ld.shared::cluster.b32 %r9, [%r8];"
STORE = "st.global.b32 [%d1], %r9;"
SHARED = 256


def options(cluster: int, clusters: int = 3) -> dict[str, Any]:
    head = f".explicitcluster\n.reqnctapercluster {cluster}"
    grid = (clusters * cluster, 1, 1)
    return {"grid": grid, "threads": 64, "shared": SHARED, "cluster": cluster, "head": head}


def refused(machine: Any, match: str, body: str, cluster: int = 2) -> str:
    out = machine.empty(4 * 64 * 3 * cluster)
    with pytest.raises(EmulationError, match=match) as caught:
        machine.run(body, out, **options(cluster))
    return str(caught.value)


@pytest.mark.parametrize("cluster", [1, 2, 8])
def test_blocks_read_their_neighbours_shared_memory(machine: Any, cluster: int) -> None:
    out = machine.empty(4 * 64 * 3 * cluster)
    machine.run(PLACES + WRITE + BARRIER + NEXT + READ + BARRIER + STORE, out, **options(cluster))
    found = machine.get(out, (3, cluster, 64), np.uint32)
    own = np.arange(found.size, dtype=np.uint32).reshape(found.shape)
    assert (found == np.roll(own, -1, 1)).all()


def test_a_wave_holds_whole_clusters(machine: Any) -> None:
    out = machine.empty(4 * 96 * 8 * 40)
    body = PLACES.replace("%r2, 64", "%r2, 96") + WRITE + BARRIER + NEXT + READ + BARRIER + STORE
    machine.run(body, out, **options(8, 40) | {"threads": 96, "shared": 384})
    found = machine.get(out, (40, 8, 96), np.uint32)
    assert (found == np.roll(np.arange(found.size, dtype=np.uint32).reshape(found.shape), -1, 1)).all()


def test_blocks_that_diverge_meet_at_the_barrier_of_their_cluster(machine: Any) -> None:
    body = (
        PLACES
        + "setp.eq.u32 %p1, %r1, 0; @%p1 bra FIRST;"
        + "add.s32 %r4, %r4, 1000;"
        + WRITE
        + BARRIER
        + "bra.uni NEXT;\nFIRST:\n"
        + WRITE
        + BARRIER
        + "\nNEXT:\n"
        + NEXT
        + READ
        + BARRIER
        + STORE
    )
    out = machine.empty(4 * 64 * 6)
    machine.run(body, out, **options(2))
    found = machine.get(out, (3, 2, 64), np.uint32)
    own = np.arange(found.size, dtype=np.uint32).reshape(found.shape)
    own[:, 1] += 1000
    assert (found == own[:, ::-1]).all()


def test_special_registers(machine: Any) -> None:
    names = ("cluster_ctarank", "cluster_nctarank", "clusterid.x", "nclusterid.x", "nctaid.x")
    for name, expected in zip(
        names, ([0, 1] * 3, [2] * 6, [0, 0, 1, 1, 2, 2], [3] * 6, [6] * 6), strict=True
    ):
        out = machine.empty(4 * 64 * 6)
        machine.run(PLACES + f"mov.u32 %r9, %{name};" + STORE, out, **options(2))
        assert machine.get(out, (6, 64), np.uint32)[:, 5].tolist() == expected


def test_the_barrier_orders_global_memory_of_a_cluster(machine: Any) -> None:
    other = "xor.b32 %r10, %r2, 1; mad.lo.s32 %r10, %r10, 64, %r0; mul.wide.u32 %d11, %r10, 4; add.s64 %d2, %d0, %d11;"
    body = PLACES + "st.global.b32 [%d1], %r4;" + BARRIER + other + "ld.global.b32 %r9, [%d2];"
    machine.run(body, machine.empty(4 * 64 * 6), **options(2))
    refused(machine, "in no order", body.replace(BARRIER, "bar.sync 0;"))


def test_races_between_blocks_of_a_cluster(machine: Any) -> None:
    """Find each missing barrier of the cluster: before a read, before the next write, and before the end."""
    whole = PLACES + WRITE + BARRIER + NEXT + READ + BARRIER + WRITE + STORE
    machine.run(whole, machine.empty(4 * 64 * 6), **options(2))
    early = PLACES + WRITE + "bar.sync 0;" + NEXT + READ + BARRIER + STORE
    message = refused(machine, "another block of the cluster are read and were written by its warp", early)
    assert "without a barrier of the cluster in between" in message and "(ld.shared::cluster.b32)" in message
    late = PLACES + WRITE + BARRIER + NEXT + READ + "bar.sync 0;" + WRITE + BARRIER + STORE
    assert "(st.shared.b32)" in refused(machine, "which another block of the cluster has read", late)
    refused(
        machine,
        "the block ends, and another block of the cluster",
        PLACES + WRITE + BARRIER + NEXT + READ + STORE,
    )
    refused(machine, "never written", PLACES + BARRIER + NEXT + READ + BARRIER + STORE)


def test_blocks_that_end_first(machine: Any) -> None:
    """Wait only for threads that have not ended (PTX ISA, ``barrier.cluster``)."""
    once = PLACES + "setp.eq.u32 %p1, %r1, 1; @%p1 bra ON;" + BARRIER + "\nON:\nbar.sync 0;" + BARRIER
    machine.run(once, machine.empty(4 * 64 * 6), **options(2))
    gone = PLACES + WRITE + BARRIER + NEXT + "setp.eq.u32 %p1, %r1, 1; @%p1 ret;" + READ + STORE
    refused(machine, "from block 1 of the cluster, which has ended|the block ends", gone)


def test_a_rank_outside_of_the_cluster(machine: Any) -> None:
    refused(machine, "mapa to block 7 of a cluster of 2", PLACES + "mapa.shared::cluster.u32 %r8, %r5, 7;")


def test_what_is_not_emulated_is_refused(machine: Any) -> None:
    out = machine.empty(4 * 64 * 6)
    for body in (
        PLACES + NEXT + "st.shared::cluster.b32 [%r8], %r4;",
        PLACES + "barrier.cluster.arrive.aligned;" + WRITE + "barrier.cluster.wait.aligned;",
        PLACES + "barrier.cluster.wait.aligned;",
        "mbarrier.init.shared::cta.b64 [global_smem], 1;",
    ):
        with pytest.raises(
            UntranslatableError, match=r"is not emulated|is emulated only if|are not emulated"
        ):
            machine.run(body, out, **options(2))
