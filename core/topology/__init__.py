"""The rules of declare, delete, bind and unbind, with arguments and permissions.

Makes plans; the broker actor commits and applies them. Begin with topology.py.
"""
