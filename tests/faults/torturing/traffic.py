"""Producers, consumers and those who cancel. Each connects past the proxies, straight to the servers, and comes back
when they do; what an exception left in doubt stays in doubt in the ledger."""
import contextlib
import hashlib
import random
import subprocess
import threading
import time

import pika
import pika.exceptions
import pymysql
from starting import until

from . import script
from .ledger import now_ms

AWAY = (pika.exceptions.AMQPError, OSError)


class Producer(threading.Thread):
    """Publishes with confirms, mandatory. What was not confirmed is not sent again: its number is spent."""

    def __init__(self, world, ledger, seed, numbers, rate, stop):
        super().__init__(name="producer", daemon=True)
        self.world, self.ledger, self.seed = world, ledger, seed
        self.numbers, self.gap, self.stop = numbers, 1 / rate, stop

    def run(self):
        while not self.stop.is_set():
            try:
                connection = self.world.connect()
                channel = connection.channel()
                channel.confirm_delivery()
                self.publish(channel)
                connection.close()
            except pika.exceptions.UnroutableError:
                self.stop.wait(0.2)  # the queue is away just now: this one was never taken
            except pika.exceptions.NackError:
                pass  # the queue is full: the broker refused this one, and dead-lettered it all the same
            except AWAY:
                self.stop.wait(0.3)

    def publish(self, channel):
        """In bursts, so that many are due at once: a fault then finds something under way."""
        due = time.monotonic()
        while not self.stop.is_set():
            burst = random.choice([1, 1, 1, 5, 25])
            due = max(due + self.gap * burst, time.monotonic() - 1)  # after an outage a second is made up for
            self.stop.wait(max(due - time.monotonic(), 0))
            for _ in range(burst):
                self.publish_one(channel)

    def publish_one(self, channel):
        number = next(self.numbers)
        plan = script.plan_of(self.seed, number)
        properties = pika.BasicProperties(message_id=f"m-{number}", delivery_mode=2, type="torture",
                                          headers={"number": number})
        self.ledger.send(number, plan.queue)
        exchange, key = script.route_of(script.QUEUES[plan.queue], number)
        channel.basic_publish(exchange, key, script.body_of(self.seed, number), properties, mandatory=True)
        self.ledger.confirmed(number)


class Reconnecting(threading.Thread):
    """Serves, and comes back when the broker does."""

    def __init__(self, name, world, stop):
        super().__init__(name=name, daemon=True)
        self.world, self.stop, self.errors = world, stop, []

    def run(self):
        while not self.stop.is_set():
            try:
                self.serve()
            except AWAY:
                self.stop.wait(0.2)
            except Exception as error:  # a mistake of the harness: the run must not pass over it
                self.errors.append(repr(error))
                raise

    @contextlib.contextmanager
    def connections(self):
        """One that consumes, one that publishes."""
        both = self.world.connect(), self.world.connect()
        try:
            yield both
        finally:
            for connection in both:
                with contextlib.suppress(*AWAY):
                    connection.close()


class Consumer(Reconnecting):
    """One queue's. Says what the script wants, confirmed, and acks only then."""

    def __init__(self, world, ledger, seed, queue, canceller, stop):
        super().__init__("consumer " + queue.name, world, stop)
        self.ledger, self.seed, self.queue, self.canceller = ledger, seed, queue, canceller

    def has_left(self):
        return self.queue.name == "mails" and self.world.idle.is_set()

    def serve(self):
        while self.has_left() and not self.stop.wait(0.1):
            self.world.left.set()
        if self.queue.name == "mails":
            self.world.left.clear()
        with self.connections() as (consuming, publishing):
            channel, out = consuming.channel(), publishing.channel()
            out.confirm_delivery()
            channel.basic_qos(prefetch_count=self.queue.max_length or 50)
            # Passive: a queue that is away is the harness's own doing, and it brings it back.
            channel.queue_declare(self.queue.name, passive=True)
            for method, properties, body in channel.consume(self.queue.name, inactivity_timeout=0.2):
                if method is not None:
                    self.handle(channel, out, method, properties, body)
                publishing.process_data_events(0)
                if self.stop.is_set() or self.has_left():
                    break

    def handle(self, channel, out, method, properties, body):
        headers = properties.headers or {}
        number = script.number_of(body)
        attempt, retry_id = headers.get("retry-attempt", 0), headers.get("retry-id")
        while self.queue.max_length and self.world.standing_still.is_set() and not self.stop.is_set():
            channel.connection.process_data_events(0.1)
        plan = script.plan_of(self.seed, number)
        act = script.act_of(self.seed, number, plan, attempt)
        self.ledger.delivery(number, self.facts(number, method, properties, headers, body))
        entry = self.ledger.word(number, retry_id, attempt, act)
        if act.way == "reject":
            channel.basic_reject(method.delivery_tag, requeue=False)
        else:
            self.speak(out, properties, body, act)
            channel.basic_ack(method.delivery_tag)
        self.ledger.said(number, entry)
        if act.word == "failed" and attempt == 0 and plan.cancel_after >= 0:
            self.canceller.want(number, entry["at"] / 1000 + plan.cancel_after)

    def facts(self, number, method, properties, headers, body):
        facts = {"at": now_ms(), "queue": self.queue.name, "redelivered": method.redelivered,
                 "routing_key": method.routing_key,
                 "retry_id": headers.get("retry-id"), "attempt": headers.get("retry-attempt", 0)}
        if facts["retry_id"] is not None:
            facts.update(level=headers.get("retry-level"), levels=headers.get("retry-levels"),
                         ladder=headers.get("retry-ladder"))
        sent = script.body_of(self.seed, number)
        if body != sent or properties.message_id != f"m-{number}" or headers.get("number") != number:
            facts["changed"] = f"body {hashlib.sha256(body).hexdigest()[:12]}, sent " \
                               f"{hashlib.sha256(sent).hexdigest()[:12]}, message-id {properties.message_id}"
        foreign = [h for h in headers if h.startswith("x-") and h not in ("x-delivery-count", "x-acquired-count")]
        if facts["retry_id"] is not None and foreign:
            facts["changed"] = f"headers that should be off: {foreign}"
        return facts

    def speak(self, out, properties, body, act):
        headers = properties.headers or {}
        attempt, retry_id = headers.get("retry-attempt", 0), headers.get("retry-id")
        if act.way in ("report", "result"):
            word = {"retry-id": retry_id, "retry-attempt": attempt, "retry-token": headers.get("retry-token"),
                    "retry-result": "succeeded" if act.word == "ok" else "failed", **act.headers}
            if act.word != "ok":
                word["retry-error"] = f"result of attempt {attempt}"
            out.basic_publish(script.RESULTS, "", b"", pika.BasicProperties(headers=word, delivery_mode=2),
                              mandatory=True)
        elif act.way == "publish":
            properties.headers = {**(properties.headers or {}), **act.headers, "retry-queue": self.queue.name,
                                  "retry-error": f"published at attempt {attempt}", "retry-error-type": "Torture"}
            out.basic_publish(script.FAILED, self.queue.name, body, properties, mandatory=True)


class Canceller:
    """Runs `rung cancel ID` at the wanted times, each in a thread of its own, few at once: a call can hang. Asks the database
    for the id."""

    def __init__(self, world, ledger, stop):
        self.world, self.ledger, self.stop = world, ledger, stop
        self.lock, self.few = threading.Lock(), threading.Semaphore(3)
        self.asked, self.busy = set(), 0

    def want(self, number, at):
        with self.lock:
            if number in self.asked:
                return
            self.asked.add(number)
            self.busy += 1
        threading.Thread(target=self.work, args=(number, at), name="cancel", daemon=True).start()

    def idle(self):
        with self.lock:
            return self.busy == 0

    def work(self, number, at):
        try:
            self.stop.wait(max(at - time.time(), 0))
            with self.few, contextlib.suppress(AssertionError):
                self.cancel(number)
        finally:
            with self.lock:
                self.busy -= 1

    def cancel(self, number):
        ids = until("it is taken in", lambda: self.stop.is_set() or self.ids_of(number), 20, away=(pymysql.Error, OSError))
        for retry_id in () if self.stop.is_set() else ids:
            self.ask(number, retry_id)

    def ids_of(self, number):
        with self.world.db() as db, db.cursor() as cursor:
            cursor.execute("SELECT retry_id FROM retry_current WHERE message_id = %s", (f"m-{number}",))
            return [row["retry_id"] for row in cursor.fetchall()]

    def ask(self, number, retry_id):
        asked = now_ms()
        try:
            ran = self.world.ctl_run("cancel", str(retry_id), "--reason", "torture")
            self.ledger.cancel(str(retry_id), number, asked, ran.returncode, (ran.stdout + ran.stderr).strip())
        except subprocess.TimeoutExpired:
            self.ledger.cancel(str(retry_id), number, asked, None, "no answer in a minute")
