"""The command line: thin shells over the library, one module per command or group."""
