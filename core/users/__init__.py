"""Users, their passwords and permissions, and the checks of logins.

Begin with accounts.py; access.py defines what a connection may do in its vhost.
"""
