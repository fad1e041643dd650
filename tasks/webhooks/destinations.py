"""Where webhooks may go: public addresses over HTTP, and nowhere inside our own network.

Anybody who can register an endpoint chooses a URL that our servers call. Without this guard that is a way to
the cloud's metadata service, to the database's HTTP port or to the admin of the router (SSRF). The address is
resolved once, checked, and then connected to as checked: a second lookup could give another answer.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import httpx
from django.conf import settings

from tasks.webhooks.errors import ForbiddenDestinationError, ReceiverUnavailableError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], list[str]]
# NAT64: the last 32 bits are an IPv4 address.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Destination:
    """Checked addresses to connect to, and the name that the receiver is called by."""

    url: httpx.URL
    addresses: tuple[str, ...]

    @property
    def connect_urls(self) -> list[httpx.URL]:
        """The URL with each checked address in the place of the host name."""
        return [self.url.copy_with(host=address) for address in self.addresses]

    @property
    def host_name(self) -> str:
        return self.url.raw_host.decode("ascii")

    @property
    def host_header(self) -> str:
        return self.url.netloc.decode("ascii")


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host.

    Raises:
        ReceiverUnavailableError: the name does not resolve, perhaps only now.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, OverflowError) as error:
        raise ReceiverUnavailableError(
            f"The endpoint's host name does not resolve: {host} ({error})."
        ) from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def is_private_allowed() -> bool:
    """Return the setting WEBHOOKS_ALLOW_PRIVATE; DEBUG when unset."""
    allowed = getattr(settings, "WEBHOOKS_ALLOW_PRIVATE", None)
    return settings.DEBUG if allowed is None else bool(allowed)


def receiver_of(url: str) -> str:
    """Return the host and port of a URL, checked or not: who is down when no answer comes."""
    try:
        return httpx.URL(url).netloc.decode("ascii")
    except httpx.InvalidURL:
        return "no host"


def check_destination(url: str, *, allow_private: bool, resolver: Resolver = resolve) -> Destination:
    """Return where to connect for this URL.

    Args:
        url: the endpoint's URL.
        allow_private: accept loopback and private addresses too: for development, or receivers next door.
            Link-local addresses (the metadata service of clouds) are refused in any case.
        resolver: finds the addresses of a host.

    Raises:
        ForbiddenDestinationError: another scheme, credentials in the URL, or an address that is not allowed.
        ReceiverUnavailableError: the host name does not resolve.
    """
    parsed = _parse(url)
    port = parsed.port or {"http": 80, "https": 443}[parsed.scheme]
    host = parsed.raw_host.decode("ascii")
    addresses = resolver(host, port)
    _refuse_forbidden(host, addresses, allow_private=allow_private)
    return Destination(parsed, tuple(addresses))


def _parse(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ForbiddenDestinationError(
            f"The endpoint's URL cannot be parsed: {error}. Correct it."
        ) from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ForbiddenDestinationError(
            f"The endpoint's URL has the scheme {parsed.scheme!r} and the host {parsed.host!r}. "
            "Use http:// or https:// and a host name."
        )
    if parsed.userinfo:
        raise ForbiddenDestinationError(
            "The endpoint's URL contains a user name or password. Remove it: the signature tells who sends."
        )
    return parsed


def _refuse_forbidden(host: str, addresses: Iterable[str], *, allow_private: bool) -> None:
    # All of them: a name with one public and one private address is how a guard is led astray.
    for text in addresses:
        address = _effective_address(text)
        if address.is_global and not _is_never_allowed(address):
            continue
        if allow_private and (address.is_loopback or address.is_private) and not _is_never_allowed(address):
            continue
        raise ForbiddenDestinationError(
            f"The endpoint's host {host} is at {text}, which is not a public address. "
            "Correct the URL; for a receiver in your own network set WEBHOOKS_ALLOW_PRIVATE."
        )


def _effective_address(text: str) -> Address:
    """Return the address that is reached in the end, also where an IPv6 address only wraps an IPv4 one."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return address.ipv4_mapped or address.sixtofour or address
    return address


def _is_never_allowed(address: Address) -> bool:
    site_local = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
    reserved = address.is_reserved and not address.is_loopback
    return address.is_link_local or address.is_multicast or address.is_unspecified or reserved or site_local
