package access

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// LoopbackHost reports whether a host, with or without a port, names this machine.
func LoopbackHost(host string) bool { return loopbackName(hostName(host)) }

// hostName is a host without its port, in lower case.
func hostName(host string) string {
	name := strings.Trim(host, "[]")
	if cut, _, err := net.SplitHostPort(host); err == nil {
		name = cut
	}
	return strings.ToLower(name)
}

// origin reports whether a request comes from no web page, from a local one, or from an allowed one.
func (a *Authenticator) origin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 { // browsers omit it for requests that cannot change anything, but send their site
		site := r.Header.Get("Sec-Fetch-Site")
		return site != "cross-site" || safe(r.Method) && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	}
	for _, origin := range origins {
		if slices.Contains(a.o.Origins, origin) {
			continue
		}
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Path != "" || !LoopbackHost(u.Host) {
			return false
		}
	}
	return true
}

func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}
