"""Methods of PyTorch's first versions, and typed storages."""

import copy
import warnings

import pytest

import triten as tt
from triten.dispatch.methods import typed_storage
from triten.storage import TypedStorage, UntypedStorage


@pytest.fixture(autouse=True)
def nothing_told():
    typed_storage._told.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_a_storage_has_the_tensor_s_elements_and_bytes(device):
    x = tt.arange(4.0, device=device)[1:]
    storage = x.storage()
    assert (storage.size(), len(storage), storage.nbytes(), storage.element_size()) == (4, 4, 16, 4)
    assert storage.dtype is tt.float32 and storage.device == x.device and storage.is_cuda == x.is_cuda
    storage[1] = 7
    storage[2:] = 5
    assert x.tolist() == [7.0, 5.0, 5.0] and storage.tolist() == list(storage) == [0.0, 7.0, 5.0, 5.0]
    assert storage.data_ptr() == x.untyped_storage().data_ptr() and storage[-1] == 5.0
    assert storage.fill_(1) is storage and x.tolist() == [1.0, 1.0, 1.0]
    assert isinstance(storage.untyped(), UntypedStorage)


def test_the_warning_is_given_once():
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        tt.ones(1).storage()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tt.ones(1).storage()


def test_classes_of_one_dtype_are_names():
    made = tt.storage.FloatStorage([1, 2, 3])
    assert type(made) is TypedStorage and isinstance(made, tt.storage.FloatStorage)
    assert not isinstance(made, tt.storage.DoubleStorage) and issubclass(tt.storage.IntStorage, TypedStorage)
    assert tt.storage.HalfStorage.dtype is tt.float16 and tt.storage.BFloat16Storage(3).size() == 3
    assert made.type() == "triten.FloatStorage" and made.pickle_storage_type() == "FloatStorage"
    assert made.type("triten.IntStorage").dtype is tt.int32 and made.type(
        tt.storage.LongStorage
    ).tolist() == [1, 2, 3]
    assert made.double().dtype is tt.float64 and made.float() is not made and made.type(tt.float32) is made
    assert tt.ones(1, dtype=tt.int8).storage_type() is tt.storage.CharStorage


def test_copies_and_sizes():
    storage = TypedStorage([1.0, 2.0], dtype=tt.float32)
    twin = copy.deepcopy(storage)
    twin[0] = 9
    assert storage.tolist() == [1.0, 2.0] and storage.copy_(twin).tolist() == [9.0, 2.0]
    assert storage.resize_(3).size() == 3 and storage[0] == 9.0 and storage.cpu() is storage
    assert TypedStorage(dtype=tt.int16).size() == 0
    over = TypedStorage(wrap_storage=tt.ones(2).untyped_storage(), dtype=tt.int32)
    assert over.tolist() == [0x3F800000] * 2
    assert repr(twin).endswith("[triten.storage.TypedStorage(dtype=triten.float32, device=cpu) of size 2]")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s[9], IndexError, "index 9 out of range for storage of size 2"),
        (lambda s: s["a"], TypeError, "can't index a .*TypedStorage"),
        (lambda s: s[0:1], RuntimeError, "slices are only supported in UntypedStorage"),
        (lambda s: s.copy_(TypedStorage(3)), RuntimeError, "self was 8 bytes but src was 12 bytes"),
        (lambda s: tt.storage.FloatStorage(2, dtype=tt.float32), RuntimeError, "cannot be specified"),
        (lambda s: TypedStorage(1, 2), RuntimeError, "expected one argument by position"),
        (lambda s: TypedStorage("ab"), TypeError, "expected a size or a sequence of elements, got str"),
        (lambda s: TypedStorage(wrap_storage=s.untyped()), RuntimeError, "'dtype' must be given"),
        (
            lambda s: TypedStorage(wrap_storage=s, dtype=tt.int8),
            TypeError,
            "must be UntypedStorage, got TypedStorage",
        ),
    ],
)
def test_what_storages_refuse(call, error, message):
    with pytest.raises(error, match=message):
        call(TypedStorage(2))


@pytest.mark.parametrize(
    "make",
    [
        lambda storage: tt.empty(0).set_(storage),
        lambda storage: tt.empty(0).set_(storage, 0, (3,), (1,)),
        lambda storage: tt.ones(1).new(storage),
        lambda storage: tt.FloatTensor(storage),
        lambda storage: tt.FloatTensor(storage=storage),
        lambda storage: tt.Tensor(storage),
        lambda storage: tt.tensor(storage, dtype=tt.float32),
        lambda storage: tt.as_tensor(storage, dtype=tt.float32),
        lambda storage: tt.asarray(storage, dtype=tt.float32),
    ],
)
def test_tensors_over_storages(make):
    x = tt.arange(3.0)
    for storage in (x.storage(), x.untyped_storage()):
        made = make(storage)
        assert made.tolist() == [0.0, 1.0, 2.0] and made.data_ptr() == x.data_ptr()
    with pytest.raises(RuntimeError, match=r"Expected a Storage of type Float .* but got type Double"):
        make(x.double().storage())


def test_quantized_storages_hold_integers():
    made = tt.storage.QInt32Storage([1, 2])
    assert made.dtype is tt.qint32 and made.tolist() == [1, 2] and made.fill_(3)[1] == 3
    assert tt.quantize_per_tensor(tt.ones(2), 0.5, 0, tt.qint8).storage().tolist() == [2, 2]


def test_storages_over_files(tmp_path):
    path = tmp_path / "elements"
    storage = tt.storage.FloatStorage.from_file(path, True, 5)
    storage[4] = 2.5
    assert len(storage) == 5 and storage.filename == str(path)
    assert tt.storage.FloatStorage.from_file(path, False, 5).tolist() == [0, 0, 0, 0, 2.5]
    with pytest.raises(RuntimeError, match="derived classes"):
        TypedStorage.from_file(path, True, 5)


def test_newer_dtypes_have_no_legacy_class():
    storage = TypedStorage(2, dtype=tt.uint16)
    assert (
        storage.type() == "triten.storage.TypedStorage" and tt.ones(1, dtype=tt.uint16).storage_type() is None
    )
    with pytest.raises(KeyError, match="uint16 is not recognized"):
        storage.pickle_storage_type()


def test_a_parameter_says_how_it_takes_another_s_values():
    x, y = tt.zeros(2), tt.ones(2)
    loaded = x.module_load(y)
    assert x.tolist() == [1.0, 1.0] and loaded is not x and loaded.data_ptr() == x.data_ptr()
    assert x.module_load(y, assign=True).data_ptr() == y.data_ptr()
    with pytest.raises(RuntimeError, match="size"):
        x.module_load(tt.ones(3))


def test_removed_methods_name_those_of_today():
    with pytest.raises(RuntimeError, match=r"`tt.solve` is deprecated in favor of `tt\.linalg\.solve`"):
        tt.ones(2, 2).solve(tt.ones(2, 2))
    with pytest.raises(RuntimeError, match=r"Tensor\.xpu: triten has no kernels for Intel's GPUs"):
        tt.ones(1).xpu()


def test_other_sizes_and_questions():
    x = tt.ones(2, 2)
    with pytest.warns(UserWarning, match="non-inplace resize is deprecated"):
        assert x.resize(4).shape == (4,) and x.resize_as(tt.ones(1, 4)).shape == (1, 4)
    assert x.name is None and not (x.volatile or x.is_distributed() or x.is_mtia or x.is_maia or x.is_vulkan)
    assert x[1:].const_data_ptr() == x[1:].data_ptr()
