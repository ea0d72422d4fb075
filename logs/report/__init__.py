"""The figures of a trace: figures.py defines them, engine.py computes them."""
