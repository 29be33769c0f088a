package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/service"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger/webhook"
)

// Resealed counts values that were sealed with an older master key. Kubeconfigs of clusters are secrets.
type Resealed struct{ Secrets, Webhooks int }

// Reseal seals with the first master key all values sealed with another one: secrets, the secrets of signed webhooks,
// and Stepwell's own keys. Parameters and outputs of executions stay as they are. Values that cannot be opened stay too
// and are listed in the error. Call it before Run.
func (a *App) Reseal(ctx context.Context) (n Resealed, err error) {
	n.Secrets, err = a.Secrets.Vault.Rewrap(ctx)
	var failed [3]error
	n.Webhooks, failed[0] = webhook.Reseal(ctx, a.Store, a.Keyring, a.now)
	_, failed[1] = openCallbacks(ctx, a.Store, a.Keyring)
	_, failed[2] = secret.StoredKey(ctx, a.Store, a.Keyring, objectServer, sessionID)
	kubeconfigs, wrong := resealClusters(ctx, a.Store, a.Keyring)
	n.Secrets += kubeconfigs
	return n, errors.Join(err, failed[0], failed[1], failed[2], wrong)
}

// lateGuard is a secret.Guard that is there by the time anything runs: actions are made before the database is open.
type lateGuard struct{ *secret.Guard }

// keyring is the master keys, which are read when they are needed.
func (o *Options) keyring() (*secret.Keyring, error) {
	key := o.beside() + ".key"
	if kind, _, _ := findStore(o.DB); kind.resolve != nil {
		o.MasterKey.Generated = cmp.Or(o.MasterKey.Generated, key)
	} else if kind.shared { // a key beside a file of this machine is not that of the others
		o.MasterKey.Generated = ""
	} else { // other processes open it with the same key: none is made up
		o.MasterKey.File = cmp.Or(o.MasterKey.File, o.MasterKey.Generated, key)
	}
	keys, err := secret.LateKeyring(o.MasterKey)
	if err == nil && o.serves && o.shared() {
		err = keys.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("secrets: %w", err)
	}
	return keys, nil
}

// addSources gives the guard the sources of secrets.
func (a *App) addSources(o *Options) error {
	if len(o.SecretSources) == 0 {
		return nil
	}
	client, err := a.serviceClient(o)
	if err != nil {
		return err
	}
	for i, s := range o.SecretSources {
		source, err := client.Secrets(s)
		if err != nil {
			return stepwell.Invalid(stepwell.HintOf(err), "secrets.sources[%d]: %s", i, err)
		}
		a.Secrets.AddSources(source)
	}
	return nil
}

// serviceClient calls services outside of steps.
func (a *App) serviceClient(o *Options) (client *service.Client, err error) {
	if a.services == nil {
		a.services, err = service.NewClient(o.Services)
	}
	return a.services, err
}

// checkKey refuses a shared database whose servers have another master key, before it is migrated.
func (o *Options) checkKey(keys *secret.Keyring) func(context.Context, store.Objects) error {
	return func(ctx context.Context, s store.Objects) error {
		if !o.serves {
			return nil
		}
		return wrongKey(secret.CheckStored(ctx, s, keys, objectServer, fleetKeyID))
	}
}

func wrongKey(err error) error {
	if err == nil {
		return nil
	}
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the key by which the nodes of this database know each other cannot be opened", Err: err,
		Hint: "all nodes have the same master key: STEPWELL_SECRETS_KEY, or secrets.key_file"}
}

// openSecrets opens the vault and registers its values for redaction. A database without secrets needs no master key,
// and gets none before the first value is sealed. One that is only read needs none where none is named (keyless).
func (a *App) openSecrets(ctx context.Context, o Options, keys *secret.Keyring, hidden *secret.Redactor) error {
	a.Keyring, a.Secrets = keys, secret.NewGuard(a.Store, keys, hidden)
	o.secrets.Guard = a.Secrets
	if err := a.addSources(&o); err != nil {
		return err
	}
	load := a.Secrets.LoadLate
	if o.serves {
		load = a.Secrets.Load
	}
	err := load(ctx)
	if o.reads && errors.Is(err, secret.ErrNoKey) {
		a.keyless = err
		return nil
	}
	if broken, ok := errors.AsType[*secret.BrokenError](err); ok { // the others can be used
		a.log.Error("secrets cannot be read", "names", broken.Names, "error", broken.Err)
		return nil
	}
	return err
}
