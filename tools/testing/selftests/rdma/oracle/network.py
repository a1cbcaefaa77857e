# SPDX-License-Identifier: GPL-2.0
"""The network that the ids live in: how it is built, and what it looks like now.

Three links between "two hosts" in one namespace, as the self loop of lib.sh:

    CLIENT[0] .1 .2   c0 ------ veth ------ s0   the services, and LISTEN addresses
    CLIENT[1] .1 .2   c1 ------ veth ------ s1   the services
    CLIENT[2] .1 .2   c2 ------ veth ------ s2   the services

with a soft-RoCE device rx_NETDEV on each. Nobody routes: who answers for the three
gateways of a link is the other end of it, or nobody. Neighbours are permanent, because
what is judged must not depend on whether somebody answered in time.

What the network looks like is asked of ip, rdma and sysfs, never of the module.
"""
import ipaddress
import itertools
import json
import os
import re
import subprocess
import time

TO_SERVICE, TO_CLIENT, OTHER_TABLE = 7010, 7011, 7012
LINKS = 3
SERVICES = {4: 8, 6: 4}
FAMILIES = (4, 6)
CLIENTS = [f"c{i}" for i in range(LINKS)]
SERVERS = [f"s{i}" for i in range(LINKS)]
NETDEVS = CLIENTS + SERVERS
FOREIGN_MAC = "02:00:00:00:99:99"
GID_SLOTS = 64
GID_GAP = 6  # so many free entries after one another are the end of the table
VALID_STATES = {"PERMANENT", "NOARP", "REACHABLE", "PROBE", "STALE", "DELAY"}


def mac(netdev):
    """The link-layer address that a netdevice has at first."""
    return f"02:00:00:00:{ord(netdev[0]):02x}:{int(netdev[1:]):02x}"


def client(link, number=1, family=4):
    return f"10.{link + 1}.1.{number}" if family == 4 else f"fd00:{link + 1}:1::{number}"


def gateway(link, number, family=4):
    """0 and 1 are twins behind the server's link-layer address, 2 is behind another."""
    if family == 4:
        return f"10.{link + 1}.1.{254 - number}"
    return f"fd00:{link + 1}:1::f{number}"


def service(number, family=4):
    return f"10.9.1.{number}" if family == 4 else f"fd00:9:1::{number}"


def listen_address(number):
    return f"10.9.2.{number}"


def length(family, host=False):
    """Of a prefix: a host, or a link."""
    if host:
        return 32 if family == 4 else 128
    return 24 if family == 4 else 64


def family_of(address):
    return 6 if ":" in address else 4


def gid_of(address):
    if family_of(address) == 4:
        address = f"::ffff:{address}"
    return ipaddress.IPv6Address(address).exploded


# What was done, as lines of a shell script.
journal = []


def run(*argv):
    """A command that must not fail."""
    if argv[:2] == ("rdma", "link"):
        journal.append(" ".join(argv))
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def ip_batch(lines):
    """Give ip commands, of which any may fail. Returns the lines that did.

    A line may begin with "-6", which ip does not know in a batch."""
    failed = []
    for six, group in itertools.groupby(lines, lambda line: line.startswith("-6 ")):
        group = list(group)
        argv = ["ip", "-6"] if six else ["ip"]
        argv += ["-force", "-batch", "-"]
        text = "".join(line.removeprefix("-6 ") + "\n" for line in group)
        journal.append(f"{' '.join(argv)} <<END 2>/dev/null\n{text}END")
        done = subprocess.run(argv, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
        failed += [group[int(number) - 1] for number in re.findall(r"-:(\d+)", done.stderr)]
    return failed


def ip_ask(questions):
    """Ask ip, in one process. Returns a list of answers, None where it failed."""
    done = subprocess.run(["ip", "-j", "-force", "-batch", "-"],
                          input="\n".join(questions) + "\n",
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    failed = {int(number) - 1 for number in re.findall(r"-:(\d+)", done.stderr)}
    decoder, text, at = json.JSONDecoder(), done.stdout, 0
    answers = []
    for number in range(len(questions)):
        if number in failed:
            answers.append(None)
            continue
        while at < len(text) and text[at].isspace():
            at += 1
        answer, at = decoder.raw_decode(text, at)
        answers.append([item for item in answer if item])
    return answers


def read(path):
    """A small file, "" if there is none. Without Python's layers: there are hundreds."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(fd, 256).decode().strip()
    except OSError:
        return ""
    finally:
        os.close(fd)


# --- building it ------------------------------------------------------------

SYSCTLS = (("ipv4", "rp_filter", 0), ("ipv4", "accept_local", 1), ("ipv4", "arp_ignore", 0),
           ("ipv6", "accept_dad", 0), ("ipv6", "accept_ra", 0), ("ipv6", "disable_ipv6", 0))


def sysctls(netdev):
    for family, name, value in SYSCTLS:
        path = f"/proc/sys/net/{family}/conf/{netdev}/{name}"
        with open(path, "w", encoding="ascii") as file:
            file.write(str(value))


def rules(family):
    """Commands: who looks where. The local table comes last for what is sent."""
    wide, net = (16, "10.{}.0.0") if family == 4 else (32, "fd00:{}::")
    lines = [f"rule add pref 5 iif {netdev} lookup local" for netdev in NETDEVS]
    for number, table, pref in [(9, TO_SERVICE, 10)] + \
            [(i + 1, TO_CLIENT, 11) for i in range(LINKS)]:
        prefix = f"{net.format(number)}/{wide}"
        lines += [f"rule add pref {pref} to {prefix} lookup {table}",
                  f"rule add pref 14 to {prefix} unreachable"]
    lines += ["rule add pref 100 lookup local", "rule del pref 0"]
    return [f"-6 {line}" if family == 6 else line for line in lines]


def create():
    """Once: the netdevices, their RDMA devices, the rules of the loop."""
    if os.path.exists("/sys/class/net/c0"):
        return
    lines = [f"link add c{i} address {mac(f'c{i}')} type veth "
             f"peer name s{i} address {mac(f's{i}')}" for i in range(LINKS)]
    failed = ip_batch(lines + rules(4) + rules(6))
    if failed:
        raise RuntimeError(f"cannot set up: {failed}")
    for netdev in ["all"] + NETDEVS:
        sysctls(netdev)
    # Which member of a multipath route is chosen must follow from the seed as well.
    seed = "/proc/sys/net/ipv4/fib_multipath_hash_seed"
    if os.path.exists(seed):
        with open(seed, "w", encoding="ascii") as file:
            file.write("1")
    ip_batch([f"link set {netdev} up" for netdev in NETDEVS])
    for netdev in NETDEVS:
        run("rdma", "link", "add", f"rx_{netdev}", "type", "rxe", "netdev", netdev)


def neighbours(netdevs=None):
    """Commands: who is behind which address of each link."""
    lines = []
    for i in range(LINKS):
        if netdevs is None or f"c{i}" in netdevs:
            for family in FAMILIES:
                there = [(service(n, family), mac(f"s{i}")) for n in services(family)]
                there += [(gateway(i, 0, family), mac(f"s{i}")),
                          (gateway(i, 1, family), mac(f"s{i}")),
                          (gateway(i, 2, family), FOREIGN_MAC)]
                lines += [f"neigh replace {address} lladdr {lladdr} dev c{i} nud permanent"
                          for address, lladdr in there]
        if netdevs is None or f"s{i}" in netdevs:
            lines += [f"neigh replace {client(j, n)} lladdr {mac(f'c{i}')} dev s{i} nud permanent"
                      for j in range(LINKS) for n in (1, 2)]
    return lines


def services(family):
    return range(1, SERVICES[family] + 1)


def addresses():
    """Commands: all that may be on a netdevice at first, and not on another."""
    lines = []
    for i in range(LINKS):
        lines += [f"addr del {client(j, n)}/24 dev c{i}"
                  for j in range(LINKS) if j != i for n in (1, 2)]
        lines += [f"addr add {client(i, n, family)}/{length(family)} dev c{i}" +
                  (" nodad" if family == 6 else "") for family in FAMILIES for n in (1, 2)]
        lines += [f"addr add {service(n)}/32 dev s{i}" for n in services(4)]
    return lines


def base_routes():
    """Commands: to each service in another way."""
    to = f"table {TO_SERVICE}"
    # So that there can be better ones.
    weak = f"{to} metric 200"
    lines = [
        f"route replace {service(1)} dev c0 src {client(0)} {weak}",
        f"route replace {service(2)} dev c1 src {client(1)} {weak}",
        f"route replace {service(3)} via {gateway(0, 0)} dev c0 onlink src {client(0)} {weak}",
        f"route replace {service(4)} via {gateway(1, 0)} dev c1 onlink src {client(1)} {weak}",
        f"route replace {service(5)} {weak} nexthop dev c0 nexthop dev c1",
        f"route replace {service(6)} dev c2 src {client(2, 2)} {weak}",
        f"route replace 10.9.1.0/24 dev c0 src {client(0)} {to}",
        "nexthop replace id 1 dev c0",
        "nexthop replace id 2 dev c1",
        f"nexthop replace id 3 via {gateway(2, 0)} dev c2 onlink",
        "nexthop replace id 10 group 1/2",
        f"route replace {service(7)} nhid 1 {to}",
        f"route replace {service(8)} nhid 10 {to}",
        f"route replace {service(1, 6)} dev c0 src {client(0, 1, 6)} {to}",
        f"route replace {service(2, 6)} dev c1 src {client(1, 1, 6)} {to}",
        f"route replace {service(3, 6)} via {gateway(2, 0, 6)} dev c2 onlink {to}",
        f"route replace {service(4, 6)} {to} nexthop via {gateway(0, 0, 6)} dev c0 onlink "
        f"nexthop via {gateway(1, 0, 6)} dev c1 onlink",
        f"route replace fd00:9:1::/64 dev c2 {to}",
    ]
    return lines + [f"route replace {client(i, n)} dev s{i} table {TO_CLIENT}"
                    for i in range(LINKS) for n in (1, 2)]


def repair(changed=(), routes=()):
    """Commands that bring the network to its first state, as far as the ids allow.

    `changed` are the netdevices whose link-layer address is not the first one: setting
    it, even to what it is, makes new GIDs. `routes` are those that were added."""
    lines = [f"link set {netdev} address {mac(netdev)}" for netdev in changed]
    lines += [f"link set {netdev} up" for netdev in NETDEVS]
    lines += addresses() + neighbours() + base_routes()
    lines += [f"route del {prefix} {where}" for prefix, where in routes]
    return lines


def reset():
    """To the first state from any other, when there are no ids."""
    lines = [f"addr flush dev {netdev} scope global" for netdev in NETDEVS]
    lines += [f"{six}route flush table {table}" for six in ("", "-6 ")
              for table in (TO_SERVICE, TO_CLIENT, OTHER_TABLE)]
    lines += ["nexthop flush"]
    lines += [f"{six}rule del pref {pref}" for six in ("", "-6 ") for pref in (6, 7, 8, 9)
              for _ in range(4)]
    ip_batch(lines)
    revive()
    failed = ip_batch(repair(NETDEVS))
    failed = [line for line in failed if line.startswith(("link", "route replace"))]
    if failed:
        raise RuntimeError(f"cannot set up: {failed}")


def revive():
    """Soft-RoCE's QP 1 dies when it cannot send: give such a device a new one."""
    for netdev in set(NETDEVS) - alive():
        run("rdma", "link", "delete", f"rx_{netdev}")
        run("rdma", "link", "add", f"rx_{netdev}", "type", "rxe", "netdev", netdev)


def alive():
    """The netdevices whose RDMA device can still send for the connection manager."""
    return set(re.findall(r"rx_(\w+)/1 lqpn 1 type GSI state RTS",
                          run("rdma", "resource", "show", "qp")))


# --- what it looks like -----------------------------------------------------

class Hop:
    """A next hop: of a route, or of what the stack chose among its routes."""

    def __init__(self, netdev, via=None, prefsrc=None, flags=()):
        self.netdev = netdev
        self.via = via
        self.prefsrc = prefsrc
        self.dead = "dead" in flags

    def __repr__(self):
        return f"{'via ' + self.via + ' ' if self.via else ''}dev {self.netdev}" + \
            (" dead" if self.dead else "")


def via_of(item):
    return item.get("gateway") or item.get("via", {}).get("host")


def hops_of(route):
    """The members of a route as ip prints it."""
    return [Hop(hop.get("dev"), via_of(hop), None, hop.get("flags", ()))
            for hop in route.get("nexthops") or [route]]


class Snapshot:
    """The network at a moment. `questions` are (kind, dst, src, oif), see ask()."""

    def __init__(self, questions, rdma_index):
        questions = sorted(set(questions), key=str)
        answers = ip_ask(["addr show", "neigh show nud all"] + [ask(*q) for q in questions])
        self.rdma_index = rdma_index
        self.links = {link["ifname"]: link for link in answers[0]}
        self.neigh = {(entry["dev"], entry["dst"]): entry for entry in answers[1]}
        self.answers = dict(zip(questions, answers[2:]))
        self.gids = {device: read_gids(device) for device in rdma_index}
        self.ports = {device: read(f"/sys/class/infiniband/{device}/ports/1/state")
                      for device in rdma_index}

    def ifindex(self, netdev):
        link = self.links.get(netdev)
        return link["ifindex"] if link else 0

    def up(self, netdev):
        """Administratively up, and with carrier."""
        link = self.links.get(netdev)
        return bool(link) and "UP" in link["flags"] and "LOWER_UP" in link["flags"]

    def lladdr(self, netdev):
        return self.links[netdev]["address"]

    def has_address(self, netdev, address):
        link = self.links.get(netdev)
        return bool(link) and any(info.get("local") == address for info in link["addr_info"])

    def holders(self, address):
        return [netdev for netdev in self.links if self.has_address(netdev, address)]

    def port_active(self, device):
        return self.ports.get(device, "").endswith("ACTIVE")

    def slot(self, device, address, netdev):
        """The GID table entry of an address, None if there is none."""
        for slot, gid, owner in self.gids.get(device, ()):
            if gid == gid_of(address) and owner == netdev:
                return slot
        return None

    def rdma_device(self, netdev, address):
        """The device that a new id with this source address would get."""
        for device in self.rdma_index:
            if address and self.slot(device, address, netdev) is not None:
                return device
        return None

    def neighbour(self, netdev, address):
        """The link-layer address, None if it is not known."""
        entry = self.neigh.get((netdev, address))
        if not entry or not VALID_STATES.intersection(entry.get("state", ())):
            return None
        return entry.get("lladdr")

    def chosen(self, dst, src=None, oif=None):
        """What the stack would use; None when it has no route."""
        answer = self.answers[("get", dst, src, oif)]
        if not answer or answer[0].get("type", "unicast") != "unicast":
            return None
        item = answer[0]
        return Hop(item["dev"], via_of(item), item.get("prefsrc"), item.get("flags", ()))

    def members(self, dst, src=None, oif=None):
        """The next hops of the route that it would use; [] when there is none."""
        answer = self.answers[("fib", dst, src, oif)]
        if not answer or answer[0].get("type", "unicast") != "unicast":
            return []
        hops = [hop for hop in hops_of(answer[0]) if not hop.dead]
        return [hop for hop in hops if oif in (None, hop.netdev)]


def ask(kind, dst, src, oif):
    text = f"route get {'fibmatch ' if kind == 'fib' else ''}{dst}"
    # With a source, IPv6 takes the netdevice for a mere wish, in rdma_resolve_addr() too.
    if src and not (kind == "fib" and oif and family_of(dst) == 6):
        text += f" from {src}"
    if oif:
        text += f" oif {oif}"
    return text


def read_gids(device):
    """(slot, GID, netdevice) of the entries in use."""
    port = f"/sys/class/infiniband/{device}/ports/1"
    entries, gap = [], 0
    for slot in range(GID_SLOTS):
        gid = read(f"{port}/gids/{slot}")
        gap = 0 if gid.strip("0:") else gap + 1
        if not gap:
            entries.append((slot, gid, read(f"{port}/gid_attrs/ndevs/{slot}")))
        if gap > GID_GAP:
            break
    return entries


def rdma_indices():
    return {item["ifname"]: item["ifindex"] for item in json.loads(run("rdma", "-j", "dev"))}


def dump():
    """For the reader of a failure."""
    out = []
    for command in ("ip -br link", "ip -br addr", "ip rule",
                    f"ip route show table {TO_SERVICE}", f"ip route show table {TO_CLIENT}",
                    f"ip route show table {OTHER_TABLE}", "ip -6 rule",
                    f"ip -6 route show table {TO_SERVICE}", "ip nexthop", "ip neigh show nud all",
                    "rdma link"):
        out.append(f"--- {command}")
        done = subprocess.run(command.split(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
        out += done.stdout.splitlines()
    return out


def wait_settled(deadline=5):
    """Until each netdevice that is up on both ends has carrier and an active port."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        links = {link["ifname"]: link for link in ip_ask(["link show"])[0]}
        up = {n for n in NETDEVS if "UP" in links[n]["flags"]}
        want = {n for n in up if ("s" if n[0] == "c" else "c") + n[1:] in up}
        if all("LOWER_UP" in links[n]["flags"] and "ACTIVE" in
               read(f"/sys/class/infiniband/rx_{n}/ports/1/state") for n in want):
            return True
        time.sleep(0.05)
    return False
