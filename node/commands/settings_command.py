"""`leveret settings`: the documented file of all settings, to read and to begin one's own with."""

from __future__ import annotations

import argparse
import sys
from importlib.resources import files
from typing import Any

# Beside the code, so that an installed package has it, too: node/leveret.toml.
PACKAGE = "leveret"
FILE = "leveret.toml"


def add_to(commands: Any) -> None:
    """Add `settings` to the command's parser."""
    parser = commands.add_parser(
        "settings",
        help="print every setting with its explanation and default",
        description="Prints the file of settings: every setting, what it does, and its default. "
        "The same name in capitals behind LEVERET_ is its variable in the environment.",
        example="leveret settings > leveret.toml\nleveret serve --config leveret.toml",
    )
    parser.set_defaults(run=settings_command)


def settings_command(_parsed: argparse.Namespace) -> int:
    """Print the file as it is."""
    sys.stdout.write(files(PACKAGE).joinpath(FILE).read_text(encoding="utf-8"))
    sys.stdout.flush()
    return 0
