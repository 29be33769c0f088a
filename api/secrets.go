package api

import (
	"context"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// The shapes of secrets.
type (
	Secret     = secret.Info
	SecretList = Page[Secret]
)

// SecretValue is a value to be kept.
type SecretValue struct {
	Value string `json:"value" minLength:"1" maxLength:"65536" writeOnly:"true"`
}

// secrets are listed and deleted as other kinds are; secret.set stores a new value under a name.
type secrets struct {
	*kindOf[struct{}, struct{}, Secret, Secret, All]
	*server
	vault *secret.Vault
}

func secretsOf(v *secret.Vault) Kind {
	k := &kindOf[struct{}, struct{}, Secret, Secret, All]{Resource: vaultObjects{Vault: v}}
	longest := 128
	k.id = &huma.Schema{Type: "string", MaxLength: &longest, Pattern: "^[A-Za-z_][A-Za-z0-9_.-]*$"}
	return &secrets{kindOf: k, vault: v}
}

func (k *secrets) serve(s *server) {
	k.server = s
	k.kindOf.serve(s)
	handle(s, "secret.set", k.set, s.named("name"))
}

func (k *secrets) set(ctx context.Context, in *valueInput) (*tagged[Secret], error) {
	name, err := k.nameIn(ctx, "name")
	revision := int64(store.AnyRevision)
	if err == nil && in.IfMatch != "" {
		_, _, revision, err = k.found(ctx)
		if err == nil {
			err = matching(in.IfMatch, revision)
		}
	}
	if err != nil {
		return nil, err
	}
	got, err := k.vault.Set(ctx, name, in.Body.Value, revision, access.Of(ctx).Actor())
	if err != nil {
		return nil, err
	}
	return &tagged[Secret]{etag(got.Version), got}, nil
}

type valueInput struct {
	IfMatch string `header:"If-Match" maxLength:"2000"`
	Body    SecretValue
}

// vaultObjects are secrets as objects of a kind.
type vaultObjects struct {
	*secret.Vault
	fixed[Secret]
}

// Kind names the kind.
func (vaultObjects) Kind() resource.Kind {
	return resource.Kind{Name: "secret", Noun: "secret", Path: "secrets", Param: "name", List: "secrets"}
}

// List lists all, without their values.
func (v vaultObjects) List(ctx context.Context, _ *All) ([]Secret, error) { return v.Vault.List(ctx) }

// Get finds one, without its value.
func (v vaultObjects) Get(ctx context.Context, name string) (*Secret, error) {
	list, err := v.Vault.List(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(s Secret) bool { return s.Name == name })
	if at < 0 {
		names := make([]string, len(list))
		for i := range list {
			names[i] = list[i].Name
		}
		return nil, stepwell.Errorf(stepwell.CodeNotFound, spec.DidYouMean(name, names), "there is no secret %s", stepwell.Clip(name, 60))
	}
	return &list[at], nil
}

// fixed is embedded by kinds that have other operations to create objects, or none to change them.
type fixed[S any] struct{}

// Create is not offered.
func (fixed[S]) Create(context.Context, *struct{}, string) (*S, error) {
	return nil, stepwell.Invalid("", "it cannot be created so")
}

// Update is not offered.
func (fixed[S]) Update(context.Context, string, int64, func(*struct{}) error) (*S, error) {
	return nil, stepwell.Invalid("", "it cannot be changed")
}
