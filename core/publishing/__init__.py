"""A channel's publishing side: sequence numbers, routes, returns, confirms.

Begin with publisher.py.
"""
