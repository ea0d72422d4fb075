"""The publisher of dead letters, one for the node, and letters whose target has failed.

core/dead_letters/ has the rules of dead letters and of their confirms. Begin with publisher.py.
"""
