"""The servers, the sidecars and Prometheus: everything that is started, and its end. Scrapes are 2 s apart and may take as
long: on a busy machine some took more than a second, and a sidecar without a scrape counts as down."""
import contextlib
import glob
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

import pymysql

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import starting  # noqa: E402
from starting import ROOT, free_port, start  # noqa: E402

BOUND_SECONDS = int(os.environ.get("RUNG_MONITORING_SECONDS", "120"))  # for anything that is waited for

# Short, so that each fault takes seconds. `short` parks after one retry.
CONFIG = """
broker: {{ url: "{amqp}", management: "{management}", heartbeat: 1s, topology_check: 1s, attachment_check: 1s }}
store: {{ url: "mysql://{login}@127.0.0.1:{db_port}/{schema}", timeout: 2s }}
http: {{ listen: "127.0.0.1:{port}" }}
node: {node}
lease: 3s
retention: 1h
ladders:
  default: [500ms, 500ms, 500ms, 500ms, 500ms, 500ms, 500ms, 500ms, 500ms, 500ms, 500ms, 500ms, 500ms, 500ms]
  short: [200ms]
rules:
  of_mails: [{{ when: {{ error: /hopeless/ }}, then: park }}]
queues:
  orders: {{ ladder: short }}
  payments: {{ gate: {{ breaker: {{ open_after: 5, of_last: 5, wait: [1s], probes: 1, probe_timeout: 1s, close_after: 1 }} }} }}
  invoices: {{ ladder: default }}
  mails: {{ rules: of_mails, late_by: 2s }}
  idle: {{}}
"""


def until(what, condition, seconds=None):
    return starting.until(what, condition, seconds or BOUND_SECONDS)


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


class Sidecar:
    """`rung run`, scraped while it is meant to run."""

    def __init__(self, world, node, job, **settings):
        self.world, self.node, self.job, self.port, self.process = world, node, job, free_port(), None
        self.folder = world.folder / node
        self.folder.mkdir()
        self.log = self.folder / "log"
        self.config = self.folder / "rung.yaml"
        self.config.write_text(CONFIG.format(**{**world.settings, "node": node, "port": self.port, **settings}))

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        self.process = start([self.world.rung, "run", "-c", self.config], self.log)
        self.world.scrape(self)

    def ready(self):
        with contextlib.suppress(OSError):
            return json.loads(get(f"http://{self.address}/readyz"))["status"] == "ready"
        return False

    def metrics(self):
        """"": it does not answer."""
        with contextlib.suppress(OSError):
            return get(f"http://{self.address}/metrics")
        return ""

    def post(self, path, body=None):
        request = urllib.request.Request(f"http://{self.address}{path}", method="POST", data=json.dumps(body or {}).encode(),
                                         headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def restart(self):
        self.signal(signal.SIGTERM)
        self.process.wait(15)
        self.start()


class Prometheus:
    """Debian's, with the rules of alerts.py. A thread notes when each alert fires and when it clears."""

    def __init__(self, folder, rules):
        self.folder, self.port = folder / "prometheus", free_port()
        self.folder.mkdir()
        (self.folder / "targets").mkdir()
        (self.folder / "alerts.yaml").write_text(rules)
        (self.folder / "prometheus.yml").write_text(f"""
global: {{ scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 1s }}
rule_files: [alerts.yaml]
scrape_configs:
  - job_name: rung
    file_sd_configs: [{{ files: ["{self.folder}/targets/*.json"] }}]
""")
        self.process = start(
            ["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
             f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"], self.folder / "log")
        self.firing = {}  # (name, labels): since when, by time.monotonic()
        self.latest = {}  # the same, of all that have fired: when they last began to
        self.pending = set()
        self.began = time.time()
        self.stopping = threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)

    def start(self):
        until("Prometheus is ready", self._ready)
        self.watcher.start()

    def _ready(self):
        if self.process.poll() is not None:
            raise AssertionError((self.folder / "log").read_text())
        with contextlib.suppress(OSError):
            return "Ready" in get(f"http://127.0.0.1:{self.port}/-/ready")
        return False

    def ask(self, path, **parameters):
        query = urllib.parse.urlencode(parameters)
        return json.loads(get(f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}"))["data"]

    def _watch(self):
        while not self.stopping.wait(0.2):
            try:
                alerts = self.ask("alerts")["alerts"]
            except OSError:
                continue
            now = time.monotonic()
            states = {"firing": set(), "pending": set()}
            for alert in alerts:
                labels = dict(alert["labels"])
                states[alert["state"]].add((labels.pop("alertname"), tuple(sorted(labels.items()))))
            self.pending = states["pending"]
            self.firing = {key: self.firing.get(key, now) for key in states["firing"]}
            self.latest.update(self.firing)

    def fires(self, name, **labels):
        """Whether the alert fires with these labels."""
        return any(key[0] == name and set(labels.items()) <= set(key[1]) for key in self.firing)

    def fired(self, name, after, **labels):
        """When the alert began to fire with these labels: it does now, or did at some time after `after`. None: it did not."""
        times = [since for key, since in list(self.latest.items())
                 if key[0] == name and set(labels.items()) <= set(key[1]) and (since >= after or key in self.firing)]
        return min(times, default=None)

    def active(self, name, **labels):
        """The same, or it is about to."""
        return self.fires(name, **labels) or any(
            key[0] == name and set(labels.items()) <= set(key[1]) for key in self.pending)

    def target(self, sidecar):
        targets = [{"targets": [sidecar.address], "labels": {"job": sidecar.job}}]
        path = self.folder / "targets" / f"{sidecar.node}.json"
        path.with_suffix(".new").write_text(json.dumps(targets))
        path.with_suffix(".new").rename(path)

    def forget(self, sidecar):
        (self.folder / "targets" / f"{sidecar.node}.json").unlink(missing_ok=True)

    def stop(self):
        self.stopping.set()
        self.process.terminate()
        self.process.wait(15)


class World:
    """REQUIRES: close() is called, whatever happens; also if begin() fails."""

    def __init__(self, folder, rung):
        self.folder, self.rung, self.closing, self.sidecars = folder, rung, contextlib.ExitStack(), []

    def begin(self, rules):
        self.servers = servers = starting.Servers(self.folder / "servers", "--management")
        self.closing.callback(servers.stop)
        self.amqp, self.rabbitmqctl, self.db_port = servers.amqp, servers.rabbitmqctl, servers.db_port
        self.management = servers.env["RUNG_TEST_MANAGEMENT"].replace("http://", "http://guest:guest@")
        self.settings = {"amqp": self.amqp, "management": self.management, "login": "rung:secret",
                         "db_port": self.db_port, "schema": "rung"}
        self.bend_clock()
        self.prometheus = Prometheus(self.folder, rules)
        self.closing.callback(self.prometheus.stop)
        self.main = self.sidecar("main", "rung")
        self.prepare_database()
        self.programs()

    # --- the database

    def bend_clock(self):
        """The database's clock can be stepped from now on: it is started again under libfaketime."""
        library = next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), None)
        if library is None:
            raise AssertionError("libfaketime is missing: tests/packages test")
        self.time_file = self.folder / "time"
        self.step_clock(0)
        self.database_environment = dict(
            os.environ, LD_PRELOAD=library, FAKETIME_TIMESTAMP_FILE=str(self.time_file), FAKETIME_CACHE_DURATION="1",
            FAKETIME_DONT_FAKE_MONOTONIC="1", FAKETIME_DONT_RESET="1", NO_FAKE_STAT="1")
        self.server("kill-db")
        self.server("start-db")

    def step_clock(self, seconds):
        new = self.time_file.with_suffix(".new")
        new.write_text(f"+{seconds}\n")
        new.rename(self.time_file)

    def server(self, command):
        self.servers.control(command, self.database_environment if command == "start-db" else None)

    def sql(self, text, *values):
        with pymysql.connect(host="127.0.0.1", port=self.db_port, user="root", autocommit=True) as db:
            with db.cursor() as cursor:
                cursor.execute(text, values or None)
                return list(cursor.fetchall())

    def prepare_database(self):
        """The sidecars' user may delete from each table by a right on that table: it can be revoked at once."""
        self.sql("CREATE USER rung@'%' IDENTIFIED BY 'secret'")
        for schema in ("rung", "pair"):
            self.sql(f"CREATE DATABASE {schema}")
            self.sql("GRANT SELECT, INSERT, UPDATE, LOCK TABLES, CREATE, ALTER, DROP, INDEX, CREATE VIEW "
                     f"ON {schema}.* TO rung@'%'")
            owner = self.folder / f"{schema}.yaml"
            owner.write_text(CONFIG.format(**{**self.settings, "login": "root", "schema": schema, "node": "x", "port": 1}))
            subprocess.run([self.rung, "migrate", "-c", owner], check=True, stdout=subprocess.DEVNULL)
            for (table,) in self.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = %s "
                                     "AND table_type = 'BASE TABLE'", schema):
                self.sql(f"GRANT DELETE ON {schema}.{table} TO rung@'%'")

    # --- the rest

    def sidecar(self, node, job, **settings):
        self.sidecars.append(Sidecar(self, node, job, **settings))
        return self.sidecars[-1]

    def scrape(self, sidecar):
        self.prometheus.target(sidecar)

    def retire(self, sidecar):
        """It is not meant to run any more."""
        self.prometheus.forget(sidecar)
        if sidecar.process.poll() is None:
            sidecar.kill()

    def rabbit(self, *arguments):
        return subprocess.run([self.rabbitmqctl, "-q", *arguments], capture_output=True, text=True, check=True).stdout

    def programs(self):
        """What the runbooks call by name."""
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for name, target in (("rung", self.rung), ("rabbitmqctl", self.rabbitmqctl), ("mariadb", self.servers.folder / "sql")):
            # Without this folder in its PATH: tests/servers' own programs call those of the same name.
            (self.bin / name).write_text(f'#!/bin/bash\nPATH={os.environ["PATH"]}\nexec {target} "$@"\n')
            (self.bin / name).chmod(0o755)

    def run(self, command, sidecar=None):
        """A command of an operator on the sidecar's machine: in the folder with its rung.yaml."""
        env = dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}")
        return subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=(sidecar or self.main).folder, env=env,
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=60, check=False)

    def close(self):
        for sidecar in self.sidecars:
            if sidecar.process and sidecar.process.poll() is None:
                sidecar.kill()
        self.closing.close()
