package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

const maxProvider = 1 << 20 // bytes of an answer of the issuer

// provider is what an issuer says of itself.
type provider struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Keys          string   `json:"jwks_uri"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`

	tokens *JWT
	read   time.Time
}

// checkIssuerURL allows addresses that nobody on the way can change.
func checkIssuerURL(what, text string) error {
	u, err := url.Parse(text)
	if err == nil && u.Host != "" && u.Fragment == "" && (u.Scheme == "https" || u.Scheme == "http" && loopbackName(u.Hostname())) {
		return nil
	}
	return stepwell.Invalid("http is for addresses of this machine", "OIDC: %s must be an https address", what)
}

// provider is the issuer's description, read again every hour; while it cannot be, the one before counts.
func (o *OIDC) provider(ctx context.Context) (*provider, error) {
	o.asking.Lock()
	defer o.asking.Unlock()
	before := o.found
	if before != nil && time.Since(before.read) < time.Hour {
		return before, nil
	}
	p, err := o.discover(ctx)
	switch {
	case err == nil:
		if before != nil && before.Keys == p.Keys {
			p.tokens = before.tokens // with the keys that it has read
		}
		o.found = p
		return p, nil
	case before != nil:
		o.complain("the issuer's description cannot be read; the one before is used", err)
		before.read = time.Now().Add(-59 * time.Minute)
		return before, nil
	}
	o.complain("the issuer's description cannot be read", err)
	return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the issuer cannot be reached", Hint: "the server's log says why"}
}

// complain writes an error of the issuer's to the server's log; what callers see does not repeat it.
func (o *OIDC) complain(message string, err error) {
	o.o.Log.Error(message, "issuer", o.o.Issuer, "error", err)
}

func (o *OIDC) discover(ctx context.Context) (*provider, error) {
	// Others wait for it too, so it goes on when the request is given up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(o.o.Issuer, "/")+"/.well-known/openid-configuration", nil)
	if err != nil {
		return nil, err
	}
	p := &provider{read: time.Now()}
	if err := o.ask(req, p); err != nil {
		return nil, err
	}
	if p.Issuer != o.o.Issuer {
		return nil, fmt.Errorf("it says that it is %q", stepwell.Clip(p.Issuer, 200))
	}
	if err := errors.Join(checkIssuerURL("authorization_endpoint", p.Authorization), checkIssuerURL("token_endpoint", p.Token)); err != nil {
		return nil, err
	}
	p.tokens, err = NewJWT(JWTOptions{URL: p.Keys, Issuer: p.Issuer, Audience: o.o.ClientID, NameClaim: o.o.NameClaim, RoleClaim: o.o.RoleClaim, Roles: o.o.Roles,
		Client: o.o.Client, Log: o.o.Log})
	return p, err
}

// ask sends a request and reads the answer, a JSON object of bounded size.
func (o *OIDC) ask(req *http.Request, into any) (err error) {
	req.Header.Set("Accept", "application/json")
	resp, err := o.o.Client.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxProvider+1))
	if err != nil {
		return err
	}
	if len(raw) > maxProvider {
		return fmt.Errorf("more than %d bytes", maxProvider)
	}
	if resp.StatusCode != http.StatusOK {
		var refusal struct {
			Error       string `json:"error"`
			Description string `json:"error_description"`
		}
		if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "application/json" && json.Unmarshal(raw, &refusal) == nil && refusal.Error != "" {
			return fmt.Errorf("answered %d: %s %s", resp.StatusCode, stepwell.Clip(refusal.Error, 100), stepwell.Clip(refusal.Description, 200))
		}
		return fmt.Errorf("answered %d", resp.StatusCode)
	}
	return json.Unmarshal(raw, into)
}

// redeem exchanges the code for an ID token, and finds out who it is about.
func (o *OIDC) redeem(ctx context.Context, l *login, back Return) (Principal, error) {
	p, err := o.provider(ctx)
	if err != nil {
		return Principal{}, err
	}
	var got struct {
		Token string `json:"id_token"`
	}
	req, err := o.exchange(ctx, p, l, back.Code)
	if err == nil {
		err = o.ask(req, &got)
	}
	if err != nil {
		o.complain("a code was not exchanged", err)
		return Principal{}, unauthenticated("the issuer did not accept the code", "sign in again; the server's log says why")
	}
	if got.Token == "" || len(got.Token) > maxProvider/2 {
		return Principal{}, unauthenticated("the issuer's answer has no ID token", "")
	}
	claims, err := p.tokens.verify(ctx, got.Token)
	if err != nil {
		return Principal{}, err
	}
	if nonce, _ := claims["nonce"].(string); !same([]byte(nonce), []byte(l.Nonce)) {
		return Principal{}, unauthenticated("the ID token is of another login (nonce)", "sign in again")
	}
	audience, err := claims.GetAudience()
	party, said := claims["azp"].(string)
	if err != nil || said && party != o.o.ClientID || !said && len(audience) > 1 {
		return Principal{}, unauthenticated("the ID token is for somebody else (azp)", "")
	}
	who, err := p.tokens.principal(claims)
	if err != nil {
		return Principal{}, err
	}
	who.Kind = KindOIDC
	return who, o.use(l)
}

// exchange is the request for the tokens.
func (o *OIDC) exchange(ctx context.Context, p *provider, l *login, code string) (*http.Request, error) {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {o.o.URL}, "code_verifier": {l.Verifier}}
	secret := ""
	if o.o.ClientSecret != nil {
		var err error
		if secret, err = o.o.ClientSecret(ctx); err != nil {
			return nil, fmt.Errorf("the client's secret: %w", err)
		}
	}
	basic := secret != "" && (len(p.Methods) == 0 || slices.Contains(p.Methods, "client_secret_basic"))
	if !basic {
		form.Set("client_id", o.o.ClientID)
	}
	if secret != "" && !basic {
		form.Set("client_secret", secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if basic {
		req.SetBasicAuth(url.QueryEscape(o.o.ClientID), url.QueryEscape(secret))
	}
	return req, nil
}
