"""One queue: it confirms publishes, has them journalled and delivers them.

The rules are core/queue/'s; the file is disk/'s. Begin with queue.py.
"""
