package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/doctor"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/view"
)

func (p *program) newMigrateCommand() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Migrate a database to this version, or into PostgreSQL",
		Long: "Migrate a database to the schema version of this stepwell. Every command that writes migrates automatically; this one does nothing else, for example after a backup.\n\n" +
			"With --to, copy everything, unfinished executions included, into an empty PostgreSQL database. All rows are compared afterwards, and the old database is renamed. Stop its server first. After a failure, repeat the command: it continues.",
		Example: "  stepwell migrate --from sqlite:.stepwell/stepwell.db \\\n      --to postgres://me@host/stepwell",
		Args:    arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
			defer stop()
			if to != "" {
				return p.migrateInto(ctx, cmp.Or(from, p.settings.db), to)
			}
			if from != "" {
				return stepwell.Invalid("name the PostgreSQL database with --to", "--from goes with --to")
			}
			return p.migrate(ctx)
		},
	}
	p.settings.addDB(cmd.Flags())
	cmd.Flags().StringVar(&from, "from", "", "the `database` to take over (default that of --data or --db)")
	cmd.Flags().StringVar(&to, "to", "", "the empty PostgreSQL `database` that takes it over")
	return cmd
}

func (p *program) migrateInto(ctx context.Context, from, to string) error {
	progress := func(string, int64) {}
	if p.terminal() != nil {
		progress = func(table string, rows int64) { fmt.Fprintf(p.err, "\r\x1b[K%s: %d rows", table, rows) }
		defer fmt.Fprintln(p.err)
	}
	done, err := app.Import(ctx, from, to, p.log(), progress)
	if err != nil {
		return err
	}
	rows := int64(0)
	for _, n := range done.Rows {
		rows += n
	}
	fmt.Fprintf(p.out, "%s has everything now: %d executions, %d rows, %d large outputs\n", app.DatabaseName(to), done.Rows["execution_live"]+done.Rows["execution_past"], rows, done.Blobs)
	for _, ref := range done.Missing {
		fmt.Fprintf(p.err, "warning: a large output was missing before: %s\n", ref)
	}
	fmt.Fprintf(p.out, "%s is called %s%s now\n", app.DatabaseName(from), filepath.Base(app.DatabaseName(from)), app.Migrated)
	fmt.Fprintf(p.out, "start the server with --db and the same --data, whose key file and streams it needs (settings: db, secrets.key_file)\n")
	return nil
}

// migrateShared is migrate for a database that is no file.
func (p *program) migrateShared(ctx context.Context) error {
	s, err := app.OpenWriter(ctx, p.settings.db, p.log())
	if err == nil {
		err = s.Close()
	}
	if err == nil {
		_, err = fmt.Fprintf(p.out, "%s has the version that this stepwell needs\n", app.DatabaseName(p.settings.db))
	}
	return err
}

func (p *program) migrate(ctx context.Context) (err error) {
	path, err := app.DatabaseFile(p.settings.db)
	if err != nil {
		return p.migrateShared(ctx)
	}
	before := 0
	if app.IsFile(path) {
		h, err := sqlite.Check(ctx, path)
		if err != nil {
			return err
		}
		before = h.Version
	}
	if err := p.makeData(); err != nil {
		return err
	}
	s, err := app.OpenWriter(ctx, path, p.log())
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
		Short: "Copy the database while it is in use",
		Long: "Make a consistent copy of the database, even while it is in use. Large outputs go into FILE.blobs next to the copy, and each of them is checked. The copy is read-only; `stepwell restore` makes a database of it. The key file is not copied: keep it elsewhere, because it decrypts the copy's secrets.\n\n" +
			"Exit codes: 0 the copy is whole; 1 it could not be made, or it was made but large outputs that\n" +
			"it refers to are missing or damaged: they are named.",
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

func (p *program) newRestoreCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a database of a backup",
		Long: "Make a database of the backup in FILE: its rows and large outputs are checked and copied to the\n" +
			"place of the database (--data, --db), where none may be yet. When that is FILE itself, nothing is\n" +
			"copied. The key file is not a part of a backup: put it beside the database before the server starts.",
		Args: arguments(1, 1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
			defer stop()
			return p.restore(ctx, args[0], force)
		},
	}
	p.settings.addDB(cmd.Flags())
	cmd.Flags().BoolVar(&force, "force", false, "restore although large outputs are missing or damaged")
	return cmd
}

// counter shows how far a copy has come, on a terminal.
func (p *program) counter() (progress func(done, total int), end func()) {
	if p.terminal() == nil {
		return nil, func() {}
	}
	return func(done, total int) { fmt.Fprintf(p.err, "\r%d of %d", done, total) }, func() { fmt.Fprintln(p.err) }
}

func (p *program) backup(ctx context.Context, target string) (err error) {
	s, err := app.OpenReader(ctx, p.settings.db, p.log())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	progress, end := p.counter()
	err = s.Backup(ctx, target, progress)
	end()
	if err != nil {
		return err
	}
	h, found, err := sqlite.CheckCopy(ctx, target)
	if err != nil {
		return err
	}
	if broken := found.Err(target + ".blobs"); broken != nil {
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: target + " was written, but is not whole", Err: broken}
	}
	_, err = fmt.Fprintf(p.out, "%s, %s and %d large outputs, checked\n", target, view.Size(h.Size), found.Blobs)
	return err
}

func (p *program) restore(ctx context.Context, from string, force bool) error {
	_, found, err := sqlite.CheckCopy(ctx, from)
	if err != nil {
		return err
	}
	if broken := found.Err(from + ".blobs"); broken != nil {
		if !force {
			return &stepwell.Error{Code: stepwell.CodeInternal, Message: "the backup is not whole, so it was not restored", Hint: "use another backup, or --force", Err: broken}
		}
		fmt.Fprintf(p.err, "warning: %v\n", broken)
	}
	if err := p.makeData(); err != nil {
		return err
	}
	to, err := app.DatabaseFile(p.settings.db)
	if err != nil {
		return err
	}
	if same, err := sameFile(from, to); err != nil {
		return err
	} else if !same {
		progress, end := p.counter()
		err := sqlite.CopyOf(ctx, from, to, progress)
		end()
		if stepwell.CodeOf(err) == stepwell.CodeConflict {
			return &stepwell.Error{Code: stepwell.CodeConflict, Message: "there is a database already", Hint: "stop its server and move it away with all that belongs to it, or use another --data", Err: err}
		}
		if err != nil {
			return err
		}
	}
	if err := sqlite.TakeOver(ctx, to, p.log()); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "%s, with %d large outputs, is a database of its own now\n", to, found.Blobs-found.Lost)
	o := app.Options{DB: to, Log: p.log()}
	p.settings.serving.AddTo(&o, p.env)
	if f := doctor.MasterKey(ctx, doctor.Options{App: o}); f.Status == doctor.Fail {
		fmt.Fprintf(p.out, "before the server starts: %s (%s)\n", f.Advice, f.Detail)
	}
	return nil
}

// sameFile reports whether two names are one file.
func sameFile(a, b string) (bool, error) {
	first, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	second, err := os.Stat(b)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(first, second), err
}
