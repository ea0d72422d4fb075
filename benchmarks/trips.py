"""The files that four commands pass through, in order: `make trips`.

    python -m benchmarks.trips [publish|ack|declare|dead-letter ...]

Runs an embedded broker under a profiler (`sys.setprofile` in each of its threads), sends one
command of each kind with a client of its own, and prints which functions of which modules the
command enters, in order: a newcomer's map of the code. The summary counts the files and the changes
between files: how often a reader who follows the calls must turn to another file.

- publish: one durable, persistent publish in confirm mode with properties of its own, until its
  confirm is written;
- ack: one basic.ack of a delivery, until the journal has its settle;
- declare: one queue.declare of a new durable queue, until its declare-ok is written;
- dead letter: one basic.reject of a message of a queue with a dead-letter exchange, until the dead
  letter is on disk in its queue and the original is settled.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import leveret
import pika

ROOT = Path(leveret.__file__).resolve().parent.parent
FOLDERS = ("actors", "amqp_frames", "core", "logs", "node", "storage")
PERSISTENT = 2
WARM_UPS, ROUNDS = 2, 5
# This thread looks at the memory by the clock, whatever the broker does: no part of any trip.
MEMORY_WATCH = "leveret-memory"
# No command pauses for so long, and no timer of the broker is due as often.
QUIET_SECONDS = 0.1


class Step(NamedTuple):
    """A function of the product was entered."""

    thread: str
    file: str
    function: str


class Recorder:
    """Records the product's function calls of all threads while `is_on`."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.is_on = False
        # Of all time, recorded or not.
        self.calls = 0
        self._files: dict[CodeType, str] = {}

    def profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Note a call; for `sys.setprofile`."""
        self.calls += 1
        if not self.is_on or event != "call":
            return
        file = self._file(frame.f_code)
        if file:
            thread = threading.current_thread().name
            if thread != MEMORY_WATCH:
                self.steps.append(Step(thread, file, frame.f_code.co_name))

    def _file(self, code: CodeType) -> str:
        file = self._files.get(code)
        if file is None:
            path = Path(code.co_filename)
            is_product = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in FOLDERS
            file = str(path.relative_to(ROOT)) if is_product else ""
            self._files[code] = file
        return file

    def await_quiet(self) -> None:
        """Return when no thread of the broker has entered a function for `QUIET_SECONDS`."""
        seen = -1
        while seen != self.calls:
            seen = self.calls
            time.sleep(QUIET_SECONDS)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record while the context lasts, from nothing."""
        self.steps.clear()
        self.is_on = True
        yield
        self.is_on = False


class Trip(NamedTuple):
    """The files and calls that one command passed through."""

    steps: list[Step]

    def files(self) -> list[str]:
        """The files, in the order in which they are first entered."""
        return list(dict.fromkeys(step.file for step in self.steps))

    def changes(self) -> int:
        """How often a call leads to another file than the call before it."""
        return sum(step.file != after.file for step, after in pairwise(self.steps))


class Client:
    """A pika client of one broker, and the commands whose trips are recorded.

    Each command has a part that prepares it, which is not recorded, and a part that is.
    """

    def __init__(self, connection: pika.BlockingConnection) -> None:
        self._channel = connection.channel()
        self._channel.confirm_delivery()
        self._number = 0
        self._tag = 0
        self._channel.queue_declare("trips", durable=True)
        self._channel.queue_declare("letters", durable=True)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
        self._channel.queue_declare("rejected", durable=True, arguments=arguments)

    def commands(self) -> dict[str, tuple[Callable[[], None], Callable[[], None]]]:
        """By trip: prepare, then send."""
        return {
            "publish": (lambda: None, lambda: self._publish("trips")),
            "ack": (lambda: self._receive("trips"), lambda: self._channel.basic_ack(self._tag)),
            "declare": (lambda: None, self._declare),
            "dead-letter": (lambda: self._receive("rejected"), self._reject),
        }

    def _publish(self, queue: str) -> None:
        # Properties that no other message has, as real programs send them.
        self._number += 1
        properties = pika.BasicProperties(
            message_id=f"message-{self._number}",
            headers={"trip": self._number},
            delivery_mode=PERSISTENT,
        )
        self._channel.basic_publish("", queue, b"body", properties, mandatory=True)

    def _receive(self, queue: str) -> None:
        self._publish(queue)
        method, _, _ = self._channel.basic_get(queue)
        assert method is not None
        self._tag = method.delivery_tag

    def _declare(self) -> None:
        self._number += 1
        self._channel.queue_declare(f"declared-{self._number}", durable=True)

    def _reject(self) -> None:
        self._channel.basic_reject(self._tag, requeue=False)


def main() -> int:
    """Print the trips that the command line asks for."""
    names = ["publish", "ack", "declare", "dead-letter"]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trips", nargs="*", metavar="trip", help=", ".join(names))
    parser.add_argument("--summary", action="store_true", help="the counts only")
    options = parser.parse_args()
    wanted = options.trips or names
    for name in wanted:
        if name not in names:
            parser.error(f"there is no trip {name!r}; there are {', '.join(names)}")
    recorder = Recorder()
    threading.setprofile(recorder.profile)
    try:
        trips = _record(recorder)
    finally:
        threading.setprofile(None)
    for name in wanted:
        if not options.summary:
            print(f"\n{name}")
            for line in _route(trips[name]):
                print(f"  {line}")
    print(f"\n{'trip':12} {'files':>6} {'changes':>8}")
    for name in wanted:
        print(f"{name:12} {len(trips[name].files()):6} {trips[name].changes():8}")
    return 0


def _record(recorder: Recorder) -> dict[str, Trip]:
    """Each trip, the median by changes of several."""
    trips: dict[str, list[Trip]] = {}
    with (
        tempfile.TemporaryDirectory() as directory,
        leveret.Broker(data_dir=directory, port=0, log_level="error") as broker,
    ):
        parameters = pika.ConnectionParameters(broker.host, broker.port)
        with pika.BlockingConnection(parameters) as connection:
            for name, (prepare, send) in Client(connection).commands().items():
                for _ in range(WARM_UPS + ROUNDS):
                    prepare()
                    recorder.await_quiet()
                    with recorder.recording():
                        send()
                        recorder.await_quiet()
                    trips.setdefault(name, []).append(Trip(list(recorder.steps)))
    return {
        name: sorted(each[WARM_UPS:], key=Trip.changes)[ROUNDS // 2] for name, each in trips.items()
    }


def _route(trip: Trip) -> Iterator[str]:
    last: tuple[str, str] | None = None
    for step in trip.steps:
        if (step.thread, step.file) != last:
            last = (step.thread, step.file)
            yield f"{step.thread:10} {step.file}"
        yield f"{'':10}     {step.function}"


if __name__ == "__main__":
    sys.exit(main())
