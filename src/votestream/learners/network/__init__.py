"""Learners that train a network in one pass: experience replay, and the rivals A-GEM, MIR, GSS, ASER and GDumb."""
