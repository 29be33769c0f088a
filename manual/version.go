package manual

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// VersionLine says all about this program in a line.
func VersionLine() string {
	revision, at := "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				revision = " " + s.Value[:min(12, len(s.Value))]
			case "vcs.time":
				if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
					at = " of " + t.Format(time.DateOnly)
				}
			}
		}
	}
	return fmt.Sprintf("stepwell %s%s%s, %s, %s/%s", Version(), revision, at, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Version is that of the module, as it was built.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return cmp.Or(info.Main.Version, "(unknown)")
	}
	return "(unknown)"
}

// Built is when the program's source was committed; where that is not known, the beginning of time, so that the same source
// makes the same pages.
func Built() time.Time {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil && s.Key == "vcs.time" {
				return t
			}
		}
	}
	return time.Unix(0, 0).UTC()
}
