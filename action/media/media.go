// Package media holds the actions of a media ingest: media.scan lists the pictures, videos and
// sound of a card or directory, media.copy copies them with verification, and media.metadata reads
// the metadata of one file (specification pipeline-steps, "Copy file spawns metadata
// extraction").
//
// A source is only ever opened for reading. A file appears under its final name complete, flushed
// and, by default, compared with the bytes read from the source. Readers of files are
// bounded: a broken or hostile file gives a partial result or an error, never a crash or a stall.
// Besides action.Host, the actions use the programs ffprobe and exiftool where they are installed. The parameters and
// outputs are stable.
package media

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// Options configures the actions.
type Options struct {
	// Ffprobe is the path of an ffprobe program, which describes video and sound. Defaults to none:
	// the readers here know MP4 and QuickTime.
	Ffprobe string
	// Exiftool is the path of an exiftool program, which describes pictures, devices and positions.
	// Defaults to none: the readers here know JPEG, PNG, TIFF, WebP, HEIF and AVIF.
	Exiftool string
	// MaxFiles bounds the files of one scan or copy; more is CodeLimit. Defaults to 100,000.
	MaxFiles int
	// RetryPause is the wait before a file that could not be copied is tried again, times the
	// number of tries so far. Defaults to 200 ms.
	RetryPause time.Duration
	// Tool names the program in manifests. Defaults to "stepwell".
	Tool string
}

func (o Options) withDefaults() Options {
	if o.MaxFiles <= 0 {
		o.MaxFiles = 100_000
	}
	if o.RetryPause <= 0 {
		o.RetryPause = 200 * time.Millisecond
	}
	if o.Tool == "" {
		o.Tool = "stepwell"
	}
	return o
}

// Register adds media.scan, media.copy and media.metadata to the registry.
func Register(r *action.Registry, o Options) error {
	o = o.withDefaults()
	return r.Add(
		action.Action{Spec: scanSpec(), Handler: &scanner{opts: o}},
		action.Action{Spec: copySpec(), Handler: &copier{opts: o, ops: systemOps()}},
		action.Action{Spec: metadataSpec(), Handler: &describer{opts: o}},
	)
}

// resolve makes a path parameter absolute against the call's directory.
func resolve(call *action.Call, path string) (string, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return "", action.Fail(stepwell.Invalid("name a file or directory", "a path is empty or contains a NUL byte"))
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(call.Dir, path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("path %q: %w", path, err)
	}
	return abs, call.May(abs)
}
