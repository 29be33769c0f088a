package worker

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
)

// mediaScheme begins the token that stands for a lesson's file in params: media:<ref>/<file name>.
const mediaScheme = "media:"

// MediaToken is the token for the file of the lesson that an execution is about, and its parts. "": there is none.
func MediaToken(about plan.About) (token, ref, name string) {
	token, _ = about.Media()["path"].(string)
	rest, ok := strings.CutPrefix(token, mediaScheme)
	if ref, name, ok2 := strings.Cut(rest, "/"); ok && ok2 && ref != "" && name != "" {
		return token, ref, name
	}
	return "", "", ""
}

// localMedia replaces, in every string of a value, the token of the execution's own file by the path of a local copy. The
// tokens of other files stay as they are, so that data from outside opens nothing. A value without the token is returned
// as it is, and nothing is fetched.
func (a *attempt) localMedia(v any) (any, error) {
	if a.Task.About == nil || a.r.o.Media == nil {
		return v, nil
	}
	token, ref, name := MediaToken(a.Task.About)
	if token == "" || !mentions(v, token) {
		return v, nil
	}
	a.fetching.Lock()
	defer a.fetching.Unlock()
	if a.file == "" {
		file, err := a.r.o.Media(a.ctx, ref, name)
		if err != nil {
			return nil, err
		}
		a.file = file
	}
	return replaceText(v, token, a.file), nil
}

func mentions(v any, text string) bool {
	has := func(inner any) bool { return mentions(inner, text) }
	switch v := v.(type) {
	case string:
		return strings.Contains(v, text)
	case []any:
		return slices.ContainsFunc(v, has)
	case map[string]any:
		for _, inner := range v {
			if has(inner) {
				return true
			}
		}
	}
	return false
}

// replaceText is a copy of v with another text in its strings.
func replaceText(v any, old, text string) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, old, text)
	case []any:
		v = slices.Clone(v)
		for i := range v {
			v[i] = replaceText(v[i], old, text)
		}
		return v
	case map[string]any:
		v = maps.Clone(v)
		for key := range v {
			v[key] = replaceText(v[key], old, text)
		}
		return v
	}
	return v
}

// MediaPart reads the file of the lesson that a task's execution is about: at most so many bytes from an offset, and the size
// of the whole. CodeNotFound: it has none.
func (r *Runner) MediaPart(ctx context.Context, t *engine.Task, offset int64, most int) (data []byte, size int64, err error) {
	_, ref, name := MediaToken(t.About)
	if ref == "" || r.o.Media == nil {
		return nil, 0, stepwell.Errorf(stepwell.CodeNotFound, "", "the execution has no lesson with a file")
	}
	path, err := r.o.Media(ctx, ref, name)
	if err != nil {
		return nil, 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if size = info.Size(); offset < 0 || offset > size {
		return nil, 0, stepwell.Invalid("", "the offset %d is not in the file of %d bytes", offset, size)
	}
	data = make([]byte, min(int64(most), size-offset))
	_, err = f.ReadAt(data, offset)
	return data, size, err
}

// touch is action.Call.Touch: the lesson's file may be touched wherever the worker keeps it.
func (a *attempt) touch(path string) error {
	a.fetching.Lock()
	own := a.file != "" && filepath.Clean(path) == filepath.Clean(a.file)
	a.fetching.Unlock()
	if own {
		return nil
	}
	return a.r.o.Touch(path)
}
