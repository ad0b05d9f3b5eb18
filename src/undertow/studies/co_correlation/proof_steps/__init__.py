"""The steps that the proofs of Theorems 5.3 and 5.5 take on the way, on the records of ``growth``."""
