"""Shared by the cases: sidecars, the command line, SQL, workers, and output.

Environment: RUNG_TEST_AMQP and RUNG_TEST_MYSQL (the servers), RUNG_CASE_PROGRAM (rung), RUNG_CASE_DIR (directory for
configs and logs), RUNG_CASE_SCHEMA (default: `rung`).
"""
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.parse

import pika
import pymysql

EXAMPLES = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(EXAMPLES / "handlers" / "python"))
BOUND_SECONDS = 120  # timeout of every wait, generous for a busy machine


def die_with_parent():
    ctypes.CDLL("libc.so.6").prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no process outlives the case


class World:
    def __init__(self, title, time_line):
        self.program, self.folder = os.environ["RUNG_CASE_PROGRAM"], pathlib.Path(os.environ["RUNG_CASE_DIR"])
        self.amqp, self.mysql = os.environ["RUNG_TEST_AMQP"], os.environ["RUNG_TEST_MYSQL"]
        self.schema = os.environ.get("RUNG_CASE_SCHEMA", "rung")
        self.processes, self.began, self.config = {}, time.monotonic(), None
        url = urllib.parse.urlsplit(self.mysql)
        self.db = pymysql.connect(host=url.hostname, port=url.port, user=url.username, password=url.password or "",
                                  autocommit=True, cursorclass=pymysql.cursors.DictCursor)
        self.sql(f"CREATE DATABASE IF NOT EXISTS `{self.schema}`")
        self.db.select_db(self.schema)
        print(f"\n{title}\n{time_line}\n", flush=True)

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        for name in list(self.processes):
            self.stop(name)
        if failure:
            for log in sorted(self.folder.glob("*.log")):
                sys.stderr.write(f"--- {log.name}\n" + "".join(log.read_text(errors="replace").splitlines(True)[-20:]))

    # --- output and waiting

    def tell(self, text):
        print(f"{time.monotonic() - self.began:5.1f} s  {text}", flush=True)

    def until(self, condition, what):
        deadline = time.monotonic() + BOUND_SECONDS
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"timeout after {BOUND_SECONDS} s: {what}")
            time.sleep(0.05)
        return found

    # --- processes

    def start(self, name, *command):
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                    preexec_fn=die_with_parent)
        return self.processes[name]

    def stop(self, name, with_signal=signal.SIGTERM):
        process = self.processes.pop(name)
        process.send_signal(with_signal)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def configure(self, node, more):
        """Writes a rung.yaml, which rung() uses from then on."""
        self.config = self.folder / f"{node}.yaml"
        self.config.write_text(f'broker: {{ url: "{self.amqp}" }}\nstore: {{ url: "{self.mysql}/{self.schema}" }}\n'
                               f"node: {node}\nlog: {{ level: info }}\n{more}")
        return self.config

    def sidecar(self, node, more):
        """Starts a sidecar and waits until it owns shards."""
        config = self.configure(node, more)
        self.start(node, self.program, "run", "-c", str(config))
        self.until(lambda: any(n["node"] == node and n["state"] == "live" and n["shards"] for n in self.nodes()),
                   f"{node} is running")

    def nodes(self):
        done = subprocess.run([self.program, "nodes", "--json", "-c", str(self.config)], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False)
        return json.loads(done.stdout)["nodes"] if done.returncode == 0 else []

    def worker(self, name, *arguments):
        """Runs the case's file as a consumer."""
        return self.start(name, sys.executable, "-u", sys.argv[0], name, *arguments)

    def consumed(self, queue):
        """Waits until the queue exists and has a consumer: earlier deliveries would be returned and count as failures."""
        def has_consumer():
            with pika.BlockingConnection(pika.URLParameters(self.amqp)) as connection:
                try:
                    return connection.channel().queue_declare(queue, passive=True).method.consumer_count > 0
                except pika.exceptions.ChannelClosedByBroker:
                    return False

        self.until(has_consumer, f"{queue} has a consumer")

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    # --- Rung, RabbitMQ, MySQL

    def rung(self, *words):
        """Runs a command and returns its stdout; its exit code must be 0."""
        done = subprocess.run([self.program, *words, "-c", str(self.config)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"rung {' '.join(words)}: exit {done.returncode}: {done.stderr}")
        return done.stdout

    def rung_json(self, *words):
        return json.loads(self.rung(*words, "--json"))

    def channel(self):
        parameters = pika.URLParameters(self.amqp)
        parameters.heartbeat = 0  # nothing answers heartbeats while the case runs
        channel = pika.BlockingConnection(parameters).channel()
        channel.confirm_delivery()
        return channel

    def sql(self, text, *values):
        with self.db.cursor() as cursor:
            cursor.execute(text, values)
            return list(cursor.fetchall())

    def known_when(self, killed=""):
        """Whether every attempt in the history has its publish time. A consumer's result can arrive shortly before the
        broker's confirm, which sets that time; `killed`: a node that may never have received the confirm."""
        return not self.sql("SELECT 1 FROM retry_history WHERE published_at IS NULL AND node <> %s LIMIT 1", killed)

    def show(self, rows):
        """Prints rows of a query as a table."""
        cells = [list(rows[0])] + [[self._cell(value) for value in row.values()] for row in rows]
        widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
        for line in cells:
            print("         " + "  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip(), flush=True)

    @staticmethod
    def _cell(value):
        if value is None:
            return "-"
        if hasattr(value, "strftime"):
            return value.strftime("%H:%M:%S.%f")[:-3]
        return " ".join(str(value).split())[:60]


def check(condition, what):
    """Fails the case unless `condition` holds."""
    if not condition:
        raise AssertionError(what)
