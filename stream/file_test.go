package stream_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

// lines is a source of the lines of a file, with a mark behind every so many.
func lines(name, path string, every int) stream.Module {
	return stream.Module{
		Spec: spec.Spec{Name: name, Summary: "Reads lines.", Stream: &spec.Stream{Role: spec.Source}},
		Open: func(_ context.Context, env *stream.Env, _ map[string]any) (any, error) {
			s := &lineSource{path: path, every: every}
			_, err := stream.State(env.Cursor, &s.from)
			return s, err
		},
	}
}

type lineSource struct {
	path  string
	every int
	from  struct{ Offset, Line int64 }
}

func (s *lineSource) Read(_ context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	at := s.from
	if _, err := f.Seek(at.Offset, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReader(f)
	for {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at.Line++
		at.Offset += int64(len(text))
		if bytes.HasPrefix(text, []byte("#")) {
			err = out.Fail(stream.Failure{Err: errors.New("a comment"), Context: stream.Context{Line: at.Line}})
		} else {
			err = out.Item(stream.Lazy(text[:len(text)-1], stream.Place{File: "in", Line: at.Line}))
		}
		if err == nil && at.Line%int64(s.every) == 0 {
			err = out.Mark(at)
		}
		if err != nil {
			return err
		}
	}
}

// lineFile is a sink that appends lines to a file, in chunks of so many: what does not fill one becomes
// durable at the end. It refuses items whose number is divisible by refuse.
type lineFile struct {
	env    *stream.Env
	file   *os.File
	chunk  int
	refuse int
	told   func()

	size   int64
	taken  int64 // durable items
	buffer []*stream.Item
}

func linesTo(name, path string, chunk, refuse int, told func()) stream.Module {
	return stream.Module{
		Spec: spec.Spec{Name: name, Summary: "Writes lines.", Stream: &spec.Stream{Role: spec.Sink}},
		Open: func(_ context.Context, env *stream.Env, _ map[string]any) (any, error) {
			s := &lineFile{env: env, chunk: chunk, refuse: refuse, told: told}
			if _, err := stream.State(env.State, &s.size); err != nil {
				return nil, err
			}
			f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
			if err != nil {
				return nil, err
			}
			info, err := f.Stat()
			if err == nil && info.Size() < s.size {
				err = fmt.Errorf("%d bytes: %w", info.Size(), stream.ErrStateGone)
			}
			if err == nil {
				err = f.Truncate(s.size)
			}
			if err == nil {
				_, err = f.Seek(s.size, io.SeekStart)
			}
			if err != nil {
				return nil, errors.Join(err, f.Close())
			}
			s.file = f
			return s, nil
		},
	}
}

func (s *lineFile) Write(_ context.Context, batch []*stream.Item) error {
	s.buffer = append(s.buffer, batch...)
	return nil
}

func (s *lineFile) put(n int) error {
	var out []byte
	for _, it := range s.buffer[:n] {
		if s.refuse > 0 && number(it)%s.refuse == 0 {
			if err := s.env.Refuse(it, errors.New("not this one")); err != nil {
				return err
			}
			continue
		}
		out = append(it.AppendTo(out), '\n')
	}
	s.buffer = s.buffer[n:]
	s.taken += int64(n)
	s.size += int64(len(out))
	_, err := s.file.Write(out)
	return errors.Join(err, s.file.Sync())
}

func (s *lineFile) Commit(context.Context) (int64, any, error) {
	err := s.put(len(s.buffer) / s.chunk * s.chunk)
	if s.told != nil {
		s.told()
	}
	return s.taken, s.size, err
}

func (s *lineFile) Close(context.Context) (state, outputs any, err error) {
	err = s.put(len(s.buffer))
	return s.size, map[string]any{"size": s.size}, errors.Join(err, s.file.Close())
}

func (s *lineFile) Abandon() { s.file.Close() }
