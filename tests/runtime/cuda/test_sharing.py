"""GPU storages in other processes: names and leases, with a driver that opens its own memory."""

import gc
import os

import pytest

import triten as tt
from triten.runtime.cuda import sharing
from triten.runtime.cuda.driver import driver


@pytest.fixture
def opened(monkeypatch):
    """Make the driver export and open addresses, and return the list of open ones."""
    found = []
    cuda = driver()
    if type(cuda).__name__ != "InterpreterDriver":
        pytest.skip("a GPU opens no memory of its own process")

    def open_memory(device, name):
        found.append(int(name))
        return int(name)

    monkeypatch.setattr(cuda, "export_memory", lambda device, address: str(address).encode())
    monkeypatch.setattr(cuda, "import_memory", open_memory)
    monkeypatch.setattr(cuda, "close_memory", lambda device, address: found.remove(address))
    yield found
    sharing._known.clear()
    gc.collect()
    sharing.ipc_collect()
    assert sharing.leases() == [] and found == []


def test_in_its_own_process_a_storage_is_itself(opened):
    storage = tt.ones(4, device="cuda").untyped_storage()
    assert sharing.import_storage(sharing.export_storage(storage)) is storage and not opened
    sharing.ipc_collect()
    assert sharing.leases() == []


def test_another_process_sees_the_bytes_and_keeps_them(opened):
    x = tt.arange(4.0, device="cuda")
    handles = [sharing.export_storage(x.untyped_storage()) for _ in range(2)]
    sharing._known.clear()  # as in a process that did not make it
    storages = [sharing.import_storage(handle) for handle in handles]
    assert storages[0] is storages[1] and len(opened) == 1
    y = tt.empty(0, device="cuda").set_(storages[0], 0, (4,), (1,))
    assert y.tolist() == [0, 1, 2, 3]
    y.fill_(7)
    assert x.tolist() == [7, 7, 7, 7]
    with pytest.raises(RuntimeError, match="not resizable"):
        storages[0].resize_(1000)
    root = x.untyped_storage().root
    del x
    sharing.ipc_collect()
    assert sharing.leases() == [root]
    del y, storages, root
    sharing._known.clear()
    gc.collect()
    sharing.ipc_collect()
    assert sharing.leases() == [] and not opened


def test_a_process_that_dies_gives_its_lease_up(opened):
    handle = sharing.export_storage(tt.ones(4, device="cuda").untyped_storage())
    sharing.ipc_collect()
    assert len(sharing.leases()) == 1
    os.close(handle.lease)
    sharing.ipc_collect()
    assert sharing.leases() == []


def test_an_empty_storage_has_no_name(opened):
    storage = sharing.import_storage(sharing.export_storage(tt.empty(0, device="cuda").untyped_storage()))
    assert storage.nbytes() == 0 and storage.device.type == "cuda"


def test_simulated_devices_belong_to_one_process():
    if type(driver()).__name__ != "InterpreterDriver":
        pytest.skip("a GPU exports its memory")
    with pytest.raises(RuntimeError, match="simulated devices belong to one process"):
        sharing.export_storage(tt.ones(4, device="cuda").untyped_storage())
    assert sharing.leases() == []
