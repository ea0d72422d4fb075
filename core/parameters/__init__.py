"""Runtime parameters: values that an operator sets while the broker runs.

Begin with parameters.py; limits.py reads those of vhosts and users as numbers.
"""
