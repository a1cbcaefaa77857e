#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Send what a router says, without one.

usage: icmp.py redirect FROM HOST DEST GATEWAY
       icmp.py redirect6 FROM%NETDEV HOST DEST GATEWAY LLADDR
       icmp.py advertise NETDEV LIFETIME_S

redirect: FROM, the present gateway, tells HOST that DEST is reached by GATEWAY.
advertise: a default route through the sender, for so long; 0 ends it.
"""
import socket
import struct
import sys

ICMP_REDIRECT, ICMP_REDIRECT_HOST, ICMP_ECHOREPLY = 5, 1, 0
ND_ROUTER_ADVERT, ND_REDIRECT, ND_OPT_TARGET_LLADDR = 134, 137, 2


def checksum(data):
    """The Internet checksum; ICMPv6's is the kernel's business."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def redirect(router, host, dest, gateway):
    # The packet that caused it. The kernel acts for what it sent itself, as an echo
    # reply; for all else it looks for a socket.
    cause = struct.pack(
        "!BBHHHBBH4s4s",
        *(0x45, 0, 28, 0, 0, 64, socket.IPPROTO_ICMP, 0),
        socket.inet_aton(host),
        socket.inet_aton(dest),
    ) + struct.pack("!BBHHH", ICMP_ECHOREPLY, 0, 0, 1, 1)
    fields = (ICMP_REDIRECT, ICMP_REDIRECT_HOST, socket.inet_aton(gateway))
    total = checksum(struct.pack("!BBH4s", *fields[:2], 0, fields[2]) + cause)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
        sock.bind((router, 0))
        sock.sendto(struct.pack("!BBH4s", *fields[:2], total, fields[2]) + cause, (host, 0))


def send6(source, netdev, dest, message):
    """Neighbour discovery believes nothing that crossed a router."""
    with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as sock:
        index = socket.if_nametoindex(netdev)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 255)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        if source:
            sock.bind((source, 0, 0, index))
        sock.sendto(message, (dest, 0, 0, index))


def redirect6(router, host, dest, gateway, lladdr):
    source, netdev = router.split("%")
    message = struct.pack(
        "!BBHI16s16sBB6s",
        *(ND_REDIRECT, 0, 0, 0),
        socket.inet_pton(socket.AF_INET6, gateway),
        socket.inet_pton(socket.AF_INET6, dest),
        *(ND_OPT_TARGET_LLADDR, 1),
        bytes.fromhex(lladdr.replace(":", "")),
    )
    send6(source, netdev, host, message)


def advertise(netdev, lifetime):
    message = struct.pack("!BBHBBHII", ND_ROUTER_ADVERT, 0, 0, 64, 0, int(lifetime), 0, 0)
    send6(None, netdev, "ff02::1", message)


def main():
    commands = {"redirect": redirect, "redirect6": redirect6, "advertise": advertise}
    try:
        commands[sys.argv[1]](*sys.argv[2:])
    except (IndexError, KeyError, TypeError, ValueError):
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
