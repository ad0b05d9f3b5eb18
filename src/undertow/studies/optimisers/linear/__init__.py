"""Linear networks on separable points, two classes and four: each rule's margins beside the largest there is (O1)."""
