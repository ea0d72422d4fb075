"""The resources: a module for each subject, with the rows that make up its part of the table.

table.py puts the rows together; ../request.py says what a row is.
"""
