"""Which number tells best how fragile a network is: an energy or a Lipschitz constant (§3.3), S(f) or S(L∘f) (§4)?

ReLU networks of the grid's widths and q are compared after training, in one part of their own: S(f) beside the largest
‖J‖ over the points, the product of the layers' norms, and the energy of the loss.
"""
