"""Session files of other programs as entries of our log, and back. Pure: lines in, entries out.

``pi_reading`` and ``pi_writing`` know the session files of pi (JSON lines, version 3).
"""
