"""What a consumer reports to Rung, without a client library. rung_retry.pika, .aio_pika and .celery send it."""
import datetime
import email.utils
import logging
import math
import os
import socket
import traceback
from typing import Any, Dict, Iterator, Mapping, Optional, Union

__all__ = ["GiveUp", "RetryLater", "Rung"]
log = logging.getLogger("rung_retry")

TEXT_BYTES, ERROR_BYTES = 8 * 1024, 16 * 1024  # Rung keeps 16 KiB
TRACE = ("traceparent", "tracestate")
ORIGIN = ("retry-origin-exchange", "retry-origin-routing-key")


class GiveUp(Exception):
    """Retries cannot succeed: Rung parks the message at once. `error.retry_never = True` does it for any exception."""
    retry_never = True


class RetryLater(Exception):
    """Retry after this time. `error.retry_after = ...` does it for any exception."""

    def __init__(self, text: str, after: "Union[str, float, datetime.timedelta]") -> None:
        super().__init__(text, after)  # both: pickle passes them on
        self.text, self.retry_after = text, after  # "90s", seconds, or a timedelta

    def __str__(self) -> str:
        return self.text


class Rung:
    """prefix: broker.prefix of rung.yaml. pause: seconds before a message that could not be reported is requeued."""

    def __init__(self, prefix: str = "rung", pause: float = 1.0) -> None:
        self.failed, self.results, self.pause = f"{prefix}.failed", f"{prefix}.results", pause
        self._return = f"{prefix}.return"

    def failure(self, queue: str, exchange: str, routing_key: str, headers: Optional[Mapping[str, Any]],
                why: Mapping[str, Any]) -> Dict[str, Any]:
        """The headers for rung.failed: all of the message, without an earlier failure's directives, where it came from, and
        why it failed. exchange, routing_key: of the delivery. Publish with the same routing key."""
        kept = {name: value for name, value in (headers or {}).items() if name not in ("retry-never", "retry-after")}
        # A retry comes by rung.return or directly, and says itself where its message came from.
        if exchange not in ("", self._return) or not all(name in kept for name in ORIGIN):
            kept.update(zip(ORIGIN, (exchange, routing_key)))
        return {**kept, "retry-queue": queue, **why}

    @staticmethod
    def success(headers: Optional[Mapping[str, Any]]) -> Optional[Dict[str, Any]]:
        """The headers for rung.results; None: not a delivery from Rung, nothing to report."""
        if not headers or "retry-id" not in headers:
            return None
        kept = ("retry-id", "retry-attempt", "retry-token", *TRACE)
        return {**{name: headers[name] for name in kept if name in headers},
                "retry-result": "succeeded", "retry-executor": executor()}


def reason(error: BaseException, stack: Optional[str] = None) -> Dict[str, Any]:
    """Why it failed, as headers."""
    text = cut(f"{type(error).__name__}: {error}", TEXT_BYTES)
    if stack is None:
        # Without its last entry, the text again.
        stack = "".join(traceback.format_exception(type(error), error, error.__traceback__)[:-1])
    stack = "\n".join(line[:300] for line in stack.splitlines())
    # Python prints the innermost frames last: of a long stack, keep the end.
    rest = ERROR_BYTES - len(text.encode()) - 1
    found: Dict[str, Any] = {"retry-error": f"{text}\n{cut(stack, rest, end=True)}",
                             "retry-error-type": type(error).__name__, "retry-executor": executor()}
    after = retry_after(error)
    if getattr(error, "retry_never", False) is True:
        found["retry-never"] = True
    elif after is not None:
        found["retry-after"] = after
    return found


def executor() -> str:
    """Who handled the attempt: retry_history.executor."""
    return f"{socket.gethostname()}:{os.getpid()}"


def cut(text: str, most: int, end: bool = False) -> str:
    """At most `most` bytes of UTF-8, on a character's boundary: the beginning, or the end."""
    data = text.encode("utf-8", "replace")
    return (data[max(0, len(data) - most):] if end else data[:most]).decode("utf-8", "ignore")


def retry_after(error: BaseException) -> Optional[str]:
    """The delay that the error asks for: its retry_after, or the Retry-After of an HTTP answer 429 or 503."""
    for one in causes(error):
        asked = getattr(one, "retry_after", None)
        if isinstance(asked, str):
            return asked
        if isinstance(asked, datetime.timedelta):
            asked = asked.total_seconds()
        if isinstance(asked, (int, float)) and not isinstance(asked, bool) and math.isfinite(asked):
            return f"{max(1, math.ceil(asked * 1000))}ms"
        # requests and httpx: error.response; urllib and aiohttp: the error itself. A Response of requests is false
        # if it is an error: compare with None.
        for answer in (getattr(one, "response", None), one):
            status = next((s for s in (getattr(answer, name, None) for name in ("status_code", "status", "code"))
                           if s is not None), None)
            value = header(getattr(answer, "headers", None), "Retry-After") if status in (429, 503) else None
            seconds = seconds_of(value) if value is not None else None
            if seconds is not None:
                return f"{max(1, seconds)}s"
    return None


def causes(error: Optional[BaseException]) -> Iterator[BaseException]:
    """The error, and what it was raised from."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def header(headers: Any, name: str) -> Optional[str]:
    get = getattr(headers, "get", None)
    value = (get(name) or get(name.lower())) if callable(get) else None
    return None if value is None else str(value).strip()


def seconds_of(value: str) -> Optional[int]:
    """Retry-After: seconds, or an HTTP date."""
    if value.isascii() and value.isdigit():
        return int(value)
    try:
        until = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    if until.tzinfo is None:  # "-0000"
        until = until.replace(tzinfo=datetime.timezone.utc)
    return math.ceil((until - datetime.datetime.now(datetime.timezone.utc)).total_seconds())
