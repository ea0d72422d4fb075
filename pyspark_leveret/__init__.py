"""The module through which PySpark finds the data source.

PySpark imports every top-level module named `pyspark_...`. One such module that fails to import
hides all the others (pyspark/sql/worker/lookup_data_sources.py), so this one never fails: if the
data source cannot be loaded, it is not offered, and `leveret.spark.register` reports the reason.
"""

from __future__ import annotations

import contextlib

# Whatever it is, an old pyspark or half an installation, must not cost the user other data sources.
with contextlib.suppress(Exception):
    from leveret.spark.data_source import AmqpDataSource as DefaultSource

    __all__ = ["DefaultSource"]
