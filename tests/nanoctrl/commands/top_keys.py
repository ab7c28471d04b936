#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nanoctrl top on a terminal: top_keys.py PROGRAM ARGUMENT... that show agents in place until q."""
import os
import pty
import select
import signal
import sys
import termios

ENTER, LEAVE = b"\033[?1049h\033[?25l", b"\033[?7h\033[?25h\033[?1049l"
signal.alarm(100)  # what does not answer at all
seen = b""
failed = False


def check(what, ok):
    global failed
    print(f"[ {'OK' if ok else 'FAILED'} ] {what}", flush=True)
    failed |= not ok


def until(text):
    """Reads until the program wrote this, then forgets what came before."""
    global seen
    while text not in seen:
        if not select.select([terminal], [], [], 60)[0]:
            return False
        try:
            more = os.read(terminal, 4096)
        except OSError:
            return False
        if not more:
            return False
        seen += more
    seen = seen[seen.index(text) + len(text):]
    return True


def echoes():
    return bool(termios.tcgetattr(terminal)[3] & (termios.ECHO | termios.ICANON))


def lead(told):
    """As a shell: the program is a job of the terminal that somebody waits for, so it can be stopped."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, lambda *_: (os.tcsetpgrp(0, os.getpid()), os.write(told, b"taken\n")))
    job = os.fork()
    if not job:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(sys.argv[1], sys.argv[1:])
    os.write(told, f"{job}\n".encode())
    while True:
        status = os.waitpid(job, os.WUNTRACED)[1]
        os.write(told, b"stopped\n" if os.WIFSTOPPED(status) else f"ended {status}\n".encode())
        if not os.WIFSTOPPED(status):
            os._exit(0)


def take_terminal():
    os.kill(leader, signal.SIGUSR1)
    check("the terminal is taken from it", words.readline() == "taken\n")


def run(shown=b"Peers:"):
    """The program, once it shows that: its pid, and where its stops and its end are told."""
    global leader, terminal, seen
    seen = b""
    tells, told = os.pipe()
    leader, terminal = pty.fork()
    if not leader:
        lead(told)
    os.close(told)
    words = os.fdopen(tells)
    job = int(words.readline())
    check("it takes the screen", until(ENTER) and until(shown))
    return job, words


job, words = run()
check("keys are not echoed", not echoes())
os.write(terminal, b"\x1a")
check("top__stopped_by_the_terminal_gives_it_back", until(LEAVE) and words.readline() == "stopped\n" and echoes())
os.kill(job, signal.SIGCONT)
check("top__continued_shows_again", until(ENTER) and until(b"Peers:") and not echoes())
os.write(terminal, b"x")
os.write(terminal, b"q")
check("top__q_on_a_terminal_ends_it", until(LEAVE) and words.readline() == "ended 0\n")
# Away, and the terminal is another's: as a shell ends a job that is stopped.
job, words = run()
os.write(terminal, b"\x1a")
check("it stops", until(LEAVE) and words.readline() == "stopped\n")
take_terminal()
os.kill(job, signal.SIGTERM)
os.kill(job, signal.SIGCONT)
check("top__stopped_and_told_to_end_ends_in_the_background", words.readline() == "ended 0\n")
# At the earliest.
job, words = run(b"")
os.kill(job, signal.SIGTERM)
check("top__ended_by_a_signal_gives_the_terminal_back", until(LEAVE) and words.readline() == "ended 0\n")
sys.exit(failed)
