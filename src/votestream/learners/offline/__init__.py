"""Learners that go over each task many times: LwF, iCaRL, EEIL, BiC, WA, and the paper's comparisons."""
