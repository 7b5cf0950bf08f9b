"""Queries of the example for Grafana run on a store, and its files are well formed."""

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from triten.perf.result_file import ROOT
from triten.tests.perf.history.stored_runs import a_history, a_result

EXAMPLE = ROOT / "examples" / "grafana"
VARIABLES = {
    "$machine": "AMD EPYC, 2 cores",
    "$suite": "overhead",
    "$benchmark": "a 64x64 float32 forward",
    "$baseline": "torch",
    "$__from": "0",
    "$__to": "4102444800000",
}

pytestmark = pytest.mark.skipif(not EXAMPLE.is_dir(), reason="a checkout has the example")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = a_history(tmp_path / "h.sqlite", [a_result(1, {"a": [2.0]}), a_result(2, {"a": [4.0]})])
    connection = sqlite3.connect(path)
    yield connection
    connection.close()


def asked(store: sqlite3.Connection, query: str) -> list[tuple[object, ...]]:
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    return store.execute(query).fetchall()


def test_the_queries_of_the_dashboard_run(store: sqlite3.Connection) -> None:
    dashboard = json.loads((EXAMPLE / "dashboards" / "triten.json").read_text())
    variables = {each["name"]: asked(store, each["query"]) for each in dashboard["templating"]["list"]}
    assert variables == {
        name: [(VARIABLES[f"${name}"],)] for name in ("machine", "suite", "benchmark", "baseline")
    }
    times, ratios, last = (asked(store, panel["targets"][0]["rawQueryText"]) for panel in dashboard["panels"])
    assert [(library, median) for _, library, median in times if library == "triten"] == [
        ("triten", 2.0),
        ("triten", 4.0),
    ]
    assert [ratio for _, ratio in ratios] == [2.0, 4.0]
    assert [row[:2] + row[5:6] for row in last] == [("overhead", "a", 4.0)]


def test_the_dashboard_is_valid_for_its_data_source(store: sqlite3.Connection) -> None:
    dashboard = json.loads((EXAMPLE / "dashboards" / "triten.json").read_text())
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    known = {"__from", "__to"} | {each["name"] for each in dashboard["templating"]["list"]}
    for target in targets:
        query = target["rawQueryText"]  # the plugin replaces queryText by it
        assert target["queryText"] == query
        assert target["queryType"] in ("table", "time series")
        assert set(re.findall(r"\$(\w+)", query)) <= known
        for name, value in VARIABLES.items():
            query = query.replace(name, value)
        columns = [each[0] for each in store.execute(query).description]
        # A time series has its time first, and the plugin converts it only if it is named.
        assert target["timeColumns"] == (columns[:1] if target["queryType"] == "time series" else [])
        assert (columns[0] == "time") == (target["queryType"] == "time series")
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_provisioning_names_the_data_source_of_the_dashboard() -> None:
    provisioning = EXAMPLE / "provisioning"
    [source] = yaml.safe_load((provisioning / "datasources" / "triten.yaml").read_text())["datasources"]
    dashboard = json.loads((EXAMPLE / "dashboards" / "triten.json").read_text())
    asking = [*dashboard["panels"], *dashboard["templating"]["list"]]
    asking += [target for panel in dashboard["panels"] for target in panel["targets"]]
    named = {(each["datasource"]["uid"], each["datasource"]["type"]) for each in asking}
    assert named == {(source["uid"], source["type"])}
    [provider] = yaml.safe_load((provisioning / "dashboards" / "triten.yaml").read_text())["providers"]
    assert provider["options"]["path"] == "/var/lib/grafana/dashboards"


def test_the_workflow_calls_commands_that_exist() -> None:
    text = (ROOT / ".github" / "workflows" / "performance.yml").read_text()
    workflow = yaml.safe_load(text)
    assert set(workflow["jobs"]) == {"gate", "measure", "publish"}
    assert workflow["permissions"] == {"contents": "read"}
    # Values of the event reach the shell by the environment, never as text of a script.
    scripts = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert not any("${{" in script for script in scripts)
    assert sum(script.count("python -m triten.perf ") for script in scripts) == 5
