"""A delay service of three nodes: submit, cancel, query and finish over HTTP on any node, while nodes join and fail.

Run it by: examples/cases/run three-nodes
"""
import itertools
import json
import os
import signal
import socket
import sys
import urllib.error
import urllib.request

import pika
from world import World, check

QUEUE = "jobs"
SIDECAR = """
lease: 2s
http: {{ listen: "127.0.0.1:{port}" }}
ladders: {{ default: [1s, 2s] }}
queues: {{ jobs: {{ success: {{ reported_within: 30s }} }} }}
"""


class Service:
    """The nodes' HTTP API: calls go round-robin over the nodes and skip dead ones. Any node can serve any call."""

    def __init__(self, ports):
        self.ports, self.turn, self.last = ports, itertools.count(), None

    def call(self, method, path, body=None, at=None):
        for _ in range(len(self.ports) + 1):
            names = sorted(self.ports)
            self.last = at or names[next(self.turn) % len(names)]
            url = f"http://127.0.0.1:{self.ports[self.last]}/v1{path}"
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as refusal:
                return refusal.code, json.load(refusal)
            except OSError:
                continue  # that node is down
        raise AssertionError("no node responds")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# --- the worker: a separate process; it reports results to any node

def work(amqp, *ports):
    service = Service({str(number): port for number, port in enumerate(ports)})
    executor = f"{socket.gethostname()}:{os.getpid()}"
    channel = pika.BlockingConnection(pika.URLParameters(amqp)).channel()
    channel.queue_declare(QUEUE, durable=True, arguments={"x-dead-letter-exchange": "rung.failed"})

    def on_message(_, method, properties, body):
        headers = properties.headers
        word = {"result": "succeeded", "executor": executor}
        if json.loads(body)["job"] == 5 and headers["retry-attempt"] == 1:
            word = {"result": "failed", "error": "out of paper", "executor": executor,
                    "attempt": headers["retry-attempt"]}
        status = 503
        # 503: that node is draining or has no database; try the next one. Repeating is safe: a success ends the task once,
        # and a failure names its attempt.
        while status == 503:
            status, _ = service.call("POST", f"/tasks/{headers['retry-id']}/finish", word)
        print(f"{properties.message_id}: {word['result']}, delivery {headers['retry-attempt']}, reported ({status})",
              flush=True)
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(QUEUE, on_message)
    channel.start_consuming()


# --- the case

def shards(world):
    return {n["node"]: len(n["shards"]) for n in world.nodes() if n["state"] == "live"}


def balanced(world, names):
    """The number of shards per node; None until exactly these nodes own all shards in fair shares."""
    held = shards(world)
    fair = sorted(held) == sorted(names) and sum(held.values()) == 64 and max(held.values()) - min(held.values()) <= 1
    return held if fair else None


def run_case():
    with World("A delay-task service of three nodes", "real time; a dead node is taken over after 2 s") as w:
        ports = {name: free_port() for name in ("a", "b", "c", "d")}
        live = {name: ports[name] for name in ("a", "b", "c")}
        for name in live:
            w.sidecar(name, SIDECAR.format(port=ports[name]))
        w.tell(f"three nodes share 64 shards: {w.until(lambda: balanced(w, 'abc'), 'three nodes have their shares')}")
        w.worker("worker", w.amqp, *(str(port) for port in ports.values()))
        w.consumed(QUEUE)
        service = Service(live)

        def submit(number, delay, node=None):
            return service.call("POST", "/tasks", {"queue": QUEUE, "tag": "job", "message_id": f"job-{number}",
                                                   "delay": delay, "body": {"job": number}}, at=node)

        tasks, at = {}, {}
        for number in range(1, 13):
            status, task = submit(number, f"{2 + number // 3}s")
            check(status == 201, f"job {number}: {status} {task}")
            tasks[number], at[number] = task["retry_id"], service.last
        w.tell("12 jobs submitted, round-robin over the nodes: " + " ".join(at.values()))
        status, again = submit(1, "2s", "b")
        check((status, again["retry_id"]) == (200, tasks[1]), "submitting the same job again returns the same task")
        w.tell(f"job 1 submitted again, on {service.last} instead of {at[1]}: the same task ({status})")

        status, task = service.call("POST", f"/tasks/{tasks[3]}/cancel", {"reason": "not needed"}, at="a")
        check((status, task["state"]) == (200, "cancelled"), f"cancel: {status} {task}")
        w.tell(f"job 3 cancelled on {service.last}, submitted on {at[3]}: {task['state']}, version {task['version']}")
        status, task = service.call("POST", f"/tasks/{tasks[12]}/reschedule", {"delay": "8s"}, at="b")
        check(status == 200, f"reschedule: {status} {task}")
        w.tell(f"job 12 rescheduled on {service.last}, submitted on {at[12]}")
        answers = [service.call("GET", f"/tasks?queue={QUEUE}&state=scheduled", at=node)[1]["tasks"] for node in live]
        check(len({json.dumps([t["retry_id"] for t in rows]) for rows in answers}) == 1, "all nodes return the same tasks")
        w.tell(f"all three return the same scheduled tasks: {len(answers[0])} tasks")

        w.stop("b", signal.SIGKILL)
        w.tell("kill -9 of b, which owns a third of the shards")
        w.tell(f"taken over: {w.until(lambda: balanced(w, 'ac'), 'a and c have all shards')}")
        del live["b"]
        live["d"] = ports["d"]
        w.sidecar("d", SIDECAR.format(port=ports["d"]))
        w.tell(f"d joins and gets its share: {w.until(lambda: balanced(w, 'acd'), 'd has its share')}")

        def ended():
            states = [row["state"] for row in w.sql("SELECT state FROM retry_current")]
            return states.count("succeeded") + states.count("cancelled") == 12 and w.known_when(killed="b")

        w.until(ended, "all twelve have ended")
        rows = w.sql("SELECT message_id AS job, attempt, due_at AS expected, published_at AS actual, late_ms, outcome, "
                     "node, executor, error FROM retry_history ORDER BY due_at, message_id")
        w.tell("results reported over HTTP, in retry_history:")
        w.show(rows)
        done = {row["message_id"]: row for row in w.sql("SELECT * FROM retry_current")}
        check(done["job-3"]["state"] == "cancelled" and done["job-3"]["attempt"] == 0, "job 3 was never sent")
        check({row["finished_by"] for name, row in done.items() if name != "job-3"} == {"reported"}, "each result was reported")
        check(done["job-5"]["attempt"] == 2 and done["job-5"]["last_error"] == "out of paper", "job 5 took two tries")
        late = [row["late_ms"] for row in rows if row["late_ms"] is not None]
        check(len(late) >= 10 and min(late) >= 0, "no delivery was early")
        check(all(row["executor"] for row in rows), "each attempt has an executor")
        w.tell(f"11 jobs done, 1 cancelled; the latest delivery was {max(late)} ms late")


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        work(*sys.argv[2:])
    else:
        run_case()
