package api_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// issuer is an OpenID Connect issuer at which ada has signed in already. Its codes work once, with the verifier of their
// challenge and the secret of the client.
type issuer struct {
	t             *testing.T
	server        *httptest.Server
	key, stranger *rsa.PrivateKey
	callback      string

	mu        sync.Mutex
	codes     map[string]*answerOf
	exchanges int
}

const clientSecret = "s3cr:t of the client"

// answerOf is what belongs to a code.
type answerOf struct {
	query              url.Values // of the redirect
	challenge          string
	claims             jwt.MapClaims
	stranger, unsigned bool
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t, codes: map[string]*answerOf{}}
	var err error
	i.key, err = rsa.GenerateKey(rand.Reader, 2048)
	good(t, err)
	i.stranger, err = rsa.GenerateKey(rand.Reader, 2048)
	good(t, err)
	mux := http.NewServeMux()
	i.server = httptest.NewServer(mux)
	t.Cleanup(i.server.Close)
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.json(w, 200, map[string]any{"issuer": i.server.URL, "authorization_endpoint": i.server.URL + "/authorize", "token_endpoint": i.server.URL + "/token", "jwks_uri": i.server.URL + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		e := base64.RawURLEncoding
		i.json(w, 200, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "use": "sig", "kid": "k", "n": e.EncodeToString(i.key.N.Bytes()), "e": e.EncodeToString(big.NewInt(int64(i.key.E)).Bytes())}}})
	})
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.exchange)
	return i
}

func (i *issuer) json(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		i.t.Error(err)
	}
}

func (i *issuer) secretOf(context.Context) (string, error) { return clientSecret, nil }

func (i *issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("response_type") != "code" || q.Get("client_id") != "stepwell" || q.Get("redirect_uri") != i.callback || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	back := url.Values{"code": {code}, "state": {q.Get("state")}}
	i.mu.Lock()
	i.codes[code] = &answerOf{query: back, challenge: q.Get("code_challenge"), claims: i.claims(map[string]any{"aud": "stepwell", "nonce": q.Get("nonce")})}
	i.mu.Unlock()
	http.Redirect(w, r, i.callback+"?"+back.Encode(), http.StatusFound)
}

func (i *issuer) claims(change map[string]any) jwt.MapClaims {
	c := jwt.MapClaims{"iss": i.server.URL, "sub": "ada", "preferred_username": "ada@example.org", "groups": []string{"staff", "ops"}, "exp": time.Now().Add(5 * time.Minute).Unix()}
	for name, v := range change {
		c[name] = v
	}
	return c
}

// token is one that the issuer has signed, to be used by itself.
func (i *issuer) token(change map[string]any) string {
	i.t.Helper()
	text, err := i.signed(&answerOf{claims: i.claims(change)})
	good(i.t, err)
	return text
}

func (i *issuer) signed(a *answerOf) (string, error) {
	if a.unsigned {
		return jwt.NewWithClaims(jwt.SigningMethodNone, a.claims).SignedString(jwt.UnsafeAllowNoneSignatureType)
	}
	token, key := jwt.NewWithClaims(jwt.SigningMethodRS256, a.claims), i.key
	if token.Header["kid"] = "k"; a.stranger {
		key = i.stranger
	}
	return token.SignedString(key)
}

// answerFor is what the code of a redirect stands for; a test may change it before the code is exchanged.
func (i *issuer) answerFor(q url.Values) *answerOf {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.codes[q.Get("code")]
}

func (i *issuer) exchange(w http.ResponseWriter, r *http.Request) {
	id, secret, basic := r.BasicAuth()
	secret, _ = url.QueryUnescape(secret)
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	i.mu.Lock()
	i.exchanges++
	a := i.codes[r.FormValue("code")]
	delete(i.codes, r.FormValue("code"))
	i.mu.Unlock()
	if a == nil || !basic || id != "stepwell" || secret != clientSecret || r.FormValue("redirect_uri") != i.callback ||
		a.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		i.json(w, 400, map[string]any{"error": "invalid_grant"})
		return
	}
	answer := map[string]any{"access_token": "x", "token_type": "Bearer"}
	if a.claims != nil {
		text, err := i.signed(a)
		if err != nil {
			i.t.Error(err)
		}
		answer["id_token"] = text
	}
	i.json(w, 200, answer)
}

// readAll reads an answer.
func readAll(t *testing.T, resp *http.Response) *got {
	t.Helper()
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	good(t, err)
	return &got{t, resp.StatusCode, resp.Header, raw}
}

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	good(t, err)
	return u
}

// cookiesOf are the cookies that a browser sends to a server.
func cookiesOf(t *testing.T, b *http.Client, address string) []*http.Cookie {
	t.Helper()
	return b.Jar.Cookies(mustURL(t, address))
}
