"""Result files for the tests of the report: two commits, a row that became slower, a row with a hostile name."""

from pathlib import Path

from triten.perf.suite.results import Bar, Limits, Result, Row

HOSTILE = "<script>alert(1)</script>"
LIMITS = Limits(1e10, {"float32": 1e11}, 1e-7)


def rows(slowdown: float) -> list[Row]:
    def row(suite: str, operator: str, name: str, ours: float, theirs: float, **more: object) -> Row:
        fields = {
            "size": "64x64",
            "dtype": "float32",
            "device": "cpu",
            "bytes": 48_000,
            "flops": 4096,
            **more,
        }
        samples = {"triten": [ours] * 8, "torch": [theirs] * 8}
        return Row(suite, operator, name, samples=samples, **fields)

    return [
        row("overhead", "pointwise", "a + b", 1e-6, 2e-6, bar=Bar("torch", 0.55)),
        row("overhead", "views", "a.T", 1e-6 * slowdown, 2e-6, bar=Bar("torch", 0.75)),
        row("overhead", "new shapes", "a + b, new shapes", 9e-5, 1e-6, bar=Bar("torch", 10.0)),
        row("elementwise", "add", HOSTILE, 4e-5, 2e-5),
        row("elementwise", "mul", "a * b | c", 2e-5, 2e-5, dtype="float64"),
        row("elementwise", "mul", "backward of a * b", 4e-5, 2e-5, direction="backward"),
        Row("elementwise", "gone", "gone", "1", "int64", "cpu", note="missing in torch: gone"),
    ]


def write_files(folder: Path) -> list[Path]:
    """Write the newer commit first, so that the report has to sort."""
    paths = []
    for name, day, slowdown in (("new", 2, 2.0), ("old", 1, 1.0)):
        commit = {"hash": name * 4, "time": f"2026-01-0{day}T00:00:00+00:00", "dirty": False}
        settings = {"device": "cpu", "threads": 2, "confidence": 0.95}
        machine = {"host": "h", "processor": HOSTILE}
        result = Result(
            machine, {"triten": "0"}, settings, commit, limits=LIMITS, rows=rows(slowdown), complete=True
        )
        paths.append(folder / f"{name}.json")
        result.write(paths[-1])
    return paths
