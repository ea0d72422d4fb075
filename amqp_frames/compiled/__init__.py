"""The loops over messages in C, beside the Python that specifies them; this module decides.

Runs of publishes and of acks, deliveries, returns, answers, merging and rows of indexes have two
forms with the same results on all octets: Python, in amqp_frames/messages/ and
amqp_frames/decoder.py, and `_codec`, whose loops are in frames.h, without Python in them. NSQ's
runs of publishes and of FINs, and its messages, have them, too: nsq_frames/, and nsq.h. The
compiled form is used where it was built and the environment does not say LEVERET_COMPILED=no. It is
optional: where there is no compiler, everything works without it.

The compiled form never judges. It ends a run at whatever is not plain, and the frame by frame way
(amqp_frames/decoder.py) finds the fault, as behind the Python form.
"""

from __future__ import annotations

import os
from typing import Final

# With "no" the Python form runs, compiled or not.
FORM_VARIABLE: Final = "LEVERET_COMPILED"
# Of arguments and results: in a checkout, an earlier build may lie beside later sources.
REVISION: Final = 5

try:
    if os.environ.get(FORM_VARIABLE) == "no":
        raise ImportError
    from . import _codec as codec

    if codec.REVISION != REVISION:
        raise ImportError
except ImportError:
    codec = None  # type: ignore[assignment]

# How `leveret status` and the log name the form that runs.
FORM: Final = "pure Python" if codec is None else "compiled"
