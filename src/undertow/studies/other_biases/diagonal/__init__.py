"""Grokking swaps the attacker (B-p, ours, after Lyu et al. 2024): diagonal networks w = u² − v² under weight decay.

From a large start α the network first is the classifier of largest L2 margin, that of its kernel; weight decay λ then
takes it, after a time of about log α/λ, to that of largest L1 margin. The first is the most robust in L2, the second in
L∞: so one radius falls while the other rises. Both ends come from programs, and radii of linear functions are exact.
Every seed has points of its own; the network's start is not random. "Near" is between a half and twice that time.
"""
