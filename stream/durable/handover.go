package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// Handover carries the files of a stream, its checkpoint, spools and journals, to the worker that goes on with it. The stream
// works on local files; each Save stores what has changed since the one before, as a whole: a worker that takes over gets
// the files as they were at one Save, as a crash there would have left them.
//
// Owners are numbered without gaps, and each creates its number (Shared.Create), which stays: of several at once one has it.
// A Save stores the version of its owner, and then looks for the next number. It was there: ErrFenced, whether the next owner
// goes on from this version or from the one before. It was not: every later owner goes on from this version or a later one.
// Clocks and leases play no part. Not for several goroutines.
type Handover struct {
	place  Shared
	name   string
	base   string
	parts  []string
	term   term
	files  map[string]parts    // of the last version, by path behind the base, with slashes
	known  map[string]*carried // those that are here
	packs  int
	put    []string // packs since the last version
	lost   bool     // more than maxCarried files
	former int64    // number of the owner whose version was taken over, 0: none
}

// Owner is the attempt that takes over.
type Owner struct {
	Execution string
	Epoch     uint32 // of the attempt; 0: not known
}

// ErrFenced is returned when another worker goes on with the stream: this one must publish nothing.
var ErrFenced = &stepwell.Error{Code: stepwell.CodeConflict, Message: "another worker has taken over this stream",
	Hint: "nothing is lost: what this one has not published, the other one does"}

const (
	maxPiece   = 8 << 20 // bytes of a piece and of a pack
	maxCarried = 10_000  // files; a stream with more begins anew on another worker
	edge       = 4 << 10 // bytes at both ends of a file by which it is recognised
	takeTries  = 100
)

// term is an owner.
type term struct {
	Number    int64  `json:"number"`
	Token     string `json:"token"`
	Execution string `json:"execution,omitempty"`
	Epoch     uint32 `json:"epoch,omitempty"`
}

// version is all files at one Save.
type version struct {
	Files map[string]parts `json:"files"`
}

// parts are the pieces of a file, in order.
type parts []piece

// piece is a part of a file in a pack.
type piece struct {
	Pack string `json:"pack"`
	At   int64  `json:"at"` // in the pack
	Size int64  `json:"size"`
}

func (p parts) size() (n int64) {
	for _, one := range p {
		n += one.Size
	}
	return n
}

// TakeOver makes the files base+part (files or directories) those of the newest Save under a name, and this process the only
// one that can Save. Nothing saved yet: the files stay as they are. ErrFenced: a later attempt of the execution has the
// stream already.
func TakeOver(ctx context.Context, place Shared, name, base string, o Owner, of ...string) (*Handover, error) {
	h := &Handover{place: place, name: name, base: base, parts: of, known: map[string]*carried{}}
	return h, h.takeOver(ctx, o)
}

func (h *Handover) takeOver(ctx context.Context, o Owner) error {
	before, err := h.place.List(ctx, h.name+"/packs/")
	if err != nil {
		return err
	}
	if err := h.fence(ctx, o); err != nil {
		return err
	}
	if h.files, h.former, err = newest(ctx, h.place, h.name, h.term.Number-1); err != nil {
		return err
	}
	if h.former == 0 {
		return h.Save(ctx)
	}
	if err := h.store(ctx, h.files); err != nil { // before anything that only former versions need is removed
		return err
	}
	used := packsOf(h.files)
	for _, s := range before { // of owners before; a later one's are not among them
		if !used[s.Name] {
			h.discard(ctx, s.Name)
		}
	}
	for ; h.former > 0; h.former-- {
		h.discard(ctx, h.at("versions", h.former))
	}
	err = h.restore(ctx)
	if errors.Is(err, fs.ErrNotExist) { // the next owner does not need all of them any more
		err = errors.Join(h.fenced(ctx), err)
	}
	return err
}

// discard removes what nobody needs. What stays is removed by RemoveAll, when the stream is forgotten.
func (h *Handover) discard(ctx context.Context, name string) { _ = h.place.Remove(ctx, name) }

func (h *Handover) at(kind string, number int64) string { return numbered(h.name, kind, number) }

func numbered(name, kind string, number int64) string {
	return fmt.Sprintf("%s/%s/%012d", name, kind, number)
}

// fence makes this process the next owner.
func (h *Handover) fence(ctx context.Context, o Owner) error {
	list, err := h.place.List(ctx, h.name+"/owners/")
	if err != nil {
		return err
	}
	h.term = term{Number: int64(len(list)), Token: NewToken(), Execution: o.Execution, Epoch: o.Epoch} // none is ever removed
	for range takeTries {
		if h.term.Number > 0 {
			last, err := readJSON[term](ctx, h.place, h.at("owners", h.term.Number))
			if err != nil {
				return err
			}
			if last.Token == h.term.Token { // the answer was lost
				return nil
			}
			if last.Execution == o.Execution && last.Epoch > o.Epoch && o.Epoch > 0 {
				return ErrFenced
			}
		}
		h.term.Number++
		body, err := json.Marshal(h.term)
		if err == nil {
			err = h.place.Create(ctx, h.at("owners", h.term.Number), body)
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: "its owner changes all the time", Hint: "too many workers run it"}
}

// fenced is ErrFenced when there is a next owner.
func (h *Handover) fenced(ctx context.Context) error {
	_, err := h.place.Get(ctx, h.at("owners", h.term.Number+1))
	if err == nil {
		return ErrFenced
	}
	return unlessGone(err)
}

// newest are the files of the last version of the owners up to a number, and whose it is; 0: there is none.
func newest(ctx context.Context, place Shared, name string, upTo int64) (map[string]parts, int64, error) {
	for n := upTo; n > 0; n-- {
		v, err := readJSON[version](ctx, place, numbered(name, "versions", n))
		if !errors.Is(err, fs.ErrNotExist) {
			return v.Files, n, err
		}
	}
	return nil, 0, nil
}

func readJSON[T any](ctx context.Context, place Shared, name string) (v T, err error) {
	body, err := place.Get(ctx, name)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// store stores a version. ErrFenced: this process is no longer the owner.
func (h *Handover) store(ctx context.Context, files map[string]parts) error {
	body, err := json.Marshal(version{files})
	if err == nil {
		err = h.place.Put(ctx, h.at("versions", h.term.Number), body)
	}
	if err != nil {
		return err
	}
	return h.fenced(ctx)
}

func packsOf(files map[string]parts) map[string]bool {
	used := map[string]bool{}
	for _, f := range files {
		for _, p := range f {
			used[p.Pack] = true
		}
	}
	return used
}

// Save stores the files as they are, durably; they may grow meanwhile. ErrFenced: this process is no longer the owner. After
// another error the version before is still good.
func (h *Handover) Save(ctx context.Context) error {
	for range 10 {
		next, err := h.scan()
		if err == nil {
			err = h.upload(ctx, next)
		}
		if errors.Is(err, errMoved) {
			continue
		}
		if err != nil {
			return err
		}
		return h.commit(ctx, next)
	}
	return errors.New("the files of the stream change all the time")
}

// errMoved is a file that was removed, or cut, while it was read.
var errMoved = errors.New("a file has changed while it was read")

// commit stores the next version, and removes what only the one before needed.
func (h *Handover) commit(ctx context.Context, next map[string]*carried) error {
	files := make(map[string]parts, len(next))
	if h.lost = len(next) > maxCarried; !h.lost {
		for rel, f := range next {
			files[rel] = f.parts
		}
	}
	if err := h.store(ctx, files); err != nil {
		return err
	}
	used := packsOf(files)
	for _, name := range append(sortedKeys(packsOf(h.files)), h.put...) {
		if !used[name] {
			h.discard(ctx, name)
		}
	}
	h.files, h.known, h.put = files, next, nil
	return nil
}

// Whole reports whether the last Save had room for all files. Else a worker that takes over begins anew.
func (h *Handover) Whole() bool { return !h.lost }

// upload stores the pieces that have no pack yet, some together.
func (h *Handover) upload(ctx context.Context, next map[string]*carried) error {
	if len(next) > maxCarried {
		return nil
	}
	var pack []byte
	var in []*piece
	flush := func() error {
		if len(in) == 0 {
			return nil
		}
		h.packs++
		name := fmt.Sprintf("%s/packs/%d-%s-%d", h.name, h.term.Epoch, h.term.Token, h.packs)
		if err := h.place.Put(ctx, name, pack); err != nil {
			return err
		}
		for _, p := range in {
			p.Pack = name
		}
		h.put = append(h.put, name)
		pack, in = pack[:0], nil
		return nil
	}
	for _, rel := range sortedKeys(next) {
		f := next[rel]
		at := int64(0)
		for i := range f.parts {
			p := &f.parts[i]
			if p.Pack == "" {
				if len(in) > 0 && int64(len(pack))+p.Size > maxPiece {
					if err := flush(); err != nil {
						return err
					}
				}
				p.At = int64(len(pack))
				var err error
				if pack, err = appendFrom(pack, f.path, at, p.Size); err != nil {
					return err
				}
				in = append(in, p)
			}
			at += p.Size
		}
	}
	return flush()
}

func appendFrom(dst []byte, from string, at, size int64) ([]byte, error) {
	f, err := os.Open(from)
	if err != nil {
		return dst, moved(err)
	}
	defer f.Close()
	n := len(dst)
	dst = append(dst, make([]byte, size)...)
	_, err = f.ReadAt(dst[n:], at)
	if errors.Is(err, io.EOF) {
		err = errMoved
	}
	return dst, err
}

func moved(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errMoved
	}
	return err
}

// Fetch makes the files base+part those of the newest Save under a name, for reading: the stream stays its owner's. Nothing
// saved: the files stay as they are.
func Fetch(ctx context.Context, place Shared, name, base string) error {
	h := &Handover{place: place, name: name, base: base, known: map[string]*carried{}}
	for range takeTries {
		owners, err := place.List(ctx, name+"/owners/")
		if err != nil {
			return err
		}
		if h.files, _, err = newest(ctx, place, name, int64(len(owners))); err != nil {
			return err
		}
		if err = h.restore(ctx); !errors.Is(err, fs.ErrNotExist) { // else there is a later one, which needs other packs
			return err
		}
	}
	return errors.New("it is saved faster than it can be read")
}

// HandoversIn lists the names below a prefix under which something was saved, with the time of the last Save.
func HandoversIn(ctx context.Context, place Shared, prefix string) (map[string]time.Time, error) {
	list, err := place.List(ctx, prefix)
	found := map[string]time.Time{}
	for _, s := range list {
		if name, _, ok := strings.Cut(s.Name, "/versions/"); ok && s.Modified.After(found[name]) {
			found[name] = s.Modified
		}
	}
	return found, err
}

// RemoveAll removes everything below a prefix.
func RemoveAll(ctx context.Context, place Shared, prefix string) error {
	list, err := place.List(ctx, prefix)
	for _, s := range list {
		err = errors.Join(err, place.Remove(ctx, s.Name))
	}
	return err
}

// restore writes the files of the version, in place of those that are there.
func (h *Handover) restore(ctx context.Context) error {
	for _, part := range h.parts {
		if err := os.RemoveAll(h.base + part); err != nil {
			return err
		}
	}
	packs := packCache{place: h.place}
	for _, rel := range sortedKeys(h.files) {
		if rel == "" || rel != path.Clean(rel) || strings.Contains("/"+rel+"/", "/../") {
			return fmt.Errorf("the file %q", rel)
		}
		if err := h.restoreOne(ctx, rel, &packs); err != nil {
			return err
		}
	}
	return nil
}

func (h *Handover) restoreOne(ctx context.Context, rel string, packs *packCache) error {
	to := h.base + filepath.FromSlash(rel)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	all := h.files[rel]
	for _, p := range all {
		body, err := packs.get(ctx, p.Pack)
		if err != nil {
			return err
		}
		if p.At < 0 || p.Size < 0 || p.At+p.Size > int64(len(body)) {
			return &stepwell.Error{Code: stepwell.CodeInternal, Message: p.Pack + " is damaged", Hint: "remove " + h.name + " from the place that workers share: the stream starts over"}
		}
		if _, err := f.Write(body[p.At : p.At+p.Size]); err != nil {
			return err
		}
	}
	c, err := carry(to, all)
	if err != nil {
		return err
	}
	if c.sum, err = sumOf(to, c.info.Size()); err != nil {
		return err
	}
	c.unsure = true
	h.known[rel] = c
	return f.Close()
}

// packCache remembers the last pack: the pieces of a file lie one behind the other, mostly.
type packCache struct {
	place Shared
	name  string
	body  []byte
}

func (c *packCache) get(ctx context.Context, name string) (_ []byte, err error) {
	if c.name != name {
		if c.body, err = c.place.Get(ctx, name); err != nil {
			c.name = ""
			return nil, err
		}
		c.name = name
	}
	return c.body, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
