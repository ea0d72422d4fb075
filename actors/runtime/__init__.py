"""What all actors run on: the event-loop actor type, thread actors, the ticker, out of memory.

Knows no other actor. Begin with runtime.py.
"""
