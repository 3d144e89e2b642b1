"""Events of one rank and what follows from them, whatever format they came in."""
