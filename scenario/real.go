package scenario

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/sim"
)

// Repeated is a call of a step whose action ran twice: one time after the other, with the same key.
type Repeated struct {
	Key     string
	Outputs [2]any
	Errs    [2]error
	Trees   [2]Tree // of the folder, after each
}

// Tree is what a folder holds, by path, with slashes.
type Tree map[string]File

// File is one file, or a folder.
type File struct {
	Size  int64
	Lines int      // -1: it is no text, or larger than maxText
	Sum   [32]byte // of the content; of a text without times. Zero for what is no file
}

// maxText bounds the texts that are compared without the times in them.
const maxText = 4 << 20

// Timestamp is a time in a text, as actions write it. Texts that differ only in times count as equal.
var Timestamp = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})`)

// treeOf reads a folder. It is bounded as copies are.
func treeOf(dir string) (Tree, error) {
	t, size := Tree{}, int64(0)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		one := File{Lines: -1}
		if size += info.Size(); size > maxCopied || len(t) >= maxCopiedFiles {
			return tooMuch("what the steps have left in the folder")
		}
		if info.Mode().IsRegular() {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if one.Size = int64(len(raw)); len(raw) <= maxText && utf8.Valid(raw) && !bytes.ContainsRune(raw, 0) {
				one.Lines = bytes.Count(raw, []byte("\n"))
				raw = Timestamp.ReplaceAll(raw, nil)
			}
			one.Sum = sha256.Sum256(raw)
		}
		t[filepath.ToSlash(rel)] = one
		return nil
	})
	return t, err
}

func tooMuch(what string) error {
	return stepwell.Errorf(stepwell.CodeLimit, "move the pipeline and its files to a folder of their own",
		"%s has more than %d MiB or %d files: it is copied and compared for actions that run", what, maxCopied>>20, maxCopiedFiles)
}

// forced reports whether the options have a step's action run, whatever the test says.
func (r *run) forced(key, id string) bool {
	return slices.ContainsFunc(r.o.Real, func(name string) bool { return matches(name, key, id) > 0 })
}

// forReal has a step's action run; How.Repeat has it run twice.
func (r *run) forReal(a *sim.Attempt) (*sim.Outcome, error) {
	act, ok := r.o.Actions.Lookup(a.Step.Action)
	if !ok || !r.how.Repeat {
		return &sim.Outcome{Real: true}, nil
	}
	return &sim.Outcome{Handler: action.HandlerFunc(func(ctx context.Context, c *action.Call) (any, error) {
		one := Repeated{Key: a.Key}
		for i := range one.Outputs {
			one.Outputs[i], one.Errs[i] = act.Attempt(ctx, c)
			tree, err := treeOf(r.folder)
			if err != nil {
				return nil, action.Fail(err)
			}
			if one.Trees[i] = tree; one.Errs[i] != nil {
				break
			}
		}
		if one.Errs[0] == nil {
			r.repeated = append(r.repeated, one)
		}
		return one.Outputs[0], one.Errs[0]
	})}, nil
}
