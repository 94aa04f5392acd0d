"""What the workers do with a body, in Python: the other languages' workers do the same."""
import os
import urllib.request

from rung_retry import GiveUp, RetryLater


class CardDeclined(Exception):
    pass


def get(path):
    """Each client library once: pika's worker has requests, aio-pika's httpx, Celery's urllib."""
    url = os.environ["HTTP_URL"] + path
    library = os.environ.get("HTTP_LIBRARY", "urllib")
    if library == "requests":
        import requests
        requests.get(url, timeout=10).raise_for_status()
    elif library == "httpx":
        import httpx
        httpx.get(url).raise_for_status()
    else:
        urllib.request.urlopen(url, timeout=10)


def work(word, headers):
    attempt = headers.get("retry-attempt", 0)
    print(f"work {word} {attempt} {headers.get('traceparent')}", flush=True)
    if attempt >= (2 if word == "twice" else 1) or word == "ok":
        return
    if word == "never":
        raise GiveUp("no such customer")
    if word == "flag":
        error = CardDeclined("stolen")
        error.retry_never = True
        raise error
    if word == "later":
        raise RetryLater("in maintenance", "1500ms")
    if word == "seconds":
        get("/seconds")
    if word == "date":
        try:
            get("/date")
        except Exception as cause:
            raise CardDeclined("the partner is busy") from cause
    raise CardDeclined("ü" * 100_000 if word == "long" else "Карта отклонена – 4711")
