"""Policies: arguments that an operator gives to queues and exchanges by patterns over their names.

Begin with policy.py; effective.py combines policies and arguments.
"""
