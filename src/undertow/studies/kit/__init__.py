"""What every study is written with: words for its parts, claims and figures, exact tests, the ledger of verdicts.

======================================================= ==================================================
one grid, in three scales and some variants              ``study.Part``, a function in ``parts.py``
a claim, or one for each activation or data set          ``statements.Claims.add`` above its test
a number that a paper printed, ours beside it            ``statements.PublishedNumbers.add``
one number over training, of every network               ``readings.curves``
its values before and after                              ``readings.before_and_after``
all numbers of a measure side by side                    ``readings.side_by_side``, ``after_training``
networks at equal loss: values at decades of it          ``readings.at_levels``
two arms (optimisers, starts), matched seed by seed      ``readings.compared``
one number per seed: the mean, or the worst network      ``per_seed.per_seed``
a verdict on it                                          ``per_seed.verdict``, ``claim.decide``
order, trend, slope over log t, exponent                 ``per_seed.rank_correlation``, ``slopes``, ``exponents``
a limit that training has not come near yet              ``claim.Finding.left_open``
a phrase for a note: means by an axis, the data          ``per_seed.by_value``, ``data_names.on_data``
can each claim hold, and fail?                           ``made_up.verdicts_met``
======================================================= ==================================================
"""
