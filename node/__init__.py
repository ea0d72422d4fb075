"""Leveret, a durable AMQP 0-9-1 broker: the public names.

    with leveret.Broker(data_dir="data", port=0) as broker:
        connect(broker.host, broker.port)

Python loads them at their first use, so that a program that needs only the codec or the rules does
not load an event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .broker import Broker
    from .configuration import Configuration
    from .errors import BrokerFailedError, ConfigurationError, StartError

__all__ = ["Broker", "BrokerFailedError", "Configuration", "ConfigurationError", "StartError"]

_MODULES = {
    "Broker": ".broker",
    "BrokerFailedError": ".errors",
    "Configuration": ".configuration",
    "ConfigurationError": ".errors",
    "StartError": ".errors",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name], __name__), name)
    return value
