"""Theorem 4.5 and Figure 5: S(f) = ϱ · √(1 + var/μ²) · ρ · S(head) · S(tail), and which factors matter."""
