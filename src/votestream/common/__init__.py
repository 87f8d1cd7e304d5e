"""Small things that every room may use: input checks, plug-ins, printing, exit codes. Imports no other room."""
