"""A persistent delay queue: tasks survive kill -9 of the sidecar and of the broker. Then the history of each task:
expected and actual time, executor, error stack, version.

Run it by: examples/cases/run restart          It kills its broker, so it needs its own servers.
"""
import os
import signal
import subprocess
import sys

from world import World, check

from rung_handlers import Handlers

QUEUE = "reports"
SIDECAR = f"""
lease: 2s
ladders: {{ default: [500ms, 1s] }}
queues: {{ {QUEUE}: {{ success: {{ reported_within: 30s }} }} }}
"""
DELAYS = {"early": "1s", "meanwhile": "5s", "fails-once": "6s", "later": "1h"}


# --- the consumer: a separate process, which waits for the broker to come back

def consume(amqp):
    handlers = Handlers()
    done = set()  # stands for a table with a unique key

    @handlers.on("report")
    def report(job):
        if job.key in done:  # the broker died with our ack, so it delivers again
            print(f"{job.message_id}: again, delivery {job.attempt}", flush=True)
            return
        if job.message_id == "fails-once" and job.level == 0:
            write_report(job.message_id)
        done.add(job.key)
        print(f"{job.message_id}: written, delivery {job.attempt}", flush=True)

    handlers.run(amqp, QUEUE)


def write_report(name):
    raise OSError(28, f"No space left on device: {name}.pdf")


# --- the case

def servers(command):
    subprocess.run([os.environ["RUNG_TEST_SERVERS"], command, os.environ["RUNG_TEST_DIR"]], check=True)


def run_case():
    with World("Restart", "real seconds") as w:
        w.sidecar("node-1", SIDECAR)
        w.worker("consumer", w.amqp)
        w.consumed(QUEUE)

        def submit(name):
            return w.rung_json("submit", "--queue", QUEUE, "--tag", "report", "--message-id", name,
                               "--delay", DELAYS[name], "--body", name)["retry_id"]

        def states():
            return {row["message_id"]: row["state"] for row in w.sql("SELECT message_id, state FROM retry_current")}

        submit("early")
        w.until(lambda: states()["early"] == "succeeded" and w.known_when(), "the first report is written")
        tasks = {name: submit(name) for name in ("later", "fails-once", "meanwhile")}
        w.tell("four reports submitted, due in " + ", ".join(DELAYS.values()))
        w.tell("the first one is written: kill -9 of the sidecar and of the broker")
        w.stop("node-1", signal.SIGKILL)
        servers("kill-broker")
        check(list(states().values()).count("scheduled") == 3, "three tasks are waiting in the database")
        w.tell("only the database is running, with three waiting tasks: " + w.rung("list").splitlines()[1][:60] + " ...")
        w.until(lambda: w.sql(OVERDUE)[0]["tasks"] == 2, "two of them are due")
        w.tell("two of them are overdue: no sidecar is running")
        servers("start-broker")
        w.tell("broker reconnected")
        w.sidecar("node-1", SIDECAR)
        w.tell("the sidecar is back, under a new lease")
        w.tell("later: " + w.rung("reschedule", tasks["later"], "--delay", "1s").strip())
        w.until(lambda: set(states().values()) == {"succeeded"} and w.known_when(), "all four are written")
        w.tell("all four are written. Their history, from retry_current and retry_history:")
        rows = w.sql(FACTS)
        w.show(rows)
        facts = {(row["report"], row["attempt"]): row for row in rows}
        check(all(row["late_ms"] >= 0 for row in rows), "no delivery was early")
        check(facts["meanwhile", 1]["late_ms"] > 1000, "the task that was due during the outage was delivered late")
        check(facts["later", 1]["expected"] > facts["fails-once", 1]["expected"], "the rescheduled task came at its new time")
        check(facts["fails-once", 1]["outcome"] == "failed" and "write_report" in facts["fails-once", 1]["error_stack"],
              "the stack of the failure is recorded")
        check(facts["fails-once", 2]["outcome"] == "succeeded", "the failed task was retried")
        check(all(row["executor"] and row["version"] > 1 for row in rows), "each attempt has an executor and a version")
        written = [line.split(":")[0] for line in w.log("consumer").splitlines() if ": written" in line]
        check(sorted(written) == sorted(DELAYS), f"each report was written once: {written}")
        if again := [line for line in w.log("consumer").splitlines() if ": again" in line]:
            w.tell(f"delivered twice, because the broker died with the ack, and recognised as a duplicate: {again[0]}")


OVERDUE = """
SELECT COUNT(*) AS tasks FROM retry_current
WHERE state = 'scheduled' AND next_due_at < UTC_TIMESTAMP(3) - INTERVAL 1 SECOND"""
FACTS = """
SELECT h.message_id AS report, h.attempt, h.due_at AS expected, h.published_at AS actual, h.late_ms, h.outcome,
       h.executor, c.version, h.error AS error_stack
FROM retry_history h JOIN retry_current c ON c.retry_id = h.retry_id
ORDER BY h.due_at"""

if __name__ == "__main__":
    if sys.argv[1:2] == ["consumer"]:
        consume(*sys.argv[2:])
    else:
        run_case()
