package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stepwell/stepwell"
)

// JWTOptions say which JSON Web Tokens are believed. One of File and URL, Issuer and Audience are required.
type JWTOptions struct {
	File string // with the issuer's public keys (JWKS)
	URL  string // of the same; https, or a loopback address
	// Issuer must equal iss, Audience must be in aud.
	Issuer, Audience string
	// Algorithms are the allowed signature algorithms. Defaults to RS256, RS384, RS512, PS256, PS384, PS512, ES256,
	// ES384, ES512 and EdDSA. Algorithms with a shared secret, and none, cannot be allowed.
	Algorithms []string
	// Leeway is by how much the clocks may differ. Defaults to 30 seconds.
	Leeway time.Duration
	// NameClaim is the claim with the caller's name. Defaults to sub.
	NameClaim string
	// RoleClaim is the claim, or a path such as realm_access.roles, that holds roles. Defaults to role.
	RoleClaim string
	// Roles says which role a value of the claim stands for. Defaults to the roles' own names.
	Roles map[string]Role
	// DefaultRole is that of a token which gives none. Defaults to none: such a token is refused.
	DefaultRole Role
	// Refresh is how long the keys are believed. Defaults to one hour.
	Refresh time.Duration
	// Client fetches URL. Defaults to a client with a timeout of ten seconds that follows no redirects.
	Client *http.Client
	// Log takes messages about keys that cannot be fetched. Defaults to slog.Default.
	Log *slog.Logger
}

// asymmetric are the algorithms that a published key can be used with.
var asymmetric = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

func (o *JWTOptions) validate() error {
	invalid := func(message, hint string) error {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "JWT: " + message, Hint: hint}
	}
	if (o.File == "") == (o.URL == "") {
		return invalid("either a file or a URL with the issuer's keys is needed", "the issuer's jwks_uri")
	}
	if o.URL != "" {
		if err := checkKeysURL(o.URL); err != nil {
			return err
		}
	}
	if o.Issuer == "" || o.Audience == "" {
		return invalid("issuer and audience are needed", "without them any token of the issuer for anything would do")
	}
	if len(o.Algorithms) == 0 {
		o.Algorithms = asymmetric
	}
	for _, alg := range o.Algorithms {
		if !slices.Contains(asymmetric, alg) {
			return invalid(fmt.Sprintf("algorithm %q cannot be allowed", alg), "one of RS256 … EdDSA")
		}
	}
	o.Leeway = cmp.Or(max(o.Leeway, 0), 30*time.Second)
	if o.Leeway > 10*time.Minute {
		return invalid("a leeway of more than ten minutes", "")
	}
	o.NameClaim = cmp.Or(o.NameClaim, "sub")
	o.RoleClaim = cmp.Or(o.RoleClaim, "role")
	o.Refresh = cmp.Or(max(o.Refresh, 0), time.Hour)
	if o.Client == nil {
		o.Client = &http.Client{Timeout: fetchTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	return nil
}

// JWT believes the tokens of one issuer. It may be used by any goroutine.
type JWT struct {
	o      JWTOptions
	keys   *keySet
	parser *jwt.Parser
}

// NewJWT makes it. The keys are read when the first token comes; Load reads them at once. CodeInvalid.
func NewJWT(o JWTOptions) (*JWT, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	j := &JWT{o: o, keys: &keySet{file: o.File, url: o.URL, client: o.Client, refresh: o.Refresh, log: o.Log}}
	j.parser = jwt.NewParser(jwt.WithValidMethods(o.Algorithms), jwt.WithIssuer(o.Issuer), jwt.WithAudience(o.Audience),
		jwt.WithExpirationRequired(), jwt.WithLeeway(o.Leeway), jwt.WithStrictDecoding())
	return j, nil
}

// Load reads the issuer's keys, to find out at the start that they cannot be read.
func (j *JWT) Load(ctx context.Context) error {
	_, err := j.keys.find(ctx, "", "")
	if stepwell.CodeOf(err) == stepwell.CodeUnauthenticated { // there are some, if not one without an id
		return nil
	}
	return err
}

// Authenticate finds out whose token it is. CodeUnauthenticated; CodeForbidden for a good token without a role;
// CodeUnavailable when the issuer's keys have never been read.
func (j *JWT) Authenticate(ctx context.Context, token string) (Principal, error) {
	claims, err := j.verify(ctx, token)
	if err != nil {
		return Principal{}, err
	}
	return j.principal(claims)
}

// verify checks the signature, issuer, audience and times of a token, and returns its claims.
func (j *JWT) verify(ctx context.Context, token string) (jwt.MapClaims, error) {
	claims := jwt.MapClaims{}
	_, err := j.parser.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) {
		kid, _ := t.Header["kid"].(string)
		if _, critical := t.Header["crit"]; critical {
			return nil, errors.New("crit is not understood")
		}
		return j.keys.find(ctx, kid, t.Method.Alg())
	})
	if err != nil {
		return nil, tokenError(err)
	}
	return claims, nil
}

// principal is who has a token with the claims.
func (j *JWT) principal(claims jwt.MapClaims) (Principal, error) {
	p := Principal{Name: j.name(claims), Role: j.role(claims), Kind: KindToken}
	switch {
	case p.Name == "":
		return Principal{}, unauthenticated("the token does not say whose it is", "it needs sub, or "+j.o.NameClaim)
	case p.Role == 0:
		return Principal{}, &stepwell.Error{Code: stepwell.CodeForbidden, Message: fmt.Sprintf("the token of %q gives no role", p.Name),
			Hint: fmt.Sprintf("its claim %s is looked at", j.o.RoleClaim)}
	}
	return p, nil
}

// settings is a digest of what decides over tokens and roles.
func (j *JWT) settings() []byte {
	return digestOf(j.o.File, j.o.URL, j.o.Issuer, j.o.Audience, j.o.NameClaim, j.o.RoleClaim, j.o.Roles, j.o.DefaultRole)
}

func digestOf(parts ...any) []byte {
	raw, err := json.Marshal(parts) // texts, roles and maps of them, which are written in order
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(raw)
	return sum[:16]
}

// tokenError gives the reason for rejecting a token, without any of its contents.
func tokenError(err error) error {
	if code := stepwell.CodeOf(err); code == stepwell.CodeUnavailable {
		return err
	}
	for _, known := range []struct {
		err     error
		message string
	}{
		{jwt.ErrTokenExpired, "the token has expired"},
		{jwt.ErrTokenNotValidYet, "the token is not valid yet"},
		{jwt.ErrTokenInvalidAudience, "the token has another audience (aud)"},
		{jwt.ErrTokenInvalidIssuer, "the token has another issuer (iss)"},
		{jwt.ErrTokenRequiredClaimMissing, "the token lacks a claim: iss, aud and exp are needed"},
		{errNoKey, "the token is signed with a key that its issuer does not publish"},
		{jwt.ErrTokenMalformed, "the token is no JSON Web Token"},
	} {
		if errors.Is(err, known.err) {
			return unauthenticated(known.message, "get a new one")
		}
	}
	return unauthenticated("the token is not signed by its issuer", "")
}
