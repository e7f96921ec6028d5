"""Which URLs and addresses Tidegate calls for a customer."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.delivery.egress.guard import check_destination, is_public, parse_target
from streams.delivery.egress.policy import EgressPolicy
from streams.errors import EgressDenied, TidegateError

PUBLIC = ("1.1.1.1", "8.8.8.8", "93.184.215.14", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e")
NOT_PUBLIC = (
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.0.1",
    "168.63.129.16",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:0:127.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:53aa:64c:0:fbfe:80ff:fffe",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:a00:1::1",
    "2002:808:808::1",
    "2606:4700::5efe:10.0.0.1",
    "2606:4700::200:5efe:10.0.0.1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fe80::1%eth0",
    "2606:4700:4700::1111%1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
)
ODD_URLS = {
    "scheme": (
        "",
        "example.com",
        "//example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https:x",
        "gopher://example.com",
        "javascript:alert(1)",
        "unix:///run/x",
        "http://example.com/",
    ),
    "user_info": (
        "https://a@example.com/",
        "https://a:b@example.com/",
        "https://@example.com/",
        "https://example.com@127.0.0.1/",
    ),
    "port": (
        "https://example.com:0/",
        "https://example.com:22/",
        "https://example.com:25/",
        "https://example.com:6379/",
        "https://example.com:9092/",
    ),
    "address": (
        "https://localhost/",
        "https://LOCALHOST./",
        "https://a.localhost:8443/",
        "https://127.0.0.1/",
        "https://１２７.０.０.１/",
        "https://127。0。0。1/",
        "https://[::1]/",
        "https://[::ffff:7f00:1]/",
        "https://[::ffff:127.0.0.1]:444/",
        "https://[fd00:ec2::254]/",
        "https://169.254.169.254/latest/meta-data/",
    ),
    "syntax": (
        "https://",
        "https:///x",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://0x7f000001/",
        "https://127.1/",
        "https://127.0.0.1./",
        "https://1.2.3.4.5/",
        "https://256.1.1.1/",
        "https://a.0x/",
        "https://example.1/",
        "https://[fe80::1%25eth0]/",
        "https://[fe80::1%eth0]/",
        "https://%6c%6f%63%61%6c%68%6f%73%74/",
        "https://ex%61mple.com",
        "https://a..b/",
        "https://.a/",
        "https://a../",
        "https://exa$mple.com/",
        "https://-a.com/",
        "https://a b.com/",
        " https://a.com/",
        "https://a\tb.com/",
        "https://a\x00.com/",
        "https://a.com/\r\nX: y",
        "https://a\\@b.com/",
        "https://a.com\\b",
        "https://a.com:99999/",
        "https://a.com:x/",
        "https://a.com:-1/",
        "https://[::1/",
        "https://[1.2.3.4]/",
        "https://[v1.a:b]/",
        f"https://{'a' * 64}.com/",
        f"https://{'a.' * 127}com/",
        f"https://{'ü' * 70}.com/",
        f"https://a.com/{'a' * 2048}",
        "https://ex\u202eample.com/",
        "https://a\xad.com/",
    ),
}
ALLOWED_URLS = (
    "https://example.com",
    "https://example.com./hook?a=b#c",
    "HTTPS://EXAMPLE.com:8443/",
    "https://bücher.example/ü",
    "https://xn--bcher-kva.example/",
    "https://1.1.1.1/",
    "https://[2606:4700:4700::1111]:444/x",
    "https://a_b.example/",
    "https://example.com/%20@x:y",
    "https://4.example/",
    "https://receiver/hook",
)


def reason(url: str, policy: EgressPolicy | None = None) -> str:
    with pytest.raises(EgressDenied) as denied:
        parse_target(url, policy or EgressPolicy())
    assert isinstance(denied.value, TidegateError)
    return denied.value.reason


class Lookup:
    """A name server with one answer, which counts its questions."""

    def __init__(self, answer: Sequence[str]) -> None:
        self._answer = answer
        self.asked: list[str] = []

    async def __call__(self, name: str) -> Sequence[str]:
        self.asked.append(name)
        return self._answer


def answering(*addresses: str) -> Lookup:
    return Lookup(addresses)


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)
    assert is_public(ip_address(address))


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_special_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


@settings(deadline=None)
@given(st.ip_addresses(v=4))
def test_no_address_is_public_that_python_calls_private(address: IPv4Address) -> None:
    assert not is_public(address) or (address.is_global and not address.is_multicast)


@settings(deadline=None)
@given(st.ip_addresses(v=6))
def test_an_ipv6_address_is_public_only_if_no_ipv4_address_is_in_it(address: IPv6Address) -> None:
    if is_public(address):
        assert address.is_global
        assert (address.ipv4_mapped, address.sixtofour, address.teredo) == (None, None, None)


@settings(deadline=None)
@given(st.ip_addresses(v=4), st.sampled_from(("::", "::ffff:", "64:ff9b::", "64:ff9b:1::")))
def test_an_ipv4_address_in_ipv6_form_is_never_public(address: IPv4Address, prefix: str) -> None:
    assert not is_public(f"{prefix}{address}")


@pytest.mark.parametrize(("why", "url"), [(w, url) for w, urls in ODD_URLS.items() for url in urls])
def test_odd_urls_are_denied_with_their_reason(why: str, url: str) -> None:
    assert reason(url) == why


@pytest.mark.parametrize("url", ALLOWED_URLS)
def test_plain_urls_are_allowed(url: str) -> None:
    parse_target(url, EgressPolicy())


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_a_literal_that_is_not_public_is_denied(address: str) -> None:
    assert reason(f"https://[{address}]/" if ":" in address else f"https://{address}/")


def test_a_message_names_the_host_and_repeats_nothing_else_of_the_url() -> None:
    with pytest.raises(EgressDenied, match=r"10\.0\.0\.1 is not a public address") as denied:
        parse_target("https://10.0.0.1/token-4711?key=4711", EgressPolicy())
    assert "4711" not in str(denied.value)


def test_http_and_inside_networks_are_allowed_by_setting() -> None:
    policy = EgressPolicy(allowed_networks=(ip_network("127.0.0.0/8"),), allow_http=True)
    for url in ("http://127.0.0.1:8000/", "http://localhost:8000/", "https://a.localhost/"):
        parse_target(url, policy)
    assert reason("http://10.0.0.1/", policy) == "address"


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "100.100.100.200",
        "[fd00:ec2::254]",
        "0.0.0.0",
        "[::]",
        "224.0.0.1",
        "[ff02::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:169.254.169.254]",
    ],
)
def test_no_list_of_networks_opens_metadata_multicast_or_mapped_addresses(address: str) -> None:
    policy = EgressPolicy(allowed_networks=(ip_network("0.0.0.0/0"), ip_network("::/0")))
    assert reason(f"https://{address}/", policy) == "address"


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.acme.example/",
        "https://HOOKS.acme.example./v1",
        "https://1.1.1.1:8443/",
        "https://[2606:4700:4700::1111]:8443/",
    ],
)
def test_our_own_host_is_denied(url: str) -> None:
    own = {"hooks.acme.example", "1.1.1.1:8443", "[2606:4700:4700::1111]:8443"}
    assert reason(url, EgressPolicy(own_hosts=frozenset(own))) == "own_host"
    parse_target("https://1.1.1.1/", EgressPolicy(own_hosts=frozenset(own)))


async def test_one_private_address_among_public_ones_denies_the_name() -> None:
    lookup = answering("1.1.1.1", "2606:4700:4700::1111", "10.0.0.1")
    with pytest.raises(EgressDenied, match=r"a\.example leads to 10\.0\.0\.1"):
        await check_destination("https://a.example/", EgressPolicy(), lookup)
    assert lookup.asked == ["a.example"]


async def test_a_name_with_public_addresses_is_allowed_and_a_literal_is_not_looked_up() -> None:
    lookup = answering("1.1.1.1", "2606:4700:4700::1111")
    await check_destination("https://a.example/", EgressPolicy(), lookup)
    await check_destination("https://1.1.1.1/", EgressPolicy(), lookup)
    assert lookup.asked == ["a.example"]


@pytest.mark.parametrize(("count", "allowed"), [(50, True), (51, False)])
async def test_a_name_has_at_most_fifty_addresses(count: int, allowed: bool) -> None:
    lookup = answering(*(f"1.1.1.{n}" for n in range(count)))
    if allowed:
        await check_destination("https://a.example/", EgressPolicy(), lookup)
    else:
        with pytest.raises(EgressDenied, match="over 50 addresses"):
            await check_destination("https://a.example/", EgressPolicy(), lookup)


async def test_a_name_that_leads_to_our_own_address_is_denied() -> None:
    policy = EgressPolicy(own_hosts=frozenset({"1.1.1.1"}))
    with pytest.raises(EgressDenied, match="Tidegate itself"):
        await check_destination("https://a.example/", policy, answering("1.1.1.1"))


async def test_a_name_without_addresses_is_denied_for_now() -> None:
    async def fails(name: str) -> Sequence[str]:
        raise OSError(-2, "Name or service not known")

    with pytest.raises(EgressDenied, match="no address now") as denied:
        await check_destination("https://a.example/", EgressPolicy(), fails)
    assert denied.value.reason == "dns"


async def test_behind_a_proxy_no_name_is_looked_up_but_literals_are_checked() -> None:
    policy = EgressPolicy(proxy="http://proxy.example:3128")
    lookup = answering("10.0.0.1")
    await check_destination("https://a.example/", policy, lookup)
    assert lookup.asked == []
    with pytest.raises(EgressDenied):
        await check_destination("https://10.0.0.1/", policy, lookup)
