"""`leveret journal ...`: reads the journal of a data directory that no broker uses."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..amqp_frames.messages.arrivals import runs_of
from ..amqp_frames.messages.publishes import decode_publishes
from ..configuration import Configuration, load, warn
from ..errors import ConfigurationError, error_words
from ..storage.errors import StorageError
from ..storage.inspection import IndexFault, Inspection, inspected
from ..storage.journal.described import Facts, facts_of, message_facts
from ..storage.journal.inventory import Inventory
from ..storage.journal.records import BodyRecord, EntriesRecord
from ..storage.journal.report import ReportLine, entries_words
from ..storage.journal.segment_reader import SegmentReader
from ..storage.journal.survey import SegmentFile
from .command_parser import EXIT_USAGE, add_file, add_group
from .progress import Progress
from .tables import printable, table

EXIT_DAMAGED = 1
# So many segments are named when the wanted one is not there.
SEGMENTS_SHOWN_MAX = 20
# Findings that say that something was on the disk and is not there any more. What a crash tore, and
# messages of queues that were deleted, are none.
DAMAGE = ("damaged", "missing", "lost")


def add_to(commands: Any) -> None:
    """Add `journal` and what it can do to the command's parser."""
    actions = add_group(
        commands,
        "journal",
        "what is in the journal of a stopped broker",
        "Reads the journal of a data directory that no broker uses, and writes nothing there: "
        "docs/JOURNAL.md.",
        "check leveret-data",
    )
    check = actions.add_parser(
        "check",
        help="does all of it verify?",
        description="Reads and verifies every record, as a start does, and prints what a start "
        "would report. Exit code 0: nothing that was on the disk is damaged or missing; 1: "
        "something is, or the directory cannot be read.",
        example="leveret journal check leveret-data",
    )
    check.set_defaults(carry_out=_check)
    dump = actions.add_parser(
        "dump",
        help="its records, in order",
        description="Prints a line for each record, in order, and for each stretch that does not "
        "verify. Messages are shown on request only; identities of dedup windows never are.",
        example="leveret journal dump leveret-data\n"
        "leveret journal dump leveret-data --segment 7 --queue orders --json",
    )
    dump.set_defaults(carry_out=_dump)
    dump.add_argument("--segment", metavar="N", type=int, help="only of this segment (default all)")
    dump.add_argument(
        "--queue",
        metavar="Q",
        help="only records that speak of this queue, by its name or id; with --bodies, the "
        "messages stand at its entries (default all)",
    )
    dump.add_argument(
        "--bodies",
        action="store_true",
        help="show the messages, too, each up to 200 octets of its body (default not)",
    )
    stats = actions.add_parser(
        "stats",
        help="what takes up its room",
        description="Prints how many live and dead entries each segment and each queue has, about "
        "how many bytes these are, and why each segment stays.",
        example="leveret journal stats leveret-data",
    )
    stats.set_defaults(carry_out=_stats)
    for action in actions.choices.values():
        action.set_defaults(run=_run)
        add_file(action)
        default = Configuration.data_dir
        action.add_argument(
            "directory",
            metavar="DIR",
            nargs="?",
            type=Path,
            help=f"the data directory (default: the setting data_dir, {default})",
        )
    for action in (dump, stats):
        action.add_argument(
            "--json", action="store_true", help="print JSON, a line each (default: for people)"
        )


def _run(parsed: argparse.Namespace) -> int:
    try:
        settings = load({"data_dir": parsed.directory}, os.environ, parsed.config, warn)
    except ConfigurationError as fault:
        return _print_error(str(fault), EXIT_USAGE)
    try:
        with inspected(settings.data_dir) as inspection:
            code: int = parsed.carry_out(parsed, inspection)
    except (StorageError, OSError) as fault:
        if isinstance(fault, BrokenPipeError):
            raise
        return _print_error(error_words(fault), EXIT_DAMAGED)
    return code


def _check(_parsed: argparse.Namespace, inspection: Inspection) -> int:
    recovery = inspection.recover()
    lines = recovery.recovered.report
    for line in lines:
        _print(_finding(line))
    proofs = inspection.contradictions(recovery)
    for proof in proofs:
        _print(f"catalog and journal do not belong together: {proof}")
    further = [*_undecoded(inspection), *_index_faults(inspection)]
    for line in further:
        _print(_finding(line))
    damages = len(proofs) + sum(line.event in DAMAGE for line in (*lines, *further))
    segments = inspection.segments()
    queues = recovery.recovered.queues.values()
    _print(
        f"{len(segments)} segments of {sum(each.size for each in segments)} bytes, "
        f"{entries_words(sum(each.entries for each in queues))} live in {len(queues)} queues: "
        + (f"{damages} findings of damage" if damages else "nothing is damaged")
    )
    return EXIT_DAMAGED if damages else 0


def _undecoded(inspection: Inspection) -> Iterator[ReportLine]:
    """Bodies that verify and hold no messages: a start finds them only when it reads them."""
    for segment in inspection.segments():
        for offset, record in inspection.open(segment).records():
            if isinstance(record, BodyRecord):
                try:
                    decode_publishes(inspection.read(segment, record.wire_start, record.wire_end))
                except ValueError as fault:
                    where = f"segment {segment.number} at byte {offset}"
                    text = f"{where}: batch {record.batch_number} verifies, but: {fault}"
                    yield ReportLine("damaged", text)


def _index_faults(inspection: Inspection) -> Iterator[ReportLine]:
    for segment in inspection.segments():
        fault = inspection.index_fault(segment)
        if fault is not None:
            event = "damaged" if fault is IndexFault.WRONG else "ignored"
            yield ReportLine(event, f"the index of segment {segment.number} {fault.value}")


def _finding(line: ReportLine) -> str:
    cost = "" if line.entries is None else f" ({entries_words(line.entries)})"
    return f"journal.{line.event}: {line.text}{cost}"


def _dump(parsed: argparse.Namespace, inspection: Inspection) -> int:
    names = inspection.claims.queue_names
    if parsed.segment is not None:
        numbers = [each.number for each in inspection.segments()]
        if parsed.segment not in numbers:
            there = ", ".join(map(str, numbers[:SEGMENTS_SHOWN_MAX])) or "none"
            more = ", ..." * (len(numbers) > SEGMENTS_SHOWN_MAX)
            text = f"the journal has no segment {parsed.segment}; there are: {there}{more}"
            return _print_error(text, EXIT_USAGE)
    is_wanted = _queue_filter(parsed.queue, inspection)
    if is_wanted is None:
        text = (
            f"the catalog has no queue {parsed.queue!r}; one that was deleted is chosen by its id"
        )
        return _print_error(text, EXIT_USAGE)
    write = _print_json if parsed.json else _print_facts
    messages = None
    if parsed.bodies:
        messages = _Messages(inspection, at_entries=parsed.queue is not None)
    for segment in inspection.segments():
        if parsed.segment in (None, segment.number):
            for facts in _lines(inspection.open(segment), messages):
                if is_wanted(facts):
                    queue = names.get(facts.get("queue_id", 0))
                    write(facts if queue is None else {**facts, "queue": queue})
    return 0


def _queue_filter(wanted: str | None, inspection: Inspection) -> Callable[[Facts], bool] | None:
    """Say which facts are of the queue; None if neither a queue nor an id is called so."""
    if wanted is None:
        return lambda _facts: True
    ids = {
        queue_id
        for queue_id, name in inspection.claims.queue_names.items()
        # As the catalog's claims have it: the name in quotes, and its vhost.
        if name.startswith(f"{wanted!r} in ")
    }
    if wanted.isascii() and wanted.isdigit():
        ids.add(int(wanted))
    return (lambda facts: facts.get("queue_id") in ids) if ids else None


class _Messages:
    """Reads the messages to be shown: at bodies, or, if a queue is chosen, at its entries."""

    def __init__(self, inspection: Inspection, *, at_entries: bool) -> None:
        self._inspection = inspection
        self._at_entries = at_entries
        self._segments = {each.number: each for each in inspection.segments()}
        # By batch number, of the segment that is read and of the one before.
        self._bodies: dict[int, tuple[SegmentFile, BodyRecord]] = {}
        self._bodies_before: dict[int, tuple[SegmentFile, BodyRecord]] = {}
        self._number = -1

    def begin(self, number: int) -> None:
        """The records that follow are of this segment."""
        before = self._segments.get(number - 1)
        if before is None:
            self._bodies_before = {}
        elif self._number == before.number:
            self._bodies_before = self._bodies
        elif self._at_entries:
            # Only the later one is wanted, and its entries refer to bodies there.
            self._bodies_before = {
                record.batch_number: (before, record)
                for _, record in self._inspection.open(before).records()
                if isinstance(record, BodyRecord)
            }
        self._number, self._bodies = number, {}

    def facts_of(self, record: object) -> Facts:
        """Further facts of a record: its messages, or why they cannot be shown."""
        if isinstance(record, BodyRecord):
            segment = self._segments[self._number]
            if self._at_entries:
                self._bodies[record.batch_number] = segment, record
                return {}
            return self._shown(segment, record)
        if isinstance(record, EntriesRecord) and self._at_entries:
            return self._of_entries(record)
        return {}

    def _of_entries(self, record: EntriesRecord) -> Facts:
        number = record.batch_number
        found = self._bodies.get(number) or self._bodies_before.get(number)
        if found is None:
            return {"fault": f"no body of batch {number} that verifies holds them"}
        facts = self._shown(*found)
        if "shown" in facts:
            by_index = dict(zip(found[1].indexes, facts["shown"], strict=False))
            facts["shown"] = [
                {"entry_id": entry_id, **by_index[index]}
                for entry_id, index in zip(record.entry_ids, record.indexes, strict=True)
                # The messages of dead entries may be gone.
                if index in by_index
            ]
        return facts

    def _shown(self, segment: SegmentFile, body: BodyRecord) -> Facts:
        wire = self._inspection.read(segment, body.wire_start, body.wire_end)
        try:
            shown = list(message_facts(decode_publishes(wire)))
        except ValueError as fault:
            return {"fault": str(fault)}
        count = min(len(shown), len(body.indexes))
        for low, high, arrived_ns in runs_of(body.arrived, range(count)):
            if arrived_ns:
                for facts in shown[low:high]:
                    facts["arrived_ns"] = arrived_ns
        return {"shown": shown}


def _lines(reader: SegmentReader, messages: _Messages | None) -> Iterator[Facts]:
    """Facts of each record and each hole of a segment, in order."""
    place = {"segment": reader.number}
    shown = 0
    header = reader.header
    if messages is not None:
        messages.begin(reader.number)
    if header is not None:
        yield {
            **place,
            "offset": 0,
            "kind": "segment",
            "epoch": header.epoch,
            "entries_before": header.entries,
            "catalog_change": header.catalog_change,
        }
    for offset, record in reader.records():
        for hole in reader.holes[shown:]:
            yield {**place, "offset": hole.start, "kind": "hole", "end": hole.end}
        shown = len(reader.holes)
        facts = {**place, "offset": offset, **facts_of(record)}
        yield facts if messages is None else facts | messages.facts_of(record)
    for hole in reader.holes[shown:]:
        if not reader.has_zeros(hole.start):
            yield {**place, "offset": hole.start, "kind": "hole", "end": hole.end}


def _stats(parsed: argparse.Namespace, inspection: Inspection) -> int:
    recovery = inspection.recover()
    inventory = Inventory(recovery.ledger)
    counting = recovery.names()
    segments = [each for each in inspection.segments() if each.number in counting]
    with Progress("reading the journal") as progress:
        for done, segment in enumerate(segments):
            inventory.open(segment.number, segment.size)
            for _, record in inspection.open(segment).records():
                inventory.add(segment.number, record)
            progress((done + 1) / len(segments))
    queues = inventory.queues(inspection.claims.queue_names)
    if parsed.json:
        for row in (*inventory.segments(), *queues):
            _print_json(row)
    else:
        sys.stdout.write(f"{table(inventory.segments())}\n{table(queues)}")
    return 0


def _print_facts(facts: Facts) -> None:
    messages = facts.pop("shown", [])
    segment, offset, kind = (facts.pop(name) for name in ("segment", "offset", "kind"))
    words = " ".join(f"{name}={value}" for name, value in facts.items())
    _print(f"{segment} {offset} {kind} {words}")
    for message in messages:
        _print("    " + " ".join(f"{name}={value}" for name, value in message.items()))


def _print_json(facts: Facts) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")


def _print(text: str) -> None:
    sys.stdout.write(printable(text) + "\n")


def _print_error(text: str, code: int) -> int:
    sys.stderr.write(f"leveret: {text}\n")
    return code
