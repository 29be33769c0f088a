package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream/durable"
)

// maxZstdWindow limits the memory that a frame can make a reader use.
const maxZstdWindow = 128 << 20

// compressionOf returns a compression by a file's name.
func CompressionOf(name string) string {
	switch strings.ToLower(path.Ext(withoutQuery(name))) {
	case ".gz":
		return durable.Gzip
	case ".zst", ".zstd":
		return durable.Zstd
	}
	return ""
}

func withoutQuery(name string) string {
	if isWeb(name) {
		name, _, _ = strings.Cut(name, "?")
	}
	return name
}

// unpack decompresses a text by its first bytes, whatever its name. packed reports whether it was compressed.
func unpack(in io.ReadCloser, name string) (text io.ReadCloser, packed bool, err error) {
	head := bufio.NewReaderSize(in, 64<<10)
	magic, err := head.Peek(4)
	if err != nil && err != io.EOF { //nolint:errorlint // bare
		return nil, false, err
	}
	switch {
	case len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		z, err := gzip.NewReader(head)
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil, true, errCutOff(0)
			}
			return nil, true, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the compressed data is damaged", Err: err}
		}
		return &closing{unpacking{z}, z.Close}, true, nil
	case string(magic) == "\x28\xb5\x2f\xfd":
		z, err := zstd.NewReader(head, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, true, err
		}
		return &closing{unpacking{z}, func() error { z.Close(); return nil }}, true, nil
	case CompressionOf(name) != "" && len(magic) < 4: // a name alone proves nothing: servers unpack, too
		return nil, true, errCutOff(0)
	}
	return io.NopCloser(head), false, nil
}

// errCutOff is a file that ends too early.
func errCutOff(at int64) error {
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("the file ends too early, behind byte %d of its text: it is cut off", at), Err: io.ErrUnexpectedEOF}
}

// unpacking gives the errors of a decompressor their code.
type unpacking struct{ in io.Reader }

// Read implements io.Reader.
func (u unpacking) Read(p []byte) (int, error) {
	n, err := u.in.Read(p)
	if err != nil && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) { //nolint:errorlint // bare
		err = &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the compressed data is damaged", Err: err}
	}
	return n, err
}
