package mcpapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/resource"
)

// Limits of tokens.
const (
	tokenLife = 10 * time.Minute
	maxTokens = 1000 // at once; of one caller a twentieth
)

// tokens are those that have been given and not been used.
type tokens struct {
	now func() time.Time

	mu    sync.Mutex
	given map[string]given
}

// given is what a token was given for.
type given struct {
	digest  [sha256.Size]byte // of tool, arguments and what was there
	caller  string
	expires time.Time
}

// give makes a token. CodeLimit: too many are waiting.
func (t *tokens) give(caller string, digest [sha256.Size]byte) (token string, expires time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, own := t.now(), 0
	for name, g := range t.given {
		if !now.Before(g.expires) {
			delete(t.given, name)
		} else if g.caller == caller {
			own++
		}
	}
	if own >= maxTokens/20 || len(t.given) >= maxTokens {
		return "", time.Time{}, stepwell.Errorf(stepwell.CodeLimit, "use them, or wait ten minutes", "too many tokens have been given and not been used")
	}
	var random [16]byte
	rand.Read(random[:]) //nolint:errcheck // never fails
	token, expires = "c_"+base64.RawURLEncoding.EncodeToString(random[:]), now.Add(tokenLife)
	if t.given == nil {
		t.given = map[string]given{}
	}
	t.given[token] = given{digest, caller, expires}
	return token, expires, nil
}

// again is the hint of every refusal of a token.
const again = "call again without confirm, and look at what would happen now"

// take uses a token up, whatever comes of it. CodeConflict: it counts no more, or not for this.
func (t *tokens) take(token, caller string, digest [sha256.Size]byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	g, ok := t.given[token]
	delete(t.given, token)
	switch {
	case !ok:
		return stepwell.Errorf(stepwell.CodeConflict, again, "the token is not known: it was used, has expired, or another process gave it")
	case !t.now().Before(g.expires):
		return stepwell.Errorf(stepwell.CodeConflict, again, "the token has expired")
	case g.caller != caller:
		return stepwell.Errorf(stepwell.CodeConflict, again, "the token was given to another caller")
	case g.digest != digest:
		return stepwell.Errorf(stepwell.CodeConflict, again, "the arguments are others, or what they are about has changed since the token was given")
	}
	return nil
}

// intent is something that a tool would do.
type intent struct {
	shown any    // what would happen, for who asks
	bound any    // what must not change until it does
	title string // for a person: what it is
	act   func(ctx context.Context, token string) (any, error)
}

// decide tells what would happen, with a token; or does it where confirm is the token of that. args are the arguments without
// confirm.
func (k *call) decide(ctx context.Context, who caller, confirm string, args any, in *intent) (*reply, error) {
	digest := sha256.Sum256(raw([]any{k.tool.Name, args, in.bound}))
	if confirm != "" {
		if err := k.tokens.take(confirm, who.name, digest); err != nil {
			return nil, err
		}
		done, err := in.act(ctx, confirm)
		if err != nil {
			return nil, err
		}
		return &reply{data: done, plain: map[string]any{"done": true}}, nil
	}
	token, expires, err := k.tokens.give(who.name, digest)
	if err != nil {
		return nil, err
	}
	plain := map[string]any{"done": false, "expires_at": resource.At(expires)}
	if k.o.Person {
		k.o.Tell(fmt.Sprintf("%s asks for: %s. To allow it within ten minutes, give it this token: %s", visible(who.name), visible(in.title), token))
		plain["confirm_by"] = "a person: the token is at the terminal or in the log of the process that answers; ask for it"
	} else {
		plain["confirm"] = token
	}
	return &reply{data: in.shown, plain: plain}, nil
}

// permitted is the caller, if he may do what the tool does.
func (k *call) permitted(ctx context.Context) (caller, error) {
	who, err := k.caller(ctx)
	if err != nil {
		return who, err
	}
	var role access.Role
	if err := role.UnmarshalText([]byte(who.role)); err != nil {
		return who, err
	}
	return who, access.Principal{Name: who.name, Role: role}.Need(k.tool.role)
}
