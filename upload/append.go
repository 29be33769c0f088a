package upload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// Checksum is what the bytes of one request have to give.
type Checksum struct {
	hash.Hash
	Want []byte
}

// Append stores more bytes of an upload, from an offset that has to be the upload's own. Each chunk is durable before the
// offset moves; what has come of a body that breaks off is stored too, unless it has a checksum: then it is stored as a whole or
// not at all. The end of the file makes it the lesson's media. interrupt ends a read of body, for a client that comes again.
//
// CodeNotFound; CodeConflict for another offset, an upload that has finished, or another writer; CodeLimit for more bytes than
// were announced.
func (s *Store) Append(ctx context.Context, id string, offset int64, body io.Reader, sum *Checksum, interrupt func()) (*Upload, error) {
	leave, err := s.enter(ctx, id, interrupt)
	if err != nil {
		return nil, err
	}
	defer leave()
	h, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	free, err := s.writes.take(resource.Ref(actorOf(ctx)))
	if err != nil {
		return nil, err
	}
	defer free()
	if h.Offset != offset {
		return nil, refuse(http.StatusConflict, stepwell.CodeConflict, "ask for the offset (HEAD) and continue there", "the upload is at offset "+strconv.FormatInt(h.Offset, 10))
	}
	if h.Done {
		return h.shown(), nil
	}
	err = s.append(ctx, h, body, sum)
	return h.shown(), err
}

// append stores what body brings.
func (s *Store) append(ctx context.Context, h *held, body io.Reader, sum *Checksum) error {
	w := &writer{s: s, h: h, sum: sum, hash: sha256.New(), before: h.record, chunk: takeBuffer()}
	defer giveBuffer(w.chunk)
	if err := w.begin(ctx); err != nil {
		return err
	}
	for {
		err := w.fill(body)
		whole := err == nil || err == io.EOF
		if whole && h.Offset+w.fresh == h.Bytes {
			if err := w.nothingMore(body); err != nil {
				return err
			}
			return w.finish(ctx)
		}
		if !whole {
			if sum == nil && w.fresh > 0 { // the client may be gone: what has come is stored all the same
				within, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
				defer cancel()
				return errors.Join(err, w.store(within, true))
			}
			return err
		}
		if err := w.store(ctx, err == io.EOF); err != nil || w.ended {
			return err
		}
	}
}

// writer stores the bytes of one request.
type writer struct {
	s      *Store
	h      *held
	sum    *Checksum
	hash   hash.Hash
	before record // what holds again when the checksum is wrong
	chunk  *bytes.Buffer
	fresh  int64 // bytes of the chunk that are not stored
	ended  bool
}

// begin takes up the state of the hash, and the last chunk if it is not full.
func (w *writer) begin(ctx context.Context) error {
	if len(w.h.Hash) > 0 {
		if err := w.hash.(encoding.BinaryUnmarshaler).UnmarshalBinary(w.h.Hash); err != nil {
			return err
		}
	}
	if w.h.Offset%ChunkBytes == 0 {
		return nil
	}
	refs, err := w.h.refs()
	if err != nil {
		return err
	}
	return loadInto(ctx, w.s.o.Blobs, refs[len(refs)-1], w.chunk)
}

// fill reads until the chunk or the file is full: io.EOF when the body has ended before.
func (w *writer) fill(body io.Reader) error {
	want := min(ChunkBytes-int64(w.chunk.Len()), w.h.Bytes-w.h.Offset-w.fresh)
	from := w.chunk.Len()
	n, err := io.CopyN(w.chunk, body, want)
	w.fresh += n
	came := w.chunk.Bytes()[from:]
	w.hash.Write(came)
	if w.sum != nil {
		w.sum.Write(came)
	}
	return err
}

// nothingMore refuses a body that goes on behind the end of the file.
func (w *writer) nothingMore(body io.Reader) error {
	var one [1]byte
	for range 100 {
		n, err := body.Read(one[:])
		switch {
		case n > 0:
			return refuse(http.StatusRequestEntityTooLarge, stepwell.CodeLimit, "begin another upload", "more bytes came than the "+strconv.FormatInt(w.h.Bytes, 10)+" that were announced")
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
	return io.ErrNoProgress
}

// keep makes the chunk durable and counts it in.
func (w *writer) keep(ctx context.Context) error {
	if w.fresh == 0 {
		return nil
	}
	ref, err := w.s.o.Blobs.Put(ctx, w.chunk.Bytes())
	if err != nil {
		return err
	}
	hash, _, err := store.ParseRef(ref)
	if err != nil {
		return err
	}
	raw, err := hex.DecodeString(hash)
	if err != nil {
		return err
	}
	h := w.h
	if h.Offset%ChunkBytes != 0 { // the chunk replaces the one that it continues
		h.Chunks = h.Chunks[:len(h.Chunks)-1]
	}
	h.Chunks = append(h.Chunks[:len(h.Chunks):len(h.Chunks)], base64.RawStdEncoding.EncodeToString(raw))
	h.Offset += w.fresh
	if w.fresh = 0; w.chunk.Len() == ChunkBytes {
		w.chunk.Reset()
	}
	return nil
}

// store keeps the chunk and moves the offset; with a checksum that is for the end of the body.
func (w *writer) store(ctx context.Context, end bool) error {
	if w.ended = end; w.fresh == 0 && w.sum == nil {
		return nil
	}
	if err := w.keep(ctx); err != nil {
		return err
	}
	if w.sum != nil && !end {
		return nil
	}
	if err := w.check(); err != nil {
		return err
	}
	if err := w.sign(); err != nil {
		return err
	}
	w.h.Expires = resource.At(w.s.o.Now().Add(w.s.o.Expire))
	return w.fenced(w.s.put(ctx, w.h))
}

// check compares the checksum of the body.
func (w *writer) check() error {
	if w.sum == nil || bytes.Equal(w.sum.Sum(nil), w.sum.Want) {
		return nil
	}
	w.h.record = w.before
	return refuse(StatusChecksum, stepwell.CodeInvalid, "send these bytes again", "the checksum does not fit what has come; nothing of it was stored")
}

// sign takes the state of the hash into the record.
func (w *writer) sign() (err error) {
	w.h.Hash, err = w.hash.(encoding.BinaryMarshaler).MarshalBinary()
	return err
}

// fenced says whose fault a conflict is.
func (w *writer) fenced(err error) error {
	if stepwell.CodeOf(err) != stepwell.CodeConflict && stepwell.CodeOf(err) != stepwell.CodeNotFound {
		return err
	}
	w.h.record = w.before
	return refuse(http.StatusConflict, stepwell.CodeConflict, "ask for the offset (HEAD) and continue there", "another request has written to the upload")
}

// finish stores the rest and makes the file the lesson's media: one transaction, before which the upload is not whole.
func (w *writer) finish(ctx context.Context) error {
	if err := w.keep(ctx); err != nil {
		return err
	}
	if err := w.check(); err != nil {
		return err
	}
	h, s := w.h, w.s
	chunks, err := h.refs()
	if err != nil {
		return err
	}
	m := manifest{Bytes: h.Bytes, SHA256: hex.EncodeToString(w.hash.Sum(nil)), Chunks: chunks}
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	ref, err := s.o.Blobs.Put(ctx, raw)
	if err != nil {
		return err
	}
	h.Done, h.Hash, h.Chunks = true, nil, nil
	o := h.object
	if o.Body, err = json.Marshal(h.record); err != nil {
		return err
	}
	o.Blobs = append(chunks, ref)
	file := project.File{Name: h.Name, Type: h.Type, Bytes: h.Bytes, SHA256: m.SHA256, At: resource.At(s.o.Now().Truncate(time.Millisecond))}
	_, err = s.o.Lessons.SetMedia(ctx, h.lesson(), &project.Media{File: file, Ref: ref, Upload: h.id()}, o)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound && w.gone(ctx) {
		return err
	}
	return w.fenced(err)
}

// gone reports whether the lesson has been deleted.
func (w *writer) gone(ctx context.Context) bool {
	_, err := w.s.o.Lessons.Get(ctx, w.h.lesson())
	return stepwell.CodeOf(err) == stepwell.CodeNotFound
}

// appendWhole stores the only body of an upload, whose end is that of the file.
func (s *Store) appendWhole(ctx context.Context, u *Upload, from io.Reader) error {
	leave, err := s.enter(ctx, u.ID, nil)
	if err != nil {
		return err
	}
	defer leave()
	free, err := s.writes.take(u.By)
	if err != nil {
		return err
	}
	defer free()
	h, err := s.find(ctx, u.ID)
	if err != nil {
		return err
	}
	w := &writer{s: s, h: h, hash: sha256.New(), before: h.record, chunk: takeBuffer()}
	defer giveBuffer(w.chunk)
	for {
		err := w.fill(from)
		full := err == nil && h.Offset+w.fresh == h.Bytes
		if full { // as large as it may be
			if err := w.nothingMore(from); stepwell.CodeOf(err) == stepwell.CodeLimit {
				return s.tooLarge()
			} else if err != nil {
				return err
			}
		}
		if full || err == io.EOF {
			h.Bytes = h.Offset + w.fresh
			return w.finish(ctx)
		}
		if err != nil {
			return err
		}
		if err := w.store(ctx, false); err != nil {
			return err
		}
	}
}
