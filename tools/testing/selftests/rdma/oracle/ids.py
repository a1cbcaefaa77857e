# SPDX-License-Identifier: GPL-2.0
"""The ids: align_cm, which holds them, and what each was told so far."""
import os
import re
import select
import subprocess
import time

import judge
import network

DEADLINE = 20  # seconds, for an answer that must come


class Dead(Exception):
    """align_cm does not answer any more."""


class Driver:
    """A running align_cm: give it commands, collect its lines by id."""

    def __init__(self, program, lifetime):
        self.proc = subprocess.Popen([program, "-T", str(lifetime)], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE)
        self.partial = b""
        self.syncs = 0
        self.events = {}  # id: [fields of a line]
        self.log = []

    def pump(self, seconds):
        """Take in what there is, wait for some at most so long. False if none came."""
        if not select.select([self.proc.stdout], [], [], seconds)[0]:
            return False
        data = os.read(self.proc.stdout.fileno(), 65536)
        if not data:
            raise Dead("align_cm ended")
        lines = (self.partial + data).split(b"\n")
        self.partial = lines.pop()
        for line in lines:
            self.take(line.decode())
        return True

    def take(self, line):
        self.log.append(line)
        fields = dict(re.findall(r"(\S+?)=(\S*)", line))
        if "event" in fields:
            self.events.setdefault(fields["id"], []).append(fields)

    def wait(self, pattern, start, seconds=DEADLINE):
        """Until a line of the log from `start` on matches; returns the match or None."""
        end = time.monotonic() + seconds
        while True:
            for line in self.log[start:]:
                match = re.search(pattern, line)
                if match:
                    return match
            if time.monotonic() > end:
                return None
            self.pump(0.2)

    def command(self, *lines):
        """Give commands, and wait until they ran. Returns what was said meanwhile."""
        network.journal += [f"echo '{line}' >&${{CM[1]}}; sleep 1" for line in lines]
        self.syncs += 1
        start = len(self.log)
        text = "\n".join(lines) + f"\necho sync{self.syncs}\n"
        self.proc.stdin.write(text.encode())
        self.proc.stdin.flush()
        if not self.wait(rf"echo=sync{self.syncs}$", start):
            raise Dead(f"no answer to {lines}")
        return self.log[start:]

    def wait_event(self, name, events, seconds=DEADLINE):
        """Until the id hears one of these; returns its fields, None if another came."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for fields in self.events.get(name, ()):
                if fields["event"] in events:
                    return fields
                if fields["event"].endswith("ERROR") or \
                        fields["event"] in ("REJECTED", "UNREACHABLE"):
                    return None
            self.pump(0.2)
        return None

    def quiet(self, seconds, most=10):
        """Until nothing was said for so long."""
        end = time.monotonic() + most
        while self.pump(seconds) and time.monotonic() < end:
            pass

    def stop(self):
        try:
            self.proc.stdin.close()
            self.proc.wait(30)
        except (OSError, subprocess.TimeoutExpired):
            self.proc.kill()


class Id:
    """An id under test: what it asked for, what it has, what it was told."""

    def __init__(self, name, kind, mode, request, path, connected=False):
        self.name = name
        self.kind = kind
        self.mode = mode
        self.words = set(mode.split("+"))
        self.request = request
        self.path = path
        self.connected = connected  # RC: a teardown ends it
        self.peer = None
        self.told = judge.ALIGNED
        self.told_reason = None
        self.seen = 0  # of the driver's events
        self.seq = 0
        self.stale = 0  # steps for which it has been misaligned
        self.delayed = False

    def __repr__(self):
        return f"{self.name} ({self.kind}, {self.mode}) {self.request} on {self.path}"

    def set_mode(self, mode):
        self.mode = mode
        self.words = set(mode.split("+"))
        self.told = judge.ALIGNED
        self.told_reason = None
        self.seq -= 1  # what is told again need not have changed

    def judge(self, net):
        if self.path is None:
            return None
        if self.kind == "listener":
            return judge.judge_listener(net, self.path)
        return judge.judge(net, self.request, self.path)

    def counts_as(self, kind):
        """A sticky id stays on a path that works."""
        if "sticky" in self.words and kind == judge.SUPERSEDED:
            return judge.ALIGNED
        return kind

    def expected(self, verdict):
        """The report that is due when this is the verdict now, None if there is none."""
        if verdict is None or self.words == {"none"}:
            return None
        kind = self.counts_as(verdict.kind)
        if kind == self.told:
            return None
        if kind != judge.ALIGNED:
            if "teardown" in self.words and self.connected:
                return Report("DISCONNECTED")
            flags = "down" if kind == judge.DOWN else "none"
            return Report("ADDR_CHANGE", verdict.reason, flags, verdict.new)
        if "restored" in self.words:
            report = Report("ADDR_CHANGE", self.told_reason, "restored", verdict.new)
            if verdict.kind == judge.ALIGNED:
                # Of equal paths a new id may get another one: this one may stay.
                report.also = (self.path.ifindex, self.path.rdma_index, 1)
            return report
        return None

    def learn(self, verdict):
        """It was told, or had nothing to be told."""
        if verdict is None:
            return
        kind = self.counts_as(verdict.kind)
        if kind != self.told:
            self.told = kind
            self.told_reason = verdict.reason
        self.stale = self.stale + 1 if verdict.kind != judge.ALIGNED else 0


class Report:
    """What an id hears, as far as it is compared."""

    def __init__(self, event, reason=None, flags=None, new=None):
        self.event = event
        self.reason = reason
        self.flags = flags
        self.new = new
        self.also = None  # a new path that is as good

    @classmethod
    def heard(cls, fields):
        if fields["event"] != "ADDR_CHANGE":
            return cls(fields["event"])
        if "reason" not in fields:
            return cls("ADDR_CHANGE", "none given")
        new = tuple(int(fields[name]) for name in ("new_if", "new_dev", "new_port"))
        return cls("ADDR_CHANGE", fields["reason"], fields["flags"], new)

    def same(self, expected):
        """Whether it is what was expected, in all that is determined."""
        return (self.event == expected.event and self.reason == expected.reason and
                self.flags == expected.flags and
                (expected.new is None or self.new in (expected.new, expected.also)))

    def __repr__(self):
        if self.event != "ADDR_CHANGE":
            return self.event
        return f"{self.event} {self.reason} flags={self.flags} new={self.new}"


def shape_error(heard, entry):
    """What is wrong with a report in itself: the old path, the numbers."""
    path = entry.path
    old = tuple(int(heard[name]) for name in ("old_if", "old_dev", "old_port"))
    if old != (path.ifindex, path.rdma_index, 1):
        return f"old path {old}, expected {(path.ifindex, path.rdma_index, 1)}"
    if int(heard["seq"]) <= entry.seq:
        return f"seq {heard['seq']} after {entry.seq}"
    if heard["status"] != "0" or heard["reserved"] != "0":
        return f"status={heard['status']} reserved={heard['reserved']}"
    entry.seq = int(heard["seq"])
    return None
