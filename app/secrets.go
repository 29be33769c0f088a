package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/stepwell/stepwell/secret"
)

// lateGuard is a secret.Guard that is there by the time anything runs: actions are made before the database is open.
type lateGuard struct{ *secret.Guard }

// openSecrets makes what keeps secrets, with everything that the vault holds known to it.
func (a *App) openSecrets(ctx context.Context, o Options) error {
	if o.MasterKey.Generated == "" {
		o.MasterKey.Generated = o.DB + ".key"
	}
	keys, err := secret.OpenKeyring(o.MasterKey)
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	a.Keyring, a.Secrets = keys, secret.NewGuard(a.Store, keys)
	o.secrets.Guard = a.Secrets
	err = a.Secrets.Vault.Load(ctx)
	if broken, ok := errors.AsType[*secret.BrokenError](err); ok { // the others can be used
		a.log.Error("secrets cannot be read", "names", broken.Names, "error", broken.Err)
		return nil
	}
	return err
}
