package media

import (
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

func floor(f float64) *float64 { return &f }

func scanSpec() spec.Spec {
	return spec.Spec{
		Name:    "media.scan",
		Summary: "Lists the pictures, videos and sound of a card or directory.",
		Doc: "Directories are entered in the order of their names, so two scans of one card give one list. " +
			"Left out and counted by reason: AppleDouble files (`._*`), system directories (`.Trashes`, `.Spotlight-V100` …), " +
			"hidden entries, `MISC`, empty files, links, devices, names that are not UTF-8, and what is no medium by its " +
			"extension. A skipped directory counts once. `include` replaces the choice by extension. Globs disregard case; " +
			"one without `/` is matched against the name, `**` stands for any number of directories. Nothing outside of `path` is reached, " +
			"also not through links. A directory that is not there is tried again: the card may still come.",
		Params: []spec.Field{
			{Name: "path", Type: spec.String, Required: true, Doc: "Directory to scan; relative to the pipeline's directory."},
			{Name: "include", Type: spec.Array, Items: &spec.Field{Name: "glob", Type: spec.String}, Doc: "Globs; only matching files are listed, whatever their extension."},
			{Name: "exclude", Type: spec.Array, Items: &spec.Field{Name: "glob", Type: spec.String}, Doc: "Globs of files and directories to leave out."},
			{Name: "min_size", Type: spec.Integer, Default: 1, Min: floor(0), Doc: "Smallest size in bytes; empty files are never listed."},
			{Name: "follow_symlinks", Type: spec.Boolean, Default: false, Doc: "Follow links that stay inside the path."},
		},
		Outputs: []spec.Field{
			{Name: "path", Type: spec.String, Doc: "The directory as given."},
			{Name: "files", Type: spec.Array, Doc: "The files, in stable order.", Items: &spec.Field{Name: "file", Type: spec.Object, Fields: []spec.Field{
				{Name: "path", Type: spec.String, Doc: "Path relative to root, with slashes."},
				{Name: "name", Type: spec.String, Doc: "Last element of the path."},
				{Name: "size", Type: spec.Integer, Doc: "Bytes."},
				{Name: "mtime", Type: spec.Time, Doc: "Time of the last change, UTC."},
				{Name: "root", Type: spec.String, Doc: "The directory that path is relative to."},
			}}},
			{Name: "count", Type: spec.Integer, Doc: "Number of files."},
			{Name: "total_bytes", Type: spec.Integer, Doc: "Sum of their sizes."},
			{Name: "skipped", Type: spec.Object, Doc: "Number of entries left out, by reason."},
		},
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
			"it is read is tried again, then reported. One bad file does not fail the step unless `on_error` is `fail`; the step fails when no file at all could be stored. " +
			"A full destination, a removed card and a cancelled step end the attempt with what was stored recorded; the next attempt goes on from there. " +
			"The source is only read; there is no option to delete from it. The modification time is kept.\n\n" +
			"`template` names the files inside the destination: `{original}` is the file's name, `{path}` its path on the source, `{date}` the day it was " +
			"taken (the file's own statement, else its modification time in UTC) and `{camera}` its make and model or `unknown`.\n\n" +
			"`spawn` says which step is started for each copied file, as soon as it is stored: its key is `name:path on the source` and its parameter `path` " +
			"is the stored file. Duplicates and files known from earlier ingests start none.",
		Params: []spec.Field{
			{Name: "source", Type: spec.String, Doc: "Directory that the files are in. Needed unless every file has a root."},
			{Name: "files", Type: spec.Array, Doc: "What to copy: the files of media.scan, or paths relative to source. Absent: what media.scan finds in source."},
			{Name: "destination", Type: spec.String, Required: true, Doc: "Directory to copy into; made when missing, and outside of the source."},
			{Name: "verify", Type: spec.Boolean, Default: true, Doc: "Read each copy back and compare it with what was read from the source."},
			{Name: "template", Type: spec.String, Default: "{original}", Doc: "Name of a copy inside the destination."},
			{Name: "dedupe", Type: spec.Boolean, Default: true, Doc: "Store the same content once."},
			{Name: "on_error", Type: spec.String, Default: "continue", Enum: []string{"continue", "fail"}, Doc: "What a file that cannot be copied does to the step."},
			{Name: "spawn", Type: spec.Any, Doc: "Step for each copied file: an object with action (`media.metadata`), name (`extract_metadata`), params and on_failure (`continue` or `fail`; `continue`), or false for none."},
		},
		Outputs: []spec.Field{
			{Name: "destination", Type: spec.String, Doc: "The destination as given."},
			{Name: "manifest", Type: spec.String, Doc: "List of the stored files with their hashes, in the destination."},
			{Name: "count", Type: spec.Integer, Doc: "Files asked for."},
			{Name: "copied", Type: spec.Integer, Doc: "Files that this step stored, earlier attempts included."},
			{Name: "existing", Type: spec.Integer, Doc: "Files that an earlier ingest had stored."},
			{Name: "duplicates", Type: spec.Integer, Doc: "Files with the content of another file of this ingest."},
			{Name: "failed", Type: spec.Integer, Doc: "Files that could not be copied."},
			{Name: "bytes", Type: spec.Integer, Doc: "Bytes of the copied files."},
			{Name: "spawned", Type: spec.Integer, Doc: "Steps started for files."},
			{Name: "files", Type: spec.Array, Doc: "The files that are safe.", Items: &spec.Field{Name: "file", Type: spec.Object, Fields: []spec.Field{
				{Name: "source", Type: spec.String, Doc: "Path on the source."},
				{Name: "path", Type: spec.String, Doc: "Path inside the destination."},
				{Name: "size", Type: spec.Integer, Doc: "Bytes."},
				{Name: "mtime", Type: spec.Time, Doc: "Modification time of the source, UTC."},
				{Name: "sha256", Type: spec.String, Doc: "SHA-256 of the content."},
				{Name: "hash_date", Type: spec.Time, Doc: "When the hash was taken."},
				{Name: "stored_mtime", Type: spec.Time, Doc: "Modification time of the copy, as its file system keeps it."},
				{Name: "status", Type: spec.String, Doc: "copied, existing or duplicate; of the last two, path is the file that has the content."},
			}}},
			{Name: "failures", Type: spec.Array, Doc: "The files that are not.", Items: &spec.Field{Name: "failure", Type: spec.Object, Fields: []spec.Field{
				{Name: "source", Type: spec.String, Doc: "Path on the source."},
				{Name: "code", Type: spec.String, Doc: "Kind of error."},
				{Name: "error", Type: spec.String, Doc: "What happened."},
				{Name: "hint", Type: spec.String, Doc: "What to do about it."},
			}}},
		},
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

// metadataSpec is long because it is the documentation of the result's shape.
func metadataSpec() spec.Spec {
	return spec.Spec{
		Name:    "media.metadata",
		Summary: "Reads what a picture, video or sound says about itself.",
		Doc: "Where ffprobe is installed, it describes videos and sound; where exiftool is, it describes pictures, devices and positions (`stepwell doctor` shows what is found). " +
			"What they have no answer to, and everything where they are missing, comes from built-in readers for " +
			"MP4, QuickTime and their relatives (also fragmented, also with the header at the end), JPEG, PNG, TIFF, WebP, HEIF and AVIF, which give the same values. " +
			"Other containers need ffprobe. The format is recognised by content, not by name. A value that the file does not state, or that cannot be read, is null.\n\n" +
			"A file that is cut, that is no medium or of which neither streams nor size can be read fails the step; with `damaged: describe` it gives what could be read. " +
			"Smaller faults are listed in `warnings`; `partial` says that a value is missing because of one.\n\n" +
			"Where readers differ: `duration` is the movie header's, and of a fragmented file that of its longest track, as ffprobe shows it. `rotation` is clockwise as in exiftool; ffprobe's is counter-clockwise. The dates 0 and 1970-01-01 mean unknown. " +
			"A movie header states UTC, and many cameras put their local time there: that cannot be told from the file. " +
			"QuickTime's creationdate, which has a zone and survives exports, wins over the movie header. EXIF times without an offset are written without one and marked `created_local`. " +
			"The position 0,0 is marked `default`.",
		Params: []spec.Field{
			{Name: "path", Type: spec.String, Required: true, Doc: "The file; relative to the pipeline's directory."},
			{Name: "xxh64", Type: spec.Boolean, Default: false, Doc: "Also compute XXH64, for media hash lists."},
			{Name: "programs", Type: spec.Boolean, Default: true, Doc: "Ask ffprobe and exiftool where they are installed. The built-in readers alone take milliseconds for a file, the programs tenths of a second."},
			{Name: "damaged", Type: spec.String, Enum: []string{"fail", "describe"}, Default: "fail", Doc: "What happens with a file that is cut or unreadable: the step fails, or gives what could be read and says why in `warnings`."},
		},
		Outputs:  metadataOutputs(),
		KeyParam: "path",
		Examples: []spec.Example{{Title: "describe one clip", YAML: `
id: describe
action: media.metadata
params:
  path: clips/GX010042.MP4`}},
		Timeout: 30 * time.Minute, // the hash of a large file on a slow disk
	}
}

// metadataOutputs is long because it is a table.
func metadataOutputs() []spec.Field {
	return []spec.Field{
		{Name: "path", Type: spec.String, Doc: "The file as given."},
		{Name: "name", Type: spec.String, Doc: "Last element of the path."},
		{Name: "size", Type: spec.Integer, Doc: "Bytes."},
		{Name: "mtime", Type: spec.Time, Doc: "Modification time, UTC."},
		{Name: "sha256", Type: spec.String, Doc: "SHA-256 of the content, hexadecimal."},
		{Name: "xxh64", Type: spec.String, Doc: "XXH64 (seed 0), when asked for."},
		{Name: "kind", Type: spec.String, Doc: "video, audio or image."},
		{Name: "mime", Type: spec.String, Doc: "Media type by content."},
		{Name: "container", Type: spec.Object, Doc: "The file format.", Fields: []spec.Field{
			{Name: "format", Type: spec.String, Doc: "mp4, mov, m4a, jpeg, png …"},
			{Name: "brand", Type: spec.String, Doc: "Major brand of an MP4."},
			{Name: "compatible_brands", Type: spec.Array, Doc: "Its other brands."},
			{Name: "fragmented", Type: spec.Boolean, Doc: "Whether it has movie fragments."},
		}},
		{Name: "streams", Type: spec.Array, Doc: "The tracks, in the order of the file.", Items: &spec.Field{Name: "stream", Type: spec.Object, Fields: []spec.Field{
			{Name: "index", Type: spec.Integer, Doc: "From 0."},
			{Name: "type", Type: spec.String, Doc: "video, audio, subtitle or data."},
			{Name: "codec", Type: spec.String, Doc: "h264, hevc, aac …; of an encrypted track what is underneath."},
			{Name: "codec_tag", Type: spec.String, Doc: "Four-letter code."},
			{Name: "profile", Type: spec.String, Doc: "Profile, for example High or LC."},
			{Name: "language", Type: spec.String, Doc: "ISO 639-2 code, when set."},
			{Name: "duration", Type: spec.Number, Doc: "Seconds, or null."},
			{Name: "width", Type: spec.Integer, Doc: "Coded width."},
			{Name: "height", Type: spec.Integer, Doc: "Coded height."},
			{Name: "frame_rate", Type: spec.String, Doc: "Fraction, for example 30000/1001."},
			{Name: "frames", Type: spec.Integer, Doc: "Number of samples."},
			{Name: "channels", Type: spec.Integer, Doc: "Sound channels."},
			{Name: "sample_rate", Type: spec.Integer, Doc: "Hz."},
			{Name: "encrypted", Type: spec.Boolean, Doc: "Whether the track is encrypted."},
		}}},
		{Name: "duration", Type: spec.Number, Doc: "Seconds, or null."},
		{Name: "width", Type: spec.Integer, Doc: "Coded width of the picture, or null."},
		{Name: "height", Type: spec.Integer, Doc: "Coded height, or null."},
		{Name: "display_width", Type: spec.Integer, Doc: "Width as shown, after pixel shape and rotation, or null."},
		{Name: "display_height", Type: spec.Integer, Doc: "Height as shown, or null."},
		{Name: "rotation", Type: spec.Integer, Doc: "Clockwise turn that shows the picture upright: 0, 90, 180 or 270; null where there is no picture or it cannot be read."},
		{Name: "orientation", Type: spec.Integer, Doc: "EXIF orientation 1 to 8 (2, 4, 5, 7 are mirrored), or null."},
		{Name: "created", Type: spec.String, Doc: "When it was taken: RFC 3339 with an offset; without one when created_local; null when unknown."},
		{Name: "created_local", Type: spec.Boolean, Doc: "The time is that of the camera's clock in an unknown zone."},
		{Name: "created_source", Type: spec.String, Doc: "quicktime, mvhd, day, exif, exif_digitized, ffprobe or exiftool."},
		{Name: "make", Type: spec.String, Doc: "Maker of the device, or null."},
		{Name: "model", Type: spec.String, Doc: "Model of the device, or null."},
		{Name: "software", Type: spec.String, Doc: "Program or firmware that wrote the file, or null."},
		{Name: "gps", Type: spec.Object, Doc: "Position, or null.", Fields: []spec.Field{
			{Name: "lat", Type: spec.Number, Doc: "Degrees north."},
			{Name: "lon", Type: spec.Number, Doc: "Degrees east."},
			{Name: "alt", Type: spec.Number, Doc: "Metres, or null."},
			{Name: "default", Type: spec.Boolean, Doc: "The position is 0,0: most likely none."},
			{Name: "source", Type: spec.String, Doc: "quicktime, xyz, loci, exif, ffprobe or exiftool."},
		}},
		{Name: "has_audio", Type: spec.Boolean, Doc: "Whether there is a sound track; null where the streams cannot be read."},
		{Name: "truncated", Type: spec.Boolean, Doc: "The file ends before what it promises."},
		{Name: "partial", Type: spec.Boolean, Doc: "Something could not be read; see warnings."},
		{Name: "warnings", Type: spec.Array, Doc: "What is wrong with the file, at most 20 lines."},
	}
}
