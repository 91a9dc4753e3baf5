"""
Mount a file system of a few megabytes and fill it to the last byte: to PostgreSQL it is a disk like any other.

It lies in memory (tmpfs), which root may mount, and so may anybody in a namespace of their own:
``unshare --user --map-current-user --keep-caps --mount make test ARGS=tests/faults/test_disk_full.py``.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# mount(2), umount(2).
_NOSUID_NODEV = 0x2 | 0x4
_DETACH = 0x2
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
)
_libc.umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)


class SmallDisk:
    """
    A file system that can be full.

    Attributes:
        folder: Where it is mounted.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    @property
    def bytes_free(self) -> int:
        """How much could still be written."""
        status = os.statvfs(self.folder)
        return status.f_bavail * status.f_frsize

    def fill(self) -> None:
        """Leave not a byte free; what others give back meanwhile is taken, too."""
        with self._ballast.open("ab") as ballast:
            while free := self.bytes_free:
                with suppress(OSError):  # somebody has taken a part of it just now
                    os.posix_fallocate(ballast.fileno(), ballast.seek(0, os.SEEK_END), free)

    def make_room(self) -> None:
        """Give back all that ``fill`` has taken."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mount one of *megabytes* at *folder*, which is made; whatever it holds is gone in the end."""
    folder.mkdir()
    _call(_libc.mount, b"small disk", os.fsencode(folder), b"tmpfs", _NOSUID_NODEV, _options(megabytes))
    try:
        yield SmallDisk(folder)
    finally:
        _call(_libc.umount2, os.fsencode(folder), _DETACH)


def may_mount() -> bool:
    """Whether this process may mount one; it tries."""
    with tempfile.TemporaryDirectory() as room:
        try:
            with small_disk(Path(room) / "disk", 1):
                return True
        except OSError:
            return False


def _options(megabytes: int) -> bytes:
    return f"size={megabytes}m,mode=755".encode()


def _call(function: Callable[..., int], *given: object) -> None:
    """Call *function*, and raise what its errno says."""
    if function(*given) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
