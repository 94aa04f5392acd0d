"""usage: celery_worker.py AMQP-URL QUEUE PREFIX"""
import os
import sys

import celery

from rung_retry import Rung
from work import work

url, queue, prefix = sys.argv[1:]
app = celery.Celery("worker", broker=url.replace("amqp:", "pyamqp:"), task_cls="rung_retry.celery:Task")
app.conf.update(task_default_queue=queue, task_create_missing_queues=True, worker_prefetch_multiplier=10,
                broker_connection_retry_on_startup=True, worker_enable_remote_control=False, worker_redirect_stdouts=False)
app.conf.rung_retry = Rung(prefix, pause=0.2)
# The test declares the queue, with other arguments than Celery's.
app.conf.task_queues = [__import__("kombu").Queue(queue, no_declare=True)]


@app.task(name="work", bind=True)
def task(self, word):
    if word == "killed" and not self.request.get("retry-attempt"):
        os._exit(9)  # the pool's process dies, as by the OOM killer
    work(word, {name: self.request.get(name) for name in ("retry-attempt", "traceparent") if self.request.get(name)})


app.worker_main(["worker", "--pool=prefork", "--concurrency=1", "--without-gossip", "--without-mingle",
                 "--without-heartbeat", "--loglevel=ERROR"])
