package builtin

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// Copied is what a backup has made.
type Copied struct {
	Path    string
	Size    int64    // of the file, in bytes
	Blobs   int      // large outputs that it refers to
	Removed []string // names of older copies that made room
}

func backup(o Options) action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:    "util.backup",
			Summary: "Makes a backup of Stepwell's own data.",
			Doc: "The same as the command `stepwell backup`: a copy of the database as it is at one moment, while it is in use, with the large outputs that it refers to, " +
				"every one of them checked. Its name has the database's, the first characters of its id and the time in UTC. `stepwell restore` makes a database of it.\n\n" +
				"**The master key is not copied:** without a copy of it, kept elsewhere, nobody can read the secrets of a backup. All else in a backup can be read by whoever can read the file. " +
				"Name a folder that commands of steps cannot touch (outside of `exec.folders`), and that `files.allow` contains.\n\n" +
				"**Older copies.** After a whole copy was made, the newest `keep` of this database are left in the folder; other files stay as they are. When large outputs are missing or " +
				"damaged, the step fails, names them, and removes no whole copy; what it made stays, with `-incomplete` in its name, in the place of the one before it.",
			Timeout:  6 * time.Hour,
			Retry:    &stepwell.Retry{MaxAttempts: 3, Backoff: time.Minute},
			Reserved: true,
			Params: []spec.Field{
				{Name: "folder", Type: spec.String, Required: true, Min: ptr(1), Doc: "Where the copies are, relative to the directory of the pipeline. Created when it does not exist."},
				{Name: "keep", Type: spec.Integer, Default: 7, Min: ptr(1), Max: ptr(10_000), Doc: "How many copies of this database are left in the folder, the new one included."},
			},
			Outputs: []spec.Field{
				{Name: "file", Type: spec.String, Doc: "The path of the copy; its large outputs are in the folder `FILE.blobs`."},
				{Name: "bytes", Type: spec.Integer, Doc: "Size of the file."},
				{Name: "large_outputs", Type: spec.Integer, Doc: "How many large outputs it has."},
				{Name: "removed", Type: spec.Array, Doc: "The names of the older copies that made room."},
			},
			Examples: []spec.Example{{Title: "two weeks of backups", YAML: `
id: backup
action: util.backup
params:
  folder: /var/backups/stepwell
  keep: 14`}},
		},
		Handler: backupHandler{o},
	}
}

type backupHandler struct{ o Options }

// Run implements action.Handler.
func (h backupHandler) Run(ctx context.Context, call *action.Call) (any, error) {
	var p struct {
		Folder string `json:"folder"`
		Keep   int    `json:"keep"`
	}
	if err := call.Bind(&p); err != nil {
		return nil, err
	}
	if h.o.Backup == nil {
		return nil, action.Invalid("", "there is no database here of which a backup could be made")
	}
	if !filepath.IsAbs(p.Folder) {
		p.Folder = filepath.Join(call.Dir, p.Folder)
	}
	if err := call.May(p.Folder); err != nil {
		return nil, err
	}
	made, err := h.o.Backup(ctx, p.Folder, p.Keep, func(done, total int) {
		call.Host.Progress(float64(done)/float64(max(1, total)), fmt.Sprintf("%d of %d pages and large outputs", done, total))
	})
	if err != nil {
		return nil, err
	}
	removed := make([]any, 0, len(made.Removed))
	for _, name := range made.Removed {
		removed = append(removed, name)
	}
	return map[string]any{"file": made.Path, "bytes": made.Size, "large_outputs": made.Blobs, "removed": removed}, nil
}
