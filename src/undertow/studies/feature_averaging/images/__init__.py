"""Two classes or the ten behind them: does detailed supervision make the binary decision more robust? (F-n)

Networks of one architecture are trained on parity (MNIST; scikit-learn's digits where that is not on this machine) or
on first five against last five classes (CIFAR-10, paper scale): with one logit, or with ten classes whose binary
read-out is Σ_{J+} s_j − Σ_{J−} s_j. The slides do not say what exactly is attacked, and it matters: here the read-out
itself (PGD, and AutoAttack's three gradient attacks; on MNIST all four of them at one radius, at paper scale at every
radius), the side of the largest class, and each network's own training loss (plain PGD, judged by the read-out). ε is
L2, in raw pixels.
"""
