"""The runs of tests/upgrade: an upgrade under traffic with the old program, the slice of it that CI runs, and a server that is
killed in the middle of each migration."""
from __future__ import annotations

import glob
import json
import os
import re
import shutil
import subprocess
import time

import migrations
from machinery import ROOT, Node, Servers, until
from traffic import CONFIG, LADDER, QUEUE, Judge, Message, Span, Traffic, now_ms

DATABASE = "rung_bench"  # machinery.Servers
FIRST_RELEASE = 10       # the last migration of 0.1.0


class Failed(Exception):
    """The run found something wrong."""


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def git(*words: str) -> str:
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True, text=True).stdout.strip()


def build_old(version: str) -> tuple[str, int]:
    """The program of a tag or commit, and its newest migration. Sources and build stay in build/upgrade for the next time."""
    if subprocess.run(["git", "-C", ROOT, "rev-parse", "--verify", "--quiet", f"{version}^{{commit}}"], check=False,
                      capture_output=True).returncode:
        # Not tagged in this clone: the commit that gave the CHANGELOG its section.
        section = f"## [{version.lstrip('v')}]"
        version = git("log", f"-S{section}", "--reverse", "--format=%H", "--", "CHANGELOG.md").split("\n")[0]
        if not version:
            raise SystemExit(f"no commit added {section} to the CHANGELOG: --from COMMIT")
    commit = git("rev-parse", "--short=10", version)
    folder = f"{ROOT}/build/upgrade/{commit}"
    binary = f"{folder}/build/release/rung"
    if not os.path.exists(binary):
        say(f"building {commit} in {folder}")
        os.makedirs(folder, exist_ok=True)
        archive = subprocess.run(["git", "-C", ROOT, "archive", commit], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        env = dict(os.environ, CCACHE_BASEDIR=folder, CCACHE_NOHASHDIR="1")
        for words in (["cmake", "--preset", "release"], ["cmake", "--build", "--preset", "release", "--target", "rung"]):
            subprocess.run(words, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
    newest = max(int(os.path.basename(path)[:4]) for path in glob.glob(f"{folder}/sql/mysql/migrations/*.sql"))
    return binary, newest


def node(servers: Servers, number: int, binary: str | None = None) -> Node:
    """CONFIG names only what 0.1.0 knows. The lease is short so that a mistake shows soon."""
    return Node(servers, number, more=CONFIG + "lease: 5s\n", ladder=LADDER, binary=binary)


def rung(one: Node, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([one.program, *words, "-c", one.path], check=False, capture_output=True, text=True)


def must(done: subprocess.CompletedProcess) -> str:
    if done.returncode != 0:
        raise Failed(f"{done.args}: exit code {done.returncode}: {done.stderr}")
    return done.stdout


def plan(one: Node) -> dict:
    return json.loads(must(rung(one, "migrate", "--plan", "--json")))


# The columns of 0.1.0: a later migration may add some, and must change none of these.
CHECKSUMS = {
    "rung_tasks": "id, shard, state, attempt, level, ladder, queue, message_id, created_at, finished_at, finished_by, body_bytes",
    "rung_bodies": "task_id, properties, origin, body",
    "rung_attempts": "task_id, attempt, level, due_at, published_at, outcome, outcome_at",
}


def checksums(servers: Servers) -> dict[str, tuple]:
    """Of the filled rows, by table."""
    servers.rows(f"USE {DATABASE}")
    (last,), = servers.rows("SELECT MAX(id) FROM rung_tasks WHERE message_id LIKE 'filled-%%'")
    out = {}
    for table, columns in CHECKSUMS.items():
        key = "id" if table == "rung_tasks" else "task_id"
        out[table] = servers.rows(f"SELECT COUNT(*), SUM(CRC32(CONCAT_WS('|', {columns}))) FROM {table} WHERE {key} <= {last}")[0]
    return out


def migrate_beside(servers: Servers, one: Node) -> None:
    """`rung migrate`, while sidecars run: how long, and how long a write waited."""
    servers.rows(f"USE {DATABASE}")
    with migrations.Probe(servers, DATABASE) as probe:
        began = time.monotonic()
        out = must(rung(one, "migrate"))
        ended = time.monotonic()
    # The writes that waited have ended by now.
    for line in out.splitlines():
        say(f"  {line}")
    say(f"rung migrate took {ended - began:.2f} s; no write to the three big tables took longer than "
        f"{probe.longest(began, ended):.2f} s")
    if probe.failed:
        raise Failed(f"{len(probe.failed)} writes beside the migration failed, the first: {probe.failed[0]}")


def started(nodes: list[Node]) -> None:
    for one in nodes:
        one.start()
    for one in nodes:
        until(f"{one.name} runs", lambda one=one: one.process.poll() is not None or (
            one.logged("broker connected") and one.logged("shards acquired")))
        if one.process.poll() is not None:
            raise Failed(f"{one.name} ended: " + open(one.log, encoding="utf-8").read()[-1000:])


def stopped(one: Node) -> None:
    if (code := one.end()) != 0:
        raise Failed(f"{one.name} ended with exit code {code}")


LOGS = f"{ROOT}/build/upgrade/logs"


def kill(nodes: list[Node]) -> None:
    """Ends what still runs, and keeps the logs of this run in LOGS: the servers' folder is removed."""
    os.makedirs(LOGS, exist_ok=True)
    for one in nodes:
        if one.process is not None and one.process.poll() is None:
            one.kill()
        if os.path.exists(one.log):
            shutil.copy(one.log, LOGS)


def verdict(servers: Servers, traffic: Traffic, spans: list[Span], before: dict[str, tuple]) -> None:
    judge = Judge(servers, traffic)
    for line in judge.figures(spans):
        print(line)
    after = checksums(servers)
    if after != before:
        judge.offences.append(f"the filled rows changed: {before} before, {after} after")
    say(f"{len(traffic.messages)} messages, {traffic.deliveries()} deliveries, {judge.repeats} of them repeats; "
        f"{before['rung_tasks'][0]:,} older tasks unchanged")
    for offence in judge.offences[:20]:
        print(f"BROKEN: {offence}")
    if judge.offences:
        raise Failed(f"{len(judge.offences)} promises were broken")


def full(servers: Servers, options) -> None:
    binary, newest = build_old(options.old)
    old = [node(servers, number, binary) for number in (1, 2)]
    new = [node(servers, number) for number in (3, 4)]
    running: list[Node] = []
    try:
        must(rung(old[0], "migrate"))
        began = time.monotonic()
        servers.rows(f"USE {DATABASE}")
        migrations.fill(servers, options.rows)
        migrations.fill_audit(servers)
        # `rung version` of 0.1.0 takes no -c.
        name = subprocess.run([binary, "version"], check=True, capture_output=True, text=True).stdout.strip()
        say(f"a schema of {name}, version {newest}; {options.rows:,} tasks filled in "
            f"{time.monotonic() - began:.0f} s")
        before = checksums(servers)
        running = list(old)
        started(old)
        traffic = Traffic(servers, options.rate)
        traffic.begin()
        many = int(options.rate * 20)
        spans = [Span("two old sidecars, before the migration")]
        traffic.wait(many)

        say("rung migrate --plan, while the old sidecars run:")
        print(must(rung(new[0], "migrate", "--plan")))
        expected = plan(new[0])
        traffic.delay(100, options.delay)
        spans[-1].end = now_ms()
        spans.append(Span("two old sidecars, during the migration"))
        migrate_beside(servers, new[0])
        if plan(new[0])["pending"]:
            raise Failed("migrations are pending after rung migrate")
        spans[-1].end = now_ms()
        spans.append(Span("two old sidecars on the new schema"))
        traffic.wait(many)
        refused = rung(old[0], "list")
        say(f"the old program, started on the new schema: exit code {refused.returncode}, {refused.stderr.strip()}")
        if refused.returncode != 1 or str(expected["program_version"]) not in refused.stderr:
            raise Failed("the old program should refuse the newer schema")

        spans[-1].end = now_ms()
        spans.append(Span("two new sidecars beside them"))
        running += new
        started(new)
        until("each of four sidecars has its share", lambda: servers.balanced(4))
        traffic.wait(many)
        for one in old:
            stopped(one)
        spans[-1].end = now_ms()
        spans.append(Span("the new sidecars alone"))
        until("each of two sidecars has its share", lambda: servers.balanced(2))
        traffic.wait(many)
        traffic.finish()
        spans[-1].end = now_ms()
        for one in new:
            stopped(one)
        verdict(servers, traffic, spans, before)
    finally:
        kill(running)


def slice_of_ci(servers: Servers, options) -> None:
    """Without the old program: a schema as 0.1.0 left it, with tasks that are due. Two new sidecars start at once; one of them
    migrates, the other waits for it."""
    nodes = [node(servers, number) for number in (1, 2)]
    try:
        migrations.migrate_to(servers, DATABASE, FIRST_RELEASE)
        migrations.fill(servers, options.rows)
        migrations.fill_audit(servers, 1000)
        before = checksums(servers)
        traffic = Traffic(servers, options.rate)
        for message_id in migrations.fill_due(servers, QUEUE, 200):
            traffic.messages[message_id] = Message(now_ms(), 1, confirmed=True)
        pending = [one["migration"] for one in plan(nodes[0])["pending"]]
        if pending != migrations.names()[FIRST_RELEASE:]:
            raise Failed(f"the plan has {pending}")
        spans = [Span("from the start of two sidecars")]
        started(nodes)
        for name in pending:
            if sum(one.logged(f"migration={name} ") for one in nodes if one.logged("schema migrated")) != 1:
                raise Failed(f"{name} was not applied by exactly one sidecar")
        traffic.begin()
        traffic.wait(200)
        traffic.finish()
        spans[-1].end = now_ms()
        for one in nodes:
            stopped(one)
        verdict(servers, traffic, spans, before)
    finally:
        kill(nodes)


def schema_of(servers: Servers, database: str) -> dict[str, str]:
    """SHOW CREATE of each table and view, without what rows and time change."""
    servers.rows(f"USE {database}")
    out = {}
    for name, *_ in servers.rows("SHOW TABLES"):
        text = servers.rows(f"SHOW CREATE TABLE {name}")[0][1]
        text = re.sub(r" AUTO_INCREMENT=\d+", "", text).replace(f"`{database}`.", "")
        out[name] = re.sub(r"VALUES LESS THAN \(\d+\)", "VALUES LESS THAN (...)", text)
    return out


def altering(servers: Servers) -> bool:
    """A migration changes a table at this moment."""
    return bool(servers.rows("SELECT 1 FROM information_schema.processlist WHERE info LIKE 'ALTER TABLE rung!_%%' ESCAPE '!' "
                             "OR info LIKE 'EXECUTE rung!_ddl%%' ESCAPE '!'"))


def crash(servers: Servers, options) -> None:
    """kill -9 of the database while each migration changes a table of many rows; then `rung migrate` again."""
    one = node(servers, 1)
    migrations.migrate_to(servers, DATABASE, 2)
    migrations.fill(servers, options.rows)
    before = checksums(servers)
    killed: list[str] = []
    while True:
        waiting = plan(one)["pending"]
        if not waiting:
            break
        process = subprocess.Popen([one.program, "migrate", "-c", one.path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        name = ""
        while process.poll() is None and not name:
            (newest,), = servers.rows(f"SELECT MAX(version) FROM {DATABASE}.rung_schema")
            under_way = next((n for n in migrations.names() if int(n[:4]) == newest + 1), "")
            name = under_way if under_way not in killed and altering(servers) else ""
        if name:
            time.sleep(0.2 + 0.1 * len(killed))
            servers.control("kill-db")
            out = process.communicate()[0].decode().strip()
            say(f"{name}: the server was killed; rung migrate: exit code {process.returncode}, {out.splitlines()[-1]}")
            # 0: the migrations of moments were over before the kill.
            if process.returncode not in (0, 2):
                raise Failed("exit code 2 says that the database is away")
            if process.returncode == 2:
                killed.append(name)
            servers.control("start-db")
            servers.db = None
        else:
            out = process.communicate()[0].decode()
            if process.returncode != 0:
                raise Failed(f"rung migrate: {out}")
    migrations.migrate_to(servers, "rung_plain", 99)
    if schema_of(servers, DATABASE) != schema_of(servers, "rung_plain"):
        raise Failed("the schema differs from one that was migrated without a crash")
    if checksums(servers) != before:
        raise Failed("rows changed")
    say(f"killed in {', '.join(killed)}; the schema and {options.rows:,} rows are as without a crash")
    if len(killed) < 3:
        raise Failed("too few migrations were long enough to be hit: more --rows")

