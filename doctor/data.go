package doctor

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/view"
)

// dataDirectory reports where the data are, and whether others at this machine can read them.
func (e *examination) dataDirectory(context.Context) {
	data := e.App.Data
	switch {
	case data == "" && e.db == app.OldDatabase:
		e.warn("data", "stepwell doctor --fix, while no server is running, moves it into "+app.DefaultData,
			"the database is in the working directory, where commands of pipelines can reach it")
		return
	case data == app.DefaultData && app.IsFile(e.db) && app.IsFile(app.OldDatabase):
		e.warn("data", "remove or rename it", "./%s of an earlier version is not used: there is one in %s", app.OldDatabase, data)
		return
	case data == "":
		e.fine("data", "beside %s", app.DatabaseName(e.db))
		return
	}
	info, err := os.Stat(data)
	switch {
	case err != nil:
		e.fine("data", "%s will be created when it is needed", data)
	case info.Mode().Perm()&0o077 != 0:
		e.warn("data", "chmod 700 "+data, "others at this machine can look into %s (mode %04o)", data, info.Mode().Perm())
	default:
		e.fine("data", "%s", data)
	}
}

// MoveOldDatabase moves app.OldDatabase, with all that belongs to it, into app.DefaultData, and returns its new name. The
// database itself moves last: after an error, calling it again goes on. It fails with CodeConflict while a server runs.
func MoveOldDatabase(ctx context.Context, log *slog.Logger) (string, error) {
	s, err := sqlite.Open(ctx, sqlite.Options{Path: app.OldDatabase, Exclusive: true, Log: log})
	if err != nil {
		return "", err
	}
	if err := s.Close(); err != nil {
		return "", err
	}
	if err := app.MakeData(app.DefaultData); err != nil {
		return "", err
	}
	target := app.Database(app.DefaultData)
	for _, suffix := range []string{"-wal", "-shm", ".key", ".blobs", "-streams", ""} {
		if err := os.Rename(app.OldDatabase+suffix, target+suffix); err != nil && (suffix == "" || !os.IsNotExist(err)) {
			return "", err
		}
	}
	return target, nil
}

// plugins reports whether each of the plugins can be started.
func (e *examination) plugins(context.Context) {
	for _, name := range slices.Sorted(maps.Keys(e.Plugins)) {
		p := e.Plugins[name]
		err := p.Check(name)
		e.result(err, "plugin "+name, stepwell.HintOf(err), "%s; `stepwell plugins list` shows how it runs", strings.Join(p.Command, " "))
	}
}

// commands reports how a server with these settings runs commands of steps once there are API keys, and what it refuses.
func (e *examination) commands(ctx context.Context) {
	if e.AppErr != nil {
		e.fail("commands", stepwell.HintOf(e.AppErr), "%v", e.AppErr)
		return
	}
	if box, err := e.App.Sandbox(); err != nil {
		e.warn("commands", stepwell.HintOf(err), "on a server with API keys they are refused: %v", err)
	} else {
		e.fine("commands", "with API keys confined %s", box)
	}
	if !e.sound {
		return // reported by database
	}
	s, err := app.OpenReader(ctx, e.db, e.App.Log)
	if err != nil {
		return
	}
	defer s.Close()
	refused, err := e.App.RefusedCommands(ctx, s, e.Policy)
	if err != nil {
		e.fail("commands", stepwell.HintOf(err), "%v", err)
		return
	}
	for _, r := range refused {
		e.warn("commands", stepwell.HintOf(r.Err), "refused on a server with API keys: %s", RefusedLine(r.Kind, r.Name, r.ID, r.Step, r.Err.Error()))
	}
}

// RefusedLine names a stored step that is refused, and the reason, on one line.
func RefusedLine(kind, name, id, step, reason string) string {
	const longest = 60
	text := strings.ReplaceAll(kind, "_", " ") + " " + view.OneLine(cmp.Or(name, id), longest)
	if step != "" {
		text += ", step " + view.OneLine(step, longest)
	}
	return text + ": " + view.OneLine(reason, 2000)
}
