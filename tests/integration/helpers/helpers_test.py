"""The helpers of examples/helpers: types and syntax, and against a real RabbitMQ and a real sidecar: what arrives in
retry_current and retry_history, and that a message stays where the report cannot be sent.

tests/packages run test helpers; /usr/bin/python3 -m pytest tests/integration/helpers [-k pika]. Skipped where npm's registry
does not answer.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import pytest
import world as the
from starting import ROOT, Unavailable, end
from world import CLIENTS, TRACEPARENT, WORKERS

HELPERS = ROOT / "examples/helpers"

WORDS = ("ok", "fail", "twice", "never", "flag", "later", "seconds", "date", "long")
ORIGIN = ("retry-origin-exchange", "retry-origin-routing-key")
ROUTED = ("fail", "twice", "never")  # by a topic exchange; the others directly
STOLEN = {"bunny": "Stolen", "cpp": "rung_retry::GiveUp"}  # Ruby: a method of the class; C++ has no flag
DECLINED = {"cpp": "(anonymous namespace)::CardDeclined"}
GIVE_UP = {"bunny": "Rung::GiveUp", "cpp": "rung_retry::GiveUp"} | dict.fromkeys(
    ("amqp-ext", "php-amqplib", "symfony"), "Rung\\Retry\\GiveUp")
IN_STACK = dict.fromkeys(("pika", "aio-pika", "celery"), "in work\n") | dict.fromkeys(
    ("amqplib", "nestjs"), "work.js:") | dict.fromkeys(("amqp-ext", "php-amqplib", "symfony"), "work.php(") | {
    "bunny": "in `work'", "cpp": "\n  at "}
# What these client libraries make of the headers that they read. (py-amqp, with which the test publishes, writes
# 64-bit numbers in a form that three of them refuse: the test has none.)
LOSSES = {"pika": {"half": 0}, "aio-pika": {"half": b"0.5"}, "amqp-ext": {"table": {"a": ["b", {"c": False}]}},
          "php-amqplib": {"half": "0.5"}, "symfony": {"table": {"a": ["b", {"c": False}]}}}
ADDED = {"bunny": {"priority": 0}, "aio-pika": {"priority": 0}}  # properties that these client libraries add
TYPED = {"text": "Grüße", "number": 2**31 - 1, "yes": True, "half": 0.5, "table": {"a": [1, "b", {"c": False}]}}


def modules():
    try:
        return the.modules()
    except Unavailable as why:
        raise unittest.SkipTest(str(why))


class Sources(unittest.TestCase):
    def holds(self, *command, **environment):
        done = subprocess.run(command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_types_of_python(self):
        self.holds("mypy", "--strict", "--ignore-missing-imports", "--cache-dir", "/dev/null", HELPERS / "python/rung_retry",
                   MYPYPATH=str(HELPERS / "python"))

    def test_types_of_node(self):
        found = modules()
        with tempfile.TemporaryDirectory() as name:  # TypeScript looks for node_modules above each file
            folder = pathlib.Path(name)
            shutil.copytree(HELPERS / "node", folder / "rung-retry")
            (folder / "types.ts").write_text((WORKERS / "types.ts").read_text().replace("../../../../examples/helpers/node", "./rung-retry"))
            (folder / "node_modules").symlink_to(found)
            self.holds(found / ".bin/tsc", "--noEmit", "--strict", "--target", "es2022", "--module", "node16", "--moduleResolution",
                       "node16", folder / "types.ts")

    def test_syntax(self):
        for source in (HELPERS / "php").rglob("*.php"):
            self.holds("php", "-l", source)
        self.holds("ruby", "-wc", HELPERS / "ruby/lib/rung/retry.rb")
        self.holds("ruby", "-e", "spec = Gem::Specification.load(ARGV[0]) or abort; Dir.chdir(File.dirname(ARGV[0])); "
                   "missing = spec.files.reject { |f| File.exist?(f) }; abort missing.to_s unless missing.empty?",
                   HELPERS / "ruby/rung-retry.gemspec")


@pytest.mark.usefixtures("servers")
class Helpers(unittest.TestCase):
    def has(self, part, whole, what=""):
        """assertIn, without 16 KiB of output."""
        self.assertTrue(part in whole, f"{what}: no {part!r} in {whole[:300]!r} ... {whole[-1500:]!r}")

    @classmethod
    def setUpClass(cls):
        modules()
        cls.world = the.World()
        cls.addClassCleanup(cls.world.close)
        # All workers at once: most of their time is start and waiting.
        cls.world.channel.exchange_declare("shop", "topic", durable=True)
        for client in CLIENTS:
            cls.world.channel.queue_declare(client, durable=True)
            cls.world.channel.queue_bind(client, "shop", f"{client}.#")
            for word in WORDS:
                routed = {"exchange": "shop", "key": f"{client}.{word}"} if word in ROUTED else {}
                cls.world.publish(client, client, word, **routed)
            cls.world.work(client, client)

    def current(self, client, word):
        rows = self.world.sql("SELECT * FROM retry_current WHERE message_id = %s", f"{client}-{word}")
        return rows[0] if len(rows) == 1 else None

    def history(self, client, word):
        return self.world.sql("SELECT * FROM retry_history WHERE message_id = %s ORDER BY attempt", f"{client}-{word}")

    def ended(self, client, word):
        row = self.current(client, word)
        return row is not None and row["state"] in ("succeeded", "parked")

    def waited(self, client, word):
        """Seconds from the first failure to the first retry's due time."""
        return (self.history(client, word)[0]["due_at"] - self.current(client, word)["first_failed_at"]).total_seconds()

    def outcomes(self, client):
        for word in WORDS[1:]:
            self.world.until(lambda: self.ended(client, word), f"{client}: {word} ended", client)
        ends = {word: self.current(client, word) for word in WORDS}
        told = self.world.log(client)
        self.assertIsNone(ends["ok"], "a first delivery that succeeds is not reported")
        self.has("work ok 0", told)

        declined, give_up = DECLINED.get(client, "CardDeclined"), GIVE_UP.get(client, "GiveUp")
        for word in WORDS[1:]:
            parked = word in ("never", "flag")
            attempts = 0 if parked else 2 if word == "twice" else 1
            self.assertEqual((ends[word]["state"], ends[word]["attempt"], ends[word]["finished_by"]),
                             ("parked", 0, None) if parked else ("succeeded", attempts, "reported"), f"{word}\n{told}")
            self.assertEqual(ends[word]["queue"], client)
            # Also after a retry that failed: it comes by rung.return.
            self.assertEqual((ends[word]["exchange"], ends[word]["routing_key"]),
                             ("shop", f"{client}.{word}") if word in ROUTED else ("", client), word)
        self.assertEqual(ends["fail"]["error_type"], declined)
        self.assertEqual(ends["never"]["error_type"], give_up)
        self.assertEqual(ends["flag"]["error_type"], STOLEN.get(client, declined))
        if client == "cpp":  # thrown with another exception nested in it
            self.assertEqual(ends["date"]["error_type"], declined)

        failed = self.history(client, "twice")[0]  # the first retry: it fails with an error that the history keeps
        self.assertEqual(failed["outcome"], "failed")
        self.assertTrue(failed["error"].startswith(f"{declined}: Карта отклонена – 4711\n"), failed["error"])
        self.has(IN_STACK[client], failed["error"])
        self.assertRegex(failed["executor"], r"^\S+:\d+$")

        long = ends["long"]["last_error"]
        self.assertTrue(long.startswith(f"{declined}: üüü"), long[:100])
        self.has(IN_STACK[client], long, "the stack stays, whatever the text's length")
        self.assertNotIn("\ufffd", long)
        self.assertLessEqual(len(long.encode()), 16 * 1024)
        self.assertGreater(long.count("ü"), 4000)

        # The level alone says 0.3 s. The service asks for 2 s, or for a time 3 s ahead, in whole seconds.
        self.assertLess(self.waited(client, "fail"), 1)
        self.assertEqual(round(self.waited(client, "later"), 1), 1.5)
        self.assertEqual(round(self.waited(client, "seconds"), 1), 2.0)
        # Some subtract whole seconds, so that one is lost; and another one may pass before they do.
        self.assertTrue(0.9 <= self.waited(client, "date") <= 4, self.waited(client, "date"))

        self.has(f"work fail 1 {TRACEPARENT}", told)
        self.has(f"work twice 2 {TRACEPARENT}", told)
        self.assertEqual(self.world.waiting(client), 0)

    def kept(self, client):
        """rung.failed is missing, then is there without a queue, then right: the message waits, and arrives once."""
        world, queue, prefix = self.world, f"{client}-kept", f"absent-{client}"
        failed = f"{prefix}.failed"
        world.channel.queue_declare(queue, durable=True)
        sent = world.publish(client, queue, "fail", headers={**TYPED, "retry-never": True}, delivery_mode=1,
                             expiration="600000", type="order", reply_to="answers", timestamp=1_700_000_000)
        workers = [world.work(client, queue, prefix)]

        def supervised(condition):
            if workers[-1].poll() is not None:  # Symfony's worker ends; its supervisor starts it again
                workers.append(world.work(client, queue, prefix))
            return condition()

        def tries_again():
            wanted = world.log(queue).count("work fail 0") + 2
            world.until(lambda: supervised(lambda: world.log(queue).count("work fail 0") >= wanted),
                        f"{client}: the message is requeued and handled again", queue)

        tries_again()
        if client == "cpp":  # rung_retry.h does not detect an exchange without a queue, its README says so: it is away meanwhile
            end(workers[-1])
        world.channel.exchange_declare(failed, "fanout", durable=True)
        if client != "cpp":
            tries_again()
            self.assertEqual(world.take(failed), [], f"{client}: nothing was routed anywhere")
        world.channel.queue_declare(failed, durable=True)
        world.channel.queue_bind(failed, failed)
        world.until(lambda: supervised(lambda: world.waiting(failed) == 1), f"{client}: it arrives", queue)
        arrived, = world.take(failed)
        self.assertEqual(bytes(arrived.body if isinstance(arrived.body, bytes) else arrived.body.encode()), sent.body)
        self.assertEqual(arrived.delivery_info["routing_key"], queue)
        before = {**sent.headers}
        before.pop("retry-never")  # of an earlier failure: this one does not give up
        before.update(LOSSES.get(client, {}))
        self.assertEqual({name: arrived.headers[name] for name in before}, before)
        added = {name for name in arrived.headers if name not in before}
        self.assertEqual(added, {"retry-queue", "retry-error", "retry-error-type", "retry-executor", *ORIGIN})
        self.assertEqual(arrived.headers["retry-queue"], queue)
        self.assertEqual([arrived.headers[name] for name in ORIGIN], ["", queue])
        expected = {name: value for name, value in sent.properties.items() if name not in ("application_headers", "expiration")}
        found = {name: value for name, value in arrived.properties.items() if name != "application_headers"}
        self.assertEqual(found, {**ADDED.get(client, {}), **expected, "delivery_mode": 2})
        for worker in workers:
            end(worker)
        self.assertEqual(world.waiting(queue), 0)

    def test_celery_worker_lost(self):
        """The pool's process is killed: Celery reports WorkerLostError, and the task comes back."""
        self.world.publish("celery", "celery", "killed")
        self.world.until(lambda: self.ended("celery", "killed"), "the killed task succeeds", "celery")
        row = self.current("celery", "killed")
        self.assertEqual((row["state"], row["attempt"], row["error_type"]), ("succeeded", 1, "WorkerLostError"))


def add(client):
    name = client.replace("-", "_")
    setattr(Helpers, f"test_{name}", lambda self: self.outcomes(client))
    setattr(Helpers, f"test_{name}_kept", lambda self: self.kept(client))


for one in CLIENTS:
    add(one)
