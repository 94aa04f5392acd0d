"""Handlers by tag, in Python. Try: rung submit --tag mail.reminder --delay 5s --body '{"to": "ann"}'

usage: jobs.py [AMQP-URL [QUEUE]]      default: amqp://guest:guest@127.0.0.1:5672/%2f jobs
"""
from rung_handlers import Handlers, Later, Never, main

handlers = Handlers()
done = set()  # stands for a table with a unique key, written in the same transaction as the work


@handlers.on("mail.reminder")
def remind(job):
    if job.key in done:
        return
    print(f"mail.reminder {job.key}: dear {job.json()['to']}", flush=True)
    done.add(job.key)


@handlers.on("partner.sync")
def sync(job):
    """Calls a partner that responds from the attempt given in the body."""
    wanted = job.json()["answers_at"]
    if job.attempt < wanted:
        call_partner(job.json())
    print(f"partner.sync {job.key}: done at attempt {job.attempt}", flush=True)


def call_partner(request):
    raise ConnectionError(f"partner.example: no answer to {request['what']}")


@handlers.on("report.build")
def build_report(job):
    what = job.json()
    if "month" not in what:
        raise Never("a report needs a month: retries cannot succeed")
    if job.attempt == 1 and what.get("busy"):
        raise Later("the warehouse is loading", "1s")
    print(f"report.build {job.key}: {what['month']}", flush=True)


if __name__ == "__main__":
    main(handlers)
