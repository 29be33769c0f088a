package access

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"github.com/stepwell/stepwell"
)

const maxCredential = 8 << 10 // bytes

// Browsers cannot set headers for a WebSocket, but they can offer subprotocols: they offer Subprotocol, which the
// server chooses, and tokenProtocol followed by the credential.
const (
	Subprotocol   = "stepwell"
	tokenProtocol = "stepwell.bearer."
)

// Options configure an Authenticator. All of it is optional; without any only this machine is let in.
type Options struct {
	Keys    *Keys    // API keys. Defaults to none
	JWT     *JWT     // tokens of an issuer. Defaults to none
	Proxies *Proxies // that are believed. Defaults to none
	// Sessions accept cookies of browsers. Defaults to none.
	Sessions *Sessions
	// Sidecar says who sends a request without a credential through a sidecar that is believed; ok is false for requests that do not
	// come through one. Defaults to there being none.
	Sidecar func(r *http.Request) (p Principal, ok bool, err error)
	// Loopback says that the server listens on loopback addresses only. Otherwise every request needs a credential.
	// Defaults to false.
	Loopback bool
	// Origins are the web pages (such as https://ui.example.org) that may talk to an open server besides pages of
	// this machine. Defaults to none.
	Origins []string
}

// Authenticator authenticates requests. It is safe for concurrent use.
type Authenticator struct{ o Options }

// New makes an authenticator.
func New(o Options) *Authenticator { return &Authenticator{o: o} }

// Authenticate authenticates a request: by an API key or token in Authorization: Bearer, an API key in X-API-Key, or,
// for a WebSocket, a subprotocol. While there is neither an API key nor a token's issuer, local callers of a loopback
// server are admins. Without a credential in a header, the cookie of a session counts. CodeUnauthenticated, CodeForbidden, CodeUnavailable.
func (a *Authenticator) Authenticate(r *http.Request) (Principal, error) {
	token, err := credential(r)
	if err != nil {
		return Principal{}, err
	}
	var p Principal
	if token == "" {
		p, err = a.withoutCredential(r)
	} else {
		p, err = a.token(r.Context(), token)
	}
	if err != nil {
		return Principal{}, err
	}
	p.User, p.Via = a.o.Proxies.UserOf(r), ViaOf(r)
	return p, nil
}

// withoutCredential admits browsers with a session, apps behind the sidecar, and local callers. An open server ignores
// cookies, as they are of keys that it no longer has.
func (a *Authenticator) withoutCredential(r *http.Request) (Principal, error) {
	if p, ok, err := a.o.Sessions.of(r); ok {
		if open, oerr := a.Open(r.Context()); oerr != nil || !open {
			return p, err
		}
	}
	if a.o.Sidecar != nil {
		if p, ok, err := a.o.Sidecar(r); ok {
			return p, err
		}
	}
	return a.anonymous(r)
}

// ClientAddr is where a request comes from; see Proxies.ClientAddr.
func (a *Authenticator) ClientAddr(r *http.Request) netip.Addr { return a.o.Proxies.ClientAddr(r) }

// Open reports whether anybody at this machine is let in without a credential.
func (a *Authenticator) Open(ctx context.Context) (bool, error) {
	if !a.o.Loopback || a.o.JWT != nil || a.o.Sessions.oidc() != nil {
		return false, nil
	}
	if a.o.Keys == nil {
		return true, nil
	}
	any, err := a.o.Keys.Any(ctx)
	return err == nil && !any, err
}

func (a *Authenticator) token(ctx context.Context, token string) (Principal, error) {
	switch {
	case strings.HasPrefix(token, tokenPrefix) && a.o.Keys != nil:
		return a.o.Keys.Authenticate(ctx, token)
	case !strings.HasPrefix(token, tokenPrefix) && a.o.JWT != nil:
		return a.o.JWT.Authenticate(ctx, token)
	}
	return Principal{}, errOtherKind
}

var errOtherKind = unauthenticated("credentials of this kind are not accepted here", "an API key begins with "+tokenPrefix)

// credential takes the credential out of a request, "" if there is none.
func credential(r *http.Request) (string, error) {
	var found []string
	for _, line := range r.Header.Values("Authorization") {
		scheme, token, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", unauthenticated("the scheme of Authorization is not accepted", "Authorization: Bearer <API key or token>")
		}
		found = append(found, strings.TrimSpace(token))
	}
	for _, line := range r.Header.Values("X-API-Key") {
		found = append(found, strings.TrimSpace(line))
	}
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
			for offer := range strings.SplitSeq(line, ",") {
				if token, ok := strings.CutPrefix(strings.TrimSpace(offer), tokenProtocol); ok {
					found = append(found, token)
				}
			}
		}
	}
	switch {
	case len(found) == 0:
		return "", nil
	case len(found) > 1:
		return "", unauthenticated("more than one credential", "send one")
	case found[0] == "" || len(found[0]) > maxCredential:
		return "", unauthenticated("the credential is empty or too long", "Authorization: Bearer <API key or token>")
	}
	return found[0], nil
}

// anonymous admits local callers, if nothing is configured. A remote web page can make a local browser send requests,
// also under a name that it resolves to this machine: hence Host and Origin.
func (a *Authenticator) anonymous(r *http.Request) (Principal, error) {
	open, err := a.Open(r.Context())
	if err != nil {
		return Principal{}, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the API keys cannot be read", Err: err}
	}
	if !open {
		return Principal{}, unauthenticated("a credential is needed", "Authorization: Bearer <API key or token>")
	}
	refuse := func(message string) (Principal, error) {
		return Principal{}, &stepwell.Error{Code: stepwell.CodeForbidden, Message: message, Hint: "without an API key the server talks to this machine only: stepwell keys create"}
	}
	switch from := peer(r); {
	case from.IsValid() && !from.IsLoopback():
		return refuse("the request comes from another machine")
	case r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "" || r.Header.Get("X-Real-Ip") != "":
		return refuse("the request comes through a proxy")
	case !LoopbackHost(r.Host):
		return refuse("the request is for another host")
	case !a.origin(r):
		return refuse("the request comes from a web page elsewhere")
	}
	return Principal{Name: KindAnonymous, Role: Admin, Kind: KindAnonymous}, nil
}
