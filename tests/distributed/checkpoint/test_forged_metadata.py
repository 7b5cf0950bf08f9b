"""Metadata with valid checksums but impossible values is refused before memory is allocated."""

import json
import zlib

import pytest

import triten as tt
from triten.distributed import checkpoint
from triten.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

WEIGHT = "model.weight"


def chunk(content):
    return content["tensors"][WEIGHT]["chunks"][0]


def set_size(*size):
    def change(content):
        content["tensors"][WEIGHT]["size"] = list(size)
        chunk(content)["sizes"] = list(size)

    return change


def set_chunks(*boxes):
    def change(content):
        old, crc = chunk(content), zlib.crc32(bytes(12))
        content["tensors"][WEIGHT]["chunks"] = [
            {**old, "offsets": [row, 0], "sizes": [1, 3], "length": 12, "crc32": [crc]} for row in boxes
        ]

    return change


def set_keys(name, *keys):
    return lambda content: content["paths"].update({name: list(keys)})


FORGED = {
    "more elements than bytes": (set_size(10**9, 3), "has 24 bytes"),
    "more elements than an address has bits": (set_size(2**62, 3), "has an invalid size"),
    "a size beyond 64 bits": (set_size(2**63, 3), "invalid size or offset"),
    "no element, of a size that no tensor has": (set_size(2**62, 0), "has an invalid size"),
    "the same elements twice, and none in the gap": (set_chunks(0, 0), "has overlapping chunks"),
    "elements beyond the tensor": (set_chunks(0, 2), "extends beyond the tensor"),
    "a list of a million places": (set_keys(WEIGHT, "list", 2**20), "lists of"),
    "keys as deep as the stack": (set_keys(WEIGHT, *["deep"] * 20_000), "has invalid keys"),
    "a key of a list in a dict": (set_keys(WEIGHT, "model", 3), "pass through another value"),
    "keys through an object": (set_keys(WEIGHT, "step", "x"), "belong to another value"),
    "a file's name that has no bytes": (lambda c: chunk(c).update(file="\ud800"), "surrogates"),
    "bytes that the file does not have": (
        lambda c: (set_size(10**6, 3)(c), chunk(c).update(length=12 * 10**6, crc32=[0] * 12)),
        r"bytes, but its items need \d+",
    ),
}


@pytest.fixture
def folder(tmp_path):
    state = {"model": {"weight": tt.zeros(2, 3), "bias": tt.ones(2)}, "step": 3}
    checkpoint.save(state, checkpoint_id=tmp_path, no_dist=True)
    return tmp_path


def rewrite(folder, change):
    path = folder / ".metadata"
    whole = json.loads(path.read_bytes())
    change(whole["content"])
    content = json.dumps(whole["content"], separators=(",", ":")).encode()
    path.write_text(json.dumps({**whole, "checksum": zlib.crc32(content)}))


@pytest.mark.parametrize("what", FORGED)
def test_forged_metadata(folder, what):
    change, message = FORGED[what]
    rewrite(folder, change)
    with pytest.raises(checkpoint.CheckpointException, match=message) as caught:
        _load_state_dict_from_keys(checkpoint_id=folder)
    assert type(caught.value.failures[0][0]) is RuntimeError


def test_rows_as_chunks_of_their_own(folder):
    rewrite(folder, set_chunks(1, 0))
    found = _load_state_dict_from_keys(checkpoint_id=folder)
    assert found["model"]["weight"].tolist() == [[0, 0, 0], [0, 0, 0]] and found["step"] == 3
