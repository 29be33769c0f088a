package parquet

import (
	"bufio"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Limits of a page. The library allocates the size in a page's header before it reads on, so that one damaged byte
// could cost gigabytes.
const (
	maxPage       = 1 << 30 // bytes when unpacked; writers make pages of about 1 MiB
	maxPageValues = 1 << 27
)

// checkPages checks the page headers of a column chunk for impossible pages; unreadable headers are left for the
// library to report.
func checkPages(in io.ReaderAt, size int64, c *format.ColumnMetaData) error {
	at := c.DataPageOffset
	if d := c.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	section := io.NewSectionReader(in, 0, size)
	buffer := bufio.NewReaderSize(nil, 512)
	var protocol thrift.CompactProtocol
	for end := min(size, at+c.TotalCompressedSize); at < end; {
		if _, err := section.Seek(at, io.SeekStart); err != nil {
			return err
		}
		buffer.Reset(section)
		var h format.PageHeader
		if err := thrift.NewDecoder(protocol.NewReader(buffer)).Decode(&h); err != nil {
			return nil
		}
		behind, err := section.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		behind -= int64(buffer.Buffered())
		values := max(h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues, h.DictionaryPageHeader.V.NumValues)
		switch {
		case h.CompressedPageSize < 0 || int64(h.CompressedPageSize) > size-behind:
			return fmt.Errorf("a page of %d bytes at byte %d of %d", h.CompressedPageSize, behind, size)
		case h.UncompressedPageSize < 0 || h.UncompressedPageSize > maxPage:
			return fmt.Errorf("a page of %d bytes, unpacked, at byte %d", h.UncompressedPageSize, behind)
		case values < 0 || values > maxPageValues:
			return fmt.Errorf("a page of %d values at byte %d", values, behind)
		}
		at = behind + int64(h.CompressedPageSize)
	}
	return nil
}
