package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/store"
)

// The shapes of policies.
type (
	PolicyRule   = access.Rule
	ActionPolicy = access.Policy
)

// PolicyShown is the policy in force: that of the settings and the stored one, which both have to allow an action.
type PolicyShown struct {
	ActionPolicy
	By       Ref          `json:"updated_by"`
	Settings ActionPolicy `json:"settings" doc:"Of the server's settings; it cannot be changed here."`
}

func (s *server) getPolicy(context.Context, *struct{}) (*tagged[PolicyShown], error) {
	return s.policyShown(s.o.Policies.Stored()), nil
}

func (s *server) policyShown(p *access.StoredPolicy) *tagged[PolicyShown] {
	return &tagged[PolicyShown]{etag(p.Revision), PolicyShown{p.Policy, Ref(p.By), s.o.Policies.Settings()}}
}

type setPolicyInput struct {
	IfMatch string `header:"If-Match" maxLength:"2000"`
	Body    ActionPolicy
}

func (s *server) setPolicy(ctx context.Context, in *setPolicyInput) (*tagged[PolicyShown], error) {
	revision := int64(store.AnyRevision)
	if in.IfMatch != "" {
		revision = s.o.Policies.Stored().Revision
		if err := matching(in.IfMatch, revision); err != nil {
			return nil, err
		}
	}
	got, was, err := s.o.Policies.Set(ctx, in.Body, access.Of(ctx).Actor(), revision)
	if err != nil {
		return nil, err
	}
	notePolicy(callOf(ctx), got, was)
	return s.policyShown(got), nil
}

// Limits of a policy's audit entry.
const (
	maxPolicyNoted = 16 << 10 // bytes of the whole
	maxPolicyDiff  = 200      // changes
)

// notePolicy writes the new policy and its differences into the audit log.
func notePolicy(c *call, now, was *access.StoredPolicy) {
	raw, err := json.Marshal(now.Policy)
	if err != nil { // texts only
		return
	}
	sum := sha256.Sum256(raw)
	c.note("revision", now.Revision)
	c.note("sha256", hex.EncodeToString(sum[:]))
	changes := now.Changes(&was.Policy)
	c.note("changes", changes[:min(len(changes), maxPolicyDiff)])
	if more := len(changes) - maxPolicyDiff; more > 0 {
		c.note("more_changes", more)
	}
	if len(raw) <= maxPolicyNoted {
		c.note("policy", json.RawMessage(raw))
	}
}
