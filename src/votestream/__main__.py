"""`python -m votestream` is the command `votestream`."""

from votestream.cli.main import app

app()
