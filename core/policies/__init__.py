"""Policies: arguments that an operator gives to queues and exchanges by patterns over their names.

Begin with policy.py; effective.py has what comes of policies and arguments together.
"""
