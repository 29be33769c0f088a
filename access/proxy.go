package access

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/stepwell/stepwell"
)

// maxHops is how many proxies are looked through.
const maxHops = 16

// Proxies are the trusted proxies, whose X-Forwarded-For counts. A nil *Proxies trusts none.
type Proxies struct{ trusted []netip.Prefix }

// NewProxies parses addresses and networks such as 10.0.0.0/8. CodeInvalid names an entry that is neither.
func NewProxies(networks ...string) (*Proxies, error) {
	p := &Proxies{}
	for _, text := range networks {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			addr, aerr := netip.ParseAddr(text)
			if aerr != nil || addr.Zone() != "" {
				return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "trusted proxy " + text + " is neither an address nor a network",
					Hint: "such as 10.1.2.3 or 10.0.0.0/8"}
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		if a := prefix.Addr(); a.Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(a.Unmap(), prefix.Bits()-96)
		}
		p.trusted = append(p.trusted, prefix.Masked())
	}
	return p, nil
}

// Trusts reports whether an address is one of the proxies.
func (p *Proxies) Trusts(addr netip.Addr) bool {
	if p == nil || !addr.IsValid() {
		return false
	}
	for _, prefix := range p.trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// ClientAddr is the address of a request's client. X-Forwarded-For is read from the right, as long as the writer is a
// trusted proxy; entries further left can be forged. It is not valid for a peer without an address, such as one at a
// Unix socket.
func (p *Proxies) ClientAddr(r *http.Request) netip.Addr {
	addr := peer(r)
	if !p.Trusts(addr) {
		return addr
	}
	hops := forwarded(r.Header)
	for i := len(hops) - 1; i >= 0; i-- {
		next, ok := hopAddr(hops[i])
		if !ok {
			return addr // the writer is the last known address
		}
		if addr = next; !p.Trusts(addr) {
			return addr
		}
	}
	return addr
}

// UserOf is for whom a trusted proxy sends a request, "" if it does not say or is not trusted.
func (p *Proxies) UserOf(r *http.Request) string {
	if !p.Trusts(peer(r)) {
		return ""
	}
	user := r.Header.Get("X-User-ID")
	if len(user) > 200 || strings.ContainsFunc(user, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return ""
	}
	return user
}

// peer is the other end of the connection.
func peer(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// forwarded are the last hops of X-Forwarded-For, whose lines count as one.
func forwarded(h http.Header) []string {
	var hops []string
	lines := h.Values("X-Forwarded-For")
	for i := len(lines) - 1; i >= 0 && len(hops) < maxHops; i-- {
		parts := strings.Split(lines[i], ",")
		for j := len(parts) - 1; j >= 0 && len(hops) < maxHops; j-- {
			hops = append(hops, strings.TrimSpace(parts[j]))
		}
	}
	for i, j := 0, len(hops)-1; i < j; i, j = i+1, j-1 {
		hops[i], hops[j] = hops[j], hops[i]
	}
	return hops
}

// hopAddr reads an address as proxies write it: with or without a port, IPv6 in brackets or not.
func hopAddr(text string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return addr.Unmap().WithZone(""), true
	}
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().WithZone(""), true
	}
	return netip.Addr{}, false
}
