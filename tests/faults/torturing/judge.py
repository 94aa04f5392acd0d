"""Holds the ledger against MySQL, through the contract's views. Changes nothing, asks no sidecar."""
import bisect
import collections
import dataclasses
import datetime
import math

from . import script
from .faults import CLOCK_STEPS, MAY_REPEAT
from .script import BROKER_FORGETS_MS

EPOCH = datetime.datetime(1970, 1, 1)
# After a fault has healed its work may still come: a lease, a dead connection, a backoff of five seconds.
AFTERMATH_MS = (script.LEASE_S + 3 * script.HEARTBEAT_S + 5) * 1000
SLACK_MS = 2  # the database's times are whole ms, cut off
# Rung's own queues are quorum queues on RabbitMQ 4. They have no leader for half a second after the broker's start, longer on
# a busy machine: what a classic queue dead-letters to them then is dropped.
BROKER_ELECTS_MS = 10_000
# What a sidecar logs when it lost a connection or a lease, whoever took it: a fault, or a machine with too much to do.
TROUBLE = ("broker unavailable", "broker reconnected", "database unavailable", "database available again", "leases lost",
           "lease renewal failed", "leases expired with unconfirmed publishes", "shards with an expired lease taken over",
           "republishing untracked claims", "no answer to publishes", "cannot publish, another instance can")
# The longest that a consumer stands still, and a broker is away.
STANDS_STILL_MS = 60_000
EVICTED = "evicted from a full queue when the broker started again"
EVICTED_AND_LOST = EVICTED + ", and lost by its dead-lettering"


def ms(when):
    return None if when is None else (when - EPOCH) / datetime.timedelta(milliseconds=1)


@dataclasses.dataclass
class Offence:
    promise: str  # a name of run.PROMISES
    number: int
    text: str


def troubles(sidecars):
    """When, from their logs. A line of a sidecar whose clock was bent may be from any of several times."""
    found = []
    for sidecar in sidecars:
        offsets = (0, *CLOCK_STEPS.values()) if sidecar.time_file else (0,)
        for line in sidecar.log().splitlines():
            when, _, said = line.partition(" ")
            level, _, said = said.partition(" ")
            if level in ("info", "warn", "error") and said.strip().startswith(TROUBLE):
                at = ms(datetime.datetime.strptime(when, "%Y-%m-%dT%H:%M:%S.%fZ"))
                found += [at - offset * 1000 for offset in offsets]
    return sorted(found)


def read_database(db):
    with db.cursor() as cursor:
        cursor.execute("SELECT * FROM retry_current")
        tasks = {str(r["retry_id"]): r for r in cursor.fetchall()}
        cursor.execute("SELECT * FROM retry_history")
        history = {(str(r["retry_id"]), r["attempt"]): r for r in cursor.fetchall()}
    return tasks, history


class Judge:
    def __init__(self, ledger, seed, tasks, history, quorum_inlet, troubles):
        self.ledger, self.seed, self.troubles = ledger, seed, troubles
        self.quorum_inlet = quorum_inlet  # whether rung.failed is a quorum queue
        self.offences = []
        self.counts = collections.Counter()
        self.notes = collections.defaultdict(list)  # what is told apart, not judged: the messages
        self.duplicate_causes = collections.Counter()
        self.late, self.late_faulty = [], []
        # The rest is the traffic of identity.py, which has a judge of its own.
        self.tasks = {i: t for i, t in tasks.items() if t["queue"] not in script.IDENTITY_QUEUES}
        self.history = {k: r for k, r in history.items() if r["queue"] not in script.IDENTITY_QUEUES}
        self.by_number = collections.defaultdict(list)
        for task in self.tasks.values():
            name = task["message_id"]
            if name.startswith("m-"):
                self.by_number[int(name[2:])].append(task)
        self.seen = collections.defaultdict(list)  # (retry_id, attempt) -> sightings
        self.words = collections.defaultdict(list)
        self.plans = {}

    def run(self):
        for number, sightings in self.ledger.seen.items():
            for sighting in sightings:
                self.seen[sighting["retry_id"], sighting["attempt"]].append({**sighting, "number": number})
        for number, words in self.ledger.words.items():
            for word in words:
                self.words[number, word["retry_id"], word["attempt"]].append(word)
        for number in set(self.ledger.sent) | set(self.by_number):
            self.plans[number] = script.plan_of(self.seed, number)
            self.message(number)
        for task in self.tasks.values():
            self.task(task)
        for (retry_id, attempt), sightings in self.seen.items():
            self.sightings(retry_id, attempt, sightings)
        self.published()
        self.cancelled()
        return self

    def note(self, what, number):
        self.counts[what] += 1
        self.notes[what].append(number)

    def blame(self, promise, number, text):
        self.offences.append(Offence(promise, number, text))

    # --- faults

    def near(self, begin, end, kinds=None, aftermath=AFTERMATH_MS):
        """The faults that were there, or had just been there, in that time; and one trouble."""
        found = [f for f in self.ledger.faults
                 if (kinds is None or f["kind"] in kinds) and f["begin"] <= end
                 and (f["end"] is None or f["end"] + aftermath >= begin)]
        at = bisect.bisect_left(self.troubles, begin - aftermath)
        if (kinds is None or "trouble" in kinds) and at < len(self.troubles) and self.troubles[at] <= end:
            found.append({"kind": "trouble", "begin": self.troubles[at], "end": self.troubles[at]})
        return found

    def broker_forgot(self, queue, words):
        """All of its failures were rejects to a classic queue whose broker was killed right then, or had just started."""
        quorum = script.QUEUES[queue].quorum
        return not quorum and bool(words) and all(self.cut_short(w) or self.without_leader(w) for w in words)

    def without_leader(self, word):
        """A reject while rung.failed has no leader."""
        return self.quorum_inlet and word["way"] == "reject" and bool(
            self.near(word["at"], word["at"], {"broker"}, BROKER_ELECTS_MS))

    def evicted(self, row):
        """A broker that starts again may find more in the queue than it holds, also what was acked just before: the oldest
        messages go, delivered or not."""
        dropped = row["outcome"] == "failed" and (row["error"] or "").startswith("dead-lettered: maxlen")
        return (dropped and bool(script.QUEUES[row["queue"]].max_length)
                and bool(self.near(ms(row["due_at"]), ms(row["outcome_at"]), {"broker"})))

    def evicted_first(self, queue, sent, tasks):
        """The same before its first delivery: Rung has it from the broker, and no consumer has seen it."""
        return (bool(script.QUEUES[queue].max_length) and bool(sent) and len(tasks) == 1
                and bool(self.near(sent["at"], ms(tasks[0]["created_at"]), {"broker"})))

    def evicted_and_lost(self, queue, since):
        """It was in the queue while the consumer stood still and the broker was killed: the same, and dead-lettered before
        rung.failed had a leader."""
        return self.quorum_inlet and bool(script.QUEUES[queue].max_length) and any(
            f["kind"] == "broker" and since <= f["begin"] <= since + STANDS_STILL_MS
            and self.near(f["begin"], f["begin"], {"full"}, 3000) for f in self.ledger.faults)

    def cut_short(self, word):
        """A reject that the broker was killed right after: what it did about it by then is its own secret."""
        return word["way"] == "reject" and any(
            f["begin"] <= word["at"] + BROKER_FORGETS_MS and word["at"] <= (f["end"] or word["at"])
            for f in self.ledger.faults if f["kind"] == "broker")

    def in_deleted_queue(self, queue, at):
        """It was in the queue from `at` on, and nobody has seen it: the queue was deleted meanwhile."""
        return queue == "wobbly" and any(f["kind"] == "delete" and f.get("deleted") and
                                         at - 1000 <= f["deleted"] <= at + 60_000 for f in self.ledger.faults)

    def dropped(self, queue, words):
        """All of its failures were rejects to a queue that was detached just then, or that had not yet passed them on
        when it was, or that had not yet read its policy when it was attached again."""
        return script.QUEUES[queue].by_policy and bool(words) and all(
            w["way"] == "reject" and self.detached_at(w["at"]) for w in words)

    def detached_at(self, at):
        return [f for f in self.ledger.faults if f["kind"] == "detach"
                and f["begin"] - BROKER_FORGETS_MS <= at <= (f["end"] or at) + BROKER_FORGETS_MS]

    def held(self, task, rows):
        """Its silence is held open, and rightly so: its queue was detached after its delivery, or shortly before. When a sidecar
        looked is not judged."""
        queue = script.QUEUES[task["queue"]]
        if task["state"] != "awaiting" or task["silence_ends_at"] is not None or not queue.by_policy or not rows:
            return False
        published = ms(rows[-1]["published_at"])
        return published is not None and bool(self.near(published, math.inf, {"detach"}))

    # --- messages: from the producer's confirm to their tasks

    def message(self, number):
        sent, tasks = self.ledger.sent.get(number), self.by_number[number]
        plan = self.plans[number]
        first = self.words[number, None, 0]
        failed = [w for w in first if w["word"] == "failed"]
        refused = bool(script.QUEUES[plan.queue].max_length) and sent and not sent["confirmed"]
        if refused and not first:
            # The full queue nacked it, and dead-lettered it as well: its task is its first failure.
            if len(tasks) > 1:
                self.blame("one task", number, f"{len(tasks)} tasks of a message that was refused once")
            return self.note("refused by a full queue, and dead-lettered", number) if tasks else None
        if sent and sent["confirmed"]:
            self.counts["confirmed"] += 1
            if not self.ledger.seen[number]:
                if self.in_deleted_queue(plan.queue, sent["at"]):
                    self.note("in the deleted queue", number)
                elif self.evicted_and_lost(plan.queue, sent["at"]):
                    self.note(EVICTED_AND_LOST, number)
                else:
                    self.blame("lost", number, "confirmed to its producer, never delivered")
                return
        if not first:
            if tasks and self.evicted_first(plan.queue, sent, tasks):
                self.note(EVICTED, number)
            elif tasks:
                self.blame("end", number, "a task of a message that no consumer saw")
            return
        if not failed:
            self.counts["succeeded at once"] += 1
            if tasks:
                self.blame("end", number, "it succeeded at its first delivery, and has a task")
            return
        said = [w for w in failed if w["confirmed"]]
        if not tasks and said:
            if self.broker_forgot(plan.queue, failed):
                self.note("lost by the broker's dead-lettering", number)
            elif self.dropped(plan.queue, failed):
                self.note("rejected while its queue was detached, dropped by the broker", number)
            else:
                self.blame("lost", number, "its first failure left no task")
        if len(failed) < len(tasks) <= len(failed) + sum(self.cut_short(w) for w in failed):
            self.note("more than one task, dead-lettered twice by the broker", number)
        elif len(tasks) > len(failed):
            self.blame("one task", number, f"{len(tasks)} tasks, though it failed {len(failed)} times without retry-id")
        elif len(tasks) > 1:
            self.note("more than one task, first failure repeated", number)

    # --- tasks: their end against what the consumer said

    def task(self, task):
        retry_id, state = str(task["retry_id"]), task["state"]
        self.counts["tasks"] += 1
        self.counts["tasks " + state] += 1
        self.counts["retries"] += task["attempt"]
        if not task["message_id"].startswith("m-"):
            self.blame("end", -1, f"a task of nobody's message: {retry_id}, message-id {task['message_id']!r}")
            return
        number = int(task["message_id"][2:])
        rows = [self.history.get((retry_id, a)) for a in range(1, task["attempt"] + 1)]
        if not all(rows):
            self.blame("history", number, f"{task['attempt']} attempts, rows for "
                                          f"{[r['attempt'] for r in rows if r]}")
        if (retry_id, task["attempt"] + 1) in self.history:
            self.blame("history", number, f"a row of attempt {task['attempt'] + 1}, which never was")
        rows = [r for r in rows if r]
        queue = script.QUEUES[self.plans[number].queue]
        if task["attempt"] > len(queue.delays):
            self.blame("attempts", number, f"{task['attempt']} attempts on a ladder of {len(queue.delays)}")
        words = {a: self.words[number, retry_id, a] for a in range(1, task["attempt"] + 1)}
        self.row_outcomes(number, queue, rows, words)
        self.end(number, task, queue, rows, words)

    def row_outcomes(self, number, queue, rows, words):
        for row in rows:
            said = words[row["attempt"]]
            outcome, a = row["outcome"], row["attempt"]
            if outcome == "failed" and not any(w["word"] == "failed" and w["way"] != "silent" for w in said):
                if self.evicted(row):
                    self.note(EVICTED, number)
                else:
                    self.blame("end", number, f"attempt {a} failed, though nobody said so")
            if outcome == "timed_out" and queue.presumes:
                self.blame("end", number, f"attempt {a} timed out, though silence is success there")
            if outcome == "returned" and queue.name != "wobbly":
                self.blame("end", number, f"attempt {a} was returned, though its queue was never away")

    def end(self, number, task, queue, rows, words):
        retry_id, state = str(task["retry_id"]), task["state"]
        cancel = self.ledger.cancels.get(retry_id)
        if cancel and cancel["code"] == 0 and state != "cancelled":
            self.blame("cancelled", number, f"its cancel was answered, and it is {state}")
        if state == "cancelled":
            if not cancel or cancel["code"] == 1:
                self.blame("end", number, "cancelled, though nobody did")
            return
        reported = [w for said in words.values() for w in said if w["word"] == "ok" and w["way"] == "report"]
        if any(w["confirmed"] for w in reported) and (state != "succeeded" or task["finished_by"] != "reported"):
            self.blame("lost", number, f"the consumer's word of success: the task is {state}, {task['finished_by']}")
            return
        if self.held(task, rows):
            self.note("silence held open: the queue was detached", number)
        elif state == "succeeded":
            self.succeeded(number, task, queue, words, reported)
        elif state == "parked":
            self.parked(number, task, queue, rows)
        else:
            self.blame("lost", number, f"it never came to an end: {state}, attempt {task['attempt']}")

    def succeeded(self, number, task, queue, words, reported):
        if task["finished_by"] == "reported":
            if not reported:
                self.blame("end", number, "succeeded, reported, though nobody did")
            return
        if not queue.presumes:
            self.blame("end", number, "succeeded by silence, though silence is failure there")
        last = words.get(task["attempt"], [])
        row = self.history.get((str(task["retry_id"]), task["attempt"]))
        published = row and ms(row["published_at"])
        if not last and published and self.evicted_and_lost(queue.name, published):
            self.note(EVICTED_AND_LOST, number)
        elif not last:
            self.blame("lost", number, f"presumed to have succeeded; its attempt {task['attempt']} was never delivered")
        failed = [w for w in last if w["word"] == "failed" and w["confirmed"]]
        if failed and self.broker_forgot(queue.name, failed):
            self.note("lost by the broker's dead-lettering", number)
        elif failed and self.dropped(queue.name, failed) and self.unseen(failed):
            self.note("presumed to have succeeded: no sidecar was able to see that its queue was detached", number)
        elif failed:
            self.blame("lost", number, f"presumed to have succeeded, though attempt {task['attempt']} failed "
                                       f"({failed[0]['way']})")

    def unseen(self, words):
        """No sidecar could see that the queue was detached: the policy was back, or the database was away all the time."""
        return any(w["at"] > (f["end"] or w["at"]) or self.near(f["begin"], f["end"], {"db", "rename", "revoke"})
                   for w in words for f in self.detached_at(w["at"]))

    def parked(self, number, task, queue, rows):
        plan = self.plans[number]
        attempts, most = task["attempt"], len(queue.delays)
        if plan.never:
            most = 0
        elif plan.max_attempts:
            most = plan.max_attempts
        if attempts != most:
            self.blame("end", number, f"parked after {attempts} attempts instead of {most}: {task['last_error']}")
        bad = [r["attempt"] for r in rows if r["outcome"] not in ("failed", "timed_out", "returned")]
        if bad:
            self.blame("history", number, f"parked, and the outcome of attempts {bad} is not a failure")

    # --- deliveries

    def sightings(self, retry_id, attempt, sightings):
        number = sightings[0]["number"]
        for sighting in sightings:
            if "changed" in sighting:
                self.blame("changed", number, sighting["changed"])
        if retry_id is None:
            return
        self.counts["deliveries of retries"] += len(sightings)
        row, queue = self.history.get((retry_id, attempt)), script.QUEUES[self.plans[number].queue]
        if row is None:
            self.blame("history", number, f"attempt {attempt} was delivered, and has no row")
        first = sightings[0]
        told = (first["level"], first["levels"], first["ladder"])
        if told != (attempt, len(queue.delays), queue.ladder):
            self.blame("attempts", number, f"attempt {attempt} says level, levels, ladder {told}")
        if row is not None and row["outcome"] == "succeeded" and not first["redelivered"] \
                and self.idle_at(queue, ms(row["outcome_at"])) and ms(row["outcome_at"]) + SLACK_MS < first["at"]:
            self.blame("lost", number, f"attempt {attempt} succeeded before its consumer read it")
        self.routed(number, attempt, sightings, queue)
        self.early(number, retry_id, attempt, sightings, row, queue)
        if row is not None and row["published_at"] is None:
            self.note("delivered, the time of publishing not known", number)
            if not self.near(first["at"] - 1000, first["at"] + AFTERMATH_MS):
                self.blame("history", number, f"attempt {attempt} was delivered, its row has no published_at")
        self.repeats(number, attempt, sightings)

    def idle_at(self, queue, at):
        """It had no consumer then. What a consumer has received counts as read, also if it is slow to look at it."""
        return any(f["kind"] == "idle" and f["target"] == queue.name and f.get("left", math.inf) <= at <= (f["end"] or at)
                   for f in self.ledger.faults)

    def routed(self, number, attempt, sightings, queue):
        """A dead letter tells its routing key; a failure that its consumer published doesn't."""
        if not all(w["way"] == "reject" for w in self.words[number, None, 0]):
            return
        for sighting in sightings:
            if sighting["routing_key"] == script.route_of(queue, number)[1]:
                continue
            # Without the right to bind, it comes by the default exchange.
            if self.near(0, sighting["at"], {"rights"}):
                self.note("came without its routing key", number)
            else:
                self.blame("changed", number, f"attempt {attempt} has routing key {sighting['routing_key']!r}")

    def early(self, number, retry_id, attempt, sightings, row, queue):
        at = min(s["at"] for s in sightings)
        if row is not None:
            late = at - ms(row["due_at"])
            if late < -SLACK_MS:
                self.blame("early", number, f"attempt {attempt} came {-late:.1f} ms before due_at")
            if not sightings[0]["redelivered"]:
                faulty = self.near(ms(row["due_at"]), at, aftermath=3000)
                (self.late_faulty if faulty else self.late).append(late)
        least = self.earliest(number, retry_id, attempt, queue)
        if least is not None and at + SLACK_MS < least:
            self.blame("early", number, f"attempt {attempt} came {least - at:.1f} ms before failure and delay allow")

    def earliest(self, number, retry_id, attempt, queue):
        """By the harness's own times: when the failure before was said, plus the level's delay."""
        before = attempt - 1
        said = [w for w in self.words[number, retry_id if before else None, before] if w["word"] == "failed"]
        spoken = [w for w in said if w["way"] != "silent"]
        plain = script.delay_of(queue, attempt, 0) * 1000
        if before == 0:
            return min(w["at"] + script.delay_of(queue, attempt, w["after"]) * 1000 for w in spoken) if spoken else None
        row = self.history.get((retry_id, before))
        outcome = row["outcome"] if row else None
        if outcome == "failed" and spoken and not self.evicted(row):
            return min(w["at"] + script.delay_of(queue, attempt, w["after"]) * 1000 for w in spoken)
        least = self.earliest(number, retry_id, before, queue)
        if least is None:
            return None
        # A success that came late has taken the place of what made it climb: any of these may have been it.
        return least + {"timed_out": queue.silence * 1000 + plain, "returned": plain}.get(outcome, 0)

    def repeats(self, number, attempt, sightings):
        fresh = [s for s in sightings if not s["redelivered"]]
        self.counts["redelivered by the broker"] += len(sightings) - len(fresh)
        for earlier, again in zip(fresh, fresh[1:]):
            self.counts["duplicates"] += 1
            causes = {f["kind"] for f in self.near(earlier["at"] - 1000, again["at"], MAY_REPEAT)}
            self.notes["duplicates"].append(number)
            for kind in causes:
                self.duplicate_causes[kind] += 1
            if not causes:
                self.blame("duplicates", number, f"attempt {attempt} came again after "
                                                 f"{again['at'] - earlier['at']:.0f} ms, and no fault explains it")

    def published(self):
        """What the database says was confirmed by the broker must have come to the consumer."""
        for (retry_id, attempt), row in self.history.items():
            if row["published_at"] is None or row["outcome"] == "returned" or self.seen.get((retry_id, attempt)):
                continue
            number = int(row["message_id"][2:]) if row["message_id"].startswith("m-") else -1
            if self.in_deleted_queue(row["queue"], ms(row["published_at"])):
                self.note("in the deleted queue", number)
            elif not self.evicted(row) and not self.evicted_and_lost(row["queue"], ms(row["published_at"])):  # noted already
                self.blame("history", number,
                           f"attempt {attempt} was published and confirmed, and never delivered")

    def cancelled(self):
        for retry_id, cancel in self.ledger.cancels.items():
            self.counts["cancels " + {0: "answered", 1: "refused"}.get(cancel["code"], "in doubt")] += 1
            task = self.tasks.get(retry_id)
            if cancel["code"] != 0 or task is None:
                continue
            ended = ms(task["finished_at"]) or 0
            for (other, attempt), sightings in self.seen.items():
                # An attempt that had come before may come again (the broker's, or a duplicate): judged as such.
                if other == retry_id and sightings[0]["at"] > cancel["answered"]:
                    row = self.history.get((retry_id, attempt))
                    published = ms(row["published_at"]) if row else None
                    if published is not None and published + SLACK_MS < ended:
                        # It lay in its queue, with no word of it in time: the cancel keeps the next attempt back.
                        self.note("delivered after a cancel, published before it", cancel["number"])
                        continue
                    self.blame("cancelled", cancel["number"], f"attempt {attempt} was delivered "
                               f"{sightings[0]['at'] - cancel['answered']:.0f} ms after its cancel was answered")
