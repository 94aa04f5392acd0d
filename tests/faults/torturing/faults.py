"""The faults: each strikes, stays a while, heals. What strikes when is drawn from the seed before the run begins."""
import contextlib
import dataclasses
import os
import random
import signal
import threading
import time

import pymysql
from starting import BOUND_SECONDS, until

from . import script
from .ledger import now_ms
from .traffic import AWAY

AT_ONCE = 2
DB_AWAY = (pymysql.Error, OSError)
LONG = script.LEASE_S  # what is longer than this costs the leases

# kind: (what it hurts, least and most seconds it stays, whether it may repeat a delivery)
KINDS = {
    "kill": ("sidecar", 0.2, 8.0, True),
    "pause": ("sidecar", LONG + 1, LONG + 5, True),
    "broker": ("broker", 0.0, 2.0, True),
    "db": ("db", 0.0, 2.0, True),
    "rst": ("link", 0.5, 3.0, True),
    "half-open": ("link", 2.0, 6.0, True),
    "stall": ("link", LONG + 2, LONG + 6, True),
    "cut": ("link", 1.0, 4.0, True),
    "no-broker": ("link", 2 * LONG + 2, 2 * LONG + 6, True),
    "slow": ("link", 2.0, 5.0, True),
    "sql-kill": ("db", 1.5, 4.0, False),
    "alarm": ("broker", 2.0, 5.0, False),
    "delete": ("queue", 0.3, 3.0, False),
    "clock": ("clock", 2.0, 5.0, False),
    "rename": ("db", 1.0, 5.0, True),
    "revoke": ("db", 1.0, 5.0, True),
    "rights": ("broker", 1.0, 6.0, True),
    "return": ("broker", 0.5, 3.0, True),
    # Longer than the queue's silence, so that silence ends meanwhile. Of the broker's: nothing else may keep the
    # sidecars from looking.
    "detach": ("broker", 8.0, 12.0, False),
    "full": ("full", 3.0, 8.0, False),
    # Longer than the queue's silence.
    "idle": ("idle", 8.0, 12.0, False),
    "shovel": ("parked", 3.0, 6.0, False),
}
METHODS = {"return": "return_"}  # where the name is a keyword
TABLES = ["rung_tasks", "rung_bodies", "rung_attempts", "rung_shards", "rung_nodes"]
LAGS_BEFORE = {"kill", "pause", "rst", "half-open", "stall", "cut"}
MAY_REPEAT = {kind for kind, facts in KINDS.items() if facts[3]} | {"trouble"}
CLOCK_STEPS = {"+1h": 3600, "-1h": -3600, "+30": 30, "-30": -30, "+400d": 400 * 86_400, "-2": -2}  # for libfaketime, in s

@dataclasses.dataclass
class Strike:
    at: float  # s since the run's begin
    kind: str
    target: str  # sidecar's name, or broker, db, queue
    side: str  # of a link: broker or db
    stay: float
    dice: int

def make_plan(seed, minutes, kinds, instances):
    """Every kind once before any comes again; two at a time at most."""
    rng = random.Random(f"{seed}/faults")
    plan, deck, at, free_at = [], [], 3.0, [0.0, 0.0]
    while kinds:
        if not deck:
            deck = list(kinds)
            rng.shuffle(deck)
        kind = deck.pop()
        what, least, most, _ = KINDS[kind]
        stay = rng.uniform(least, most)
        if kind == "kill":  # back at once, or long enough away to be taken over
            stay = rng.choice([rng.uniform(0.05, 0.9), rng.uniform(LONG + 3, LONG + 6)])
        lane = rng.randrange(2)
        at = max(at + rng.uniform(0.3, 2.5), min(free_at) if rng.random() < 0.5 else free_at[lane])
        if at + stay > minutes * 60:
            return plan
        free_at[0 if free_at[0] <= free_at[1] else 1] = at + stay + (6.0 if kind == "broker" else 1.0)
        sidecar = f"sidecar-{rng.randrange(instances) + 1}"
        target = {"broker": "broker", "db": "db", "queue": "wobbly", "full": "crowded", "idle": "mails", "parked": "parked", "clock": f"sidecar-{instances}"}.get(what, sidecar)
        plan.append(Strike(at, kind, target, rng.choice(["broker", "db"]), stay, rng.randrange(1 << 30)))
    return plan

def described():
    """(kind, what it does) of each."""
    for kind in KINDS:
        yield kind, " ".join(getattr(Faults, METHODS.get(kind, kind.replace("-", "_"))).__doc__.split())


class Faults:
    """Runs the plan. A target bears one fault at a time: what would hit it twice waits its turn."""

    def __init__(self, world, ledger, plan):
        self.world, self.ledger, self.plan = world, ledger, plan
        self.by_name = {s.name: s for s in world.sidecars}
        self.locks = {name: threading.Lock() for name in [*self.by_name, "broker", "db", "wobbly", "crowded", "mails", "parked"]}
        self.slots = threading.Semaphore(AT_ONCE)
        self.errors, self.threads = [], []
        self.stop = threading.Event()
        self.fatal = []  # a sidecar that ended by itself

    def run(self, seconds):
        began = time.monotonic()
        for strike in self.plan:
            if self.stop.wait(max(strike.at - (time.monotonic() - began), 0)):
                break
            while not self.slots.acquire(timeout=0.2):
                if self.stop.is_set():
                    return
            if time.monotonic() - began > seconds:
                self.slots.release()
                break
            thread = threading.Thread(target=self.strike, args=(strike,), name=strike.kind, daemon=True)
            self.threads.append(thread)
            thread.start()
        self.stop.wait(max(began + seconds - time.monotonic(), 0))

    def join(self):
        for thread in self.threads:
            thread.join()

    def strike(self, strike):
        try:
            with self.locks[strike.target]:
                if strike.kind in LAGS_BEFORE and strike.dice % 3:
                    self.lag(strike)
                getattr(self, METHODS.get(strike.kind, strike.kind.replace("-", "_")))(strike)
        except Exception as error:  # the fault could not be made: the run says so and fails
            self.errors.append(f"{strike.kind} on {strike.target}: {error!r}")
        finally:
            self.slots.release()

    def stay(self, strike):
        self.stop.wait(strike.stay)

    @contextlib.contextmanager
    def hurt(self, kind, target, detail):
        """The ledger's entry of a fault that is healed when the block has ended, however it ends."""
        entry = self.ledger.fault(kind, target, detail)
        try:
            yield entry
        finally:
            self.ledger.healed(entry)

    def lag(self, strike):
        """Some answers are on their way when the fault strikes: outcomes that nobody will ever know."""
        rng = random.Random(strike.dice)
        self.world.proxies.do((strike.target, strike.side), "lag", rng.uniform(0.05, 0.5))
        self.stop.wait(rng.uniform(0.5, 2.0))
        threading.Timer(0.2, self.world.proxies.do, ((strike.target, strike.side), "lag", 0.0)).start()

    # --- sidecars

    def alive(self, sidecar):
        """A sidecar that ended by itself is a finding; it is started again all the same."""
        code = sidecar.process.poll()
        if code is None:
            return
        self.fatal.append((sidecar.name, code, now_ms()))
        self.ledger.note("sidecar ended by itself", name=sidecar.name, code=code)
        sidecar.start()

    def kill(self, strike):
        """kill -9 of a sidecar, several times while it starts, or down for longer than lease + 3 s."""
        sidecar = self.by_name[strike.target]
        self.alive(sidecar)
        with self.hurt("kill", strike.target, f"down for {strike.stay:.1f} s") as entry:
            if strike.stay < 1:  # killed again while it starts
                for pause in (strike.stay / 3, strike.stay):
                    sidecar.kill()
                    self.stop.wait(pause)
                    sidecar.start()
                    self.stop.wait(pause * 2)
            held = 0
            with contextlib.suppress(*DB_AWAY):
                held = self.shards_of(sidecar.name) if strike.stay > LONG + 2 and len(self.by_name) > 1 else 0
            sidecar.kill()
            if held:
                self.watch_takeover(sidecar.name, entry, now_ms())
            self.stop.wait(max(strike.stay - (now_ms() - entry["begin"]) / 1000, 0))
            sidecar.start()

    def shards_of(self, name):
        """rung_shards is not the contract's; there is no view for it."""
        with self.world.db() as db, db.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) AS n FROM rung_shards s JOIN rung_nodes n ON n.id = s.owner "
                           "WHERE n.name = %s", (name,))
            return cursor.fetchone()["n"]

    def watch_takeover(self, name, entry, killed):
        """How long until the dead one holds no shard any more."""
        took = None
        with contextlib.suppress(AssertionError):
            until("its shards are taken over", lambda: self.stop.is_set() or self.shards_of(name) == 0, away=DB_AWAY)
            took = now_ms() - killed
        if not self.stop.is_set():
            self.ledger.takeovers.append({"name": name, "at": entry["begin"], "ms": took})
            self.ledger.note("takeover", name=name, ms=took)

    def pause(self, strike):
        """SIGSTOP of a sidecar for longer than the lease, then SIGCONT."""
        sidecar = self.by_name[strike.target]
        self.alive(sidecar)
        with self.hurt("pause", strike.target, f"{strike.stay:.1f} s"):
            sidecar.process.send_signal(signal.SIGSTOP)
            self.stay(strike)
            sidecar.process.send_signal(signal.SIGCONT)

    def clock(self, strike):
        """One sidecar's wall clock steps (libfaketime)."""
        sidecar = self.by_name[strike.target]
        offset = list(CLOCK_STEPS)[strike.dice % len(CLOCK_STEPS)]
        with self.hurt("clock", strike.target, f"a step of {offset}"):
            sidecar.step_clock(offset)
            self.stay(strike)
            sidecar.step_clock("+0")

    # --- servers

    def kill_server(self, strike, name):
        with self.hurt(name, name, f"kill -9, down for {strike.stay:.1f} s and its start"):
            self.world.server(f"kill-{name}")
            self.stay(strike)
            self.world.server(f"start-{name}")

    def broker(self, strike):
        """kill -9 of the broker, a pause, a restart with the same data."""
        self.kill_server(strike, "broker")

    def db(self, strike):
        """The same of the database."""
        self.kill_server(strike, "db")

    def alarm(self, strike):
        """The broker's memory alarm."""
        with self.hurt("alarm", "broker", f"{strike.stay:.1f} s"):
            try:
                self.limit_memory("absolute", "10MB")
                self.stay(strike)
            finally:
                self.limit_memory("0.6")

    def limit_memory(self, *limit):
        """Another strike may have just restarted the broker, which refuses this until it has booted."""
        self.world.rabbit("await_startup")
        self.world.rabbit("set_vm_memory_high_watermark", *limit)

    def rights(self, strike):
        """The broker takes every right from the sidecars' user; it asks again when a connection begins: all are cut."""
        with self.hurt("rights", "broker", f"none for {strike.stay:.1f} s"):
            self.world.permit_at_broker("^$")
            try:
                for sidecar in self.world.sidecars:
                    self.world.proxies.do((sidecar.name, "broker"), "cut")
                self.stay(strike)
            finally:
                self.world.permit_at_broker(".*")

    def return_(self, strike):
        """The exchange that keeps routing keys is deleted, and with it every binding."""
        with self.hurt("return", "broker", f"{script.PREFIX}.return deleted"):
            self.on_broker(lambda channel: channel.exchange_delete(script.PREFIX + ".return"))
            self.stay(strike)

    def sql_kill(self, strike):
        """KILL of sessions of the schema, those within a transaction first."""
        rng, killed = random.Random(strike.dice), {"in transaction": 0, "idle": 0}
        until = time.monotonic() + strike.stay
        with self.hurt("sql-kill", "db", f"for {strike.stay:.1f} s") as entry, self.world.db() as db, db.cursor() as cursor:
            while time.monotonic() < until and not self.stop.is_set():
                where = self.one_kill(cursor, until)
                if where:
                    killed[where] += 1
                time.sleep(rng.uniform(0.02, 0.4))
            entry["detail"] += f", killed {killed}"

    def one_kill(self, cursor, until):
        look_until = min(until, time.monotonic() + 0.3)
        while time.monotonic() < look_until:
            cursor.execute("SELECT t.trx_mysql_thread_id AS id FROM information_schema.innodb_trx t "
                           "JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id "
                           "WHERE p.db = %s AND p.id <> CONNECTION_ID() ORDER BY RAND() LIMIT 1", (script.SCHEMA,))
            row = cursor.fetchone()
            if row and self.kill_session(cursor, row["id"]):
                return "in transaction"
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s AND id <> CONNECTION_ID() "
                       "ORDER BY RAND() LIMIT 1", (script.SCHEMA,))
        row = cursor.fetchone()
        return "idle" if row and self.kill_session(cursor, row["id"]) else None

    @staticmethod
    def kill_session(cursor, session):
        try:
            cursor.execute(f"KILL {int(session)}")
            return True
        except pymysql.Error:
            return False  # it ended by itself

    def rename(self, strike):
        """A table is renamed away, and back: every statement that names it is refused."""
        table = random.Random(strike.dice).choice(TABLES)
        with self.hurt("rename", "db", f"{table} away for {strike.stay:.1f} s"):
            self.on_db(f"RENAME TABLE {table} TO away")
            try:
                self.stay(strike)
            finally:
                self.on_db(f"RENAME TABLE away TO {table}")

    def revoke(self, strike):
        """A right of the sidecars' user is revoked; it is looked at when a connection begins, so all of them are ended."""
        right = random.Random(strike.dice).choice(["INSERT", "UPDATE", "SELECT", "INSERT, UPDATE, DELETE"])
        on = f"ON {script.SCHEMA}.*"
        with self.hurt("revoke", "db", f"{right} for {strike.stay:.1f} s"):
            self.on_db(f"REVOKE {right} {on} FROM '{script.USER}'@'%'")
            self.end_sessions()
            try:
                self.stay(strike)
            finally:
                self.on_db(f"GRANT {right} {on} TO '{script.USER}'@'%'")

    def end_sessions(self):
        """The sidecars' with the database. One by one: MySQL has no KILL USER."""
        try:
            with self.world.db() as db, db.cursor() as cursor:
                cursor.execute("SELECT id AS id FROM information_schema.processlist WHERE user = %s", (script.USER,))
                sessions = [row["id"] for row in cursor.fetchall()]
        except DB_AWAY:
            return  # the server is down: so are they
        for session in sessions:
            with contextlib.suppress(*DB_AWAY):
                self.execute(f"KILL {session}")

    def execute(self, statement):
        with self.world.db() as db, db.cursor() as cursor:
            cursor.execute(statement)
            return True

    def on_db(self, statement):
        """Until it is done: a session may be killed by another fault, or a lock be held for too long."""
        until(statement, lambda: self.execute(statement), away=DB_AWAY)

    def delete(self, strike):
        """A target queue is deleted, and created again."""
        queue = script.QUEUES["wobbly"]
        with self.hurt("delete", "wobbly", f"away for {strike.stay:.1f} s") as entry:
            self.on_broker(lambda channel: channel.queue_delete(queue.name))
            entry["deleted"] = now_ms()
            self.stay(strike)
            self.on_broker(lambda channel: channel.queue_declare(queue.name, durable=True, arguments=queue.arguments()))

    def detach(self, strike):
        """The policy that attaches a queue is cleared, from outside or by `rung detach`: what its consumers reject is
        dropped by the broker."""
        outside = strike.dice % 2
        with self.hurt("detach", "switched", ("policy cleared" if outside else "rung detach --force") + f" for {strike.stay:.1f} s") as entry:
            if outside:
                self.world.clear_policy("rung-switched")
            else:
                self.world.attachment("detach", "--force", "switched")
            entry["detached"] = now_ms()
            try:
                self.stay(strike)
            finally:
                self.world.attachment("attach", "switched")
        # RabbitMQ 3 forgets a policy's effect on the queue if it is killed within seconds.
        self.stop.wait(6.0)

    def full(self, strike):
        """The consumer stands still, and its queue fills: it refuses publishes, and dead-letters them as well."""
        with self.hurt("full", "crowded", f"{strike.stay:.1f} s"):
            self.world.standing_still.set()
            self.stay(strike)
            self.world.standing_still.clear()

    def idle(self, strike):
        """A queue has no consumer: what is delivered to it is not read."""
        with self.hurt("idle", "mails", f"{strike.stay:.1f} s") as entry:
            self.world.idle.set()
            if self.world.left.wait(BOUND_SECONDS):
                entry["left"] = now_ms()
            self.stay(strike)
            self.world.idle.clear()

    def shovel(self, strike):
        """Copies of parked messages are moved by hand: to their queue, to another, to the inlet. Some after a redrive of
        their task."""
        rng, until, moved = random.Random(strike.dice), time.monotonic() + strike.stay, 0
        with self.hurt("shovel", script.PARKED, f"for {strike.stay:.1f} s") as entry:
            while time.monotonic() < until and not self.stop.is_set():
                moved += self.on_broker(lambda channel: self.move(channel, rng))
                self.stop.wait(0.1)
            entry["detail"] += f", {moved} moved"

    def move(self, channel, rng):
        channel.confirm_delivery()
        method, properties, body = channel.basic_get(script.PARKED)
        if method is None:
            return 0
        to, retry_id = rng.choice(["moved", "aside", script.FAILED]), properties.headers["retry-id"]
        redriven = rng.random() < 0.3 and self.world.ctl_run("redrive", retry_id).returncode == 0
        at = now_ms()
        channel.basic_publish("", to, body, properties, mandatory=True)
        self.ledger.move(at=at, key=body.decode(), retry_id=retry_id, to=to, redriven=redriven)  # confirmed
        channel.basic_ack(method.delivery_tag)
        return 1

    def on_broker(self, what):
        """Until it is done: the broker may be away by another fault."""
        def done():
            with self.world.connect() as connection:
                return [what(connection.channel())]
        return until("the broker is there", done, 5 * BOUND_SECONDS, away=AWAY)[0]

    # --- links: one sidecar's connections to one server

    @contextlib.contextmanager
    def link(self, strike, detail, what, value, healed, side=None):
        """While it lasts, the link's proxy does `what` with `value`."""
        side = side or strike.side
        with self.hurt(strike.kind, f"{strike.target} to {side}", detail):
            self.world.proxies.do((strike.target, side), what, value)
            yield
            self.world.proxies.do((strike.target, side), what, healed)

    def rst(self, strike):
        """RST to both sides of a sidecar's connections to the broker or to the database, repeatedly."""
        rng, until = random.Random(strike.dice), time.monotonic() + strike.stay
        with self.hurt(strike.kind, f"{strike.target} to {strike.side}", f"again and again for {strike.stay:.1f} s"):
            while not self.stop.is_set():
                self.world.proxies.do((strike.target, strike.side), "cut")
                if time.monotonic() > until:
                    break
                time.sleep(rng.choice([0.02, 0.15, 0.7]))

    def half_open(self, strike):
        """A sidecar's connections become black holes: sent data is lost without an error."""
        with self.link(strike, f"{strike.stay:.1f} s", "black_hole", True, False):
            self.stay(strike)

    def stall(self, strike):
        """The proxy reads nothing for longer than every timeout; then all data arrives."""
        with self.link(strike, f"{strike.stay:.1f} s", "stall", True, False):
            self.stay(strike)

    def slow(self, strike):
        """Answers are 20 to 300 ms late."""
        lag = random.Random(strike.dice).uniform(0.02, 0.3)
        with self.link(strike, f"answers {lag * 1000:.0f} ms late for {strike.stay:.1f} s", "lag", lag, 0.0):
            self.stay(strike)

    def no_broker(self, strike):
        """One sidecar alone loses the broker for longer than its lease: it gives its shards to the others."""
        until = time.monotonic() + strike.stay
        with self.link(strike, f"{strike.stay:.1f} s", "cut_after", 0, None, "broker"):
            while not self.stop.is_set() and time.monotonic() < until:
                self.world.proxies.do((strike.target, "broker"), "cut")
                self.stop.wait(0.2)

    def cut(self, strike):
        """Each connection gets a RST after some bytes."""
        size = random.Random(strike.dice).choice([0, 7, 100, 700, 2500, 9000])
        with self.link(strike, f"each connection after {size} bytes, for {strike.stay:.1f} s", "cut_after", size, None):
            self.stay(strike)


def heal_all(world):
    """After an interrupted run, and for safety at the end of each: nothing stays hurt."""
    for key in world.proxies.ports:
        world.proxies.do(key, "stall", False)
        world.proxies.do(key, "black_hole", False)
        world.proxies.do(key, "cut_after", None)
        world.proxies.do(key, "lag", 0.0)
    for sidecar in world.sidecars:
        if sidecar.process and sidecar.process.poll() is None:
            os.kill(sidecar.process.pid, signal.SIGCONT)

