"""Sink and source on a real cluster, whose workers are killed in the middle of the work."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from standalone_cluster import WAIT_SECONDS_MAX, StandaloneCluster, is_over
from target_brokers import RestartableLeveret

pytestmark = pytest.mark.spark
JOB = Path(__file__).parent / "cluster_job.py"
QUEUE = "rows"


@pytest.fixture
def cluster(tmp_path: Path, spark_environment: dict[str, str]) -> Iterator[StandaloneCluster]:
    pytest.importorskip("pyspark")
    (tmp_path / "cluster").mkdir()
    with StandaloneCluster(tmp_path / "cluster", spark_environment) as running:
        yield running


@pytest.mark.parametrize("rows", [20_000, pytest.param(200_000, marks=pytest.mark.soak)])
def test_all_rows_come_through_although_workers_are_killed(
    cluster: StandaloneCluster, tmp_path: Path, rows: int
) -> None:
    begun = time.monotonic()
    broker = RestartableLeveret(tmp_path)
    try:
        broker.declare(QUEUE, x_dedup_window=2 * rows)
        first, second = cluster.add_worker(), cluster.add_worker()
        job = cluster.submit(JOB, broker.options["uri"], QUEUE, str(tmp_path), str(rows))

        def wait(what: str, is_so: Callable[[], bool]) -> None:
            deadline = time.monotonic() + WAIT_SECONDS_MAX
            while not is_so():
                assert not is_over(job, 0.02), f"over before {what}: {cluster.driver_log()}"
                assert time.monotonic() < deadline, f"no {what}: {cluster.driver_log()}"

        wait("rows", lambda: broker.depth(QUEUE) > rows // 10)
        cluster.kill(first)
        killed_at = broker.depth(QUEUE)
        cluster.add_worker()
        wait("end of writing", (tmp_path / "written").exists)
        wait("batch", (tmp_path / "parquet" / "_spark_metadata" / "1").exists)
        cluster.kill(second)
        assert not (tmp_path / "checkpoint" / "commits" / "4").exists()
        said, _ = job.communicate(timeout=WAIT_SECONDS_MAX)
        assert job.returncode == 0, cluster.driver_log()
        assert killed_at < rows
        # Written again by other tasks, the rows of those that were killed are there once.
        counts = json.loads(said.splitlines()[-1])
        assert counts == {"rows": rows, "distinct": rows, "sum": rows * (rows - 1) // 2}
        assert broker.depth(QUEUE) == 0
    finally:
        broker.kill()
    print(f"{rows} rows, killed at {killed_at} written, {time.monotonic() - begun:.0f} s")
