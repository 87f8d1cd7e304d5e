"""At home in other libraries. Each module here imports its library, and only when it is imported itself."""
