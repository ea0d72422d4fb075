"""100,000 messages through a stream into Parquet, while what can go wrong does."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

from driver_process import Driver
from pyarrow import parquet
from source_queue import SourceQueue
from target_brokers import KillableRabbitMQ, RestartableLeveret
from timeouts import JOB_SECONDS_MAX

pytestmark = [pytest.mark.spark, pytest.mark.soak]

MESSAGES = 100_000
SIZE_BYTES = 200
BATCH = 5000


def written(directory: Path) -> Counter[int]:
    files = (directory / "rows").glob("*.parquet")
    bodies = (parquet.read_table(file, columns=["body"])["body"] for file in files)
    return Counter(int(body) for column in bodies for body in column.to_pylist())


def test_raising_sinks_a_killed_driver_and_a_killed_broker_lose_nothing(
    killable: RestartableLeveret | KillableRabbitMQ,
    tmp_path: Path,
    spark_environment: dict[str, str],
) -> None:
    source = SourceQueue(killable.port)
    source.publish(range(MESSAGES), size_bytes=SIZE_BYTES)
    limits = {"maxRecordsPerTrigger": str(BATCH), "prefetch": str(BATCH)}
    options = source.options | limits
    source.close()

    first = Driver(tmp_path, spark_environment, options=options, raises=[2, 4])
    told = first.batches(9)
    failed = [line["failed"] for line in told if "failed" in line]
    assert ["the sink raises" in each for each in failed] == [True, True], failed
    first.kill()
    after_driver = written(tmp_path)

    second = Driver(tmp_path, spark_environment, options=options)
    second.batches(3)
    killable.kill()
    killable.start()
    source.connect()
    end = time.monotonic() + JOB_SECONDS_MAX
    for line in second.lines():
        assert "batch" in line, line
        if len(written(tmp_path)) == MESSAGES:
            break
        assert time.monotonic() < end
    second.kill()
    last = Driver(tmp_path, spark_environment, options=options, drains=True)
    assert last.process.wait(JOB_SECONDS_MAX) == 0

    seen = written(tmp_path)
    twice = sum(seen.values()) - MESSAGES
    print(
        f"\n{type(killable).__name__}: {MESSAGES} messages, sink raised twice, driver and broker "
        f"killed: {MESSAGES - len(seen)} lost, {twice} written twice, of them "
        f"{sum(after_driver.values()) - len(after_driver)} before the driver was killed"
    )
    assert seen.keys() == set(range(MESSAGES))
    # A batch that was written and not committed, for each thing that went wrong but the first,
    # before anything was written; the broker's journal may have lost the acks of one more.
    assert twice <= 5 * BATCH
    assert source.total() == 0
    source.close()


@pytest.mark.parametrize("batch", [5000, 10_000, 20_000])
def test_rows_a_second(
    killable: RestartableLeveret | KillableRabbitMQ,
    tmp_path: Path,
    spark_environment: dict[str, str],
    batch: int,
) -> None:
    source = SourceQueue(killable.port)
    source.publish(range(MESSAGES), size_bytes=SIZE_BYTES)
    options = source.options | {"maxRecordsPerTrigger": str(batch), "pollTimeoutMs": "1000"}
    driver = Driver(tmp_path, spark_environment, options=options, drains=True)
    lines = list(driver.lines())
    assert driver.process.wait(JOB_SECONDS_MAX) == 0
    times = [line["at_s"] for line in lines if "at_s" in line]
    # The first batch pays for what Spark starts; the rate is of those behind it.
    rate = (MESSAGES - batch) / (times[-1] - times[0])
    print(f"\n{type(killable).__name__}, batches of {batch}: {rate:.0f} rows/s")
    assert written(tmp_path) == Counter(range(MESSAGES))
    assert source.total() == 0
    source.close()
