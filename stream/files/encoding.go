package files

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/stepwell/stepwell"
)

// encodings by name. A text in utf-8 is read as it is.
var encodings = map[string]encoding.Encoding{
	"": nil, "utf-8": nil, "utf8": nil, "utf-8-sig": nil,
	"utf-16":   unicode.UTF16(unicode.LittleEndian, unicode.UseBOM),
	"utf-16le": unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM),
	"utf-16be": unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM),
	"latin-1":  charmap.ISO8859_1, "latin1": charmap.ISO8859_1, "iso-8859-1": charmap.ISO8859_1,
	"windows-1252": charmap.Windows1252, "cp1252": charmap.Windows1252,
}

func decoding(name string) (encoding.Encoding, error) {
	e, ok := encodings[strings.ToLower(name)]
	if !ok {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("encoding %q is not known", name), Hint: "one of utf-8, utf-16, utf-16le, utf-16be, latin-1, windows-1252"}
	}
	return e, nil
}

// decode makes UTF-8 of a text; a byte order mark of UTF-16 is believed when no encoding is named.
func decode(in io.Reader, name string) (text io.Reader, recoded bool, err error) {
	e, err := decoding(name)
	if err != nil {
		return nil, false, err
	}
	if name == "" {
		head := bufio.NewReaderSize(in, 64<<10)
		in = head
		if mark, err := head.Peek(2); err == nil && (mark[0] == 0xff && mark[1] == 0xfe || mark[0] == 0xfe && mark[1] == 0xff) {
			e = encodings["utf-16"]
		}
	}
	if e == nil {
		return in, false, nil
	}
	if e == encodings["utf-16"] { // without a mark: little endian, as most write it
		return transform.NewReader(in, unicode.BOMOverride(encodings["utf-16le"].NewDecoder())), true, nil
	}
	return transform.NewReader(in, e.NewDecoder()), true, nil
}
