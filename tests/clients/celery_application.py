"""The Celery application that a worker of the tests serves.

LEVERET_TEST_URL says where the broker is. Results travel over AMQP as well: by Celery's own
`rpc://`, or, for chords, which that refuses, by a queue per result, as Celery 4's amqp backend
had it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from celery import Celery, Task
from celery.backends.base import BaseBackend
from celery.exceptions import Ignore, Reject
from kombu import Exchange, Queue

URL = os.environ["LEVERET_TEST_URL"]


class QueuePerResultBackend(BaseBackend):  # type: ignore[misc]
    """Each result is the last message in a queue of its own, which expires when unused."""

    expires_ms = 60_000

    def _queue(self, channel: Any, task_id: str) -> Any:
        name = f"result.{task_id}"
        arguments = {"x-expires": self.expires_ms}
        queue = Queue(name, durable=True, queue_arguments=arguments, channel=channel)
        queue.declare()
        return queue

    def _store_result(
        self, task_id: str, result: Any, state: str, traceback: Any = None, **more: Any
    ) -> Any:
        request = more.get("request")
        meta = self._get_result_meta(
            result=result, state=state, traceback=traceback, request=request
        )
        meta["task_id"] = task_id
        with self.app.connection_for_write() as connection, connection.channel() as channel:
            queue = self._queue(channel, task_id)
            connection.Producer(channel).publish(
                self.encode(meta), routing_key=queue.name, exchange="", delivery_mode=2
            )
        return result

    def _get_task_meta_for(self, task_id: str) -> Any:
        with self.app.connection_for_read() as connection, connection.channel() as channel:
            queue = self._queue(channel, task_id)
            last = None
            while (message := queue.get()) is not None:
                if last is not None:
                    last.ack()
                last = message
            if last is None:
                return {"status": "PENDING", "result": None}
            meta = self.decode(last.payload)
            # It stays there for whoever asks next.
            last.requeue()
            return self.meta_from_decoded(meta)


def application(name: str, backend: str) -> Celery:
    made = Celery(name, broker=URL, backend=backend)
    made.conf.update(
        task_default_queue=name,
        task_publish_retry=False,
        broker_transport_options={"confirm_publish": True},
        broker_connection_retry_on_startup=True,
        worker_prefetch_multiplier=2,
        task_reject_on_worker_lost=True,
        result_persistent=True,
        result_extended=False,
    )
    return made


rpc = application("rpc", "rpc://")
queues = application("queues", "celery_application.QueuePerResultBackend")

REQUEUE_DELAY_SECONDS = 0.3
DEFERRED = {
    "x-requeue-delay": int(REQUEUE_DELAY_SECONDS * 1000),
    "x-delivery-limit": 2,
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "given up",
}
rpc.conf.task_queues = [
    Queue(name, Exchange("rpc"), routing_key=name, queue_arguments=arguments)
    for name, arguments in {
        "rpc": {},
        "rpc.deferred": DEFERRED,
        "rpc.timed": {"x-in-flight-timeout": 1_000},
    }.items()
]
rpc.conf.task_routes = {
    "celery_application.*_rejects": "rpc.deferred",
    "celery_application.rejects_*": "rpc.deferred",
    "celery_application.hangs_*": "rpc.timed",
}


@rpc.task
def add(a: int, b: int) -> int:
    return a + b


@rpc.task(bind=True, max_retries=3)
def fails_twice(self: Task) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return int(self.request.retries)


@rpc.task
def started_at() -> float:
    return time.time()


@rpc.task(bind=True, acks_late=True)
def dies_at_first(self: Task) -> bool:
    """Its process is killed; the message, not acked yet, comes back."""
    redelivered = bool(self.request.delivery_info["redelivered"])
    if not redelivered:
        os.kill(os.getpid(), signal.SIGKILL)
    return redelivered


@rpc.task(bind=True, acks_late=True)
def rejects_at_first(self: Task) -> float:
    """Gives its message back; when it comes again, says when."""
    if not self.request.delivery_info["redelivered"]:
        raise Reject("not now", requeue=True)
    return time.time()


@rpc.task(acks_late=True)
def always_rejects() -> None:
    raise Reject("never", requeue=True)


@rpc.task(bind=True, acks_late=True)
def hangs_at_first(self: Task, begun: str) -> str:
    """Hangs until its message, which has timed out, is run once more; has no result itself."""
    if self.request.delivery_info["redelivered"]:
        Path(begun).touch()
        return "again"
    while not Path(begun).exists():
        threading.Event().wait(0.05)
    raise Ignore


@queues.task
def square(number: int) -> int:
    return number * number


@queues.task
def total(numbers: list[int]) -> int:
    return sum(numbers)
