package main

import (
	"cmp"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/settings"
)

// locateSettings finds the settings file: in the data directory that a flag or a variable names, else in the working
// directory. Commands of pipelines may write to the working directory, so a file there must not speak for a server
// whose data directory is elsewhere.
func (p *program) locateSettings(cmd *cobra.Command) error {
	data, _ := p.env("STEPWELL_DATA")
	if f := settingFlag(cmd.Flags(), "data"); f != nil && f.Changed {
		data = f.Value.String()
	}
	if data != "" && filepath.Clean(data) == app.DefaultData {
		data = ""
	}
	p.settings.file = filepath.Join(data, settings.File)
	if data != "" && !app.IsFile(p.settings.file) && app.IsFile(settings.File) && filepath.Clean(data) != "." {
		return stepwell.Invalid("move it: mv "+settings.File+" "+p.settings.file, "%s in the working directory is not read when a data directory is named", settings.File)
	}
	return nil
}

// locateData says which database is meant: the one named by --db, the one in the data directory, or ./stepwell.db where
// an earlier version has left one and there is no data directory yet. A database that is no file stands beside a data
// directory, which has what belongs to this machine; a file stands in its place.
func (p *program) locateData(cmd *cobra.Command) error {
	s := &p.settings
	f := cmd.Flags().Lookup("db")
	switch {
	case f == nil:
		return nil
	case s.db == "" && f.Changed:
		return stepwell.Invalid("", "db: the name of the database file is empty")
	case s.db != "" && (f.Changed || !s.inFile() || !settingFlag(cmd.Flags(), "data").Changed):
		if file, err := app.DatabaseFile(s.db); err == nil { // sqlite:FILE is FILE, and its folder is the data directory
			s.db, s.data = file, ""
		}
	case s.data == "" && !app.IsFile(app.Database(app.DefaultData)) && app.IsFile(app.OldDatabase):
		s.db = app.OldDatabase
	default:
		s.data = cmp.Or(s.data, app.DefaultData)
		s.db = app.Database(s.data)
	}
	return nil
}

// inFile reports whether the database is a file.
func (s *commonFlags) inFile() bool {
	_, err := app.DatabaseFile(s.db)
	return err == nil
}

// shownDB is the database as people may see it: a URL without its password.
func (s *commonFlags) shownDB() string {
	if s.inFile() {
		return s.db
	}
	return app.DatabaseName(s.db)
}

// confining says what commands of steps may touch, and what of the server they may not.
func (p *program) confining(o *app.Options, s *settings.Serving) {
	o.Exec = app.Exec{User: s.Exec.User, Folders: s.Exec.Folders, Read: s.Exec.Read, PassEnv: s.Exec.PassEnv}
	o.Files = s.Files.Allow
	for _, path := range []string{p.settings.file, s.Server.TLS.Key} {
		if path != "" {
			o.Private = append(o.Private, path)
		}
	}
}

// makeData creates the data directory for a command that creates the database itself.
func (p *program) makeData() error {
	if p.settings.data == "" {
		return nil
	}
	return app.MakeData(p.settings.data)
}
