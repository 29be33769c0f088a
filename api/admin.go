package api

import (
	"context"
	"strconv"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
)

// admin are the operations on secrets, API keys and the audit log.
func (s *server) admin() {
	handle(s, "secret.list", s.listSecrets, listed[Secret](s, "SecretList", "secrets"))
	handle(s, "secret.set", s.setSecret)
	handle(s, "secret.delete", s.deleteSecret)
	handle(s, "key.create", s.createKey)
	handle(s, "key.list", s.listKeys, listed[Key](s, "KeyList", "keys"))
	handle(s, "key.get", s.getKey)
	handle(s, "key.revoke", s.revokeKey)
	handle(s, "key.delete", s.deleteKey)
	handle(s, "policy.get", s.getPolicy)
	handle(s, "policy.set", s.setPolicy)
	handle(s, "audit.list", s.listAudit, listed[AuditEntry](s, "AuditList", "entries"))
	handle(s, "me", s.me)
}

// The shapes of secrets and API keys.
type (
	Secret     = secret.Info
	SecretList = Page[Secret]
	Key        = access.Key
	KeyList    = Page[Key]
	AuditList  = Page[AuditEntry]
)

func (s *server) listSecrets(ctx context.Context, _ *struct{}) (*answer[SecretList], error) {
	list, err := s.o.Vault.List(ctx)
	if err != nil {
		return nil, err
	}
	return reply(SecretList{Items: list, name: "secrets"}, nil)
}

// SecretValue is a value to be kept.
type SecretValue struct {
	Value string `json:"value" minLength:"1" maxLength:"65536" writeOnly:"true"`
}

// SecretPath is the parameter of operations on one.
type SecretPath struct {
	Name string `path:"name" maxLength:"128" pattern:"^[A-Za-z_][A-Za-z0-9_.-]*$"`
}

type setSecretInput struct {
	SecretPath
	IfMatch string `header:"If-Match" maxLength:"2000"`
	Body    SecretValue
}

func (s *server) setSecret(ctx context.Context, in *setSecretInput) (*tagged[Secret], error) {
	revision := int64(store.AnyRevision)
	if in.IfMatch != "" {
		now, err := s.secretNamed(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		if err := matching(in.IfMatch, now.Version); err != nil {
			return nil, err
		}
		revision = now.Version
	}
	got, err := s.o.Vault.Set(ctx, in.Name, in.Body.Value, revision, access.Of(ctx).Actor())
	if err != nil {
		return nil, err
	}
	return &tagged[Secret]{etag(got.Version), got}, nil
}

func (s *server) secretNamed(ctx context.Context, name string) (*secret.Info, error) {
	list, err := s.o.Vault.List(ctx)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Name == name {
			return &list[i], nil
		}
	}
	return nil, notFound("there is no secret %s", stepwell.Clip(name, 60))
}

type deleteSecretInput struct {
	SecretPath
	IfMatch string `header:"If-Match" maxLength:"2000"`
}

func (s *server) deleteSecret(ctx context.Context, in *deleteSecretInput) (*struct{}, error) {
	now, err := s.secretNamed(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	return remove(in.IfMatch, now.Version, func(revision int64) error { return s.o.Vault.Delete(ctx, in.Name, revision) })
}

// NewKey asks for an API key.
type NewKey struct {
	Name    string `json:"name" minLength:"1" maxLength:"255" doc:"Unique."`
	Role    string `json:"role" enum:"viewer,operator,editor,admin"`
	Expires *Time  `json:"expires_at,omitempty" doc:"Defaults to never."`
}

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
func (s *server) refused(ctx context.Context) []RefusedStep {
	if s.o.Refused == nil || access.Of(ctx).Kind != access.KindAnonymous {
		return nil
	}
	list, err := s.o.Refused(ctx)
	if err != nil {
		s.o.Log.Warn("which stored steps are refused from now on is not known", "error", err)
	}
	out := make([]RefusedStep, 0, len(list))
	for _, r := range list {
		out = append(out, RefusedStep{Kind: r.Kind, ID: r.ID, Name: r.Name, Step: r.Step, Reason: stepwell.Clip(r.Err.Error(), maxDetailText), Cure: stepwell.HintOf(r.Err)})
	}
	return out
}

type createKeyInput struct{ Body NewKey }

func (s *server) createKey(ctx context.Context, in *createKeyInput) (*made[KeyMade], error) {
	n := access.NewKey{Name: in.Body.Name, By: access.Of(ctx).Actor()}
	if err := n.Role.UnmarshalText([]byte(in.Body.Role)); err != nil {
		return nil, err
	}
	if n.Role != access.Admin && access.Of(ctx).Kind == access.KindAnonymous { // a caller without a key would be locked out
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the first API key has to be an admin's: from then on everybody needs one",
			Hint: "make one with the role admin, and with it the others"}
	}
	if in.Body.Expires != nil {
		n.Expires = in.Body.Expires.Time
	}
	k, token, err := s.o.Keys.Create(ctx, n)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = k.ID
	return &made[KeyMade]{Status: statusOf(true), Location: prefix + "/keys/" + k.ID, Body: KeyMade{k, token, s.refused(ctx)}}, nil
}

func (s *server) listKeys(ctx context.Context, _ *struct{}) (*answer[KeyList], error) {
	list, err := s.o.Keys.List(ctx)
	if err != nil {
		return nil, err
	}
	return reply(KeyList{Items: list, name: "keys"}, nil)
}

// KeyPath is the parameter of operations on one.
type KeyPath struct {
	ID string `path:"key_id" maxLength:"255" doc:"Its id, or its name."`
}

func (s *server) getKey(ctx context.Context, in *KeyPath) (*answer[Key], error) {
	k, err := s.o.Keys.Key(ctx, in.ID)
	return reply(k, err)
}

func (s *server) revokeKey(ctx context.Context, in *KeyPath) (*answer[Key], error) {
	k, err := s.o.Keys.Revoke(ctx, in.ID)
	return reply(k, err)
}

func (s *server) deleteKey(ctx context.Context, in *KeyPath) (*struct{}, error) {
	return nil, s.o.Keys.Delete(ctx, in.ID)
}

// AuditEntry is one change and its author.
type AuditEntry struct {
	store.AuditEntry
	At Time `json:"at"`
}

// ListAudit selects entries of the audit log.
type ListAudit struct {
	Actor  string    `query:"actor" maxLength:"200"`
	Action string    `query:"action" maxLength:"100"`
	Object string    `query:"object" maxLength:"200"`
	Since  time.Time `query:"since"`
	Limit  int       `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor string    `query:"cursor" maxLength:"600"`
}

func (s *server) listAudit(ctx context.Context, in *ListAudit) (*answer[AuditList], error) {
	before, err := numberCursor("audit", in.Cursor)
	if err != nil {
		return nil, err
	}
	rows, err := s.o.Store.AuditEntries(ctx, store.AuditFilter{Actor: in.Actor, Action: in.Action, Object: in.Object, Since: in.Since, Before: before, Limit: in.Limit + 1})
	if err != nil {
		return nil, err
	}
	rows, next := page(rows, in.Limit, func(e *store.AuditEntry) string { return strconv.FormatInt(e.No, 10) })
	out := AuditList{Items: make([]AuditEntry, len(rows)), Next: cursorTo("audit", next), name: "entries"}
	for i := range rows {
		out.Items[i] = AuditEntry{rows[i], resource.At(rows[i].At)}
	}
	return reply(out, nil)
}

// Me is the caller.
type Me struct {
	Name string `json:"name"`
	Role string `json:"role" enum:"viewer,operator,editor,admin"`
	Kind string `json:"kind" doc:"anonymous, api_key or token."`
	User Ref    `json:"user" doc:"For whom a trusted proxy asks."`
}

func (s *server) me(ctx context.Context, _ *struct{}) (*answer[Me], error) {
	p := access.Of(ctx)
	if p.Role == 0 {
		return nil, &stepwell.Error{Code: stepwell.CodeUnauthenticated, Message: "nobody knows who asks"}
	}
	return reply(Me{Name: p.Name, Role: p.Role.String(), Kind: p.Kind, User: Ref(p.User)}, nil)
}
