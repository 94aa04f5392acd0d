"""One run: start, traffic, faults, heal, settle, judge."""
import itertools
import os
import threading
import time

import pymysql
from starting import BOUND_SECONDS, until

from . import identity, report, script, traffic
from .faults import Faults, heal_all
from .judge import Judge, Offence, read_database, troubles
from .ledger import Ledger
from .world import World

PROMISES = [
    ("lost", "every confirmed message ends succeeded, parked, or cancelled as asked"),
    ("early", "no delivery before its due time, by the database's clock and by the harness's"),
    ("cancelled", "no delivery after an answered cancel"),
    ("duplicates", "only the same retry-id and retry-attempt, only near a fault"),
    ("one task", "the same failure taken in twice makes one task"),
    ("attempts", "none climbs faster, or more often, than its ladder"),
    ("history", "a row for each delivery, a delivery for each row published"),
    ("end", "how a task ended is what its consumer said"),
    ("changed", "body and headers came back as they were"),
    ("sidecars", "none ended by itself; leases taken over, and shared out fairly; SIGTERM exits 0"),
    ("harness", "the faults could be made, the harness made no mistake"),
]


class Run:
    def __init__(self, options, folder, say):
        self.options, self.folder, self.say = options, folder, say
        self.world = self.faults = None
        self.stop_sending, self.stop_all = threading.Event(), threading.Event()
        self.consumers, self.producers, self.canceller = [], [], None
        self.ledger = Ledger(os.path.join(folder, "ledger.jsonl"))
        self.identity = identity.Record(self.ledger, options.seed, "rights" in options.faults)
        self.extra = []  # offences that are no message's
        self.more = []  # lines for the report

    def begin(self, plan):
        o = self.options
        self.say("servers and sidecars start")
        self.world = self.make_world()
        self.world.start_sidecars()
        self.world.declare_queues()
        self.faults = self.make_faults(plan)
        self.canceller = traffic.Canceller(self.world, self.ledger, self.stop_all)
        threading.Thread(target=self.ledger.watch_cpu, args=(self.stop_all,), daemon=True).start()
        self.consumers = [traffic.Consumer(self.world, self.ledger, o.seed, queue, self.canceller, self.stop_all)
                          for queue in script.QUEUES.values()]
        self.consumers += identity.consumers(self.world, self.identity, self.stop_all)
        numbers = itertools.count(1)
        self.producers = [traffic.Producer(self.world, self.ledger, o.seed, numbers, o.rate / 2, self.stop_sending)
                          for _ in range(2)]
        self.producers += identity.producers(self.world, self.identity, self.stop_sending)
        for thread in self.consumers + self.producers:
            thread.start()

    def make_world(self):
        return World(self.folder, self.options.rung, self.options.instances, "clock" in self.options.faults)

    def make_faults(self, plan):
        return Faults(self.world, self.ledger, plan)

    def strike(self):
        o = self.options
        self.say(f"traffic: {o.rate:g} messages/s for {o.minutes:g} min; {len(self.faults.plan)} strikes planned")
        self.faults.run(o.minutes * 60)
        self.stop_sending.set()
        self.say("faults stop; everything heals")
        self.faults.join()
        heal_all(self.world)
        for sidecar in self.world.sidecars:
            self.faults.alive(sidecar)

    def settle(self):
        """Until nothing is under way any more, or for two minutes nothing has moved."""
        began = moved = time.monotonic()
        for producer in self.producers:
            producer.join(BOUND_SECONDS)
        calm, left = 0, None
        while time.monotonic() - moved < BOUND_SECONDS:
            before, left = left, self.under_way()
            if left != before:
                moved = time.monotonic()
            calm = calm + 1 if not left else 0
            if calm == 12:  # the broker counts anew every five seconds
                self.say(f"settled after {time.monotonic() - began:.0f} s")
                return
            time.sleep(0.5)
        self.say(f"not settled, and nothing moves any more: {left}")
        with open(os.path.join(self.folder, "not-settled.txt"), "w", encoding="utf-8") as out:
            stats = self.world.ctl_run("stats")
            out.write(stats.stdout + stats.stderr + "\n")
            out.write(self.world.rabbit("list_queues", "name", "messages_ready", "messages_unacknowledged", "consumers"))
            out.write("\n" + self.world.rabbit("list_channels", "connection", "number", "messages_unacknowledged",
                                              "acks_uncommitted", "consumer_count"))

    def under_way(self):
        try:
            with self.world.db() as db, db.cursor() as cursor:
                cursor.execute("SELECT state, COUNT(*) AS n FROM retry_current "
                               "WHERE state IN ('scheduled', 'publishing') OR "
                               "state = 'awaiting' AND silence_ends_at IS NOT NULL GROUP BY state")
                left = {r["state"]: r["n"] for r in cursor.fetchall()}
        except (pymysql.Error, OSError) as error:
            return str(error)
        if not self.canceller.idle():
            left["cancels"] = "under way"
        if later := sum(len(getattr(consumer, "later", ())) for consumer in self.consumers):
            left["next messages"] = later
        if left:
            return left
        return {name: n for name, (_, n) in self.world.queues().items() if n and name != script.PARKED}

    def blame(self, promise, text):
        self.extra.append(Offence(promise, -1, text))

    def sidecars_end(self):
        """Shards shared out, then SIGTERM."""
        self.balance()
        for name, code in self.world.terminate_sidecars().items():
            if code != 0:
                self.blame("sidecars", f"{name}: exit code {code} at SIGTERM")
        with self.world.db() as db, db.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) AS n FROM rung_shards WHERE owner IS NOT NULL")
            if left := cursor.fetchone()["n"]:
                self.blame("sidecars", f"{left} shards were not given back at SIGTERM")

    def balance(self):
        try:
            until("shards are shared out fairly", lambda: self.shared_out(self.shares()), told=self.shares)
        except AssertionError as error:
            self.blame("sidecars", str(error))

    def shares(self):
        with self.world.db() as db, db.cursor() as cursor:
            cursor.execute("SELECT COALESCE(n.name, '(no owner)') AS name, COUNT(*) AS n FROM rung_shards s "
                           "LEFT JOIN rung_nodes n ON n.id = s.owner AND s.expires_at > UTC_TIMESTAMP(3) "
                           "GROUP BY n.name")
            return {r["name"]: r["n"] for r in cursor.fetchall()}

    def shared_out(self, shares):
        counts = [shares.get(s.name, 0) for s in self.world.sidecars]
        return sum(counts) == sum(shares.values()) and max(counts) - min(counts) <= 1

    def judge(self):
        self.stop_all.set()
        for consumer in self.consumers:
            consumer.join(15)
            for error in consumer.errors:
                self.blame("harness", f"{consumer.name}: {error}")
        for error in self.faults.errors:
            self.blame("harness", error)
        for name, code, at in self.faults.fatal:
            self.blame("sidecars", f"{name} ended by itself with {code}, noticed at {report.clock(at)}")
        if (differs := self.world.clock_differs()) > 1:
            self.blame("harness", f"the database's clock is {differs:.1f} ms from this machine's")
        with self.world.db() as db:
            tasks, history = read_database(db)
        judge = Judge(self.ledger, self.options.seed, tasks, history, self.world.inlet_is_quorum(),
                      troubles(self.world.sidecars)).run()
        identity.judge(self.identity, judge, tasks)
        for takeover in self.ledger.takeovers:
            if takeover["ms"] is None:
                self.blame("sidecars", f"{takeover['name']} was killed at {report.clock(takeover['at'])}, "
                                       f"and nobody took its shards over in {BOUND_SECONDS} s")
        judge.offences += self.extra
        if not judge.counts["retries"]:
            judge.offences.append(Offence("harness", -1, "not one retry was seen: nothing was tested"))
        return judge

    def close(self):
        self.stop_sending.set()
        self.stop_all.set()
        if self.faults:
            self.faults.stop.set()
        self.ledger.flush()
        if self.world:
            self.world.save_server_logs()
            self.world.close()
