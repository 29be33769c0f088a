package media

import (
	"path"
	"strings"

	"github.com/stepwell/stepwell"
)

// systemNames are directories that cameras, systems and file managers leave on cards. MISC holds
// settings and logs of the camera (DCF).
var systemNames = map[string]string{
	"misc": "misc", "system volume information": "system", "$recycle.bin": "system", "recycler": "system",
	"lost.dir": "system", "lost+found": "system", "found.000": "system",
}

// unwantedName gives the reason to skip an entry by its name alone, or "".
func unwantedName(name string, dir bool) string {
	lower := strings.ToLower(name)
	switch {
	case strings.HasPrefix(name, "._"):
		return "apple_double"
	case strings.HasPrefix(lower, ".trash"), strings.HasPrefix(lower, ".spotlight"), lower == ".fseventsd",
		strings.HasPrefix(lower, ".temporaryitems"), strings.HasPrefix(lower, ".documentrevisions"):
		return "system"
	case strings.HasPrefix(name, "."):
		return "hidden"
	case dir:
		return systemNames[lower]
	default:
		return ""
	}
}

var mediaExtensions = func() map[string]bool {
	set := map[string]bool{}
	for _, ext := range strings.Fields(`jpg jpeg jpe png gif bmp webp avif heic heif tif tiff
		dng cr2 cr3 crw nef nrw arw srf sr2 raf orf rw2 pef srw x3f 3fr iiq gpr insp
		mp4 m4v mov qt mts m2ts ts avi mkv webm mxf mpg mpeg m2v vob 3gp 3g2 wmv asf flv insv 360 braw r3d
		wav m4a mp3 aac flac ogg oga opus aif aiff wma amr caf`) {
		set["."+ext] = true
	}
	return set
}()

// mediaName says whether a name ends like a picture, video or sound.
func mediaName(name string) bool { return mediaExtensions[strings.ToLower(path.Ext(name))] }

// matchAny matches a slash-separated relative path against globs, without regard to case, since
// cards disagree on it. A glob without a slash is matched against the last element; "**" stands
// for any number of elements.
func matchAny(globs []string, name string) bool {
	name = strings.ToLower(name)
	for _, g := range globs {
		g = strings.ToLower(strings.TrimPrefix(g, "/"))
		if !strings.Contains(g, "/") {
			if ok, err := path.Match(g, path.Base(name)); err == nil && ok {
				return true
			}
		} else if matchParts(strings.Split(g, "/"), strings.Split(name, "/")) {
			return true
		}
	}
	return false
}

// matchParts walks both lists; on a mismatch it returns to the last "**" and lets it take one
// element more, so that the work stays within the product of the lengths.
func matchParts(glob, name []string) bool {
	g, n, star, from := 0, 0, -1, 0
	for n < len(name) {
		if g < len(glob) && glob[g] == "**" {
			star, from = g, n
			g++
			continue
		}
		if g < len(glob) {
			if ok, err := path.Match(glob[g], name[n]); err == nil && ok {
				g, n = g+1, n+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		g, n = star+1, from
	}
	for g < len(glob) && glob[g] == "**" {
		g++
	}
	return g == len(glob)
}

// validateGlobs reports every glob that path.Match would refuse.
func validateGlobs(params map[string]any) []error {
	var errs []error
	for _, field := range []string{"include", "exclude"} {
		list, ok := params[field].([]any)
		if !ok {
			continue // absent, or of another type: the Spec's business
		}
		for i, v := range list {
			g, _ := v.(string)
			if _, err := path.Match(strings.ReplaceAll(g, "**", "*"), ""); err != nil || g == "" {
				errs = append(errs, stepwell.Invalid(`write it like "*.mp4" or "DCIM/**"`, "%s[%d]: %q is not a glob", field, i, g))
			}
		}
	}
	return errs
}
