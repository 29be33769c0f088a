package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/store/sqlite"
)

// dataDirectory says where the data are, and whether others at this machine can read them.
func (d *doctor) dataDirectory(context.Context) []finding {
	s := &d.program.settings
	switch {
	case s.data == "" && s.db == oldDB:
		return []finding{warn("data", "stepwell doctor --fix, while no server is running, moves it into "+app.DefaultData,
			"the database is in the working directory, where commands of pipelines can reach it")}
	case s.data == app.DefaultData && isFile(s.db) && isFile(oldDB):
		return []finding{warn("data", "remove or rename it", "./%s of an earlier version is not used: there is one in %s", oldDB, s.data)}
	case s.data == "":
		return []finding{fine("data", "beside %s", s.db)}
	}
	info, err := os.Stat(s.data)
	switch {
	case err != nil:
		return []finding{fine("data", "%s does not exist yet; it is created when it is needed", s.data)}
	case info.Mode().Perm()&0o077 != 0:
		return []finding{warn("data", "chmod 700 "+s.data, "others at this machine can look into %s (mode %04o)", s.data, info.Mode().Perm())}
	}
	return []finding{fine("data", "%s", s.data)}
}

// fix moves a database of an earlier version, with all that belongs to it, into the data directory.
func (d *doctor) fix(ctx context.Context) error {
	p := d.program
	if p.settings.data != "" || p.settings.db != oldDB {
		_, err := fmt.Fprintln(p.out, "nothing to fix")
		return err
	}
	s, err := sqlite.Open(ctx, sqlite.Options{Path: oldDB, Exclusive: true, Log: p.log()}) // CodeConflict while a server runs
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	if err := app.MakeData(app.DefaultData); err != nil {
		return err
	}
	names, err := filepath.Glob(oldDB + "*")
	if err != nil {
		return err
	}
	target := app.Database(app.DefaultData)
	for _, name := range names {
		end := strings.TrimPrefix(name, oldDB)
		switch end {
		case "", ".lock": // the database moves last: until then a repetition goes on with the rest
			continue
		case "-wal", "-shm", ".key", ".blobs", "-streams":
		default:
			continue // something else with such a name
		}
		if err := os.Rename(name, target+end); err != nil {
			return err
		}
	}
	if err := os.Rename(oldDB, target); err != nil {
		return err
	}
	p.settings.data, p.settings.db = app.DefaultData, target
	_, err = fmt.Fprintf(p.out, "moved ./%s to %s\n", oldDB, target)
	return err
}

// commands says how a server with these settings runs commands of steps once there are API keys, and what it refuses.
func (d *doctor) commands(ctx context.Context) []finding {
	o, err := d.program.options()
	if err != nil {
		return []finding{fail("commands", stepwell.HintOf(err), "%v", err)}
	}
	d.program.confining(&o, d.serving)
	box, err := o.Sandbox()
	how := fine("commands", "on a server with API keys they are confined %s", box)
	if err != nil {
		how = warn("commands", stepwell.HintOf(err), "on a server with API keys they are refused: %v", err)
	}
	all := []finding{how}
	s, err := app.OpenReader(ctx, d.program.settings.db, d.program.log())
	if !d.sound || err != nil {
		return all // said already
	}
	defer s.Close()
	refused, err := d.program.refusedCommands(ctx, s)
	if err != nil {
		return append(all, fail("commands", stepwell.HintOf(err), "%v", err))
	}
	for _, r := range refused {
		all = append(all, warn("commands", stepwell.HintOf(r.Err), "refused on a server with API keys: %s", refusedLine(r.Kind, r.Name, r.ID, r.Step, r.Err.Error())))
	}
	return all
}
