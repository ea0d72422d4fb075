"""The service log: how it is written, and the names of the events in it."""
