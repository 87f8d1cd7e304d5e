"""Every command of `votestream`. It imports all other rooms and is imported by none."""
