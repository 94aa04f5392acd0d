"""deploy/prometheus/alerts.yaml with shorter times, so that a fault takes seconds. Nothing else is changed."""
from .world import ROOT

ALERTS = ROOT / "deploy/prometheus/alerts.yaml"

# What is replaced, and how often it stands there.
SCALE = [
    ("for: 1h", "for: 3s", 1), ("for: 30m", "for: 6s", 1), ("for: 15m", "for: 2s", 1), ("for: 5m", "for: 3s", 7), ("for: 2m", "for: 2s", 1),
    ("for: 1m", "for: 2s", 6), ("[6h] offset 15m)) / 24", "[60s] offset 15s)) / 4", 1), ("[15m]", "[15s]", 3), ("[5m]", "[20s]", 2), ("[1h]", "[20s]", 2),
    ("== 1) > 120", "== 1) > 5", 1),       # overdue
    ("_stalled_seconds > 60", "_stalled_seconds > 4", 1),
    ('what="tasks"}) > 10800', 'what="tasks"}) > 30', 1),  # a pass every 10 s
]


def scaled():
    text = ALERTS.read_text()
    for before, after, times in SCALE:
        if text.count(before) != times:
            raise AssertionError(f"{ALERTS.name}: {before!r} stands there {text.count(before)} times, not {times}: "
                                 "see tests/faults/monitored/alerts.py")
        text = text.replace(before, after)
    return text
