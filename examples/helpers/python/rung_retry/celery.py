"""Celery: app = Celery(..., task_cls="rung_retry.celery:Task"). Runs in the worker's main process, with any pool.

A failed task goes to rung.failed as the message that it was. app.conf.rung_retry = Rung(...) has the settings. Celery's own
retries (autoretry_for, self.retry) come first, and are not reported.
"""
import time
import weakref
from typing import Any, Dict

import amqp
import celery
from celery import signals
from celery.exceptions import Ignore, Reject, Retry, TaskRevokedError, TimeLimitExceeded
from celery.worker.request import Request as CeleryRequest

from . import Rung, log, reason

# Not from app.pool: a new process of the worker's pool closes what it inherits of that.
_connections: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()


class Failed(Exception):
    """What the pool's process knows: a cause, an HTTP answer and some exceptions do not come through pickle."""

    def __init__(self, text: str, why: Dict[str, Any]) -> None:
        super().__init__(text, why)
        self.text, self.why = text, why

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


@signals.task_failure.connect  # type: ignore[misc]
def _keep(sender: Any = None, exception: Any = None, einfo: Any = None, **_: Any) -> None:
    """In the pool's process, before it sends einfo to the main process."""
    if isinstance(sender, Task) and einfo is not None and exception is not None:
        einfo.exception = Failed(repr(exception), reason(exception))


class Request(CeleryRequest):  # type: ignore[misc]
    """In the main process, between the end of a task and its ack. Whatever else acks is no success."""
    _rung_silent = False

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        error = exc_info.exception
        error = getattr(error, "exc", error)  # the pool wraps what it cannot pickle
        if not isinstance(error, (Ignore, Reject, Retry, MemoryError)):
            self._rung_fail(error, str(exc_info.traceback))
        self._rung_silent = True
        return super().on_failure(exc_info, send_failed_event, return_ok)

    def on_timeout(self, soft: bool, timeout: float) -> None:
        if not soft:
            self._rung_fail(TimeLimitExceeded(timeout), "")
        super().on_timeout(soft, timeout)

    def on_retry(self, exc_info: Any) -> None:
        self._rung_silent = True
        super().on_retry(exc_info)

    def _announce_revoked(self, reason: str, *args: Any) -> None:
        if "retry-id" in self.message.headers:  # Rung waits for its end; silence could mean success
            error = TaskRevokedError(reason)
            error.retry_never = True
            self._rung_fail(error, "")
        self._rung_silent = True
        super()._announce_revoked(reason, *args)

    def acknowledge(self) -> None:
        rung, queue = self._rung(), self._rung_queue()
        result = None if self._rung_silent or self.acknowledged else rung.success(self.message.headers)
        if result is not None and self.task.acks_late:
            try:
                self._rung_publish(rung.results, queue, b"", result, {})
            except Exception as refused:  # Rung has the row, and takes silence as the queue's settings say
                log.error("%s refused a success: %r", rung.results, refused)
        super().acknowledge()

    def _rung_fail(self, error: BaseException, stack: str) -> None:
        if self._rung_silent or self.acknowledged:
            return
        self._rung_silent = True
        rung, queue = self._rung(), self._rung_queue()
        why = error.why if isinstance(error, Failed) else reason(error, stack)
        exchange, key = str(self.delivery_info.get("exchange") or ""), str(self.delivery_info.get("routing_key") or "")
        try:
            self._rung_publish(rung.failed, key, self.message.body,
                               rung.failure(queue, exchange, key, self.message.headers, why), dict(self.message.properties))
        except Exception as refused:
            log.error("%s refused a failed task, it is requeued: %r", rung.failed, refused)
            time.sleep(rung.pause)
            self.reject(requeue=True)

    def _rung(self) -> Rung:
        found = self.app.conf.get("rung_retry")
        return found if isinstance(found, Rung) else Rung()

    def _rung_queue(self) -> str:
        """A delivery does not name its queue, but its consumer, which kombu knows the queue of. Else by the binding."""
        tag = self.message.delivery_info.get("consumer_tag")
        consumer = getattr(getattr(self.message.channel, "callbacks", {}).get(tag), "__self__", None)
        for name, its in getattr(consumer, "_active_tags", {}).items():
            if its == tag:
                return str(name)
        key, exchange = self.delivery_info.get("routing_key"), self.delivery_info.get("exchange")
        queues = self.app.amqp.queues
        return next((str(name) for name, queue in queues.items()
                     if queue.routing_key == key and queue.exchange.name == exchange), str(key))

    def _rung_publish(self, exchange: str, routing_key: str, body: Any, headers: Dict[str, Any], fields: Dict[str, Any]) -> None:
        # user-id: the broker refuses one that is not our user. expiration: it would run out in rung.failed.
        fields = {name: value for name, value in fields.items() if name not in ("user_id", "expiration")}
        fields.update(application_headers=headers, delivery_mode=2)
        connection = _connections.get(self.app)
        if connection is None:  # no heartbeat: nobody would serve it
            connection = _connections[self.app] = self.app.connection_for_write().clone(heartbeat=0)
        try:
            with connection.channel() as channel:
                channel.basic_publish_confirm(amqp.Message(body, **fields), exchange=exchange, routing_key=routing_key,
                                              mandatory=True, confirm_timeout=30)
        except Exception:
            _connections.pop(self.app).release()
            raise


class Task(celery.Task):  # type: ignore[misc]
    Request = "rung_retry.celery:Request"
    acks_late = True                    # else Celery acks before the task runs
    acks_on_failure_or_timeout = True   # else Celery rejects after our report: the failure would count twice
    reject_on_worker_lost = False       # else Celery requeues for ever
