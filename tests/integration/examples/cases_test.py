"""The cases of examples/cases and the handlers by tag, against the real programs.

usage: cases_test.py RUNG-PROGRAM CPP-HANDLERS [TEST ...]
Needs RUNG_TEST_AMQP, RUNG_TEST_MYSQL, RUNG_TEST_MANAGEMENT. A story checks itself and says so by its exit code; here
it is held that it told what it promises, and that nothing of it is left.
"""
import base64
import datetime
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import pymysql

ROOT = pathlib.Path(__file__).resolve().parents[3]
CASES = ROOT / "examples" / "cases"
HANDLERS = ROOT / "examples" / "handlers"
PROGRAM = JOBS = ""
BOUND_SECONDS = 200


class Own(unittest.TestCase):
    """A vhost, a schema and a folder of its own for each test."""

    def setUp(self):
        for name in ("RUNG_TEST_AMQP", "RUNG_TEST_MYSQL", "RUNG_TEST_MANAGEMENT"):
            self.assertIn(name, os.environ, "run by tests/run")
        self.name = f"cases_{self.id().rsplit('_', 1)[-1]}_{os.getpid()}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rung-cases."))
        self.addCleanup(shutil.rmtree, self.folder)
        self.admin("PUT", f"vhosts/{self.name}")
        self.addCleanup(self.admin, "DELETE", f"vhosts/{self.name}")
        self.admin("PUT", f"permissions/{self.name}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        url = urllib.parse.urlsplit(os.environ["RUNG_TEST_MYSQL"])
        self.db = pymysql.connect(host=url.hostname, port=url.port, user=url.username, autocommit=True,
                                  cursorclass=pymysql.cursors.DictCursor)
        self.addCleanup(self.db.close)
        self.addCleanup(self.sql, f"DROP DATABASE IF EXISTS {self.name}")
        self.environment = dict(os.environ, RUNG_TEST_AMQP=os.environ["RUNG_TEST_AMQP"].replace("%2f", self.name),
                                RUNG_CASE_SCHEMA=self.name, RUNG_CASE_DIR=str(self.folder), RUNG_CASE_PROGRAM=PROGRAM)

    @staticmethod
    def admin(method, path, body=None):
        """By the management API: rabbitmqctl starts an Erlang for each call, seconds on a busy machine."""
        url = f"{os.environ['RUNG_TEST_MANAGEMENT']}/api/{path}"
        request = urllib.request.Request(url, None if method == "GET" else json.dumps(body or {}).encode(),
                                         {"Content-Type": "application/json"}, method=method)
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        urllib.request.urlopen(request, timeout=60).close()

    def queue_exists(self, queue):
        try:
            self.admin("GET", f"queues/{self.name}/{queue}")
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return False
        return True

    def sql(self, text, *values):
        with self.db.cursor() as cursor:
            cursor.execute(text, values)
            return list(cursor.fetchall())

    def current(self):
        return {row["message_id"]: row for row in self.sql(f"SELECT * FROM {self.name}.retry_current")}

    def run_to_end(self, *command):
        done = subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=BOUND_SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def story(self, name):
        return self.run_to_end("/usr/bin/python3", "-u", str(CASES / f"{name}.py"))


class Cases(Own):
    def test_order(self):
        told = self.story("close_unpaid_order")
        self.assertIn("two sold, two returned, each once", told)
        self.assertEqual(self.sql(f"SELECT units FROM {self.name}.shop_stock")[0]["units"], 8)
        states = {name: row["state"] for name, row in self.current().items()}
        self.assertEqual(states, {"close-1": "succeeded", "close-2": "cancelled", "close-3": "succeeded",
                                  "close-4": "succeeded"}, told)
        audit = self.sql(f"SELECT what, who FROM {self.name}.retry_audit")
        self.assertEqual([row["what"] for row in audit], ["cancel"], told)
        self.assertIn("(cli)", audit[0]["who"])

    def test_partner(self):
        told = self.story("flaky_third_party")
        self.assertIn("answered at level 3", told)
        self.assertEqual({row["level"] for row in self.current().values()}, {3}, told)

    def test_partner_down(self):
        told = self.story("partner_down")
        self.assertIn("the breaker is closed", told)
        self.assertEqual(len(self.current()), 40, told)

    def test_nodes(self):
        told = self.story("three_nodes")
        self.assertIn("taken over", told)
        self.assertEqual(sum(row["state"] == "succeeded" for row in self.current().values()), 11, told)


    def test_groups(self):
        told = self.story("two_groups")
        self.assertIn("two groups, one RabbitMQ, one rung.yaml", told)
        self.assertIn("belongs to the group us, and this is eu", told)


class Handlers(Own):
    """examples/handlers: tags of the config, functions by tag, what they report."""

    def start(self, name, *command):
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self.addCleanup(process.wait, 30)
        self.addCleanup(process.terminate)
        return process

    def until(self, condition, what):
        deadline = time.monotonic() + 60
        while not condition():
            if time.monotonic() > deadline:
                logs = "".join(f"--- {log}\n{log.read_text()}" for log in self.folder.glob("*.log"))
                raise AssertionError(f"not within 60 s: {what}\n{self.current()}\n{logs}")
            time.sleep(0.1)

    def climb(self, command, bodies, in_stack):
        # The example's own rung.yaml, with our servers and in a hurry.
        text = (HANDLERS / "rung.yaml").read_text()
        for old, new in {"amqp://guest:guest@127.0.0.1:5672/%2f": self.environment["RUNG_TEST_AMQP"],
                         "mysql://rung:secret@127.0.0.1:3306/rung": f"{os.environ['RUNG_TEST_MYSQL']}/{self.name}",
                         "[5s, 30s, 1m, 10m]": "[300ms, 600ms]", "ladder: webhook": "ladder: default"}.items():
            self.assertIn(old, text)
            text = text.replace(old, new)
        config = self.folder / "rung.yaml"
        config.write_text(text + f"node: {self.name}\n")
        self.sql(f"CREATE DATABASE {self.name}")
        self.start("rung", PROGRAM, "run", "-c", str(config))
        self.until(lambda: subprocess.run([PROGRAM, "stats", "-c", str(config)], stdout=subprocess.DEVNULL,
                                          stderr=subprocess.DEVNULL, check=False).returncode == 0, "the sidecar stands")
        worker = self.start("worker", *command, self.environment["RUNG_TEST_AMQP"], "jobs")
        # A message that is published before the worker has declared its queue is returned: that is an attempt, too.
        self.until(lambda: self.queue_exists("jobs"), "the worker has declared its queue")
        for name, body in bodies.items():
            self.run_to_end(PROGRAM, "submit", "-c", str(config), "--tag", name.split("/")[0], "--message-id", name,
                            "--delay", "200ms", "--body", body)
        self.until(lambda: [row["state"] for row in self.current().values()].count("scheduled") == 0 and
                   all(row["state"] in ("succeeded", "parked") for row in self.current().values()), "all of them ended")
        ends = self.current()
        self.assertEqual({name: (row["state"], row["attempt"], row["finished_by"]) for name, row in ends.items()},
                         {name: ("parked", 1, None) if name == "report.build" else
                          ("succeeded", 1 if name == "mail.reminder" else 2, "reported") for name in bodies})
        self.assertEqual({row["queue"] for row in ends.values()}, {"jobs"})
        history = self.sql(f"SELECT * FROM {self.name}.retry_history ORDER BY message_id, attempt")
        self.assertEqual({row["executor"] for row in history}, {f"{socket.gethostname()}:{worker.pid}"})
        failure = next(row for row in history if row["message_id"] == "partner.sync" and row["attempt"] == 1)
        self.assertEqual(failure["outcome"], "failed")
        self.assertIn("partner.example: no answer to orders", failure["error"])
        self.assertIn(in_stack, failure["error"])
        self.assertIn("a report needs a month", ends["report.build"]["last_error"])
        first, second = [row for row in history if row["message_id"] == "report.build/busy"]
        self.assertIn("the warehouse is loading", first["error"])
        # Later's second, which the ladder caps to its longest delay, instead of the first level's.
        waits = second["due_at"] - first["outcome_at"]
        self.assertGreater(waits, datetime.timedelta(milliseconds=500), history)
        return {row["message_id"]: row for row in history if row["attempt"] == 1}

    def test_handlers_python(self):
        self.climb(["/usr/bin/python3", "-u", str(HANDLERS / "python" / "jobs.py")],
                   {"mail.reminder": '{"to": "ann"}', "partner.sync": '{"answers_at": 2, "what": "orders"}',
                    "report.build": '{"year": 2026}', "report.build/busy": '{"month": "2026-11", "busy": 1}'},
                   "in call_partner")

    def test_handlers_cpp(self):
        first = self.climb([JOBS], {"mail.reminder": "ann", "partner.sync": "orders", "report.build": "",
                                    "report.build/busy": "busy", "report.build/old": "old library"}, "call_partner(")
        self.assertEqual(first["report.build/old"]["error"], "something of type int was thrown")

    def test_check(self):
        told = self.run_to_end(PROGRAM, "check", "-c", str(HANDLERS / "rung.yaml"))
        self.assertIn("partner.sync", told)


class Restart(unittest.TestCase):
    """It kills its broker: by its launcher, on servers of its own."""

    def test_restart(self):
        folder = tempfile.mkdtemp(prefix="rung-cases.")
        self.addCleanup(shutil.rmtree, folder)
        done = subprocess.run([str(CASES / "run"), "restart"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=BOUND_SECONDS, check=False,
                              env=dict(os.environ, RUNG_PROGRAM=PROGRAM, TMPDIR=folder))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("broker reconnected", done.stdout)
        self.assertIn("OSError: [Errno 28] No space left on device: fails-once.pdf", done.stdout)
        self.assertEqual(os.listdir(folder), [], "nothing is left")

    def test_wrong_name(self):
        done = subprocess.run([str(CASES / "run"), "nothing"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("usage: examples/cases/run NAME", done.stderr)


if __name__ == "__main__":
    JOBS = sys.argv.pop(2)
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
