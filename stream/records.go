package stream

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/stream/durable"
)

// liveSuffix is the second name of the spool of a segment that runs, beside the results of its execution: there it is found
// before the segment has left its result.
const liveSuffix = ".live.ndjson"

// Failures gives the failure records of an execution of a pipeline, as JSON: of segments that have ended, and as far as they
// are durable of those that run in this process's Dir. Records of a worker with another Dir come from Shared when its segment
// has ended; without Shared they are not found.
func Failures(ctx context.Context, o Options, pipeline, execution string) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		folder := filepath.Join(o.Dir, fileName(pipeline), runsDir, fileName(execution))
		names, err := recordFiles(folder)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, name := range names {
			if !eachLine(ctx, filepath.Join(folder, name), yield) {
				return
			}
		}
		if o.Shared != nil {
			fetchedFailures(ctx, o, folder, names, yield)
		}
	}
}

// recordFiles are the spools in a folder, by name. The spool of a segment that runs stands for the one that its last attempt left.
func recordFiles(folder string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	if unlessAbsent(err) != nil {
		return nil, fmt.Errorf("failures of streams: %w", err)
	}
	live := map[string]bool{}
	for _, e := range entries {
		if base, ok := strings.CutSuffix(e.Name(), liveSuffix); ok {
			live[base] = true
			names = append(names, e.Name())
		}
	}
	for _, e := range entries {
		if base, ok := strings.CutSuffix(e.Name(), spoolSuffix); ok && !live[base] {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// fetchedFailures gives the records that only the shared place has: had are the files that are here.
func fetchedFailures(ctx context.Context, o Options, folder string, had []string, yield func(json.RawMessage, error) bool) {
	c := &catalog{dir: o.Dir, shared: o.Shared}
	found, err := durable.HandoversIn(ctx, o.Shared, c.sharedName(folder)+"/")
	if err != nil {
		yield(nil, fmt.Errorf("failures of streams in the shared place: %w", err))
		return
	}
	dir, err := os.MkdirTemp("", "stepwell-failures-")
	if err != nil {
		yield(nil, err)
		return
	}
	defer os.RemoveAll(dir)
	for name := range found {
		base := path.Base(name)
		if slices.Contains(had, base+spoolSuffix) || slices.Contains(had, base+liveSuffix) {
			continue
		}
		if err := durable.Fetch(ctx, o.Shared, name, filepath.Join(dir, base)); err != nil {
			yield(nil, fmt.Errorf("failures of streams in the shared place: %w", err))
			return
		}
	}
	names, err := recordFiles(dir)
	if err != nil {
		yield(nil, err)
		return
	}
	for _, name := range names {
		if !eachLine(ctx, filepath.Join(dir, name), yield) {
			return
		}
	}
}

// eachLine gives the whole lines of a spool, which may grow meanwhile. It reports whether to go on.
func eachLine(ctx context.Context, file string, yield func(json.RawMessage, error) bool) bool {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) { // it was swept, or its segment began anew
		return true
	}
	if err != nil {
		yield(nil, err)
		return false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 64<<10), maxRecord)
	for lines.Scan() {
		if ctx.Err() != nil {
			yield(nil, context.Cause(ctx))
			return false
		}
		if line := lines.Bytes(); json.Valid(line) && !yield(line, nil) { // the last line may be under way
			return false
		}
	}
	if lines.Err() != nil {
		yield(nil, fmt.Errorf("%s: %w", filepath.Base(file), lines.Err()))
	}
	return lines.Err() == nil
}
