package api

import (
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/resource"
)

// The shapes of API keys.
type (
	NewKey  = access.NewKey
	Key     = access.Key
	KeyList = Page[Key]
)

// KeyMade is a new API key with its token, which cannot be read again.
type KeyMade struct {
	Key
	Token   string        `json:"token" doc:"Shown once. Send it as Authorization: Bearer, or X-API-Key."`
	Refused []RefusedStep `json:"refused,omitempty" nullable:"false" doc:"With the first key: what is stored and refused from now on, at most 100."`
}

// RefusedStep is a step of something stored that is refused on a server with API keys.
type RefusedStep struct {
	Kind   string `json:"kind" enum:"pipeline,schedule,webhook,event_trigger"`
	ID     string `json:"id"`
	Name   string `json:"name"`
	Step   string `json:"step_id,omitempty" doc:"The first one of a pipeline that is refused."`
	Reason string `json:"reason"`
	Cure   string `json:"cure" doc:"What to do."`
}

// refused lists the steps that the first key disables. Errors are only logged: the key exists already.
func (k *keys) refused(ctx context.Context) []RefusedStep {
	if k.o.Refused == nil || access.Of(ctx).Kind != access.KindAnonymous {
		return nil
	}
	list, err := k.o.Refused(ctx)
	if err != nil {
		k.o.Log.Warn("which stored steps are refused from now on is not known", "error", err)
	}
	out := make([]RefusedStep, 0, len(list))
	for _, r := range list {
		out = append(out, RefusedStep{Kind: r.Kind, ID: r.ID, Name: r.Name, Step: r.Step, Reason: stepwell.Clip(r.Err.Error(), maxDetailText), Cure: stepwell.HintOf(r.Err)})
	}
	return out
}

// keys are the API keys with their own operations.
type keys struct {
	*kindOf[NewKey, struct{}, KeyMade, Key, All]
	*server
}

func keysOf(list *access.Keys) Kind {
	k := &keys{kindOf: &kindOf[NewKey, struct{}, KeyMade, Key, All]{Resource: keyObjects{Keys: list}}}
	k.completed = func(ctx context.Context, of any) error {
		if of.(*NewKey).Role != access.Admin && access.Of(ctx).Kind == access.KindAnonymous { // a caller without a key would be locked out
			return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the first API key has to be an admin's: from then on everybody needs one",
				Hint: "make one with the role admin, and with it the others"}
		}
		return nil
	}
	k.made = func(ctx context.Context, m *KeyMade) { m.Refused = k.refused(ctx) }
	return k
}

func (k *keys) serve(s *server) {
	k.server = s
	k.kindOf.serve(s)
	handle(s, "key.revoke", k.revoke, s.named("key_id"))
}

func (k *keys) revoke(ctx context.Context, _ *struct{}) (*answer[Key], error) {
	id, err := k.nameIn(ctx, "key_id")
	if err != nil {
		return nil, err
	}
	key, err := k.o.Keys.Revoke(ctx, id)
	return reply(key, err)
}

// keyObjects are API keys as objects of a kind.
type keyObjects struct {
	*access.Keys
	fixed[Key]
}

// Kind names the kind.
func (keyObjects) Kind() resource.Kind {
	return resource.Kind{Name: "key", Noun: "key", Path: "keys", Param: "key_id", List: "keys"}
}

// Create makes one.
func (k keyObjects) Create(ctx context.Context, n *NewKey, actor string) (*KeyMade, error) {
	n.By = actor
	key, token, err := k.Keys.Create(ctx, *n)
	return &KeyMade{Key: key, Token: token}, err
}

// List lists all.
func (k keyObjects) List(ctx context.Context, _ *All) ([]Key, error) { return k.Keys.List(ctx) }

// Get finds one by id or name.
func (k keyObjects) Get(ctx context.Context, idOrName string) (*Key, error) {
	key, err := k.Keys.Key(ctx, idOrName)
	return &key, err
}
