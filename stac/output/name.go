package output

import (
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
	"golang.org/x/text/unicode/norm"
)

// maxName is how long a name may get, in bytes, without its suffix. File systems take 255.
const maxName = 180

// reserved are names that mean something else: to Windows, and in our own layouts.
var reserved = map[string]bool{
	"con": true, "prn": true, "aux": true, "nul": true, "collection": true, "collections": true, "catalog": true, "manifest": true, "items": true,
	"com0": true, "com1": true, "com2": true, "com3": true, "com4": true, "com5": true, "com6": true, "com7": true, "com8": true, "com9": true,
	"lpt0": true, "lpt1": true, "lpt2": true, "lpt3": true, "lpt4": true, "lpt5": true, "lpt6": true, "lpt7": true, "lpt8": true, "lpt9": true,
}

// fileName turns an id into a file name that every system and object store accepts: unsafe characters are
// percent-encoded, and an overlong id is truncated and ends in a hash. Two ids never get the same name, and no name
// leaves its directory. The index separates names that differ in case only.
func fileName(id string) string {
	var b strings.Builder
	for i := 0; i < len(id); {
		r, n := utf8.DecodeRuneInString(id[i:])
		if plain(r, i, i+n == len(id)) && !(r == utf8.RuneError && n == 1) {
			b.WriteString(id[i : i+n])
		} else {
			for _, c := range []byte(id[i : i+n]) {
				escape(&b, c)
			}
		}
		i += n
	}
	name := b.String()
	if stem, _, _ := strings.Cut(fold(name), "."); name == "" || reserved[stem] {
		b.Reset()
		if name == "" {
			return "%" // nothing else becomes this
		}
		escape(&b, name[0])
		name = b.String() + name[1:]
	}
	if len(name) > maxName {
		return cut(name, maxName-33) + "~" + hash128(id)
	}
	return name
}

// plain reports whether a character stays as it is. ~ does not: it marks hashes.
func plain(r rune, at int, last bool) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
		return true
	case r == '.':
		return at > 0 && !last
	case r == '-':
		return at > 0
	case r < utf8.RuneSelf:
		return strings.ContainsRune("=@,+()", r)
	}
	return unicode.IsPrint(r)
}

func escape(b *strings.Builder, c byte) {
	const digits = "0123456789ABCDEF"
	b.Write([]byte{'%', digits[c>>4], digits[c&15]})
}

// cut shortens a name without leaving half a character or half an escape behind.
func cut(name string, n int) string {
	for n > 0 && !utf8.RuneStart(name[n]) {
		n--
	}
	name = name[:n]
	if i := strings.LastIndexByte(name, '%'); i >= 0 && i > len(name)-3 {
		name = name[:i]
	}
	return name
}

// twin is the name of an id whose plain name another id has already, but for case.
func twin(id string) string {
	name := fileName(id)
	if strings.Contains(name, "~") {
		return name // its hash is of the exact id already
	}
	if len(name) > maxName-33 {
		name = cut(name, maxName-33)
	}
	return name + "~" + hash128(id)
}

func hash128(text string) string {
	sum := xxh3.HashString128(text).Bytes()
	return hex.EncodeToString(sum[:])
}

// fold normalises case and composition, as some file systems do.
func fold(name string) string {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return strings.ToLower(norm.NFC.String(name))
		}
	}
	return strings.ToLower(name)
}
