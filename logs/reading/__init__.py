"""Reading a trace: find, follow, explain and check.

The rules stand here once; Spark runs the same ones (spark/traces/). Begin with reader.py.
"""
