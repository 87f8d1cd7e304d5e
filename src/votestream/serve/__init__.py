"""`votestream serve`: a service and a page that learn and predict at the same time."""
