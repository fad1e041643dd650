"""A tiny part for the launcher's tests, run as a script: it notes in a file what happens to it.

    launch_part.py NAME EVENTS_FILE steady|stubborn|pool|crash

`pool` has a child, as a worker has: in a process group of its own, and its task is lost if it gets SIGTERM.
"""

import os
import signal
import sys

READY = "does its work"


def main(name: str, events_file: str, behaviour: str) -> None:
    def note(event: str) -> None:
        descriptor = os.open(events_file, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)
        os.write(descriptor, f"{event} {name} {os.getpid()}\n".encode())
        os.close(descriptor)

    def end(*_: object) -> None:
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        note("stop")
        sys.exit(0)

    child = fork_pool_process(note) if behaviour == "pool" else 0
    signal.signal(signal.SIGINT, lambda *_: note("interrupted"))
    signal.signal(signal.SIGTERM, (lambda *_: note("ignored")) if behaviour == "stubborn" else end)
    note("start")
    sys.stdout.write(f"{name} {READY}\n")
    sys.stdout.flush()
    if behaviour == "crash":
        sys.exit("the disk is on fire")
    while True:
        signal.pause()


def fork_pool_process(note) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, lambda *_: note("lost"))
    note("pool")
    while True:
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
