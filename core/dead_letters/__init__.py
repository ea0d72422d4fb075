"""Dead letters: messages that leave a queue other than by an ack.

Begin with letters.py.
"""
