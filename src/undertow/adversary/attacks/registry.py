"""The attacks by name: a new one is a file in this folder with an `AttackEntry`, and a line here."""

from __future__ import annotations

from undertow.adversary.attacks.apgd import APGD_CE, APGD_DLR, APGD_TARGETED
from undertow.adversary.attacks.carlini import CARLINI_WAGNER
from undertow.adversary.attacks.deepfool import DEEPFOOL
from undertow.adversary.attacks.entry import AttackEntry
from undertow.adversary.attacks.fab import FAB_TARGETED
from undertow.adversary.attacks.fast import FAST
from undertow.adversary.attacks.line import LINE
from undertow.adversary.attacks.pgd import PGD, PGD_ONCE
from undertow.adversary.attacks.square import SQUARE

__all__ = ["ATTACKS"]

ATTACKS: dict[str, AttackEntry] = {
    entry.name: entry
    for entry in (
        APGD_CE,
        APGD_DLR,
        APGD_TARGETED,
        FAB_TARGETED,
        FAST,
        LINE,
        SQUARE,
        PGD,
        PGD_ONCE,
        DEEPFOOL,
        CARLINI_WAGNER,
    )
}
