"""Grokking: networks that fit modular addition generalise long after (Power et al. 2022): B-h … B-j and B-o.

Fully connected networks on two one-hot vectors, AdamW, all of the pairs seen in every step; one split of the pairs, ten
starts. What words are taken for: a network has fitted at the first reading with 99 % of the pairs seen, and
generalises at the first with 90 % of the others; "long after" is more than three times as many steps. A network that
does not generalise within its steps decides nothing about its jump; in comparisons it counts with all of its steps.
``grokking-published`` is the quick setting to the letter, p = 113, for the numbers printed of it.
"""
