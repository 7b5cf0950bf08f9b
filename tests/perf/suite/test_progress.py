"""The progress bar of a run fits into a terminal of 80 columns."""

import io

import pytest

from triten.perf.suite.display import progress_bar

rich_console = pytest.importorskip("rich.console", reason="the progress bar needs rich")


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize(
    "title", ["overhead: pointwise: a + b 16x16 float32 forward", "conv: " + "conv2d [3x3] " * 20]
)
def test_the_count_and_the_times_are_whole(width: int, title: str) -> None:
    seconds = [0.0]
    console = rich_console.Console(file=io.StringIO(), width=width, force_terminal=False)
    bar = progress_bar(console)
    bar.get_time = lambda: seconds[0]
    task = bar.add_task(title, total=200)
    for _ in range(100):
        seconds[0] += 8.0
        bar.advance(task)
    console.print(bar.get_renderable())
    (line,) = console.file.getvalue().splitlines()
    assert len(line) <= width
    assert line.startswith(title[:14])
    assert "100/200 0:13:20 elapsed, 0:13:20 left" in " ".join(line.split())
