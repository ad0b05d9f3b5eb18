"""The live page: follow a running sweep in a browser. Reads a folder of runs, never writes into it.

Nothing here imports torch or polars: the server stays small, and verdicts are computed by a process of their own.
"""
