from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from leveret.commands.command_line import SWITCH_INTERVAL_SECONDS, main
from leveret.commands.control_client import NoBrokerError, ask_broker
from timeouts import TIMEOUT_SECONDS

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("LEVERET_")}


def serve(
    *flags: str, cwd: Path, preexec: Callable[[], None] | None = None, **variables: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "leveret", "serve", *flags],
        cwd=cwd,
        env=CLEAN | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=preexec,
    )


def refused(process: subprocess.Popen[str], code: int) -> str:
    """The one line that a broker which cannot start says."""
    output, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    lines = [line for line in errors.splitlines() if not line.startswith("{")]
    assert output == ""
    assert process.returncode == code
    assert len(lines) == 1, errors
    return lines[0]


def port_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.fullmatch(r"leveret [0-9.]+ listening on 127\.0\.0\.1:(\d+)\n", line)
    assert found, line
    return int(found[1])


def test_the_version_is_the_distribution_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert re.fullmatch(r"leveret \d+\.\d+\.\d+\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "leveret: the following arguments are required: COMMAND\n"),
        (["serve", "--prot", "1"], "leveret: unrecognized arguments: --prot 1\n"),
        (["serve", "--port", "x"], "leveret serve: argument --port: invalid int value: 'x'\n"),
    ],
)
def test_a_wrong_flag_is_said_in_one_line_and_exits_with_2(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--port", "70000"], "leveret: --port: 70000 is not between 0 and 65535\n"),
        (["--log-level", "loud"], "leveret: --log-level: 'loud' is not one of debug, info, "),
        (["--config", "none.toml"], "leveret: none.toml: cannot be read: No such file or "),
    ],
)
def test_a_bad_setting_is_said_in_one_line_and_exits_with_2(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith(line)
    assert said.count("\n") == 1


def test_serve_prints_where_it_listens_and_ends_with_0_on_sigterm_and_sigint(
    tmp_path: Path,
) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        process = serve("--port", "0", "--data-dir", "data", cwd=tmp_path)
        socket.create_connection(("127.0.0.1", port_of(process)), timeout=TIMEOUT_SECONDS).close()
        process.send_signal(number)
        _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
        assert process.returncode == 0, errors
        assert "broker.stopped" in errors


def test_the_listening_line_comes_at_every_log_level(tmp_path: Path) -> None:
    process = serve("--port", "0", "--data-dir", "data", "--log-level", "error", cwd=tmp_path)
    port_of(process)
    process.terminate()
    _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert errors == ""


def test_serve_runs_and_ends_without_any_standard_stream(tmp_path: Path) -> None:
    """As a job that a shell leaves behind; libuv aborted at the first socket with such a number."""
    arguments = f"{sys.executable} -m leveret serve --port 0 --data-dir data <&- >&- 2>&-"
    process = subprocess.Popen(["/bin/sh", "-c", f"exec {arguments}"], cwd=tmp_path, env=CLEAN)

    deadline = time.monotonic() + TIMEOUT_SECONDS
    status = None
    while status is None:
        assert process.poll() is None
        assert time.monotonic() < deadline
        with suppress(NoBrokerError):
            status = ask_broker(tmp_path / "data", "status", {})
    process.terminate()
    assert process.wait(TIMEOUT_SECONDS) == 0


def test_a_port_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused(serve("--port", str(port), "--data-dir", "data", cwd=tmp_path), 1)
    begin = f"leveret: cannot listen on 127.0.0.1:{port}: Address already in use; "
    assert line.startswith(begin)
    way_out = re.search(r"put LEVERET_PORT=(\d+) in front of the command", line)
    assert way_out, line
    assert int(way_out[1]) != port


def test_a_data_directory_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    first = serve("--port", "0", "--data-dir", "data", cwd=tmp_path)
    port_of(first)
    line = refused(serve("--port", "0", "--data-dir", "data", cwd=tmp_path), 1)
    first.terminate()
    first.communicate(timeout=TIMEOUT_SECONDS)
    assert line == "leveret: data directory data is in use by another broker"


def test_a_folder_of_somebody_else_is_refused_as_data_directory(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to-ann").touch()
    line = refused(serve("--port", "0", "--data-dir", "letters", cwd=tmp_path), 1)
    assert line.startswith(
        "leveret: data directory letters has files in it that are not a broker's (to-ann): "
    )
    assert [file.name for file in (tmp_path / "letters").iterdir()] == ["to-ann"]


def test_variables_that_are_no_settings_are_warned_of_in_the_log(tmp_path: Path) -> None:
    variables = {"LEVERET_SERVICE_HOST": "10.0.0.1", "LEVERET_PORT": "tcp://10.0.0.1:5672"}
    process = serve(
        "--port", "0", "--data-dir", "data", cwd=tmp_path, LEVERET_LOGLEVEL="info", **variables
    )
    port_of(process)
    process.terminate()
    _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    lines = [json.loads(line) for line in errors.splitlines()]
    reasons = [each["reason"] for each in lines if each["event"] == "configuration.passed_over"]
    assert process.returncode == 0
    assert any("LEVERET_SERVICE_HOST" in reason for reason in reasons)
    assert any("LEVERET_PORT=tcp://10.0.0.1:5672" in reason for reason in reasons)
    assert any(reason.endswith("did you mean LEVERET_LOG_LEVEL?") for reason in reasons)


def test_a_data_directory_of_a_newer_version_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "format").write_text("leveret 99\n")
    line = refused(serve("--port", "0", "--data-dir", "data", cwd=tmp_path), 1)
    assert line.startswith("leveret: data directory data ")
    assert "99" in line


def test_a_data_directory_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    line = refused(serve("--port", "0", "--data-dir", "file/data", cwd=tmp_path), 1)
    assert line == (
        "leveret: data directory file/data cannot be made or written to: Not a directory"
    )


def test_too_low_a_limit_of_files_is_said_with_the_number_and_the_remedy(tmp_path: Path) -> None:
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    process = serve("--port", "0", "--data-dir", "data", cwd=tmp_path, preexec=lower)
    line = refused(process, 1)
    assert "may open 256 files and 1024 are needed" in line
    assert "ulimit -n 1024" in line
    assert not (tmp_path / "data").exists()


def test_the_limit_of_files_that_is_needed_is_a_setting(tmp_path: Path) -> None:
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    text = "port = 0\ndata_dir = 'data'\nfile_descriptors_min = 128"
    (tmp_path / "leveret.toml").write_text(text)
    process = serve("--config", "leveret.toml", cwd=tmp_path, preexec=lower)
    port_of(process)
    process.terminate()
    process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0


def test_the_interpreter_s_switch_interval_is_set_for_the_process_only() -> None:
    # Importing the package, as an embedding program does, changes nothing.
    assert sys.getswitchinterval() != SWITCH_INTERVAL_SECONDS
