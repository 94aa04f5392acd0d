"""The example consumers against the real sidecar: each body they know ends as it should, and is reported.

usage: consumers_test.py RUNG-PROGRAM CPP-CONSUMER
Needs RUNG_TEST_AMQP, RUNG_TEST_MYSQL, RUNG_TEST_RABBITMQCTL. Node's runs where node and amqplib are found (npm install
in examples/consumers/node); it says so where it does not.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

import pika
import pymysql

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples" / "consumers"
PROGRAM = CPP = ""
BODIES = {"ok": b"ok", "busy": b"busy 2", "broken": b"broken", "later": b"later"}
BOUND_SECONDS = 60  # for anything that is waited for


def wait_until(condition, what):
    deadline = time.monotonic() + BOUND_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {BOUND_SECONDS} s: {what}")
        time.sleep(0.1)


class Consumers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for name in ("RUNG_TEST_AMQP", "RUNG_TEST_MYSQL", "RUNG_TEST_RABBITMQCTL"):
            if name not in os.environ:
                raise AssertionError(f"{name} is not set: run by tests/run")
        cls.name = f"consumers_{os.getpid()}"
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="rung-consumers."))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        # A vhost and a schema of its own: the consumers speak to rung.failed as everybody's do.
        ctl = os.environ["RUNG_TEST_RABBITMQCTL"]
        subprocess.run([ctl, "-q", "add_vhost", cls.name], check=True)
        cls.addClassCleanup(subprocess.run, [ctl, "-q", "delete_vhost", cls.name], check=True)
        subprocess.run([ctl, "-q", "set_permissions", "-p", cls.name, "guest", ".*", ".*", ".*"], check=True)
        cls.amqp = os.environ["RUNG_TEST_AMQP"].replace("%2f", cls.name)
        url = urllib.parse.urlsplit(os.environ["RUNG_TEST_MYSQL"])
        cls.db = pymysql.connect(host=url.hostname, port=url.port, user=url.username, autocommit=True)
        cls.addClassCleanup(cls.db.close)
        cls.sql(f"CREATE DATABASE {cls.name}")
        cls.addClassCleanup(cls.sql, f"DROP DATABASE {cls.name}")
        cls.sql(f"USE {cls.name}")
        config = cls.folder / "rung.yaml"
        config.write_text(f"""
broker: {{ url: "{cls.amqp}" }}
store: {{ url: "{os.environ['RUNG_TEST_MYSQL']}/{cls.name}" }}
node: {cls.name}
ladders: {{ default: [500ms, 1s, 1500ms] }}
queues: {{ default: {{ success: {{ presumed_after: 10m }} }} }}
""")
        cls.log = cls.folder / "rung.log"
        cls.start([PROGRAM, "run", "-c", str(config)], cls.log)
        wait_until(lambda: subprocess.run([PROGRAM, "stats", "-c", str(config)], stdout=subprocess.DEVNULL,
                                          stderr=subprocess.DEVNULL).returncode == 0, "rung stats is content")
        parameters = pika.URLParameters(cls.amqp)
        parameters.heartbeat = 0  # nobody serves it while we wait
        connection = pika.BlockingConnection(parameters)
        cls.addClassCleanup(connection.close)
        cls.channel = connection.channel()

    @classmethod
    def start(cls, command, log):
        with open(log, "wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        cls.addClassCleanup(process.wait, 30)
        cls.addClassCleanup(process.terminate)

    @classmethod
    def sql(cls, text, *values):
        with cls.db.cursor() as cursor:
            cursor.execute(text, values)
            return cursor.fetchall()

    def climb(self, language, command):
        queue = f"orders-{language}"
        log = self.folder / f"{language}.log"
        self.start([*command, self.amqp, queue], log)
        self.channel.queue_declare(queue, durable=True, arguments={"x-dead-letter-exchange": "rung.failed"})
        for name, body in BODIES.items():
            properties = pika.BasicProperties(message_id=f"{language}-{name}", delivery_mode=2)
            self.channel.basic_publish("", queue, body, properties)

        def ends():
            rows = self.sql("SELECT message_id, state, finished_by, attempt, last_error FROM retry_current "
                            "WHERE queue = %s", queue)
            return {row[0].split("-")[-1]: row[1:] for row in rows}

        def said():
            return f"\n{ends()}\n{log.read_text()}\n{self.log.read_text()}"

        try:
            wait_until(lambda: len(ends()) == 3 and all(e[0] in ("succeeded", "parked") for e in ends().values()),
                       "three messages climbed and came to an end")
        except AssertionError as error:
            self.fail(str(error) + said())
        found = ends()
        self.assertEqual(found["busy"][:3], ("succeeded", "reported", 2), said())
        self.assertEqual(found["later"][:3], ("succeeded", "reported", 1), said())
        self.assertEqual((found["broken"][0], found["broken"][2]), ("parked", 3), said())
        self.assertIn("no such customer", found["broken"][3], said())
        due, failed = self.sql("SELECT due_at, (SELECT first_failed_at FROM retry_current c WHERE c.retry_id = h.retry_id) "
                               "FROM retry_history h WHERE message_id = %s AND attempt = 1", f"{language}-later")[0]
        # It asked for 2s; the ladder's highest, 1.5 s, caps that. Without it the level would say 0.5 s.
        self.assertGreaterEqual((due - failed).total_seconds(), 1.5, said())
        self.assertEqual(log.read_text().count(f"{language}-ok: attempt 0 done"), 1, said())

    def test_python(self):
        self.climb("python", ["/usr/bin/python3", str(EXAMPLES / "python" / "consumer.py")])

    def test_cpp(self):
        self.climb("cpp", [CPP])

    def test_node(self):
        script = EXAMPLES / "node" / "consumer.js"
        try:
            found = subprocess.run(["node", "-e", "require('amqplib')"], cwd=script.parent, stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            found = None
        if found is None or found.returncode != 0:
            self.skipTest("no node, or no amqplib: npm install in examples/consumers/node")
        self.climb("node", ["node", str(script)])


if __name__ == "__main__":
    CPP = sys.argv.pop(2)
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
