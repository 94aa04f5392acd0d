"""Traffic with a ledger: messages that fail once, twice or three times and then succeed, delays that are due much later, and
what must be true of all of them at the end, whichever sidecar of whichever version handled them."""
from __future__ import annotations

import collections
import threading
import time
from dataclasses import dataclass, field

import pika
from machinery import PREFIX, Servers, until

QUEUE = "upgrade-orders"
CONFIG = f"queues:\n  {QUEUE}: {{ success: {{ presumed_after: 4s }} }}\n"
LADDER = "[1s, 2s, 3s, 1h]"
CLOCK_SLACK_MS = 2  # two reads of the same machine's clock


@dataclass
class Delivery:
    retry_id: str
    attempt: int  # 0: the first delivery, from the producer
    at: float     # ms since 1970
    redelivered: bool


@dataclass
class Message:
    sent: float
    failures: int  # deliveries that the consumer rejects
    not_before: float = 0.0
    confirmed: bool = False
    deliveries: list[Delivery] = field(default_factory=list)


def now_ms() -> float:
    return time.time() * 1000


class Traffic:
    """A producer and a consumer, each with a thread and a connection. The ledger is `messages`, by message-id."""

    def __init__(self, servers: Servers, rate: float) -> None:
        self.servers, self.rate = servers, rate
        self.messages: dict[str, Message] = {}
        self.producing, self.ending = threading.Event(), threading.Event()
        self.errors: list[str] = []
        self.threads: list[threading.Thread] = []
        self.count = 0
        with servers.broker() as connection:
            connection.channel().queue_declare(QUEUE, durable=True, arguments={"x-dead-letter-exchange": f"{PREFIX}.failed"})

    def begin(self) -> None:
        """REQUIRES: a sidecar has declared the exchanges."""
        self.producing.set()
        self.threads = [threading.Thread(target=self.guarded, args=(work,), daemon=True) for work in (self.produce, self.consume)]
        for thread in self.threads:
            thread.start()

    def guarded(self, work) -> None:
        try:
            work()
        except Exception as error:  # pylint: disable=broad-except
            self.errors.append(f"{work.__name__}: {error!r}")

    def produce(self) -> None:
        connection = self.servers.broker()
        channel = connection.channel()
        channel.confirm_delivery()
        while self.producing.is_set():
            message_id = f"u-{self.count}"
            message = self.messages[message_id] = Message(now_ms(), 1 + self.count % 3)
            self.count += 1
            channel.basic_publish("", QUEUE, b'{"order": 4711}', self.properties(message_id))
            message.confirmed = True
            connection.sleep(1 / self.rate)
        connection.close()

    @staticmethod
    def properties(message_id: str, **headers) -> pika.BasicProperties:
        return pika.BasicProperties(message_id=message_id, delivery_mode=2, headers=headers)

    def delay(self, count: int, seconds: float) -> None:
        """Tasks that wait: taken in now, due in so many seconds."""
        with self.servers.broker() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for number in range(count):
                sent = now_ms()
                channel.basic_publish(f"{PREFIX}.delay", QUEUE, b"{}", self.properties(
                    f"d-{number}", **{"x-delay": int(seconds * 1000), "retry-queue": QUEUE}))
                self.messages[f"d-{number}"] = Message(sent, 0, sent + seconds * 1000, True)

    def consume(self) -> None:
        connection = self.servers.broker()
        channel = connection.channel()
        channel.basic_qos(prefetch_count=100)
        channel.basic_consume(QUEUE, self.delivered)
        while not self.ending.is_set():
            connection.process_data_events(0.2)
        connection.close()

    def delivered(self, channel, method, properties, _body) -> None:
        headers = properties.headers or {}
        message = self.messages[properties.message_id]
        attempt = int(headers.get("retry-attempt", 0))
        message.deliveries.append(Delivery(str(headers.get("retry-id", "")), attempt, now_ms(), method.redelivered))
        if attempt < message.failures:
            channel.basic_reject(method.delivery_tag, requeue=False)
            return
        # Every second success is reported; silence means success for the others.
        if int(properties.message_id.split("-")[1]) % 2 == 0:
            channel.basic_publish(f"{PREFIX}.results", "", b"", pika.BasicProperties(delivery_mode=2, headers={
                name: headers[name] for name in ("retry-id", "retry-attempt", "retry-token")} | {"retry-result": "succeeded"}))
        channel.basic_ack(method.delivery_tag)

    def deliveries(self) -> int:
        return sum(len(message.deliveries) for message in list(self.messages.values()))

    def wait(self, count: int, seconds: float = 120) -> None:
        """Until the consumer has had `count` more deliveries."""
        goal = self.deliveries() + count
        until(f"{count} more deliveries", lambda: self.errors or self.deliveries() >= goal, seconds)

    def finish(self, seconds: float = 240) -> None:
        """Ends the producer, waits until every task is over, ends the consumer."""
        self.producing.clear()
        self.threads[0].join()
        try:
            until("every task is over", lambda: self.errors or not self.open_tasks(), seconds)
        except SystemExit:
            self.explain()
            raise
        finally:
            self.ending.set()
            self.threads[1].join()

    def explain(self) -> None:
        """Prints the messages that are not over, each with its tasks."""
        tasks: dict[str, list[tuple]] = collections.defaultdict(list)
        for message_id, *task in self.servers.rows("SELECT message_id, id, state, attempt, next_at, last_error FROM rung_tasks "
                                                   "WHERE queue = %s", QUEUE):
            tasks[message_id].append(tuple(task))
        for message_id, message in self.messages.items():
            if [state for _, state, *_ in tasks[message_id]] != ["succeeded"]:
                print(f"not over: {message_id}: {message}; tasks: {tasks[message_id]}")

    def open_tasks(self) -> int:
        """Messages without a task that has succeeded."""
        (over,), = self.servers.rows("SELECT COUNT(*) FROM rung_tasks WHERE queue = %s AND state = 'succeeded'", QUEUE)
        return len(self.messages) - over


@dataclass
class Span:
    """A part of the run, for the figures."""
    name: str
    begin: float = field(default_factory=now_ms)
    end: float = 0.0


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)] if values else 0.0


class Judge:
    """Compares the ledger with the database. `offences`: sentences; empty: every promise was kept."""

    def __init__(self, servers: Servers, traffic: Traffic) -> None:
        self.traffic = traffic
        self.offences = [f"the traffic itself failed: {error}" for error in traffic.errors]
        ms = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {}) / 1000"
        self.tasks = collections.defaultdict(list)
        for row in servers.rows(f"SELECT message_id, id, state, attempt, {ms.format('created_at')} FROM rung_tasks "
                                "WHERE queue = %s", QUEUE):
            self.tasks[row[0]].append(row[1:])
        self.due, self.nodes = {}, {}
        for retry_id, attempt, due, node in servers.rows(
                f"SELECT h.retry_id, h.attempt, {ms.format('h.due_at')}, h.node FROM retry_history h WHERE h.queue = %s", QUEUE):
            self.due[str(retry_id), attempt] = float(due)
            self.nodes[str(retry_id), attempt] = node
        self.repeats = 0
        for message_id, message in traffic.messages.items():
            self.message(message_id, message)

    def blame(self, message_id: str, what: str) -> None:
        self.offences.append(f"{message_id}: {what}")

    def message(self, message_id: str, message: Message) -> None:
        if not message.confirmed:
            return
        rows = self.tasks[message_id]
        if len(rows) != 1:
            return self.blame(message_id, f"{len(rows)} tasks instead of one")
        (retry_id, state, attempt, _created), = rows
        wanted = max(message.failures, 1)
        if state != "succeeded" or attempt != wanted:
            self.blame(message_id, f"{state} after attempt {attempt}, not succeeded after {wanted}")
        counted = collections.Counter((d.retry_id, d.attempt) for d in message.deliveries if d.attempt > 0)
        if set(counted) != {(str(retry_id), a) for a in range(1, wanted + 1)}:
            self.blame(message_id, f"delivered as {sorted(counted)}, not once as each attempt of {retry_id} from 1 to {wanted}")
        self.repeats += sum(counted.values()) - len(counted)
        for delivery in message.deliveries:
            if delivery.attempt == 0:
                continue
            due = self.due.get((delivery.retry_id, delivery.attempt))
            if due is None:
                self.blame(message_id, f"attempt {delivery.attempt} has no row in the history")
            elif delivery.at + CLOCK_SLACK_MS < max(due, message.not_before):
                self.blame(message_id, f"attempt {delivery.attempt} came {max(due, message.not_before) - delivery.at:.0f} ms early")

    def figures(self, spans: list[Span]) -> list[str]:
        """For each part of the run: deliveries of retries by node, how late they were, and how long intake took."""
        lines = []
        for span in spans:
            late, by_node, intake = [], collections.Counter(), []
            for message_id, message in self.traffic.messages.items():
                for d in message.deliveries:
                    due = self.due.get((d.retry_id, d.attempt))
                    if due is not None and span.begin <= due < span.end:
                        late.append(d.at - due)
                        by_node[self.nodes[d.retry_id, d.attempt]] += 1
                first = next((d.at for d in message.deliveries if d.attempt == 0), None)
                if first is not None and span.begin <= first < span.end and self.tasks[message_id]:
                    intake.append(float(self.tasks[message_id][0][3]) - first)
            lines.append(f"{span.name:44} {(span.end - span.begin) / 1000:6.1f} s  {len(late):5} retries, late by ms: "
                         f"p50 {percentile(late, .5):.0f}, p99 {percentile(late, .99):.0f}, max {max(late, default=0):.0f}; "
                         f"intake max {max(intake, default=0):.0f} ms  "
                         + ", ".join(f"{node} {count}" for node, count in sorted(by_node.items())))
        return lines
