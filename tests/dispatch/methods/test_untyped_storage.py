"""`tt.UntypedStorage`: constructors, elements, copies and conversions."""

import copy
import pickle
import sys

import pytest

import triten as tt
from triten.dispatch.methods.untyped_storage import CONVERSIONS

S = tt.UntypedStorage


@pytest.mark.parametrize(
    ("data", "expected"), [((), 0), ((5,), 5), (([1, 2],), 2), ((range(3),), 3), ((tt.tensor(4),), 4)]
)
@pytest.mark.parametrize("place", ["cpu", "meta"])
def test_sizes(data, expected, place):
    made = S(*data, device=place)
    assert (made.nbytes(), len(made), made.size(), made.device.type) == (expected, expected, expected, place)
    assert type(made) is S and type(tt.ones(1, device=place).untyped_storage()) is S


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: S(1, 2), TypeError, "got 2 arguments"),
        (lambda: S(2.5), TypeError, "got float"),
        (lambda: S("ab"), TypeError, "must be ints"),
        (lambda: S(-1), RuntimeError, "must not be negative, got -1"),
        (lambda: S(2).fill_(1.5), RuntimeError, "fill_ expects int, but got float"),
        (lambda: S(2).copy_(S(3)), RuntimeError, "self was 2 bytes but src was 3 bytes"),
        (lambda: S(2).__setitem__(0, "a"), RuntimeError, "can only set storage content with a int"),
        (lambda: S(2).__setitem__("a", 0), RuntimeError, "can't index .* with str"),
        (lambda: S(2)[2], IndexError, "index 2 out of range for storage of size 2"),
        (lambda: S(2)[::2], RuntimeError, "step of 2"),
        (lambda: S(2, device="meta")[0], NotImplementedError, "Not available for 'meta'"),
        (lambda: S(2, device="meta").tolist(), NotImplementedError, "Not available for 'meta'"),
        (lambda: S(2, device="meta").cpu(), NotImplementedError, "no data"),
        (lambda: S(2, device="meta").pin_memory(), TypeError, "cannot pin 'triten.storage.UntypedStorage'"),
        (lambda: tt.ones(2, device="meta").storage()[0], NotImplementedError, "Not available for 'meta'"),
        (
            lambda: tt.ones(2, device="meta").storage().tolist(),
            NotImplementedError,
            "Not available for 'meta'",
        ),
        (lambda: tt.ones(2, device="meta").storage().pin_memory(), TypeError, "only CPU memory"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_elements(device):
    made = S([1, 2, 300], device=device)
    assert made.tolist() == list(made) == [1, 2, 44] and made[-1] == 44 and made[1:].tolist() == [2, 44]
    made[1:][0] = 7
    made[0] = 257
    assert made.tolist() == [1, 7, 44]
    made[:2] = 9
    assert made.tolist() == [9, 9, 44] and made.fill_(256).tolist() == [0, 0, 0]
    assert made.device == tt.device(device) or made.device.type == tt.device(device).type
    assert repr(S([3])) == " 3\n[triten.storage.UntypedStorage(device=cpu) of size 1]"
    assert repr(S(2, device="meta")).startswith("...")


def test_storages_and_tensors_share_bytes():
    made = S(8)
    x = tt.empty(0).set_(made)
    x.fill_(1)
    assert x.untyped_storage() is made and made.tolist() == [0, 0, 128, 63] * 2
    made.resize_(4)
    assert made.nbytes() == 4 and made.resizable() and not made[:2].resizable()


def test_copies(device):
    x = tt.arange(4, dtype=tt.uint8, device=device)
    storage = x.untyped_storage()
    for twin in (storage.clone(), copy.copy(storage), pickle.loads(pickle.dumps(storage))):
        assert twin is not storage and twin.tolist() == [0, 1, 2, 3] and twin.device == storage.device
    tensor, twin = copy.deepcopy([x, storage])
    assert twin.data_ptr() == tensor.data_ptr() != storage.data_ptr()
    assert storage.to(device=device) is storage and storage.cpu().tolist() == [0, 1, 2, 3]
    assert storage.copy_(S([4, 5, 6, 7])).tolist() == x.tolist() == [4, 5, 6, 7]
    assert storage.to(device="meta").nbytes() == 4
    assert storage.element_size() == 1 and storage.new().nbytes() == 0


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions(name):
    made = getattr(S([0, 1, 2]), name)()
    assert isinstance(made, tt.storage.TypedStorage) and made.dtype is CONVERSIONS[name]
    assert made.tolist() == ([False, True, True] if name == "bool" else [0, 1, 2])
    again = getattr(made, name)()
    assert again.tolist() == made.tolist() and again.data_ptr() != made.data_ptr()


def test_an_empty_storage_has_no_address():
    x = tt.tensor([])
    assert x.data_ptr() == x.untyped_storage().data_ptr() == x.storage().data_ptr() == S().data_ptr() == 0
    assert tt.ones(2).untyped_storage().resize_(0).data_ptr() == 0


def test_identities():
    x = tt.ones(3)
    assert x.storage()._cdata == x[1:].untyped_storage()._cdata > 0
    assert x.storage()._cdata != x.clone().storage()._cdata
    assert tt.is_storage(x.storage()) and tt.is_storage(x.untyped_storage()) and not tt.is_storage(x)


@pytest.mark.parametrize(
    ("args", "dtype", "expected"),
    [
        (("little",), tt.int16, [0x0201, 0x0403]),
        (("big",), tt.int16, [0x0102, 0x0304]),
        (("native",), tt.int16, [0x0201, 0x0403] if sys.byteorder == "little" else [0x0102, 0x0304]),
        (("big", 1, 1), tt.int16, [0x0203]),
        ((), tt.uint8, [1, 2, 3, 4]),
        ((), tt.bool, [True] * 4),
    ],
)
def test_from_buffer(args, dtype, expected):
    made = S.from_buffer(bytes([1, 2, 3, 4]), *args, dtype=dtype)
    assert tt.tensor(made, dtype=dtype).tolist() == expected
    typed = tt.storage.TypedStorage.from_buffer(bytearray([1, 2, 3, 4]), *args, dtype=dtype)
    assert typed.tolist() == expected and typed.dtype is dtype


@pytest.mark.parametrize(
    ("args", "dtype", "error", "message"),
    [
        ((), None, RuntimeError, "argument 'dtype' cannot be None"),
        ((), tt.int16, RuntimeError, "missing required argument 'byte_order'"),
        (("other",), tt.int16, ValueError, "invalid byte_order 'other'"),
        (("big",), tt.int64, ValueError, r"buffer size \(4\) must be a multiple of element size \(8\)"),
        (("big", 3), tt.int16, ValueError, "only 2 elements after offset 0, but specified a size of 3"),
        (("big", 1, 5), tt.int16, ValueError, r"no greater than buffer length \(4\), but got 5"),
    ],
)
def test_from_buffer_refusals(args, dtype, error, message):
    with pytest.raises(error, match=message):
        S.from_buffer(bytes(4), *args, dtype=dtype)


def test_byteswap():
    made = S([1, 2, 3, 4])
    made.byteswap(tt.int16)
    assert made.tolist() == [2, 1, 4, 3]
    wide = S(range(8))
    wide.byteswap(tt.complex64)
    assert wide.tolist() == [3, 2, 1, 0, 7, 6, 5, 4]


def test_storages_in_shared_memory():
    assert S._new_shared(8).is_shared() and tt.storage.FloatStorage._new_shared(2).is_shared()


def test_sizes_in_memory_count_the_bytes() -> None:
    for storage_of in (lambda x: x.untyped_storage(), lambda x: x.storage()):
        empty, ten = (storage_of(tt.zeros(n)).__sizeof__() for n in (0, 10))
        assert ten - empty == 40
