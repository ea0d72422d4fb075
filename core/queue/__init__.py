"""The rules of one queue: which messages are ready, in flight or leave, and who gets them.

Begin with rules.py; construction.py says which argument chooses which part.
"""
