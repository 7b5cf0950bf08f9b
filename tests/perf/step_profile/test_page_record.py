"""Traces become flame graphs, timelines, memory by site, and operators beside the prediction."""

import gzip
import importlib.util
import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from triten.perf.step_profile.allocations import Change, memory_of_snapshot, memory_over_time
from triten.perf.step_profile.comparison import format_rows
from triten.perf.step_profile.page_record import profile_records
from triten.perf.step_profile.timeline import timeline
from triten.perf.step_profile.trace import TraceError, read_trace


def _load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


trace_files = _load("trace_files")


def batched(values: list[int], size: int) -> list[list[int]]:
    return [values[at : at + size] for at in range(0, len(values), size)]


@pytest.fixture
def record(tmp_path: Path) -> dict[str, Any]:
    (found,) = profile_records([trace_files.write_trace(tmp_path / "train.json")])
    return found


def flame(record: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Name, kind, depth, host and device microseconds of each node."""
    names, kinds = record["flame"]["names"], record["flame"]["kinds"]
    return [
        (names[name], kinds[kind], depth, host / 1000, device / 1000)
        for name, kind, depth, host, device in batched(record["flame"]["nodes"], 5)
    ]


def test_the_flame_graph_adds_up_both_steps_by_path(record: dict[str, Any]) -> None:
    assert flame(record) == [
        ("train", "range", 0, 200, 60),
        ("<module> (train.py:9)", "function", 1, 200, 60),
        ("ProfilerStep", "range", 2, 200, 60),
        ("step (train.py:5)", "function", 3, 120, 60),
        ("nn.Module: Net_0", "module", 4, 80, 60),
        ("forward (net.py:3)", "function", 5, 40, 60),
        ("aten::mm", "operator", 6, 40, 60),
        ("cuLaunchKernel", "launch", 7, 10, 60),
        ("mm_kernel", "kernel", 8, 0, 60),
        ("autograd::engine::evaluate_function: MmBackward0", "autograd", 4, 40, 0),
        ("MmBackward0", "autograd", 5, 32, 0),
        ("aten::add", "operator", 6, 20, 0),
    ]


def test_the_timeline_has_every_span_and_joins_launches_with_kernels(record: dict[str, Any]) -> None:
    found = record["timeline"]
    assert [track["name"] for track in found["tracks"]] == ["main", "GPU 0, stream 3"]
    spans = list(batched(found["spans"], 7))
    starts = list(itertools.accumulate(span[2] for span in spans))
    shown = [
        (found["names"][name], track, depth, start / 1000, length / 1000)
        for (track, depth, _, length, name, _, _), start in zip(spans, starts, strict=True)
    ]
    assert shown[:4] == [
        ("ProfilerStep#0", 0, 0, 0, 100),
        ("nn.Module: Net_0", 0, 1, 10, 40),
        ("aten::mm", 0, 2, 15, 20),
        ("cuLaunchKernel", 0, 3, 20, 5),
    ]
    assert shown[-1] == ("mm_kernel", 1, 0, 124, 30)
    assert found["launches"] == [3, 14, 10, 15]
    assert found["details"][spans[2][5]] == "float32[4x8]; forward (net.py:3)"
    assert found["left_out"] == 0


def test_the_shortest_spans_are_left_out(tmp_path: Path) -> None:
    trace = read_trace(trace_files.write_trace(tmp_path / "train.json"))
    found = timeline(trace, max_spans=6)
    kept = {found["names"][span[4]] for span in batched(found["spans"], 7)}
    assert kept == {"ProfilerStep#0", "ProfilerStep#1", "nn.Module: Net_0", "mm_kernel"}
    assert found["left_out"] == 10 and found["launches"] == []


def test_memory_is_attributed_to_operators_and_lines(record: dict[str, Any]) -> None:
    (memory,) = record["memory"]
    assert (memory["device"], memory["peak"], memory["peak_moment"]) == ("cuda:0", 4000, 66_000)
    assert memory["moments"] == [18_000, 66_000, 70_000, 90_000, 118_000, 166_000, 170_000, 190_000]
    assert memory["sites"] == [
        {
            "name": "aten::mm, forward (net.py:3)",
            "at_peak": 3000,
            "most": 3000,
            "allocations": 2,
            "bytes": [3000, 3000, 0, 0, 3000, 3000, 0, 0],
        },
        {
            "name": "aten::add, step (train.py:5)",
            "at_peak": 1000,
            "most": 1000,
            "allocations": 2,
            "bytes": [0, 1000, 1000, 0, 0, 1000, 1000, 0],
        },
    ]


def test_operators_of_a_step_stand_beside_the_prediction(record: dict[str, Any]) -> None:
    rows = {row.pop("name"): tuple(row.values()) for row in record["operators"]}
    us = pytest.approx
    assert rows == {
        "aten::mm": (1, us(20e-6), us(30e-6), 1, 2e-6, 3e-6),
        "aten::add": (1, us(10e-6), 0, 3, us(2e-6), us(3e-6)),
        "(autograd's nodes)": (1, us(10e-6), 0, 1, 0.0, 4e-6),
        "(Python between operators)": (None, us(60e-6), 0, None, None, None),
    }
    assert record["sentences"] == [
        "A step took 100.0 us with the profiler, 50.0 us without it.",
        "Predicted by tt.perf.plan: 14.0 us on h200, 4.0 us of work and 10.0 us of overhead.",
        "The step allocated at most 4,000 bytes on cuda:0 at once; predicted: 4,000 bytes beside its arguments.",
    ]


def test_the_terminal_has_the_same_table(tmp_path: Path) -> None:
    trace = read_trace(trace_files.write_trace(tmp_path / "train.json", plan=None))
    lines = format_rows(trace, top=2).splitlines()
    assert lines[0].split() == ["operator", "calls", "host", "us", "device", "us"]
    assert lines[1].split() == ["(Python", "between", "operators)", "60.0", "0.0"]
    assert lines[2].split() == ["aten::mm", "1", "20.0", "30.0"]
    assert lines[3:] == ["and 2 more", "A step took 100.0 us with the profiler, 50.0 us without it"]


def test_many_allocations_keep_their_peak_and_their_largest_sites() -> None:
    changes = [Change(moment, moment, 10 + moment % 7, f"site {moment % 12}") for moment in range(2000)]
    changes += [Change(2000 + moment, moment, -1, "") for moment in range(2000)]
    found = memory_over_time("cpu", changes)
    assert found is not None
    assert len(found["moments"]) <= 243 and len(found["sites"]) == 10
    assert found["peak"] == sum(10 + moment % 7 for moment in range(2000))
    at = found["moments"].index(found["peak_moment"])
    assert sum(site["bytes"][at] for site in found["sites"]) == found["peak"]
    assert sum(site["allocations"] for site in found["sites"]) == 2000
    assert all(site["bytes"][-1] == 0 for site in found["sites"])


def test_memory_from_before_the_recording_does_not_count() -> None:
    assert memory_over_time("cpu", [Change(0, 1, -64, ""), Change(1, 2, -64, "")]) is None


def test_a_snapshot_of_the_cuda_allocator_is_read(tmp_path: Path) -> None:
    frames = [
        {"filename": "/home/user/train.py", "line": 5, "name": "step"},
        {"filename": "/home/user/train.py", "line": 9, "name": "<module>"},
    ]
    trace = [
        {"action": "alloc", "addr": 64, "size": 512, "time_us": 10, "frames": frames},
        {"action": "free_requested", "addr": 64, "size": 512, "time_us": 30, "frames": []},
        {"action": "free_completed", "addr": 64, "size": 512, "time_us": 40, "frames": []},
    ]
    path = tmp_path / "memory.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [trace]}))
    (memory,) = memory_of_snapshot(path)
    assert (memory["device"], memory["peak"], memory["moments"]) == ("cuda:0", 512, [0, 30_000])
    assert [(site["name"], site["bytes"]) for site in memory["sites"]] == [("step (train.py:5)", [512, 0])]
    assert profile_records([path])[0]["name"] == "memory.pickle"


class Attack:
    """An object whose unpickling would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_no_code_of_a_snapshot_runs(tmp_path: Path) -> None:
    path = tmp_path / "memory.pickle"
    path.write_bytes(pickle.dumps({"device_traces": [Attack(tmp_path / "made")]}))
    with pytest.raises(TraceError, match="a snapshot has plain values only"):
        memory_of_snapshot(path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"[1", "not JSON"),
        (b"\x1f\x8b damaged", "Unknown compression method"),
        (b"{}", "expected an object with a list traceEvents"),
        (b'{"traceEvents": []}', "no operator, range or kernel is recorded in it"),
        (b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a"}]}', "damaged: KeyError: 'ts'"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "train.json"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=message) as error:
        profile_records([path])
    assert str(path) in str(error.value)


def test_a_compressed_trace_is_the_same(tmp_path: Path, record: dict[str, Any]) -> None:
    path = tmp_path / "train.json.gz"
    path.write_bytes(gzip.compress(trace_files.write_trace(tmp_path / "other.json").read_bytes()))
    assert json.dumps(profile_records([path])) == json.dumps([record])
