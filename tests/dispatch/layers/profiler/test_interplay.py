"""The profiler with other layers, its errors, and PyTorch's own profiler as a reference."""

import warnings

import pytest

import triten as tt
from triten.profiler import (
    ProfilerActivity,
    profile,
    supported_activities,
)
from triten.runtime.dispatch_key import Functionality, functionality_bit
from triten.runtime.local_dispatch_key_set import IncludeDispatchKeyGuard

CPU = [ProfilerActivity.CPU]


def test_bad_arguments_are_refused():
    with pytest.raises(AssertionError, match="No valid profiler activities found"):
        profile(activities=[])
    with pytest.raises(ValueError, match="activities: expected ProfilerActivity, got 'cpu'"):
        profile(activities=["cpu"])
    for name in ("schedule", "on_trace_ready"):
        with pytest.raises(TypeError, match=f"{name}: expected a callable or None, got int"):
            profile(**{name: 3})
    unused = profile()
    for ask in (
        unused.events,
        unused.key_averages,
        unused.total_average,
        lambda: unused.export_chrome_trace("x"),
    ):
        with pytest.raises(AssertionError, match="Profiler must be initialized before"):
            ask()
    assert ProfilerActivity.CPU in supported_activities()


def test_the_profiler_key_is_the_users_own(library, named):
    lib, ops = library
    calls = []
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x + 1, "CPU")

    def seen(keys, x):
        calls.append("Profiler")
        return x + 10

    lib.impl("f", seen, "Profiler", with_keyset=True)
    x = tt.ones(1)
    assert ops.f(x).tolist() == [2.0]
    with IncludeDispatchKeyGuard(functionality_bit(Functionality.Profiler)):
        assert ops.f(x).tolist() == [11.0]
        with profile(activities=CPU) as prof:
            ops.f(x)
    assert calls == ["Profiler"] * 2
    assert named(prof, f"{lib.ns}::f").dispatch_keys == ["Profiler"]


def test_traces_and_recordings_work_inside(capsys, named):
    import io

    from triten.dispatch.structured.record_kernels import record_kernels

    a, file = tt.ones(2), io.StringIO()
    with profile(activities=CPU) as prof, tt.dispatch.show_trace(file), record_kernels() as seen:
        a.exp()
    assert "aten::exp" in file.getvalue() and seen == [("exp_cpu", tt.float32)]
    assert named(prof, "aten::exp").kernel_functions == [("exp_cpu", tt.float32)]


def test_registrations_meanwhile_are_seen(library, tree):
    lib, ops = library
    with profile(activities=CPU) as prof:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x.exp(), "CompositeImplicitAutograd")
        ops.f(tt.ones(2))
    assert ("aten::exp", f"{lib.ns}::f") in tree(prof)


def test_importing_the_package_loads_no_profiler():
    import subprocess
    import sys

    loaded = "[m for m in sys.modules if 'functional.profiler' in m]"
    program = f"import sys, triten; print({loaded}); triten.profiler.profile"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert dir(tt.profiler) == sorted(tt.profiler.__all__)
    assert all(getattr(tt.profiler, name) is not None for name in tt.profiler.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        tt.profiler.nonsense  # noqa: B018
    # A module with `__getattr__` is looked into without CPython's cache: `tt.add` would pay for it.
    assert not hasattr(tt, "__getattr__")


def test_it_agrees_with_pytorch_on_names_counts_and_memory():
    torch = pytest.importorskip("torch")

    def run(library, **settings):
        x = library.ones(16, 16)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with (
                library.profiler.profile(
                    activities=[library.profiler.ProfilerActivity.CPU],
                    profile_memory=True,
                    record_shapes=True,
                    **settings,
                ) as prof,
                library.profiler.record_function("block"),
            ):
                y = library.matmul(x, x)
                z = library.relu(y)
                library.sum(z, 0)
        keep = {"block", "aten::matmul", "aten::mm", "aten::relu", "aten::sum"}
        return [
            (e.name, e.cpu_parent.name if e.cpu_parent else None, e.cpu_memory_usage, e.input_shapes[:1])
            for e in prof.events()
            if e.name in keep and not (e.name == "block" and e.cpu_memory_usage == 0)
        ]

    ours, theirs = run(tt), run(torch)
    assert [row[:2] for row in ours] == [row[:2] for row in theirs]
    assert [row[2:] for row in ours if row[0] != "block"] == [row[2:] for row in theirs if row[0] != "block"]
