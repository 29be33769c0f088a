package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
)

const (
	loginFor  = 10 * time.Minute // from the redirect to the issuer until it sends the browser back
	maxReturn = 1000             // bytes of the page to return to
	maxLogins = 100_000          // that are remembered, so that none is used twice
)

// OIDCOptions say at which OpenID Connect issuer people sign in. Issuer, ClientID and URL are required.
type OIDCOptions struct {
	// Issuer is its identifier, below which /.well-known/openid-configuration is. https, or a loopback address.
	Issuer string
	// ClientID and ClientSecret are what the issuer knows the server by. A public client has no secret.
	ClientID     string
	ClientSecret func(context.Context) (string, error)
	// Scopes are asked for; openid always is. Defaults to profile and email.
	Scopes []string
	// NameClaim, RoleClaim and Roles are as in JWTOptions; NameClaim defaults to preferred_username, then sub.
	NameClaim, RoleClaim string
	Roles                map[string]Role
	// URL is the callback's, to which the issuer sends the browser back.
	URL string
	// Client asks the issuer. Defaults to a client with a timeout of ten seconds that follows no redirects.
	Client *http.Client
	// Log takes messages about an issuer that does not answer. Defaults to slog.Default.
	Log *slog.Logger
}

// OIDC signs people in: authorization code with PKCE, run by the server. It is safe for concurrent use.
type OIDC struct {
	o        OIDCOptions
	settings []byte

	asking sync.Mutex // one asks at a time
	mu     sync.Mutex
	found  *provider
	used   map[string]time.Time // states of logins that have succeeded, until they expire
}

// NewOIDC makes it; the issuer is asked when somebody first signs in. CodeInvalid.
func NewOIDC(o OIDCOptions) (*OIDC, error) {
	if err := checkIssuerURL("issuer", o.Issuer); err != nil {
		return nil, err
	}
	if o.ClientID == "" || o.URL == "" {
		return nil, stepwell.Invalid("it is the name under which the issuer knows this server", "OIDC: a client_id is needed")
	}
	if len(o.Scopes) == 0 {
		o.Scopes = []string{"profile", "email"}
	}
	o.Scopes = append([]string{"openid"}, slices.DeleteFunc(slices.Clone(o.Scopes), func(s string) bool { return s == "openid" })...)
	o.NameClaim = cmp.Or(o.NameClaim, "preferred_username")
	o.RoleClaim = cmp.Or(o.RoleClaim, "role")
	if o.Client == nil {
		o.Client = &http.Client{Timeout: fetchTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	return &OIDC{o: o, used: map[string]time.Time{}, settings: digestOf(o.Issuer, o.ClientID, o.NameClaim, o.RoleClaim, o.Roles)}, nil
}

// login is the contents of the cookie between the redirect to the issuer and the callback.
type login struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Return   string    `json:"return,omitempty"`
	Expires  time.Time `json:"exp"`
}

func (s *Sessions) oidc() *OIDC {
	if s == nil {
		return nil
	}
	return s.o.OIDC
}

var errNoOIDC = &stepwell.Error{Code: stepwell.CodeNotFound, Message: "nobody signs in at an issuer here", Hint: "server.auth.oidc names one"}

// Begin begins a login: the browser keeps the cookie and goes to the address. back is the page of this server that it
// shows afterwards, "" for the first one. CodeNotFound without an issuer, CodeInvalid, CodeUnavailable.
func (s *Sessions) Begin(r *http.Request, back string) (address string, cookie *http.Cookie, err error) {
	o := s.oidc()
	if o == nil {
		return "", nil, errNoOIDC
	}
	if !localPath(back) {
		return "", nil, stepwell.Invalid("a path of this server, such as /executions", "return: it is not a path")
	}
	p, err := o.provider(r.Context())
	if err != nil {
		return "", nil, err
	}
	l := login{State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), Return: back, Expires: time.Now().Add(loginFor)}
	text, err := s.sealer.seal("login", &l)
	if err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256([]byte(l.Verifier))
	query := url.Values{"response_type": {"code"}, "client_id": {o.o.ClientID}, "redirect_uri": {o.o.URL}, "scope": {strings.Join(o.o.Scopes, " ")}, "state": {l.State},
		"nonce": {l.Nonce}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}}
	separator := "?"
	if strings.Contains(p.Authorization, "?") {
		separator = "&"
	}
	c := s.loginCookie(r, text)
	c.MaxAge = int(loginFor.Seconds())
	return p.Authorization + separator + query.Encode(), c, nil
}

// loginCookie comes back with the issuer's redirect, which a Strict cookie would not.
func (s *Sessions) loginCookie(r *http.Request, value string) *http.Cookie {
	c := s.cookie(r, "login", value)
	c.SameSite = http.SameSiteLaxMode
	return c
}

// localPath reports whether a browser stays on this server when it goes to a path.
func localPath(path string) bool {
	if path == "" {
		return true
	}
	bad := func(c rune) bool { return c <= ' ' || c == '\\' || c == 0x7f }
	return len(path) <= maxReturn && path[0] == '/' && !strings.HasPrefix(path, "//") && !strings.ContainsFunc(path, bad)
}

// Return is what the issuer sends with the browser.
type Return struct{ State, Code, Error, Issuer string }

// Finish ends a login: it opens a session for whom the issuer says has signed in, and returns the page to show. end
// is the cookie that ends the login. CodeNotFound without an issuer; CodeUnauthenticated for a login that
// this browser has not begun, has been used or has expired, and for a bad ID token; CodeForbidden without a role.
func (s *Sessions) Finish(r *http.Request, back Return) (opened *Session, page string, end *http.Cookie, err error) {
	o := s.oidc()
	if o == nil {
		return nil, "", nil, errNoOIDC
	}
	l, err := s.begun(r, back)
	if err != nil {
		return nil, "", nil, err
	}
	p, err := o.redeem(r.Context(), &l, back)
	if err != nil {
		return nil, "", nil, err
	}
	end = s.loginCookie(r, "")
	end.MaxAge = -1
	opened, err = s.opened(r, p, session{Kind: p.Kind, Name: p.Name, Role: p.Role, By: o.settings})
	return opened, cmp.Or(l.Return, "/"), end, err
}

// begun is the login that this browser has begun and the answer is to.
func (s *Sessions) begun(r *http.Request, back Return) (l login, err error) {
	const again = "begin again with /api/v1/auth/login; the browser must reach the server at server.base_url, and keep cookies"
	c, err := r.Cookie(s.sealer.name("login"))
	if err != nil {
		return l, unauthenticated("this browser has not begun to sign in", again)
	}
	if err := s.sealer.open("login", c.Value, &l); err != nil {
		return l, unauthenticated(err.Error(), again)
	}
	switch o := s.o.OIDC; {
	case back.State == "" || !same([]byte(back.State), []byte(l.State)):
		return l, unauthenticated("the issuer's answer is to another login (state)", again)
	case !time.Now().Before(l.Expires):
		return l, unauthenticated("signing in took too long", again)
	case back.Issuer != "" && back.Issuer != o.o.Issuer:
		return l, unauthenticated("the answer is of another issuer (iss)", again)
	case o.wasUsed(l.State):
		return l, unauthenticated("the login has been used already", again)
	case back.Error != "":
		return l, unauthenticated("the issuer refused: "+stepwell.Clip(back.Error, 100), "ask its administrator")
	case back.Code == "" || len(back.Code) > maxCredential:
		return l, unauthenticated("the issuer's answer has no code", again)
	}
	return l, nil
}

func (o *OIDC) wasUsed(state string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, used := o.used[state]
	return used
}

// use reports whether a login is used for the first time.
func (o *OIDC) use(l *login) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if len(o.used) >= maxLogins {
		for state, until := range o.used {
			if now.After(until) {
				delete(o.used, state)
			}
		}
	}
	if _, used := o.used[l.State]; used || len(o.used) >= maxLogins {
		return unauthenticated("the login has been used already", "begin again with /api/v1/auth/login")
	}
	o.used[l.State] = l.Expires
	return nil
}
