"""NSQ by HTTP: nsqd's calls and nsqlookupd's, on one port.

`site.py` finds, admits and answers; `calls.py` has the table of calls.
"""
