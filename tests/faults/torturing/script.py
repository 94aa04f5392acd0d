"""What a message's life shall be, all of it drawn from the seed: the queues, their ladders, and for each message and
attempt what the consumer does."""
import dataclasses
import random

PREFIX = "rung"
FAILED, RESULTS = PREFIX + ".failed", PREFIX + ".results"
SCHEMA = "torture"
USER, PASSWORD = "sidecars", "word"  # at the broker and at the database
EXCHANGE = "shop"  # of type topic
LEASE_S = 3.0
HEARTBEAT_S = 1.0
STORE_TIMEOUT_S = 2.0
# A classic queue dead-letters at most once: what was rejected shortly before a kill -9 of the broker may be gone.
BROKER_FORGETS_MS = 10_000


@dataclasses.dataclass(frozen=True)
class Queue:
    name: str
    ladder: str
    delays: tuple  # s, level 1 first; a jitter only makes them longer
    presumes: bool  # silence means success
    silence: float  # s
    dead_letters: bool  # rejected messages come to Rung
    quorum: bool  # with dead-lettering at least once; a classic queue's is at most once when the broker is killed
    by_topic: bool = False  # its messages come by the topic exchange, with a routing key of their own
    by_policy: bool = False  # attached by a policy that the fault "detach" clears
    max_length: int = 0  # above 0: a full queue refuses publishes and dead-letters them as well
    no_limit: bool = False  # of deliveries: a consumer that loses its node over and over must not use up RabbitMQ 4's 20

    def arguments(self):
        args = {}
        if self.dead_letters and not self.by_policy:
            args["x-dead-letter-exchange"] = FAILED
        if self.max_length:
            args["x-max-length"] = self.max_length
            args["x-overflow"] = "reject-publish-dlx"
        if self.quorum:
            args["x-queue-type"] = "quorum"
        if self.quorum and not self.by_policy:
            args["x-dead-letter-strategy"] = "at-least-once"
            args["x-overflow"] = "reject-publish"
        if self.no_limit:
            args["x-delivery-limit"] = -1
        return args


QUEUES = {q.name: q for q in [
    Queue("orders", "quick", (1, 2, 4), True, 4, True, False),
    Queue("payments", "steady", (1, 2, 4, 4), False, 3, True, True, by_topic=True),
    Queue("mails", "computed", (1, 2, 4), True, 4, False, False),
    Queue("invoices", "flat", (3, 3), False, 4, True, True),
    # Deleted and made again under way. Its consumers only ever publish their failures: a reject is worth nothing once
    # the queue is gone.
    Queue("wobbly", "short", (1, 2, 3), False, 3, False, False),
    Queue("switched", "quick", (1, 2, 4), True, 4, True, True, by_policy=True),
    # Its silence is longer than its consumer ever stands still.
    Queue("crowded", "quick", (1, 2, 4), True, 15, True, False, max_length=5),
]}
WEIGHTS = {"orders": 28, "payments": 23, "mails": 13, "invoices": 18, "wobbly": 8, "switched": 5, "crowded": 5}
LADDERS = """  quick: [1s, 2s, 4s]
  steady: [1s, 2s, 4s, 4s]
  computed: { base: 1s, factor: 2, levels: 3, jitter: 20% }
  flat: [3s, 3s]
  short: [1s, 2s, 3s]
"""


# The traffic of identity.py.
IDENTITY_QUEUES = ("twins", "chained", "moved", "aside")
PARKED = PREFIX + ".parked"


def queues_yaml():
    out = "".join(f"  {name}: {{ ladder: quick, success: {{ presumed_after: 4s }}, parked: {'publish' if name == 'moved' else 'keep'} }}\n"
                  for name in IDENTITY_QUEUES)
    for q in QUEUES.values():
        rule = "presumed_after" if q.presumes else "reported_within"
        out += f"  {q.name}: {{ ladder: {q.ladder}, success: {{ {rule}: {q.silence}s }} }}\n"
    return out


@dataclasses.dataclass(frozen=True)
class Plan:
    """A message's. `fails`: how many deliveries fail, the first one included; 99: all."""
    queue: str
    fails: int
    never: bool = False  # retry-never with its first failure
    max_attempts: int = 0
    cancel_after: float = -1.0  # s after its first failure; below 0: it isn't cancelled


def route_of(queue, number):
    """Exchange and routing key by which it is sent."""
    return (EXCHANGE, f"{queue.name}.created.{number % 7}") if queue.by_topic else ("", queue.name)


def plan_of(seed, number):
    rng = random.Random(f"{seed}/{number}")
    queue = QUEUES[rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]]
    dice = rng.random()
    if queue.name == "invoices" and dice < 0.6:
        # Anywhere within the first delay, more often at its end: the race with the claim.
        after = rng.uniform(0.0, 3.0) if rng.random() < 0.4 else rng.uniform(2.95, 3.35)
        return Plan(queue.name, rng.choice([1, 2, 99]), cancel_after=after)
    if dice < 0.25:
        return Plan(queue.name, 0)
    if queue.max_length:  # a full queue dead-letters it before a consumer could set headers
        return Plan(queue.name, 99 if dice < 0.4 else rng.randint(1, len(queue.delays)))
    if dice < 0.30:
        return Plan(queue.name, 99, never=True)
    if dice < 0.36:
        return Plan(queue.name, 99, max_attempts=rng.randint(1, len(queue.delays)))
    if dice < 0.48:
        return Plan(queue.name, 99)
    return Plan(queue.name, rng.randint(1, len(queue.delays)))


@dataclasses.dataclass(frozen=True)
class Act:
    """What the consumer does with one delivery. word: ok | failed; way: silent | report | reject | publish | result."""
    word: str
    way: str
    headers: dict  # of Rung's that go with it
    retry_after: float = 0.0  # s


def act_of(seed, number, plan, attempt):
    """The same for each repetition of a delivery, as a real consumer's would be."""
    rng = random.Random(f"{seed}/{number}/{attempt}")
    queue = QUEUES[plan.queue]
    if attempt >= plan.fails:
        if attempt == 0:
            return Act("ok", "silent", {})
        return Act("ok", "silent" if queue.presumes and rng.random() < 0.5 else "report", {})
    ways = ["publish"]
    headers = {}
    after = 0.0
    if attempt == 0 and (plan.never or plan.max_attempts):
        headers = {"retry-never": True} if plan.never else {"retry-max-attempts": plan.max_attempts}
    else:
        if queue.dead_letters:
            ways += ["reject", "reject"]
        if attempt > 0:
            ways.append("result")
            if not queue.presumes:
                ways.append("silent")  # it times out
    way = rng.choice(ways)
    if way in ("publish", "result") and rng.random() < 0.15:
        after = rng.choice([0.5, 1.0, 2.0, 60.0])  # 60: more than the ladder's highest, which caps it
        headers = {**headers, "retry-after": f"{int(after * 1000)}ms" if after < 1 else f"{int(after)}s"}
    return Act("failed", way, headers, after)


def body_of(seed, number):
    rng = random.Random(f"{seed}/{number}/body")
    size = rng.randrange(150_000, 400_000) if rng.random() < 0.005 else rng.randrange(10, 2000)
    return f"{number} ".encode() + rng.randbytes(size)


def number_of(body):
    return int(body[:body.index(b" ")])


def delay_of(queue, attempt, retry_after):
    """The least time between the failure before `attempt` and its delivery, in s."""
    if retry_after:
        return min(retry_after, max(queue.delays))
    return queue.delays[attempt - 1]
