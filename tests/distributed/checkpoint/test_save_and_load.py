"""Checkpoints of one process load the saved values; damaged files are refused."""

from __future__ import annotations

import json
import os
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import triten as tt
from triten import nn
from triten.distributed import checkpoint as dcp
from triten.distributed.checkpoint import filesystem_writer, format_utils, shard_file
from triten.distributed.checkpoint.nested_dict import flatten_state_dict
from triten.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

VALUES: dict[str, Any] = {
    "float32": tt.arange(12.0).view(3, 4),
    "bfloat16": tt.ones(5, dtype=tt.bfloat16) * 3,
    "bool": tt.tensor([True, False]),
    "float8": tt.ones(3).to(tt.float8_e5m2),
    "complex128": tt.ones(2, dtype=tt.complex128) * 2j,
    "conjugated": tt.tensor([1 + 2j]).conj(),
    "transposed": tt.arange(6).view(2, 3).t(),
    "scalar": tt.tensor(2.5),
    "empty": tt.empty(0, 3),
    "sparse": tt.eye(3).to_sparse(),
    "object": {"names": ("a", "b"), "lr": 0.1, "none": None},
    "list": [tt.ones(2), 5, {"deep": tt.zeros(1)}],
    "text": "words",
    "bytes": b"\x00\xff",
}


def blank(value: Any) -> Any:
    if isinstance(value, tt.Tensor):
        return tt.zeros_like(value)
    if isinstance(value, dict):
        return {key: blank(each) for key, each in value.items()}
    return [blank(each) for each in value] if isinstance(value, list) else None


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, tt.Tensor):
        dense = [each.to_dense() if each.is_sparse else each for each in (found, expected)]
        return found.dtype == expected.dtype and tt.equal(
            *(each.resolve_conj().double() if each.dtype == tt.float8_e5m2 else each for each in dense)
        )
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return bool(found == expected)


@pytest.mark.parametrize(
    "options", [{}, {"single_file_per_rank": False}, {"thread_count": 3, "sync_files": False}]
)
def test_values_come_back(tmp_path: Path, options: dict[str, Any]) -> None:
    dcp.save(VALUES, storage_writer=dcp.FileSystemWriter(tmp_path, **options))
    state = blank(VALUES)
    dcp.load(state, checkpoint_id=tmp_path)
    for name, value in VALUES.items():
        assert same(state[name], value), name
    assert same(_load_state_dict_from_keys(checkpoint_id=tmp_path), VALUES)
    files = len(list(tmp_path.glob("__0_*.safetensors")))
    assert files == {"single_file_per_rank": 18, "thread_count": 3}.get(next(iter(options), ""), 1)


def test_modules_and_optimizers(tmp_path: Path) -> None:
    def made() -> tuple[nn.Module, Any]:
        model = nn.Linear(3, 2)
        optimizer = tt.optim.AdamW(model.parameters(), lr=tt.rand(1).item())
        model(tt.rand(4, 3)).sum().backward()
        optimizer.step()
        return model, optimizer

    model, optimizer = made()
    dcp.save({"model": model, "optimizer": optimizer, "step": 1}, checkpoint_id=tmp_path)
    other, other_optimizer = made()
    weight = other.weight
    state = {"model": other, "optimizer": other_optimizer, "step": 0}
    dcp.load(state, checkpoint_id=tmp_path)
    assert other.weight is weight and state["step"] == 1 and state["model"] is other
    assert same(other.state_dict(), model.state_dict())
    assert other_optimizer.state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]
    assert same(other_optimizer.state_dict()["state"], optimizer.state_dict()["state"])


def test_keys_that_are_no_strings_and_conversions(tmp_path: Path) -> None:
    dcp.save({"a": {3: 1, 4: tt.ones(2)}}, checkpoint_id=tmp_path)
    state = {"a": {3: 0, 4: tt.zeros(2, dtype=tt.int64)}}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["a"][3] == 1 and list(state["a"]) == [3, 4]
    assert state["a"][4].tolist() == [1, 1] and state["a"][4].dtype == tt.int64
    state["a"][4] = tt.empty(2, device="meta")
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["a"][4].tolist() == [1.0, 1.0]


def test_to_cuda(tmp_path: Path, device: str) -> None:
    dcp.save({"x": tt.arange(6.0, device=device).view(2, 3)}, checkpoint_id=tmp_path)
    state = {"x": tt.zeros(3, 2, device=device).t()}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["x"].device.type == device and state["x"].tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("state", "kind", "words"),
    [
        ({"y": 1}, RuntimeError, "Missing key in checkpoint state_dict: y"),
        (
            {"x": tt.ones(3)},
            ValueError,
            r"Size mismatch between saved .*\[2\]\) and current: .*\[3\]\) for x",
        ),
        ({"x": 1}, ValueError, "'x' is a tensor of shape"),
        ({"n": tt.ones(1)}, ValueError, "'n' is a tensor in the state_dict, and an object"),
    ],
)
def test_what_does_not_fit(tmp_path: Path, state: dict[str, Any], kind: type, words: str) -> None:
    dcp.save({"x": tt.ones(2), "n": 1}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match=words) as caught:
        dcp.load(state, checkpoint_id=tmp_path)
    assert type(caught.value.failures[0][0]) is kind


def test_partial_loads_and_keys(tmp_path: Path) -> None:
    dcp.save({"m": {"a": tt.ones(2), "b": 2}, "n": 1}, checkpoint_id=tmp_path)
    state = {"m": {"a": tt.zeros(2)}, "other": 7}
    dcp.load(state, checkpoint_id=tmp_path, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    assert state["m"]["a"].tolist() == [1, 1] and state["other"] == 7
    assert _load_state_dict_from_keys("m", checkpoint_id=tmp_path).keys() == {"m"}
    assert _load_state_dict_from_keys({"m.b"}, checkpoint_id=tmp_path) == {"m": {"b": 2}}


def test_save_refuses(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="checkpoint_id"):
        dcp.save({"x": 1})
    with pytest.raises(dcp.CheckpointException, match="Meta tensor"):
        dcp.save({"x": tt.empty(2, device="meta")}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match=r"duplicated flatten key a\.b"):
        dcp.save({"a": {"b": 1}, "a.b": 2}, checkpoint_id=tmp_path)
    dcp.save({"x": 1}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match="Checkpoint already exists"):
        dcp.save({"x": 2}, storage_writer=dcp.FileSystemWriter(tmp_path, overwrite=False))
    with pytest.raises(dcp.CheckpointException, match="there is no checkpoint"):
        dcp.load({"x": 0}, checkpoint_id=tmp_path / "elsewhere")


def test_classes_are_those_that_are_allowed(tmp_path: Path) -> None:
    dcp.save({"x": Fraction(1, 2)}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match="Fraction was not an allowed global"):
        dcp.load({"x": 0}, checkpoint_id=tmp_path)
    state = {"x": 0}
    with tt.serialization.safe_globals([Fraction]):
        dcp.load(state, checkpoint_id=tmp_path)
    assert state["x"] == Fraction(1, 2)


def test_damage_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_file, "BLOCK", 16)
    dcp.save({"x": tt.arange(16.0)}, checkpoint_id=tmp_path)
    (path,) = tmp_path.glob("*.safetensors")
    info = json.loads((tmp_path / ".metadata").read_text())["content"]["tensors"]["x"]["chunks"][0]
    whole = path.read_bytes()
    for place in (0, 30, 63):
        spoilt = bytearray(whole)
        spoilt[info["offset"] + place] ^= 1
        path.write_bytes(spoilt)
        with pytest.raises(
            dcp.CheckpointException, match=f"damaged: bytes {info['offset'] + place // 16 * 16} to"
        ):
            dcp.load({"x": tt.zeros(16)}, checkpoint_id=tmp_path)
    path.write_bytes(whole[:-1])
    with pytest.raises(dcp.CheckpointException, match="it ends before byte"):
        dcp.load({"x": tt.zeros(16)}, checkpoint_id=tmp_path)
    path.unlink()
    with pytest.raises(dcp.CheckpointException, match="FileNotFoundError"):
        dcp.load({"x": tt.zeros(16)}, checkpoint_id=tmp_path)


def test_a_box_reads_the_blocks_that_it_lies_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_file, "BLOCK", 16)
    x = tt.arange(64.0).view(8, 8)
    entry = shard_file.Entry("x", x.dtype, (8, 8), lambda: x)
    with open(tmp_path / "f", "wb") as file:
        (info,) = shard_file.write_entries(file, "f", [entry])
    spoilt = bytearray((tmp_path / "f").read_bytes())
    spoilt[info.offset + 4 * (8 * 2 + 1)] ^= 1  # in row 2, columns 0 to 3
    (tmp_path / "f").write_bytes(spoilt)
    for begin, size in (((0, 0), (2, 8)), ((3, 1), (4, 5)), ((2, 4), (1, 3)), ((7, 7), (1, 1))):
        box = shard_file.read_box(str(tmp_path), info, x.dtype, (8, 8), begin, size)
        assert tt.equal(box, x[begin[0] :, begin[1] :][: size[0], : size[1]])
    with pytest.raises(RuntimeError, match="damaged"):
        shard_file.read_box(str(tmp_path), info, x.dtype, (8, 8), (1, 0), (2, 8))


def _spoilt(text: str, **values: Any) -> bytes:
    content = json.loads(text)["content"]
    chunk = content["tensors"]["x"]["chunks"][0]
    for name, value in values.items():
        (chunk if name in chunk else content["tensors"]["x"] if name != "paths" else content)[name] = value
    from triten.distributed.checkpoint import metadata_file

    checksum = metadata_file._checksum(content)
    return json.dumps(
        {"format": metadata_file.FORMAT, "version": 1, "checksum": checksum, "content": content}
    ).encode()


@pytest.mark.parametrize(
    "values",
    [
        {"file": "../secret"},
        {"file": "/etc/passwd"},
        {"offset": -1},
        {"length": 1 << 40},
        {"crc32": []},
        {"block": 0},
        {"sizes": [1 << 40]},
        {"size": [3]},
        {"dtype": "nothing"},
        {"dtype": "float64"},
        {"paths": {"x": ["a", 1 << 60]}},
        {"paths": {"x": []}},
    ],
)
def test_metadata_of_anybody(tmp_path: Path, values: dict[str, Any]) -> None:
    dcp.save({"x": tt.ones(2)}, checkpoint_id=tmp_path)
    path = tmp_path / ".metadata"
    path.write_bytes(_spoilt(path.read_text(), **values))
    with pytest.raises(dcp.CheckpointException, match=r"damaged|has 8 bytes"):
        _load_state_dict_from_keys(checkpoint_id=tmp_path)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"format": 1}', b"\x80\x04."])
def test_metadata_that_is_none(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / ".metadata").write_bytes(damage)
    with pytest.raises(dcp.CheckpointException):
        dcp.load({"x": tt.ones(2)}, checkpoint_id=tmp_path)


def test_a_letter_that_changed_in_the_metadata(tmp_path: Path) -> None:
    dcp.save({"xa": tt.ones(2)}, checkpoint_id=tmp_path)
    path = tmp_path / ".metadata"
    path.write_bytes(path.read_bytes().replace(b"xa", b"xb"))
    with pytest.raises(dcp.CheckpointException, match="checksum"):
        dcp.load({"xb": tt.ones(2)}, checkpoint_id=tmp_path)


@pytest.mark.parametrize("failing", ["data", "metadata"])
def test_an_interrupted_save_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    dcp.save({"x": tt.ones(2)}, checkpoint_id=tmp_path)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    replace = os.replace

    def interrupted(source: Any, target: Any) -> None:
        if str(target).endswith(".metadata") == (failing == "metadata"):
            raise OSError("the disk is full")
        replace(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(dcp.CheckpointException, match="the disk is full"):
        dcp.save({"x": tt.zeros(2)}, checkpoint_id=tmp_path)
    monkeypatch.undo()
    assert before.items() <= {each.name: each.read_bytes() for each in tmp_path.iterdir()}.items()
    state = {"x": tt.zeros(2)}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["x"].tolist() == [1, 1]
    dcp.save({"x": tt.full((2,), 3.0)}, checkpoint_id=tmp_path)
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["x"].tolist() == [3, 3]
    assert len(list(tmp_path.iterdir())) == 2, "what the interrupted save left is removed"


def test_async_save_takes_the_values_of_the_call(tmp_path: Path) -> None:
    x = tt.ones(3)
    saved = dcp.async_save({"x": x, "n": [1]}, checkpoint_id=tmp_path)
    x.zero_()
    assert saved.result().state_dict_metadata.keys() == {"x", "n"}
    dcp.load(state := {"x": x, "n": 0}, checkpoint_id=tmp_path)
    assert x.tolist() == [1, 1, 1] and state["n"] == [1]
    writer = dcp.FileSystemWriter(tmp_path)
    several = [
        dcp.async_save(
            {"x": tt.full((3,), float(number))}, checkpoint_id=tmp_path / str(number), storage_writer=writer
        )
        for number in range(3)
    ]
    for number, each in enumerate(several):
        each.result()
        dcp.load(
            state,
            checkpoint_id=tmp_path / str(number),
            planner=dcp.DefaultLoadPlanner(allow_partial_load=True),
        )
        assert x.tolist() == [number] * 3
    failed = dcp.async_save({"x": x}, storage_writer=dcp.FileSystemWriter(tmp_path, overwrite=False))
    with pytest.raises(dcp.CheckpointException, match="already exists"):
        failed.result()


def test_files_are_safetensors(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")  # ours is over it
    from triten import safetensors

    dcp.save(
        {"w": tt.ones(2, 2, dtype=tt.bfloat16), "n": tt.arange(3), "b": tt.tensor([True])},
        checkpoint_id=tmp_path,
    )
    (path,) = tmp_path.glob("*.safetensors")
    assert {name: each.tolist() for name, each in safetensors.load_file(path).items()} == {
        "w": [[1, 1], [1, 1]],
        "n": [0, 1, 2],
        "b": [True],
    }


def test_to_one_file_and_back(tmp_path: Path) -> None:
    state = {"w": tt.arange(4.0), "nested": {"list": [tt.ones(1), 2]}, "name": "x"}
    tt.save(state, tmp_path / "one.pt")
    format_utils.torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "many")
    format_utils.dcp_to_torch_save(tmp_path / "many", tmp_path / "two.pt")
    assert same(tt.load(tmp_path / "two.pt"), state)
    tt.save([1], tmp_path / "list.pt")
    with pytest.raises(TypeError, match="expected a dict"):
        format_utils.torch_save_to_dcp(tmp_path / "list.pt", tmp_path / "never")


PYTORCH = Path(__file__).parent / "pytorch_checkpoint"


def test_a_checkpoint_that_pytorch_wrote(tmp_path: Path) -> None:
    state: dict[str, Any] = {"model": {"w": tt.zeros(3, 4), "b": tt.zeros(2, dtype=tt.bfloat16)}, "step": 0}
    dcp.load(state, checkpoint_id=PYTORCH)
    assert tt.equal(state["model"]["w"], tt.arange(12.0).view(3, 4)) and state["step"] == 3
    format_utils.dcp_to_torch_save(PYTORCH, tmp_path / "one.pt")
    whole = tt.load(tmp_path / "one.pt")
    assert whole["l"][0].tolist() == [1, 1] and whole["l"][1] == 5
    assert whole["o"] == {"a": 1, "names": ["x", "y"]}


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("evil",)


def test_a_pickle_in_the_place_of_metadata_executes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".metadata").write_bytes(pickle.dumps(Evil(), 2))
    with pytest.raises(dcp.CheckpointException, match="module posix is blocked"):
        dcp.load({"x": tt.ones(1)}, checkpoint_id=tmp_path)
    assert not (tmp_path / "evil").exists()


def test_names_of_lists_and_dicts() -> None:
    flat, paths = flatten_state_dict(
        {"a": [1, 2], "b": [{"c": 1}], "d": ([tt.ones(1)],), "e": {}, "f": [[tt.ones(1)]]}
    )
    assert list(flat) == ["a", "b.0.c", "d", "f.0.0"] and paths["b.0.c"] == ("b", 0, "c")


def test_files_of_threads_are_of_one_size() -> None:
    from triten.distributed.checkpoint.shards import create_write_items

    items = [each for size in (5, 1, 1, 1, 2, 4) for each in create_write_items(f"x{size}", tt.ones(size))]
    sizes = [
        sum(each.tensor_storage_size() or 0 for each in file) for file in filesystem_writer._divided(items, 2)
    ]
    assert sorted(sizes) == [28, 28]
