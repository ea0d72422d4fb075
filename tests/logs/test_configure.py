from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import pty
import termios
from typing import Any

import structlog
from leveret.logs.configure import service_log


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_what_is_no_terminal_gets_one_json_object_per_line() -> None:
    stream = io.StringIO()
    service_log(stream=stream).info("connection.opened", peer="127.0.0.1:1", user="guest")
    [line] = lines(stream)
    assert line.pop("time").endswith("Z")
    assert line == {
        "event": "connection.opened",
        "level": "info",
        "peer": "127.0.0.1:1",
        "user": "guest",
    }


def test_a_terminal_gets_text() -> None:
    ours, terminal = pty.openpty()
    with open(terminal, "w") as stream:
        service_log(stream=stream).info("broker.stopped", reason="SIGTERM")
        # A line may come in pieces.
        text = ""
        while "\n" not in text:
            text += os.read(ours, 4096).decode()
    os.close(ours)
    assert "broker.stopped" in text
    assert "\x1b[" in text


def test_the_format_can_be_chosen_whatever_the_stream() -> None:
    stream = io.StringIO()
    service_log(form="console", stream=stream).info("broker.stopped", reason="SIGTERM")
    assert "broker.stopped" in stream.getvalue()
    assert "reason='SIGTERM'" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_log_lines_below_the_level_are_not_written() -> None:
    stream = io.StringIO()
    log = service_log(level="warning", stream=stream)
    log.info("connection.opened")
    log.debug("connection.opened")
    log.warning("connection.refused")
    assert [line["event"] for line in lines(stream)] == ["connection.refused"]


def test_secrets_are_masked_also_when_they_are_bound() -> None:
    for form in ("json", "console"):
        stream = io.StringIO()
        log = service_log(form=form, stream=stream).bind(password="hare")
        log.info("connection.refused", response=b"\0guest\0hare", default_password="hare")
        assert "hare" not in stream.getvalue()
        assert "***" in stream.getvalue()


def test_a_traceback_shows_no_local_variables() -> None:
    for form in ("json", "console"):
        stream = io.StringIO()
        password = "hare"
        try:
            raise RuntimeError("broken" + password[:0])
        except RuntimeError:
            service_log(form=form, stream=stream).error("actor.failed", exc_info=True)
        assert "RuntimeError: broken" in stream.getvalue()
        assert "'hare'" not in stream.getvalue().replace('password = "hare"', "")


def test_a_name_with_a_line_end_or_escape_code_stays_in_its_line() -> None:
    forged = "x\n2026 [info] broker.stopped\x1b[2J"
    for form in ("json", "console"):
        stream = io.StringIO()
        service_log(form=form, stream=stream).info("connection.opened", user=forged)
        assert stream.getvalue().count("\n") == 1
        assert "\x1b" not in stream.getvalue()


def test_values_that_json_does_not_know_are_written_all_the_same() -> None:
    stream = io.StringIO()
    service_log(stream=stream).info("connection.refused", header=b"GET /", error=OSError("x"))
    [line] = lines(stream)
    assert line["header"] == "b'GET /'"
    assert line["error"] == "OSError('x')"


class Flaky(io.StringIO):
    broken = False

    def write(self, text: str, /) -> int:
        if self.broken:
            raise BrokenPipeError
        return super().write(text)


def test_a_log_that_cannot_be_written_stops_nobody_and_counts_what_is_lost() -> None:
    stream = Flaky()
    log = service_log(stream=stream)
    stream.broken = True
    log.info("connection.opened")
    log.info("connection.closed")
    stream.broken = False
    log.info("broker.stopped")
    assert [line["event"] for line in lines(stream)] == ["log.lost", "broker.stopped"]
    assert lines(stream)[0]["lines"] == 2


def test_a_log_that_nobody_reads_stops_nobody_and_counts_what_is_lost() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with open(writing, "w") as stream:
        log = service_log(stream=stream)
        for _ in range(1000):
            log.info("connection.refused", reason="x" * 200)
        kept = read_all(reading).count(b"connection.refused")
        assert 0 < kept < 1000
        log.info("broker.stopped")
        lost, stopped = read_all(reading).splitlines()
    os.close(reading)
    assert json.loads(lost)["lines"] == 1000 - kept
    assert json.loads(stopped)["event"] == "broker.stopped"


def test_a_terminal_that_is_held_with_ctrl_s_stops_nobody() -> None:
    ours, terminal = pty.openpty()
    with open(terminal, "w") as stream:
        log = service_log(stream=stream)
        termios.tcflow(terminal, termios.TCOOFF)
        log.info("connection.opened")
        log.info("connection.closed")
        termios.tcflow(terminal, termios.TCOON)
        log.info("broker.stopped")
        # A line may come in pieces.
        told = b""
        while told.count(b"\n") < 2:
            told += os.read(ours, 4096)
        lost, stopped = told.splitlines()
    os.close(ours)
    assert b"log.lost lines=2" in lost
    assert b"broker.stopped" in stopped


def read_all(descriptor: int) -> bytes:
    """The state of logging now."""
    told = b""
    with contextlib.suppress(BlockingIOError):
        while more := os.read(descriptor, 1 << 20):
            told += more
    return told


def test_a_closed_stream_stops_nobody() -> None:
    stream = io.StringIO()
    log = service_log(stream=stream)
    stream.close()
    log.info("connection.opened")


def test_the_host_keeps_its_own_structlog_and_logging() -> None:
    before = structlog.get_config()
    handlers, level = list(logging.getLogger().handlers), logging.getLogger().level
    stream = io.StringIO()
    service_log(stream=stream).warning("connection.refused")
    assert structlog.get_config() == before
    assert not structlog.is_configured()
    assert (logging.getLogger().handlers, logging.getLogger().level) == (handlers, level)


def test_the_host_cannot_disturb_the_broker_s_log() -> None:
    stream = io.StringIO()
    log = service_log(stream=stream)
    structlog.configure(processors=[lambda *_: "host"])
    try:
        log.info("broker.stopped")
    finally:
        structlog.reset_defaults()
    assert [line["event"] for line in lines(stream)] == ["broker.stopped"]
