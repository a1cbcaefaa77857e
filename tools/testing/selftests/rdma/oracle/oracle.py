#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Change the network at random, and compare what ids hear with what they should.

usage: oracle.py [--seed N,...] [--steps N] [--shrink SECONDS] [--verbose]

Runs as root where rdma_cm with RDMA_ALIGN_WITH_NETDEVICE is loaded, in a network that
is its own: a test VM. Prints TAP, a test for each seed. From the seed follow the ids
and the changes. After each change it waits until nothing is said any more, judges each
id anew by the contract, and compares.

When they differ it tells the id, what it expected and heard, and the state of the
network. With --shrink it then looks for a shorter way to that, for so many seconds, and
prints it as a shell script.
"""
import argparse
import itertools
import pathlib
import random
import sys
import time

import changes
import ids
import judge
import network as nw

QUIET = 0.3
RECHECK = 2.0
PORT = 7471
# Passive ids take their mode from a listener: a port for each mode.
PASSIVE_MODES = ("none", "align", "align+restored", "align+sticky", "teardown")
MODES = ("align", "align+restored", "align+restored", "align+sticky",
         "align+sticky+restored", "teardown")
# Of IPv6 none is connected: soft-RoCE of 6.12 dies of a packet for a GID that has left.
POPULATION = {"active": 9, "active6_": 4, "pinned": 4, "pinned6_": 2, "rc": 4, "ud": 1,
              "listener": 3}
SET_MODE = 0.07  # how often a step sets a mode instead of changing the network
PATIENCE = 5  # steps for which an id may be misaligned
# Reports to a destination double the delays of its ids (CONTRACT, 3): so many are still
# short enough to be waited for. Delay 0 is never damped.
DELAYS = (40, 80)  # downdelay, updelay
DAMPED_MOST = 6
DAMPED_QUIET = 60


class Mismatch(Exception):
    """What an id heard is not what it should have heard."""


class World:
    """The ids and the network of one seed."""

    def __init__(self, args, seed, say):
        self.args = args
        self.say = say
        self.rng = random.Random(seed)
        self.changes = changes.Changes(random.Random(seed + 1))
        self.ids = []
        self.made = 0
        self.count = {"steps": 0, "reports": 0, "ids": 0}
        self.damped = {}  # destination: when its ids were told
        self.trace = []  # what was done, for a shorter way to the same end
        self.driver = None

    # --- the ids ----------------------------------------------------------

    def start(self):
        nw.reset()
        nw.wait_settled()
        self.rdma_index = nw.rdma_indices()
        self.driver = ids.Driver(self.args.align_cm, 3600)
        for number, mode in enumerate(PASSIVE_MODES):
            for ud in ("", " ud"):
                name = f"w{number}{ud.strip()}"
                self.driver.command(f"listen {name} 0.0.0.0 {PORT + number}{ud} "
                                    f"downdelay 0 updelay 0 mode {mode}")
                self.ids.append(ids.Id(name, "wildcard", mode, judge.Request(None), None))
        for number in (1, 2, 3):
            nw.ip_batch([f"addr add {nw.listen_address(number)}/32 dev s{number - 1}"])
        time.sleep(0.5)

    def look(self, requests=()):
        """The network now, with what the ids' destinations need."""
        questions = []
        for request in [entry.request for entry in self.ids] + list(requests):
            if request.dst:
                ours = request.dst.startswith(("10.9.", "fd00:9:"))
                netdevs = nw.CLIENTS if ours else nw.SERVERS
                questions += judge.questions(request, netdevs)
        return nw.Snapshot(questions, self.rdma_index)

    def spec(self, kind):
        """What a new id is to be, from the random numbers."""
        self.made += 1
        link = self.rng.randrange(nw.LINKS)
        family = 6 if kind.endswith("6_") else 4
        return {"kind": kind, "name": f"{kind}{self.made}", "mode": self.rng.choice(MODES),
                "dst": nw.service(self.rng.choice(nw.services(family)), family),
                "src": nw.client(link, self.rng.choice((1, 1, 2)), family),
                "port": self.rng.randrange(len(PASSIVE_MODES)),
                "pin": self.rng.random() < 0.25,
                "delayed": self.rng.random() < 0.25,
                "listen": nw.listen_address(self.rng.randint(1, 3))}

    def missing(self, most):
        """Specs of ids that are missing, some of them."""
        specs = []
        for kind, want in POPULATION.items():
            have = sum(1 for entry in self.ids if entry.kind == kind)
            specs += [self.spec(kind) for _ in range(want - have)]
        self.rng.shuffle(specs)
        return specs[:most]

    def wishes(self, specs):
        """What must be asked to make these ids."""
        requests = [self.request_of(spec) for spec in specs if spec["kind"] != "listener"]
        requests += [judge.Request(nw.client(link, number), spec["dst"])
                     for spec in specs if spec["kind"] in ("rc", "ud")
                     for link in range(nw.LINKS) for number in (1, 2)]
        return requests

    def make_all(self, specs, net=None):
        """Make ids. That changes nothing in the network."""
        if net is None:
            net = self.look(self.wishes(specs))
        for spec in specs:
            self.make(spec, net)

    def make(self, spec, net):
        """Make an id, if the network lets it. False if not."""
        maker = {"rc": self.make_connected, "ud": self.make_connected,
                 "listener": self.make_listener}.get(spec["kind"], self.make_active)
        made = maker(spec, net)
        self.count["ids"] += made
        if made:
            self.trace.append(("make", spec))
        return made

    def request_of(self, spec):
        pinned = spec["kind"].startswith("pinned") or (spec["kind"] in ("rc", "ud") and spec["pin"])
        return judge.Request(spec["dst"], spec["src"] if pinned else None, pinned)

    def path_of(self, net, request):
        """The path that a new id must get, None if it is not worth trying."""
        found = judge.new_path(net, request)
        if not found:
            return None
        netdev, address, hop = found
        if request.pinned and len(net.holders(address)) > 1:
            return None
        device = net.rdma_device(netdev, address)
        lladdr = net.neighbour(netdev, hop.via or request.dst)
        if not device or not lladdr or not net.up(netdev) or not net.port_active(device):
            return None
        return judge.Path(net, netdev, device, address, hop.via, lladdr)

    def make_active(self, spec, net):
        request = self.request_of(spec)
        path = self.path_of(net, request)
        if not path:
            return False
        entry = ids.Id(spec["name"], spec["kind"], spec["mode"], request, path)
        entry.delayed = spec["delayed"] and self.level(spec["dst"]) < DAMPED_MOST
        if not self.resolve(entry, "resolve", spec, PORT, "ROUTE_RESOLVED"):
            return False
        return self.adopt(entry)

    def resolve(self, entry, verb, spec, port, until):
        down, up = DELAYS if entry.delayed else (0, 0)
        words = f"{verb} {entry.name} {spec['dst']} {port} downdelay {down} updelay {up}"
        words += f" mode {spec['mode']}"
        if entry.request.pinned:
            words += f" src {spec['src']}"
        if spec["kind"] == "ud":
            words += " ud"
        self.driver.command(words)
        if not self.driver.wait_event(entry.name, (until,)):
            self.say(f"{entry} is not made: {self.driver.events.get(entry.name)}")
            self.driver.command(f"destroy {entry.name}")
            return False
        resolved = self.driver.events[entry.name][0]
        got = (resolved.get("dev"), resolved.get("src"))
        if got != (entry.path.device, entry.path.address):
            raise Mismatch(f"{entry} was resolved to {got}")
        return True

    def adopt(self, entry):
        """From now on it is compared. It may be misaligned from the start."""
        entry.seen = len(self.driver.events.get(entry.name, ()))
        self.ids.append(entry)
        self.say(f"made {entry}")
        return True

    def make_connected(self, spec, net):
        """A pair: the active and the passive side of a connection."""
        request = self.request_of(spec)
        path = self.path_of(net, request)
        if not path or not self.can_connect(net, path, request):
            return False
        netdev = f"s{path.netdev[1]}"
        back = judge.Request(path.address, request.dst)
        answer = self.path_of(net, back)
        if not answer or answer.netdev != netdev or answer.lladdr != net.lladdr(path.netdev):
            return False
        ud = spec["kind"] == "ud"
        entry = ids.Id(spec["name"], spec["kind"], spec["mode"], request, path, not ud)
        listener = f"w{spec['port']}{'ud' if ud else ''}"
        before = len(self.children(listener))
        if not self.resolve(entry, "connect", spec, PORT + spec["port"], "ESTABLISHED"):
            return False
        children = self.children(listener)
        if len(children) != before + 1:
            raise Mismatch(f"{entry}: the passive side did not appear")
        child = ids.Id(children[-1], "passive", PASSIVE_MODES[spec["port"]], back, answer,
                       not ud)
        if not ud and not self.driver.wait_event(child.name, ("ESTABLISHED",)):
            raise Mismatch(f"{child}: not ESTABLISHED")
        child.peer, entry.peer = entry, child
        return self.adopt(entry) and self.adopt(child)

    def children(self, listener):
        return sorted((name for name in self.driver.events if name.startswith(f"{listener}.")),
                      key=lambda name: int(name.rpartition(".")[2]))

    def can_connect(self, net, path, request):
        """Whether what is sent over this path arrives, and is understood."""
        netdev = f"s{path.netdev[1]}"
        return (net.up(netdev) and net.lladdr(netdev) == path.lladdr and
                net.has_address(netdev, request.dst) and
                net.slot(f"rx_{netdev}", request.dst, netdev) is not None and
                nw.alive() >= {netdev, path.netdev})

    def make_listener(self, spec, net):
        address = spec["listen"]
        holders = net.holders(address)
        if len(holders) != 1 or not net.rdma_device(holders[0], address):
            return False
        self.made += 1
        path = judge.Path(net, holders[0], f"rx_{holders[0]}", address, None, None)
        entry = ids.Id(spec["name"], "listener", spec["mode"].replace("teardown", "align"),
                       judge.Request(None), path)
        self.driver.command(f"listen {entry.name} {address} {8000 + self.made} downdelay 0 "
                            f"updelay 0 mode {entry.mode}")
        return self.adopt(entry)

    def level(self, dst):
        """How many reports have lengthened the delays of this destination."""
        times = self.damped.get(dst, [])
        if not times or time.monotonic() - times[-1] > DAMPED_QUIET:
            return 0
        return len(times)

    def damp(self, dst):
        """An id for this destination was told. An incident counts once."""
        if self.level(dst) == 0:
            self.damped[dst] = []
        self.damped[dst].append(time.monotonic())

    def retire(self, entry):
        """It ended, or is of no more use; its peer goes with it."""
        gone = [one for one in (entry, entry.peer) if one in self.ids]
        self.driver.command(*[f"destroy {one.name}" for one in gone])
        for one in gone:
            self.ids.remove(one)

    # --- comparing --------------------------------------------------------

    def heard(self, entry):
        return self.driver.events.get(entry.name, [])[entry.seen:]

    def compare(self, rough, wishes):
        """Judge all ids. Returns the network, the verdicts and the mismatches."""
        self.driver.quiet(QUIET)
        net = self.look(wishes)
        verdicts = {entry: entry.judge(net) for entry in self.ids}
        ending = {entry.peer for entry in self.ids if entry.peer and self.ends(entry)}
        wrong = []
        for entry in self.ids:
            if entry in ending:
                continue  # its peer was torn down: it hears of that, or not yet
            problem = self.problem(entry, verdicts[entry], rough)
            if problem:
                wrong.append((entry, problem))
        return net, verdicts, wrong

    def ends(self, entry):
        return any(fields["event"] == "DISCONNECTED" for fields in self.heard(entry))

    def problem(self, entry, verdict, rough):
        """What is wrong with what an id heard, None if nothing is."""
        expected = entry.expected(verdict)
        reports = [ids.Report.heard(fields) for fields in self.heard(entry)]
        text = f"verdict {verdict}, told {entry.told}; expected {expected}, heard {reports}"
        if rough and reports and reports[-1].event == "ADDR_CHANGE":
            return None if self.plausible(entry, verdict, reports) else text
        if expected and expected.event == "DISCONNECTED":
            events = [report.event for report in reports]
            good = events[:1] == ["DISCONNECTED"] and events[1:] in ([], ["TIMEWAIT_EXIT"])
            return None if good else text
        if expected is None:
            return text if reports else None
        return None if len(reports) == 1 and reports[0].same(expected) else text

    def plausible(self, entry, verdict, reports):
        """After a rough change: only what was told last must be so."""
        told = entry.told
        for report in reports:
            if report.event != "ADDR_CHANGE":
                return False
            now = {"down": judge.DOWN, "none": judge.SUPERSEDED}.get(report.flags, judge.ALIGNED)
            if now == told and "restored" in entry.words:
                return False
            told = now
        kind = entry.counts_as(verdict.kind) if verdict else told
        return kind == told or (kind == judge.ALIGNED and "restored" not in entry.words)

    def check(self, change, wishes=()):
        """After a change: raises Mismatch, or the ids have learned. Returns the network."""
        net, verdicts, wrong = self.compare(change.rough, wishes)
        if wrong:
            self.say(f"looking again: {wrong}")
            time.sleep(RECHECK)
            net, verdicts, wrong = self.compare(change.rough, wishes)
        if wrong:
            raise Mismatch("\n".join(f"{entry}\n  {problem}" for entry, problem in wrong))
        for dst in {entry.request.dst for entry in self.ids if self.heard(entry)}:
            self.damp(dst)
        for entry in list(self.ids):
            self.learn(entry, verdicts[entry])
        return net

    def learn(self, entry, verdict):
        if entry not in self.ids:
            return
        fresh = self.heard(entry)
        entry.seen += len(fresh)
        for fields in fresh:
            self.say(f"  {entry.name} heard {ids.Report.heard(fields)}")
        self.count["reports"] += len(fresh)
        for fields in fresh:
            error = ids.shape_error(fields, entry) if fields["event"] == "ADDR_CHANGE" else None
            if error:
                raise Mismatch(f"{entry}\n  {error}: {fields}")
            if fields["event"] == "DISCONNECTED":
                self.retire(entry)
                return
        entry.learn(verdict)
        if entry.told != judge.ALIGNED and fresh and fresh[-1].get("flags") != "restored":
            entry.told_reason = fresh[-1]["reason"]

    # --- the run ----------------------------------------------------------

    def run(self, steps):
        """As the random numbers say."""
        self.start()
        self.make_all(self.missing(99))
        while self.count["steps"] < steps:
            if self.rng.random() < SET_MODE:
                self.set_mode(self.rng.choice(self.ids).name, self.rng.choice(MODES + ("none",)))
                continue
            specs = self.missing(3)
            net = self.change(self.changes.next(), self.wishes(specs))
            self.retire_old()
            self.make_all(specs, net)

    def replay(self, trace):
        """What another run did, or a part of it."""
        self.start()
        for verb, group in itertools.groupby(trace, lambda action: action[0]):
            things = [what for _, what in group]
            if verb == "make":
                self.make_all(things)
            for what in things:
                if verb == "set":
                    self.set_mode(*what)
                elif verb == "change":
                    self.change(what)

    def set_mode(self, name, mode):
        """An id asks for another mode: that forgets what it was told."""
        entry = next((entry for entry in self.ids if entry.name == name), None)
        if entry is None or not self.may_set(entry, mode):
            return
        self.count["steps"] += 1
        self.say(f"step {self.count['steps']}: {name} mode {mode}")
        self.trace.append(("set", (name, mode)))
        self.driver.command(f"set {name} mode {mode}")
        entry.set_mode(mode)
        self.check(changes.Change("mode", []))

    def may_set(self, entry, mode):
        """A passive id without a mode takes its baseline then, which is to be its path."""
        if entry.kind == "wildcard" or (entry.kind == "listener" and "teardown" in mode):
            return False
        if entry.kind == "passive" and "none" in entry.words:
            return entry.judge(self.look()).kind == judge.ALIGNED
        return True

    def change(self, change, wishes=()):
        self.count["steps"] += 1
        self.say(f"step {self.count['steps']}: {change}")
        self.trace.append(("change", change))
        nw.ip_batch(change.lines)
        return self.check(change, wishes)

    def retire_old(self):
        """Those that do not come back tell nothing any more."""
        for entry in list(self.ids):
            slow = entry.delayed and self.level(entry.request.dst) >= DAMPED_MOST
            if entry in self.ids and (entry.stale > PATIENCE or slow):
                self.retire(entry)

    def stop(self):
        if self.driver:
            self.driver.stop()


def attempt(world, function, argument):
    """Let a world run. Returns what was wrong, None if nothing was."""
    try:
        function(argument)
        return None
    except (Mismatch, ids.Dead) as error:
        return str(error)


def shrink(args, trace, say):
    """Leave out what can be left out of a run that fails. Returns the script that is left."""
    end = time.monotonic() + args.shrink
    created = args.created  # so much of the journal sets up the network
    script = []

    def fails(part):
        world = World(args, 0, lambda text: None)
        del nw.journal[created:]
        failure = attempt(world, world.replay, part)
        journal = list(nw.journal)
        world.stop()
        say(f"{len(part)} actions: {'fails' if failure else 'passes'}")
        if failure:
            script[:] = journal + [f"# {line}" for line in failure.splitlines()]
        return failure is not None

    size = len(trace) // 2
    while size:
        start = 0
        while start < len(trace) and time.monotonic() < end:
            part = trace[:start] + trace[start + size:]
            if part and fails(part):
                trace = part
            else:
                start += size
        size //= 2
    if not script:
        fails(trace)
    return ["#!/bin/bash", "coproc CM { align_cm; }", "cat <&${CM[0]} &"] + script


def run_seed(args, number, seed):
    """One test. False if it failed."""
    start = time.monotonic()

    def say(text):
        if args.verbose:
            print(f"# {time.monotonic() - start:.1f} {text}", flush=True)

    world = World(args, seed, say)
    failure = attempt(world, world.run, args.steps)
    if failure:
        state = nw.dump()
        last = world.trace[-1][1] if world.trace else ""
        print(f"#   seed {seed}, step {world.count['steps']}: {last}")
        for line in failure.splitlines() + state + ["--- align_cm"] + world.driver.log[-60:]:
            print(f"#   {line}")
    world.stop()
    took = time.monotonic() - start
    counts = ", ".join(f"{value} {name}" for name, value in world.count.items())
    print(f"{'not ok' if failure else 'ok'} {number} oracle.seed{seed}: {counts}, {took:.0f} s",
          flush=True)
    if failure and args.shrink:
        for line in "\n".join(shrink(args, world.trace, say)).splitlines():
            print(f"#   {line}")
    return not failure


def parse_args():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default="1", help="a number, or several by comma")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--shrink", type=int, default=0, metavar="SECONDS")
    parser.add_argument("--first", action="store_true", help="end at the first failure")
    parser.add_argument("--align-cm", default=str(here.parent / "build/align_cm"))
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def main():
    args = parse_args()
    seeds = [int(seed) for seed in args.seed.split(",")]
    nw.create()
    args.created = len(nw.journal)
    print("TAP version 13")
    print(f"1..{len(seeds)}", flush=True)
    good = True
    for number, seed in enumerate(seeds, 1):
        good = run_seed(args, number, seed) and good
        if args.first and not good:
            break
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
