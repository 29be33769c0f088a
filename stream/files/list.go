package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
)

// maxListed bounds the files of one pattern.
const maxListed = 1_000_000

// List names the files that a pattern stands for, sorted, without repetition:
//
//	file, https URL                      itself; whether a URL exists shows when it is opened
//	directory, s3://bucket/prefix/       the files directly in it
//	glob, s3://bucket/prefix/*           the files that match; * ? [a-z] within one name, ** any number of names
//
// A name with a dot in front is matched only by a pattern that has one too; a directory does not stand for it. ~ is
// not expanded. Relative patterns are meant against dir. The error is CodeNotFound when there is no such
// file, also of a glob that matches none.
func (p *Places) List(ctx context.Context, dir, pattern string) ([]string, error) {
	if err := supported(pattern); err != nil {
		return nil, err
	}
	var found []string
	var err error
	switch {
	case isWeb(pattern):
		return []string{pattern}, nil
	case isS3(pattern):
		found, err = p.listS3(ctx, pattern)
	default:
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(dir, pattern)
		}
		found, err = listLocal(ctx, pattern)
	}
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, absent(pattern)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

func absent(pattern string) error {
	e := &stepwell.Error{Code: stepwell.CodeNotFound, Message: "no such file: " + pattern}
	switch {
	case strings.HasPrefix(pattern, "~") || strings.Contains(pattern, "/~/"):
		e.Hint = "~ is not expanded: write the path out"
	case hasMeta(pattern):
		e.Message, e.Hint = "no file matches "+pattern, "* stays within one directory, ** goes below"
	}
	return e
}

func hasMeta(text string) bool { return strings.ContainsAny(text, "*?[") }

func listLocal(ctx context.Context, pattern string) ([]string, error) {
	info, err := os.Stat(pattern)
	switch {
	case err == nil && info.IsDir():
		return listDir(pattern)
	case err == nil:
		return []string{pattern}, nil
	case !hasMeta(pattern):
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	segments := strings.Split(filepath.ToSlash(pattern), "/")
	first := slices.IndexFunc(segments, hasMeta)
	root := filepath.FromSlash(strings.Join(segments[:first], "/"))
	if root == "" {
		root = "/"
	}
	if err := goodPattern(segments[first:]); err != nil {
		return nil, err
	}
	g := glob{ctx: ctx, segments: segments[first:], seen: map[string]bool{}}
	err = g.walk(root, 0)
	return g.found, err
}

func listDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if name := filepath.Join(dir, e.Name()); e.Name()[0] != '.' && isFile(name, e) {
			found = append(found, name)
		}
	}
	return found, nil
}

// isFile reports whether an entry is a regular file, or a link to one.
func isFile(name string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.Type().IsRegular()
	}
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

func goodPattern(segments []string) error {
	for _, s := range segments {
		if _, err := path.Match(s, ""); err != nil {
			return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("the pattern %q is not valid", s), Hint: `write \[ for the character itself`}
		}
	}
	return nil
}

// glob walks the directories that a pattern can match in. It is written here: doublestar walks an io/fs, which has no names
// that are not UTF-8, and takes {a,b} for a choice.
type glob struct {
	ctx      context.Context
	segments []string
	found    []string
	seen     map[string]bool // directory and segment, so that many ** do not multiply
}

// walk looks for the segments from i on in dir. Directories behind ** are not entered through links, so
// that it ends.
func (g *glob) walk(dir string, i int) error {
	key := fmt.Sprint(i, " ", dir)
	if g.seen[key] {
		return nil
	}
	g.seen[key] = true
	if err := context.Cause(g.ctx); err != nil {
		return err
	}
	deep, last := g.segments[i] == "**", i == len(g.segments)-1
	if deep && !last {
		if err := g.walk(dir, i+1); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !matchName(g.segments[i], e.Name()) {
			continue
		}
		if err := g.entry(filepath.Join(dir, e.Name()), e, i, deep, last); err != nil {
			return err
		}
	}
	return nil
}

func (g *glob) entry(name string, e fs.DirEntry, i int, deep, last bool) error {
	if last && isFile(name, e) {
		if len(g.found) == maxListed {
			return tooMany()
		}
		g.found = append(g.found, name)
		return nil
	}
	switch {
	case deep && e.IsDir():
		return g.walk(name, i)
	case deep || last:
		return nil
	}
	if info, err := os.Stat(name); err != nil || !info.IsDir() {
		return nil //nolint:nilerr // a link into nowhere matches nothing
	}
	return g.walk(name, i+1)
}

func tooMany() error {
	return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("more than %d files match", maxListed), Hint: "use a narrower pattern"}
}

// matchName matches one name of a path; ** matches any.
func matchName(pattern, name string) bool {
	if name == "" || name[0] == '.' && pattern[:min(1, len(pattern))] != "." {
		return false
	}
	if pattern == "**" {
		return true
	}
	ok, _ := path.Match(pattern, name) // goodPattern has looked for the error
	return ok
}

// matchPath matches a whole path. Of several ** only the last one met has to give way, so that the time is
// bounded by the product of the lengths.
func matchPath(pattern, name []string) bool {
	i, j, star, from := 0, 0, -1, 0
	for j < len(name) {
		switch {
		case i < len(pattern) && pattern[i] == "**":
			star, from = i, j
			i++
		case i < len(pattern) && matchName(pattern[i], name[j]):
			i++
			j++
		case star >= 0 && matchName("**", name[from]):
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	return i == len(pattern)
}
