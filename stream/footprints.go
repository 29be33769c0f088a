package stream

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/stream/durable"
)

// Footprint is where an item is that a stream has done, or that failed in it.
type Footprint struct {
	Box    Box
	Failed bool
	Item   *FootprintItem // with FootprintQuery.Names
}

// FootprintItem says which item it is.
type FootprintItem struct {
	ID, Collection string
	Failure        json.RawMessage // a failure record; nil: it is done
}

// FootprintQuery selects footprints.
type FootprintQuery struct {
	In         *Box // only those that meet it
	Names      bool // also what they are
	From, Most int

	cut bool // not all were read, or kept
}

// FootprintPage is some of the footprints that are selected.
type FootprintPage struct {
	Rows     []Footprint
	Total    int  // of all that are selected
	Complete bool // false: there are more than are kept, or read
}

// placed is a footprint with its item's place.
type placed struct {
	Box Box
	place
	segment int32
	failed  bool
}

// place tells the items of a segment apart: the number alone does not, where a source that has changed was read anew.
type place struct {
	key  uint64 // of a failure without a place: noPlace and its number in the spool
	mark uint64 // 0: not known, of a stream without marks or an earlier version
}

func (p place) same(other place) bool {
	return p.key == other.key && (p.mark == other.mark || p.mark == 0 || other.mark == 0)
}

const noPlace = 1 << 63

// Footprints gives the footprints of an execution of a pipeline, one for each item, of the segments in the order of their
// names and in each in the order of its sources: what is durable of segments in this process's Dir, and what has come to
// Shared of the others. An item that failed on one branch has failed. At most 1,048,576 are read, which takes 40 bytes for
// each.
func Footprints(ctx context.Context, o Options, pipeline, execution string, q FootprintQuery) (page FootprintPage, err error) {
	folder := filepath.Join(o.Dir, fileName(pipeline), runsDir, fileName(execution))
	bases, err := printBases(folder)
	if err != nil {
		return page, err
	}
	if o.Shared != nil {
		dir, err := os.MkdirTemp("", "stepwell-footprints-")
		if err != nil {
			return page, err
		}
		defer os.RemoveAll(dir)
		fetched, err := fetchPrints(ctx, o, folder, dir, bases)
		if err != nil {
			return page, fmt.Errorf("footprints in the shared place: %w", err)
		}
		bases = slices.DeleteFunc(bases, func(base string) bool { // what another process has continued
			return slices.Contains(fetched, filepath.Join(dir, filepath.Base(base)))
		})
		bases = append(bases, fetched...)
	}
	var all []placed
	for i, base := range bases {
		if all, err = q.read(ctx, base, int32(i), all); err != nil {
			return page, err
		}
	}
	page.Total, page.Complete = len(all), !q.cut
	all = all[min(q.From, len(all)):]
	all = all[:min(q.Most, len(all))]
	page.Rows = make([]Footprint, len(all))
	for i := range all {
		page.Rows[i] = Footprint{Box: all[i].Box, Failed: all[i].failed}
	}
	if q.Names {
		err = nameAll(ctx, bases, all, page.Rows)
	}
	return page, err
}

// fetchPrints gets the files of segments that are not in the folder, or have been saved by another process since, and gives them as
// printBases does.
func fetchPrints(ctx context.Context, o Options, folder, dir string, had []string) ([]string, error) {
	c := &catalog{dir: o.Dir, shared: o.Shared}
	found, err := durable.HandoversIn(ctx, o.Shared, c.sharedName(folder)+"/")
	for name, saved := range found {
		if base := path.Base(name); err == nil && (!slices.Contains(had, filepath.Join(folder, base)) || saved.After(changedAt(filepath.Join(folder, base)))) {
			err = durable.Fetch(ctx, o.Shared, name, filepath.Join(dir, base))
		}
	}
	if err != nil {
		return nil, err
	}
	return printBases(dir)
}

// changedAt is when the files of a segment that are read here have last changed.
func changedAt(base string) (last time.Time) {
	for _, suffix := range []string{printsSuffix, spoolSuffix, liveSuffix} {
		if info, err := os.Stat(base + suffix); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// printBases are the segments in a folder that have footprints or failures: their paths without a suffix.
func printBases(folder string) (bases []string, err error) {
	entries, err := os.ReadDir(folder)
	if unlessAbsent(err) != nil {
		return nil, fmt.Errorf("footprints: %w", err)
	}
	for _, e := range entries {
		for _, suffix := range []string{printsSuffix, spoolSuffix, liveSuffix} {
			if base, ok := strings.CutSuffix(e.Name(), suffix); ok {
				bases = append(bases, filepath.Join(folder, base))
			}
		}
	}
	slices.Sort(bases)
	return slices.Compact(bases), nil
}

// read adds those of a segment.
func (q *FootprintQuery) read(ctx context.Context, base string, segment int32, all []placed) ([]placed, error) {
	before, failed := len(all), map[uint64]uint64{} // marks by key
	add := func(p placed) {
		if q.cut = q.cut || len(all) >= maxPrints; len(all) < maxPrints {
			all = append(all, p)
		}
	}
	err := eachPlacedFailure(ctx, base, func(at place, r *failureRecord) error {
		if len(failed) >= maxPrints {
			q.cut = true
		} else if at.key&noPlace == 0 {
			failed[at.key] = at.mark
		}
		if r.Box != nil && q.meets(r.Box) {
			add(placed{*r.Box, at, segment, true})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = eachPrint(ctx, base, func(box Box, at place, _ []byte, _ int) {
		mark, lost := failed[at.key]
		switch {
		case at.key == printsLeftOut:
			q.cut = true
		case !(lost && at.same(place{at.key, mark})) && q.meets(&box):
			add(placed{box, at, segment, false})
		}
	})
	own := all[before:]
	slices.SortStableFunc(own, func(a, b placed) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.mark, b.mark)) })
	own = slices.CompactFunc(own, func(a, b placed) bool { return a.same(b.place) })
	return all[:before+len(own)], err
}

// nameAll finds out what footprints are: it reads their segments again.
func nameAll(ctx context.Context, bases []string, of []placed, rows []Footprint) error {
	for i, base := range bases {
		wanted := map[place]*Footprint{}
		for at := range of {
			if of[at].segment == int32(i) {
				wanted[of[at].place] = &rows[at]
			}
		}
		if len(wanted) == 0 {
			continue
		}
		err := eachPlacedFailure(ctx, base, func(where place, r *failureRecord) (err error) {
			if f := wanted[where]; f != nil && f.Failed && f.Item == nil {
				f.Item = &FootprintItem{ID: r.Item, Collection: r.Collection}
				r.At, r.Origin, r.Box = nil, nil, nil
				f.Item.Failure, err = json.Marshal(r)
			}
			return err
		})
		if err == nil {
			err = eachPrint(ctx, base, func(_ Box, where place, texts []byte, id int) {
				if f := wanted[where]; f != nil && !f.Failed && f.Item == nil {
					f.Item = &FootprintItem{ID: textOf(texts[:id]), Collection: textOf(texts[id:])}
				}
			})
		}
		if err != nil {
			return err
		}
	}
	for i := range rows {
		if rows[i].Item == nil { // its segment has begun anew meanwhile
			rows[i].Item = &FootprintItem{}
		}
	}
	return nil
}

// eachPlacedFailure reads the spool of a segment, which may grow meanwhile.
func eachPlacedFailure(ctx context.Context, base string, do func(at place, r *failureRecord) error) (err error) {
	file := base + liveSuffix // that of a segment that runs stands for the one before
	if _, serr := os.Stat(file); serr != nil {
		file = base + spoolSuffix
	}
	n := uint64(0)
	eachLine(ctx, file, func(line json.RawMessage, lineErr error) bool {
		var r failureRecord
		if err = lineErr; err == nil {
			err = json.Unmarshal(line, &r)
		}
		if n++; err == nil {
			where := place{key: noPlace | n}
			if len(r.At) == 2 {
				where.key = placeKey(int(r.At[0]), r.At[1])
			}
			if len(r.Origin) >= 3 {
				where.mark = marks{r.Origin[1], r.Origin[2]}.identity()
			}
			err = do(where, &r)
		}
		return err == nil
	})
	return err
}

// eachPrint reads the records of a segment, whose file may grow meanwhile. texts are the id, of so many bytes, and the
// collection, both valid during the call only.
func eachPrint(ctx context.Context, base string, do func(box Box, at place, texts []byte, id int)) error {
	f, err := os.Open(base + printsSuffix)
	if err != nil {
		return unlessAbsent(err)
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 256<<10)
	var head [printHead]byte
	texts := make([]byte, 2*maxText+8)
	for n := 0; ; n++ {
		if n&1023 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_, err := io.ReadFull(in, head[:])
		id, collection, mark := printLengths(head[:])
		if err == nil && (id > maxText || collection > maxText) {
			err = durable.Damaged("a text of %d bytes", max(id, collection))
		}
		if err == nil {
			_, err = io.ReadFull(in, texts[:id+collection+mark])
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // the last record may be under way
			return nil
		}
		if err != nil {
			return fmt.Errorf("footprints: %s: %w", filepath.Base(base), err)
		}
		var box Box
		for i := range box {
			box[i] = math.Float32frombits(binary.LittleEndian.Uint32(head[4*i:]))
		}
		where := place{key: binary.LittleEndian.Uint64(head[16:])}
		if mark > 0 {
			where.mark = binary.LittleEndian.Uint64(texts[id+collection:])
		}
		do(box, where, texts[:id+collection], id)
	}
}

// textOf is a text, or a number, of its JSON.
func textOf(raw []byte) string {
	var s string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// meets reports whether a box has a point in common with the one that is asked for. Either may cross the antimeridian.
func (q *FootprintQuery) meets(b *Box) bool {
	if q.In == nil {
		return true
	}
	if b[1] > q.In[3] || b[3] < q.In[1] {
		return false
	}
	for _, a := range spans(b) {
		for _, c := range spans(q.In) {
			if a[0] <= c[1] && c[0] <= a[1] {
				return true
			}
		}
	}
	return false
}

// spans are the longitudes of a box: two where it crosses the antimeridian.
func spans(b *Box) [][2]float32 {
	if b[0] <= b[2] {
		return [][2]float32{{b[0], b[2]}}
	}
	return [][2]float32{{b[0], 180}, {-180, b[2]}}
}
