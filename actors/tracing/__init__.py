"""Writes the actors' events into the trace at each hop of a message.

channel.py, trace.py and answers.py have the events of channels, queue.py those of queues, the
journal and the broker actor. The ring, the files and the table of events are logs/trace/'s.
Begin with trace.py.
"""
