"""A message that the database holds and the broker doesn't take: max_message_size is 16 MiB by default in RabbitMQ
4.3.6, and 128 MiB in 4.0.5. The broker closes the channel for it.

RabbitMQ 4.3 or newer. The tests' brokers take 128 MiB: this test sets the default of 4.3 for its own time, so no other test
may run beside it.
"""
import os
import subprocess

import pika

import servers

LARGE = 17_000_000
LIMIT = 16 * 1024 * 1024


def broker_eval(expression):
    return subprocess.run([os.environ["RUNG_TEST_RABBITMQCTL"], "eval", expression], stdout=subprocess.PIPE, text=True,
                          timeout=servers.BOUND_SECONDS, check=True).stdout.strip()


class MessageSize(servers.Sidecar):
    more = "queues: { sized: { parked: publish } }"

    @classmethod
    def before_start(cls):
        limit_of_others = broker_eval("persistent_term:get(max_message_size).")
        cls.addClassCleanup(broker_eval, f"persistent_term:put(max_message_size, {limit_of_others}).")
        broker_eval(f"persistent_term:put(max_message_size, {LIMIT}).")

    def test_only_the_large_one_is_parked(self):
        self.declare("sized")
        large = self.folder / "large"
        large.write_bytes(b"x" * LARGE)
        small = [f"small-{n}" for n in range(20)]
        for n, name in enumerate([*small[:10], "large", *small[10:]]):
            body = ["--file", str(large)] if name == "large" else ["--body", name]
            self.rung("submit", "--queue", "sized", "--delay", "1h", "--message-id", name, *body)
        self.rung("fire", "--queue", "sized", "--yes")
        parameters = pika.URLParameters(self.amqp)
        parameters.heartbeat = 0
        connection = pika.BlockingConnection(parameters)
        self.addCleanup(connection.close)
        channel = connection.channel()
        got = []

        def all_came():
            method, properties, _ = channel.basic_get("sized", auto_ack=True)
            if method:
                got.append((properties.message_id, properties.headers["retry-attempt"]))
            return set(small) <= {name for name, _ in got}

        self.until(all_came, "the small ones come")
        self.until(lambda: self.row("large")["state"] == "parked", "the large one is parked")
        self.assertIn(f"message size {LARGE} is larger than", self.row("large")["last_error"])
        self.assertEqual({attempt for _, attempt in got}, {1}, "no other attempt is used up")
        self.assertEqual({self.row(name)["attempt"] for name in small}, {1})
        # Its copy for rung.parked is just as large. It is owed no more, else each turn would close the channel again.
        self.until(lambda: "the broker refused a copy of a parked message" in self.log.read_text(), "the log says that there is no copy")
        before = self.row("large"), self.closed_channels()
        self.rung("submit", "--queue", "sized", "--delay", "2s", "--message-id", "meanwhile", "--body", "meanwhile")
        self.until(lambda: channel.basic_get("sized", auto_ack=True)[0], "what comes meanwhile goes out")
        self.assertEqual((self.row("large"), self.closed_channels()), before, self.log.read_text())
        self.assertEqual(self.log.read_text().count("the broker refused a copy of a parked message"), 1)
        # A person may want it elsewhere; it is the same again.
        self.rung("redrive", str(self.row("large")["retry_id"]))
        self.until(lambda: self.row("large")["state"] == "parked" and self.row("large")["version"] > before[0]["version"] + 1,
                   "parked again")
        self.rung("submit", "--queue", "sized", "--delay", "0s", "--message-id", "after", "--body", "after")
        self.until(lambda: channel.basic_get("sized", auto_ack=True)[0], "what comes after goes out")

    def row(self, name):
        return self.sql("SELECT retry_id, state, attempt, last_error, version FROM retry_current WHERE message_id = %s",
                        name)[0]

    def closed_channels(self):
        """Sidecar's ones: by the log of what it lost."""
        return self.log.read_text().count("larger than")
