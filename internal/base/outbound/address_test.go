package outbound

import (
	"net/netip"
	"testing"
)

func TestAddressesThatAreNotPublic(t *testing.T) {
	t.Parallel()
	for _, private := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.255", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8",
		"192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "100.100.100.200", "168.63.129.16",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "fe80::1", "fe80::1%eth0", "2606:4700::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "2001::1",
		"2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "fec0::1", "100::1", "4000::1",
	} {
		if IsPublic(netip.MustParseAddr(private)) {
			t.Errorf("%s counts as public", private)
		}
	}
	for _, public := range []string{"8.8.8.8", "::ffff:8.8.8.8", "172.32.0.1", "2606:4700:4700::1111", "2002:808:808::1", "64:ff9b::808:808", "100.128.0.1"} {
		if !IsPublic(netip.MustParseAddr(public)) {
			t.Errorf("%s does not count as public", public)
		}
	}
	if IsPublic(netip.Addr{}) {
		t.Error("no address counts as public")
	}
}

func TestDestinationsAreParsed(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "http://mcp.internal", "mcp.internal:0", "mcp.internal:70000", "mcp.internal:x", "10.0.0.0/33", "a b", "a/b", "*.internal", "user@host", "a..b", ":80"} {
		if _, err := ParseDestinations([]string{bad}); err == nil {
			t.Errorf("%q is a destination", bad)
		}
	}
	if _, err := ParseDestinations(make([]string, MaxDestinations+1)); err == nil {
		t.Error("a list has no end")
	}
	for _, c := range []struct {
		list, host, port, address string
		want                      bool
	}{
		{"10.20.0.0/16", "any.internal", "80", "10.20.1.1", true},
		{"10.20.0.0/16", "any.internal", "80", "10.21.1.1", false},
		{"::ffff:10.20.0.0/112", "any.internal", "80", "10.20.1.1", true},
		{"10.20.0.7", "any.internal", "8000", "10.20.0.7", true},
		{"10.20.0.7:8000", "any.internal", "8000", "10.20.0.7", true},
		{"10.20.0.7:8000", "any.internal", "8001", "10.20.0.7", false},
		{"[fd00::1]:443", "any.internal", "443", "fd00::1", true},
		{"fd00::/8", "any.internal", "443", "fd00::1", true},
		{"mcp.internal:8000", "MCP.internal.", "8000", "10.0.0.1", true},
		{"mcp.internal:8000", "mcp.internal", "8001", "10.0.0.1", false},
		{"mcp.internal", "mcp.internal", "8001", "10.0.0.1", true},
		{"mcp.internal", "other.mcp.internal", "8001", "10.0.0.1", false},
	} {
		list, err := ParseDestinations([]string{" " + c.list})
		if err != nil {
			t.Fatal(err)
		}
		if got := matches(list, c.host, c.port, netip.MustParseAddr(c.address)); got != c.want {
			t.Errorf("%s matches %s:%s at %s: %v", c.list, c.host, c.port, c.address, got)
		}
	}
}
