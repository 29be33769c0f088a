package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/store/sqlite"
)

func (p *program) newMigrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Brings a database to the version that this stepwell needs",
		Long: "Brings a database to the version that this stepwell needs. Every command that writes does so by\n" +
			"itself; this one does nothing else, for those who want to see it happen, after a backup.",
		Args: arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error { return p.migrate(context.Background()) },
	}
	p.settings.addDB(cmd.Flags())
	return cmd
}

func (p *program) migrate(ctx context.Context) (err error) {
	path := p.settings.db
	before := 0
	if isFile(path) {
		h, err := sqlite.Check(ctx, path)
		if err != nil {
			return err
		}
		before = h.Version
	}
	s, err := sqlite.Open(ctx, sqlite.Options{Path: path, Log: p.log()})
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	h, err := sqlite.Check(ctx, path)
	if err != nil {
		return err
	}
	if len(h.Problems) > 0 {
		return errors.New("the database is damaged: " + h.Problems[0])
	}
	if before == h.Version {
		_, err = fmt.Fprintf(p.out, "nothing to do: %s has version %d\n", path, h.Version)
	} else {
		_, err = fmt.Fprintf(p.out, "%s went from version %d to %d\n", path, before, h.Version)
	}
	return err
}
