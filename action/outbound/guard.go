package outbound

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/stepwell/stepwell"
)

// guard decides which addresses may be reached. It looks at the address of the connection that is
// about to be made, so that no name, redirect or second answer of a name server leads around it
// (semantics §7, server-side request forgery).
type guard struct {
	private bool
	hosts   []string
	cidrs   []netip.Prefix
	only    []string // nil: any
}

func newGuard(o Options) (*guard, error) {
	g := &guard{private: o.AllowPrivate, cidrs: o.AllowCIDRs}
	var err error
	if g.hosts, err = hosts(o.AllowHosts); err != nil {
		return nil, err
	}
	if o.OnlyHosts != nil {
		if g.only, err = hosts(o.OnlyHosts); err != nil {
			return nil, err
		}
	}
	for _, p := range o.AllowCIDRs {
		if !p.IsValid() {
			return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "an allowed network is not valid", Hint: "write it like 10.1.0.0/16"}
		}
	}
	return g, nil
}

func hosts(names []string) ([]string, error) {
	out := []string{}
	for _, h := range names {
		h = strings.TrimSuffix(strings.ToLower(h), ".")
		if rest := strings.TrimPrefix(h, "*."); rest == "" || strings.ContainsAny(rest, "*/@ ") {
			return nil, stepwell.Invalid("write a name, a name with a port, or *.name for the names below it", "allowed host %q is not a host", h)
		}
		out = append(out, h)
	}
	return out, nil
}

// dial connects to the first permitted address of the host.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if g.only != nil && !among(g.only, address) {
		return nil, blocked("no request goes to %s: its host is not allowed", address)
	}
	return g.dialer(address).DialContext(ctx, network, address)
}

// control refuses an address before anything is sent to it.
func (g *guard) control(host string) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return g.check(host, address)
	}
}

// check says why the resolved address of the host ("host:port") must not be reached.
func (g *guard) check(host, address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return blocked("an address of %s is not valid", host)
	}
	addr := to.Addr().WithZone("").Unmap()
	if g.named(host) {
		return nil
	}
	for _, p := range g.cidrs {
		if p.Contains(addr) {
			return nil
		}
	}
	kind, hint := classOf(addr)
	if kind == "" || g.private && (kind == "private" || kind == "loopback") {
		return nil
	}
	return &Failure{Kind: KindBlocked, Err: stepwell.Invalid(hint, "%s leads to the %s address %s, which steps may not reach", host, kind, addr)}
}

func blocked(format string, args ...any) error {
	return &Failure{Kind: KindBlocked, Err: &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf(format, args...)}}
}

// named reports whether the host is allowed by name.
func (g *guard) named(address string) bool { return among(g.hosts, address) }

// among reports whether an address ("host:port") is one of the hosts.
func among(hosts []string, address string) bool {
	address = strings.ToLower(address)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	host = strings.TrimSuffix(host, ".")
	for _, allowed := range hosts {
		name, wantPort, err := net.SplitHostPort(allowed)
		if err != nil {
			name, wantPort = allowed, port
		}
		suffix, below := strings.CutPrefix(name, "*")
		if wantPort == port && (name == host || below && strings.HasSuffix(host, suffix)) {
			return true
		}
	}
	return false
}

const (
	privateHint = "if it is meant to, allow it in stepwell.yaml: http: {allow_hosts: [this.host]}, or allow_private: true for all private addresses"
	otherHint   = "if it is meant to, allow it in stepwell.yaml: http: {allow_hosts: [this.host]} or allow_cidrs"
)

// special are the networks outside the public internet, beyond those that netip knows.
var special = []struct {
	prefix netip.Prefix
	kind   string
}{
	{netip.MustParsePrefix("169.254.169.254/32"), "metadata"},
	{netip.MustParsePrefix("100.100.100.200/32"), "metadata"},
	{netip.MustParsePrefix("168.63.129.16/32"), "metadata"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "metadata"},
	{netip.MustParsePrefix("100.64.0.0/10"), "private"}, // RFC 6598
	{netip.MustParsePrefix("0.0.0.0/8"), "reserved"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), "reserved"},
	{netip.MustParsePrefix("198.18.0.0/15"), "reserved"},
	{netip.MustParsePrefix("198.51.100.0/24"), "reserved"},
	{netip.MustParsePrefix("203.0.113.0/24"), "reserved"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("::/128"), "reserved"},
	{netip.MustParsePrefix("100::/64"), "reserved"},
	{netip.MustParsePrefix("2001::/32"), "tunnelled"}, // Teredo
	{netip.MustParsePrefix("2001:db8::/32"), "reserved"},
	{netip.MustParsePrefix("fec0::/10"), "private"},
}

// classOf names the kind of a non-public address, "" for a public one, with the options that would allow it.
func classOf(addr netip.Addr) (kind, hint string) {
	addr = embedded(addr)
	for _, s := range special {
		if s.prefix.Contains(addr) {
			if s.kind == "private" {
				return s.kind, privateHint
			}
			return s.kind, otherHint
		}
	}
	switch {
	case addr.IsLoopback():
		return "loopback", privateHint
	case addr.IsPrivate():
		return "private", privateHint
	case addr.IsLinkLocalUnicast(), addr.IsLinkLocalMulticast():
		return "link-local", otherHint
	case addr.IsMulticast():
		return "multicast", otherHint
	}
	return "", ""
}

var (
	translated = []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/96"), netip.MustParsePrefix("::/96")}
	sixToFour  = netip.MustParsePrefix("2002::/16")
)

// embedded is the IPv4 address that an IPv6 address of a translation mechanism stands for.
func embedded(addr netip.Addr) netip.Addr {
	raw := addr.As16()
	if !addr.Is6() || addr.IsLoopback() || addr.IsUnspecified() {
		return addr
	}
	if sixToFour.Contains(addr) {
		return netip.AddrFrom4([4]byte(raw[2:6]))
	}
	for _, p := range translated {
		if p.Contains(addr) {
			return netip.AddrFrom4([4]byte(raw[12:16]))
		}
	}
	return addr
}
