"""The option spoolLocation, as the planner checks it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

from leveret.spark.options import OptionError
from leveret.spark.schema import read_schema
from leveret.spark.source.source import batch_reader, stream_reader
from leveret.spark.source.spooled_source import SpooledReader
from leveret.spark.source.stream_source import StreamReader
from leveret.spark.spool.spool_files import DriverFiles


@pytest.mark.parametrize(
    ("directory", "said"),
    [
        ("spool", "must be an absolute path, not 'spool'"),
        ("~/spool", "must be an absolute path, not '~/spool'"),
        ("", "must be an absolute path, not ''"),
        ("s3://bucket/spool", "must be a directory of the driver's own file system, not 's3://buc"),
        ("file:/tmp/spool", "must be a directory of the driver's own file system, not 'file:/tm"),
        ("/dev/null/spool", "/dev/null/spool: Not a directory"),
        ("/dev/null", "/dev/null: Not a directory"),
        ("/sys/spool", "/sys/spool: "),
    ],
)
def test_a_directory_that_cannot_be_is_said_in_the_planner(directory: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        stream_reader({"queue": "source", "spool_location": directory}, read_schema())
    assert str(caught.value).startswith(f"the option spoolLocation: {said}")


def test_a_directory_that_cannot_be_written_to_is_said_in_the_planner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    # Tests may be run by root, to whom nothing is forbidden.
    monkeypatch.setattr(DriverFiles, "check_writable", refused)
    with pytest.raises(OptionError, match=f"spoolLocation: {tmp_path}: Permission denied"):
        stream_reader({"queue": "source", "spoolLocation": str(tmp_path)}, read_schema())


def test_a_batch_job_has_no_spool(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="spoolLocation is not for this way of reading"):
        batch_reader({"queue": "source", "spoolLocation": str(tmp_path)}, read_schema())


def test_without_the_option_the_reader_is_the_one_without_a_spool(tmp_path: Path) -> None:
    assert type(stream_reader({"queue": "source"}, read_schema())) is StreamReader
    given = {"queue": "source", "SPOOL-LOCATION": str(tmp_path)}
    assert type(stream_reader(given, read_schema())) is SpooledReader
