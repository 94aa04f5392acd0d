"""What happened, as the harness alone saw it. Every entry goes to a file of JSON lines as it happens.

Times are this machine's wall clock in ms (float). The database runs on the same machine and is not under libfaketime,
so this is the database's clock too; `World.clock_differs` measures that. Thread: any."""
import collections
import json
import threading
import time


def now_ms():
    return time.time() * 1000


class Ledger:
    def __init__(self, path):
        self.lock = threading.Lock()
        self.file = open(path, "w", buffering=1 << 16, encoding="utf-8")
        self.sent = {}  # number -> {"at", "confirmed"} (ms; confirmed None: nobody knows)
        self.seen = collections.defaultdict(list)  # number -> deliveries in order
        self.words = collections.defaultdict(list)  # number -> what the consumer said
        self.cancels = {}  # retry_id -> {"number", "asked", "answered", "code"}
        self.faults = []  # {"kind", "target", "begin", "end", "detail"}
        self.takeovers = []
        self.moved = []  # copies of parked messages: {"at", "key", "retry_id", "to", "redriven"}
        self.starved = []  # (begin, end): the harness itself got no CPU

    def write(self, what, **facts):
        self.file.write(json.dumps({"t": round(now_ms(), 1), "what": what, **facts}) + "\n")

    def send(self, number, queue):
        with self.lock:
            self.sent[number] = {"at": now_ms(), "confirmed": None, "queue": queue}
            self.write("send", number=number, queue=queue)

    def confirmed(self, number):
        with self.lock:
            self.sent[number]["confirmed"] = now_ms()
            self.write("confirmed", number=number)

    def delivery(self, number, facts):
        with self.lock:
            self.seen[number].append(facts)
            self.write("seen", number=number, **facts)

    def word(self, number, retry_id, attempt, act):
        """The consumer is about to say it. confirmed: the broker has it; for a reject or an ack nobody tells."""
        entry = {"at": now_ms(), "retry_id": retry_id, "attempt": attempt, "word": act.word, "way": act.way,
                 "after": act.retry_after, "confirmed": None}
        with self.lock:
            self.words[number].append(entry)
            self.write("word", number=number, retry_id=retry_id, attempt=attempt, word=act.word, way=act.way)
        return entry

    def said(self, number, entry):
        with self.lock:
            entry["confirmed"] = now_ms()
            self.write("said", number=number, retry_id=entry["retry_id"], attempt=entry["attempt"], way=entry["way"])

    def cancel(self, retry_id, number, asked, code, text):
        with self.lock:
            self.cancels[retry_id] = {"number": number, "asked": asked, "answered": now_ms(), "code": code}
            self.write("cancel", number=number, retry_id=retry_id, code=code, text=text)

    def move(self, **facts):
        with self.lock:
            self.moved.append(facts)
            self.write("move", **facts)

    def fault(self, kind, target, detail):
        entry = {"kind": kind, "target": target, "begin": now_ms(), "end": None, "detail": detail}
        with self.lock:
            self.faults.append(entry)
            self.write("fault", kind=kind, target=target, detail=detail)
        return entry

    def healed(self, entry):
        with self.lock:
            entry["end"] = now_ms()
            self.write("healed", kind=entry["kind"], target=entry["target"], began=round(entry["begin"], 1))

    def note(self, what, **facts):
        with self.lock:
            self.write(what, **facts)

    def flush(self):
        with self.lock:
            self.file.flush()

    def watch_cpu(self, stop):
        """Notes when this process itself was held up: then every time it measured is in doubt."""
        before = now_ms()
        while not stop.wait(0.05):
            at = now_ms()
            if at - before > 1000:
                with self.lock:
                    self.starved.append((before, at))
                    self.write("starved", ms=round(at - before))
            before = at
