"""Help of the command line: every command explains itself, and every example works."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from leveret.commands.command_line import command_parser, main
from leveret.commands.command_parser import Parser
from leveret.configuration import Configuration

ROOT = Path(__file__).resolve().parents[2]


def parsers(parser: Parser) -> Iterator[Parser]:
    """The command, and all below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from parsers(below)


ALL = {parser.prog: parser for parser in parsers(command_parser())}
EXAMPLES = sorted({example for parser in ALL.values() for example in parser.examples})
OPTIONS = [
    (prog, action)
    for prog, parser in ALL.items()
    for action in parser._actions
    if action.option_strings and action.option_strings[-1] not in ("--help", "--version")
]


def help_of(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("prog", ALL)
def test_every_command_has_a_description_and_an_example(
    prog: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = help_of(*prog.split()[1:], capsys=capsys)
    assert ALL[prog].description
    assert ALL[prog].description in text
    assert ALL[prog].examples
    assert all(f"\n  {example}\n" in text for example in ALL[prog].examples)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_can_be_typed(example: str) -> None:
    words = shlex.split(example.partition(" < ")[0].partition(" > ")[0])
    assert words[0] == "leveret"
    parser = command_parser()
    if words[-1] == "--help":
        with pytest.raises(SystemExit) as ended:
            parser.parse_args(words[1:])
        assert ended.value.code == 0
    else:
        assert callable(parser.parse_args(words[1:]).run)


def test_every_command_is_shown_in_an_example() -> None:
    shown = " ".join(EXAMPLES)
    assert not [prog for prog in ALL if prog not in shown]


@pytest.mark.parametrize(("prog", "action"), OPTIONS)
def test_every_option_says_what_it_does_and_its_default(prog: str, action: argparse.Action) -> None:
    assert action.help
    is_part_of_a_whole = action.option_strings[-1] in (
        # Of the place of a message, or what is done beside the command's own.
        *("--connection", "--seq-no", "--picture", "--check", "--parquet"),
    )
    assert "default" in action.help or is_part_of_a_whole, (prog, action.option_strings)
    if action.default not in (None, [], False):
        assert str(action.default).removesuffix(".0") in action.help


@pytest.mark.parametrize(("prog", "action"), OPTIONS)
def test_an_option_that_is_a_setting_names_its_variable_and_the_default_of_the_setting(
    prog: str, action: argparse.Action
) -> None:
    default = getattr(Configuration, action.dest, None)
    if default is None:
        return
    assert action.default is None, "it would go before the environment and the file"
    assert f"(default {default}; environment LEVERET_{action.dest.upper()})" in str(action.help)


def test_settings_prints_the_documented_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings"]) == 0
    assert capsys.readouterr().out == (ROOT / "node" / "leveret.toml").read_text()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["statsu"], "leveret: there is no command 'statsu'; did you mean status?\n"),
        (["quues"], "leveret: there is no command 'quues'; did you mean queues?\n"),
        (["pause", "orders"], "leveret: there is no command 'pause'; did you mean queue pause?\n"),
        (["set"], "leveret: there is no command 'set'; did you mean permissions set?\n"),
        (
            ["delete"],
            "leveret: there is no command 'delete'; did you mean user delete or vhost delete?\n",
        ),
        (["user", "ad"], "leveret user: there is no action 'ad'; did you mean add?\n"),
        (
            ["vhost", "wipe"],
            "leveret vhost: there is no action 'wipe'; there are add, list, delete\n",
        ),
    ],
)
def test_a_misspelt_command_is_answered_with_the_nearest(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err == line
