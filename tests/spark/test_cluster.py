"""Sink and source on a real cluster, which loses machines in the middle of the work."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clusters import LocalCluster, StandaloneCluster, is_over
from target_brokers import RestartableLeveret
from timeouts import JOB_SECONDS_MAX

pytestmark = pytest.mark.spark
JOB = Path(__file__).parent / "cluster_job.py"
QUEUE = "rows"


@pytest.fixture
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, spark_environment: dict[str, str]
) -> Iterator[LocalCluster | StandaloneCluster]:
    pytest.importorskip("pyspark")
    (tmp_path / "cluster").mkdir()
    with request.param(tmp_path / "cluster", spark_environment) as running:
        yield running


@pytest.mark.parametrize(
    ("cluster", "rows"),
    [
        (LocalCluster, 4_000),
        pytest.param(StandaloneCluster, 20_000, marks=pytest.mark.soak),
        pytest.param(StandaloneCluster, 200_000, marks=pytest.mark.soak),
    ],
    indirect=["cluster"],
)
def test_all_rows_come_through_although_machines_are_lost(
    cluster: LocalCluster | StandaloneCluster, tmp_path: Path, rows: int
) -> None:
    begun = time.monotonic()
    broker = RestartableLeveret(tmp_path)
    try:
        broker.declare(QUEUE, x_dedup_window=2 * rows)
        # The job ends neither writing nor reading before a machine was lost in it.
        gates = tmp_path / "may-end-writing", tmp_path / "may-end-reading"
        arguments = broker.options["uri"], QUEUE, tmp_path, rows, *gates
        job = cluster.jobs.submit(JOB, *map(str, arguments))

        def wait(what: str, is_so: Callable[[], bool]) -> None:
            deadline = time.monotonic() + JOB_SECONDS_MAX
            while not is_so():
                assert not is_over(job, 0.02), f"over before {what}: {cluster.jobs.log()}"
                assert time.monotonic() < deadline, f"no {what}: {cluster.jobs.log()}"

        wait("rows", lambda: broker.depth(QUEUE) > rows // 10)
        cluster.lose_machine()
        killed_at = broker.depth(QUEUE)
        gates[0].touch()
        wait("end of writing", (tmp_path / "written").exists)
        wait("batch", (tmp_path / "parquet" / "_spark_metadata" / "1").exists)
        cluster.lose_machine()
        assert not (tmp_path / "checkpoint" / "commits" / "4").exists()
        gates[1].touch()
        said, _ = job.communicate(timeout=JOB_SECONDS_MAX)
        assert job.returncode == 0, cluster.jobs.log()
        assert killed_at < rows
        # Written again by other tasks, the rows of those that were killed are there once.
        counts = json.loads(said.splitlines()[-1])
        assert counts == {"rows": rows, "distinct": rows, "sum": rows * (rows - 1) // 2}
        assert broker.depth(QUEUE) == 0
    finally:
        broker.kill()
    print(f"{rows} rows, killed at {killed_at} written, {time.monotonic() - begun:.0f} s")
