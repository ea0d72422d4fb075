"""The command `leveret`: its arguments and its output.

Begin with command_line.py.
"""
