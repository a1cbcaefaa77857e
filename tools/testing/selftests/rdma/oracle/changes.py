# SPDX-License-Identifier: GPL-2.0
"""Random changes of the network.

A change is a list of ip commands that are given at once. Any of them may fail: what
counts is what the network looks like afterwards. A change whose commands pass through
states that last is "rough": an id without delays may be told of those too.
"""
import network as nw

RULE_PREFS = (6, 7, 8, 9)


class Change:
    def __init__(self, name, lines, rough=False):
        self.name = name
        self.lines = lines
        self.rough = rough

    def __repr__(self):
        return f"{self.name}: {'; '.join(self.lines)}"


class Changes:
    """A source of changes; the same random numbers give the same ones."""

    def __init__(self, rng):
        self.rng = rng
        self.down = set()  # netdevices that were set down
        self.base = []  # (prefix, table and metric) of the first routes
        self.routes = []  # and of those that may be there now
        self.rules = []
        self.lladdrs = set()  # netdevices with another one
        self.family = 4  # of the change that is made
        self.listen = {n: {f"s{n - 1}"} for n in (1, 2, 3)}  # who has these addresses
        self.begin()
        self.kinds = [(getattr(self, name), weight) for name, weight in WEIGHTS.items()]

    def begin(self):
        """What is there in the first state."""
        self.down.clear()
        self.rules.clear()
        self.lladdrs.clear()
        table = f"table {nw.TO_SERVICE}"
        self.base = [(nw.service(n), table + (" metric 200" if n < 7 else ""))
                     for n in nw.services(4)]
        self.base += [(nw.service(n, 6), table) for n in nw.services(6)]
        self.base += [("10.9.1.0/24", table), ("fd00:9:1::/64", table)]
        self.routes = list(self.base)

    def next(self):
        # A network in which nothing works tells little.
        if self.down and self.rng.random() < 0.5:
            return self.link_up()
        self.family = self.pick(4, 4, 6)
        functions, weights = zip(*self.kinds)
        return self.rng.choices(functions, weights)[0]()

    def pick(self, *choices):
        return self.rng.choice(choices)

    def chance(self, probability):
        return self.rng.random() < probability

    def service(self):
        return nw.service(self.pick(*nw.services(self.family)), self.family)

    def six(self, line):
        return f"-6 {line}" if self.family == 6 else line

    # --- routes -----------------------------------------------------------

    def hop(self, via=False):
        """A next hop as ip's words, without its source."""
        link = self.rng.randrange(nw.LINKS)
        if via or self.chance(0.4):
            gateway = nw.gateway(link, self.rng.randrange(3), self.family)
            return f"via {gateway} dev c{link} onlink", link
        return f"dev c{link}", link

    def target(self):
        """Where a route leads to."""
        roll = self.rng.random()
        if roll < 0.6:
            hop, link = self.hop()
            if self.chance(0.6):
                hop += f" src {nw.client(link, self.pick(1, 1, 2), self.family)}"
            return hop
        if roll < 0.85 or self.family == 6:
            hops = [self.hop(self.family == 6)[0] for _ in range(self.pick(2, 2, 3))]
            return " ".join(f"nexthop {hop} weight {self.pick(1, 1, 2)}" for hop in hops)
        return f"nhid {self.pick(1, 2, 3, 10, 10)}"

    def prefix(self):
        if self.family == 6:
            return self.pick(*[self.service()] * 6, "fd00:9:1::/126", "fd00:9:1::/120",
                             "fd00:9:1::/64", "fd00:9::/32")
        return self.pick(*[self.service()] * 6, "10.9.1.0/30", "10.9.1.4/30", "10.9.1.0/29",
                         "10.9.1.0/24", "10.9.0.0/16", "default")

    def where(self):
        table = self.pick(*[nw.TO_SERVICE] * 4, nw.OTHER_TABLE)
        return f"table {table}" + self.pick("", "", "", " metric 100", " metric 300")

    def route_set(self):
        verb = self.pick("replace", "replace", "replace", "add", "append", "prepend")
        route = self.prefix(), self.where()
        self.routes.append(route)
        return Change("route", [f"route {verb} {route[0]} {self.target()} {route[1]}"])

    def route_none(self):
        kind = self.pick("unreachable", "blackhole", "prohibit", "throw")
        route = self.prefix(), self.where()
        self.routes.append(route)
        verb = self.pick("replace", "add")
        return Change("no route", [f"route {verb} {kind} {route[0]} {route[1]}"])

    def route_delete(self):
        if not self.routes:
            return self.route_set()
        route = self.routes.pop(self.rng.randrange(len(self.routes)))
        return Change("route deleted", [f"route del {route[0]} {route[1]}"])

    def route_back(self):
        """The way from a server to a client."""
        link, number = self.rng.randrange(nw.LINKS), self.pick(1, 1, 2)
        dst = nw.client(link, number)
        server = f"s{self.pick(link, link, self.rng.randrange(nw.LINKS))}"
        line = self.pick(
            f"route replace {dst} dev {server}",
            f"route replace {dst} dev {server}",
            f"route add 10.{link + 1}.1.0/24 dev {server}",
            f"route add {dst} dev {server} metric 50",
            f"route del {dst} metric 50",
            f"route del {dst}",
            f"route del 10.{link + 1}.1.0/24")
        return Change("route back", [f"{line} table {nw.TO_CLIENT}"])

    def nexthop(self):
        self.family = 4
        hop, _ = self.hop()
        group = self.pick("1/2", "1/3", "2/3", "1", "1,1/2,3", "1/2/3")
        line = self.pick(
            *[f"nexthop replace id {self.pick(1, 1, 2, 3)} {hop}"] * 5,
            *[f"nexthop replace id 10 group {group}"] * 4,
            f"nexthop del id {self.pick(1, 2, 3, 10)}")
        return Change("nexthop", [line])

    def rule(self):
        if self.rules and self.chance(0.45):
            return Change("rule deleted", [self.rules.pop(self.rng.randrange(len(self.rules)))])
        pref, dst = self.pick(*RULE_PREFS), self.service()
        self.rules.append(f"{self.six('rule')} del pref {pref}")
        source = ""
        if self.family == 4 and self.chance(0.3):
            source = f"from {nw.client(self.rng.randrange(nw.LINKS))} "
        action = self.pick(*[f"lookup {nw.OTHER_TABLE}"] * 5, "unreachable", "blackhole")
        return Change("rule", [self.six(f"rule add pref {pref} {source}to {dst} {action}")])

    # --- links ------------------------------------------------------------

    def link_down(self):
        netdev = self.pick(*nw.NETDEVS)
        self.down.add(netdev)
        return Change("link down", [f"link set {netdev} down"])

    def link_up(self):
        netdev = self.pick(*sorted(self.down))
        self.down.discard(netdev)
        # Its neighbours went with it.
        return Change("link up", [f"link set {netdev} up"] + nw.neighbours({netdev}))

    def link_flap(self):
        netdev = self.pick(*nw.NETDEVS)
        return Change("link flap", [f"link set {netdev} down", f"link set {netdev} up"] +
                      nw.neighbours({netdev}), rough=True)

    def lladdr(self):
        netdev = self.pick(*nw.NETDEVS)
        number = self.pick(0, 1, 2)
        self.lladdrs.add(netdev)
        address = nw.mac(netdev) if not number else f"02:00:00:00:{number:02x}:0{netdev[1]}"
        return Change("link-layer address", [f"link set {netdev} address {address}"] +
                      nw.neighbours({netdev}), rough=True)

    # --- addresses --------------------------------------------------------

    def address(self):
        link, number = self.rng.randrange(nw.LINKS), self.pick(1, 1, 2)
        verb = self.pick("add", "add", "del")
        address = f"{nw.client(link, number, self.family)}/{nw.length(self.family)}"
        return Change("address", [f"addr {verb} {address} dev c{link}"])

    def address_moves(self):
        link, number = self.rng.randrange(nw.LINKS), self.pick(1, 2)
        there = (link + self.pick(1, 2)) % nw.LINKS
        if self.chance(0.5):
            link, there, home = there, link, there
        else:
            home = link
        address = f"{nw.client(home, number)}/24"
        return Change("address moves", [f"addr del {address} dev c{link}",
                                        f"addr add {address} dev c{there}"], rough=True)

    def service_address(self):
        verb = self.pick("add", "add", "del")
        return Change("service address",
                      [f"addr {verb} {nw.service(self.pick(*nw.services(4)))}/32 dev "
                       f"{self.pick(*nw.SERVERS)}"])

    def listen_address(self):
        number = self.pick(1, 2, 3)
        address = f"{nw.listen_address(number)}/32"
        holders = self.listen[number]
        there = self.pick(*nw.SERVERS)
        if not holders or self.chance(0.15):
            holders.add(there)
            return Change("listen address", [f"addr add {address} dev {there}"])
        here = self.pick(*sorted(holders))
        holders.remove(here)
        lines = [f"addr del {address} dev {here}"]
        if self.chance(0.4):
            return Change("listen address", lines)
        holders.add(there)
        lines.append(f"addr add {address} dev {there}")
        return Change("listen address moves", lines, rough=True)

    # --- neighbours -------------------------------------------------------

    def neighbour(self):
        link = self.rng.randrange(nw.LINKS)
        if self.family == 4 and self.chance(0.3):
            netdev, address = f"s{link}", nw.client(self.rng.randrange(nw.LINKS))
            good = nw.mac(f"c{link}")
        else:
            netdev, good = f"c{link}", nw.mac(f"s{link}")
            address = self.pick(self.service(), nw.gateway(link, 0, self.family),
                                nw.gateway(link, 1, self.family))
        lladdr = self.pick(good, good, nw.FOREIGN_MAC, "02:00:00:00:99:98")
        state = self.pick("permanent", "permanent", "reachable", "stale", "noarp")
        line = f"neigh replace {address} lladdr {lladdr} dev {netdev} nud {state}"
        if self.chance(0.15):
            line = f"neigh del {address} dev {netdev}"
        return Change("neighbour", [line])

    # --- what concerns nobody ----------------------------------------------

    def silent(self):
        netdev = self.pick(*nw.NETDEVS)
        link = self.rng.randrange(nw.LINKS)
        return Change("silent", self.pick(
            [f"link set {netdev} mtu {self.pick(1500, 1400, 2000)}"],
            [f"link set {netdev} name odd0", f"link set odd0 name {netdev}"],
            [f"link set {netdev} txqueuelen {self.pick(500, 1000)}"],
            [f"link set {netdev} promisc {self.pick('on', 'off')}"],
            [f"addr change {nw.client(link)}/24 dev c{link} valid_lft 5000 preferred_lft 4000"],
            [f"addr change {nw.client(link)}/24 dev c{link} valid_lft 5000 preferred_lft 0"],
            [f"addr add 10.77.0.1/24 dev {netdev}"],
            [f"addr del 10.77.0.1/24 dev {netdev}"],
            [f"route replace 10.66.0.0/16 dev {netdev} table main"],
            [f"route replace 10.9.1.0/24 dev {netdev} table 7099"],
            ["rule add pref 20 to 10.66.0.0/16 lookup 7099"],
            ["rule del pref 20"],
            [f"neigh replace 10.66.0.1 lladdr {nw.FOREIGN_MAC} dev {netdev} nud permanent"],
            ["link add odd1 type dummy", "link set odd1 up", "link del odd1"]))

    # --- back to the beginning ---------------------------------------------

    def repair(self):
        lines = list(self.rules)
        lines += nw.repair(sorted(self.lladdrs), [r for r in self.routes if r not in self.base])
        lines += [f"route flush table {nw.OTHER_TABLE}",
                  f"-6 route flush table {nw.OTHER_TABLE}"]
        self.begin()
        return Change("repair", lines, rough=True)


WEIGHTS = {
    "route_set": 22,
    "route_none": 3,
    "route_delete": 12,
    "route_back": 8,
    "nexthop": 14,
    "rule": 12,
    "link_down": 5,
    "link_flap": 1,
    "lladdr": 2,
    "address": 5,
    "address_moves": 2,
    "service_address": 2,
    "listen_address": 4,
    "neighbour": 8,
    "silent": 5,
    "repair": 5,
}
