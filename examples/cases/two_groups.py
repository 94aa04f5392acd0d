"""Two Rung groups on one RabbitMQ, each with its own prefix, schema and sidecar, with examples/groups/rung.yaml.

Run it by: examples/cases/run two-groups
"""
import subprocess

import pika
from world import EXAMPLES, World, check

OWNER = {"orders": "eu", "payments": "us"}  # as examples/groups/rung.yaml has it


def run_case():
    with World("Two groups on one RabbitMQ", "the ladder of both is [300ms, 600ms] here") as w:
        schemas = {group: f"{w.schema}_{group}" for group in OWNER.values()}
        text = (EXAMPLES / "groups" / "rung.yaml").read_text()
        changes = {"amqp://guest:guest@127.0.0.1:5672/%2f": w.amqp, "[5s, 30s, 1m, 10m]": "[300ms, 600ms]",
                   "ladder: quick": "ladder: default"}
        changes |= {f"mysql://rung:secret@127.0.0.1:3306/rung_{group}": f"{w.mysql}/{name}" for group, name in schemas.items()}
        for old, new in changes.items():
            check(old in text, f"rung.yaml has {old}")
            text = text.replace(old, new)
        w.config = w.folder / "rung.yaml"
        w.config.write_text(text)
        try:
            tell(w, schemas)
        finally:
            for name in list(w.processes):
                w.stop(name)
            for name in schemas.values():
                w.sql(f"DROP DATABASE IF EXISTS `{name}`")


def refused(w, *words):
    """The stderr of a command that fails."""
    done = subprocess.run([w.program, *words, "-c", str(w.config)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    check(done.returncode == 1, f"rung {' '.join(words)}: exit {done.returncode}")
    return done.stderr.strip()


def healthy(w, group):
    return subprocess.run([w.program, "stats", "--group", group, "-c", str(w.config)], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


def tell(w, schemas):
    print(w.rung("check").split("\n\n")[1], "\n", flush=True)
    for group in schemas:
        w.start(group, w.program, "run", "-c", str(w.config), "--group", group)
    for group in schemas:
        w.until(lambda g=group: healthy(w, g), f"the sidecar of {group} is running")
    w.tell("a sidecar for each group; rung stats reports no problems")
    channel = w.channel()
    for queue, group in OWNER.items():
        channel.queue_declare(queue, durable=True, arguments={"x-dead-letter-exchange": f"rung-{group}.failed"})
        channel.basic_publish("", queue, b"", pika.BasicProperties(message_id=f"m-{queue}", delivery_mode=2))
        method = w.until(lambda q=queue: channel.basic_get(q)[0], "the message")
        channel.basic_reject(method.delivery_tag, requeue=False)
    w.tell("one message fails in orders, one in payments")
    for queue in OWNER:
        method = w.until(lambda q=queue: channel.basic_get(q)[0], f"the retry arrives in {queue}")
        channel.basic_ack(method.delivery_tag)
    found = {queue: w.sql(f"SELECT queue, message_id, attempt FROM `{schemas[group]}`.retry_current")
             for queue, group in OWNER.items()}
    check(all([row["queue"] for row in rows] == [queue] for queue, rows in found.items()), f"each in its own schema: {found}")
    w.tell("both were retried; each has its row in its own schema")
    print(w.rung("stats", "--group", "us"), flush=True)
    w.rung("submit", "--queue", "payments", "--delay", "1h", "--body", "hello")
    check(w.rung_json("stats", "--group", "us")["totals"].get("scheduled") == 1, "it went to us")
    w.tell("rung submit --queue payments went to us, which owns the queue")
    w.tell("with --group eu: " + refused(w, "submit", "--queue", "payments", "--delay", "1h", "--body", "hello", "--group", "eu"))
    w.tell("two groups, one RabbitMQ, one rung.yaml")


if __name__ == "__main__":
    run_case()
