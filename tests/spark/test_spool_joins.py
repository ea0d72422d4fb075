"""Which checkpoint and which spool belong together, and what is said when they do not."""

from __future__ import annotations

import json

import pytest
from leveret.spark.spool.spool import Spool, SpoolError, SpoolTakenError
from leveret.spark.spool.spool_mark import read_mark
from spool_disk import DIRECTORY, A, B, C, SpoolDisk, joined, mark, spooled


@pytest.mark.parametrize(
    ("start", "name", "said"),
    [
        # A new checkpoint; a new one of another queue is below.
        (7, None, "another checkpoint is to process, and this one begins at 7: give this query an"),
        (10, None, "has messages from 0 to 15 of orders in the vhost /, which another checkpoint"),
        # The checkpoint of another query.
        (10, "two", "goes on in the spool two, which is not in /spool, which has one: give the sp"),
        # An old copy of the spool, or of the checkpoint.
        (16, "one", "the checkpoint is at 16, and the spool /spool ends with 00000000000000000010"),
        (12, "one", "the checkpoint is at 12, and the spool /spool goes on with 0000000000000000"),
    ],
)
def test_a_spool_that_does_not_join_is_an_error_that_says_what_to_do_and_deletes_nothing(
    start: int, name: str | None, said: str
) -> None:
    disk = spooled()
    before = {path: bytes(file.content) for path, file in disk.names.items()}
    spool = Spool(DIRECTORY, disk)
    spool.open()
    with pytest.raises(SpoolError) as caught:
        spool.join(start, name, mark("new", start))
    assert said in str(caught.value)
    assert {path: bytes(file.content) for path, file in disk.names.items()} == before


def test_a_gap_is_an_error() -> None:
    disk = spooled()
    spool = joined(disk, 15, "one")
    spool.write(15, 16, C)
    disk.kill()
    disk.remove(f"{DIRECTORY}/{sorted(disk.ranges())[1]}")
    with pytest.raises(SpoolError, match=r"goes on with 00000000000000000015-.*, not 10: "):
        joined(disk, 0, "one")


def test_a_spool_that_was_lost_is_an_error() -> None:
    with pytest.raises(SpoolError, match="spool one, which is not in /spool, which is empty: give"):
        joined(SpoolDisk(), 10, "one")


def test_another_querys_first_range_is_not_taken_for_ones_own() -> None:
    disk = spooled()
    spool = Spool(DIRECTORY, disk)
    spool.open()
    with pytest.raises(SpoolError, match="give this query another spoolLocation"):
        spool.join(0, None, mark("new", 0, ("invoices",)))


def test_a_range_that_spark_had_not_logged_is_the_next_one() -> None:
    disk = SpoolDisk()
    joined(disk, 40).write(40, 50, A)
    disk.kill()
    spool = joined(disk, 40, None)
    assert (spool.name, spool.end_behind(40), spool.read(40, 50)) == ("one", 50, A)


def test_a_checkpoint_that_is_set_back_by_one_batch_has_it_again_and_by_more_is_refused() -> None:
    """Spark does not sync its checkpoint: a power failure may set it back."""
    disk = spooled()
    joined(disk, 15, "one").passed(15)
    disk.kill()
    spool = joined(disk, 10, "one")
    assert spool.read(10, 15) == B
    spool.close()
    with pytest.raises(SpoolError, match=r"goes on with .*, not 0: they are not of one time"):
        joined(disk, 0, "one")
    disk.kill()
    with pytest.raises(SpoolError, match=r"which another checkpoint is to process, and this one"):
        joined(disk, 0, None)


def test_a_spool_that_has_lost_its_ranges_is_an_error() -> None:
    disk = spooled()
    for name in disk.ranges():
        disk.remove(f"{DIRECTORY}/{name}")
    with pytest.raises(SpoolError, match="spool one, which is not in /spool, which is empty"):
        joined(disk, 15, "one")


def test_a_second_query_on_one_spool_is_refused_until_the_first_has_ended() -> None:
    disk = spooled()
    first = joined(disk, 0, "one")
    with pytest.raises(SpoolTakenError, match="the spool /spool is in use by another running que"):
        Spool(DIRECTORY, disk).open()
    first.close()
    first.close()
    assert joined(disk, 0, "one").read(0, 10) == A


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is damaged: it is no JSON"),
        (b"[]", "it is damaged: it does not say its format"),
        (b'{"format": 2}', "it has format 2, and this Leveret reads 1"),
        (b'{"format": 1, "id": "one"}', "it is damaged: it does not say all that it should"),
        (
            b'{"format": 1, "id": 5, "begins": 0, "queues": [], "vhost": "/"}',
            "it is damaged: it does not say all that it should",
        ),
    ],
)
def test_a_mark_that_cannot_be_read_is_an_error_that_names_it(content: bytes, said: str) -> None:
    disk = spooled()
    disk.remove(f"{DIRECTORY}/spool.json")
    handle = disk.create(f"{DIRECTORY}/spool.json")
    disk.write(handle, 0, [content])
    disk.close(handle)
    with pytest.raises(SpoolError, match=f"^/spool/spool.json: {said}; put back a copy of it"):
        joined(disk, 0, "one")
    assert len(disk.ranges()) == 2
    # Who could not open it does not keep it from others.
    assert disk.locks == set()


def test_ranges_without_their_mark_are_an_error() -> None:
    disk = spooled()
    disk.remove(f"{DIRECTORY}/spool.json")
    with pytest.raises(SpoolError, match=r"/spool has messages and no spool\.json: put that file"):
        joined(disk, 0, "one")


def test_a_mark_is_read_as_it_was_written() -> None:
    written = mark("a1", 7, ("orders", "ümläut"))
    assert read_mark(written.packed()) == written
    assert json.loads(written.packed())["begins"] == 7
