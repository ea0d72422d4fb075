"""The rules of declare, delete, bind and unbind. Permissions are users/access.py's.

Makes plans; the broker actor commits and applies them. Begin with topology.py.
"""
