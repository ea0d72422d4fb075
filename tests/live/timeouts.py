"""How long tests wait for what must come.

Only a broken broker lets a test wait so long: on a machine that is busy with other things, all that
another thread or process has to do may take many times as long as it does alone.
"""

from __future__ import annotations

TIMEOUT_SECONDS = 60.0
# A job of Spark's starts a JVM and several Pythons, and works in many steps.
JOB_SECONDS_MAX = 300.0
