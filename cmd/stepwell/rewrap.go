package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
)

func (p *program) newSecretsRewrap() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rewrap",
		Short: "Seal everything with the first master key, after it was changed",
		Long: "Encrypt all secrets with the first master key, including those of signed webhooks and Stepwell's own. It opens the database directly, so no server may be using it; a server does the same when it starts. Parameters and outputs of executions remain encrypted with the key that was current when they were written.\n\n" +
			"To change the master key, put a new one (openssl rand -base64 32) in a line above the old one in the key file and rewrap. Remove the old one when no earlier execution has to be retried.",
		Args: arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error { return p.rewrap() },
	}
	p.settings.addDB(cmd.Flags())
	return cmd
}

// rewrap works on the database, for those who may write to the file.
func (p *program) rewrap() (err error) {
	if !app.DatabaseExists(p.settings.db) {
		return stepwell.Invalid("name it with --data or --db", "there is no database %s", p.settings.db)
	}
	o, err := p.options()
	if err != nil {
		return err
	}
	o.Log = p.log()
	ctx := context.Background()
	a, err := app.New(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	n, err := a.Reseal(ctx)
	if _, werr := fmt.Fprintf(p.out, "sealed with the first master key: secrets %d, webhooks %d\n", n.Secrets, n.Webhooks); err == nil {
		err = werr
	}
	return err
}
