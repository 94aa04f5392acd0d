"""The Celery example with Celery's own defaults for acks."""
from example import app

app.conf.update(task_acks_late=False, task_acks_on_failure_or_timeout=True)
