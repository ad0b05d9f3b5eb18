"""Settings from TOML files and the command line: validated, every default written out, hashed into identities."""
