"""Checkpoints in safetensors files: whole tensors, shards, and shards joined."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import triten as tt
from triten.distributed import checkpoint as dcp
from triten.distributed.checkpoint.hf_consolidation import (
    consolidate_safetensors_files,
    consolidate_safetensors_files_on_every_rank,
    file_texts,
)
from triten.safetensors import load_file, save_file

STATE = {
    "matrix": tt.arange(6.0).view(2, 3),
    "transposed": tt.arange(6).view(2, 3).t(),
    "bfloat16": tt.ones(4, dtype=tt.bfloat16) * 3,
    "scalar": tt.tensor(2.5),
}
FILES = {"matrix": 1, "transposed": 2, "bfloat16": 2, "scalar": 1}
INDEX = "model.safetensors.index.json"


def load(folder: Path) -> dict[str, tt.Tensor]:
    state = {name: tt.zeros_like(each) for name, each in STATE.items()}
    reader = dcp.HuggingFaceStorageReader(folder, thread_count=2)
    dcp.load(state, storage_reader=reader, no_dist=True)
    return state


def is_saved(state: dict[str, tt.Tensor]) -> bool:
    return all(tt.equal(state[name], each) for name, each in STATE.items())


@pytest.mark.parametrize("threads", [1, 3])
def test_whole_tensors_are_in_the_files_that_the_mapping_names(tmp_path: Path, threads: int) -> None:
    dcp.save(STATE, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path, FILES, threads), no_dist=True)
    index = json.loads((tmp_path / INDEX).read_text())
    assert index["weight_map"] == {
        name: f"model-0000{number}-of-00002.safetensors" for name, number in FILES.items()
    }
    assert index["metadata"] == {"total_size": 24 + 48 + 8 + 4}
    assert set(load_file(tmp_path / "model-00001-of-00002.safetensors")) == {"matrix", "scalar"}
    assert is_saved(load(tmp_path))


def test_shards_of_processes_are_joined_when_a_save_ends(tmp_path: Path) -> None:
    writer = dcp.HuggingFaceStorageWriter(tmp_path, FILES, save_distributed=True, enable_consolidation=True)
    dcp.save(STATE, storage_writer=writer, no_dist=True)
    assert is_saved(load(tmp_path)) and is_saved(load(tmp_path / "sharded"))


def write_shards(folder: Path) -> tt.Tensor:
    whole = tt.arange(20.0).view(5, 4)
    for number, (begin, end) in enumerate([(0, 3), (3, 5)], start=1):
        path = folder / f"shard-0000{number}-model-00001-of-00001.safetensors"
        save_file({"weight": whole[begin:end].clone()}, path, file_texts({"weight": [begin, 0]}))
    return whole


@pytest.mark.parametrize(
    "consolidate", [consolidate_safetensors_files, consolidate_safetensors_files_on_every_rank]
)
def test_shards_of_several_files_make_a_tensor(tmp_path: Path, consolidate: object) -> None:
    whole = write_shards(tmp_path)
    state = {"weight": tt.zeros(5, 4)}
    dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(tmp_path), no_dist=True)
    assert tt.equal(state["weight"], whole)
    assert callable(consolidate)
    consolidate(tmp_path, tmp_path / "joined", {"weight": 1})
    assert tt.equal(load_file(tmp_path / "joined" / "model-00001-of-00001.safetensors")["weight"], whole)
    assert json.loads((tmp_path / "joined" / INDEX).read_text())["metadata"]["total_size"] == 80


def test_missing_shards_and_other_files_are_refused(tmp_path: Path) -> None:
    write_shards(tmp_path)
    (tmp_path / "shard-00001-model-00001-of-00001.safetensors").unlink()
    with pytest.raises(ValueError, match=r"'weight' have 8 of the 20 elements"):
        consolidate_safetensors_files(tmp_path, tmp_path / "joined", {"weight": 1})
    with pytest.raises(ValueError, match=r"no file in .* has the tensors other"):
        consolidate_safetensors_files(tmp_path, tmp_path / "joined", {"other": 1})
    save_file({"weight": tt.ones(1)}, tmp_path / "plain.safetensors")
    with pytest.raises(ValueError, match=r"No DCP custom metadata.*plain\.safetensors"):
        consolidate_safetensors_files(tmp_path, tmp_path / "joined", {"weight": 1})


def test_what_is_no_tensor_or_has_no_file_is_refused(tmp_path: Path) -> None:
    writer = dcp.HuggingFaceStorageWriter(tmp_path)
    with pytest.raises(dcp.CheckpointException, match="'step' is not a tensor"):
        dcp.save({"step": 2, "weight": tt.ones(1)}, storage_writer=writer, no_dist=True)
    writer = dcp.HuggingFaceStorageWriter(tmp_path, {"bias": 1})
    with pytest.raises(dcp.CheckpointException, match="no file for 'weight'"):
        dcp.save({"weight": tt.ones(1)}, storage_writer=writer, no_dist=True)
    with pytest.raises(dcp.CheckpointException, match=r"no \*\.safetensors file in"):
        load(tmp_path / "nothing")
