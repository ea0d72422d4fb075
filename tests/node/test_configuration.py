from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from leveret.configuration import Configuration, load, setting_names
from leveret.errors import ConfigurationError
from leveret.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "node" / "leveret.toml"
DOCUMENTS = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))
# What else the documents write as they write settings.
OTHER_NAMES = {
    # Variables of the environment for the build, for commands and for tests.
    "compiled",
    "nsqd",
    "password",
    # Fields of the log.
    "bytes_in_all",
    "bytes_read",
    "unverified_segments",
    # Labels of metrics, fields of the API and of definitions.
    "leveret_version",
    "page_size",
    "password_hash",
    "prometheus_plugin_version",
    "users_without_password_hash",
    # RabbitMQ's.
    "rabbitmq_management",
    "vm_memory_high_watermark",
}


def written(directory: Path, text: str) -> Path:
    file = directory / "leveret.toml"
    file.write_text(text)
    return file


def test_the_example_file_has_every_setting_with_its_default() -> None:
    assert list(tomllib.loads(EXAMPLE.read_text())) == setting_names()
    assert load({}, {}, EXAMPLE) == Configuration()


def test_every_setting_of_the_example_file_is_explained_above_it() -> None:
    lines = EXAMPLE.read_text().splitlines()
    for number, line in enumerate(lines):
        if line and not line.startswith("#"):
            above = lines[number - 1]
            assert above.startswith(("# ", "default_user")), f"nothing explains {line!r}"


def test_every_setting_that_a_document_names_is_there() -> None:
    """As `name = value`, after the word "setting", or as a variable; in RUNNING.md by its name."""
    named: set[str] = set()
    for document in DOCUMENTS:
        text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
        found = re.findall(r"\bsettings? `([a-z_]+)`(?:(?:,| and| or) `([a-z_]+)`)?", text)
        named |= {name for pair in found for name in pair if name}
        named |= set(re.findall(r"`([a-z]+(?:_[a-z]+)+) = ", text))
        named |= {name.lower() for name in re.findall(r"LEVERET_([A-Z_]+[A-Z])", text)}
        if document.name == "RUNNING.md":
            named |= set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text))
    settings = named & set(setting_names())
    assert len(settings) > 30
    assert named - settings == OTHER_NAMES


def test_every_setting_is_an_argument_of_a_broker_with_its_type() -> None:
    wider: dict[str, Any] = {
        "data_dir": Path | str,
        **dict.fromkeys(("trace_queues", "loopback_users")),
    }
    hints = get_type_hints(Settings)
    assert list(hints) == setting_names(), "node/settings.py"
    for name, kind in get_type_hints(Configuration).items():
        expected = wider.get(name, kind) or list[str] | tuple[str, ...]
        assert hints[name] == expected, name


def test_a_flag_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, 'port = 1\nchannel_max = 1\nheartbeat_seconds = 1\nhost = "::1"')
    environment = {"LEVERET_PORT": "2", "LEVERET_CHANNEL_MAX": "2", "HOME": "/"}
    configuration = load({"port": 3, "host": None}, environment, file)
    assert configuration.port == 3
    assert configuration.channel_max == 2
    assert configuration.heartbeat_seconds == 1
    assert configuration.host == "::1"


def test_the_environment_can_name_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "port = 7")
    assert load({}, {"LEVERET_CONFIG": str(file)}).port == 7


def test_the_flag_for_the_file_goes_before_the_environment(tmp_path: Path) -> None:
    file = written(tmp_path, "port = 7")
    assert load({}, {"LEVERET_CONFIG": "/nowhere"}, file).port == 7


def test_lists_are_written_with_commas_in_the_environment() -> None:
    assert load({}, {"LEVERET_LOOPBACK_USERS": "a, b"}).loopback_users == ("a", "b")
    assert load({}, {"LEVERET_LOOPBACK_USERS": ""}).loopback_users == ()


def test_the_data_directory_is_a_path(tmp_path: Path) -> None:
    assert load({}, {}, written(tmp_path, 'data_dir = "x"')).data_dir == Path("x")
    assert load({}, {"LEVERET_DATA_DIR": "y"}).data_dir == Path("y")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "prot in {file} is not a setting; did you mean port?"),
        ("zzz = 1", "zzz in {file} is not a setting"),
        ("port = 70000", "port in {file}: 70000 is not between 0 and 65535"),
        ("port = true", "port in {file}: True is not a whole number"),
        ('port = "5672"', "port in {file}: '5672' is not a whole number"),
        ("frame_max_bytes = 4095", "frame_max_bytes in {file}: 4095 is not between 4096 and "),
        ('log_level = "loud"', "log_level in {file}: 'loud' is not one of debug, info, warning, "),
        ('node_name = "here"', "node_name in {file}: 'here' is not a name, an @ and a host"),
        ('node_name = "a/b@here"', "node_name in {file}: 'a/b@here' is not a name, an @ and a "),
        ("data_dir = 5", "data_dir in {file}: 5 is not a path"),
        ('data_dir = ""', "data_dir in {file}: '' is not a path"),
        ('host = ""', "host in {file}: must not be empty"),
        ("loopback_users = [1]", "loopback_users in {file}: [1] is not a list of strings"),
        ("port 5672", "{file}: not valid TOML: "),
        ("[server]\nport = 1", "server in {file} is not a setting"),
    ],
)
def test_a_fault_in_the_file_is_one_line_that_names_it(
    tmp_path: Path, text: str, message: str
) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigurationError) as fault:
        load({}, {}, file)
    assert str(fault.value).startswith(message.format(file=file))
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"LEVERET_PORT": "tcp"}, "LEVERET_PORT: 'tcp' is not a whole number"),
        ({"LEVERET_PORT": "-1"}, "LEVERET_PORT: -1 is not between 0 and 65535"),
        ({"LEVERET_DEFAULT_PASSWORD": ""}, "LEVERET_DEFAULT_PASSWORD: must not be empty"),
        ({"LEVERET_LOG_FORMAT": "xml"}, "LEVERET_LOG_FORMAT: 'xml' is not one of auto, "),
    ],
)
def test_a_fault_in_the_environment_names_the_variable(
    environment: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigurationError) as fault:
        load({}, environment)
    assert str(fault.value).startswith(message)


def warnings_of(environment: dict[str, str]) -> tuple[Configuration, list[str]]:
    warnings: list[str] = []
    return load({}, environment, warn=warnings.append), warnings


def test_an_unknown_name_in_the_environment_is_warned_of_with_the_nearest_known_one() -> None:
    configuration, warnings = warnings_of({"LEVERET_DATADIR": "x", "LEVERET_ZZZ": "y"})
    assert configuration == Configuration()
    assert warnings == [
        "LEVERET_DATADIR in the environment is not a setting and is passed over; "
        "did you mean LEVERET_DATA_DIR?",
        "LEVERET_ZZZ in the environment is not a setting and is passed over",
    ]


def test_variables_that_kubernetes_sets_for_a_service_are_passed_over_with_a_warning() -> None:
    address = "tcp://10.0.0.1:5672"
    variables = {
        "LEVERET_SERVICE_HOST": "10.0.0.1",
        "LEVERET_SERVICE_PORT": "5672",
        "LEVERET_SERVICE_PORT_AMQP": "5672",
        "LEVERET_PORT": address,
        "LEVERET_PORT_5672_TCP": address,
        "LEVERET_PORT_5672_TCP_PROTO": "tcp",
        "LEVERET_PORT_5672_TCP_PORT": "5672",
        "LEVERET_PORT_5672_TCP_ADDR": "10.0.0.1",
        # Of services named leveret-tls and leveret-http.
        "LEVERET_TLS_PORT": "tcp://10.0.0.1:5671",
        "LEVERET_HTTP_PORT": "tcp://10.0.0.1:15672",
        "LEVERET_HTTP_SERVICE_PORT": "15672",
    }
    configuration, warnings = warnings_of(variables | {"LEVERET_HEARTBEAT_SECONDS": "7"})
    assert configuration == Configuration(heartbeat_seconds=7)
    [warning] = warnings
    assert "Kubernetes" in warning
    assert "LEVERET_PORT=tcp://10.0.0.1:5672, " in warning
    assert all(name in warning for name in variables)


def test_a_port_in_the_environment_is_still_a_number() -> None:
    assert warnings_of({"LEVERET_PORT": "5673"}) == (Configuration(port=5673), [])
    with pytest.raises(ConfigurationError, match="is not a whole number"):
        load({}, {"LEVERET_PORT": "tpc://10.0.0.1:5672"})


def test_a_file_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as fault:
        load({}, {}, tmp_path / "none.toml")
    expected = f"{tmp_path / 'none.toml'}: cannot be read: No such file or directory"
    assert str(fault.value) == expected


@pytest.mark.parametrize("wrong", [{"port": -1}, {"log_level": "x"}, {"loopback_users": ["a"]}])
def test_settings_made_in_a_program_are_checked_too(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Configuration(**wrong)


def test_unfinished_publishes_have_room_for_the_largest_message(tmp_path: Path) -> None:
    file = written(tmp_path, "unfinished_publishes_bytes_max = 1000")
    with pytest.raises(ConfigurationError) as fault:
        load({}, {}, file)
    assert str(fault.value) == (
        "unfinished_publishes_bytes_max: 1000 is less than message_size_max_bytes, 134217728"
    )
    exactly = load({"message_size_max_bytes": 1000}, {}, file)
    assert exactly.unfinished_publishes_limit() == 1000
    # Not given, it follows the size of a message.
    assert Configuration().unfinished_publishes_limit() == 256 << 20
    largest = Configuration(message_size_max_bytes=512 << 20)
    assert largest.unfinished_publishes_limit() == 640 << 20


def test_the_password_is_not_in_what_is_printed(tmp_path: Path) -> None:
    assert "secret" not in repr(Configuration(default_password="secret"))
    file = written(tmp_path, "default_password = 24681357")
    with pytest.raises(ConfigurationError) as fault:
        load({}, {}, file)
    assert str(fault.value) == f"default_password in {file}: it is not a string"
