package main

import (
	"context"
	"errors"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/store"
)

// setSecretHere sets a secret in the database, for those who may write to the file. A process that runs executions knows
// the secrets that it began with, so the database must be free.
func (p *program) setSecretHere(c *connection, name, value string) (err error) {
	o, err := p.options()
	if err != nil {
		return err
	}
	o.Log = p.log()
	ctx := context.Background()
	a, err := app.New(ctx, o)
	if stepwell.CodeOf(err) == stepwell.CodeConflict {
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the secret cannot be set in the database", Hint: "if that process is a server, name it with --server; else wait for its end", Err: err}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	const who = "command"
	got, err := a.Secrets.Vault.Set(ctx, name, value, store.AnyRevision, who)
	if err != nil {
		return err
	}
	if err := a.Store.AppendAudit(ctx, []store.AuditEntry{{At: time.Now(), Actor: who, Action: "secret.set", Object: got.Name, Result: "ok"}}); err != nil {
		return err
	}
	return p.answered(c, object{"name": got.Name, "version": got.Version}, "Set the secret %s in %s.", printable(got.Name), p.settings.db)
}
