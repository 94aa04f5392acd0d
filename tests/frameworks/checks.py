"""The checks of frameworks_test.py: what a consumer prints, and what Rung's views say.

An example's consumer prints a line for each delivery: `attempt N BODY OUTCOME`; the outcome is `done`, `rejected` or
`failed: TEXT`.
"""
import json
import os
import pathlib
import re
import signal
import subprocess

import pika
import starting
from starting import until

BOUND_SECONDS = 90  # for anything that is waited for
# A message that says nothing, one that says why, asks for a delay and reports its success, one that never succeeds.
SILENT = '{"order": 1, "fails": 2}'
SAYS_WHY = '{"order": 2, "fails": 2, "why": "HTTP 503", "after": "2s"}'
NEVER = '{"order": 3, "fails": 9}'
LINE = re.compile(r"^.*?attempt (\d+) (\{.*\}) (done|rejected|failed: .*)$")


def require(condition, what):
    if not condition:
        raise AssertionError(what)


class Run:
    """One framework's consumer and queue."""

    def __init__(self, framework, folder, place):
        self.framework, self.folder = framework, folder
        self.queue = framework.queue
        self.env = {**os.environ, "RUNG_EXAMPLE_BROKER": place.amqp, "QUEUE": framework.name, **framework.env}
        self.log = folder / "consumer.log"
        self.amqp, self.sql, self.consumer = place.amqp, place.sql, None

    def __enter__(self):
        self.consumer = starting.start(self.framework.consume, self.log, cwd=self.folder, env=self.env, start_new_session=True)
        self.until(lambda: self.depth()[1] > 0 or self.framework.polls and self.depth()[0] >= 0, "the consumer is there")
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.consumer.pid, signal.SIGKILL)  # a worker may have children
        except ProcessLookupError:
            pass
        self.consumer.wait()

    def until(self, condition, what):
        def found():
            require(self.consumer.poll() is None, "the consumer ended")
            return condition()
        return until(what, found, BOUND_SECONDS, told=lambda: f"the consumer: {self.output()[-600:]}; tasks: {self.tasks()}")

    def output(self):
        return self.log.read_text(errors="replace")

    def deliveries(self):
        """{order: [(attempt, body, outcome)]}, as the consumer printed them."""
        found = {}
        for line in self.output().splitlines():
            if match := LINE.match(line):
                found.setdefault(json.loads(match[2])["order"], []).append((int(match[1]), match[2], match[3]))
        return found

    def send(self, body):
        done = subprocess.run([*self.framework.send, body], cwd=self.folder, env=self.env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=BOUND_SECONDS, text=True, check=False)
        require(done.returncode == 0, f"the producer failed: {done.stdout[-600:]}")

    def depth(self):
        """(messages ready, consumers); (-1, 0) if there is no such queue."""
        with pika.BlockingConnection(pika.URLParameters(self.amqp)) as connection:
            try:
                method = connection.channel().queue_declare(self.queue, passive=True).method
                return method.message_count, method.consumer_count
            except pika.exceptions.ChannelClosedByBroker:
                return -1, 0

    def tasks(self):
        return self.sql("SELECT * FROM retry_current WHERE queue = %s ORDER BY retry_id", self.queue)

    def history(self, task):
        return self.sql("SELECT * FROM retry_history WHERE retry_id = %s ORDER BY attempt", task["retry_id"])


def run(framework, folder, place):
    with Run(framework, folder, place) as it:
        globals()[framework.check](it)


def send_in_turn(it, bodies):
    """Sends each message when the failure of the one before is in Rung: the order of tasks is the order of messages."""
    for count, body in enumerate(bodies, 1):
        it.send(body)
        it.until(lambda: len(it.tasks()) >= count, f"the failure of {body} reached Rung")


OUTCOMES = (["failed", "succeeded"], ["failed", "succeeded"], ["failed", "failed"])


def climbed(it, ends):
    """Every failure reaches Rung, and every attempt comes back in order. `ends`: state, finished_by of each task."""
    send_in_turn(it, [SILENT, SAYS_WHY, NEVER])
    it.until(lambda: all(len(it.deliveries().get(order, [])) >= 3 for order in (1, 2, 3)), "each message was delivered three times")
    it.until(lambda: all(task["finished_at"] or task["state"] == "parked" for task in it.tasks()), "every task ended")
    tasks = it.tasks()
    require([(task["state"], task["finished_by"]) for task in tasks] == ends, f"three messages make three tasks, which end: {tasks}")
    histories = [it.history(task) for task in tasks]
    for rows, outcomes in zip(histories, OUTCOMES):
        require([(row["attempt"], row["outcome"]) for row in rows] == list(enumerate(outcomes, 1)), f"the history: {rows}")
        require(all(row["published_at"] >= row["due_at"] for row in rows), f"never early: {rows}")
    require("HTTP 503" in histories[1][0]["error"], f"the error's text: {histories[1]}")
    seen = it.deliveries()
    for order, sent in enumerate((SILENT, SAYS_WHY, NEVER), 1):
        got = seen.get(order, [])
        require([attempt for attempt, _, _ in got] == [0, 1, 2], f"attempts 0, 1, 2 of order {order}, in order: {got}")
        require(len({body for _, body, _ in got}) == 1 and json.loads(got[0][1]) == json.loads(sent), f"the body is as sent: {got}")
    return tasks, histories[1], seen


def ladder(it):
    """Silence is a success, and so is a report."""
    (_, says_why, _), said, seen = climbed(it, [("succeeded", "presumed"), ("succeeded", "reported"), ("parked", None)])
    require(it.framework.error_type == says_why["error_type"], f"the error's type: {says_why}")
    waited = (said[0]["due_at"] - says_why["first_failed_at"]).total_seconds()
    require(1.9 <= waited <= 2.5, f"retry-after: 2s instead of the level's 1 s, not {waited} s")
    for order, failed, last in ((1, "rejected", "done"), (2, "failed: HTTP 503", "done"), (3, "rejected", "rejected")):
        require([outcome for _, _, outcome in seen[order]] == [failed, failed, last], f"the outcomes of order {order}: {seen[order]}")
    require(it.depth()[0] == 0, f"the queue is empty: {it.depth()}")


def fence(it):
    """What was in rung.failed before is in the database afterwards: Rung commits in the order of the queue."""
    queue = f"fence-{it.queue}"
    with pika.BlockingConnection(pika.URLParameters(it.amqp)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("rung.failed", "", b"fence", pika.BasicProperties(headers={"retry-queue": queue, "retry-never": True}))
    it.until(lambda: it.sql("SELECT 1 FROM retry_current WHERE queue = %s", queue), "the fence is in the database")


def unseen(it):
    """The framework takes the failure for itself: the message is gone, and Rung never saw it."""
    it.send(SILENT)
    it.until(lambda: it.deliveries().get(1), "the message was handled")
    it.until(lambda: it.depth()[0] == 0, "the queue is empty")
    fence(it)
    require(not it.tasks(), f"Rung has no task: {it.tasks()}")
    require(len(it.deliveries()[1]) == 1, f"it was handled once: {it.deliveries()}")


def requeued(it):
    """The framework puts the message back to its queue: it is delivered again and again, and Rung never sees it."""
    it.send(SILENT.replace('"fails": 2', '"fails": 99'))
    it.until(lambda: len(it.deliveries().get(1, [])) >= 5, "it was delivered five times")
    fence(it)
    require(not it.tasks(), f"Rung has no task: {it.tasks()}")
    require({attempt for attempt, _, _ in it.deliveries()[1]} == {0}, "none of them is a retry by Rung")


def held(it):
    """The framework neither acks nor rejects: the message waits until the consumer's connection ends. Rung never sees it."""
    it.send(SILENT)
    it.until(lambda: it.deliveries().get(1), "the message was handled")
    fence(it)
    require(not it.tasks(), f"Rung has no task: {it.tasks()}")
    os.killpg(it.consumer.pid, signal.SIGKILL)
    until("the message is in the queue again", lambda: it.depth()[0] == 1, BOUND_SECONDS)


def error_queue(it):
    """The framework publishes its failures to an error queue; Rung takes them from there and sends them back."""
    tasks, _, _ = climbed(it, [("succeeded", "presumed"), ("succeeded", "presumed"), ("parked", None)])
    types = [task["error_type"] for task in tasks]
    require(types == ["RuntimeException", "ShopError", "RuntimeException"], f"the type of the error from the framework's headers: {types}")
