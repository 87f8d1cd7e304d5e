"""CandidatesVoting, the paper's method, and GaussianVoting, which goes past it."""
