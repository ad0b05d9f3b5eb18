"""Beyond the paper's networks: activations with a bounded derivative (Assumption 5.4), and more layers.

Theorem 5.5 asks of σ only |σ′| ≤ M, which ReLU, leaky ReLU, tanh and GELU all meet; the paper's experiments have
linear and ReLU networks alone. That its analysis extends to more layers it says and leaves it at that. With the head
at seam l the module f_{l+1} and the tail everything before it, Theorem 4.5 telescopes along a chain of modules:

    S(net) = Π_l S(f_l) · Π_l ϱ_l √(1 + var_l/μ_l²) ρ_l.

Deeper networks are fully connected with ReLU and He's initialisation; all layers are trained, as nothing says which
to keep.
"""
