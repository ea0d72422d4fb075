"""Users, their passwords and permissions, and the checks of logins.

What a connection may do in its vhost is topology/access.py's. Begin with accounts.py.
"""
