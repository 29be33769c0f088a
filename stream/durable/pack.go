package durable

import (
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/stepwell/stepwell"
)

// The compressions.
const (
	Gzip = "gzip"
	Zstd = "zstd"
	// spoolPacking is of spools that are read once: a quick Zstd in little memory.
	spoolPacking = "spool"
)

// packer compresses blocks, each of which stands for itself: any end of a block is a good end of the file.
type packer struct {
	gz *gzip.Writer
	zs *zstd.Encoder
}

func newPacker(kind string) (*packer, error) {
	switch kind {
	case Gzip:
		return &packer{gz: gzip.NewWriter(io.Discard)}, nil
	case Zstd:
		zs, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		return &packer{zs: zs}, err
	case spoolPacking:
		zs, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(512<<10))
		return &packer{zs: zs}, err
	case "":
		return &packer{}, nil
	}
	return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "compression " + kind + " is not known"}
}

// pack appends block as a gzip member or a zstd frame to dst.
func (p *packer) pack(dst, block []byte) ([]byte, error) {
	switch {
	case p.gz != nil:
		out := appender(dst)
		p.gz.Reset(&out)
		if _, err := p.gz.Write(block); err != nil {
			return nil, err
		}
		err := p.gz.Close()
		return out, err
	case p.zs != nil:
		return p.zs.EncodeAll(block, dst), nil
	}
	return append(dst, block...), nil
}

type appender []byte

// Write implements io.Writer.
func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}
