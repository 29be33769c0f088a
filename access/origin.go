package access

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// LoopbackHost reports whether a host, with or without a port, names this machine.
func LoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return loopbackName(strings.ToLower(name))
	}
	return loopbackName(strings.ToLower(strings.Trim(host, "[]")))
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
