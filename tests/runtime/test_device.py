"""Devices: parsing, printing, interning."""

import copy
import pickle

import pytest

import triten as tt
from triten.runtime.dispatch_key import BackendComponent
from triten.tests.shared.threads import together


@pytest.mark.parametrize(
    ("text", "type", "index"),
    [
        ("cpu", "cpu", None),
        ("cpu:0", "cpu", 0),
        ("meta", "meta", None),
        ("cuda", "cuda", None),
        ("cuda:0", "cuda", 0),
        ("cuda:17", "cuda", 17),
        ("privateuseone:3", "privateuseone", 3),
        ("xla:1", "xla", 1),
        ("mps", "mps", None),
    ],
)
def test_parsing_and_printing(text: str, type: str, index: int | None) -> None:
    d = tt.device(text)
    assert (d.type, d.index) == (type, index)
    assert str(d) == text
    assert eval(repr(d), {"device": tt.device}) is d


def test_repr() -> None:
    assert repr(tt.device("cpu")) == "device(type='cpu')"
    assert repr(tt.device("cuda:1")) == "device(type='cuda', index=1)"


def test_other_ways_to_say_it() -> None:
    assert tt.device("cuda", 1) is tt.device("cuda:1") is tt.device(1)
    assert tt.device(tt.device("cuda:1")) is tt.device("cuda:1")
    assert tt.device(type="cpu") is tt.device("cpu")


def test_interned_and_distinct() -> None:
    assert tt.device("cuda") is tt.device("cuda")
    assert tt.device("cuda") != tt.device("cuda:0")
    assert len({tt.device("cpu"), tt.device("cpu"), tt.device("cuda:0"), tt.device("cuda:1")}) == 3


def test_interning_is_safe_among_threads() -> None:
    found = together(*[lambda: [tt.device("hpu", i) for i in range(100)]] * 4)
    assert len({id(d) for each in found for d in each}) == 100


@pytest.mark.parametrize("text", ["cpu", "cuda:3"])
def test_copies_and_pickles_are_the_same_object(text: str) -> None:
    d = tt.device(text)
    assert copy.copy(d) is d
    assert copy.deepcopy({"d": d})["d"] is d
    assert pickle.loads(pickle.dumps(d)) is d


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gpu",
        "CPU",
        "cuda:",
        "cuda:-1",
        "cuda:01",
        "cuda:1:2",
        "cuda:x",
        " cuda",
        "cuda 1",
        "cuda:1 ",
        ":0",
        "cuda:²",
    ],
)
def test_bad_strings(text: str) -> None:
    with pytest.raises(RuntimeError):
        tt.device(text)


def test_errors_name_what_was_given() -> None:
    with pytest.raises(RuntimeError, match="at start of device string: gpu"):
        tt.device("gpu")
    with pytest.raises(RuntimeError, match="Invalid device string: 'cuda:x'"):
        tt.device("cuda:x")
    with pytest.raises(RuntimeError, match="must not include an index"):
        tt.device("cuda:1", 1)


@pytest.mark.parametrize("bad", [1.0, None, True, ["cpu"]])
def test_bad_types(bad: object) -> None:
    with pytest.raises(TypeError, match="argument 'type' must be"):
        tt.device(bad)


@pytest.mark.parametrize("index", [-1, 128, 1000])
def test_ordinals_out_of_range(index: int) -> None:
    with pytest.raises(RuntimeError):
        tt.device("cuda", index)


def test_backends() -> None:
    assert tt.device("cpu").backend is BackendComponent.CPU
    assert tt.device("privateuseone").backend is BackendComponent.PrivateUse1
    assert tt.device("cuda").resolved_index == 0
    assert tt.device("cuda:2").resolved_index == 2


def test_tensors_know_their_device() -> None:
    assert tt.ones(1).device is tt.device("cpu")
    assert tt.ones(1).get_device() == -1
    meta = tt.ones(1, device="meta")
    assert meta.device is tt.device("meta")
    assert meta.is_meta
    assert not meta.is_cpu
    assert tt.ones(1, device="cpu:0").device is tt.device("cpu")


@pytest.mark.parametrize("attribute", ["type", "index", "backend", "other"])
def test_a_device_cannot_be_changed(attribute: str) -> None:
    device = tt.device("cuda:1")
    before = (device.type, device.index, device.backend)
    with pytest.raises(AttributeError, match="not writable"):
        setattr(device, attribute, "cpu")
    with pytest.raises(AttributeError):
        delattr(device, attribute)
    assert (device.type, device.index, device.backend) == before


@pytest.mark.parametrize("index", ["1", 1.0, True])
def test_an_index_that_is_no_integer_is_refused(index: object) -> None:
    with pytest.raises(TypeError, match="argument 'index' must be int"):
        tt.device("cuda", index)  # type: ignore[arg-type]
