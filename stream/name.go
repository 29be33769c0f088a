package stream

import (
	"encoding/hex"
	"strings"

	"github.com/zeebo/xxh3"
)

const maxName = 100 // bytes of a file name made of a name of the user's

// fileName makes a name of the user's safe as a name of a file: letters, digits, "_", "-" and inner dots
// stay, all other bytes are percent-encoded, and a long one is cut and gets a hash. Different names give
// different file names.
func fileName(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-' && len(name) > 1, c == '.' && i > 0:
			b.WriteByte(c)
		default:
			const digits = "0123456789ABCDEF"
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	safe := b.String()
	if len(safe) > maxName {
		hash := xxh3.HashString128(name).Bytes()
		safe = safe[:maxName-33] + "~" + hex.EncodeToString(hash[:])
	}
	return safe
}

// entryName is the folder of a matrix entry: "-" for none. It is never that of runs.
func entryName(entry string) string {
	switch entry {
	case "":
		return "-"
	case runsDir:
		return "%72uns"
	}
	return fileName(entry)
}
