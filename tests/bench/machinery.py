"""What the benches share: servers of the run's own, sidecars as processes, and what they use of the machine."""
from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import pika
import pymysql

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "support"))
import starting  # noqa: E402
from starting import ROOT, until  # noqa: E402,F401

PREFIX = "bench"


def program() -> str:
    """build/release/rung where it is built, else the dev build; RUNG_PROGRAM says otherwise."""
    if "RUNG_PROGRAM" in os.environ:
        return os.environ["RUNG_PROGRAM"]
    for preset in ("release", "dev"):
        path = f"{ROOT}/build/{preset}/rung"
        if os.path.exists(path):
            return path
    raise SystemExit("no rung is built: cmake --preset release && cmake --build --preset release")


def cpu_of(pid: int) -> float:
    """Seconds of the processor that a process has used so far."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def numbers(first: int, last: int, alias: str = "numbers") -> str:
    """SQL: a derived table with these numbers in its column seq. MariaDB's seq_1_to_N is not in MySQL."""
    digit = "(" + " UNION ALL ".join(f"SELECT {d}" + (" d" if d == 0 else "") for d in range(10)) + ")"
    places = len(str(last - first))
    value = " + ".join([str(first), *(f"{10 ** place} * d{place}.d" for place in range(places))])
    tables = ", ".join(f"{digit} d{place}" for place in range(places))
    return f"(SELECT {value} AS seq FROM {tables} HAVING seq <= {last}) {alias}"


class Servers(starting.Servers):
    """Of this run alone, with a folder that its sidecars use too."""

    def __init__(self) -> None:
        self.dir = tempfile.mkdtemp(prefix="rung-bench.")
        super().__init__(self.dir, quiet=True)
        self.mysql += "/rung_bench"
        self.port = self.db_port
        self.db: pymysql.Connection | None = None

    def sql(self, database: str | None = None) -> "pymysql.Connection":
        return pymysql.connect(host="127.0.0.1", port=self.port, user="root", autocommit=True, database=database,
                               init_command="SET time_zone = '+00:00'")

    def broker(self) -> pika.BlockingConnection:
        parameters = pika.URLParameters(self.amqp)
        parameters.heartbeat = 0
        return pika.BlockingConnection(parameters)

    def rows(self, sql: str, *values) -> list[tuple]:
        """On a connection that is kept."""
        if self.db is None:
            self.db = self.sql()
        with self.db.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall())

    def drop_database(self, schema: str = "rung_bench", prefix: str = PREFIX) -> None:
        """And the broker's mark: the prefix is free for the next one."""
        self.rows(f"DROP DATABASE IF EXISTS {schema}")
        with contextlib.closing(self.broker()) as connection:
            connection.channel().exchange_delete(f"{prefix}.owner")

    def balanced(self, instances: int) -> bool:
        """Each instance holds its fair share."""
        try:
            held = [n for (n,) in self.rows("SELECT COUNT(*) FROM rung_bench.rung_shards "
                                            "WHERE expires_at > UTC_TIMESTAMP(3) GROUP BY owner")]
        except pymysql.err.ProgrammingError:
            return False  # the schema is being made
        return len(held) == instances and sum(held) == 64 and max(held) - min(held) <= 1

    def database_process(self) -> int:
        """The pid of mariadbd or mysqld."""
        with open(f"{self.dir}/db.pid", encoding="utf-8") as file:
            return int(file.read())

    def broker_process(self) -> int:
        """The pid of beam.smp: the one whose environment names the run's folder."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                    if file.read().strip() != "beam.smp":
                        continue
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if self.dir.encode() in file.read():
                        return int(pid)
            except OSError:
                continue
        raise SystemExit("the run's broker is gone")

    def ctl(self, *words: str) -> None:
        subprocess.run([self.rabbitmqctl, *words], check=True, stdout=subprocess.DEVNULL)

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self.dir, ignore_errors=True)


class Node:
    """A sidecar. `more`: further lines of its rung.yaml. `binary`: another program than program()."""

    def __init__(self, servers: Servers, number: int, more: str = "", ladder: str = "[2s]", binary: str | None = None) -> None:
        self.name = f"n-{number}"
        self.program = binary or program()
        self.path = f"{servers.dir}/{self.name}.yaml"
        self.log = f"{servers.dir}/{self.name}.log"
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(f'broker: {{ url: "{servers.amqp}", prefix: {PREFIX} }}\nstore: {{ url: "{servers.mysql}" }}\n'
                       f"node: {self.name}\nladders:\n  default: {ladder}\n{more}\n")
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        self.process = starting.start([self.program, "run", "-c", self.path], self.log)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self, seconds: float = 30) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def logged(self, text: str) -> bool:
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return text in file.read()

    def forget_log(self) -> None:
        if os.path.exists(self.log):
            os.remove(self.log)

    def rss_mb(self, what: str = "VmRSS") -> float:
        """VmRSS: now; VmHWM: the peak since forget_peak()."""
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            return int(re.search(rf"{what}:\s+(\d+) kB", file.read()).group(1)) / 1024

    def forget_peak(self) -> None:
        with open(f"/proc/{self.process.pid}/clear_refs", "w", encoding="utf-8") as file:
            file.write("5")
