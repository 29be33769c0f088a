package apiclient

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
)

// Auth are the credentials: at most one kind of them. They are sent only to the origin of Options.URL and to Origins,
// and never appear in an error or a Cursor. Configs embed it; those members that have no key here are called differently
// in different modules.
type Auth struct {
	Bearer   string `json:"bearer" writeOnly:"true" doc:"Bearer token."`
	Username string `json:"username" doc:"User of basic authentication."`
	Password string `json:"password" writeOnly:"true" doc:"Password of basic authentication."`
	// Key is sent in the header KeyHeader or the query parameter KeyQuery.
	Key       string `json:"api_key" writeOnly:"true" doc:"API key."`
	KeyHeader string `json:"-"`
	KeyQuery  string `json:"-"`
	// TokenURL and what follows are OAuth 2 client credentials (RFC 6749 §4.4): the token is fetched, kept while it is good,
	// and fetched anew once when the API answers 401.
	TokenURL     string `json:"token_url" doc:"Where OAuth 2 client credentials get a token."`
	ClientID     string `json:"client_id" doc:"OAuth client."`
	ClientSecret string `json:"client_secret" writeOnly:"true" doc:"Its secret."`
	Scope        string `json:"scope" doc:"OAuth scope."`
	Audience     string `json:"audience" doc:"OAuth audience."`
	// Origins get the credentials besides. Defaults to none.
	Origins []string `json:"-"`
}

func (a Auth) check() error {
	kinds := 0
	for _, given := range []bool{a.Bearer != "", a.Username != "" || a.Password != "", a.Key != "", a.TokenURL != ""} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return stepwell.Invalid("give a bearer token, a user, an API key or a token URL", "there are credentials of several kinds")
	case a.Key != "" && (a.KeyHeader == "") == (a.KeyQuery == ""):
		return stepwell.Invalid("name a header or a query parameter", "it is not clear where the API key goes")
	case a.TokenURL != "" && (a.ClientID == "" || a.ClientSecret == ""):
		return stepwell.Invalid("", "the token URL is given without client id and secret")
	}
	return nil
}

func (a Auth) secrets() []string {
	secrets := []string{a.Bearer, a.Password, a.Key, a.ClientSecret}
	if a.Password != "" {
		secrets = append(secrets, base64.StdEncoding.EncodeToString([]byte(a.Username+":"+a.Password)))
	}
	return secrets
}

// authorize adds the credentials to a request of ours.
func (c *Client) authorize(ctx context.Context, u *url.URL, h http.Header) error {
	a := &c.o.Auth
	switch {
	case a.Bearer != "":
		h.Set("Authorization", "Bearer "+a.Bearer)
	case a.Username != "" || a.Password != "":
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(a.Username+":"+a.Password)))
	case a.Key != "" && a.KeyHeader != "":
		h.Set(a.KeyHeader, a.Key)
	case a.Key != "":
		c.strip(u)
		if u.RawQuery != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += url.QueryEscape(a.KeyQuery) + "=" + url.QueryEscape(a.Key)
	case a.TokenURL != "":
		token, err := c.token.current(ctx, c)
		if err != nil {
			return err
		}
		h.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// strip takes our API key out of a URL that a server has given back.
func (c *Client) strip(u *url.URL) {
	name := c.o.Auth.KeyQuery
	if name == "" || u.RawQuery == "" {
		return
	}
	var kept []string
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		key, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(key); err != nil || plain != name {
			kept = append(kept, part)
		}
	}
	u.RawQuery = strings.Join(kept, "&")
}

// tokenSource keeps the OAuth token; the lock makes sure that one fetches it while others wait.
type tokenSource struct {
	mu    sync.Mutex
	value string
	until time.Time
}

func (s *tokenSource) current(ctx context.Context, c *Client) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.value != "" && time.Now().Before(s.until) {
		return s.value, nil
	}
	a := &c.o.Auth
	form := url.Values{"grant_type": {"client_credentials"}}
	if a.Scope != "" {
		form.Set("scope", a.Scope)
	}
	if a.Audience != "" {
		form.Set("audience", a.Audience)
	}
	basic := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(a.ClientID) + ":" + url.QueryEscape(a.ClientSecret)))
	var got struct {
		Token   string  `json:"access_token"`
		Expires float64 `json:"expires_in"`
	}
	x := &exchange{Request: Request{Method: http.MethodPost, URL: a.TokenURL}, form: form.Encode(), repeat: true,
		header: http.Header{"Authorization": {"Basic " + basic}}, foreign: true, limit: 1 << 20}
	_, err := c.send(ctx, x, func(r *reply) error {
		raw, err := io.ReadAll(r.body)
		if err != nil {
			return err
		}
		if json.Unmarshal(raw, &got) != nil || got.Token == "" { // not shown: it may hold a token
			return r.content("the token endpoint's answer has no access_token")
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	life := time.Hour
	if got.Expires > 0 {
		life = time.Duration(min(got.Expires, 1e6) * float64(time.Second))
	}
	s.value, s.until = got.Token, time.Now().Add(life-min(life/10, 30*time.Second))
	return s.value, nil
}

// forget drops a token that was refused; a newer one stays.
func (s *tokenSource) forget(refused string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if "Bearer "+s.value == refused {
		s.value = ""
	}
}
