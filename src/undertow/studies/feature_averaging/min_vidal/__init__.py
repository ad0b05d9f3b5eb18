"""Min & Vidal's conjecture: pReLU networks become one ridge per class for p = 1, one per cluster for p ≥ 3 (F-o, F-p).

Data x = μ_k + N(0, (α²/D) I) around K = 10 orthonormal directions, K₁ = 6 of them positive; two-layer pReLU networks,
both layers trained by mini-batch gradient descent on the exponential loss from a balanced start of scale 1e-7. After
training the distance inf_c sup_{‖x‖=1} |c f − F| to the averaged F and to the decoupled F^(p) is measured, each
relative to sup |F|, which is the distance of the zero function. "Much smaller than 1" is read as below a quarter of it.
"""
