package output

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/stepwell/stepwell/stac/apiclient"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
)

// owned is the items that a run with write: replace has put into an API: its end deletes all others in the collections.
// It is in a file, for a resumed run; 16 bytes of each item are in memory.
type owned struct {
	file        *os.File
	out         *bufio.Writer
	keys        map[[16]byte]bool
	collections map[string]bool
}

// openOwned opens the file, anew unless the run goes on.
func openOwned(env *stream.Env, goesOn bool) (*owned, error) {
	path := filepath.Join(env.Data, "output.owned")
	flags := os.O_RDWR | os.O_CREATE
	if !goesOn {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is missing", stream.ErrStateGone, path)
	}
	if err != nil {
		return nil, err
	}
	o := &owned{file: f, out: bufio.NewWriter(f), keys: map[[16]byte]bool{}, collections: map[string]bool{}}
	dec := json.NewDecoder(f)
	for {
		var entry [2]string
		if err := dec.Decode(&entry); err != nil { // the last one was cut off: its item is sent again
			break
		}
		o.keys[keyOf(entry[0], entry[1], true)], o.collections[entry[0]] = true, true
	}
	_, err = f.Seek(0, io.SeekEnd)
	return o, err
}

// add takes in an item that is there now.
func (o *owned) add(collection, id string) error {
	o.keys[keyOf(collection, id, true)], o.collections[collection] = true, true
	text, err := json.Marshal([2]string{collection, id})
	if err != nil {
		return err
	}
	_, err = o.out.Write(append(append([]byte{'\n'}, text...), '\n'))
	return err
}

func (o *owned) sync() error { return errors.Join(o.out.Flush(), o.file.Sync()) }

// strangers are the items of a collection that this run has not put there, first at most.
func (s *server) strangers(ctx context.Context, collection string, first int) (ids []string, err error) {
	p, err := s.client.Search(ctx, apiclient.Search{Collections: []string{collection}, Limit: 1000})
	if err != nil {
		return nil, err
	}
	for {
		page, err := p.Next(ctx)
		if err != nil || page == nil {
			return ids, err
		}
		for _, f := range page.Features {
			if !s.owned.keys[keyOf(collection, f.ID, true)] {
				if ids = append(ids, f.ID); len(ids) == first {
					return ids, nil
				}
			}
		}
	}
}

// maxStrangers bounds the items that one run deletes from a collection.
const maxStrangers = 1_000_000

// deleteStrangers deletes from the collections of the run all items that it has not put there.
func (s *server) deleteStrangers(ctx context.Context) (deleted int64, err error) {
	if known := s.config.fixed(s.env); known != "" {
		s.owned.collections[known] = true
	}
	collections := slices.Sorted(maps.Keys(s.owned.collections))
	policy := durable.Policy{Mode: durable.Replace, AllowEmpty: s.config.AllowEmpty}
	err = policy.MayReplace(s.client.URL(), s.env.Given(int64(len(s.owned.keys))), func() (bool, error) {
		for _, c := range collections {
			if ids, err := s.strangers(ctx, c, 1); err != nil || len(ids) > 0 {
				return len(ids) > 0, err
			}
		}
		return false, nil
	})
	if err != nil {
		return 0, err
	}
	for _, c := range collections {
		ids, err := s.strangers(ctx, c, maxStrangers)
		if err != nil {
			return deleted, err
		}
		for _, id := range ids {
			res, err := s.client.Delete(ctx, c, id, "")
			if err == nil && res.Outcome == apiclient.Failed && apiclient.StatusOf(res.Err) != 404 {
				err = fmt.Errorf("delete item %s of collection %s: %w", id, c, res.Err)
			}
			if err != nil {
				return deleted, err
			}
			deleted++
		}
	}
	return deleted, nil
}
