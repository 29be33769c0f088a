package api

import (
	"encoding/base64"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
)

// A cursor names the list it belongs to and the last entry of the page before. It is opaque to clients, and stays valid
// when entries are added or removed.

const maxCursor = 600

// cursorTo makes a cursor; "" for a page that is the last.
func cursorTo(list, last string) string {
	if last == "" {
		return ""
	}
	body := list + "\n" + last
	sum := crc32.ChecksumIEEE([]byte(body))
	return base64.RawURLEncoding.EncodeToString(append([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}, body...))
}

// cursorOf reads the cursor of a list, "" when there is none. A cursor of another list, truncated or forged, is
// CodeInvalid.
func cursorOf(list, cursor string) (last string, err error) {
	if cursor == "" {
		return "", nil
	}
	bad := stepwell.Invalid("use next_cursor of the previous page unchanged", "the cursor is not one of this list")
	if len(cursor) > maxCursor {
		return "", bad
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) < 5 {
		return "", bad
	}
	body := string(raw[4:])
	sum := crc32.ChecksumIEEE(raw[4:])
	of, last, ok := strings.Cut(body, "\n")
	if string(raw[:4]) != string([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}) || !ok || of != list || last == "" {
		return "", bad
	}
	return last, nil
}

// numberCursor reads a cursor whose last entry is a number; 0 when there is none.
func numberCursor(list, cursor string) (int64, error) {
	last, err := cursorOf(list, cursor)
	if err != nil || last == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(last, 10, 64)
	if err != nil || n < 0 {
		return 0, stepwell.Invalid("use next_cursor of the previous page unchanged", "the cursor is not one of this list")
	}
	return n, nil
}
