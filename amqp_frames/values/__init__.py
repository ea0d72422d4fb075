"""Single values on the wire: short strings, and field tables with their typed fields."""
