"""The actors: each owns a mailbox, the state of one subject and its I/O handles.

An actor dispatches messages to the rules in core/ and carries out the effects that they return;
it decides nothing that a rule could decide. Begin with messages.py, all that actors tell each
other, then follow a publish: connection/reader.py, channel/channel.py, queue/queue.py,
disk/journal.py. `python -m benchmarks.trips publish` prints that way, call by call.
"""
