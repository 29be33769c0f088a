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

// Copied is a finished backup.
type Copied struct {
	Path    string
	Size    int64    // of the file, in bytes
	Blobs   int      // large outputs that it refers to
	Removed []string // names of older copies that made room
}

type backupParams struct {
	Folder string `json:"folder" required:"true" minLength:"1" doc:"Where the backups are, relative to the directory of the pipeline. Created when it does not exist."`
	Keep   int    `json:"keep" default:"7" minimum:"1" maximum:"10000" doc:"How many backups of this database to keep in the folder, the new one included."`
}

type backupOutputs struct {
	File         string   `json:"file" doc:"The path of the copy; its large outputs are in the folder ´FILE.blobs´."`
	Bytes        int64    `json:"bytes" doc:"Size of the file."`
	LargeOutputs int      `json:"large_outputs" doc:"How many large outputs it has."`
	Removed      []string `json:"removed" doc:"The names of the older backups that were deleted."`
}

func backup(o Options) action.Action {
	return action.Of(spec.Spec{
		Name:    "util.backup",
		Summary: "Makes a backup of Stepwell's own data.",
		Doc: "The same as the command `stepwell backup`: a copy of the database as it is at one moment, while it is in use, with the large outputs that it refers to, " +
			"every one of them checked. Its name has the database's, the first characters of its id and the time in UTC. `stepwell restore` makes a database of it.\n\n" +
			"**The master key is not copied:** without a copy of it, kept elsewhere, the secrets of a backup cannot be read. Everything else in it is readable for anyone who can read the file. " +
			"Name a folder that commands of steps cannot touch (outside of `exec.folders`), and that `files.allow` contains.\n\n" +
			"**Older copies.** After a whole copy was made, the newest `keep` of this database are left in the folder; other files stay as they are. When large outputs are missing or " +
			"damaged, the step fails, names them, and removes no whole copy; what it made stays, with `-incomplete` in its name, in the place of the one before it.",
		Timeout:  6 * time.Hour,
		Retry:    &stepwell.Retry{MaxAttempts: 3, Backoff: time.Minute},
		Reserved: true,
		Stays:    true,
		Examples: []spec.Example{{Title: "two weeks of backups", YAML: `
id: backup
action: util.backup
params:
  folder: /var/backups/stepwell
  keep: 14`}},
	}, func(ctx context.Context, call *action.Call, p backupParams) (*backupOutputs, error) {
		if o.Backup == nil {
			return nil, action.Invalid("", "there is no database here of which a backup could be made")
		}
		if !filepath.IsAbs(p.Folder) {
			p.Folder = filepath.Join(call.Dir, p.Folder)
		}
		if err := call.May(p.Folder); err != nil {
			return nil, err
		}
		made, err := o.Backup(ctx, p.Folder, p.Keep, func(done, total int) {
			call.Host.Progress(float64(done)/float64(max(1, total)), fmt.Sprintf("%d of %d pages and large outputs", done, total))
		})
		if err != nil {
			return nil, err
		}
		return &backupOutputs{made.Path, made.Size, made.Blobs, append([]string{}, made.Removed...)}, nil
	})
}
