"""deploy/grafana/rung.json: whether Grafana could read it, and whether each query finds something in Prometheus."""
import itertools
import json
import re

from .world import ROOT

FILE = ROOT / "deploy/grafana/rung.json"
PANELS = {"row", "stat", "timeseries", "heatmap"}
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24
# Queries that find nothing here, and why.
EMPTY: dict = {}


def load():
    return json.loads(FILE.read_text())


def overlap(one, two):
    return (one["x"] < two["x"] + two["w"] and two["x"] < one["x"] + one["w"]
            and one["y"] < two["y"] + two["h"] and two["y"] < one["y"] + one["h"])


def complaints():
    """What Grafana would stumble over, or a person."""
    board = load()
    for key in ("uid", "title", "schemaVersion", "panels", "templating", "time", "refresh"):
        if not board.get(key):
            yield f"has no {key}"
    panels = board["panels"]
    ids = [panel["id"] for panel in panels]
    if len(set(ids)) != len(ids):
        yield "has two panels with one id"
    variables = {variable["name"] for variable in board["templating"]["list"]}
    for variable in board["templating"]["list"]:
        if variable["type"] == "query" and variable["datasource"] != DATASOURCE:
            yield f"variable {variable['name']} does not use the variable datasource"
    for used in set(re.findall(r"\$\{?(\w+)", json.dumps(board["panels"]))) - {"__rate_interval"}:
        if used not in variables:
            yield f"uses the unknown variable {used}"
    for panel in panels:
        yield from (f"panel {panel['title']!r} {what}" for what in of_panel(panel))
    for one, two in itertools.combinations(panels, 2):
        if overlap(one["gridPos"], two["gridPos"]):
            yield f"panels {one['title']!r} and {two['title']!r} overlap"


def of_panel(panel):
    place = panel["gridPos"]
    if panel["type"] not in PANELS:
        yield f"has the type {panel['type']}"
    if not panel.get("title"):
        yield "has no title"
    if place["x"] < 0 or place["w"] < 1 or place["h"] < 1 or place["x"] + place["w"] > WIDTH:
        yield f"does not fit: {place}"
    if panel["type"] == "row":
        return
    if panel["datasource"] != DATASOURCE or any(target["datasource"] != DATASOURCE for target in panel["targets"]):
        yield "does not use the variable datasource"
    references = [target["refId"] for target in panel["targets"]]
    if not references or len(set(references)) != len(references):
        yield "has no targets, or two of one name"
    if not panel["fieldConfig"]["defaults"].get("unit") and panel["type"] != "heatmap":
        yield "has no unit"


def queries():
    """[(panel, query)], with the variables filled in as for one job and all instances and queues."""
    found = []
    for panel in load()["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$__rate_interval", "10s").replace("$job", "rung")
            found.append((panel["title"], re.sub(r"\$(instance|queue)", ".*", query)))
    found += [("annotation", entry["expr"].replace("$job", "rung")) for entry in load()["annotations"]["list"]]
    return found


def without_data(prometheus, since, now):
    """The queries that Prometheus refuses, or that found nothing in all of that time."""
    for panel, query in queries():
        answer = prometheus.ask("query_range", query=query, start=since, end=now, step="2s")
        finds = any(value != "NaN" for series in answer["result"] for _, value in series["values"])
        if finds == (query in EMPTY):
            yield f"{panel}: {query}" + (" finds something by now" if finds else "")
