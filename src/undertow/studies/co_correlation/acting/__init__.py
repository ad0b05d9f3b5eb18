"""Acting on it: does holding ϱ or S down while a network is trained buy robustness?

The paper measures that robust networks have a small energy S and that ϱ drives it. Whether one can act on that it does
not ask. Here networks are trained with a penalty on ϱ² at a seam, on S², or on ‖J‖_F², with weight decay, and on
adversarial examples, each at several strengths. What counts is the front: the best robust accuracy, attacked or
certified, among the strengths whose clean accuracy is no more than a point below that of the network trained plainly
from the same start. Weight decay is what any of it has to beat, adversarial training the ceiling. Strengths were spread
on other seeds (from 100 on) than those that are judged, so that each front reaches from the plain network to one whose
clean accuracy has fallen by more than that point.
"""
