package api_test

import (
	"bytes"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/resource"
)

// signedIn is a rig whose callers are those of package access, with sessions.
func signedIn(t *testing.T, o access.SessionOptions) (*rig, *access.Keys) {
	t.Helper()
	var keys *access.Keys
	o.Key = bytes.Repeat([]byte{7}, 32)
	r := newRig(t, func(a *api.Options) {
		keys, o.Keys = a.Keys, a.Keys
		sessions, err := access.NewSessions(o)
		good(t, err)
		a.Sessions, a.Auth = sessions, access.New(access.Options{Keys: a.Keys, JWT: o.JWT, Sessions: sessions})
	})
	return r, keys
}

// key makes an API key.
func key(t *testing.T, keys *access.Keys, name string, role access.Role, expires time.Time) (id, token string) {
	t.Helper()
	k, token, err := keys.Create(t.Context(), access.NewKey{Name: name, Role: role, Expires: resource.At(expires), By: "test"})
	good(t, err)
	return k.ID, token
}

// open opens a session and returns its cookie as a browser sends it.
func (r *rig) open(token string, headers ...string) (*got, string) {
	r.t.Helper()
	g := r.do("", "POST", "/api/v1/session", map[string]any{"token": token}, headers...)
	cookie, _, _ := strings.Cut(g.header.Get("Set-Cookie"), ";")
	return g, cookie
}

func TestSession(t *testing.T) {
	r, keys := signedIn(t, access.SessionOptions{})
	id, token := key(t, keys, "ada", access.Operator, time.Time{})
	var before api.SessionState
	r.do("", "GET", "/api/v1/session", nil).is(200).into(&before)
	if before.SignedIn || before.Open || before.Version != "dev" || strings.Join(before.Login, " ") != "api_key" {
		t.Errorf("before signing in: %+v", before)
	}
	g, cookie := r.open(token)
	var s api.Session
	g.is(200).into(&s)
	set := g.header.Get("Set-Cookie")
	if s.Name != "ada" || s.Role != "operator" || s.Kind != "api_key" || time.Until(s.Expires.Time) > access.SessionFor {
		t.Errorf("%+v", s)
	}
	for _, part := range []string{"; HttpOnly", "; SameSite=Strict", "; Path=/;", "; Max-Age="} {
		if !strings.Contains(set, part) {
			t.Errorf("the cookie %s lacks %s", set, part)
		}
	}
	if _, secret, _ := strings.Cut(token, id+"_"); strings.Contains(set, "Secure") || strings.Contains(set, secret) {
		t.Errorf("the cookie over plain HTTP is %s", set)
	}
	if e := r.audit.last(); e.Action != "session.open" || e.Actor != "ada" || e.Result != "ok" {
		t.Errorf("the audit log says %+v", e)
	}
	var me api.Me
	r.do("", "GET", "/api/v1/me", nil, "Cookie", cookie).is(200).into(&me)
	if me.Name != "ada" || me.Kind != "api_key" || me.Role != "operator" || me.Open || me.Version != "dev" {
		t.Errorf("%+v", me)
	}
	r.do("", "GET", "/api/v1/secrets", nil, "Cookie", cookie).problem(403, stepwell.CodeForbidden)
	closed := r.do("", "DELETE", "/api/v1/session", nil, "Cookie", cookie, "Sec-Fetch-Site", "same-origin").is(204).header.Get("Set-Cookie")
	if !strings.Contains(closed, "Max-Age=0") || !strings.HasPrefix(closed, strings.SplitN(cookie, "=", 2)[0]+"=;") {
		t.Errorf("signing out sets %s", closed)
	}
	// A second server with the same key, such as after a restart, takes the cookie; one with another key does not.
	for b, status := range map[byte]int{7: 200, 8: 401} {
		sessions, err := access.NewSessions(access.SessionOptions{Key: bytes.Repeat([]byte{b}, 32), Keys: keys})
		good(t, err)
		other := newRig(t, func(o *api.Options) { o.Auth = access.New(access.Options{Keys: keys, Sessions: sessions}) })
		other.do("", "GET", "/api/v1/me", nil, "Cookie", cookie).is(status)
	}
	_, err := keys.Revoke(t.Context(), id)
	good(t, err)
	r.do("", "GET", "/api/v1/me", nil, "Cookie", cookie).problem(401, stepwell.CodeUnauthenticated)
}

func TestSessionRefusals(t *testing.T) {
	r, keys := signedIn(t, access.SessionOptions{})
	_, token := key(t, keys, "ada", access.Admin, time.Time{})
	_, worker := key(t, keys, "hand", access.Worker, time.Time{})
	g, _ := r.open("sw_0123456789abcdef_AAAA")
	g.problem(401, stepwell.CodeUnauthenticated)
	g, _ = r.open("not.a.token")
	g.problem(401, stepwell.CodeUnauthenticated)
	g, _ = r.open(worker)
	g.problem(403, stepwell.CodeForbidden)
	for name, value := range map[string]string{"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"} {
		g, cookie := r.open(token, name, value)
		if g.problem(403, stepwell.CodeForbidden); cookie != "" {
			t.Error("a refused session has a cookie")
		}
	}
	_, cookie := r.open(token)
	for i, forged := range []string{cookie[:len(cookie)-3] + "AAA", cookie + "A", strings.SplitN(cookie, "=", 2)[0] + "=", strings.SplitN(cookie, "=", 2)[0] + "=" + strings.Repeat("A", 5000)} {
		if g := r.do("", "GET", "/api/v1/me", nil, "Cookie", forged); g.status != 401 {
			t.Errorf("forged cookie %d: %d", i, g.status)
		}
	}
	for name, headers := range map[string][]string{
		"nothing":                 {},
		"cross-site":              {"Sec-Fetch-Site", "cross-site"},
		"same-site":               {"Sec-Fetch-Site", "same-site"},
		"another origin":          {"Origin", "https://elsewhere.example"},
		"null":                    {"Origin", "null"},
		"a site, its own address": {"Sec-Fetch-Site", "same-site", "Origin", r.server.URL},
	} {
		p := r.do("", "PUT", "/api/v1/secrets/x", map[string]any{"value": "abcdef"}, append(headers, "Cookie", cookie)...)
		if p.status != 403 {
			t.Errorf("%s: %d %s", name, p.status, p.body)
		}
	}
	for _, headers := range [][]string{{"Sec-Fetch-Site", "same-origin"}, {"Origin", r.server.URL}} {
		r.do("", "PUT", "/api/v1/secrets/x", map[string]any{"value": "abcdef"}, append(headers, "Cookie", cookie)...).is(200)
	}
	if e := r.audit.last(); e.Actor != "ada" || e.Action != "secret.set" {
		t.Errorf("the audit log says %+v", e)
	}
	// A credential in a header counts, whatever the cookie says: programs are not asked for an origin.
	r.do(token, "PUT", "/api/v1/secrets/x", map[string]any{"value": "abcdef"}, "Cookie", cookie).is(200)
}

func TestSessionEndsWithItsKey(t *testing.T) {
	r, keys := signedIn(t, access.SessionOptions{})
	_, token := key(t, keys, "short", access.Viewer, time.Now().Add(time.Hour))
	g, _ := r.open(token)
	var s api.Session
	g.into(&s)
	if left := time.Until(s.Expires.Time); left > time.Hour || left < 50*time.Minute {
		t.Errorf("the session of a key that has an hour left has %s", left)
	}
}

// TestSessionBehindTLS: the address that browsers use decides about Secure, the path and the origin.
func TestSessionBehindTLS(t *testing.T) {
	r, keys := signedIn(t, access.SessionOptions{URL: "https://flow.example.org/sw"})
	_, token := key(t, keys, "ada", access.Admin, time.Time{})
	g, cookie := r.open(token)
	if set := g.is(200).header.Get("Set-Cookie"); !strings.Contains(set, "; Secure") || !strings.Contains(set, "Path=/sw/;") {
		t.Errorf("the cookie is %s", set)
	}
	r.do("", "PUT", "/api/v1/secrets/x", map[string]any{"value": "abcdef"}, "Cookie", cookie, "Origin", "https://flow.example.org").is(200)
	r.do("", "PUT", "/api/v1/secrets/x", map[string]any{"value": "abcdef"}, "Cookie", cookie, "Origin", "http://flow.example.org").problem(403, stepwell.CodeForbidden)
}

func TestSessionOfWebSocket(t *testing.T) {
	r, keys := signedIn(t, access.SessionOptions{})
	id := r.run(greeting, map[string]any{"who": "Ann"})
	_, token := key(t, keys, "ada", access.Viewer, time.Time{})
	_, cookie := r.open(token)
	address := strings.Replace(r.server.URL, "http", "ws", 1) + "/api/v1/executions/" + id + "/logs/stream"
	for origin, ok := range map[string]bool{r.server.URL: true, "": false, "https://elsewhere.example": false} {
		h := http.Header{"Cookie": {cookie}}
		if origin != "" {
			h.Set("Origin", origin)
		}
		c, resp, err := websocket.Dial(t.Context(), address, &websocket.DialOptions{HTTPHeader: h})
		if ok != (err == nil) || !ok && resp.StatusCode != 403 {
			t.Errorf("origin %q: %v %v", origin, resp, err)
		}
		if c != nil {
			_ = c.CloseNow()
		}
	}
}

// TestSessionOfToken: a session of a JSON Web Token ends with it, and when the settings give other roles.
func TestSessionOfToken(t *testing.T) {
	i := newIssuer(t)
	o := access.JWTOptions{URL: i.server.URL + "/keys", Issuer: i.server.URL, Audience: "stepwell"}
	tokens, err := access.NewJWT(o)
	good(t, err)
	r, keys := signedIn(t, access.SessionOptions{JWT: tokens})
	g, cookie := r.open(i.token(map[string]any{"aud": "stepwell", "role": "editor"}))
	var s api.Session
	g.is(200).into(&s)
	if s.Name != "ada" || s.Role != "editor" || s.Kind != "token" || time.Until(s.Expires.Time) > 5*time.Minute {
		t.Errorf("%+v", s)
	}
	r.do("", "GET", "/api/v1/me", nil, "Cookie", cookie).is(200)
	o.Roles = map[string]access.Role{"editor": access.Viewer}
	other, err := access.NewJWT(o)
	good(t, err)
	sessions, err := access.NewSessions(access.SessionOptions{Key: bytes.Repeat([]byte{7}, 32), JWT: other, Keys: keys})
	good(t, err)
	changed := newRig(t, func(a *api.Options) { a.Auth = access.New(access.Options{JWT: other, Sessions: sessions}) })
	changed.do("", "GET", "/api/v1/me", nil, "Cookie", cookie).problem(401, stepwell.CodeUnauthenticated)
}

// browser follows redirects by hand and keeps cookies.
func browser(t *testing.T) *http.Client {
	jar, err := cookiejar.New(nil)
	good(t, err)
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// visit gets an address, and where it redirects to.
func visit(t *testing.T, c *http.Client, address string) (status int, location string) {
	t.Helper()
	resp, err := c.Get(address)
	good(t, err)
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Location")
}

// oidcRig is a server at which people sign in at an issuer. The address of the callback is that of a server in front of the rig's,
// because it has to be known before the rig is.
func oidcRig(t *testing.T) (*rig, *issuer, string) {
	i := newIssuer(t)
	var h http.Handler
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	i.callback = front.URL + "/api/v1/auth/callback"
	o, err := access.NewOIDC(access.OIDCOptions{Issuer: i.server.URL, ClientID: "stepwell", ClientSecret: i.secretOf, RoleClaim: "groups", Roles: map[string]access.Role{"ops": access.Operator}, URL: i.callback})
	good(t, err)
	r, _ := signedIn(t, access.SessionOptions{URL: front.URL, OIDC: o})
	h = r.server.Config.Handler
	return r, i, front.URL
}

func TestOIDC(t *testing.T) {
	_, i, front := oidcRig(t)
	b := browser(t)
	status, there := visit(t, b, front+"/api/v1/auth/login?return=/executions%3Fstatus=failed")
	if status != 303 || !strings.HasPrefix(there, i.server.URL+"/authorize?") {
		t.Fatalf("login: %d %s", status, there)
	}
	u, err := url.Parse(there)
	good(t, err)
	if q := u.Query(); q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" || q.Get("state") == "" || !strings.Contains(q.Get("scope"), "openid") {
		t.Errorf("the issuer is asked %v", q)
	}
	status, back := visit(t, browser(t), there)
	if status != 302 || !strings.HasPrefix(back, i.callback+"?") {
		t.Fatalf("the issuer answers %d %s", status, back)
	}
	stolen := browser(t) // has the address, but not the cookie
	if status, _ := visit(t, stolen, back); status != 401 {
		t.Errorf("another browser finishes the login: %d", status)
	}
	kept := cookiesOf(t, b, front)
	if status, page := visit(t, b, back+"&session_state=x"); status != 303 || page != "/executions?status=failed" {
		t.Fatalf("callback: %d %s", status, page)
	}
	resp, err := b.Get(front + "/api/v1/me")
	good(t, err)
	g := readAll(t, resp)
	var me api.Me
	g.is(200).into(&me)
	if me.Name != "ada@example.org" || me.Kind != "oidc" || me.Role != "operator" || strings.Join(me.Login, " ") != "api_key oidc" {
		t.Errorf("%+v", me)
	}
	replay := browser(t)
	replay.Jar.SetCookies(mustURL(t, front), kept)
	if status, _ := visit(t, replay, back); status != 401 || i.exchanges != 1 {
		t.Errorf("the same answer again: %d after %d exchanges", status, i.exchanges)
	}
}

// TestOIDCForgeries: each answer differs from a good one in one thing.
func TestOIDCForgeries(t *testing.T) {
	_, i, front := oidcRig(t)
	for name, c := range map[string]struct {
		change func(*answerOf)
		status int
	}{
		"as it is":        {func(*answerOf) {}, 303},
		"state":           {func(a *answerOf) { a.query.Set("state", "another") }, 401},
		"no state":        {func(a *answerOf) { a.query.Del("state") }, 401},
		"no code":         {func(a *answerOf) { a.query.Del("code") }, 401},
		"code":            {func(a *answerOf) { a.query.Set("code", "another") }, 401},
		"error":           {func(a *answerOf) { a.query.Set("error", "access_denied") }, 401},
		"iss":             {func(a *answerOf) { a.query.Set("iss", "https://elsewhere.example") }, 401},
		"own iss":         {func(a *answerOf) { a.query.Set("iss", i.server.URL) }, 303},
		"nonce":           {func(a *answerOf) { a.claims["nonce"] = "another" }, 401},
		"no nonce":        {func(a *answerOf) { delete(a.claims, "nonce") }, 401},
		"audience":        {func(a *answerOf) { a.claims["aud"] = "other" }, 401},
		"two audiences":   {func(a *answerOf) { a.claims["aud"] = []string{"stepwell", "other"} }, 401},
		"and azp":         {func(a *answerOf) { a.claims["aud"], a.claims["azp"] = []string{"stepwell", "other"}, "stepwell" }, 303},
		"azp":             {func(a *answerOf) { a.claims["azp"] = "other" }, 401},
		"issuer":          {func(a *answerOf) { a.claims["iss"] = "https://elsewhere.example" }, 401},
		"expired":         {func(a *answerOf) { a.claims["exp"] = time.Now().Add(-time.Hour).Unix() }, 401},
		"signature":       {func(a *answerOf) { a.stranger = true }, 401},
		"unsigned":        {func(a *answerOf) { a.unsigned = true }, 401},
		"no role":         {func(a *answerOf) { a.claims["groups"] = []string{"guests"} }, 403},
		"no ID token":     {func(a *answerOf) { a.claims = nil }, 401},
		"token of nobody": {func(a *answerOf) { delete(a.claims, "preferred_username"); delete(a.claims, "sub") }, 401},
	} {
		t.Run(name, func(t *testing.T) {
			b := browser(t)
			_, there := visit(t, b, front+"/api/v1/auth/login")
			_, back := visit(t, browser(t), there)
			u := mustURL(t, back)
			a := i.answerFor(u.Query())
			c.change(a)
			u.RawQuery = a.query.Encode()
			if status, _ := visit(t, b, u.String()); status != c.status {
				t.Errorf("answered %d, want %d", status, c.status)
			}
			want := 401
			if c.status == 303 {
				want = 200
			}
			if status, _ := visit(t, b, front+"/api/v1/me"); status != want {
				t.Errorf("then /me is answered %d", status)
			}
		})
	}
}

func TestOIDCReturnsToThisServer(t *testing.T) {
	r, i, front := oidcRig(t)
	for _, page := range []string{"//elsewhere.example", "https://elsewhere.example", "/\\elsewhere.example", "executions", "/a%0d%0ab"} {
		if status, to := visit(t, browser(t), front+"/api/v1/auth/login?return="+page); status != 400 {
			t.Errorf("return=%s: %d %s", page, status, to)
		}
	}
	i.server.Close()
	without, _ := signedIn(t, access.SessionOptions{})
	without.do("", "GET", "/api/v1/auth/login", nil).problem(404, stepwell.CodeNotFound)
	without.do("", "GET", "/api/v1/auth/callback?state=a&code=b", nil).problem(404, stepwell.CodeNotFound)
	r.do("", "GET", "/api/v1/auth/login", nil).problem(503, stepwell.CodeUnavailable)
}
