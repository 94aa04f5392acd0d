"""The example consumers against the real sidecar: each body they know ends as it should, and is reported."""
import unittest

import pika
import pymysql
import pytest
from starting import BUILD, ROOT, Place, until

EXAMPLES = ROOT / "examples" / "consumers"
BODIES = {"ok": b"ok", "busy": b"busy 2", "broken": b"broken", "later": b"later"}


@pytest.mark.usefixtures("servers")
class Consumers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # A vhost and a schema of its own: the consumers speak to rung.failed as everybody's do.
        cls.place = place = Place("consumers", pymysql.cursors.Cursor)
        cls.addClassCleanup(place.close)
        cls.folder, cls.amqp, cls.sql = place.folder, place.amqp, place.sql
        place.write_config(more="ladders: { default: [500ms, 1s, 1500ms] }\n"
                                "queues: { default: { success: { presumed_after: 10m } } }")
        place.start_rung()
        parameters = pika.URLParameters(cls.amqp)
        parameters.heartbeat = 0  # nobody serves it while we wait
        connection = pika.BlockingConnection(parameters)
        cls.addClassCleanup(connection.close)
        cls.channel = connection.channel()

    def climb(self, language, command):
        queue = f"orders-{language}"
        log = self.folder / f"{language}.log"
        self.place.start([*command, self.amqp, queue], log.name)
        self.channel.queue_declare(queue, durable=True, arguments={"x-dead-letter-exchange": "rung.failed"})
        for name, body in BODIES.items():
            properties = pika.BasicProperties(message_id=f"{language}-{name}", delivery_mode=2)
            self.channel.basic_publish("", queue, body, properties)

        def ends():
            rows = self.sql("SELECT message_id, state, finished_by, attempt, last_error FROM retry_current "
                            "WHERE queue = %s", queue)
            return {row[0].split("-")[-1]: row[1:] for row in rows}

        def said():
            return f"\n{ends()}\n{log.read_text()}\n{self.place.log.read_text()}"

        until("three messages climbed and came to an end",
              lambda: len(ends()) == 3 and all(e[0] in ("succeeded", "parked") for e in ends().values()), told=said)
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
        self.climb("cpp", [str(BUILD / "rung_example_consumer")])
