"""docs/guides/hosts-and-devices.md says what the code has."""

import re

import hosts

GUIDE = (hosts.ROOT / "docs" / "guides" / "hosts-and-devices.md").read_text()


def test_versions() -> None:
    assert f"\n{', '.join(hosts.SUPPORTED)}\n" in GUIDE
    assert f"every\ntest run uses {', '.join(hosts.CI[:-1])} and {hosts.CI[-1]}." in GUIDE


def test_features() -> None:
    text = (hosts.ROOT / "src" / "abi" / "api_version.h").read_text()
    numbers = dict(re.findall(r"constexpr uint32_t (k\w+) = (\d+);", text))
    rows = re.findall(r'\{(k\w+), "([^"]+)",\s*"([^"]+)"\}', text)
    expected = [f"| 1.{numbers[gate]} | `{name}` | {without} |" for gate, name, without in rows]
    assert expected
    assert [line for line in GUIDE.splitlines() if line.startswith("| 1.")] == expected
