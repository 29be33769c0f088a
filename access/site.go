package access

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
)

// Site is a server's names and the web pages that may use it. It separates intended requests from those that a foreign
// web page makes a browser send, also under a name that it resolves to the server. Routes without a credential need it:
// an address alone proves nothing, because browsers run at allowed addresses too.
type Site struct {
	// Hosts are names of the server, besides localhost and every address. Defaults to none.
	Hosts []string
	// Origins are web pages that may send requests. Defaults to those of the server itself.
	Origins []string
}

// Check reports CodeForbidden for a request of a foreign web page, and for one to another host.
func (s *Site) Check(r *http.Request) error {
	if !s.own(r.Host) {
		return &stepwell.Error{Code: stepwell.CodeForbidden, Message: "the request is for another host", Hint: "set server.base_url to the name under which the server is reached"}
	}
	origins := r.Header.Values("Origin")
	foreign := slices.ContainsFunc(origins, func(origin string) bool {
		_, host, _ := strings.Cut(origin, "://")
		return !slices.Contains(s.Origins, origin) && host != r.Host
	})
	if site := r.Header.Get("Sec-Fetch-Site"); len(origins) == 0 && (site == "cross-site" || site == "same-site") {
		foreign = true
	}
	if foreign {
		return &stepwell.Error{Code: stepwell.CodeForbidden, Message: "the request comes from a web page elsewhere", Hint: "give the webhook a secret, or list the page under server.cors.origins"}
	}
	return nil
}

// own reports whether a Host header names the server. A page cannot make an address point elsewhere, so any address will do.
func (s *Site) own(host string) bool {
	name := strings.TrimSuffix(hostName(host), ".")
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return loopbackName(name) || slices.ContainsFunc(s.Hosts, func(own string) bool { return strings.EqualFold(own, name) })
}
