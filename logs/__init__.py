"""The service log, and the actors' trace.

configure.py and events.py are the service log's; trace/ writes the trace, reading/ finds, explains
and checks messages in it, report/ works out figures.
"""
