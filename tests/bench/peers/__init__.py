"""The same work with every peer: ``python -m peers.NAME ROW SECONDS``, in the peer's own environment.

The model answers at once, so what is measured is the peer's own work. ``bare`` is the floor: a loop written
by hand.
"""
