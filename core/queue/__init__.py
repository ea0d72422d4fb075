"""The rules of one queue: which messages are ready, in flight or leave, and who gets them.

Begin with rules.py; construction.py says which argument chooses which part. A new part is a module
and a line there; definitions.py, one folder up, lists the names of arguments and their checks.
"""
