"""The foundation of all actors: event-loop actors, thread actors, the ticker, out of memory.

Knows no other actor. Begin with runtime.py.
"""
