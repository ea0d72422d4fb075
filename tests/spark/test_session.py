"""The settings of the Spark session of the command line."""

from __future__ import annotations

import os

from leveret.spark.session import SHUFFLE_TASKS_PER_CORE, describe_failure, settings_of


def test_one_machine_does_not_start_the_tasks_of_a_cluster() -> None:
    few = str(SHUFFLE_TASKS_PER_CORE * (os.cpu_count() or 1))
    assert settings_of("local[*]", "1g")["spark.sql.shuffle.partitions"] == few
    assert "spark.sql.shuffle.partitions" not in settings_of("spark://host:7077", "1g")


def test_the_memory_asked_for_is_the_driver_s() -> None:
    assert settings_of("local[2]", "3g")["spark.driver.memory"] == "3g"


def test_of_spark_s_error_text_only_the_line_with_the_cause_is_printed() -> None:
    called = "An error occurred while calling o146.collectToPython."
    assert describe_failure(f"{called}\n: java.io.EOFException: Unexpected end\n\tat x") == (
        "java.io.EOFException: Unexpected end"
    )
    assert describe_failure(f"{called}\nTrace:\n") == called
    assert describe_failure("[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03\n") == (
        "[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03"
    )
