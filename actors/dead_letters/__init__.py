"""The publisher of dead letters, one for the node, and those that must wait.

core/dead_letters/ has the rules of dead letters and of their confirms. Begin with publisher.py.
"""
