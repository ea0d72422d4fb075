"""Requests of the command line to a running broker.

They come through the control socket (control.py), which node/listening/ opens. HTTP is in
management/.
"""
