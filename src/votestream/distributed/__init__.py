"""More than one process or machine: executors, chunks of work, the merge tree, and `learn`, which uses them."""
