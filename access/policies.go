package access

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// ObjectPolicy is the kind of the policy that admins store; policyID is its id, as there is one.
const (
	ObjectPolicy = "policy"
	policyID     = "policy"
)

// PolicyStore is the storage of Policies; implemented by store.Objects.
type PolicyStore interface {
	PutObjects(ctx context.Context, objects ...store.Object) ([]store.Object, error)
	Object(ctx context.Context, kind, idOrName string) (*store.Object, error)
}

// Policies are the policy of the settings and the stored one: both have to allow an action. They are safe for
// concurrent use.
type Policies struct {
	store    PolicyStore
	settings *Policy
	stored   atomic.Pointer[StoredPolicy]
}

// StoredPolicy is the policy that admins have stored.
type StoredPolicy struct {
	Policy
	By       string `json:"by,omitempty"` // the author
	Revision int64  `json:"-"`
}

// NewPolicies checks the policy of the settings and reads the stored one.
func NewPolicies(ctx context.Context, s PolicyStore, settings Policy) (*Policies, error) {
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	p := &Policies{store: s, settings: &settings}
	return p, p.read(ctx)
}

// read takes over the stored policy.
func (p *Policies) read(ctx context.Context) error {
	stored := &StoredPolicy{}
	o, err := p.store.Object(ctx, ObjectPolicy, policyID)
	if err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
		return err
	}
	if err == nil {
		if err := json.Unmarshal(o.Body, stored); err != nil {
			return &stepwell.Error{Code: stepwell.CodeInternal, Message: "the stored policy cannot be read", Err: err}
		}
		stored.Revision = o.Revision
	}
	p.stored.Store(stored)
	return nil
}

// Refresh reads the stored policy again if it is among the objects that another process has changed or deleted.
func (p *Policies) Refresh(ctx context.Context, changed []store.Object) error {
	if slices.ContainsFunc(changed, func(o store.Object) bool { return o.Kind == ObjectPolicy }) {
		return p.read(ctx)
	}
	return nil
}

// Check is CodeDenied when one of both does not allow a use.
func (p *Policies) Check(u Use) error {
	if err := p.settings.Check(u); err != nil {
		return err
	}
	stored := p.stored.Load()
	if u.Reserved && u.Role != Admin.String() && !p.settings.lends(u) && !stored.lends(u) {
		return u.denied(fmt.Sprintf("it is for admins, unless roles.%s.allow names it", u.Role))
	}
	return stored.Check(u)
}

// Settings is the policy of the settings.
func (p *Policies) Settings() Policy { return *p.settings }

// Stored is the policy that admins have stored.
func (p *Policies) Stored() *StoredPolicy { return p.stored.Load() }

// Set stores a policy, which holds from the next step on, and gives the one before it too. CodeInvalid; CodeConflict when the revision is another one.
func (p *Policies) Set(ctx context.Context, policy Policy, by string, revision int64) (next, before *StoredPolicy, err error) {
	if err := policy.Validate(); err != nil {
		return nil, nil, err
	}
	now := p.stored.Load()
	if revision != store.AnyRevision && revision != now.Revision {
		return nil, nil, resource.Changed("policy")
	}
	next = &StoredPolicy{Policy: policy, By: by}
	body, err := json.Marshal(next)
	if err != nil {
		return nil, nil, err
	}
	stored, err := p.store.PutObjects(ctx, store.Object{Kind: ObjectPolicy, ID: policyID, Revision: now.Revision, Body: body})
	if err != nil {
		return nil, nil, err
	}
	next.Revision = stored[0].Revision
	p.stored.Store(next)
	return next, now, nil
}
