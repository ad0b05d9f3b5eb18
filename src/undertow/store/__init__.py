"""Trials on disk: written whole or not at all; read strictly, tolerantly, or while they grow."""
