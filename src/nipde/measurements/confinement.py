"""What a process that parses foreign files does without: other files, the network, other programs and processes.

Linux only: Landlock takes away the file system but for a few folders to read, and TCP; seccomp takes away system calls
by number. Neither can be undone by the process, or by what it starts.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterable

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
#: Rights over files that version 1 of Landlock knows, and those that later versions added.
_FIRST_RIGHTS, _LATER_RIGHTS = (1 << 13) - 1, {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_TCP, _SIGNALS_AND_ABSTRACT_SOCKETS = 0b11, 0b11
#: Machine -> its name in a filter, and the column of its numbers below.
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
#: System calls that are refused, by their numbers on x86-64 and ARM64; -1 where there is none.
_REFUSED = {
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
    "execve": (59, 221), "execveat": (322, 281), "fork": (57, -1), "vfork": (58, -1),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kill": (62, 129), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, -1),
    "fchown": (93, 55), "lchown": (94, -1), "fchownat": (260, 54), "utime": (132, -1), "utimes": (235, -1),
    "futimesat": (261, -1), "utimensat": (280, 88), "truncate": (76, 45), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsmount": (432, 432),
    "mount_setattr": (442, 442), "open_by_handle_at": (304, 265), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "reboot": (169, 142),
    "init_module": (175, 105), "finit_module": (313, 273), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
}  # fmt: skip
#: Refused by their first argument: new processes that are no threads, signals to other processes.
_CLONE, _CLONE_THREAD, _TGKILL, _FIRST_ARGUMENT = (56, 220), 0x10000, (234, 131), 16
#: Said not to exist, so that clone is used; and calls of another table of numbers.
_CLONE3, _OTHER_CALLS = 435, 0x40000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000


def confine(readable: Iterable[str]) -> list[str]:
    """Confine this process for good to reading these files and folders; by which means, none if there are none."""
    means = available()
    if means:
        _checked(_libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    if landlock_version():
        _landlock(readable, landlock_version())
    if "seccomp" in means:
        _seccomp(*_MACHINES[platform.machine()])
    return means


def available() -> list[str]:
    """The means of this system, such as `Landlock 7` and `seccomp`."""
    version = landlock_version()
    means = [f"Landlock {version}"] if version else []
    if sys.platform == "linux" and platform.machine() in _MACHINES and sys.maxsize > 2**32:
        _libc().prctl(_SET_SECCOMP, _FILTER, None, 0, 0)  # no filter: a bad address where there could be one
        means += ["seccomp"] if ctypes.get_errno() == errno.EFAULT else []
    return means


def landlock_version() -> int:
    """0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def _landlock(readable: Iterable[str], version: int) -> None:
    rights = _FIRST_RIGHTS | sum(right for since, right in _LATER_RIGHTS.items() if version >= since)
    words = (rights, *([_TCP] if version >= 4 else []), *([_SIGNALS_AND_ABSTRACT_SOCKETS] if version >= 6 else []))
    handled = struct.pack(f"={len(words)}Q", *words)
    rules = _checked(_libc().syscall(_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0))
    for place in readable:
        if os.path.exists(place):
            descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC)
            rule = struct.pack("=Qi", _READ_FILE | (_READ_FOLDER if os.path.isdir(place) else 0), descriptor)
            _checked(_libc().syscall(_ADD_RULE, rules, 1, rule, 0))
            os.close(descriptor)
    _checked(_libc().syscall(_RESTRICT_SELF, rules, 0))
    os.close(rules)


def _seccomp(machine: int, column: int) -> None:
    """A program for the kernel that refuses the calls above; threads may be started and may abort, processes not."""
    numbers = [_OTHER_CALLS, *(calls[column] for calls in _REFUSED.values() if calls[column] >= 0)]
    end = len(numbers) + 3  # the place of what follows the list
    clone, signal, allow, deny, lacking = end + 4, end + 6, end + 8, end + 9, end + 10
    program = [(_LOAD, 0, 0, 4), (_EQUAL, 0, deny - 2, machine), (_LOAD, 0, 0, 0)]
    for place, number in enumerate(numbers, start=3):
        program.append((_AT_LEAST if number == _OTHER_CALLS else _EQUAL, deny - place - 1, 0, number))
    program += [
        (_EQUAL, lacking - end - 1, 0, _CLONE3), (_EQUAL, clone - end - 2, 0, _CLONE[column]),
        (_EQUAL, signal - end - 3, 0, _TGKILL[column]), (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _FIRST_ARGUMENT), (_ANY_BIT, allow - clone - 2, deny - clone - 2, _CLONE_THREAD),
        (_LOAD, 0, 0, _FIRST_ARGUMENT), (_EQUAL, allow - signal - 2, deny - signal - 2, os.getpid()),
        (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERROR | errno.EPERM), (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
    ]  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    whole = struct.pack("@HP", len(program), ctypes.addressof(code))
    _checked(_libc().prctl(_SET_SECCOMP, _FILTER, whole, 0, 0))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"confinement refused: {os.strerror(ctypes.get_errno())}")
    return result
