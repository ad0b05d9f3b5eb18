"""What a group that has come to its end leaves of every trial: records, network, how it ended, where it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from undertow.config.trial import TrialConfig
from undertow.core.errors import StoreError
from undertow.data.data_section import Split
from undertow.data.dataset import Dataset
from undertow.store.store import Store
from undertow.training import MemberState, Trainer

__all__ = ["changed_since", "kept_examples", "lines_of_trials", "status_of"]


def lines_of_trials(records: bytes, trials: Sequence[TrialConfig]) -> dict[str, bytes]:
    """The records of each trial by its id."""
    lines: dict[str, list[bytes]] = {trial.id: [] for trial in trials}
    for line in records.splitlines(keepends=True):
        lines[line[10:26].decode()].append(line)  # after {"trial":"
    return {trial: b"".join(own) for trial, own in lines.items()}


def status_of(member: MemberState) -> dict[str, Any]:
    """How a trial ended; the number of tries only where there can be more than epochs."""
    status = {"status": member.status, "step": member.step, "reason": member.reason}
    return status if member.tries is None else {**status, "tries": member.tries}


def kept_examples(
    trials: Sequence[TrialConfig], trainer: Trainer, points: Mapping[Split | None, Sequence[Dataset]]
) -> dict[int, bytes]:
    """For each member that did not diverge, the adversarial examples to keep with it."""
    count = trials[0].probe.examples
    kept = [index for index, member in enumerate(trainer.members()) if member.status != "diverged"]
    if not count or not kept:
        return {}
    # Here, since few studies keep examples and every process would wait for the import.
    from undertow.adversary.examples import adversarial_examples

    found: dict[int, bytes] = {}
    own = points[trials[0].probe.split]
    for shared in {id(each): each for each in own}.values():
        members = [index for index in kept if own[index] is shared]
        networks = [trainer.network(index) for index in members]
        found |= zip(members, adversarial_examples(networks, shared, count=count), strict=True)
    return found


def changed_since(store: Store, trial: TrialConfig, records: bytes, *, group: str) -> list[str]:
    """A note where the same group gave other records than those that the store has of the trial."""
    try:
        stored = store.trial(trial.id)
    except StoreError as error:
        return [str(error)]
    # Alone or in another group the same trial agrees to rounding only; that is no news.
    if stored.provenance["group"]["id"] != group or stored.files["records.jsonl"] == records:
        return []
    return [
        f"trial {trial.id} was computed again with its group and gave other records than those stored, "
        "which are kept: the software or hardware has changed since (see provenance.json)."
    ]
