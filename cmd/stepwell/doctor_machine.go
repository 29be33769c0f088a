package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
)

// What the doctor finds too little or too much.
const (
	littleSpace = 1 << 30
	noSpace     = 100 << 20
	longWAL     = 256 << 20
)

// quickCheckPatience bounds the look at every page of the database.
const quickCheckPatience = 5 * time.Minute

func (d *doctor) database(ctx context.Context) []finding {
	ctx, cancel := context.WithTimeout(ctx, quickCheckPatience)
	defer cancel()
	path := d.program.settings.db
	h, err := sqlite.Check(ctx, path)
	switch {
	case stepwell.CodeOf(err) == stepwell.CodeNotFound && (isDir(filepath.Dir(path)) || d.program.settings.data != ""):
		return []finding{fine("database", "%s does not exist yet; it is made when it is needed", path)}
	case err != nil:
		return []finding{fail("database", stepwell.HintOf(err), "%v", err)}
	}
	d.holder, d.sound = h.Holder, len(h.Problems) == 0
	var all []finding
	switch {
	case len(h.Problems) > 0:
		all = append(all, fail("database", "stop the server and restore a backup, or save what is left with: sqlite3 FILE .recover", "%s: %s", path, h.Problems[0]))
	case h.Version < h.Wanted:
		all = append(all, warn("database", "stepwell migrate", "%s has version %d, this stepwell needs %d", path, h.Version, h.Wanted))
	default:
		all = append(all, fine("database", "%s is sound: version %d, %s", path, h.Version, megabytes(h.Size)))
	}
	if !h.Copied.IsZero() {
		all = append(all, warn("copy", "to go on with it: stepwell restore "+path, "%s is a backup of %s, which can only be read", path, h.Copied.UTC().Format(time.RFC3339)))
	}
	if h.Log > longWAL {
		all = append(all, warn("write-ahead log", "something reads for very long and keeps the log from starting over; find and end it, or restart the server", "%s", megabytes(h.Log)))
	} else {
		all = append(all, fine("write-ahead log", "%s", megabytes(h.Log)))
	}
	return all
}

// outside names the work of ended steps that could not be stopped.
func (d *doctor) outside(ctx context.Context) []finding {
	s, err := app.OpenReader(ctx, d.program.settings.db, d.program.log())
	if err != nil {
		return nil // the finding of the database says why
	}
	defer s.Close()
	rows, err := s.OutsideWork(ctx, 0, store.OutsideWork{}, 1000)
	if err != nil {
		return []finding{fail("work outside", stepwell.HintOf(err), "%v", err)}
	}
	var all []finding
	for i := range rows {
		if w := &rows[i]; !w.Held && w.Tries > 0 && len(all) < 20 {
			all = append(all, warn("work outside", "stop it by hand if it still goes on", "%s of execution %s has ended, its work outside could not be stopped %d times: %s", w.StepKey, w.ExecutionID, w.Tries, w.Error))
		}
	}
	return all
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func (d *doctor) disk(context.Context) []finding {
	dir := filepath.Dir(d.program.settings.db)
	if !isDir(dir) { // the data directory is still to be created
		dir = filepath.Dir(dir)
	}
	free, ok := freeSpace(dir)
	switch {
	case !ok:
		return []finding{warn("disk", "look yourself", "how much is free in %s is not known on this system", dir)}
	case free < noSpace:
		return []finding{fail("disk", "make room: executions stop when a commit finds no space", "%s free in %s", megabytes(free), dir)}
	case free < littleSpace:
		return []finding{warn("disk", "make room, or shorten retention", "%s free in %s", megabytes(free), dir)}
	}
	return []finding{fine("disk", "%s free in %s", megabytes(free), dir)}
}

// built is before any clock that is right: this program did not exist then.
var built = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func (d *doctor) clock(context.Context) []finding {
	now := d.now()
	name, offset := now.Zone()
	clock := fine("clock", "%s, zone %s", now.Format(time.RFC3339), name)
	if now.Before(built) {
		clock = fail("clock", "set the clock; schedules and tokens go by it", "%s is before this program was made", now.Format(time.RFC3339))
	} else if info, err := os.Stat(d.program.settings.db); err == nil && info.ModTime().After(now.Add(time.Minute)) {
		clock = warn("clock", "the clock has gone back: steps that wait do so until it is there again", "the database was written at %s, it is %s now", info.ModTime().Format(time.RFC3339), now.Format(time.RFC3339))
	}
	// A rule that every release of the zone data since 2007 knows.
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		return []finding{clock, fail("zone data", "install tzdata", "%v", err)}
	}
	if _, got := time.Date(2026, 3, 8, 12, 0, 0, 0, zone).Zone(); got != -4*3600 {
		return []finding{clock, warn("zone data", "update tzdata", "the zone data are older than 2007")}
	}
	if tz := os.Getenv("TZ"); tz != "" && tz != "UTC" && offset == 0 {
		if _, err := time.LoadLocation(tz); err != nil {
			return []finding{clock, warn("zone data", "use a name such as Europe/Berlin", "TZ=%s is no zone: local times are in UTC", tz)}
		}
	}
	return []finding{clock, fine("zone data", "there")}
}

// largeOutputs checks every blob that the database refers to.
func (d *doctor) largeOutputs(ctx context.Context) []finding {
	path := d.program.settings.db
	if !d.sound {
		return nil // said already
	}
	ctx, cancel := context.WithTimeout(ctx, quickCheckPatience)
	defer cancel()
	found, err := sqlite.Verify(ctx, path)
	if ctx.Err() != nil {
		return []finding{warn("large outputs", "stepwell backup reads them all", "they could not all be read within %s", quickCheckPatience)}
	}
	if err != nil {
		return []finding{fail("large outputs", stepwell.HintOf(err), "%v", err)}
	}
	if err := found.Err(path + ".blobs"); err != nil {
		return []finding{fail("large outputs", stepwell.HintOf(err), "%v", err)}
	}
	return []finding{fine("large outputs", "%d, all there and whole", found.Blobs)}
}

// keyFile says of the key what `serve` will say.
func (d *doctor) keyFile(ctx context.Context) []finding {
	text, _ := d.program.env("STEPWELL_SECRETS_KEY")
	path, where := d.serving.Secrets.KeyFile, "in STEPWELL_SECRETS_KEY"
	if path == "" {
		path = d.program.keyBesideDB()
	}
	if text == "" {
		where = path
	}
	ring, err := secret.OpenKeyring(secret.KeyOptions{Text: text, File: path})
	missing := stepwell.CodeOf(err) == stepwell.CodeNotFound
	switch {
	case missing && d.serving.Secrets.KeyFile != "":
		return []finding{fail("master key", "put the key there, or leave secrets.key_file out", "%s does not exist", path)}
	case missing:
		if ring, err = secret.NewKeyring(make([]byte, 32)); err != nil { // one that opens nothing
			return []finding{fail("master key", "", "%v", err)}
		}
	case err != nil:
		return []finding{fail("master key", stepwell.HintOf(err), "%s: %v", where, err)}
	}
	sealed, err := d.sealed(ctx, ring)
	switch broken, wrong := errors.AsType[*secret.BrokenError](err); {
	case missing && wrong:
		return []finding{fail("master key", "put the key there that the secrets were sealed with; without it they are lost", "%s does not exist, but the database has secrets and keys sealed with it", path)}
	case wrong:
		return []finding{fail("master key", "put back the key that they were sealed with, or add it below the new one", "%s does not open %s: %v", where, strings.Join(broken.Names, ", "), broken.Err)}
	case err != nil:
		return []finding{fail("master key", stepwell.HintOf(err), "what is sealed cannot be read: %v", err)}
	case missing:
		return []finding{fine("master key", "%s does not exist yet; it is made when it is needed", path)}
	case sealed:
		return []finding{fine("master key", "%s opens what is sealed; keep a copy of it apart from backups of the database", where)}
	}
	return []finding{fine("master key", "%s; keep a copy of it apart from backups of the database", where)}
}

// keyBesideDB is the file of the master key when none is named.
func (p *program) keyBesideDB() string {
	if path, err := sqlite.Resolve(p.settings.db); err == nil {
		return path + ".key"
	}
	return p.settings.db + ".key"
}

// sealed opens all that the server itself has sealed. A database that cannot be read has been reported already.
func (d *doctor) sealed(ctx context.Context, ring *secret.Keyring) (bool, error) {
	s, err := app.OpenReader(ctx, d.program.settings.db, d.program.log())
	if err != nil {
		return false, nil
	}
	defer s.Close()
	return secret.CheckStore(ctx, s, ring)
}

// tools are programs that steps may use. None of them is required.
func (d *doctor) tools(context.Context) []finding {
	var all []finding
	for _, t := range []struct{ name, use string }{
		{"ffprobe", "media.metadata describes video and sound with it; without it only MP4 and QuickTime"},
		{"exiftool", "media.metadata describes pictures, devices and positions with it"},
		{"python3", "examples with util.exec use it"},
	} {
		if path, err := exec.LookPath(t.name); err == nil {
			all = append(all, fine(t.name, "%s", path))
		} else {
			all = append(all, warn(t.name, "install it if you need it: "+t.use, "not on PATH"))
		}
	}
	return all
}
