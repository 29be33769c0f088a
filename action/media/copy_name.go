package media

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/stepwell/stepwell"
)

const (
	// maxNames bounds the suffixes tried for one name.
	maxNames = 10_000
	// maxName is the longest name that common file systems take, in bytes.
	maxName = 255
)

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// checkTemplate refuses templates that could name a place outside of the destination.
func checkTemplate(t string) error {
	const hint = `use {original}, {path}, {date} and {camera}, for example "{date}/{camera}/{original}"`
	for _, p := range placeholder.FindAllString(t, -1) {
		switch p {
		case "{original}", "{path}", "{date}", "{camera}":
		default:
			return stepwell.Invalid(hint, "template: unknown placeholder %s", p)
		}
	}
	if !strings.Contains(t, "{original}") && !strings.Contains(t, "{path}") {
		return stepwell.Invalid(hint, "template: the name of the file is not in it")
	}
	sample := placeholder.ReplaceAllString(t, "x")
	if path.IsAbs(t) || filepath.IsAbs(t) || !fs.ValidPath(sample) || strings.ContainsAny(sample, "{}\\\x00") {
		return stepwell.Invalid(hint, "template: %q is not a path below the destination", t)
	}
	return nil
}

// targetName fills in the template for one file.
func (g *ingest) targetName(rel string, info fs.FileInfo) (string, error) {
	date, camera := info.ModTime().UTC().Format("2006-01-02"), "unknown"
	if strings.Contains(g.p.Template, "{date}") || strings.Contains(g.p.Template, "{camera}") {
		f, err := g.src.Open(rel)
		if err != nil {
			return "", sourceFault(err)
		}
		defer f.Close()
		m, err := describe(g.ctx, f, info.Size())
		if err == nil && m.Created != nil {
			date = (*m.Created)[:len("2006-01-02")]
		}
		if err == nil {
			camera = cameraName(m)
		}
	}
	name := placeholder.ReplaceAllStringFunc(g.p.Template, func(p string) string {
		switch p {
		case "{original}":
			return path.Base(rel)
		case "{path}":
			return rel
		case "{date}":
			return date
		}
		return camera
	})
	if base := path.Base(name); !fs.ValidPath(name) || strings.HasPrefix(base, ".tmp-") && strings.HasSuffix(base, ".part") {
		return "", stepwell.Invalid("names like .tmp-*.part are used while copying", "%q cannot be the name of a copy", name)
	}
	if g.ownSrc != "" && strings.HasPrefix(name, g.ownSrc+"/") {
		return "", stepwell.Invalid("a source is never written to; choose another template or destination", "%q would be inside the source", name)
	}
	return name, nil
}

// cameraName makes a directory name of make and model, which often repeats the make.
func cameraName(m *Metadata) string {
	var name string
	if m.Make != nil {
		name = *m.Make
	}
	if m.Model != nil && !strings.HasPrefix(strings.ToLower(*m.Model), strings.ToLower(name)) {
		name += " " + *m.Model
	} else if m.Model != nil {
		name = *m.Model
	}
	name = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" -_.+()", r) {
			return r
		}
		return '_'
	}, name)
	name = strings.Trim(stepwell.Head(name, 100), " .")
	if name == "" {
		return "unknown"
	}
	return name
}

// suffixed adds "_n" before the extension from the second name on, within the length limit.
func suffixed(name string, n int) string {
	if n < 2 {
		return name
	}
	dir, base := path.Split(name)
	ext := path.Ext(base)
	if len(ext) > 32 || ext == base {
		ext = ""
	}
	tail := fmt.Sprintf("_%d%s", n, ext)
	return dir + stepwell.Head(strings.TrimSuffix(base, ext), maxName-len(tail)) + tail
}

// freeName finds the name for a file: the first that is free, or the first that already holds the
// same content. Other content keeps its name.
func (g *ingest) freeName(s Stored, want string, lazy *lazyHash) (name string, same bool, err error) {
	for n := 1; n <= maxNames; n++ {
		name = suffixed(want, n)
		info, err := g.dst.Lstat(name)
		if notThere(err) {
			return name, false, nil
		}
		if err != nil {
			return "", false, destinationFault(err)
		}
		if !info.Mode().IsRegular() || info.Size() != s.Size {
			continue
		}
		if other, ours := g.claimed[name]; ours && other != s.Source && !g.p.Dedupe {
			continue // asked to store it twice
		}
		sum, err := lazy.get()
		if err != nil {
			return "", false, err
		}
		if stored, err := g.hashStored(name, s.Size); err == nil && stored == sum {
			return name, true, nil
		}
		if err := g.ctx.Err(); err != nil {
			return "", false, err
		}
	}
	return "", false, &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("%d names like %s are taken", maxNames, want), Hint: "use a template that tells the files apart"}
}
