package outbound

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
)

// Bounds of what is read to say which recording a request is most like.
const (
	maxNearest     = 10_000    // recordings
	maxNearestRead = 256 << 20 // bytes of their requests
	maxNearestBody = 4 << 10   // bytes of a body that are compared
)

// nearby finds the recording that is most like a request of which there is none. All requests of a folder are read once, when the first
// one is missed.
type nearby struct {
	turn chan struct{} // holds a token while somebody reads
	of   [2]string     // the folders that were read
	all  []near        // in the order of their keys
	some bool          // not all were read
}

// near is the request of a recording.
type near struct {
	method, url, body string // the body cut
	folder            string // of another pipeline; "": among those of the tape
}

// compare orders by method, then URL, host and path first, then body: what has most in common stands side by side.
func (n near) compare(o near) int {
	return cmp.Or(strings.Compare(n.method, o.method), strings.Compare(n.url, o.url), strings.Compare(n.body, o.body))
}

// like is how much two requests have in common: URLs of one method count more, and their bodies if the URLs are equal.
func (n near) like(o near) int {
	same := n.method == o.method
	like := alike(n.url, o.url)
	if same {
		like += 1 << 10
	}
	if same && n.url == o.url {
		like += 1<<20 + alike(n.body, o.body)
	}
	return like
}

// nearest says which recording is most like a request of which there is none. n counts the requests with its key.
func (t *replayer) nearest(ctx context.Context, wanted *recording, n int) (string, error) {
	all, some, err := t.requests(ctx)
	if err != nil || len(all) == 0 {
		return "", err
	}
	w := near{method: wanted.Request.Method, url: wanted.Request.URL, body: stepwell.Head(wanted.Request.Body, maxNearestBody)}
	var best near
	most := -1
	for at := 0; at < len(all); { // once for each method
		method := all[at].method
		end := at + countOf(all[at:], method)
		i, _ := slices.BinarySearchFunc(all[at:end], near{method: method, url: w.url, body: w.body}, near.compare)
		for _, one := range all[max(at, at+i-1):min(end, at+i+1)] { // those on both sides
			if like := w.like(one); like > most {
				most, best = like, one
			}
		}
		at = end
	}
	found := "; the nearest one recorded is " + best.method + " " + best.url
	switch {
	case most < 1<<20:
	case best.body != w.body:
		at := alike(w.body, best.body)
		found += fmt.Sprintf(" with another body: %q, now %q", stepwell.Clip(best.body[at:], 60), stepwell.Clip(w.body[at:], 60))
	case n > 1:
		found += fmt.Sprintf(", which was sent %d times", n-1)
	}
	if best.folder != "" {
		found += ", in " + best.folder
	}
	if some {
		found += fmt.Sprintf(" (among the first %d)", len(all))
	}
	return found, nil
}

// countOf is how many at the beginning of a list in order have a method.
func countOf(list []near, method string) int {
	n, _ := slices.BinarySearchFunc(list, method, func(e near, m string) int {
		if e.method <= m {
			return -1
		}
		return 1
	})
	return n
}

// requests reads those of all recordings, once for a folder; it stops when ctx ends.
func (t *replayer) requests(ctx context.Context) (all []near, some bool, err error) {
	n := &t.nearby
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	dir, root := t.Folders()
	of := [2]string{dir, root}
	if n.of == of {
		return n.all, n.some, nil
	}
	names, err := recordingsBelow(root)
	if err != nil {
		return nil, false, err
	}
	left := int64(maxNearestRead)
	for i, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, false, context.Cause(ctx)
		}
		if i >= maxNearest || left <= 0 {
			some = true
			break
		}
		one, ok, err := requestIn(filepath.Join(root, name), &left)
		if err != nil {
			return nil, false, fmt.Errorf("recordings: %w", err)
		}
		if !ok {
			continue // of something else
		}
		if folder := filepath.Dir(filepath.Join(root, name)); folder != filepath.Clean(dir) {
			one.folder = folder
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, near.compare)
	n.of, n.all, n.some = of, all, some
	return all, some, nil
}

// recordingsBelow are the files in a folder and in those in it, at most one more than are read.
func recordingsBelow(root string) (names []string, err error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("recordings: %w", err)
	}
	for _, e := range entries {
		if len(names) > maxNearest {
			break
		}
		if !e.IsDir() {
			if filepath.Ext(e.Name()) == ".json" {
				names = append(names, e.Name())
			}
			continue
		}
		within, err := os.ReadDir(filepath.Join(root, e.Name()))
		if errors.Is(err, fs.ErrPermission) {
			continue // not a folder of recordings
		}
		if err != nil {
			return nil, fmt.Errorf("recordings: %w", err)
		}
		for _, f := range within[:min(len(within), maxNearest)] {
			if !f.IsDir() && filepath.Ext(f.Name()) == ".json" {
				names = append(names, filepath.Join(e.Name(), f.Name()))
			}
		}
	}
	return names[:min(len(names), maxNearest+1)], nil
}

// requestIn reads the request of a recording, but not the answer behind it, and takes what it reads off left. Not ok: it is none.
func requestIn(path string, left *int64) (one near, ok bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return one, false, err
	}
	defer f.Close()
	d := json.NewDecoder(&io.LimitedReader{R: f, N: *left})
	defer func() { *left -= d.InputOffset() }()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return one, false, nil
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return one, false, nil
		}
		if name != "request" {
			if err := d.Decode(new(json.RawMessage)); err != nil {
				return one, false, nil
			}
			continue
		}
		var r recording
		if err := d.Decode(&r.Request); err != nil || r.Request.Method == "" {
			return one, false, nil
		}
		return near{method: r.Request.Method, url: r.Request.URL, body: stepwell.Head(r.Request.Body, maxNearestBody)}, true, nil
	}
	return one, false, nil
}
