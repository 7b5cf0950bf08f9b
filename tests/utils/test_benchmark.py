"""`tt.utils.benchmark`, on a clock that the tests hold; texts are PyTorch's for the same times."""

import itertools

import pytest

import triten as tt
from triten.utils import benchmark


class Clock:
    """Goes on by a step with each look, and by what a statement says that it takes."""

    def __init__(self, step):
        self.time, self.step, self.runs = 0.0, step, 0

    def __call__(self):
        self.time += self.step
        return self.time

    def work(self):
        self.time += 0.01
        self.runs += 1


def measured(times, number=1, setup="pass", **words):
    return benchmark.Measurement(number, times, benchmark.TaskSpec("f(x)", setup, **words))


def test_timeit_runs_a_hundredth_before_it_measures():
    clock = Clock(0.001)
    found = benchmark.Timer("f()", globals={"f": clock.work}, timer=clock).timeit(200)
    assert found.raw_times == [pytest.approx(2.001)] and found.number_per_run == 200 and clock.runs == 202


def test_blocks_grow_until_the_clock_does_not_count():
    clock = Clock(0.0001)
    timer = benchmark.Timer("f()", globals={"f": clock.work}, timer=clock)
    seen = []
    found = timer.blocked_autorange(lambda *given: seen.append(given), min_run_time=3)
    assert found.number_per_run == 100 and len(found.raw_times) == 3
    assert [number for number, _ in seen] == [100, 100, 100]
    # Once the times agree, four are enough; each is of 10 runs, 0.1 s.
    assert len(timer.adaptive_autorange().raw_times) == 4


def test_a_measurement_that_never_agrees_stops_in_the_end():
    clock = Clock(0.0)
    lengths = itertools.cycle([0.1, 1.0])

    def work():
        clock.time += next(lengths)

    timer = benchmark.Timer("f()", globals={"f": work}, timer=clock)
    found = timer.adaptive_autorange(threshold=0.001, max_run_time=3.0)
    assert found.raw_times == pytest.approx([1.0, 0.1, 1.0, 0.1, 1.0]) and not found.meets_confidence(0.001)


def test_statements_know_the_package_and_run_with_their_threads():
    before = tt.get_num_threads()
    seen = {}
    benchmark.Timer(
        """
        y = tt.ones(x)
        seen["threads"] = tt.get_num_threads()
        """,
        setup="x = 3",
        globals={"seen": seen},
        num_threads=before + 1,
    ).timeit(1)
    assert seen["threads"] == before + 1 and tt.get_num_threads() == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"stmt": print}, "Currently only a `str` stmt is supported"),
        ({"language": "java"}, "Invalid language `java`"),
        ({"language": "c++"}, "statements in C\\+\\+ are not supported"),
        ({"global_setup": "x"}, "global_setup is C\\+\\+ only, got `x`"),
    ],
)
def test_other_statements_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        benchmark.Timer(**given)
    with pytest.raises(NotImplementedError, match="Valgrind"):
        benchmark.Timer().collect_callgrind()


def test_statistics_are_those_of_pytorch():
    found = measured([2e-6, 2.1e-6, 2.2e-6, 2.05e-6, 3e-6])
    assert (found.median, found.significant_figures, found.has_warnings) == (2.1e-6, 1, False)
    assert found.mean == pytest.approx(2.27e-6) and found.iqr == pytest.approx(1.5e-7)
    assert found.num_threads == 1 and found.title == "f(x)"
    with pytest.raises(AttributeError, match="has no attribute 'nobody'"):
        _ = found.nobody
    (merged,) = benchmark.Measurement.merge([measured([2.0], 2), measured([9.0], 3)])
    assert merged.times == [1.0, 3.0] and merged.number_per_run == 1


def test_a_measurement_prints_its_spread():
    text = repr(measured([1e-6, 2e-6, 3e-6, 9e-6], setup="a = 1\nb = 2", label="L", sub_label="S"))
    assert text.splitlines()[1:] == [
        "L: S",
        "setup:",
        "  a = 1",
        "  b = 2",
        "",
        "  Median: 2.50 us",
        "  IQR:    2.75 us (1.75 to 4.50)",
        "  4 measurements, 1 runs per measurement, 1 thread",
        "  WARNING: Interquartile range is 110.0% of the median measurement.",
        "           This suggests significant environmental influence.",
    ]


@pytest.mark.parametrize(
    ("time", "unit"),
    [(1e-10, "s"), (3e-9, "ns"), (9.99e-7, "ns"), (1e-6, "us"), (3e-4, "us"), (0.5, "ms"), (7, "s")],
)
def test_units(time, unit):
    assert benchmark.select_unit(time)[0] == unit


def test_figures():
    assert [benchmark.trim_sigfig(x, n) for x, n in ((3.14159, 2), (1234.5, 2), (99.9, 2), (0.0, 3))] == [
        3.1,
        1200.0,
        100.0,
        0.0,
    ]


def test_a_table_has_rows_for_threads_and_columns_for_descriptions():
    results = [
        measured(
            [1e-6 * size / threads * slow] * 4,
            label="add",
            sub_label=name,
            description=f"n={size}",
            num_threads=threads,
        )
        for threads in (1, 4)
        for name, slow in (("float", 1), ("int", 2.7))
        for size in (1, 1024)
        if (name, size, threads) != ("int", 1, 4)
    ]
    table = benchmark.Compare(results)
    assert str(table).splitlines() == [
        "[-------------- add ---------------]",
        "             |   n=1    |    n=1024 ",
        "1 threads: -------------------------",
        "      float  |  1000.0  |  1024000.0",
        "      int    |  2700.0  |  2764800.0",
        "4 threads: -------------------------",
        "      float  |   250.0  |   256000.0",
        "      int    |          |   691200.0",
        "",
        "Times are in nanoseconds (ns).",
    ]
    table.trim_significant_figures()
    assert str(table).splitlines()[3:5] == [
        "      float  |  1000  |  1024000",
        "      int    |  2700  |  2765000",
    ]
    table.colorize(rowwise=True)
    assert "\033[92m\033[1m" in str(table)
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`, got <class 'int'>"):
        table.extend_results([3])


def test_environments_are_told_apart():
    rows = str(
        benchmark.Compare(
            [measured([1e-3] * 4, label="x", description="d", env=env) for env in ("main", "new")]
        )
    ).splitlines()
    assert [row.split("|")[0].split() for row in rows[3:5]] == [["(main)", "f(x)"], ["(new)", "f(x)"]]
