package output

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"github.com/stepwell/stepwell/stream"
)

// text writes items as lines: format ndjson. A file grows beside its name until the run ends. One that is
// there from an earlier run is copied and goes on; lines that this run has replaced are left out at the end.
type text struct {
	*book
}

func openText(b *book) (*text, error) {
	t := &text{book: b}
	c := &b.config
	if c.OrganizeBy == "" {
		c.OrganizeBy = "collection"
		if c.single() != "" {
			c.OrganizeBy = "flat"
		}
	}
	b.perUnit = c.OrganizeBy == "collection"
	if err := b.load(); err != nil {
		return nil, err
	}
	for _, u := range b.units {
		if err := t.verify(u); err != nil {
			return nil, err
		}
	}
	var err error
	if !b.perUnit {
		_, err = b.unitOf("")
	} else if known := b.fixed(); known != "" {
		_, err = b.unitOf(known)
	}
	return t, err
}

// kind is how files are compressed.
func (t *text) kind() string {
	if t.config.Compression != "" {
		return packing[t.config.Compression]
	}
	return compression(t.config.single())
}

// file is a unit's file.
func (t *text) file(u *unit) string {
	if name := t.config.single(); name != "" {
		return name
	}
	name := "items.ndjson"
	if kind := t.kind(); kind != "" {
		name += "." + kind
	}
	return path.Join(u.Dir, name)
}

// growing is where a unit's file grows.
func (t *text) growing(u *unit) string {
	if t.place.remote {
		return filepath.Join(t.env.Data, "lines-"+strconv.Itoa(u.number)+".part")
	}
	return t.place.local(path.Join(u.Dir, t.place.hidden, path.Base(t.file(u))+".part"))
}

// finished is the local file that a finished one can be read from; of a remote one it is a copy.
func (t *text) finished(u *unit) string {
	if t.place.remote {
		return filepath.Join(t.env.Data, "lines-"+strconv.Itoa(u.number)+".done")
	}
	return t.place.local(t.file(u))
}

// verify finds out whether a unit's file is as it was left, and opens it when it was growing.
func (t *text) verify(u *unit) error {
	if u.Open {
		if err := t.place.take(u.Dir); err != nil {
			return err
		}
		if err := t.recover(u); err != nil {
			return err
		}
		l, err := openLines(t.growing(u), t.kind(), u.Lines)
		if err == nil {
			u.live = l
		}
		return err
	}
	if u.Lines.Size == 0 {
		return nil
	}
	f, err := os.Open(t.finished(u))
	if err != nil {
		return fmt.Errorf("%w: %w", stream.ErrStateGone, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if tail, err := tailOf(f, u.Lines.Size); err != nil || info.Size() != u.Lines.Size || tail != u.Lines.Tail {
		return fmt.Errorf("%w: %s was changed", stream.ErrStateGone, f.Name())
	}
	return nil
}

// recover makes a growing file of the one that has got its name already, when the run that wrote it was cut
// off right then.
func (t *text) recover(u *unit) error {
	if _, err := os.Stat(t.growing(u)); !errors.Is(err, fs.ErrNotExist) || u.Lines.Size == 0 {
		return err
	}
	if err := copyFile(t.finished(u), t.growing(u)); err != nil {
		return fmt.Errorf("%w: %w", stream.ErrStateGone, err)
	}
	return nil
}

// linesOf is what takes a unit's lines.
func (t *text) linesOf(u *unit) (*lines, error) {
	if l, ok := u.live.(*lines); ok {
		return l, nil
	}
	if err := t.place.makeDir(filepath.Dir(t.growing(u))); err != nil {
		return nil, err
	}
	if u.Lines.Size > 0 {
		if err := copyFile(t.finished(u), t.growing(u)); err != nil {
			return nil, err
		}
	}
	l, err := openLines(t.growing(u), t.kind(), u.Lines)
	if err != nil {
		return nil, err
	}
	u.live, u.Open, u.changed = l, true, true
	return l, nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// Write implements stream.Sink.
func (t *text) Write(_ context.Context, batch []*stream.Item) error {
	t.ledger.now(time.Now().UnixMilli())
	for _, it := range batch {
		a, err := t.admit(it, t.perUnit)
		if err != nil {
			return err
		}
		if a == nil {
			continue
		}
		l, err := t.linesOf(a.unit)
		if err != nil {
			return err
		}
		if a.old == updated {
			a.unit.Stale, a.unit.changed = true, true
		}
		line := t.render(a)
		if err := l.add(line); err != nil {
			return err
		}
		t.ledger.item(entry{key: a.key, value: a.val, unit: a.unit.number, size: int64(len(line)) + 1})
		t.written++
	}
	return t.ledger.flush(false)
}

// render is the item's line. An item whose hrefs are all absolute is written as it came.
func (t *text) render(a *admitted) []byte {
	if hasRelative(a.it.Bytes()) {
		from, dir := originOf(t.env, a.it), ""
		if !t.place.remote {
			dir = filepath.Dir(t.place.local(t.file(a.unit)))
		}
		rebaseAll(a.it.Value, func(href string) string { return from.rebase(href, dir) })
	}
	return oneLine(a.it.Bytes())
}

// Commit implements stream.Sink.
func (t *text) Commit(context.Context) (int64, any, error) {
	s, err := t.sync()
	return t.taken, s, err
}

func (t *text) sync() (state, error) {
	for _, u := range t.units {
		l, ok := u.live.(*lines)
		if !ok {
			continue
		}
		s, err := l.sync()
		if err != nil {
			return state{}, err
		}
		if s != u.Lines {
			u.Lines, u.changed = s, true
		}
	}
	return t.commit()
}

// Close implements stream.Sink.
func (t *text) Close(ctx context.Context) (st, outputs any, err error) {
	if _, err := t.sync(); err != nil {
		return nil, nil, err
	}
	if !t.perUnit && len(t.units) > 0 { // a file also when there is nothing to put into it
		if _, err := t.linesOf(t.units[0]); err != nil {
			return nil, nil, err
		}
	}
	if err := t.dropReplaced(); err != nil {
		return nil, nil, err
	}
	for _, u := range t.units {
		l, ok := u.live.(*lines)
		if !ok {
			continue
		}
		if err := t.publish(ctx, u, l); err != nil {
			return nil, nil, err
		}
	}
	return t.finish(ctx, t.eachFile)
}

// publish gives a unit's file its name.
func (t *text) publish(ctx context.Context, u *unit, l *lines) error {
	s, err := l.sync()
	if err != nil {
		return err
	}
	if err := l.file.Sync(); err != nil { // an empty one, too
		return err
	}
	l.close()
	u.live, u.Open, u.Stale, u.Lines, u.changed = nil, false, false, s, true
	if t.place.remote { // what is published is no longer here, but a later run needs it
		if err := copyFile(t.growing(u), t.finished(u)); err != nil {
			return err
		}
	}
	return t.place.publish(ctx, t.growing(u), t.file(u))
}

// dropReplaced copies the files in which lines have been replaced, without those. The ledger has the items
// of a unit in the order of its lines.
func (t *text) dropReplaced() error {
	sieves := map[int]*sieve{}
	defer func() {
		for _, s := range sieves {
			s.close()
		}
	}()
	for _, u := range t.units {
		if l, ok := u.live.(*lines); ok && u.Stale {
			s, err := newSieve(l)
			if err != nil {
				return err
			}
			sieves[u.number] = s
		}
	}
	if len(sieves) == 0 {
		return nil
	}
	err := t.ledger.each(func(r record) error {
		if s := sieves[r.entry.unit]; r.kind == recordItem && s != nil {
			return s.next(t.index.current(r.entry))
		}
		return nil
	})
	for number, s := range sieves {
		if err == nil {
			u := t.units[number]
			u.live, err = s.swap(t.growing(u))
		}
	}
	return err
}

// sieve copies some of a file's lines into another.
type sieve struct {
	from *os.File
	text io.ReadCloser
	in   *bufio.Reader
	out  *lines
}

func newSieve(l *lines) (*sieve, error) {
	s := &sieve{from: l.file}
	if _, err := l.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var err error
	if s.text, err = unpack(l.file, l.kind); err != nil {
		return nil, err
	}
	s.in = bufio.NewReaderSize(s.text, 1<<16)
	s.out, err = openLines(l.file.Name()+".tmp", l.kind, linesState{})
	return s, err
}

func (s *sieve) next(keep bool) error {
	for {
		piece, err := s.in.ReadSlice('\n')
		if keep {
			s.out.buf = append(s.out.buf, piece...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s again: %w", s.from.Name(), err)
		}
		if len(s.out.buf) < 1<<18 {
			return nil
		}
		return s.out.flush()
	}
}

// swap puts the new file in the place of the old one.
func (s *sieve) swap(name string) (*lines, error) {
	if _, err := s.out.sync(); err != nil {
		return nil, err
	}
	out := s.out
	s.out = nil
	return out, os.Rename(out.file.Name(), name)
}

func (s *sieve) close() {
	s.text.Close()
	s.from.Close()
	if s.out != nil {
		s.out.close()
	}
}

// eachFile lists the files of lines.
func (t *text) eachFile(add func(listed)) error {
	counts := map[int]int64{}
	err := t.ledger.each(func(r record) error {
		if r.kind == recordItem && t.index.current(r.entry) {
			counts[r.entry.unit]++
		}
		return nil
	})
	now := stamp(time.Now())
	for _, u := range t.units {
		if counts[u.number] > 0 || !t.perUnit {
			add(listed{Path: t.file(u), Collection: u.ID, Items: counts[u.number], Bytes: u.Lines.Size, Created: now})
		}
	}
	return err
}

// Abandon implements stream.Sink.
func (t *text) Abandon() {
	for _, u := range t.units {
		if l, ok := u.live.(*lines); ok {
			l.close()
		}
	}
	t.abandon()
}
