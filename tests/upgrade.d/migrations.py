"""The migrations of this tree: their statements, and how long each takes on a database of many rows."""
from __future__ import annotations

import glob
import json
import os
import re
import threading
import time
from dataclasses import dataclass, field

import pymysql
from machinery import ROOT, Servers, numbers

FOLDER = f"{ROOT}/sql/mysql/migrations"
PLAN = f"{FOLDER}/plan.json"
HAS_IT_ALREADY = (1060, 1061)  # column, index: as src/store/mysql/migrate.cc
BODY_BYTES = 500
BATCH = 100_000
DUE_FROM = 1_000_000  # message-ids of fill_due() begin behind this number
EPOCH = 1735689600  # ids count milliseconds from 2025-01-01


def statements(path: str) -> list[str]:
    """As sql::split(): each ends with a semicolon at the end of a line; comments are removed."""
    with open(path, encoding="utf-8") as file:
        code = [line.split(" -- ")[0].strip() for line in file if not line.strip().startswith("--")]
    return [s.strip().rstrip(";") for s in re.split(r";\n", "\n".join(line for line in code if line) + "\n") if s.strip()]


def names() -> list[str]:
    return sorted(os.path.basename(path)[:-len(".sql")] for path in glob.glob(f"{FOLDER}/*.sql"))


def migrate_to(servers: Servers, database: str, version: int) -> None:
    """What an older `rung migrate` would have left: a schema that knows the migrations up to `version`."""
    servers.rows(f"CREATE DATABASE IF NOT EXISTS {database}")
    servers.rows(f"USE {database}")
    servers.rows("CREATE TABLE IF NOT EXISTS rung_schema (version INT NOT NULL, name VARCHAR(255) NOT NULL, applied_at "
                 "DATETIME(3) NOT NULL, PRIMARY KEY (version)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin")
    for name in names():
        if int(name[:4]) > version:
            break
        for statement in statements(f"{FOLDER}/{name}.sql"):
            servers.rows(statement)
        servers.rows("INSERT INTO rung_schema VALUES (%s, %s, UTC_TIMESTAMP(3))", int(name[:4]), name)


def identity(at: int) -> int:
    """The lowest id of a task that is taken in at this second."""
    return (at - EPOCH) * 1000 << 22


def fill(servers: Servers, rows: int, days: int = 30) -> None:
    """`rows` finished tasks of the `days` until now, each with a body and one attempt."""
    now = int(time.time())
    step = days * 86400 * 1000 // (rows + 1)  # ms between two
    for first in range(1, rows + 1, BATCH):
        seq = numbers(first, min(first + BATCH - 1, rows), "s")
        task = f"{identity(now - days * 86400)} + CAST(s.seq AS SIGNED) * {max(step, 1) << 22}"
        at = f"TIMESTAMPADD(MICROSECOND, CAST(s.seq AS SIGNED) * {step} * 1000, FROM_UNIXTIME({now - days * 86400}))"
        servers.rows("START TRANSACTION")
        servers.rows(f"INSERT INTO rung_tasks (id, shard, state, attempt, level, levels, ladder, node, queue, message_id, "
                     f"first_failed_at, created_at, finished_at, finished_by, last_error, body_bytes) SELECT {task}, "
                     f"s.seq MOD 64, 'succeeded', 1, 1, 2, 'default', 1, CONCAT('filled-', s.seq MOD 10), "
                     f"CONCAT('filled-', s.seq), {at}, {at}, {at} + INTERVAL 40 SECOND, 'presumed', 'ValueError: boom', "
                     f"{BODY_BYTES} FROM {seq}")
        servers.rows(f"INSERT INTO rung_bodies SELECT {task}, '{{}}', NULL, '{{}}', REPEAT('x', {BODY_BYTES}) FROM {seq}")
        servers.rows(f"INSERT INTO rung_attempts (task_id, attempt, level, due_at, published_at, outcome, outcome_at, error, "
                     f"node) SELECT {task}, 1, 1, {at}, {at}, 'succeeded', {at}, NULL, 1 FROM {seq}")
        servers.rows("COMMIT")
    servers.rows("ANALYZE TABLE rung_tasks, rung_bodies, rung_attempts")


def fill_audit(servers: Servers, rows: int = 10_000) -> None:
    servers.rows(f"INSERT INTO rung_audit (at, who, what, task_id, before_change, after_change) SELECT UTC_TIMESTAMP(3), 'filled', "
                 f"'reschedule', seq, '{{}}', '{{}}' FROM {numbers(1, rows)}")


def fill_due(servers: Servers, queue: str, rows: int) -> list[str]:
    """Tasks of an older sidecar: they wait for level 1, due from now on. Their message-ids."""
    base = identity(int(time.time()) - 60)
    seq, at = numbers(1, rows), "UTC_TIMESTAMP(3) - INTERVAL 60 SECOND"
    servers.rows("START TRANSACTION")
    servers.rows(f"INSERT INTO rung_bodies SELECT {base} + seq, CONCAT('{{\"message_id\": \"u-', {DUE_FROM} + seq, '\"}}'), NULL, '{{}}', "
                 f"'x' FROM {seq}")
    servers.rows(f"INSERT INTO rung_tasks (id, shard, state, next_at, level, levels, ladder, node, queue, message_id, first_failed_at, "
                 f"created_at, last_error, body_bytes) SELECT {base} + seq, seq MOD 64, 'scheduled', UTC_TIMESTAMP(3) + INTERVAL "
                 f"seq * 50 MICROSECOND, 1, 4, 'default', 1, '{queue}', CONCAT('u-', {DUE_FROM} + seq), {at}, {at}, 'boom', 1 FROM {seq}")
    servers.rows("COMMIT")
    return [f"u-{DUE_FROM + number}" for number in range(1, rows + 1)]


@dataclass
class Probe:
    """Writes to the three big tables, all the time, and notes how long each write took. REQUIRES: filled tables.

    It writes to a task of its own: sidecars that run beside it would publish what it made of theirs."""
    servers: Servers
    database: str
    waits: list[tuple[float, float]] = field(default_factory=list)  # (began, ended), monotonic
    ending: threading.Event = field(default_factory=threading.Event)
    failed: list[str] = field(default_factory=list)

    def __enter__(self) -> "Probe":
        self.servers.rows(f"USE {self.database}")
        (last,), = self.servers.rows("SELECT MAX(id) FROM rung_tasks WHERE message_id LIKE 'filled-%%'")
        self.task = last + 1
        self.servers.rows("INSERT INTO rung_tasks (id, state, attempt, queue, created_at, finished_at, finished_by) VALUES "
                          "(%s, 'succeeded', 1, 'probe', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), 'presumed')", self.task)
        self.servers.rows("INSERT INTO rung_bodies (task_id, properties, origin, body) VALUES (%s, '{}', '{}', 'x')", self.task)
        self.servers.rows("INSERT INTO rung_attempts (task_id, attempt, level, due_at, published_at, outcome, outcome_at) VALUES "
                          "(%s, 1, 1, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), 'succeeded', UTC_TIMESTAMP(3))", self.task)
        self.threads = [threading.Thread(target=self.write, args=(change,), daemon=True) for change in (
            "UPDATE rung_tasks SET level = level + 1 WHERE id = %s",
            "UPDATE rung_attempts SET level = level + 1 WHERE task_id = %s AND attempt = 1",
            "UPDATE rung_bodies SET properties = CONCAT('{}', RAND()) WHERE task_id = %s")]
        for thread in self.threads:
            thread.start()
        return self

    def write(self, change: str) -> None:
        db = self.servers.sql(self.database)
        with db.cursor() as cursor:
            while not self.ending.is_set():
                began = time.monotonic()
                try:
                    cursor.execute(change, (self.task,))
                except pymysql.err.Error as error:
                    self.failed.append(f"{change}: {error}")
                self.waits.append((began, time.monotonic()))
                time.sleep(0.01)
        db.close()

    def longest(self, began: float, ended: float) -> float:
        """The longest that a write was under way within that time."""
        return max((min(end, ended) - max(begin, began) for begin, end in list(self.waits)), default=0.0)

    def __exit__(self, *_) -> None:
        self.ending.set()
        for thread in self.threads:
            thread.join()


def table_of(statement: str) -> str:
    found = re.search(r"ALTER TABLE (\w+)", statement)
    return found.group(1) if found else ""


@dataclass
class Cost:
    """Of a migration's statements that alter one table."""
    seconds: float
    waited: float  # the longest that a write to one of the big tables was under way meanwhile


def timed(servers: Servers, name: str) -> dict[str, list[tuple[float, float]]]:
    """Applies a migration; when each statement that alters a table began and ended, by table."""
    windows: dict[str, list[tuple[float, float]]] = {}
    prepared = ""
    for statement in statements(f"{FOLDER}/{name}.sql"):
        prepared = statement if statement.startswith("SET @rung_ddl") else prepared
        table = table_of(prepared if statement.startswith("EXECUTE") else statement)
        began = time.monotonic()
        servers.rows(statement)
        if table and not statement.startswith("SET"):
            windows.setdefault(table, []).append((began, time.monotonic()))
    return windows


def measure(servers: Servers, rows: int) -> dict[str, dict[str, Cost]]:
    """By migration and table. Each migration is applied to tables of `rows` rows while others write to them."""
    database = "rung_measure"
    migrate_to(servers, database, 2)
    began = time.monotonic()
    fill(servers, rows)
    print(f"filled in {time.monotonic() - began:.0f} s: {rows:,} tasks, each with a body of {BODY_BYTES} bytes and one attempt",
          flush=True)
    windows = {}
    with Probe(servers, database) as probe:
        time.sleep(1)
        before = time.monotonic()
        for name in names()[2:]:
            began = time.monotonic()
            windows[name] = timed(servers, name)
            print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
    # Only now has the last write that waited ended.
    print(f"a write took at most {probe.longest(0.0, before) * 1000:.0f} ms before the first migration", flush=True)
    if probe.failed:
        print(f"{len(probe.failed)} writes failed, the first: {probe.failed[0]}", flush=True)
    out = {name: {table: Cost(sum(end - begin for begin, end in spans), max(probe.longest(*span) for span in spans))
                  for table, spans in tables.items()} for name, tables in windows.items()}
    for name, tables in out.items():
        for table, cost in tables.items():
            print(f"{name:24} {table:14} {cost.seconds:7.2f} s, a write waited {cost.waited:6.2f} s", flush=True)
    return out


def record(measured: dict[str, dict[str, Cost]], rows: int, server: str) -> None:
    """Writes the seconds for a million rows into plan.json."""
    with open(PLAN, encoding="utf-8") as file:
        plan = json.load(file)
    for name, tables in measured.items():
        for table, entry in plan["migrations"][name]["tables"].items():
            took = tables[table].seconds * 1_000_000 / rows
            entry[server]["seconds"] = round(took) if took >= 10 else max(round(took, 1), 0.1)
    with open(PLAN, "w", encoding="utf-8") as file:
        json.dump(plan, file, indent=2)
        file.write("\n")
