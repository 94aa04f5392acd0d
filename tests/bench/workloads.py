"""The workloads of tests/bench/compare (its usage says what each is), and the table of what they measured."""
from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time

from machinery import PREFIX, ROOT, Node, Servers, cpu_of, until

TRAFFIC = f"{ROOT}/build/release/bench_traffic"
WORK = "bench-work"
WAIT = "bench-wait"
CONTENDERS = ("native-classic", "native-quorum", "native-quorum-safe", "rung", "rung>quorum")
BOUNDS = ("publish", "publish>quorum")  # of W3
RATIOS = (("rung", "native-classic"), ("rung>quorum", "native-quorum"), ("rung>quorum", "native-quorum-safe"),
          ("rung", "publish"), ("rung>quorum", "publish>quorum"))
MARGIN = 6  # seconds at least between the last publish of W3 and the instant


def build() -> None:
    environment = os.environ | {"CCACHE_BASEDIR": ROOT, "CCACHE_NOHASHDIR": "1"}
    for words in (["cmake", "--preset", "release", "-DRUNG_BENCH=ON"],
                  ["cmake", "--build", "--preset", "release"]):
        subprocess.run(words, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)


class Client:
    """bench_traffic as a process; its JSON with processor seconds."""

    def __init__(self, *words) -> None:
        self.process = subprocess.Popen([TRAFFIC, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ready(self) -> "Client":
        if self.process.stderr.readline().strip() != "ready":
            raise SystemExit("a consumer did not come up: " + self.process.stderr.read())
        return self

    def result(self, seconds: float = 600) -> dict:
        try:
            out, err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise SystemExit(f"{' '.join(self.process.args)}: nothing after {seconds:g} s") from None
        if self.process.returncode != 0:
            raise SystemExit(err)
        return json.loads(out)


class Bench:
    def __init__(self, options) -> None:
        self.options = options
        self.servers = Servers()
        self.connection = self.servers.broker()
        self.channel = self.connection.channel()
        self.nodes: list[Node] = []
        self.record: subprocess.Popen | None = None

    # -- what each contender needs

    def queues(self, contender: str, wait_ttl: int | None = None, dead_letters: bool = False) -> None:
        """The target, empty; for a native one the queue that waits, with a TTL of its own or the messages'."""
        kind = "quorum" if "quorum" in contender else "classic"
        native = contender.startswith("native")
        for name in (WORK, WAIT):
            self.channel.queue_delete(name)
        arguments = {"x-queue-type": kind}
        if dead_letters:
            arguments |= ({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": WAIT} if native else
                          {"x-dead-letter-exchange": f"{PREFIX}.failed"})
        self.channel.queue_declare(WORK, durable=True, arguments=arguments)
        if native:
            arguments = {"x-queue-type": kind, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": WORK}
            if "safe" in contender:  # without it a dead letter is published with no confirm, and may be lost
                arguments |= {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
            if wait_ttl is not None:
                arguments["x-message-ttl"] = wait_ttl
            self.channel.queue_declare(WAIT, durable=True, arguments=arguments)

    def sidecars(self, count: int, ladder: str = "[5s, 30s]", fresh: bool = True, wait: bool = True,
                 settings: tuple[str, ...] = ()) -> None:
        if fresh:  # a database and queues that nobody had before, of whatever type
            self.servers.drop_database()
            for name in ("failed", "delay", "results", "parked"):
                self.channel.queue_delete(f"{PREFIX}.{name}")
        lines: dict[str, str] = {"broker": "", "store": ""}
        for setting in (*self.options.set, *settings):
            section, rest = setting.split(".", 1)
            lines[section] += rest.replace(":", ": ", 1) + ", "
        self.nodes = [Node(self.servers, number + 1, ladder=ladder) for number in range(count)]
        for node in self.nodes:
            with open(node.path, encoding="utf-8") as file:
                text = file.read()
            for section, more in lines.items():
                text = text.replace(f"{section}: {{ ", f"{section}: {{ {more}", 1)
            with open(node.path, "w", encoding="utf-8") as file:
                file.write(text)
            node.forget_log()
            node.start()
        if not wait:
            return
        for node in self.nodes:
            until("the sidecar takes in", lambda n=node: n.logged("broker connected") and n.logged("shards acquired"))
        until("each has its share", lambda: self.servers.balanced(count))

    def end_sidecars(self) -> None:
        for node in self.nodes:
            if node.process is not None and node.process.poll() is None:
                node.end()
        self.nodes = []

    # -- measuring

    def processes(self) -> dict[str, list[int]]:
        return {"sidecar": [node.process.pid for node in self.nodes], "broker": [self.servers.broker_process()],
                "database": [self.servers.database_process()]}

    def begin(self) -> dict[str, float]:
        if self.options.perf and self.nodes:
            which, path = self.options.perf.split(":", 1)
            self.record = subprocess.Popen(["perf", "record", "-g", "-F", "499", "-o", path, "-p",
                                            ",".join(map(str, self.processes()[which]))],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return {name: sum(map(cpu_of, pids)) for name, pids in self.processes().items()}

    def used(self, before: dict[str, float], messages: int, client: float) -> dict[str, float]:
        """us of the processor a message, by process."""
        if self.record is not None:
            self.record.terminate()
            self.record.wait()
            self.record = None
        now = {name: sum(map(cpu_of, pids)) for name, pids in self.processes().items()}
        used = {name: (now[name] - before[name]) / messages * 1e6 for name in now}
        return {"client": client / messages * 1e6} | used

    def publish(self, contender: str, count: int, *more, native_as: str = "nothing", rung_as: str = "x-delay") -> Client:
        """Delayed messages, in the contender's way."""
        way = (["--key", WAIT, "--as", native_as] if contender.startswith("native") else
               ["--exchange", f"{PREFIX}.delay", "--key", WORK, "--as", rung_as])
        return Client("publish", "--url", self.servers.amqp, "--count", count, *way, *more)

    def consume(self, count: int, deliveries: int = 1) -> Client:
        return Client("consume", "--url", self.servers.amqp, "--queue", WORK, "--count", count, "--deliveries",
                      deliveries).ready()

    def tasks(self, where: str) -> int:
        return self.servers.rows(f"SELECT COUNT(*) FROM rung_bench.rung_tasks WHERE {where}")[0][0]

    def settled(self) -> None:
        """All that was published is confirmed in its row."""
        open_ones = ("SELECT 1 FROM rung_bench.rung_tasks WHERE state = 'publishing' LIMIT 1",
                     "SELECT 1 FROM rung_bench.rung_tasks WHERE state = 'scheduled' LIMIT 1")
        until("the rows say so", lambda: not any(self.servers.rows(sql) for sql in open_ones), 300)

    # -- the workloads; each returns what it measured

    def intake(self, contender: str) -> dict[str, float]:
        count = self.options.messages
        settings = ("broker.queue_type:quorum",) if "quorum" in contender else ()
        self.sidecars(1, settings=settings)
        self.end_sidecars()
        self.channel.queue_delete("bench-dying")
        # A TTL of nothing: each message is dead as it arrives, with the headers of a real death.
        self.channel.queue_declare("bench-dying", durable=True, arguments={
            "x-message-ttl": 0, "x-dead-letter-exchange": f"{PREFIX}.failed"})
        Client("publish", "--url", self.servers.amqp, "--count", count, "--key", "bench-dying").result()
        until("they wait", lambda: self.channel.queue_declare(
            f"{PREFIX}.failed", passive=True).method.message_count == count)
        self.sidecars(1, ladder="[1h]", fresh=False, wait=False, settings=settings)  # none comes back meanwhile
        while not self.servers.rows("SELECT 1 FROM rung_bench.rung_tasks LIMIT 1"):
            time.sleep(0.01)
        head = self.tasks("TRUE")
        before = self.begin()
        began = time.monotonic()
        # To count rows is work for the database: only when the queue is empty.
        while self.channel.queue_declare(f"{PREFIX}.failed", passive=True).method.message_count > 0:
            time.sleep(0.02)
        while self.tasks("TRUE") < count:
            time.sleep(0.02)
        seconds = time.monotonic() - began
        used = self.used(before, count - head, 0)
        self.end_sidecars()
        left = self.channel.queue_declare(f"{PREFIX}.failed", passive=True).method.message_count
        if left > 0:
            raise SystemExit(f"{left} dead letters were not acked")
        return {"per_second": (count - head) / seconds} | used

    def lateness(self, contender: str, rate: int = 1000) -> dict[str, float]:
        count = int(30 * rate * self.options.scale)
        self.queues(contender, wait_ttl=5000)
        consumer = self.consume(count)
        before = self.begin()
        publisher = self.publish(contender, count, "--rate", rate, "--delay", 5000)
        sent = publisher.result()
        got = consumer.result()
        return {f"{name}_ms": got[f"{name}_ms"] for name in ("min", "p50", "p99", "p999", "max")} | {
            "twice": got["twice"]} | self.used(before, count, sent["cpu"] + got["cpu"])

    def burst(self, contender: str) -> dict[str, float]:
        count = self.options.messages
        self.queues(contender)
        if contender in BOUNDS:
            return self.publishing(count)
        # The instant: after all is published and taken in, at the pace of the slowest seen, and some quiet.
        due = time.time() + MARGIN + count / 5000
        sent = self.publish(contender, count, "--due", int(due * 1000), native_as="expiration", rung_as="not-before").result()
        native = contender.startswith("native")
        if not native:
            until("all are taken in", lambda: self.tasks("state = 'scheduled'") == count, 300)
        if time.time() > due - 3:
            raise SystemExit("this machine is too slow: the instant has come before all was taken in")
        consumer = self.consume(count)
        time.sleep(max(0.0, due - 1 - time.time()))
        before = self.begin()
        got = consumer.result()
        drained = got["last_us"] / 1e6 - due
        if not native:
            self.settled()
        settled = time.time() - due
        return {"drained_per_second": count / drained, "settled_per_second": count / settled, "twice": got["twice"],
                "published_per_second": count / sent["seconds"]} | self.used(before, count, got["cpu"])

    def publishing(self, count: int) -> dict[str, float]:
        """Publishes directly to the target while a consumer receives: the upper bound for any tool that republishes messages."""
        consumer = self.consume(count)
        before = self.begin()
        began = time.time()
        sent = Client("publish", "--url", self.servers.amqp, "--count", count, "--key", WORK).result()
        got = consumer.result()
        return {"drained_per_second": count / (got["last_us"] / 1e6 - began), "twice": got["twice"]} | self.used(
            before, count, sent["cpu"] + got["cpu"])

    def cycle(self, contender: str) -> dict[str, float]:
        count, cycles = int(5000 * self.options.scale), 10
        self.queues(contender, wait_ttl=1000, dead_letters=True)
        Client("publish", "--url", self.servers.amqp, "--count", count, "--key", WORK).result()
        before = self.begin()
        got = self.consume(count, deliveries=cycles + 1).result()
        seconds = (got["last_us"] - got["first_us"]) / 1e6
        return {"cycles_per_second": count * cycles / seconds, "twice": got["twice"]} | self.used(
            before, count * cycles, got["cpu"])

    def run(self, name: str, work, contenders: tuple[str, ...], sidecars: int = 1, ladder: str = "[5s, 30s]") -> "Table":
        table = Table(name)
        for turn in range(self.options.runs):
            for contender in contenders:
                if contender.startswith("rung") and work != self.intake:
                    self.sidecars(sidecars, ladder)
                table.add(contender, work(contender))
                self.end_sidecars()
                print(f"# {name} run {turn + 1} {contender}: {table.last(contender)}", file=sys.stderr, flush=True)
        table.show()
        return table


class Table:
    """What the runs measured, by contender."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.measured: dict[str, list[dict[str, float]]] = {}

    def add(self, contender: str, figures: dict[str, float]) -> None:
        self.measured.setdefault(contender, []).append(figures)

    def last(self, contender: str) -> str:
        return ", ".join(f"{name} {value:.4g}" for name, value in self.measured[contender][-1].items())

    def median(self, contender: str, figure: str) -> float:
        """0: it has no such figure."""
        return statistics.median([run[figure] for run in self.measured[contender] if figure in run] or [0])

    def show(self) -> None:
        runs = len(next(iter(self.measured.values())))
        print(f"\n### {self.name} ({runs} runs: median, least to most)\n")
        figures = list(dict.fromkeys(name for runs in self.measured.values() for run in runs for name in run))
        ratios = [(of, to) for of, to in RATIOS if of in self.measured and to in self.measured]
        print("| | " + " | ".join([*self.measured, *(f"{of} : {to}" for of, to in ratios)]) + " |")
        print("|---|" + "---|" * (len(self.measured) + len(ratios)))
        for figure in figures:
            cells = []
            for contender, measured in self.measured.items():
                values = [run[figure] for run in measured if figure in run]
                spread = f" ({min(values):,.4g} to {max(values):,.4g})" if len(values) > 1 and max(values) > 0 else ""
                cells.append(f"{statistics.median(values):,.4g}{spread}" if values else "")
            for of, to in ratios:
                base = self.median(to, figure)
                cells.append(f"{self.median(of, figure) / base:.2f}" if base > 0 else "")
            unit = f"us of {figure}" if figure in ("client", "sidecar", "broker", "database") else figure
            print(f"| {unit} | " + " | ".join(cells) + " |")
        sys.stdout.flush()


def machine(servers: Servers, options) -> None:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "?")
    version = servers.rows("SELECT VERSION()")[0][0]
    durable = ", ".join(f"{name} {servers.rows('SELECT @@' + name)[0][0]}" for name in (
        "innodb_flush_log_at_trx_commit", "sync_binlog", "innodb_buffer_pool_size", "innodb_doublewrite"))
    rung = subprocess.run([f"{ROOT}/build/release/rung", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    broker = servers.broker()._impl.server_properties["version"]  # pylint: disable=protected-access
    print(f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC; {os.cpu_count()} cores ({model}), Linux {platform.release()}; "
          f"{rung}; RabbitMQ {broker}; {version}; {durable}; settings: {', '.join(options.set) or 'the defaults'}; "
          f"client, sidecars, broker and database beside each other", flush=True)
