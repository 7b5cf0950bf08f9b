"""Files that `tt.save` would not write, and a look at what a load must leave as it was."""

import collections
import functools
import io
import sys
import types
import zipfile

import pytest

import triten as tt
from triten import cuda
from triten.serialization import allowed_globals, rebuild

WATCHED = [
    *(
        tt.Tensor,
        type(tt.Tensor),
        tt.nn.Parameter,
        tt.nn.Buffer,
        tt.Size,
        tt.device,
        tt.dtype,
        tt.UntypedStorage,
    ),
    *(collections.OrderedDict, collections.Counter, allowed_globals, rebuild, tt, tt.nn, tt.serialization),
    *(rebuild.rebuild_tensor, rebuild.rebuild_from_type, tt.load, tt.relu),
]


def archive_of(pickled, storages=None, method=zipfile.ZIP_STORED, folder="archive", others=()):
    """Return the archive of a pickle, with the bytes of storages by key."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr(f"{folder}/data.pkl", pickled)
        for key, data in (storages or {}).items():
            archive.writestr(f"{folder}/data/{key}", data)
        for name, data in others:
            archive.writestr(name, data)
    return file.getvalue()


KERNELS = ("triten.cpu_fallback", "triten.dispatch")
"""What an operator's first call imports, whatever the file."""


def snapshot():
    state = [
        {name: value for name, value in vars(each).items() if not isinstance(value, types.ModuleType)}
        for each in WATCHED
    ]
    dtypes = [(each.name, each.itemsize, each.np) for each in (tt.float32, tt.int64, tt.complex64, tt.bool)]
    return state, dtypes, tt.serialization.get_safe_globals()


@functools.cache
def warm_up():
    """Save and load once: codecs are imported with their first use, and so are layers and devices."""
    tt.nn.Sequential(tt.nn.Linear(1, 1), tt.nn.BatchNorm1d(1))
    for protocol in (2, 4):
        file = io.BytesIO()
        tt.save([tt.ones(2), tt.nn.Parameter(tt.ones(1))], file, pickle_protocol=protocol)
        tt.load(io.BytesIO(file.getvalue()))
    cuda.device_count()


@pytest.fixture
def archive():
    return archive_of


@pytest.fixture
def unchanged():
    """Check that the test changes no class, function, dtype or module, and imports none."""
    warm_up()
    before, modules = snapshot(), set(sys.modules)
    yield
    assert snapshot() == before
    assert not [name for name in set(sys.modules) - modules if not name.startswith(KERNELS)]
