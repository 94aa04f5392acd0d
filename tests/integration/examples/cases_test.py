"""The cases of examples/cases and the handlers by tag, against the real programs.

A story checks itself and says so by its exit code; here
it is held that it told what it promises, and that nothing of it is left.
"""
import datetime
import os
import shutil
import socket
import subprocess
import tempfile
import unittest
import urllib.error

import pytest
from starting import BUILD, PROGRAM, ROOT, Place, admin, until

CASES = ROOT / "examples" / "cases"
HANDLERS = ROOT / "examples" / "handlers"
JOBS = BUILD / "rung_example_jobs"
BOUND_SECONDS = 900  # for a whole case, each wait of which has its own bound


@pytest.mark.usefixtures("servers")
class Own(unittest.TestCase):
    """A vhost, a schema and a folder of its own for each test."""

    def setUp(self):
        self.place = Place(f"cases_{self.id().rsplit('_', 1)[-1]}")
        self.addCleanup(self.place.close)
        self.name, self.folder, self.sql = self.place.name, self.place.folder, self.place.sql
        self.environment = dict(os.environ, RUNG_TEST_AMQP=self.place.amqp,
                                RUNG_CASE_SCHEMA=self.name, RUNG_CASE_DIR=str(self.folder), RUNG_CASE_PROGRAM=PROGRAM)

    def queue_exists(self, queue):
        try:
            admin("GET", f"queues/{self.name}/{queue}")
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return False
        return True

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

    def until(self, condition, what):
        until(what, condition, told=lambda: f"{self.current()}\n{self.place.logs()}")

    def climb(self, command, bodies, in_stack):
        # The example's own rung.yaml, with our servers and in a hurry.
        text = (HANDLERS / "rung.yaml").read_text()
        for old, new in {"amqp://guest:guest@127.0.0.1:5672/%2f": self.place.amqp,
                         "mysql://rung:secret@127.0.0.1:3306/rung": self.place.mysql,
                         "[5s, 30s, 1m, 10m]": "[300ms, 600ms]", "ladder: webhook": "ladder: default"}.items():
            self.assertIn(old, text)
            text = text.replace(old, new)
        config = self.place.config
        config.write_text(text + f"node: {self.name}\n")
        self.place.start_rung()
        worker = self.place.start([*command, self.place.amqp, "jobs"], "worker.log")
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
