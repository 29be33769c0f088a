package media

import (
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

func scanSpec() spec.Spec {
	return spec.Spec{
		Name:    "media.scan",
		Summary: "Lists the pictures, videos and sound of a card or directory.",
		Doc: "Directories are entered in the order of their names, so two scans of one card give one list. " +
			"Left out and counted by reason: AppleDouble files (`._*`), system directories (`.Trashes`, `.Spotlight-V100` …), " +
			"hidden entries, `MISC`, empty files, links, devices, names that are not UTF-8, and what is not a medium by its " +
			"extension. A skipped directory counts once. `include` replaces the choice by extension. Globs disregard case; " +
			"one without `/` is matched against the name, `**` stands for any number of directories. Nothing outside of `path` is reached, " +
			"also not through links. A directory that is not there is retried: the card may still come.",
		Params:  spec.FieldsOf[scanParams](),
		Outputs: spec.FieldsOf[ScanResult](),
		Examples: []spec.Example{{Title: "everything on a card but the proxies", YAML: `
id: scan
action: media.scan
params:
  path: /media/card
  exclude: ["*.LRV", "*.THM", "PRIVATE/**"]`}},
		Timeout: 10 * time.Minute,
		Retry:   &stepwell.Retry{MaxAttempts: 3, Backoff: 5 * time.Second},
	}
}

// copySpec is long because it is the documentation of a copy.
func copySpec() spec.Spec {
	return spec.Spec{
		Name:    "media.copy",
		Spawns:  []string{"extract_metadata"},
		Summary: "Copies media with verification, resumes after a crash, and starts a step for each file.",
		Doc: "Each file is read once from the source, written to a hidden `.part` file, flushed, read back and compared (`verify`), and only then " +
			"given its name, which never replaces another file: the same name with other content is kept as `name_2.ext`. " +
			"The same content twice is stored once and reported as a duplicate; files that earlier ingests put into the destination " +
			"(their `manifest-*.json` lists, or the same name) are recognised by size and SHA-256 and not copied again. A source that changes while " +
			"it is read is retried, then reported. One bad file does not fail the step unless `on_error` is `fail`; the step fails when no file at all could be stored. " +
			"A full destination, a removed card and a cancelled step end the attempt with what was stored recorded; the next attempt continues from there. " +
			"The source is only read; there is no option to delete from it. The modification time is kept.\n\n" +
			"`template` names the files inside the destination: `{original}` is the file's name, `{path}` its path on the source, `{date}` the day it was " +
			"taken (the file's own statement, else its modification time in UTC) and `{camera}` its make and model or `unknown`.\n\n" +
			"`spawn` says which step is started for each copied file, as soon as it is stored: its key is `name:path on the source` and its parameter `path` " +
			"is the stored file. Duplicates and files known from earlier ingests start none.",
		Params:  spec.FieldsOf[copyParams](),
		Outputs: spec.FieldsOf[CopyResult](),
		Examples: []spec.Example{{Title: "copy what a scan found into folders by day and camera", YAML: `
id: copy
action: media.copy
depends_on: [scan]
params:
  source: /media/card
  files: "{{ steps.scan.outputs.files }}"
  destination: /archive/2026
  template: "{date}/{camera}/{original}"`}},
		Timeout: 12 * time.Hour,
		Retry:   &stepwell.Retry{MaxAttempts: 5, Backoff: 10 * time.Second, MaxBackoff: 5 * time.Minute},
	}
}

func metadataSpec() spec.Spec {
	return spec.Spec{
		Name:    "media.metadata",
		Summary: "Reads the metadata of a picture, video or sound file.",
		Doc: "Where ffprobe is installed, it describes videos and sound; where exiftool is, it describes pictures, devices and positions (`stepwell doctor` shows what is found). " +
			"What they have no answer to, and everything where they are missing, comes from built-in readers for " +
			"MP4, QuickTime and their relatives (also fragmented, also with the header at the end), JPEG, PNG, TIFF, WebP, HEIF and AVIF, which give the same values. " +
			"Other containers need ffprobe. The format is recognised by content, not by name. A value that the file does not state, or that cannot be read, is null.\n\n" +
			"A file that is cut, that is not a medium or of which neither streams nor size can be read fails the step; with `damaged: describe` it gives what could be read. " +
			"Smaller faults are listed in `warnings`; `partial` says that a value is missing because of one.\n\n" +
			"Where readers differ: `duration` is the movie header's, and of a fragmented file that of its longest track, as ffprobe shows it. `rotation` is clockwise as in exiftool; ffprobe's is counter-clockwise. The dates 0 and 1970-01-01 mean unknown. " +
			"A movie header states UTC, and many cameras put their local time there: that cannot be told from the file. " +
			"QuickTime's creationdate, which has a zone and survives exports, wins over the movie header. EXIF times without an offset are written without one and marked `created_local`. " +
			"The position 0,0 is marked `default`.",
		Params:   spec.FieldsOf[metadataParams](),
		Outputs:  spec.FieldsOf[Metadata](),
		KeyParam: "path",
		Examples: []spec.Example{{Title: "describe one clip", YAML: `
id: describe
action: media.metadata
params:
  path: clips/GX010042.MP4`}},
		Timeout: 30 * time.Minute, // the hash of a large file on a slow disk
	}
}
