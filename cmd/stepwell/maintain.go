package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
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

func (p *program) newBackupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copies the database while it is in use",
		Long: "Copies the database, as it is at one moment, while it is in use; large outputs go into FILE.blobs\n" +
			"beside the copy. The key file is not copied: keep it elsewhere, as it opens the copy's secrets.",
		Args: arguments(1, 1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
			defer stop()
			return p.backup(ctx, args[0])
		},
	}
	p.settings.addDB(cmd.Flags())
	return cmd
}

// removed removes a file that may be there.
func removed(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (p *program) backup(ctx context.Context, target string) (err error) {
	s, err := p.reader(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	_, show := p.terminal()
	err = s.Backup(ctx, target, func(done, total int) {
		if show {
			fmt.Fprintf(p.err, "\r%d of %d", done, total)
		}
	})
	if show {
		fmt.Fprintln(p.err)
	}
	if err != nil {
		return err
	}
	h, err := sqlite.Check(ctx, target)
	if err != nil {
		return err
	}
	if h.Log == 0 { // what reading the copy has left beside it
		if err := errors.Join(removed(target+"-wal"), removed(target+"-shm")); err != nil {
			return err
		}
	}
	if len(h.Problems) > 0 {
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: "the copy is damaged: " + h.Problems[0], Hint: "check the original with `stepwell doctor`"}
	}
	_, err = fmt.Fprintf(p.out, "%s, %s, checked\n", target, megabytes(h.Size))
	return err
}
