"""A vhost, a schema and a sidecar of a test's own, on the servers of RUNG_TEST_*."""
import functools
import os
import subprocess
import unittest

import pytest
from starting import BOUND_SECONDS, PROGRAM, Place, admin, until


@functools.cache
def broker_since(*version):
    return tuple(int(part) for part in admin("GET", "overview")["rabbitmq_version"].split(".")[:2]) >= version


@pytest.mark.usefixtures("servers")
class Sidecar(unittest.TestCase):
    ladder = "[200ms, 200ms]"
    queue_type = "classic"  # of Rung's own queues
    more = ""  # of the config

    @classmethod
    def setUpClass(cls):
        cls.place = place = Place(cls.__name__.lower())
        cls.addClassCleanup(place.close)
        cls.name, cls.folder, cls.amqp, cls.sql = place.name, place.folder, place.amqp, place.sql
        cls.config, cls.log = place.config, place.log
        place.write_config(f", management: \"{os.environ['RUNG_TEST_MANAGEMENT']}\", queue_type: {cls.queue_type}",
                           f"ladders: {{ default: {cls.ladder} }}\n"
                           f"defaults: {{ success: {{ presumed_after: 10m }} }}\n{cls.more}")
        cls.before_start()
        place.start_rung()

    @classmethod
    def before_start(cls):
        """The virtual host and the schema are there, the sidecar isn't."""

    def rung(self, *words):
        done = subprocess.run([PROGRAM, words[0], "-c", str(self.config), *words[1:]], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=BOUND_SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def declare(self, queue, **arguments):
        all_arguments = {"x-queue-type": "quorum", **{name.replace("_", "-"): v for name, v in arguments.items()}}
        admin("PUT", f"queues/{self.name}/{queue}", {"durable": True, "arguments": all_arguments})

    def until(self, condition, what):
        until(what, condition, told=lambda: f"{self.sql('SELECT * FROM retry_current')}\n{self.log.read_text()}")
