"""How the command line reads arguments and explains itself: one parser class for every command.

A command has a description and at least one example, an option its default and the variable that
stands for it, all from `--help` (a test reads every example and looks at every option). A mistake
is one line on standard error that names the nearest command.
"""

from __future__ import annotations

import argparse
import difflib
import textwrap
from collections.abc import Container
from pathlib import Path
from typing import Any, NoReturn

from ..configuration import CONFIG_VARIABLE, ENVIRONMENT_PREFIX, Configuration

EXIT_USAGE = 2
HELP_CHARACTERS = 79


class Parser(argparse.ArgumentParser):
    """Takes `example` beside argparse's own arguments: command lines, each on a line of its own."""

    def __init__(self, *arguments: Any, example: str = "", **others: Any) -> None:
        self.examples = example.splitlines()
        if example:
            lines = "".join(f"\n  {line}" for line in self.examples)
            others["epilog"] = f"examples:{lines}" if len(self.examples) > 1 else f"example:{lines}"
        # argparse would run the examples together, so it gets the description wrapped, too.
        others.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        others["description"] = textwrap.fill(others.get("description", ""), HELP_CHARACTERS)
        super().__init__(*arguments, **others)

    def error(self, message: str) -> NoReturn:
        """End with one line that names the mistake, without the usage."""
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Name the nearest command in place of all, or the groups that have it as an action."""
        if action.choices is None or value in action.choices:
            return
        names = list(action.choices)
        grouped = [
            f"{name} {value}" for name in names if value in _group_actions(action.choices, name)
        ]
        if grouped:
            self.error(f"there is no command {value!r}; did you mean {' or '.join(grouped)}?")
        near = difflib.get_close_matches(str(value), names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        self.error(f"there is no {str(action.metavar or 'choice').lower()} {value!r}; {hint}")


def _group_actions(choices: Any, name: str) -> Container[str]:
    """The actions of the group with this name among an argument's choices; empty if it is none."""
    parser = choices[name] if isinstance(choices, dict) else None
    for action in parser._actions if isinstance(parser, Parser) else ():
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return ()


def add_group(commands: Any, name: str, text: str, description: str, shown: str) -> Any:
    """Add a command that has actions; give what its actions are added to.

    `shown` is the action that the group's example shows.
    """
    group = commands.add_parser(
        name, help=text, description=description, example=f"leveret {name} {shown}"
    )
    return group.add_subparsers(dest="action", required=True, metavar="ACTION", title="actions")


def add_setting(parser: argparse.ArgumentParser, name: str, text: str, **others: Any) -> None:
    """Add the option of one setting; its help names the default and the variable.

    The option has no default of its own: an option that was not given leaves the value to the
    environment, the file, or `Configuration`.
    """
    default = getattr(Configuration, name)
    variable = ENVIRONMENT_PREFIX + name.upper()
    option = "--" + name.replace("_", "-")
    help_text = f"{text} (default {default}; environment {variable})"
    parser.add_argument(option, dest=name, help=help_text, **others)


def add_directory(parser: argparse.ArgumentParser) -> None:
    """Add the options by which a command finds a broker, or its trace: by the data directory."""
    add_file(parser)
    add_setting(parser, "data_dir", "the broker's data directory", metavar="D", type=Path)


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the option for the file of settings."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help=f"file of settings, as `leveret settings` prints it (default none; environment "
        f"{CONFIG_VARIABLE})",
    )
