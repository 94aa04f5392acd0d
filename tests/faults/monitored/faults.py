"""The faults: each is made with real servers, and mended as its runbook says."""
import contextlib
import json
import signal

import pika

from . import runbooks
from .world import until


class Fault:
    """`alerts`: (name, labels) of those that must fire, each with its runbook. Where the runbook's own commands mend the
    fault, mend() runs them."""
    name = ""
    alerts: tuple = ()
    queue = "orders"  # the queue that the runbook calls orders

    def __init__(self, world, traffic):
        self.world, self.traffic = world, traffic

    @property
    def sidecar(self):
        return self.world.main

    def prepare(self):
        """Before the baseline."""

    def make(self):
        raise NotImplementedError

    def mend(self):
        raise NotImplementedError

    def settle(self):
        """After the alert has cleared."""

    def follow(self, runbook, kind):
        runbooks.follow(self.world, self.sidecar, runbook, kind, self.queue)


class ParkedGrowing(Fault):
    name = "a consumer rejects every message"
    alerts = (("RungParkedGrowing", {"queue": "orders"}), ("RungFailuresSurge", {"queue": "orders"}))

    def make(self):
        self.traffic.answers["orders"] = "reject"
        self.traffic.send("orders", 60)

    def mend(self):
        self.traffic.answers["orders"] = "ack"
        until("nothing fails any more", lambda: not self.world.sql(
            "SELECT 1 FROM rung.rung_tasks WHERE queue = 'orders' AND state IN ('scheduled', 'publishing')"))
        self.follow("RungParkedGrowing", "do")


class BreakerOpen(Fault):
    name = "a target fails, and the breaker opens"
    alerts = (("RungBreakerOpenLong", {"queue": "payments"}),)
    queue = "payments"

    def make(self):
        self.traffic.answers["payments"] = "reject"
        self.traffic.send("payments", 10)

    def mend(self):
        self.traffic.answers["payments"] = "ack"


class QueueDetached(Fault):
    name = "a queue's policy is deleted"
    alerts = (("RungQueueDetached", {"job": "rung"}),)
    queue = "invoices"

    def prepare(self):
        for queue in ("orders", "payments", "invoices", "mails"):
            done = self.world.run(f"rung attach {queue}")
            if done.returncode != 0:
                raise AssertionError(done.stdout)

    def make(self):
        self.world.rabbit("clear_policy", "rung-invoices")

    def mend(self):
        self.follow("RungQueueDetached", "do")


class SilencesHeld(Fault):
    name = "silence is held open"
    alerts = (("RungSilencesHeld", {"queue": "mails"}),)
    queue = "mails"

    def make(self):
        until("tasks have succeeded", lambda: self.world.sql(
            "SELECT COUNT(*) FROM rung.rung_tasks WHERE state = 'succeeded' AND queue = 'mails'")[0][0] >= 3)
        self.world.sql("UPDATE rung.rung_tasks SET state = 'awaiting', next_at = NULL, finished_at = NULL "
                       "WHERE state = 'succeeded' AND queue = 'mails' LIMIT 3")

    def mend(self):
        self.follow("RungSilencesHeld", "do")


class NoConsumer(Fault):
    name = "a queue has no consumer"
    alerts = (("RungNoConsumer", {"queue": "idle"}),)
    queue = "idle"

    def prepare(self):
        with pika.BlockingConnection(self.traffic.parameters) as connection:
            connection.channel().queue_declare("idle", durable=True)
        done = self.world.run("rung attach idle")
        if done.returncode != 0:
            raise AssertionError(done.stdout)

    def make(self):
        self.sidecar.post("/v1/tasks", [{"queue": "idle", "delay": "1s"} for _ in range(3)])

    def mend(self):
        self.follow("RungNoConsumer", "do")
        with pika.BlockingConnection(self.traffic.parameters) as connection:
            connection.channel().queue_purge("idle")


def know_causes(world):
    """A person has looked at each new cause, and at each that came back."""
    new = json.loads(world.run("rung causes --all --state new,regressed --json 2>/dev/null").stdout)
    for cause in new["causes"]:
        world.run(f"rung causes note {cause['cause_id']} 'seen'")


class NewCause(Fault):
    name = "messages fail in a new way"
    alerts = (("RungNewCause", {"job": "rung"}),)
    queue = "mails"
    error = "hopeless: the template has no language"  # it is parked: a cause without tasks would be resolved

    def fail(self, count):
        self.traffic.send("rung.failed", count, {"retry-queue": "mails", "retry-error": self.error})

    def make(self):
        self.fail(1)

    def mend(self):
        know_causes(self.world)


class CauseWorse(NewCause):
    name = "an ignored failure comes ten times as often"
    alerts = (("RungCauseWorse", {"job": "rung"}),)
    error = "hopeless: the mail server is slow"

    def triage(self, command):
        until("the failure has a cause", lambda: self.world.sql(
            "SELECT 1 FROM rung.retry_causes WHERE sample = %s", self.error))
        cause = self.world.sql("SELECT cause_id FROM rung.retry_causes WHERE sample = %s", self.error)[0][0]
        self.world.run(f"rung causes {command} {cause}")

    def make(self):
        self.fail(1)
        self.triage("ignore")
        self.fail(20)

    def mend(self):
        self.triage("ignore")
        know_causes(self.world)


class CauseRegressed(CauseWorse):
    name = "a resolved failure comes back"
    error = "hopeless: the address is wrong"
    # By its text: the cause of the usual traffic's failures ends and comes back all the time.
    alerts = (("RungCauseRegressed", {"error": "hopeless the address is wrong"}),)

    def make(self):
        self.fail(1)
        self.triage("resolve")
        self.fail(1)

    def mend(self):
        know_causes(self.world)


class RetentionBehind(Fault):
    name = "the right to delete tasks is revoked"
    alerts = (("RungRetentionBehind", {"job": "rung", "what": "tasks"}),)

    def make(self):
        until("tasks have succeeded", lambda: self.world.sql(
            "SELECT COUNT(*) FROM rung.rung_tasks WHERE state = 'succeeded'")[0][0] >= 3)
        self.world.sql("REVOKE DELETE ON rung.rung_tasks FROM rung@'%'")
        self.world.sql("UPDATE rung.rung_tasks SET finished_at = UTC_TIMESTAMP(3) - INTERVAL 1 HOUR - INTERVAL 1 MINUTE "
                       "WHERE state = 'succeeded' LIMIT 3")

    def mend(self):
        self.follow("RungRetentionBehind", "do")
        self.sidecar.signal(signal.SIGHUP)


class Problem(Fault):
    name = "a queue of Rung has other arguments"
    alerts = (("RungProblem", {"problem": "topology"}),)

    def make(self):
        with pika.BlockingConnection(self.traffic.parameters) as connection:
            channel = connection.channel()
            channel.queue_delete("rung.parked")
            with contextlib.suppress(pika.exceptions.ChannelClosedByBroker):  # the sidecar was quicker: once more
                channel.queue_declare("rung.parked", durable=True, arguments={"x-max-length": 7})
        until("the queue has other arguments", self._differs)

    def _differs(self):
        queues = json.loads(self.world.rabbit("list_queues", "--formatter", "json", "name", "arguments"))
        if any(queue["name"] == "rung.parked" and queue["arguments"] for queue in queues):
            return True
        self.make()
        return True

    def mend(self):
        self.follow("RungProblem", "do")


class NoOwner(Fault):
    """Another installation with two instances: one dies, the other cannot reach RabbitMQ."""
    name = "an instance dies, and the other has no broker"
    alerts = (("RungNoOwner", {"job": "rung-pair"}), ("RungDown", {"job": "rung-pair"}))

    @property
    def sidecar(self):
        return self.two

    def prepare(self):
        self.world.rabbit("add_vhost", "pair")
        self.world.rabbit("set_permissions", "-p", "pair", "guest", ".*", ".*", ".*")
        settings = {"schema": "pair", "amqp": self.world.amqp.replace("%2f", "pair")}
        self.one = self.world.sidecar("one", "rung-pair", **settings)
        self.two = self.world.sidecar("two", "rung-pair", **{**settings, "amqp": "amqp://guest:guest@127.0.0.1:1/pair"})
        self.one.start()

    def make(self):
        self.two.start()
        until("the second instance reads the database",
              lambda: 'rung_up{service="database"} 1' in self.two.metrics())
        self.one.kill()

    def mend(self):
        self.one.start()

    def settle(self):
        self.world.retire(self.two)


class Overdue(Fault):
    name = "a memory alarm of RabbitMQ blocks publishing"
    alerts = (("RungBrokerAway", {"job": "rung"}), ("RungTasksOverdue", {"queue": "mails"}))
    queue = "mails"

    def make(self):
        self.world.rabbit("set_vm_memory_high_watermark", "absolute", "1MB")
        self.sidecar.post("/v1/tasks", [{"queue": "mails", "delay": "1s", "message_id": f"late-{number}"} for number in range(40)])

    def mend(self):
        self.world.rabbit("set_vm_memory_high_watermark", "0.6")


class Late(Fault):
    """What was overdue goes out."""
    name = "overdue messages go out after the alarm"
    alerts = (("RungPublishesLate", {"job": "rung"}), ("RungPromiseBroken", {"queue": "mails"}))
    queue = "mails"

    def make(self):
        pass

    def mend(self):
        pass


class IntakeStuck(Fault):
    name = "a table is missing"
    alerts = (("RungIntakeStuck", {"job": "rung"}),)

    def make(self):
        self.world.sql("RENAME TABLE rung.rung_bodies TO rung.elsewhere")

    def mend(self):
        self.world.sql("RENAME TABLE rung.elsewhere TO rung.rung_bodies")


class DatabaseAway(Fault):
    name = "the database is killed"
    alerts = (("RungDatabaseAway", {"job": "rung"}),)

    def make(self):
        self.world.server("kill-db")

    def mend(self):
        self.world.server("start-db")


class BrokerAway(Fault):
    name = "RabbitMQ is killed"
    alerts = (("RungBrokerAway", {"job": "rung", "service": "broker"}),)

    def make(self):
        self.world.server("kill-broker")

    def mend(self):
        self.world.server("start-broker")


class ClockStepped(Fault):
    """It would end after ten minutes by itself: all that saw it are restarted."""
    name = "the database's clock steps by 30 s"
    alerts = (("RungClockStepped", {"job": "rung"}),)

    def make(self):
        self.world.step_clock(30)

    def mend(self):
        for sidecar in self.world.sidecars:
            if sidecar.process.poll() is None:
                sidecar.restart()


def together(world, traffic):
    """Those that do not disturb each other. Problem is mended before QueueDetached: `rung attach` needs Rung's queues."""
    return [kind(world, traffic) for kind in (ParkedGrowing, BreakerOpen, Problem, QueueDetached, SilencesHeld, NoConsumer, RetentionBehind, NoOwner)]


def of_causes(world, traffic):
    return [kind(world, traffic) for kind in (NewCause, CauseWorse, CauseRegressed)]


def alone(world, traffic):
    return [kind(world, traffic) for kind in (IntakeStuck, DatabaseAway, BrokerAway, ClockStepped)]
