package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/stepwell/stepwell/stream/durable"
)

// pages stores the items of a Remote source until they are durable at the ends, so that a resumed stream does not
// request them again. It is files of frames, one for each Mark: the items since the Mark before, and the cursor. A
// frame is written before Mark returns and not fsynced: it survives the death of the process; after a loss of power
// missing items are fetched again.
type pages struct {
	dir  string
	root int
	warn func(message string)

	// of the goroutine that reads the source
	at   int64 // number of the last item or failure in a frame
	meta pageFrame
	text []byte // of the items since the last Mark
	last Place
	torn bool // since the last Mark more was given than is kept
	from *pagePosition

	mu    sync.Mutex
	files []pageFile // in order; only the last one grows
	out   *os.File
	off   bool // they cannot be written
	next  int  // number of the next file
}

type pageFile struct {
	path string
	upTo int64 // number of the last item or failure in it
	size int64
}

// pagePosition is where the frames begin that a stream that goes on needs.
type pagePosition struct {
	file   int // of files
	offset int64
}

// pageFrame is the header of one frame: all of it except the texts of its items.
type pageFrame struct {
	From   int64           `json:"from"` // number of the last item or failure before
	To     int64           `json:"to"`
	Cursor json.RawMessage `json:"cursor"`
	Parts  []pagePart      `json:"parts,omitempty"`
}

// pagePart is an item or a failure.
type pagePart struct {
	Size    int            `json:"size,omitempty"`  // of an item's text
	Place   *Place         `json:"place,omitempty"` // absent: that of the item before
	Failure *failureRecord `json:"failure,omitempty"`
}

// Size limits: of one file, of all files, and of the items between two Marks. Items beyond them are fetched again after
// a crash.
const (
	pageFileSize = 8 << 20
	maxPages     = 256 << 20
	maxPage      = 32 << 20
)

// openPages opens the frames behind a watermark and returns the cursor of the last; nil: there is none.
func openPages(base string, root int, watermark int64, warn func(string)) (*pages, json.RawMessage, error) {
	p := &pages{dir: base + pagesSuffix, root: root, warn: warn, at: watermark}
	found, err := filepath.Glob(filepath.Join(durable.EscapeGlob(p.dir), fmt.Sprintf("%d-*", root)))
	if err != nil {
		return nil, nil, err
	}
	cursor, err := p.load(found, watermark)
	if err == nil && p.from == nil { // nothing that continues the watermark
		p.files, p.at = nil, watermark
		err = removeAll(found)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("kept pages: %w", err)
	}
	return p, cursor, nil
}

const pagesSuffix = ".pages"

// load reads the files in name order, as long as they are intact and contiguous, and removes the rest.
func (p *pages) load(found []string, watermark int64) (cursor json.RawMessage, err error) {
	last, whole := int64(-1), true
	for i, path := range found {
		if _, err := fmt.Sscanf(filepath.Base(path), fmt.Sprintf("%d-%%d", p.root), &p.next); err != nil {
			return nil, err
		}
		p.next++
		if !whole {
			return cursor, removeAll(found[i:])
		}
		f := pageFile{path: path}
		f.size, whole, err = eachPageFrame(path, 0, func(offset int64, frame *pageFrame, _ []byte) error {
			if last >= 0 && frame.From != last {
				return durable.ErrTorn
			}
			last = frame.To
			if p.from == nil && frame.From == watermark {
				p.from = &pagePosition{i, offset}
			}
			cursor = frame.Cursor
			return nil
		})
		if err == nil && !whole {
			err = os.Truncate(path, f.size)
		}
		if err != nil {
			return nil, err
		}
		f.upTo = max(last, 0)
		p.files = append(p.files, f)
	}
	p.at = max(last, 0)
	return cursor, nil
}

// eachPageFrame reads the frames of a file from an offset and returns the end of the intact part.
func eachPageFrame(path string, offset int64, do func(offset int64, frame *pageFrame, texts []byte) error) (size int64, whole bool, err error) {
	f, err := durable.OpenFrames(path, offset)
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	for {
		begin := f.At()
		payload, err := f.Next()
		if errors.Is(err, io.EOF) {
			return begin, true, nil
		}
		var frame pageFrame
		meta, texts, ok := durable.CutMeta(payload)
		if err == nil && (!ok || json.Unmarshal(meta, &frame) != nil) {
			err = durable.ErrTorn
		}
		if err == nil {
			err = do(begin, &frame, texts)
		}
		if _, bad := errors.AsType[*durable.Damage](err); bad || errors.Is(err, durable.ErrTorn) {
			return begin, false, nil
		}
		if err != nil {
			return 0, false, err
		}
	}
}

// replay sends the stored items to the intake, as the source did.
func (p *pages) replay(s *intake) error {
	if p == nil || p.from == nil {
		return nil
	}
	p.mu.Lock()
	files := p.files[p.from.file:]
	p.mu.Unlock()
	offset := p.from.offset
	p.from = nil
	for _, f := range files {
		_, _, err := eachPageFrame(f.path, offset, func(_ int64, frame *pageFrame, texts []byte) error {
			if err := frame.replay(s, append([]byte(nil), texts...)); err != nil {
				return err
			}
			return s.mark(frame.Cursor)
		})
		if err != nil {
			return err
		}
		offset = 0
	}
	return nil
}

func (f *pageFrame) replay(s *intake, texts []byte) error {
	var place Place
	for _, part := range f.Parts {
		if r := part.Failure; r != nil {
			failed := Failure{Step: r.Step, Item: r.Item, Collection: r.Collection, Type: r.Type, Err: errors.New(r.Message)}
			if r.Context != nil {
				failed.Context = *r.Context
			}
			if err := s.failed(failed); err != nil {
				return err
			}
			continue
		}
		if part.Place != nil {
			place = *part.Place
		}
		if part.Size > len(texts) {
			return durable.Damaged("the kept page of item %d", s.seq+1)
		}
		if err := s.give(Lazy(texts[:part.Size:part.Size], place)); err != nil {
			return err
		}
		texts = texts[part.Size:]
	}
	return nil
}

// item keeps an item that the source gives.
func (p *pages) item(it *Item) {
	if p == nil || p.torn {
		return
	}
	text := it.raw
	if it.Value != nil {
		text = it.Bytes()
	}
	if p.torn = len(p.text)+len(text) > maxPage; p.torn {
		p.text, p.meta.Parts = nil, nil
		return
	}
	part := pagePart{Size: len(text)}
	if len(p.meta.Parts) == 0 || it.Place != p.last {
		place := it.Place
		part.Place, p.last = &place, place
	}
	p.text = append(p.text, text...)
	p.meta.Parts = append(p.meta.Parts, part)
}

// failure keeps a failure of the source.
func (p *pages) failure(r *failureRecord) {
	if p != nil && !p.torn {
		p.meta.Parts = append(p.meta.Parts, pagePart{Failure: r})
	}
}

// mark writes the items since the last Mark.
func (p *pages) mark(seq int64, cursor json.RawMessage) {
	if p == nil {
		return
	}
	p.meta.From, p.meta.To, p.meta.Cursor = p.at, seq, cursor
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.torn || p.total() > maxPages { // the stored items begin here
		p.drop()
	} else if !p.off {
		if err := p.write(); err != nil {
			p.warn("pages cannot be kept, and are fetched again after a crash: " + err.Error())
			p.drop()
			p.off = true
		}
	}
	p.at, p.torn, p.last = seq, false, Place{}
	clear(p.meta.Parts)
	p.meta.Parts, p.text = p.meta.Parts[:0], p.text[:0]
}

func (p *pages) total() (size int64) {
	for _, f := range p.files {
		size += f.size
	}
	return size
}

// write appends a frame. p.mu is held.
func (p *pages) write() error {
	meta, err := json.Marshal(&p.meta)
	if err != nil {
		return err
	}
	if p.out == nil || p.files[len(p.files)-1].size > pageFileSize {
		if err := p.beginFile(); err != nil {
			return err
		}
	}
	frame := appendRawBlock(nil, meta, p.text)
	n, err := p.out.Write(frame)
	f := &p.files[len(p.files)-1]
	f.size += int64(n)
	f.upTo = p.meta.To
	return err
}

// beginFile begins the next file. p.mu is held.
func (p *pages) beginFile() (err error) {
	if err := p.release(); err != nil {
		return err
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(p.dir, fmt.Sprintf("%d-%09d", p.root, p.next))
	if p.out, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		p.out = nil
		return err
	}
	p.next++
	p.files = append(p.files, pageFile{path: path})
	return nil
}

func (p *pages) release() error {
	if p.out == nil {
		return nil
	}
	err := p.out.Close()
	p.out = nil
	return err
}

// drop forgets all that is kept. p.mu is held.
func (p *pages) drop() {
	err := p.release()
	for _, f := range p.files {
		err = errors.Join(err, os.Remove(f.path))
	}
	if p.files = nil; err != nil {
		p.warn("kept pages could not be removed: " + err.Error())
	}
}

// passed removes files of which everything is durable, and noted in the checkpoint as that.
func (p *pages) passed(watermark int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.files) > 1 && p.files[0].upTo <= watermark {
		if err := os.Remove(p.files[0].path); err != nil {
			return // it is tried again with the next watermark
		}
		p.files = p.files[1:]
	}
}

// close ends writing.
func (p *pages) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.release(); err != nil {
		p.warn("kept pages: " + err.Error())
	}
}

func removeAll(paths []string) error {
	var errs []error
	for _, path := range paths {
		errs = append(errs, os.Remove(path))
	}
	return errors.Join(errs...)
}

// keepPages opens the pages of a source's step, and gives the cursor with which its component goes on.
func (s *segment) keepPages(n *node, note cursorNote) (json.RawMessage, error) {
	r := n.root
	if !s.keyed || r.handOff || r.whole || len(n.inputs) > 0 {
		return note.Cursor, nil
	}
	var err error
	var cursor json.RawMessage
	n.pages, cursor, err = openPages(s.base, r.index, note.Seq, func(message string) { s.warn(n, message, slog.String("step", n.step.ID)) })
	if err != nil || cursor == nil || n.pages.from == nil {
		return note.Cursor, err
	}
	return cursor, nil
}

// dropPages removes the stored pages of a stream that begins anew or has ended.
func (s *segment) dropPages() error { return os.RemoveAll(s.base + pagesSuffix) }
