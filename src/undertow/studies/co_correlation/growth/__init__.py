"""The growth of co-correlation under gradient descent (Wang, Min & Ruan 2024, §5; rows C5, C6 and C14).

Theorems 5.3 and 5.5 are about gradient descent on all of the data, with one logit, binary cross-entropy and inputs of
norm 1, and so are these trials; of ten classes (variant ``authors``) the theorems do not speak. The paper trains for 50
epochs of 118 steps with learning rate 0.003, a flow time s = Σ η of 17.7. At that rate full batches would need as many
steps; here s = 18 is reached in fewer and larger ones, and what a step changes is set beside what the flow does.

Everything is trained in float64: Lemma B.1 is exact, and is checked as such. The theorems end in O(·), which no single
network can contradict. Tested are what can be: the inequality with the bounds that its proof gives (and how loose those
are), the powers of m and of the norm, the steps that the proof takes on the way, and the conclusion that ϱ grows.
"""
