package outbound

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/stepwell/stepwell"
)

// Dial connects to an address (host:port) for a program that speaks for a step. Addresses that steps may not reach are a
// Failure with KindBlocked. Limits and breakers do not apply.
func (c *Client) Dial(ctx context.Context, address string) (net.Conn, error) {
	d := c.guard.dialer(address)
	d.Timeout = dialTimeout
	return d.DialContext(ctx, "tcp", address)
}

const dialTimeout = 10 * time.Second

// Permitted returns an address of a host that steps may reach, for a program that connects by itself; the first refusal is
// the error, with KindBlocked, when there is none.
func (c *Client) Permitted(ctx context.Context, host string, port int) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, &Failure{Kind: KindDNS, Err: &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "look up " + host, Err: err}}
	}
	for _, addr := range found {
		refused := c.guard.check(net.JoinHostPort(host, strconv.Itoa(port)), netip.AddrPortFrom(addr.Unmap(), uint16(port)).String())
		if refused == nil {
			return addr.Unmap(), nil
		}
		if err == nil {
			err = refused
		}
	}
	if err == nil {
		err = &Failure{Kind: KindDNS, Err: &stepwell.Error{Code: stepwell.CodeUnavailable, Message: host + " has no address"}}
	}
	return netip.Addr{}, err
}
