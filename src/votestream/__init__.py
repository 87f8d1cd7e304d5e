"""VoteStream: learn new classes from a stream, without forgetting the old ones."""
