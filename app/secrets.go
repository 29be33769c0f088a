package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/trigger/webhook"
)

// Resealed counts values that were sealed with an older master key.
type Resealed struct{ Secrets, Webhooks int }

// Reseal seals with the first master key all values sealed with another one: secrets, the secrets of signed webhooks,
// and Stepwell's own keys. Parameters and outputs of executions stay as they are. Values that cannot be opened stay too
// and are listed in the error. Call it before Run.
func (a *App) Reseal(ctx context.Context) (n Resealed, err error) {
	n.Secrets, err = a.Secrets.Vault.Rewrap(ctx)
	var failed [2]error
	n.Webhooks, failed[0] = webhook.Reseal(ctx, a.Store, a.Keyring, a.now)
	_, failed[1] = openCallbacks(ctx, a.Store, a.Keyring)
	return n, errors.Join(err, failed[0], failed[1])
}

// lateGuard is a secret.Guard that is there by the time anything runs: actions are made before the database is open.
type lateGuard struct{ *secret.Guard }

// openSecrets opens the vault and registers its values for redaction. A database without secrets needs no master key,
// and gets none before the first value is sealed.
func (a *App) openSecrets(ctx context.Context, o Options, hidden *secret.Redactor) error {
	key := o.beside() + ".key"
	if kind, _, _ := findStore(o.DB); kind.resolve != nil {
		o.MasterKey.Generated = cmp.Or(o.MasterKey.Generated, key)
	} else if kind.shared { // a key beside a file of this machine is not that of the others
		o.MasterKey.Generated = ""
	} else { // other processes open it with the same key: none is made up
		o.MasterKey.File = cmp.Or(o.MasterKey.File, o.MasterKey.Generated, key)
	}
	keys, err := secret.LateKeyring(o.MasterKey)
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	a.Keyring, a.Secrets = keys, secret.NewGuard(a.Store, keys, hidden)
	o.secrets.Guard = a.Secrets
	load := a.Secrets.LoadLate
	if o.serves {
		load = a.Secrets.Load
	}
	err = load(ctx)
	if broken, ok := errors.AsType[*secret.BrokenError](err); ok { // the others can be used
		a.log.Error("secrets cannot be read", "names", broken.Names, "error", broken.Err)
		return nil
	}
	return err
}
