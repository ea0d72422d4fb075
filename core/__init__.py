"""The broker's rules as plain classes: state in, effects out.

No Pykka, socket, file, thread or clock: time and chance are arguments. Actors carry the effects
out. Begin with definitions.py, then the folder of the subject.
"""
