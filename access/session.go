package access

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// SessionFor is how long a session lasts at most; it ends before when its credential does.
const SessionFor = 12 * time.Hour

// The ways to sign in.
const (
	MethodKey   = "api_key"
	MethodToken = "token"
	MethodOIDC  = "oidc"
)

// SessionOptions configure Sessions.
type SessionOptions struct {
	// Key encrypts cookies: 32 bytes. All nodes have the same one, and keep it.
	Key []byte
	// URL is where browsers reach the server: its path is that of the cookies, and with https they are Secure. Its
	// origin is the server's own. Defaults to the address of each request, and the path /.
	URL string
	// Keys are the API keys, JWT the tokens that a session may be opened with. Default to none.
	Keys *Keys
	JWT  *JWT
	// OIDC signs people in at an issuer. Defaults to none.
	OIDC *OIDC
}

// Sessions turn credentials into cookies for browsers. The cookie holds no credential, only its id or what it
// gave, encrypted. A session has no state in the server: it survives restarts, and every node accepts it. It is safe
// for concurrent use.
type Sessions struct {
	o      SessionOptions
	sealer *sealer
	path   string
	origin string // "" without a URL
	secure bool
}

// NewSessions makes it. CodeInvalid when the URL is none, CodeInternal for a bad key.
func NewSessions(o SessionOptions) (*Sessions, error) {
	sealer, err := newSealer(o.Key)
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "the key of sessions is not one", Err: err}
	}
	s := &Sessions{o: o, sealer: sealer, path: "/"}
	if o.URL != "" {
		u, err := url.Parse(o.URL)
		if err != nil || u.Host == "" {
			return nil, stepwell.Invalid("write it like https://stepwell.example.org", "%q is no base URL", o.URL)
		}
		s.path, s.origin, s.secure = strings.TrimSuffix(u.Path, "/")+"/", u.Scheme+"://"+u.Host, u.Scheme == "https"
	}
	return s, nil
}

// session is the contents of the cookie.
type session struct {
	Key     string    `json:"key,omitempty"` // the id of an API key, which is looked up each time
	Kind    string    `json:"kind,omitempty"`
	Name    string    `json:"name,omitempty"`
	Role    Role      `json:"role,omitempty"`
	By      []byte    `json:"by,omitempty"` // the settings that gave the role: a session ends when they change
	Expires time.Time `json:"exp"`
}

// Session is one that was opened.
type Session struct {
	Principal
	Expires time.Time
	Cookie  *http.Cookie
}

// Methods are the ways to sign in here.
func (s *Sessions) Methods() []string {
	list := []string{}
	if s == nil {
		return list
	}
	if s.o.Keys != nil {
		list = append(list, MethodKey)
	}
	if s.o.JWT != nil {
		list = append(list, MethodToken)
	}
	if s.o.OIDC != nil {
		list = append(list, MethodOIDC)
	}
	return list
}

// Open opens a session with an API key or a token. CodeUnauthenticated; CodeForbidden for a key of a worker and for a
// request from a page elsewhere, which could sign its visitors in as somebody else.
func (s *Sessions) Open(r *http.Request, credential string) (*Session, error) {
	if err := s.sameOrigin(r, true); err != nil {
		return nil, err
	}
	if credential == "" || len(credential) > maxCredential {
		return nil, unauthenticated("the credential is empty or too long", "send an API key or a token")
	}
	p, expires, by, err := s.check(r.Context(), credential)
	if err != nil {
		return nil, err
	}
	held := session{Kind: p.Kind, Name: p.Name, Role: p.Role, By: by, Expires: expires}
	if p.KeyID != "" {
		held = session{Key: p.KeyID, Expires: expires}
	}
	return s.opened(r, p, held)
}

// check finds out whose credential it is, and when it ends; zero: not by itself.
func (s *Sessions) check(ctx context.Context, credential string) (p Principal, expires time.Time, by []byte, err error) {
	switch own := strings.HasPrefix(credential, tokenPrefix); {
	case own && s.o.Keys != nil:
		if p, err = s.o.Keys.Authenticate(ctx, credential); err == nil {
			_, expires, err = s.o.Keys.current(ctx, p.KeyID)
		}
		return p, expires, nil, err
	case !own && s.o.JWT != nil:
		claims, err := s.o.JWT.verify(ctx, credential)
		if err != nil {
			return p, expires, nil, err
		}
		if at, err := claims.GetExpirationTime(); err == nil && at != nil { // verify requires it
			expires = at.Time
		}
		p, err = s.o.JWT.principal(claims)
		return p, expires, s.o.JWT.settings(), err
	}
	return p, expires, nil, errOtherKind
}

// opened makes the cookie.
func (s *Sessions) opened(r *http.Request, p Principal, held session) (*Session, error) {
	if p.Role == Worker {
		return nil, &stepwell.Error{Code: stepwell.CodeForbidden, Message: "a worker's credential opens no session", Hint: "sign in with the key of a viewer, operator, editor or admin"}
	}
	if most := time.Now().Add(SessionFor); held.Expires.IsZero() || held.Expires.After(most) {
		held.Expires = most
	}
	held.Expires = held.Expires.UTC().Truncate(time.Second)
	text, err := s.sealer.seal("session", &held)
	if err != nil {
		return nil, err
	}
	c := s.cookie(r, "session", text)
	c.Expires, c.MaxAge = held.Expires, max(1, int(time.Until(held.Expires).Seconds()))
	return &Session{Principal: p, Expires: held.Expires, Cookie: c}, nil
}

// Close is the cookie that ends a session in a browser.
func (s *Sessions) Close(r *http.Request) *http.Cookie {
	c := s.cookie(r, "session", "")
	c.MaxAge = -1
	return c
}

// cookie is one that scripts cannot read and other sites do not cause to be sent.
func (s *Sessions) cookie(r *http.Request, purpose, value string) *http.Cookie {
	return &http.Cookie{Name: s.sealer.name(purpose), Value: value, Path: s.path, HttpOnly: true, Secure: s.secure || r.TLS != nil, SameSite: http.SameSiteStrictMode}
}

// of authenticates a request by its cookie; ok is false when there is none. CodeUnauthenticated; CodeForbidden for a
// change and a WebSocket that a page elsewhere, or nobody knows who, has asked for.
func (s *Sessions) of(r *http.Request) (p Principal, ok bool, err error) {
	if s == nil {
		return p, false, nil
	}
	c, err := r.Cookie(s.sealer.name("session"))
	if err != nil {
		return p, false, nil
	}
	if p, err = s.authenticate(r.Context(), c.Value); err != nil {
		return p, true, err
	}
	safe := slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, r.Method) && r.Header.Get("Upgrade") == ""
	if !safe {
		err = s.sameOrigin(r, false)
	}
	return p, true, err
}

func (s *Sessions) authenticate(ctx context.Context, cookie string) (Principal, error) {
	const again = "sign in again"
	var held session
	if err := s.sealer.open("session", cookie, &held); err != nil {
		return Principal{}, unauthenticated(err.Error(), again)
	}
	if !time.Now().Before(held.Expires) {
		return Principal{}, unauthenticated("the session has ended", again)
	}
	if held.Key != "" {
		if s.o.Keys == nil {
			return Principal{}, errOtherKind
		}
		p, _, err := s.o.Keys.current(ctx, held.Key)
		return p, err
	}
	var by []byte
	switch {
	case held.Kind == KindToken && s.o.JWT != nil:
		by = s.o.JWT.settings()
	case held.Kind == KindOIDC && s.o.OIDC != nil:
		by = s.o.OIDC.settings
	}
	if by == nil || !same(by, held.By) {
		return Principal{}, unauthenticated("the server's settings of sign-in have changed", again)
	}
	return Principal{Name: held.Name, Role: held.Role, Kind: held.Kind}, nil
}

// sameOrigin is CodeForbidden unless the request comes from a page of the server itself. silent accepts a request
// that says nothing of that, as programs send it.
func (s *Sessions) sameOrigin(r *http.Request, silent bool) error {
	site, origins := r.Header.Get("Sec-Fetch-Site"), r.Header.Values("Origin")
	own := func(origin string) bool {
		if s.origin != "" && origin == s.origin {
			return true
		}
		scheme, host, _ := strings.Cut(origin, "://")
		return host == r.Host && (scheme == "https" || scheme == "http" && r.TLS == nil)
	}
	said := site != "" || len(origins) > 0
	switch {
	case !said && silent,
		site == "same-origin",
		site == "" && len(origins) == 1 && own(origins[0]):
		return nil
	}
	message := "the request comes from a web page elsewhere"
	if !said {
		message = "the request does not say which page it comes from"
	}
	return &stepwell.Error{Code: stepwell.CodeForbidden, Message: message,
		Hint: "with the session's cookie, changes need Sec-Fetch-Site: same-origin or the server's own Origin; programs send Authorization instead. Behind a proxy set server.base_url"}
}
