"""100,000 messages through a spool into a sink that skips known batch ids, and drivers that die.

The seed is printed; LEVERET_SEED=... runs the same kills again.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

from driver_process import Driver
from dying_source import STEPS
from idempotent_sink import IdempotentSink
from source_queue import SourceQueue
from target_brokers import KillableRabbitMQ, RestartableLeveret
from timeouts import JOB_SECONDS_MAX

pytestmark = [pytest.mark.spark, pytest.mark.soak]

MESSAGES = 100_000
SIZE_BYTES = 200
BATCH = 2000
SCRIPT = Path(__file__).parent / "spooled_driver.py"


class Kills:
    """A query, the drivers that run it, and how many rows were new and how many came twice."""

    def __init__(self, directory: Path, environment: dict[str, str], source: SourceQueue) -> None:
        self._directory, self._environment = directory, environment
        self._options = source.options | {
            "spoolLocation": str(directory / "spool"),
            "maxRecordsPerTrigger": str(BATCH),
            "prefetch": str(BATCH),
        }
        self.sink = IdempotentSink(directory / "rows")
        self.skipped = 0

    def start(self, drains: bool = False, writes_max: int | None = None, **dies: str) -> Driver:
        kind = "amqp-dying" if dies else "amqp"
        given = {"options": self._options, "format": kind, "drains": drains}
        given |= {"writes_max": writes_max}
        return Driver(self._directory, self._environment | dies, SCRIPT, **given)

    def end(self, driver: Driver, what: str) -> None:
        """Read the driver's lines to their end, which is its own, and say what there is."""
        self.skipped += sum(not line["new"] for line in driver.lines())
        driver.process.wait(JOB_SECONDS_MAX)
        seen = self.sink.seen()
        print(f"  {what}: {len(seen)} written, {sum(seen.values()) - len(seen)} of them twice")

    def go_on(self, random: Random) -> None:
        """Run drivers that are killed: before each step, after a write, and at some moment."""
        for step in random.sample(sorted(STEPS), len(STEPS)):
            times = random.randint(1, 4)
            dies = {"LEVERET_DIES_BEFORE": step, "LEVERET_DIES_AFTER": str(times)}
            self.end(self.start(**dies), f"killed before {step}, after {times}")
        for _ in range(2):
            times = random.randint(1, 4)
            self.end(self.start(writes_max=times), f"killed before Spark commits, after {times}")
            driver = self.start()
            self.skipped += sum(not line["new"] for line in driver.batches(random.randint(2, 5)))
            threading.Event().wait(random.random() / 2)
            driver.kill()
            self.end(driver, "killed at some moment")


def test_drivers_killed_at_every_step_give_the_sink_each_message_once(
    killable: RestartableLeveret | KillableRabbitMQ,
    tmp_path: Path,
    spark_environment: dict[str, str],
) -> None:
    seed = int(os.environ.get("LEVERET_SEED") or Random().randrange(1 << 32))
    random = Random(seed)
    print(f"\n{type(killable).__name__}, LEVERET_SEED={seed}")
    source = SourceQueue(killable.port)
    source.publish(range(MESSAGES), size_bytes=SIZE_BYTES)
    source.close()
    kills = Kills(tmp_path, spark_environment, source)
    kills.go_on(random)

    driver = kills.start()
    kills.skipped += sum(not line["new"] for line in driver.batches(3))
    killable.kill()
    killable.start()
    kills.skipped += sum(not line["new"] for line in driver.batches(2))
    driver.kill()
    kills.end(driver, "broker killed, then the driver")
    last = kills.start(drains=True)
    kills.end(last, "drained")
    assert last.process.returncode == 0
    print(f"  {kills.skipped} batches were run again, had the rows they had, and were skipped")
    # Those that were written and not committed.
    assert kills.skipped >= 2

    seen: set[int] = set()
    for number, redelivered in kills.sink.rows():
        # What comes twice says so.
        assert redelivered or number not in seen
        seen.add(number)
    assert seen == set(range(MESSAGES))
    # A batch for each thing that was killed between a sync and its ack: one for certain, perhaps
    # the two at some moment, and with the broker, whose journal may have lost the acks of one more.
    twice = sum(kills.sink.seen().values()) - MESSAGES
    assert 0 < twice <= 6 * BATCH
    assert len(list((tmp_path / "spool").glob("*.arrow"))) == 1
    source.connect()
    assert source.total() == 0
    source.close()


def test_what_a_spool_costs(
    killable: RestartableLeveret | KillableRabbitMQ,
    tmp_path: Path,
    spark_environment: dict[str, str],
) -> None:
    for number in range(4):
        directory = tmp_path / str(number)
        directory.mkdir()
        source = SourceQueue(killable.port, f"source.{number}")
        source.publish(range(MESSAGES), size_bytes=SIZE_BYTES)
        options = source.options | {"pollTimeoutMs": "1000"}
        options |= {"spoolLocation": str(directory / "spool")} if number % 2 else {}
        driver = Driver(directory, spark_environment, options=options, drains=True)
        times = [line["at_s"] for line in driver.lines() if "at_s" in line]
        assert driver.process.wait(JOB_SECONDS_MAX) == 0
        # The first batch pays for what Spark starts; the rate is of the nine behind it.
        rate = MESSAGES * 0.9 / (times[-1] - times[0])
        print(
            f"\n{type(killable).__name__}, {'with' if number % 2 else 'without'}: {rate:.0f} rows/s"
        )
        assert source.total() == 0
        source.close()
