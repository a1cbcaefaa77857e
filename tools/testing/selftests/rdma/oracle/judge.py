# SPDX-License-Identifier: GPL-2.0
"""What the contract calls an id: aligned, superseded or down, and why.

Pure: a verdict follows from a snapshot of the network and from the path that the id
was resolved to. Nothing here knows how the module finds out.
"""
ALIGNED, SUPERSEDED, DOWN = "aligned", "superseded", "down"

# The first that holds is told.
PRECEDENCE = ("LINK", "ADDRESS", "FAILOVER", "ROUTE", "UNREACHABLE", "NEIGHBOUR")

NO_PATH = (0, -1, 0)


class Verdict:
    """A class, a reason unless aligned, and the path that a new id would get.

    The path is (ifindex, RDMA device, port), or None where the contract leaves open what
    a new id would get."""

    def __init__(self, kind, reason=None, new=NO_PATH):
        self.kind = kind
        self.reason = reason
        self.new = new

    def __repr__(self):
        return f"{self.kind} {self.reason or ''} new={self.new}"


class Path:
    """What an id was resolved to."""

    def __init__(self, net, netdev, device, address, hop_via, lladdr):
        self.netdev = netdev
        self.device = device
        self.address = address
        self.via = hop_via
        self.lladdr = lladdr  # of the next hop
        self.ifindex = net.ifindex(netdev)
        self.rdma_index = net.rdma_index[device]
        self.own_lladdr = net.lladdr(netdev)
        self.slot = net.slot(device, address, netdev)

    def __repr__(self):
        via = f" via {self.via}" if self.via else ""
        return (f"{self.netdev} {self.device} gid {self.slot} src {self.address}{via}"
                f" at {self.lladdr}")


class Request:
    """What an id asked for: new ids with the same request get the new path."""

    def __init__(self, dst, src=None, pinned=False):
        self.dst = dst
        self.src = src
        self.pinned = pinned

    def __repr__(self):
        return f"to {self.dst}" + (f" from {self.src}" if self.src else "") + \
            (" pinned" if self.pinned else "")


def questions(request, netdevs):
    """What a snapshot has to ask for this request, whatever netdevice the id is on."""
    if request.dst is None:
        return []
    out = []
    if not request.pinned:
        out += [(kind, request.dst, request.src, None) for kind in ("get", "fib")]
        out += [("fib", request.dst, request.src, netdev) for netdev in netdevs]
    else:
        out += [(kind, request.dst, request.src, netdev)
                for kind in ("get", "fib") for netdev in netdevs]
    return out


def new_path(net, request):
    """(netdevice, source address, hop) of a new id, or None."""
    if request.pinned:
        holders = net.holders(request.src)
        if not holders:
            return None
        hop = net.chosen(request.dst, request.src, holders[0])
        if hop and hop.netdev != holders[0]:
            hop = None
        return (holders[0], request.src, hop) if hop else None
    hop = net.chosen(request.dst, request.src)
    if not hop:
        return None
    return hop.netdev, request.src or hop.prefsrc, hop


def new_numbers(net, path):
    """A new path as a report names it."""
    if not path:
        return NO_PATH
    netdev, address, _ = path
    device = net.rdma_device(netdev, address)
    if device is None:
        return (net.ifindex(netdev), -1, 0)
    return (net.ifindex(netdev), net.rdma_index[device], 1)


def next_hop_moved(net, path, dst, hops):
    """Whether the id's netdevice now reaches the next hop elsewhere."""
    same = [hop for hop in hops if hop.via == path.via]
    known = [net.neighbour(path.netdev, hop.via or dst) for hop in same or hops]
    return bool(known) and all(lladdr not in (None, path.lladdr) for lladdr in known)


def judge_route(net, request, path):
    """[(reason, down)] of what concerns routes and next hops."""
    dst, src = request.dst, request.src
    own = net.members(dst, src, path.netdev)
    if request.pinned:
        if not own and path.via:
            return [("UNREACHABLE", True)]
        # On link: without a route the kernel assumes just that.
        if next_hop_moved(net, path, dst, own or [HERE]):
            return [("NEIGHBOUR", False)]
        return []
    hops = net.members(dst, src)
    if not hops:
        return [("UNREACHABLE", True)]
    here = [hop for hop in hops if hop.netdev == path.netdev]
    if not here:
        return [("ROUTE", not own)]
    if next_hop_moved(net, path, dst, here):
        return [("NEIGHBOUR", False)]
    return []


class HERE:
    """The next hop of who is on link."""

    via = None


def judge_device(net, path):
    """[(reason, down)] of what concerns the netdevice and its RDMA device."""
    found = []
    if net.ifindex(path.netdev) != path.ifindex:
        return [("LINK", True)]
    if not net.up(path.netdev) or not net.port_active(path.device):
        found.append(("LINK", True))
    if not net.has_address(path.netdev, path.address):
        found.append(("ADDRESS", True))
    elif net.slot(path.device, path.address, path.netdev) != path.slot:
        found.append(("FAILOVER", True))
    if net.lladdr(path.netdev) != path.own_lladdr:
        found.append(("FAILOVER", False))
    return found


def judge(net, request, path):
    """The verdict on an id that has a destination."""
    found = judge_device(net, path) + judge_route(net, request, path)
    new = new_numbers(net, new_path(net, request))
    if not found:
        return Verdict(ALIGNED, None, new)
    if request.pinned:
        if path.via and not net.members(request.dst, request.src, path.netdev):
            new = None  # it would be resolved on link, and reach nobody
        holders = net.holders(request.src)
        if len(holders) > 1:
            new = None  # whichever the kernel finds first
        elif holders and not new_path(net, request):
            new = None  # IPv6 goes by another netdevice than it was told to
    reason = min((reason for reason, _ in found), key=PRECEDENCE.index)
    kind = DOWN if any(down for _, down in found) else SUPERSEDED
    return Verdict(kind, reason, new)


def judge_listener(net, path):
    """The verdict on a listener, None where the contract has nothing to say: an address
    that just left is not reported, and it may come back."""
    if net.has_address(path.netdev, path.address):
        return Verdict(ALIGNED, None, new_numbers(net, (path.netdev, path.address, None)))
    found = [(netdev, path.address, None) for netdev in net.holders(path.address)
             if net.rdma_device(netdev, path.address) not in (None, path.device)]
    if not found:
        return None
    reason = "ADDRESS" if net.up(path.netdev) else "LINK"
    # Of several it is whichever the kernel finds first.
    return Verdict(DOWN, reason, new_numbers(net, found[0]) if len(found) == 1 else None)
