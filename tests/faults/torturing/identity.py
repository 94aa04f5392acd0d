"""Messages that are easily taken for one another, and their judge. Queues beside those of script.py:

twins    groups of ten with one message-id and one body, sent within a moment. They differ in one header or property only,
         which says their number. Each is rejected once or twice, then succeeds.
chained  its consumer handles a retry and publishes its next message into the same queue with all headers that it received, as
         frameworks do: at once, or when the first one's task has ended. That message is rejected, too.
moved    its consumer parks each message. The fault "shovel" moves the copies from <prefix>.parked to this queue, to the queue
         aside, or to <prefix>.failed; both consumers reject a copy once, and handle what comes after it.

The promise: each rejected message comes back under a retry-id of its own, and none that was handled comes again."""
import collections
import heapq
import random
import threading
import time

import pika

from . import script
from .ledger import now_ms
from .traffic import Reconnecting

GROUP = 10
NO_LIMIT = 1_000_000  # for RabbitMQ 3, -1 is a limit that each redelivery exceeds
BASE_TIME = 1_700_000_000
FIELDS = ("header", "correlation_id", "reply_to", "type", "timestamp", "app_id", "routing_key")


def declare_queues(channel):
    for name in script.IDENTITY_QUEUES:
        channel.queue_declare(name, durable=True, arguments={
            "x-queue-type": "quorum", "x-dead-letter-exchange": script.FAILED, "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish", "x-delivery-limit": NO_LIMIT})
    channel.queue_bind("twins", script.EXCHANGE, "twins.#")


class Record:
    """What was sent, seen and said. Keys are "twins N", "chained N" (the first message) and "next N". Thread: any."""

    def __init__(self, ledger, seed, keys_get_lost):
        self.ledger, self.seed, self.keys_get_lost = ledger, seed, keys_get_lost
        self.lock = threading.Lock()
        self.confirmed = set()
        self.without_id = set()  # keys
        self.seen = collections.defaultdict(list)  # key -> (at, retry_id, attempt, redelivered)
        self.words = collections.defaultdict(list)  # key -> (at, retry_id, attempt, word)
        self.parents = collections.defaultdict(set)  # N -> retry_ids of the first message when it was handled
        self.ways = {}  # N -> what became of the first message
        self.unknown = []

    def sent(self, key, properties):
        with self.lock:
            if properties.message_id is None:
                self.without_id.add(key)
            self.confirmed.add(key)
            self.ledger.note("identity confirmed", key=key)

    def delivery(self, key, method, headers):
        entry = (now_ms(), headers.get("retry-id"), headers.get("retry-attempt", 0), method.redelivered)
        with self.lock:
            self.seen[key].append(entry)
            self.ledger.note("identity seen", key=key, retry_id=entry[1], attempt=entry[2], redelivered=entry[3])

    def word(self, key, headers, word):
        entry = (now_ms(), headers.get("retry-id"), headers.get("retry-attempt", 0), word)
        with self.lock:
            self.words[key].append(entry)
            self.ledger.note("identity word", key=key, retry_id=entry[1], attempt=entry[2], word=word)


class Producer(Reconnecting):
    def __init__(self, world, record, stop):
        super().__init__("producer of twins", world, stop)
        self.record = record
        self.next_twin, self.next_chained, self.next_moved = 0, 0, 0

    def serve(self):
        with self.world.connect() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            while not self.stop.wait(2.0):
                for _ in range(GROUP):
                    self.twin(channel)
                for _ in range(3):
                    self.first(channel)
                    self.to_park(channel)

    def twin(self, channel):
        number, self.next_twin = self.next_twin, self.next_twin + 1
        group = number // GROUP
        field = FIELDS[group % (len(FIELDS) - (1 if self.record.keys_get_lost else 0))]
        properties = pika.BasicProperties(message_id=f"twin-{group}" if group % 3 else None, delivery_mode=2)
        key = "twins.same"
        if field == "header":
            properties.headers = {"twin": number}
        elif field == "timestamp":
            properties.timestamp = BASE_TIME + number
        elif field == "routing_key":
            key = f"twins.{number}"
        else:
            setattr(properties, field, f"twin-{number}")
        channel.basic_publish(script.EXCHANGE, key, b"{}" if group % 2 else b"", properties, mandatory=True)
        self.record.sent(f"twins {number}", properties)

    def first(self, channel):
        number, self.next_chained = self.next_chained, self.next_chained + 1
        properties = pika.BasicProperties(message_id=f"chained-{number}" if number % 2 else None, delivery_mode=2,
                                          correlation_id=f"chained {number}", headers={"order": number})
        channel.basic_publish("", "chained", f"chained {number}".encode(), properties, mandatory=True)
        self.record.sent(f"chained {number}", properties)

    def to_park(self, channel):
        key, self.next_moved = f"moved {self.next_moved}", self.next_moved + 1
        properties = pika.BasicProperties(message_id=key, correlation_id=key, delivery_mode=2)
        channel.basic_publish("", "moved", key.encode(), properties, mandatory=True)
        self.record.sent(key, properties)


def twin_of(method, properties):
    headers = properties.headers or {}
    if "twin" in headers:
        return headers["twin"]
    if properties.timestamp:
        return properties.timestamp - BASE_TIME
    for field in ("correlation_id", "reply_to", "type", "app_id"):
        value = getattr(properties, field) or ""
        if value.startswith("twin-"):
            return int(value[5:])
    last = method.routing_key.rpartition(".")[2]
    return int(last) if last.isdigit() else None


class Consumer(Reconnecting):
    """Acks only what is confirmed."""

    def __init__(self, world, record, queue, stop):
        super().__init__("consumer of " + queue, world, stop)
        self.record, self.queue = record, queue
        self.later = []  # (when, N, properties): next messages that wait until the first one's task has ended

    def serve(self):
        with self.connections() as (consuming, publishing):
            channel, self.out = consuming.channel(), publishing.channel()
            self.out.confirm_delivery()
            channel.basic_qos(prefetch_count=50)
            for method, properties, body in channel.consume(self.queue, inactivity_timeout=0.2):
                if method is not None:
                    handle = {"twins": self.twin, "chained": self.chained}.get(self.queue, self.moved)
                    handle(channel, method, properties, body)
                publishing.process_data_events(0)
                while self.later and self.later[0][0] <= time.monotonic():
                    _, number, copied = self.later[0]
                    self.publish_next(number, copied)
                    heapq.heappop(self.later)
                if self.stop.is_set():
                    break

    def twin(self, channel, method, properties, _):
        number = twin_of(method, properties)
        headers = properties.headers or {}
        if number is None:
            self.record.unknown.append(headers.get("retry-id"))
            return self.report(channel, method, headers)
        key = f"twins {number}"
        self.record.delivery(key, method, headers)
        if headers.get("retry-attempt", 0) > number % 2:
            self.record.word(key, headers, "ok")
            return self.report(channel, method, headers)
        self.record.word(key, headers, "failed")
        channel.basic_reject(method.delivery_tag, requeue=False)

    def report(self, channel, method, headers):
        self.result(headers, "succeeded")
        channel.basic_ack(method.delivery_tag)

    def result(self, headers, word):
        told = {k: headers.get(k) for k in ("retry-id", "retry-attempt", "retry-token")}
        self.out.basic_publish(script.RESULTS, "", b"", pika.BasicProperties(
            headers={**told, "retry-result": word}, delivery_mode=2), mandatory=True)

    def chained(self, channel, method, properties, body):
        key = body.decode()
        number = int(key.split()[1])
        headers = properties.headers or {}
        self.record.delivery(key, method, headers)
        if key.startswith("next"):
            return self.next(channel, method, headers, key, number)
        if not headers.get("retry-id"):
            self.record.word(key, headers, "failed")
            return channel.basic_reject(method.delivery_tag, requeue=False)
        self.handle(channel, method, properties, key, number)

    def handle(self, channel, method, properties, key, number):
        """The next message is published while the first one's task is awaiting, scheduled, succeeded (reported, presumed) or
        parked."""
        headers = dict(properties.headers)
        rng = random.Random(f"{self.record.seed}/chained/{number}")
        way = rng.choice(["silent", "report", "presumed", "fails", "parks"])
        if headers["retry-attempt"] == 1:
            copied = pika.BasicProperties(message_id=properties.message_id if rng.random() < 0.5 else None, delivery_mode=2,
                                          correlation_id=f"next {number}", headers=headers)
            after = {"silent": 0, "report": rng.choice([0, 0.5]), "presumed": 6.0, "fails": 0.5, "parks": 0.5}[way]
            self.record.parents[number].add(headers["retry-id"])
            if after:
                heapq.heappush(self.later, (time.monotonic() + after, number, copied))
            else:
                self.publish_next(number, copied)
        if way in ("fails", "parks") and headers["retry-attempt"] == 1:
            more = {"retry-never": True} if way == "parks" else {}
            self.record.word(key, headers, "failed")
            self.out.basic_publish(script.FAILED, "chained", key.encode(), pika.BasicProperties(
                message_id=properties.message_id, correlation_id=properties.correlation_id, delivery_mode=2,
                headers={**headers, **more, "retry-queue": "chained", "retry-error": "published"}), mandatory=True)
        else:
            self.record.word(key, headers, "ok")
            if headers["retry-attempt"] == 1:
                self.record.ways[number] = way
            if way == "report" or headers["retry-attempt"] > 1:
                self.result(headers, "succeeded")
        channel.basic_ack(method.delivery_tag)

    def moved(self, channel, method, properties, body):
        key, headers = body.decode(), properties.headers or {}
        self.record.delivery(key, method, headers)
        if "retry-error" in headers:  # only a copy of a parked message has it
            self.record.word(key, headers, "copy failed")
            return channel.basic_reject(method.delivery_tag, requeue=False)
        if headers.get("retry-id"):
            self.record.word(key, headers, "ok")
            return self.report(channel, method, headers)
        self.record.word(key, headers, "failed")
        self.out.basic_publish(script.FAILED, self.queue, body, pika.BasicProperties(
            message_id=properties.message_id, correlation_id=properties.correlation_id, delivery_mode=2,
            headers={"retry-queue": self.queue, "retry-error": "to be parked", "retry-never": True}), mandatory=True)
        return channel.basic_ack(method.delivery_tag)

    def publish_next(self, number, copied):
        self.out.basic_publish("", "chained", f"next {number}".encode(), copied, mandatory=True)
        self.record.sent(f"next {number}", copied)

    def next(self, channel, method, headers, key, number):
        if headers.get("retry-id") in self.record.parents[number]:  # with the headers that were copied
            self.record.word(key, {}, "failed")
            return channel.basic_reject(method.delivery_tag, requeue=False)
        self.record.word(key, headers, "ok")
        self.report(channel, method, headers)


def producers(world, record, stop):
    return [Producer(world, record, stop)]


def consumers(world, record, stop):
    return [Consumer(world, record, queue, stop) for queue in script.IDENTITY_QUEUES]


class _Judge:
    def __init__(self, record, judge, tasks):
        self.record, self.judge = record, judge
        self.tasks = {i: t for i, t in tasks.items() if t["queue"] in script.IDENTITY_QUEUES}
        self.owners = collections.defaultdict(set)  # retry_id -> messages that came under it

    def blame(self, promise, text):
        self.judge.blame(promise, -1, text)

    def run(self):
        for key, sightings in self.record.seen.items():
            for _, retry_id, _, _ in sightings:
                if retry_id is not None and retry_id not in self.parents_of(key):
                    self.owners[retry_id].add(key)
        for retry_id, keys in self.owners.items():
            if len(keys) > 1:
                self.blame("one task", f"different messages came under retry-id {retry_id}: {sorted(keys)}")
        for key in sorted(self.record.confirmed):
            (self.parked if key.startswith("moved") else self.message)(key)
        for number, parents in self.record.parents.items():
            for parent in parents:
                self.parent(number, parent)
        for retry_id, task in self.tasks.items():
            self.task(retry_id, task)
        if self.record.unknown:
            self.blame("changed", f"twins came back without what tells them apart: {self.record.unknown}")

    def own_ids(self, key):
        return {s[1] for s in self.record.seen[key] if s[1] is not None and s[1] not in self.parents_of(key)}

    def parents_of(self, key):
        return self.record.parents.get(int(key.split()[1]), ()) if key.startswith("next") else ()

    def message(self, key):
        kind = key.split()[0]
        self.judge.counts[kind] += 1
        if not self.record.seen[key]:
            return self.blame("lost", f"{key}: confirmed, never delivered")
        first = [w for w in self.record.words[key] if w[2] == 0 and w[3] == "failed"]
        ids = self.own_ids(key)
        if first and not ids:
            return self.blame("lost", f"{key}: its first failure never came back" + self.way_of(key))
        if len(ids) > len(first):
            if self.judge.near(first[0][0] - 1000 if first else 0, first[-1][0] + script.BROKER_FORGETS_MS if first else 1e15, {"broker"}):
                return self.judge.note("more than one task, dead-lettered twice by the broker", -1)
            # Without a message-id, a failure that is taken in twice cannot be told from two alike.
            if key in self.record.without_id:
                return self.judge.note("more than one task, without a message-id", -1)
            self.blame("one task", f"{key}: {len(ids)} tasks {sorted(ids)}, though it failed {len(first)} times")
        if not any(w[3] == "ok" for w in self.record.words[key]) and kind != "chained":
            self.blame("lost", f"{key}: it failed, and never came until it was handled")

    def parked(self, key):
        """Each of its copies that failed, in a queue or moved to the inlet, came back as a retry."""
        words = self.record.words[key]
        tasks = [i for i, t in self.tasks.items() if t["correlation_id"] == key]
        if not tasks:
            return self.blame("lost", f"{key}: it failed, and has no task")
        failed = {w[1]: w[0] for w in reversed(words) if w[3] == "copy failed"}  # the first failure of each task's
        moves = [m for m in self.record.ledger.moved if m["key"] == key]
        for move in moves:
            if move["to"] == script.FAILED:
                failed[move["retry_id"]] = min(move["at"], failed.get(move["retry_id"], move["at"]))
        for retry_id, at in failed.items():
            self.judge.counts["moved"] += 1
            if not any(w[3] == "ok" and w[0] > at for w in words):
                self.blame("lost", f"{key}: the copy of its task {retry_id} failed, and nothing came back")
        redriven = {m["retry_id"] for m in moves if m["redriven"]}
        handled = {w[1:3] for w in words if w[3] == "ok"}
        if len(handled) < len(failed) + len(redriven):
            self.blame("lost", f"{key}: {len(failed)} copies failed, {len(redriven)} tasks were redriven, {len(handled)} came back")
        said = sum(w[3] != "ok" for w in words) + sum(m["to"] == script.FAILED for m in moves)
        if len(tasks) > said and not self.judge.near(words[0][0], words[-1][0] + script.BROKER_FORGETS_MS, {"broker"}):
            self.blame("one task", f"{key}: {len(tasks)} tasks, and {said} failures")

    def way_of(self, key):
        return f" (the first one: {self.record.ways.get(int(key.split()[1]))})" if key.startswith("next") else ""

    def parent(self, number, parent):
        """What was handled does not come again, except as a repeat of its attempt."""
        key, way = f"chained {number}", self.record.ways.get(number)
        if way not in ("silent", "report", "presumed"):
            return
        if not any(w[1:] == (parent, 1, "ok") for w in self.record.words[key]):
            return  # its consumer lost its connection before it had handled it
        again = [s for s in self.record.seen[key] if s[1] == parent and s[2] > 1]
        if again:
            self.blame("end", f"{key}: it was handled at attempt 1 ({way}), and came again as attempt {again[0][2]}")
        task = self.tasks.get(parent)
        if task is None or task["state"] != "succeeded":
            self.blame("end", f"{key}: it was handled ({way}), and its task {parent} is {task and task['state']}")

    def task(self, retry_id, task):
        if task["state"] not in ("succeeded", "parked"):
            self.blame("lost", f"task {retry_id} of {task['queue']} never came to an end: {task['state']}")
        if task["state"] == "parked" and not task["correlation_id"]:
            self.blame("end", f"task {retry_id} of {task['queue']} is parked: {task['last_error']}")
        if task["state"] == "parked" and task["queue"] == "moved":
            return
        if retry_id not in self.owners and not any(retry_id in some for some in self.record.parents.values()):
            self.blame("end", f"task {retry_id} of {task['queue']} ({task['correlation_id']}) was never delivered: {task['state']}")
        if (task["correlation_id"] or "").startswith("next") and task["parent_id"]:
            self.judge.counts["children"] += 1
        if (task["correlation_id"] or "").startswith("moved") and task["parent_id"]:
            self.judge.counts["moved children"] += 1


def judge(record, judged, tasks):
    _Judge(record, judged, tasks).run()
