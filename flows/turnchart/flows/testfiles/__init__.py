"""Test files: scripted conversations with a flow, ``NAME.test.yaml``, and what must come of each.

``reading`` makes a ``Suite`` of a file, ``playing`` plays one case of it on a ``stage``, and ``judging`` says
what came out otherwise than expected.
"""
