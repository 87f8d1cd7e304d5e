"""Where arithmetic runs: NumPy or torch, threads, random numbers, CUDA graphs, linear algebra shared by several."""
