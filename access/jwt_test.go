package access_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
)

// issuer signs tokens and publishes its keys; it is also an http.RoundTripper.
type issuer struct {
	mu      sync.Mutex
	set     []map[string]any
	fetches int
	status  int
	takes   time.Duration
}

func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(i.takes) // of a bubble
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fetches++
	raw, err := json.Marshal(map[string]any{"keys": i.set})
	return &http.Response{StatusCode: max(i.status, 200), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(raw))), Request: r}, err
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (i *issuer) rsa(t *testing.T, kid string, bits int) *rsa.PrivateKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	i.set = append(i.set, map[string]any{"kty": "RSA", "use": "sig", "kid": kid, "n": b64(k.N.Bytes()), "e": b64(big.NewInt(int64(k.E)).Bytes())})
	return k
}

func claims(change map[string]any) jwt.MapClaims {
	c := jwt.MapClaims{"iss": "https://issuer.example", "aud": []string{"other", "stepwell"}, "sub": "ada", "exp": time.Now().Add(time.Hour).Unix(), "role": "editor"}
	for name, v := range change {
		if v == nil {
			delete(c, name)
		} else {
			c[name] = v
		}
	}
	return c
}

func signed(t *testing.T, m jwt.SigningMethod, key any, kid string, c jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(m, c)
	if kid != "" {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func newJWT(t *testing.T, i *issuer, change func(*access.JWTOptions)) *access.JWT {
	t.Helper()
	o := access.JWTOptions{URL: "https://issuer.example/jwks", Issuer: "https://issuer.example", Audience: "stepwell", Client: &http.Client{Transport: i}, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	j, err := access.NewJWT(o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestJWTAlgorithms(t *testing.T) {
	i := &issuer{}
	r := i.rsa(t, "r", 2048)
	e, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	point, _ := e.PublicKey.Bytes()
	pub, d, _ := ed25519.GenerateKey(rand.Reader)
	i.set = append(i.set, map[string]any{"kty": "EC", "crv": "P-256", "kid": "e", "x": b64(point[1:33]), "y": b64(point[33:])}, map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "d", "x": b64(pub)},
		map[string]any{"kty": "RSA", "use": "enc", "kid": "enc", "n": "AQAB", "e": "AQAB"}, map[string]any{"kty": "EC", "crv": "secp256k1", "kid": "odd"})
	j := newJWT(t, i, nil)
	ctx := t.Context()
	for name, token := range map[string]string{"RS256": signed(t, jwt.SigningMethodRS256, r, "r", claims(nil)), "PS512": signed(t, jwt.SigningMethodPS512, r, "r", claims(nil)),
		"ES256": signed(t, jwt.SigningMethodES256, e, "e", claims(nil)), "EdDSA": signed(t, jwt.SigningMethodEdDSA, d, "d", claims(nil)), "no kid, one that fits": signed(t, jwt.SigningMethodES256, e, "", claims(nil))} {
		p, err := j.Authenticate(ctx, token)
		if err != nil || p != (access.Principal{Name: "ada", Role: access.Editor, Kind: access.KindToken}) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	der, _ := x509.MarshalPKIXPublicKey(&r.PublicKey)
	spki := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	stranger, _ := rsa.GenerateKey(rand.Reader, 2048)
	good := signed(t, jwt.SigningMethodRS256, r, "r", claims(nil))
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"none":                         signed(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "r", claims(nil)),
		"no signature":                 parts[0] + "." + parts[1] + ".",
		"HS256 with the public key":    signed(t, jwt.SigningMethodHS256, spki, "r", claims(nil)),
		"HS256 with the modulus":       signed(t, jwt.SigningMethodHS256, r.N.Bytes(), "r", claims(nil)),
		"another key under the id":     signed(t, jwt.SigningMethodRS256, stranger, "r", claims(nil)),
		"the key of another algorithm": signed(t, jwt.SigningMethodRS256, r, "e", claims(nil)),
		"changed claims":               parts[0] + "." + b64([]byte(`{"iss":"https://issuer.example","aud":"stepwell","sub":"eve","exp":9999999999,"role":"admin"}`)) + "." + parts[2],
		"unknown id":                   signed(t, jwt.SigningMethodRS256, r, "gone", claims(nil)),
		"nonsense":                     "a.b.c", "empty": "", "dots": "..", "four parts": good + ".x", "padding": good + "=",
	} {
		_, err := j.Authenticate(ctx, token)
		wantCode(t, err, stepwell.CodeUnauthenticated, name)
	}
	only := newJWT(t, i, func(o *access.JWTOptions) { o.Algorithms = []string{"ES256"} })
	_, err := only.Authenticate(ctx, good)
	wantCode(t, err, stepwell.CodeUnauthenticated, "an algorithm that is not allowed")
}

func TestJWTClaims(t *testing.T) {
	i := &issuer{}
	r := i.rsa(t, "r", 2048)
	j := newJWT(t, i, func(o *access.JWTOptions) { o.Leeway = 10 * time.Second })
	for name, change := range map[string]map[string]any{"issuer": {"iss": "https://issuer.example/"}, "no issuer": {"iss": nil}, "audience": {"aud": "stepwell2"}, "no audience": {"aud": nil}, "no expiry": {"exp": nil},
		"expired": {"exp": time.Now().Add(-20 * time.Second).Unix()}, "not yet": {"nbf": time.Now().Add(20 * time.Second).Unix()}, "nobody": {"sub": nil}, "expiry is a text": {"exp": "tomorrow"}} {
		_, err := j.Authenticate(t.Context(), signed(t, jwt.SigningMethodRS256, r, "r", claims(change)))
		wantCode(t, err, stepwell.CodeUnauthenticated, name)
	}
	for name, change := range map[string]map[string]any{"just expired": {"exp": time.Now().Add(-5 * time.Second).Unix()}, "in a moment": {"nbf": time.Now().Add(5 * time.Second).Unix()}, "one audience": {"aud": "stepwell"}} {
		if _, err := j.Authenticate(t.Context(), signed(t, jwt.SigningMethodRS256, r, "r", claims(change))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := j.Authenticate(t.Context(), signed(t, jwt.SigningMethodRS256, r, "r", claims(map[string]any{"role": "boss"})))
	wantCode(t, err, stepwell.CodeForbidden, "an unknown role")
	mapped := newJWT(t, i, func(o *access.JWTOptions) {
		o.RoleClaim, o.NameClaim, o.Roles = "realm_access.roles", "email", map[string]access.Role{"ops": access.Operator, "boss": access.Admin}
	})
	for roles, want := range map[string]access.Role{"ops": access.Operator, "boss": access.Admin, "admin": 0} {
		p, err := mapped.Authenticate(t.Context(), signed(t, jwt.SigningMethodRS256, r, "r", claims(map[string]any{"email": "a@b", "realm_access": map[string]any{"roles": []string{"x", "ops2", roles}}})))
		if p.Role != want || want != 0 && (err != nil || p.Name != "a@b") {
			t.Errorf("%s: %+v, %v", roles, p, err)
		}
	}
}

// An issuer that takes its time holds up the one request that reads its keys anew.
func TestJWTSlowIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{}
		key := i.rsa(t, "one", 2048)
		j := newJWT(t, i, nil)
		ask := func() error {
			_, err := j.Authenticate(t.Context(), signed(t, jwt.SigningMethodRS256, key, "one", claims(map[string]any{"exp": time.Now().Add(time.Hour).Unix()})))
			return err
		}
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		i.takes = 9 * time.Second
		first := make(chan error, 1)
		go func() { first <- ask() }()
		synctest.Wait()
		begun := time.Now()
		if err := ask(); err != nil || time.Since(begun) > 0 {
			t.Errorf("the next one waited %s: %v", time.Since(begun), err)
		}
		if err := <-first; err != nil || i.fetches != 2 {
			t.Errorf("%v after %d fetches", err, i.fetches)
		}
	})
}

func TestJWTKeysAreRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{}
		first := i.rsa(t, "one", 2048)
		j := newJWT(t, i, nil)
		ask := func(key crypto.PrivateKey, kid string) error {
			_, err := j.Authenticate(t.Context(), signed(t, jwt.SigningMethodRS256, key, kid, claims(nil)))
			return err
		}
		if err := ask(first, "one"); err != nil || i.fetches != 1 {
			t.Fatalf("%v after %d fetches", err, i.fetches)
		}
		second := i.rsa(t, "two", 2048)
		for range 100 {
			wantCode(t, ask(second, "two"), stepwell.CodeUnauthenticated, "too early")
		}
		if i.fetches != 1 {
			t.Errorf("unknown ids made %d fetches", i.fetches)
		}
		time.Sleep(time.Minute)
		if err := ask(second, "two"); err != nil || i.fetches != 2 {
			t.Errorf("%v after %d fetches", err, i.fetches)
		}
		i.status = 500
		time.Sleep(2 * time.Hour)
		for range 10 {
			if err := ask(first, "one"); err != nil {
				t.Fatalf("while the issuer is unavailable: %v", err)
			}
		}
		if i.fetches != 3 {
			t.Errorf("%d fetches of an issuer that is unavailable", i.fetches)
		}
		time.Sleep(24 * time.Hour)
		wantCode(t, ask(first, "one"), stepwell.CodeUnavailable, "after a day")
		i.status, i.set = 200, i.set[1:]
		time.Sleep(time.Minute)
		wantCode(t, ask(first, "one"), stepwell.CodeUnauthenticated, "a key that was withdrawn")
		if err := ask(second, "two"); err != nil {
			t.Error(err)
		}
	})
}

func TestJWTOptions(t *testing.T) {
	full := access.JWTOptions{URL: "https://x/jwks", Issuer: "i", Audience: "a"}
	for name, change := range map[string]func(*access.JWTOptions){"http": func(o *access.JWTOptions) { o.URL = "http://issuer.example/jwks" }, "no keys": func(o *access.JWTOptions) { o.URL = "" }, "both": func(o *access.JWTOptions) { o.File = "x" },
		"no issuer": func(o *access.JWTOptions) { o.Issuer = "" }, "no audience": func(o *access.JWTOptions) { o.Audience = "" }, "none": func(o *access.JWTOptions) { o.Algorithms = []string{"none"} },
		"HS256": func(o *access.JWTOptions) { o.Algorithms = []string{"RS256", "HS256"} }, "leeway": func(o *access.JWTOptions) { o.Leeway = time.Hour }} {
		o := full
		change(&o)
		_, err := access.NewJWT(o)
		wantCode(t, err, stepwell.CodeInvalid, name)
	}
	if _, err := access.NewJWT(access.JWTOptions{URL: "http://127.0.0.1:9/jwks", Issuer: "i", Audience: "a"}); err != nil {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "keys.json")
	for name, text := range map[string]string{"a shared secret": `{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"x"}]}`, "a short key": `{"keys":[{"kty":"RSA","n":"` + b64(make([]byte, 64)) + `","e":"AQAB"}]}`, "nothing": `{}`, "no JSON": `x`,
		"an exponent of one": `{"keys":[{"kty":"RSA","n":"` + b64(append([]byte{0xff}, make([]byte, 255)...)) + `","e":"AQ"}]}`, "no point": `{"keys":[{"kty":"EC","crv":"P-256","x":"` + b64(make([]byte, 32)) + `","y":"` + b64(make([]byte, 32)) + `"}]}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := access.NewJWT(access.JWTOptions{File: path, Issuer: "i", Audience: "a", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, j.Load(t.Context()), stepwell.CodeUnavailable, name)
	}
}
