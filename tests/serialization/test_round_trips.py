"""Files of tensors: as they were saved, from PyTorch and for PyTorch, and nothing else unless it is asked for."""

import copy
import io
import os
import pickle
import types
import zipfile
from collections import Counter, OrderedDict

import pytest

import triten as tt
from triten import _utils
from triten.serialization.archive import ArchiveReader

DTYPES = [
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128"),
    *("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool"),
]


def saved(value, library=tt):
    file = io.BytesIO()
    library.save(value, file)
    return file.getvalue()


def loaded(data, library=tt, **options):
    return library.load(io.BytesIO(data), **options)


def again(value, writer=tt, reader=tt, **options):
    return loaded(saved(value, writer), reader, **options)


def bits(tensor):
    return tensor.view(tt.uint8).tolist()


def values():
    base = tt.arange(12.0).reshape(3, 4)
    return OrderedDict(
        base=base,
        part=base[1:, ::2],
        turned=base.t(),
        parameter=tt.nn.Parameter(tt.ones(2), requires_grad=False),
        leaf=tt.ones(2, requires_grad=True),
        empty=tt.zeros(0, 3),
        scalar=tt.tensor(3),
        others=[1, 2.5, "text", (True, None), {"k": {1}}, base.shape, tt.float16, tt.device("cuda:1")],
    )


def check(found, library):
    expected = values()
    assert list(found) == list(expected)
    for name, value in expected.items():
        if name == "others":
            *plain, size, dtype, device = found[name]
            assert plain == value[:-3] and tuple(size) == (3, 4) and type(size) is library.Size
            assert dtype is library.float16 and device == library.device("cuda:1")
            continue
        got = found[name]
        assert got.tolist() == value.tolist() and tuple(got.stride()) == tuple(value.stride()), name
        assert got.requires_grad == value.requires_grad and type(got).__name__ == type(value).__name__, name
    with library.no_grad():
        found["base"][1, 0] = 99
    assert found["part"][0, 0].item() == found["turned"][0, 1].item() == 99


def test_values_layouts_and_shared_memory():
    check(again(values()), tt)


def test_pytorch_reads_what_is_written():
    torch = pytest.importorskip("torch")
    check(again(values(), tt, torch), torch)


def test_what_pytorch_writes_is_read():
    torch = pytest.importorskip("torch")
    check(again(again(values(), tt, torch), torch, tt), tt)


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name):
    tensor = tt.tensor([0, 1, 2, 3]).to(getattr(tt, name))
    found = again(tensor)
    assert found.dtype is tensor.dtype and bits(found) == bits(tensor)


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_beside_pytorch(name):
    torch = pytest.importorskip("torch")
    theirs = torch.arange(4).to(getattr(torch, name))
    ours = again(theirs, torch, tt)
    assert ours.dtype is getattr(tt, name)
    back = again(ours, tt, torch)
    assert back.dtype is theirs.dtype and torch.equal(back.view(torch.uint8), theirs.view(torch.uint8))


def test_states_of_modules_and_optimizers_go_both_ways():
    torch = pytest.importorskip("torch")
    made = []
    for library in (tt, torch):
        net = library.nn.Sequential(library.nn.Linear(3, 2), library.nn.BatchNorm1d(2))
        optimizer = library.optim.Adam(net.parameters())
        net(library.randn(4, 3)).sum().backward()
        optimizer.step()
        made.append((library, net, optimizer))
    for (source, net, optimizer), (target, other, second) in (made, made[::-1]):
        other.load_state_dict(again(net.state_dict(), source, target))
        second.load_state_dict(again(optimizer.state_dict(), source, target))
        x = [[1.0, 2.0, 3.0]]
        first = net.eval()(source.tensor(x)).tolist()
        assert other.eval()(target.tensor(x)).tolist() == [pytest.approx(row) for row in first]


class Scaled(tt.Tensor):
    """A class with attributes."""


class Trained(tt.nn.Parameter):
    """A class of parameters."""


def with_attributes():
    parameter, scaled = tt.nn.Parameter(tt.ones(2)), tt.ones(2).as_subclass(Scaled)
    trained = Trained(tt.ones(1), requires_grad=False)
    for value in (parameter, scaled, trained):
        value.tag = {"of": [1]}
    return {
        "parameter": parameter,
        "scaled": scaled,
        "leaf": tt.ones(2, requires_grad=True).as_subclass(Scaled).detach().requires_grad_(),
        "trained": trained,
        "buffer": tt.nn.Buffer(tt.zeros(1), persistent=False),
        "meta": tt.ones(2, 3, device="meta", requires_grad=True),
    }


def check_attributes(found, library, scaled, trained):
    assert [type(found[name]) for name in ("parameter", "scaled", "leaf", "trained")] == [
        *(library.nn.Parameter, scaled, scaled, trained)
    ]
    assert all(found[name].tag == {"of": [1]} for name in ("parameter", "scaled", "trained"))
    assert [found[name].requires_grad for name in found] == [True, False, True, False, False, True]
    assert isinstance(found["buffer"], library.nn.Buffer) and found["buffer"].persistent is False
    assert found["meta"].is_meta and tuple(found["meta"].shape) == (2, 3)


class Slotted(tt.Tensor):
    __slots__ = ("rows", "unset")


def slotted():
    made = tt.ones(2).as_subclass(Slotted)
    made.rows, made.note = [tt.zeros(1)], "text"
    return made


@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_slots_of_a_class(legacy, weights_only):
    data = io.BytesIO()
    tt.save(slotted(), data, _use_new_zipfile_serialization=not legacy)
    data.seek(0)
    with tt.serialization.safe_globals([Slotted]):
        found = tt.load(data, weights_only=weights_only)
    assert type(found) is Slotted and found.tolist() == [1, 1]
    assert found.rows[0].tolist() == [0] and found.note == "text" and not hasattr(found, "unset")


def test_a_file_names_only_slots_of_the_class(monkeypatch):
    data = io.BytesIO()
    tt.save(slotted(), data)
    data.seek(0)
    monkeypatch.setattr(Slotted, "__slots__", ("unset",))
    with (
        tt.serialization.safe_globals([Slotted]),
        pytest.raises(Exception, match="Slotted has no slot 'rows'"),
    ):
        tt.load(data)


def test_a_file_is_whole_before_it_is_closed(tmp_path):
    path = tmp_path / "open.pt"
    for legacy in (True, False):
        with open(path, "wb") as file:
            tt.save(tt.arange(3), file, _use_new_zipfile_serialization=not legacy)
            assert tt.load(path).tolist() == [0, 1, 2]


def test_names_that_pytorch_has():
    """So that PyTorch reads classes of tensors too."""
    names = tt.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(saved(with_attributes())))
    assert names == [f"{kind.__module__}.{kind.__qualname__}" for kind in (Scaled, Trained)]
    pickled = zipfile.ZipFile(io.BytesIO(saved(with_attributes()))).read("archive/data.pkl")
    assert b"triten" not in pickled.replace(Scaled.__module__.encode(), b"")


@pytest.mark.parametrize("protocol", range(1, 6))
def test_classes_and_attributes(protocol):
    file = io.BytesIO()
    tt.save(with_attributes(), file, pickle_protocol=protocol)
    with tt.serialization.safe_globals([Scaled, Trained]):
        check_attributes(loaded(file.getvalue()), tt, Scaled, Trained)
    check_attributes(loaded(file.getvalue(), weights_only=False), tt, Scaled, Trained)


def test_classes_and_attributes_go_both_ways():
    torch = pytest.importorskip("torch")
    scaled, trained = type("Scaled", (torch.Tensor,), {}), type("Trained", (torch.nn.Parameter,), {})
    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in (Scaled, Trained)]
    with torch.serialization.safe_globals([*zip((scaled, trained), names, strict=True)]):
        there = again(with_attributes(), tt, torch)
        check_attributes(there, torch, scaled, trained)
    parameter = again({"p": there["parameter"], "b": there["buffer"], "m": there["meta"]}, torch, tt)
    assert (
        parameter["p"].tag == {"of": [1]} and type(parameter["b"]) is tt.nn.Buffer and parameter["m"].is_meta
    )


def test_attributes_of_a_state_dict():
    state = tt.nn.Sequential(tt.nn.Linear(1, 1), tt.nn.BatchNorm1d(1)).state_dict()
    assert again(state)._metadata == state._metadata


def test_modules_that_wait_for_an_input():
    state = again(tt.nn.LazyLinear(2).state_dict())
    assert tt.nn.parameter.is_lazy(state["weight"])


@pytest.mark.filterwarnings("ignore:Named tensors")
def test_names_of_dimensions():
    tensor = tt.ones(2, 3, names=("rows", None))
    assert again(tensor).names == ("rows", None)


def test_a_dtype_of_the_user():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = getattr(tt, "float4_saved", None) or tt.library.register_dtype(
        "float4_saved", ml_dtypes.float4_e2m1fn
    )
    assert again([dtype])[0] is dtype
    tensor = tt.tensor([0.5, 1.0], dtype=dtype)
    assert again(tensor).dtype is dtype and again(tensor).to(tt.float32).tolist() == [0.5, 1.0]


def test_a_parameter_keeps_its_attributes_in_a_pickle():
    parameter = tt.nn.Parameter(tt.ones(2), requires_grad=False)
    parameter.tag = 5
    for protocol in range(2, 6):
        found = pickle.loads(pickle.dumps([parameter], protocol))[0]
        assert found.tag == 5 and not found.requires_grad and type(found) is tt.nn.Parameter


def test_storages():
    x = tt.arange(4, dtype=tt.uint8)
    storage, found = again([x.untyped_storage(), x])
    assert isinstance(storage, tt.UntypedStorage) and storage.nbytes() == 4
    assert found.untyped_storage() is storage


@pytest.mark.parametrize("other", ["view", "untyped", "typed"])
def test_one_memory_with_two_dtypes_is_refused(other):
    x = tt.arange(4, dtype=tt.int32)
    also = {
        "view": lambda: x.view(tt.float32),
        "untyped": x.untyped_storage,
        "typed": lambda: x.view(tt.int16).storage(),
    }
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        again([x, also[other]()])


def test_attributes_of_a_plain_tensor_pass_between_pytorch_and_here():
    torch = pytest.importorskip("torch")
    for writer, reader in ((torch, tt), (tt, torch)):
        tensor = writer.ones(2)
        tensor.tag = 1
        found = again(tensor, writer, reader)
        assert found.tolist() == [1, 1] and found.tag == 1


def test_conjugated_and_negated_tensors_of_pytorch():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1 + 2j, 3 - 1j])
    values = [x.conj(), x.clone().conj().imag, x[:1].expand(2, 3).conj()]
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        file = io.BytesIO()
        torch.save(values, file, **options)
        found = loaded(file.getvalue())
        assert [each.tolist() for each in found] == [each.tolist() for each in values]


def test_a_path_names_the_archive(tmp_path):
    path = tmp_path / "weights.pt"
    tt.save(tt.ones(3), path)
    with zipfile.ZipFile(path) as archive:
        assert "weights/data.pkl" in archive.namelist()
        offsets = [
            info.header_offset + 30 + len(info.filename) + len(info.extra) for info in archive.infolist()
        ]
    assert all(offset % 64 == 0 for offset in offsets)
    assert tt.load(str(path)).tolist() == [1.0] * 3


@pytest.mark.parametrize(
    ("location", "device"),
    [
        (None, "cuda:1"),
        ("cpu", "cpu"),
        (tt.device("meta"), "meta"),
        ({"cuda:1": "cuda:0"}, "cuda:0"),
        (lambda storage, location: storage if location == "cuda:1" else None, "cpu"),
        (lambda storage, location: None, "cuda:1"),
    ],
)
def test_where_tensors_go(location, device):
    pytest.importorskip("triton", reason="triton has no wheel for this platform")
    data = saved(tt.arange(3, device="cuda:1"))
    found = loaded(data, map_location=location)
    assert str(found.device) == device and found.shape == (3,)
    if device != "meta":
        assert found.tolist() == [0, 1, 2]


class Point:
    def __init__(self, x):
        self.x = x


def test_only_weights_unless_the_file_is_trusted():
    data = saved({"point": Point(3), "weight": tt.ones(1)})
    with pytest.raises(
        pickle.UnpicklingError, match=r"Weights only load failed. .*Point was not an allowed global"
    ):
        loaded(data)
    assert loaded(data, weights_only=False)["point"].x == 3
    with tt.serialization.safe_globals([Point]):
        assert loaded(data)["point"].x == 3
    assert tt.serialization.get_safe_globals() == []


def test_no_function_is_called():
    class Calls:
        def __reduce__(self):
            return print, ("called",)

    with pytest.raises(pickle.UnpicklingError, match=r"Weights only load failed. .*print"):
        loaded(saved([Calls()]))


PLAIN = [
    b"",
    bytearray(),
    b"bytes \x00\xff",
    bytearray(b"more"),
    2 - 1j,
    Counter("aab"),
    {1, 2},
    1 << 70,
    None,
    "text",
    (1.5, True),
]


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_plain_values_count_as_weights(value):
    assert again(value) == value and type(again(value)) is type(value)


def test_plain_values_and_layouts_go_both_ways():
    torch = pytest.importorskip("torch")
    assert again(PLAIN, tt, torch) == again(PLAIN, torch, tt) == PLAIN
    assert again([tt.strided, tt.sparse_coo], tt, torch) == [torch.strided, torch.sparse_coo]
    assert again([torch.strided, torch.sparse_coo], torch, tt) == [tt.strided, tt.sparse_coo]


def test_a_module_is_loaded_whole_from_a_file_that_is_trusted():
    net = tt.nn.Sequential(tt.nn.Linear(2, 2), tt.nn.ReLU())
    found = again(net, weights_only=False)
    assert repr(found) == repr(net) and tt.equal(found[0].weight, net[0].weight)


def test_paths_and_what_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        tt.load(tmp_path / "none.pt")
    with pytest.raises(IsADirectoryError):
        tt.load(str(tmp_path))
    with pytest.raises(
        AttributeError, match=r"has no attribute 'seek'\. You can only torch\.load from a file"
    ):
        tt.load(5)
    with pytest.raises(RuntimeError, match=r"Parent directory .*none does not exist\."):
        tt.save(1, tmp_path / "none" / "file.pt")


@pytest.mark.parametrize("weights_only", [True, False])
def test_typed_storages(weights_only):
    x = tt.arange(3.0)
    storage, tensor, empty = loaded(
        saved([x.storage(), x, tt.storage.ShortStorage()]), weights_only=weights_only
    )
    assert isinstance(storage, tt.storage.FloatStorage) and isinstance(empty, tt.storage.ShortStorage)
    storage[0] = 7
    assert tensor.tolist() == [7.0, 1.0, 2.0]
    over = loaded(saved(x.storage()), map_location="meta", weights_only=weights_only)
    assert over.device.type == "meta" and over.size() == 3


class Marker:
    """Object that a pickle module of this test replaces."""


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("base", [vars(pickle)["_Pickler"], pickle.Pickler], ids=["python", "c"])
def test_other_pickle_modules(base, zipped):
    class Pickler(base):
        def reducer_override(self, obj):
            return (str, ("marked",)) if type(obj) is Marker else NotImplemented

    class Unpickler(pickle.Unpickler):
        def find_class(self, module, name):
            found = super().find_class(module, name)
            return str.upper if found is str else found

    module = types.SimpleNamespace(Pickler=Pickler, Unpickler=Unpickler)
    file = io.BytesIO()
    tt.save([Marker(), tt.ones(2), tt.float32], file, module, _use_new_zipfile_serialization=zipped)
    name, x, dtype = loaded(file.getvalue(), pickle_module=module, weights_only=False)
    assert name == "MARKED" and x.tolist() == [1.0, 1.0] and dtype is tt.float32


def test_errors_of_mapped_files_name_the_way_out(tmp_path):
    path = tmp_path / "file"
    tt.save([tt.ones(1000)], path)
    with path.open("rb") as file:
        archive = ArchiveReader(file, True)
        os.truncate(path, 2000)
        with pytest.raises(RuntimeError, match=r"ends within record 'data/0'; .* with mmap=False"):
            archive.mapped("data/0")
    tt.save([tt.ones(3)], path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match=r"in order to use mmap\. Load this file with mmap=False"):
        tt.load(path, mmap=True)
    assert tt.load(path, mmap=False)[0].tolist() == [1.0, 1.0, 1.0]


def test_refusals(tmp_path):
    with pytest.raises(RuntimeError, match="a zip archive is expected"):
        loaded(b"no archive")
    with pytest.raises(ValueError, match="f must be a file path"):
        loaded(saved(1), mmap=True)
    with pytest.raises(TypeError, match="'pickle_module' must have a class Pickler"):
        tt.save(1, io.BytesIO(), pickle_module=io)
    with pytest.raises(TypeError, match="'pickle_module' must have a class Unpickler"):
        loaded(saved(1), pickle_module=io, weights_only=False)
    with pytest.raises(RuntimeError, match="Can not safely load weights"):
        loaded(saved(1), pickle_module=pickle, weights_only=True)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("something/else", b"")
    with pytest.raises(RuntimeError, match=r"no data\.pkl"):
        loaded(file.getvalue())


@pytest.mark.parametrize("location", [5, 1.5, [1]])
def test_what_is_no_map_location(location):
    with pytest.raises(TypeError, match=f"'map_location' must be .* not {type(location).__name__}"):
        loaded(saved(tt.ones(1)), map_location=location)


def test_a_map_location_gives_storages():
    x = tt.zeros(3)
    found = loaded(saved(tt.ones(3)), map_location=lambda storage, location: x)
    assert found.untyped_storage() is x.untyped_storage()
    with pytest.raises(TypeError, match="must return a storage or None, not int"):
        loaded(saved(tt.ones(1)), map_location=lambda storage, location: 5)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 4"):
        loaded(saved(tt.ones(3)), map_location=lambda storage, location: tt.zeros(1))


@pytest.mark.parametrize("location", ["nowhere", "mps", "cuda:x", "x" * 5000])
def test_devices_that_are_not_there(location):
    with pytest.raises(
        RuntimeError, match=r"don't know how to restore data location of triten\.UntypedStorage"
    ):
        loaded(saved(tt.ones(1)), map_location=location)


def test_a_file_that_cannot_seek():
    class Pipe(io.BytesIO):
        def seek(self, *args):
            raise io.UnsupportedOperation("seek")

    with pytest.raises(io.UnsupportedOperation, match="You can only load from a file that is seekable"):
        tt.load(Pipe(saved(1)))


def test_deep_copies_of_tensors_and_typed_storages_share_memory():
    x = tt.ones(3)
    tensor, (first, second) = copy.deepcopy([x, [x.storage(), x.view(3).storage()]])
    tensor.fill_(9)
    assert list(first) == list(second) == [9, 9, 9] and x.tolist() == [1, 1, 1]


class Reduced:
    """Object that pickles as a call of a function."""

    def __init__(self, function, args):
        self.call = function, args

    def __reduce_ex__(self, protocol):
        return self.call


def test_functions_that_rebuild_may_be_called_by_a_file():
    x = tt.eye(3)
    csr, coo = x.to_sparse_csr(), x.to_sparse()
    storage = tt.arange(6.0)._typed_storage()
    calls = [
        (
            _utils._rebuild_tensor_v2,
            (storage, 2, (2, 2), (2, 1), True, OrderedDict()),
            tt.tensor([[2.0, 3], [4, 5]]),
        ),
        (_utils._rebuild_parameter, (x, True, OrderedDict()), x),
        (_utils._rebuild_sparse_tensor, (coo.layout, (coo._indices(), coo._values(), coo.size())), x),
        (
            _utils._rebuild_sparse_tensor,
            (csr.layout, (csr.crow_indices(), csr.col_indices(), csr.values(), csr.size())),
            x,
        ),
    ]
    for function, args, expected in calls:
        found = again(Reduced(function, args))
        assert found.to_dense().equal(expected) and found.layout is function(*args).layout
    for function, (layout, (first, *rest)), _ in calls[2:]:
        with pytest.raises(
            RuntimeError, match=r"size is inconsistent with indices|`crow_indices\[..., 0\] == 0`"
        ):
            again(Reduced(function, (layout, (first + 3, *rest))))
        with pytest.raises(
            RuntimeError, match=r"size is inconsistent with indices|`crow_indices\[..., 0\] == 0`"
        ):
            function(layout, (first + 3, *rest))


def test_a_write_that_cannot_be_called_is_refused():
    class File:
        write = "text"

    with pytest.raises(TypeError, match="'write' attribute of 'f' must be callable, got str"):
        tt.save("foo", File())
    with pytest.raises(AttributeError, match="got Tensor"):
        tt.save("foo", tt.ones(1))
