package doctor

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/git"
	"github.com/stepwell/stepwell/action/helm"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/view"
)

// Limits beyond which a check warns or fails, in bytes.
const (
	littleSpace = 1 << 30
	noSpace     = 100 << 20
	longWAL     = 256 << 20
)

// quickCheckPatience bounds the reading of every page of the database.
const quickCheckPatience = 5 * time.Minute

func (e *examination) database(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, quickCheckPatience)
	defer cancel()
	path, err := app.DatabaseFile(e.db)
	if err != nil {
		e.warn("database", stepwell.HintOf(err), "not checked: %v", err)
		return
	}
	h, err := sqlite.Check(ctx, path)
	switch {
	case stepwell.CodeOf(err) == stepwell.CodeNotFound && (isDir(filepath.Dir(path)) || e.App.Data != ""):
		e.fine("database", "%s will be created when it is needed", path)
		return
	case err != nil:
		e.fail("database", stepwell.HintOf(err), "%v", err)
		return
	}
	e.holder, e.sound = h.Holder, len(h.Problems) == 0
	switch {
	case len(h.Problems) > 0:
		e.fail("database", "stop the server and restore a backup, or save what is left with: sqlite3 FILE .recover", "%s: %s", path, h.Problems[0])
	case h.Version < h.Wanted:
		e.warn("database", "stepwell migrate", "%s has version %d, this stepwell needs %d", path, h.Version, h.Wanted)
	default:
		e.fine("database", "%s is sound: version %d, %s", path, h.Version, view.Size(h.Size))
	}
	if !h.Copied.IsZero() {
		e.warn("copy", "to continue with it: stepwell restore "+path, "%s is a backup of %s, which can only be read", path, h.Copied.UTC().Format(time.RFC3339))
	}
	if h.Log > longWAL {
		e.warn("write-ahead log", "something reads for very long and keeps the log from starting over; find and end it, or restart the server", "%s", view.Size(h.Log))
	} else {
		e.fine("write-ahead log", "%s", view.Size(h.Log))
	}
}

// outside reports the work of ended steps that could not be stopped.
func (e *examination) outside(ctx context.Context) {
	s, err := app.OpenReader(ctx, e.db, e.App.Log)
	if err != nil {
		return // reported by database
	}
	defer s.Close()
	rows, err := s.OutsideWork(ctx, 0, store.OutsideWork{}, 1000)
	if err != nil {
		e.fail("work outside", stepwell.HintOf(err), "%v", err)
		return
	}
	shown := 0
	for i := range rows {
		if w := &rows[i]; !w.Held && w.Tries > 0 && shown < 20 {
			shown++
			e.warn("work outside", "stop it by hand if it still continues", "%s of execution %s has ended, its work outside could not be stopped %d times: %s", w.StepKey, w.ExecutionID, w.Tries, w.Error)
		}
	}
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// isFile reports whether the database is a file of this machine.
func (e *examination) isFile() bool {
	_, err := app.DatabaseFile(e.db)
	return err == nil
}

func (e *examination) disk(context.Context) {
	dir := filepath.Dir(e.db)
	if !e.isFile() { // checkpoints of streams are there
		dir = cmp.Or(e.App.Data, app.DefaultData)
	}
	if !isDir(dir) { // the data directory is still to be created
		dir = filepath.Dir(dir)
	}
	free, ok := action.FreeSpace(dir)
	switch {
	case !ok:
		e.warn("disk", "look yourself", "how much is free in %s is not known on this system", dir)
	case free < noSpace:
		e.fail("disk", "make room: executions stop when a commit finds no space", "%s free in %s", view.Size(free), dir)
	case free < littleSpace:
		e.warn("disk", "make room, or shorten retention", "%s free in %s", view.Size(free), dir)
	default:
		e.fine("disk", "%s free in %s", view.Size(free), dir)
	}
}

// built is before any clock that is right: this program did not exist then.
var built = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func (e *examination) clock(context.Context) {
	now := time.Now()
	name, offset := now.Zone()
	if now.Before(built) {
		e.fail("clock", "set the clock; schedules and tokens go by it", "%s is before this program was made", now.Format(time.RFC3339))
	} else if info, err := os.Stat(e.db); err == nil && info.ModTime().After(now.Add(time.Minute)) {
		e.warn("clock", "the clock was set back: waiting steps wait until it reaches that time again", "the database was written at %s, it is %s now", info.ModTime().Format(time.RFC3339), now.Format(time.RFC3339))
	} else {
		e.fine("clock", "%s, zone %s", now.Format(time.RFC3339), name)
	}
	zone, err := time.LoadLocation("America/New_York")
	_, tzErr := time.LoadLocation(os.Getenv("TZ"))
	switch {
	case err != nil:
		e.fail("zone data", "install tzdata", "%v", err)
	case !time.Date(2026, 3, 8, 12, 0, 0, 0, zone).IsDST(): // a rule that every release of the zone data since 2007 knows
		e.warn("zone data", "update tzdata", "the zone data are older than 2007")
	case tzErr != nil && offset == 0:
		e.warn("zone data", "use a name such as Europe/Berlin", "TZ=%s is not a time zone: local times are in UTC", os.Getenv("TZ"))
	default:
		e.fine("zone data", "there")
	}
}

// largeOutputs checks every blob that the database refers to.
func (e *examination) largeOutputs(ctx context.Context) {
	if !e.sound {
		return // reported by database
	}
	ctx, cancel := context.WithTimeout(ctx, quickCheckPatience)
	defer cancel()
	found, err := sqlite.Verify(ctx, e.db)
	if err == nil {
		err = found.Err(e.db + ".blobs")
	}
	switch {
	case ctx.Err() != nil:
		e.warn("large outputs", "stepwell backup reads them all", "they could not all be read within %s", quickCheckPatience)
	case err != nil:
		e.fail("large outputs", stepwell.HintOf(err), "%v", err)
	default:
		e.fine("large outputs", "%d, complete and undamaged", found.Blobs)
	}
}

// masterKey opens the key as `serve` will, and with it all that is sealed.
func (e *examination) masterKey(ctx context.Context) {
	key := e.App.MasterKey
	if key.Text == "" && key.File == "" && !e.isFile() {
		e.fail("master key", stepwell.HintOf(secret.ErrNoKey), "%v", secret.ErrNoKey)
		return
	}
	path, where := key.File, "in STEPWELL_SECRETS_KEY"
	if path == "" {
		path = e.db + ".key"
		if db, err := sqlite.Resolve(e.db); err == nil {
			path = db + ".key"
		}
	}
	if key.Text == "" {
		where = path
	}
	ring, err := secret.OpenKeyring(secret.KeyOptions{Text: key.Text, File: path})
	missing := stepwell.CodeOf(err) == stepwell.CodeNotFound
	switch {
	case missing && key.File != "":
		e.fail("master key", "put the key there, or leave secrets.key_file out", "%s does not exist", path)
		return
	case missing:
		if ring, err = secret.NewKeyring(make([]byte, 32)); err != nil { // one that opens nothing
			e.fail("master key", "", "%v", err)
			return
		}
	case err != nil:
		e.fail("master key", stepwell.HintOf(err), "%s: %v", where, err)
		return
	}
	sealed, err := e.sealed(ctx, ring)
	switch broken, wrong := errors.AsType[*secret.BrokenError](err); {
	case missing && wrong:
		e.fail("master key", "put the key there that the secrets were sealed with; without it they are lost", "%s does not exist, but the database has secrets and keys sealed with it", path)
	case wrong:
		e.fail("master key", "put back the key that they were sealed with, or add it below the new one", "%s does not open %s: %v", where, strings.Join(broken.Names, ", "), broken.Err)
	case err != nil:
		e.fail("master key", stepwell.HintOf(err), "what is sealed cannot be read: %v", err)
	case missing:
		e.fine("master key", "%s will be created when it is needed", path)
	case sealed:
		e.fine("master key", "%s opens what is sealed; keep a copy of it apart from backups of the database", where)
	default:
		e.fine("master key", "%s; keep a copy of it apart from backups of the database", where)
	}
}

// sealed opens all that the server itself has sealed. A database that cannot be read has been reported already.
func (e *examination) sealed(ctx context.Context, ring *secret.Keyring) (bool, error) {
	s, err := app.OpenReader(ctx, e.db, e.App.Log)
	if err != nil {
		return false, nil
	}
	defer s.Close()
	return secret.CheckStore(ctx, s, ring)
}

// tools looks for programs that steps may use. None of them is required.
func (e *examination) tools(ctx context.Context) {
	if path, version, err := git.Version(ctx); err != nil {
		e.warn("git", stepwell.HintOf(err)+", if you need it", "%v", err)
	} else {
		e.fine("git", "%s, version %s, for %s", path, version, git.Name)
	}
	if len(e.App.Kubernetes.Clusters) > 0 {
		if path, version, err := helm.Version(ctx); err != nil {
			e.warn("helm", stepwell.HintOf(err)+", if you need it", "%v", err)
		} else {
			e.fine("helm", "%s, version %s, for %s", path, version, helm.Install)
		}
	}
	for _, t := range []struct{ name, use string }{
		{"ffprobe", "media.metadata describes video and sound with it; without it only MP4 and QuickTime"},
		{"exiftool", "media.metadata describes pictures, devices and positions with it"},
		{"python3", "examples with util.exec use it"},
	} {
		if path, err := exec.LookPath(t.name); err == nil {
			e.fine(t.name, "%s", path)
		} else {
			e.warn(t.name, "install it if you need it: "+t.use, "not on PATH")
		}
	}
}
