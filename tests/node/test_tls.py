"""A start reports a fault in TLS's files in one line that names the file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import leveret
import pytest
import trustme
from certificates import Certificates
from leveret.amqp_frames.compiled import FORM
from leveret.configuration import Configuration
from leveret.errors import StartError
from leveret.listening.tls import tls_context
from timeouts import TIMEOUT_SECONDS


def fault(**settings: Any) -> str:
    with pytest.raises(StartError) as refused:
        tls_context(Configuration(**settings))
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_without_a_certificate_there_is_no_tls() -> None:
    assert tls_context(Configuration()) is None


@pytest.mark.parametrize("name", ["tls_certificate", "tls_key", "tls_ca_certificates"])
def test_a_file_that_cannot_be_read(certificates: Certificates, tmp_path: Path, name: str) -> None:
    missing = str(tmp_path / "missing.pem")
    said = fault(**certificates.settings(**{name: missing}))
    assert said == f"{name}: {missing}: cannot be read: No such file or directory"
    said = fault(**certificates.settings(**{name: str(tmp_path)}))
    assert said == f"{name}: {tmp_path}: cannot be read: Is a directory"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tls_certificate", "no certificate in it"),
        ("tls_key", "no private key in it, or one that needs a password"),
        ("tls_ca_certificates", "no certificate in it"),
    ],
)
def test_a_file_with_something_else_in_it(
    certificates: Certificates, tmp_path: Path, name: str, words: str
) -> None:
    for number, text in enumerate(("", "junk", f"-----BEGIN {name}-----\nx\n-----END {name}-----")):
        file = tmp_path / f"{number}.pem"
        file.write_text(text)
        assert fault(**certificates.settings(**{name: str(file)})) == f"{name}: {file}: {words}"


@pytest.mark.parametrize("key_type", list(trustme.KeyType))
def test_a_key_that_is_not_the_certificate_s(
    certificates: Certificates, tmp_path: Path, key_type: trustme.KeyType
) -> None:
    other = str(tmp_path / "other.pem")
    issued = trustme.CA().issue_cert("other", key_type=key_type)
    issued.private_key_pem.write_to_path(other)
    said = fault(**certificates.settings(tls_key=other))
    assert said == f"tls_key: {other} is not the key of the certificate in {certificates.server}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tls_key": ""}, "tls_certificate is set, but no tls_key"),
        ({"tls_certificate": ""}, "tls_key is set, but no tls_certificate"),
        (
            {"tls_certificate": "", "tls_key": ""},
            "tls_ca_certificates is set, but no tls_certificate",
        ),
        (
            {"tls_ca_certificates": "", "tls_verify_client": "required"},
            "tls_verify_client is required, but there are no tls_ca_certificates",
        ),
    ],
)
def test_settings_that_need_each_other(
    certificates: Certificates, changes: dict[str, Any], words: str
) -> None:
    assert fault(**(certificates.settings() | changes)) == words


def test_a_port_in_use_is_named_and_the_data_directory_is_free_again(
    certificates: Certificates, tmp_path: Path
) -> None:
    settings: Any = {"port": 0, "data_dir": tmp_path / "data", "log_level": "error"}
    with leveret.Broker(port=0, data_dir=tmp_path / "other", log_level="error") as other:
        wrong = certificates.settings(tls_port=other.port)
        with pytest.raises(StartError) as refused:
            leveret.Broker(**(settings | wrong)).start()
    address = f"127.0.0.1:{wrong['tls_port']}"
    assert str(refused.value).startswith(f"cannot listen on {address}: Address already in use; ")
    assert "put LEVERET_TLS_PORT=" in str(refused.value)
    with leveret.Broker(**settings) as broker:
        assert broker.tls_port is None


def command(*flags: str, cwd: Path, settings: dict[str, object]) -> subprocess.Popen[str]:
    lines = [f'{name} = "{value}"' for name, value in settings.items() if name != "tls_port"]
    config = cwd / "leveret.toml"
    config.write_text("\n".join(["tls_port = 0", *lines]))
    return subprocess.Popen(
        [sys.executable, "-m", "leveret", "serve", "--port", "0", "--config", str(config), *flags],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_line_that_says_listening_tells_both_ports(
    certificates: Certificates, tmp_path: Path
) -> None:
    with command(cwd=tmp_path, settings=certificates.settings()) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        _rest, log = process.communicate(timeout=TIMEOUT_SECONDS)
    words = r"leveret [0-9.]+ listening on 127\.0\.0\.1:(\d+), TLS on 127\.0\.0\.1:(\d+)\n"
    found = re.fullmatch(words, line)
    assert found, line
    [listening] = [line for line in log.splitlines() if "broker.listening" in line]
    assert f'"address": "127.0.0.1:{found[1]}"' in listening
    assert f'"tls_address": "127.0.0.1:{found[2]}"' in listening
    assert f'"codec": "{FORM}"' in listening
    assert process.returncode == 0


def test_the_command_says_the_fault_in_one_line_and_ends_with_1(
    certificates: Certificates, tmp_path: Path
) -> None:
    settings = certificates.settings(tls_key="missing.pem")
    with command(cwd=tmp_path, settings=settings) as process:
        output, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    lines = [line for line in errors.splitlines() if not line.startswith("{")]
    assert output == ""
    words = "leveret: tls_key: missing.pem: cannot be read: No such file or directory"
    assert lines == [words]
    assert process.returncode == 1
