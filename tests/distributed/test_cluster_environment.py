"""Environment variables of schedulers and launchers give a process its rank, as their documentation says."""

import pytest

from triten.distributed.cluster_environment import cluster_environment, hosts_of
from triten.distributed.rendezvous import rendezvous

SRUN = {
    "SLURM_JOB_ID": "1234",
    "SLURM_STEP_ID": "1",
    "SLURM_PROCID": "3",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_NTASKS": "9",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_STEP_NODELIST": "gpu[07-09]",
    "SLURM_JOB_NODELIST": "gpu[01-09]",
}


@pytest.mark.parametrize(
    ("given", "launcher", "variables"),
    [
        (
            {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"},
            "mpich",
            {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"},
        ),
        (
            {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
            "openmpi",
            {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"},
        ),
        (
            SRUN,
            "slurm",
            {"RANK": "3", "WORLD_SIZE": "5", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
            | {"MASTER_ADDR": "gpu07", "MASTER_PORT": "16235"},
        ),
        (
            SRUN | {"PMIX_RANK": "3"},
            "pmix",
            {"RANK": "3", "WORLD_SIZE": "5", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
            | {"MASTER_ADDR": "gpu07", "MASTER_PORT": "16235"},
        ),
    ],
    ids=["mpich", "openmpi", "slurm", "pmix"],
)
def test_launchers_tell_a_process_its_place(given, launcher: str, variables) -> None:
    found = cluster_environment(given)
    assert (found.launcher, found.variables()) == (launcher, variables)
    assert found.starts_mpi == (launcher != "slurm")


def test_a_process_by_itself_has_no_place() -> None:
    assert cluster_environment({}) is None
    batch_script = {
        name: SRUN[name] for name in ("SLURM_JOB_ID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
    }
    assert cluster_environment(batch_script) is None


def test_what_is_no_number_is_told_of() -> None:
    with pytest.raises(ValueError, match="PMI_RANK: expected a number, but the environment has 'first'"):
        cluster_environment({"PMI_RANK": "first", "PMI_SIZE": "2"})


@pytest.mark.parametrize(
    ("nodes", "hosts"),
    [
        ("node", ["node"]),
        ("a,b-1.c", ["a", "b-1.c"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[098-101],m", ["n098", "n099", "n100", "n101", "m"]),
        ("r[1-2]n[1,3]", ["r1n1", "r1n3", "r2n1", "r2n3"]),
        ("", []),
    ],
)
def test_lists_of_hosts_are_expanded(nodes: str, hosts: list[str]) -> None:
    assert list(hosts_of(nodes)) == hosts


def test_a_list_that_is_none_is_told_of() -> None:
    with pytest.raises(
        ValueError, match=r"expected a list of hosts such as node\[01-03,7\], but got 'n\[a\]'"
    ):
        list(hosts_of("n[a]"))


def test_a_process_of_srun_meets_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the user's settings take precedence over the scheduler's."""
    for name in (
        "RANK",
        "WORLD_SIZE",
        "PMI_RANK",
        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",
        "TORCHELASTIC_USE_AGENT_STORE",
    ):
        monkeypatch.delenv(name, raising=False)
    for name, value in (SRUN | {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "0")
    store, rank, size = next(rendezvous("env://"))
    assert (store.host, rank, size) == ("127.0.0.1", 0, 1)
