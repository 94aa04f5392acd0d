"""A vhost, a schema and a sidecar of a test's own, on the servers of RUNG_TEST_*."""
import base64
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import pymysql

BOUND_SECONDS = 60
SKIPPED = 77


def admin(method, path, body=None):
    url = f"{os.environ['RUNG_TEST_MANAGEMENT']}/api/{path}"
    request = urllib.request.Request(url, json.dumps(body or {}).encode(), {"Content-Type": "application/json"},
                                     method=method)
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def broker_since(*version):
    return tuple(int(part) for part in broker_version().split(".")[:2]) >= version


@functools.cache
def broker_version():
    return admin("GET", "overview")["rabbitmq_version"]


def skip_below(*wanted):
    """Ends the program with the code that ctest takes for skipped where the broker is older than (major, minor)."""
    for name in ("RUNG_TEST_AMQP", "RUNG_TEST_MYSQL", "RUNG_TEST_MANAGEMENT"):
        if name not in os.environ:
            sys.exit(f"{name} is not set: run by tests/run")
    if not broker_since(*wanted):
        print(f"SKIPPED: RabbitMQ {broker_version()} is older than {'.'.join(map(str, wanted))}, which this test is about")
        sys.exit(SKIPPED)


def wait_until(condition, what, told=lambda: ""):
    deadline = time.monotonic() + BOUND_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {BOUND_SECONDS} s: {what}\n{told()}")
        time.sleep(0.05)


class Sidecar(unittest.TestCase):
    program = None
    ladder = "[200ms, 200ms]"
    queue_type = "classic"  # of Rung's own queues
    more = ""  # of the config

    @classmethod
    def setUpClass(cls):
        cls.name = f"{cls.__name__.lower()}_{os.getpid()}"
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="rung-rabbitmq4."))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        admin("PUT", f"vhosts/{cls.name}")
        cls.addClassCleanup(admin, "DELETE", f"vhosts/{cls.name}")
        admin("PUT", f"permissions/{cls.name}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        cls.amqp = os.environ["RUNG_TEST_AMQP"].replace("%2f", cls.name)
        url = urllib.parse.urlsplit(os.environ["RUNG_TEST_MYSQL"])
        cls.db = pymysql.connect(host=url.hostname, port=url.port, user=url.username, autocommit=True,
                                 cursorclass=pymysql.cursors.DictCursor)
        cls.addClassCleanup(cls.db.close)
        cls.sql(f"CREATE DATABASE {cls.name}")
        cls.addClassCleanup(cls.sql, f"DROP DATABASE {cls.name}")
        cls.sql(f"USE {cls.name}")
        cls.config = cls.folder / "rung.yaml"
        cls.config.write_text(f"""
broker: {{ url: "{cls.amqp}", management: "{os.environ['RUNG_TEST_MANAGEMENT']}", queue_type: {cls.queue_type} }}
store: {{ url: "{os.environ['RUNG_TEST_MYSQL']}/{cls.name}" }}
node: {cls.name}
ladders: {{ default: {cls.ladder} }}
defaults: {{ success: {{ presumed_after: 10m }} }}
{cls.more}""")
        cls.before_start()
        cls.log = cls.folder / "rung.log"
        with open(cls.log, "wb") as out:
            process = subprocess.Popen([cls.program, "run", "-c", str(cls.config)], stdout=out,
                                       stderr=subprocess.STDOUT)
        cls.addClassCleanup(process.wait, 30)
        cls.addClassCleanup(process.terminate)
        wait_until(lambda: subprocess.run([cls.program, "stats", "-c", str(cls.config)], stdout=subprocess.DEVNULL,
                                          stderr=subprocess.DEVNULL, check=False).returncode == 0, "the sidecar stands",
                   cls.log.read_text)

    @classmethod
    def before_start(cls):
        """The virtual host and the schema are there, the sidecar isn't."""

    @classmethod
    def sql(cls, text, *values):
        with cls.db.cursor() as cursor:
            cursor.execute(text, values or None)
            return list(cursor.fetchall())

    def rung(self, *words):
        done = subprocess.run([self.program, words[0], "-c", str(self.config), *words[1:]], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=BOUND_SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def declare(self, queue, **arguments):
        all_arguments = {"x-queue-type": "quorum", **{name.replace("_", "-"): v for name, v in arguments.items()}}
        admin("PUT", f"queues/{self.name}/{queue}", {"durable": True, "arguments": all_arguments})

    def until(self, condition, what):
        wait_until(condition, what, lambda: f"{self.sql('SELECT * FROM retry_current')}\n{self.log.read_text()}")
