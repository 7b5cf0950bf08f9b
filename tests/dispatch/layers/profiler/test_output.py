"""Tables, traces and stacks, in the formats that PyTorch's tools and Perfetto read."""

import gzip
import json
from importlib.util import find_spec

import pytest

import triten as tt
from triten.dispatch.layers import profiler
from triten.profiler import (
    ProfilerActivity,
    profile,
    record_function,
)

CPU = [ProfilerActivity.CPU]

needs_cuda = pytest.mark.skipif(find_spec("triton") is None, reason="triton has no wheel for this platform")


def test_averages_by_name_and_by_shape():
    a, b = tt.ones(2, 2), tt.ones(3, 3)
    with profile(activities=CPU, record_shapes=True) as prof:
        for _ in range(3):
            a @ a
        b @ b
    averages = {e.key: e for e in prof.key_averages()}
    mm = averages["aten::mm"]
    assert mm.count == 4 and mm.cpu_time == mm.cpu_time_total / 4
    assert mm.cpu_time_total == pytest.approx(
        sum(e.cpu_time_total for e in prof.events() if e.name == "aten::mm")
    )
    shaped = [(e.key, e.count, e.input_shapes) for e in prof.key_averages(group_by_input_shape=True)]
    assert ("aten::mm", 3, [[2, 2], [2, 2]]) in shaped and ("aten::mm", 1, [[3, 3], [3, 3]]) in shaped
    total = prof.key_averages().total_average()
    assert (total.key, total.count) == ("Total", 8)
    assert total.self_cpu_time_total == pytest.approx(prof.events().self_cpu_time_total)


HOST = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]

DEVICE = ["Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"]

CALLS = ["# of Calls"]


def titles(table):
    return [title for title in table.splitlines()[1].split("  ") if title.strip()]


@needs_cuda
def test_the_table_has_pytorchs_columns(own_pool):
    a = tt.ones(4, 4)
    with profile(activities=CPU) as prof:
        a @ a
    table = prof.key_averages().table(sort_by="cpu_time_total")
    assert [t.strip() for t in titles(table)] == HOST + CALLS
    rows = table.splitlines()
    assert rows[3].split()[0] == "aten::matmul" and rows[4].split()[0] == "aten::mm"
    assert rows[3].split()[3] == "100.00%" and rows[-1].startswith("Self CPU time total: ")
    b = a.to("cuda")
    with profile(profile_memory=True, record_shapes=True, with_stack=True) as prof:
        b @ b
    memory = ["CPU Mem", "Self CPU Mem", "CUDA Mem", "Self CUDA Mem"]
    table = prof.key_averages(group_by_input_shape=True, group_by_stack_n=1).table()
    expected = HOST + DEVICE + memory + CALLS + ["Input Shapes", "Source Location"]
    assert [t.strip() for t in titles(table)] == expected
    assert "512 B" in table and "[[4, 4], [4, 4]]" in table and "Self CUDA time total: " in table


def test_tables_are_sorted_cut_and_headed():
    a = tt.ones(2)
    with profile(activities=CPU) as prof:
        for _ in range(3):
            a.exp()
        a.neg()
        a @ a
    averages = prof.key_averages()
    assert averages.table(sort_by="count", row_limit=1).splitlines()[3].split()[0] == "aten::exp"
    assert len(averages.table(row_limit=2).splitlines()) == len(averages.table(row_limit=-1).splitlines()) - (
        len(averages) - 2
    )
    assert averages.table(header="mine").splitlines()[1] == "mine"
    assert "ms" in averages.table(time_unit="ms") and "us" not in averages.table(time_unit="ms")
    top = prof.events().table(top_level_events_only=True)
    assert "aten::matmul" in top and "aten::dot" not in top.replace("aten::matmul", "")
    assert averages.table(max_name_column_width=12).splitlines()[3].split()[0].endswith("...")
    with pytest.raises(AttributeError, match=r"sort_by: expected one of .* got 'nonsense'"):
        averages.table(sort_by="nonsense")
    with pytest.raises(ValueError, match="time_unit"):
        averages.table(time_unit="h")
    with profile(activities=CPU) as empty:
        pass
    assert empty.key_averages().table() == ""


@needs_cuda
def test_the_trace_is_what_perfetto_reads(tmp_path):
    w = tt.ones(8, 8, device="cuda").requires_grad_()
    host = tt.ones(8, 8)
    with profile(profile_memory=True, record_shapes=True) as prof, record_function("step", "first"):
        (w @ w).sum().backward()
        host + host
    prof.add_metadata("who", "me")
    prof.add_metadata_json("sizes", "[1, 2]")
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(path)
    trace = json.loads(path.read_text())
    assert (trace["who"], trace["sizes"], trace["record_shapes"], trace["with_stack"]) == ("me", [1, 2], 1, 0)
    events = trace["traceEvents"]
    by_phase = {phase: [e for e in events if e["ph"] == phase] for phase in "XMsfiC"}
    assert sum(map(len, by_phase.values())) == len(events) and all(by_phase.values())
    for event in events:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int)
        assert isinstance(event["tid"], int) and event["ts"] >= 0
    for event in by_phase["X"]:
        assert event["dur"] >= 0 and isinstance(event["args"], dict)
    assert {e["cat"] for e in by_phase["X"]} == {"cpu_op", "user_annotation", "cuda_runtime", "kernel"}
    # Events of one thread of the host nest: an event that begins within another ends within it.
    stack = []
    host_events = [e for e in by_phase["X"] if e["cat"] != "kernel"]
    for event in sorted(host_events, key=lambda e: (e["ts"], -e["dur"])):
        while stack and event["ts"] >= stack[-1]:
            stack.pop()
        assert not stack or event["ts"] + event["dur"] <= stack[-1] + 1e-3
        stack.append(event["ts"] + event["dur"])
    # Each flow leads from a launch to the kernel of the same number.
    launches = {(e["tid"], e["ts"]) for e in by_phase["X"] if e["cat"] == "cuda_runtime"}
    kernels = {e["args"]["correlation"]: e for e in by_phase["X"] if e["cat"] == "kernel"}
    assert {e["id"] for e in by_phase["s"]} == {e["id"] for e in by_phase["f"]} == set(kernels)
    assert all((e["tid"], e["ts"]) in launches for e in by_phase["s"])
    for end in by_phase["f"]:
        kernel = kernels[end["id"]]
        assert (end["pid"], end["tid"], end["ts"], end["bp"]) == (
            kernel["pid"],
            kernel["tid"],
            kernel["ts"],
            "e",
        )
    # Memory: an instant for each change, and a counter of what is held.
    assert all(e["s"] == "t" and e["name"] == "[memory]" for e in by_phase["i"])
    held = 0
    for event in (e for e in by_phase["i"] if e["args"]["Device Id"] == -1):
        held += event["args"]["Bytes"]
        assert event["args"]["Total Allocated"] == held
    assert {e["name"] for e in by_phase["C"]} == {"memory cpu", "memory cuda:0"}
    assert {e["name"] for e in by_phase["M"]} == {"process_name", "process_labels", "thread_name"}
    mm = next(e for e in by_phase["X"] if e["name"] == "aten::mm")
    assert mm["args"]["Input Dims"] == [[8, 8], [8, 8]]
    assert mm["args"]["Kernel functions"] == ["mm_cuda<triten.float32>"]
    assert mm["args"]["Dispatch keys"] == ["AutogradCUDA", "CUDA"]
    step = next(e for e in by_phase["X"] if e["name"] == "step")
    assert step["args"]["args"] == "first"


def test_a_trace_is_compressed_where_the_name_says_so(tmp_path):
    with profile(
        activities=CPU, on_trace_ready=tt.profiler.tensorboard_trace_handler(str(tmp_path / "new"), "w", True)
    ):
        tt.ones(2)
    (file,) = (tmp_path / "new").iterdir()
    assert file.name.startswith("w.") and file.name.endswith(".pt.trace.json.gz")
    with gzip.open(file, "rt") as text:
        assert any(e["name"] == "aten::ones" for e in json.load(text)["traceEvents"])


def test_stacks_name_the_callers_and_fold(tmp_path, named):
    a = tt.ones(2)

    def inner():
        return a.exp()

    def outer():
        return inner()

    config = tt.profiler.ExperimentalConfig(verbose=True)
    with profile(activities=CPU, with_stack=True, experimental_config=config) as prof:
        outer()
        with record_function("range"):
            pass
    stack = named(prof, "aten::exp").stack
    assert [entry.rpartition(" ")[2] for entry in stack[:3]] == [
        "inner",
        "outer",
        stack[2].rpartition(" ")[2],
    ]
    assert stack[0].startswith(__file__) and not any(s.startswith(profiler.__path__[0]) for s in stack)
    assert named(prof, "range").stack[0].startswith(__file__)
    path = tmp_path / "stacks"
    prof.export_stacks(path)
    lines = path.read_text().splitlines()
    (folded,) = [line for line in lines if "_inner" in line]
    assert folded.index("_outer;") < folded.index("_inner ") and folded.rpartition(" ")[2].isdigit()
    with pytest.raises(ValueError, match="metric should be one of"):
        prof.export_stacks(path, "nonsense")
