package parquet

import (
	"runtime"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
)

// codec is zstd with a window of the size of a page. The library's own takes 8 MiB for each of several
// encoders.
type codec struct {
	compress.Codec // for decoding
	encoder        *zstd.Encoder
}

func newCodec() (*codec, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithWindowSize(256<<10), zstd.WithZeroFrames(true),
		zstd.WithEncoderCRC(false))
	return &codec{&parquet.Zstd, e}, err
}

func (c *codec) Encode(dst, src []byte) ([]byte, error) {
	return c.encoder.EncodeAll(src, dst[:0]), nil
}
