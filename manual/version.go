package manual

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// A release sets these with -ldflags -X: the version, the commit and the date of the commit in RFC 3339. Elsewhere they are
// empty, and what the go command has recorded counts (`go install`, `go build` in a checkout).
var version, commit, date string

// recorded returns a setting of the build, "" where the go command has recorded none.
func recorded(key string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
	}
	return ""
}

// VersionLine says all about this program in a line.
func VersionLine() string {
	revision, at := cmp.Or(commit, recorded("vcs.revision")), ""
	if revision != "" {
		revision = " " + revision[:min(12, len(revision))]
	}
	if t := Built(); t.Unix() != 0 {
		at = " of " + t.Format(time.DateOnly)
	}
	return fmt.Sprintf("stepwell %s%s%s, %s, %s/%s", Version(), revision, at, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Version is that of the release, or of the module as it was built.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return cmp.Or(version, info.Main.Version, "(unknown)")
	}
	return cmp.Or(version, "(unknown)")
}

// Built is when the program's source was committed; where that is not known, the beginning of time, so that the same source
// makes the same pages.
func Built() time.Time {
	if t, err := time.Parse(time.RFC3339, cmp.Or(date, recorded("vcs.time"))); err == nil {
		return t.UTC()
	}
	return time.Unix(0, 0).UTC()
}
