// Package access says who may do what: it finds out who sends a request (API keys, JSON Web Tokens, or nobody
// on a machine of one's own), gives them a role, limits how often they may ask, and keeps a record of
// what they changed.
//
// Tokens are checked by golang-jwt; the issuer's keys are read here: keyfunc 3.9 with jwkset would replace a quarter of that,
// and the bounds of keys, bodies and asks would stay (docs/decisions.md).
//
// A Principal comes from Authenticator.Authenticate; whoever serves a request asks its Role. Errors are
// CodeUnauthenticated (nobody knows who asks) and CodeForbidden (they may not). No error ever holds a credential.
package access

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/stepwell/stepwell"
)

// Role is a set of permissions. A role may do all that lower roles may (May).
type Role uint8

// The roles. The zero value may nothing.
const (
	Viewer   Role = 1 // sees everything but secrets
	Operator Role = 2 // also starts, stops, repeats and answers
	Editor   Role = 3 // also changes pipelines, schedules, webhooks
	Admin    Role = 4 // also secrets, API keys, the audit log
	Worker   Role = 5 // runs steps, and nothing else: none of what lower roles may; an admin may it too
)

var roleNames = [...]string{"none", "viewer", "operator", "editor", "admin", "worker"}

// May reports whether the role may do what another one may.
func (r Role) May(role Role) bool {
	if r == Worker || role == Worker {
		return r == role || r == Admin
	}
	return r >= role
}

func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return fmt.Sprintf("role(%d)", uint8(r))
}

// MarshalText writes the role's name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a role's name; anything else is CodeInvalid.
func (r *Role) UnmarshalText(b []byte) error {
	got, ok := roleOf(string(b))
	if !ok {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("unknown role %q", b), Hint: "one of viewer, operator, editor, admin, worker"}
	}
	*r = got
	return nil
}

func roleOf(name string) (Role, bool) {
	for i := Viewer; i <= Worker; i++ {
		if roleNames[i] == name {
			return i, true
		}
	}
	return 0, false
}

// The kinds of principals.
const (
	KindAnonymous = "anonymous" // nothing is configured, and the request comes from this machine
	KindKey       = "api_key"
	KindToken     = "token" // a JSON Web Token
	KindOIDC      = "oidc"  // somebody who signed in at an issuer
	KindDapr      = "dapr"  // an app that calls through the Dapr sidecar
)

// Principal is the sender of a request.
type Principal struct {
	Name  string // of the key, or the subject of the token
	Role  Role
	Kind  string
	KeyID string // of an API key
	// User is for whom a trusted proxy sends the request (X-User-ID); "" if it does not say.
	User string
	// Via is through what the request came, as it says itself (ViaHeader); "" for most.
	Via string
}

// ViaHeader names what sends a request for its caller: "mcp claude-code". It is believed, as it changes nothing but how the
// actor is called: NAME via mcp claude-code.
const ViaHeader = "X-Stepwell-Via"

// maxVia bounds what ViaHeader says, in bytes.
const maxVia = 80

// ViaOf is what a request says about what it came through.
func ViaOf(r *http.Request) string { return CleanVia(r.Header.Get(ViaHeader)) }

// CleanVia is a value of ViaHeader: letters, digits and a few signs of a text, at most 80.
func CleanVia(text string) string {
	text = strings.Map(func(c rune) rune {
		if c == ' ' || c == '-' || c == '_' || c == '.' || c == '/' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return -1
	}, text)
	return strings.TrimSpace(text[:min(len(text), maxVia)])
}

// Actor is the recorded author of a change.
func (p Principal) Actor() string {
	actor := cmp.Or(p.User, p.Name)
	if p.Via != "" {
		actor += " via " + p.Via
	}
	return actor
}

// Need is CodeForbidden unless the principal's role is at least the given one.
func (p Principal) Need(role Role) error {
	if p.Role.May(role) {
		return nil
	}
	return &stepwell.Error{Code: stepwell.CodeForbidden, Message: fmt.Sprintf("%s is needed for this, %q is %s", role, p.Actor(), p.Role),
		Hint: "ask an admin for a key or a token with the role"}
}

type principalKey struct{}

// With puts a principal into a context.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// Of is the principal of a context; its role is none when there is no principal.
func Of(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}

func unauthenticated(message, hint string) error {
	return &stepwell.Error{Code: stepwell.CodeUnauthenticated, Message: message, Hint: hint}
}
