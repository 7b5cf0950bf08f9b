"""Host time of a script, by operator and layer: wrapper, dispatch, autograd, plan, allocation, kernel.

The script runs as under `python SCRIPT ARGUMENTS`, with a sampling timer. On CUDA, a kernel's time is its
launch; the profiler (`tt.profiler`) has the device time. With --step, the profiler records one training step
instead.
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys
import traceback
from pathlib import Path

from ..refusal import RefusalError, require_writable
from ..result_file import write_whole
from ..step_profile.comparison import format_rows
from ..step_profile.script import ScriptStep
from ..step_profile.trace import read_trace
from .layers import LAYERS, OUTSIDE, ROOT
from .sampling import HostProfile, is_available, sampled

# Milliseconds: below, the samples themselves would be most of what runs.
MIN_INTERVAL, MAX_INTERVAL = 0.1, 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf profile`."""
    parser.add_argument("script", type=Path, help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its own arguments")
    parser.add_argument(
        "--interval", type=float, default=1.0, metavar="MS", help="between samples; default 1"
    )
    parser.add_argument("--top", type=int, default=20, metavar="N", help="operators and lines to show")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="also write the profile as JSON")
    parser.add_argument(
        "--step",
        type=Path,
        metavar="FILE",
        help="record one training step, between two calls of an optimizer's step, as a trace for Perfetto and for "
        "`report --profile FILE`; the script ends after it",
    )
    parser.add_argument(
        "--after", type=int, default=3, metavar="N", help="optimizer steps before --step; default 3"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the script and print its profile; return exit status 2 if it cannot run, 1 if it failed."""
    fault = _fault(arguments)
    if fault:
        raise RefusalError(fault)
    require_writable(arguments.output)
    require_writable(arguments.step)
    status, argv, path = 0, sys.argv, sys.path[:]
    sys.argv = [str(arguments.script), *arguments.arguments]
    sys.path.insert(0, str(arguments.script.resolve().parent))
    try:
        if arguments.step:
            return _record_step(arguments)
        with sampled(arguments.interval / 1e3) as profile:
            status = _run_script(arguments.script)
    finally:
        sys.argv, sys.path[:] = argv, path
    print(format_profile(profile, arguments.top))
    if arguments.output:
        try:
            write_whole(arguments.output, json.dumps(profile.as_json(), indent=1) + "\n")
        except OSError as error:
            raise RefusalError(f"cannot write {arguments.output}: {error.strerror}") from None
    return status


def _record_step(arguments: argparse.Namespace) -> int:
    """Record a step of the script, write its trace, and print its operators."""
    recorder = ScriptStep(arguments.after)
    status = recorder.run(lambda: _run_script(arguments.script))
    if recorder.profile is None:
        if status:
            return status
        raise RefusalError(
            f"{arguments.script} made {recorder.count} optimizer steps, and --after {arguments.after} needs "
            f"{arguments.after + 3}; tt.perf.profile_step records a step without an optimizer"
        )
    try:
        recorder.save(arguments.step)
    except OSError as error:
        raise RefusalError(f"cannot write {arguments.step}: {error.strerror}") from None
    print(format_rows(read_trace(arguments.step), arguments.top))
    return status


def _fault(arguments: argparse.Namespace) -> str | None:
    if not arguments.script.is_file():
        return f"no such script: {arguments.script}"
    if not MIN_INTERVAL <= arguments.interval <= MAX_INTERVAL:
        return f"--interval must be from {MIN_INTERVAL} to {MAX_INTERVAL} ms, got {arguments.interval:g}"
    if arguments.top < 1:
        return f"--top must be at least 1, got {arguments.top}"
    if arguments.after < 1:
        return f"--after must be at least 1, got {arguments.after}"
    if arguments.step:
        return "-o is the file of the samples, which --step does not take" if arguments.output else None
    if not is_available():
        return "this system has no interval timer (signal.setitimer), by which samples are taken"
    return None


def _run_script(script: Path) -> int:
    """Run the script and return its exit status; print an exception without this module's frames."""
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return 1 if end.code else 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was sampled so far:", file=sys.stderr)
        return 1
    except Exception as error:  # the script's own: shown, and the profile after it
        inside = error.__traceback__
        while inside is not None and inside.tb_frame.f_code.co_filename != str(script):
            inside = inside.tb_next
        traceback.print_exception(error.with_traceback(inside))  # of a syntax error no frame is the script's
        return 1
    return 0


def format_profile(profile: HostProfile, top: int) -> str:
    """Format three tables: layers, operators by layer, and lines, the first `top` rows of each."""
    if not profile.samples:
        return f"no sample: the program took less than {profile.interval * 1e3:g} ms"
    whole = profile.seconds
    lines = [
        f"{whole:.2f} s in {profile.samples:,} samples, {profile.interval * 1e3:g} ms apart; taking them took "
        f"{profile.overhead:.3f} s ({profile.overhead / whole:.1%}) more",
        "",
        f"{'layer':<12}{'seconds':>9}{'share':>8}",
    ]
    for layer, seconds in profile.layers.items():
        lines.append(f"{layer:<12}{seconds:>9.3f}{seconds / whole:>8.1%}  {LAYERS[layer]}")
    lines.append(f"{'total':<12}{sum(profile.layers.values()):>9.3f}{1:>8.1%}")
    inner = [layer for layer in LAYERS if layer != OUTSIDE]
    lines += ["", f"{'operator':<28}{'seconds':>9}{'share':>8}" + "".join(f"{n:>11}" for n in inner)]
    rows = sorted(profile.operators.items(), key=lambda item: -sum(item[1].values()))
    for name, row in rows[:top]:
        seconds = sum(row.values())
        lines.append(
            f"{name:<28.28}{seconds:>9.3f}{seconds / whole:>8.1%}"
            + "".join(f"{row[layer] / seconds:>11.0%}" for layer in inner)
        )
    lines += ["", f"{'line':<60}{'seconds':>9}{'share':>8}  function"]
    for (file, line, function), seconds in profile.lines.most_common(top):
        path = Path(file)
        shown = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
        lines.append(f"{f'{shown}:{line}':<60.60}{seconds:>9.3f}{seconds / whole:>8.1%}  {function}")
    return "\n".join(lines)
