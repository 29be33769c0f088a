package item

import (
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
)

// Path names a place in a value, or several: "properties.eo:cloud_cover", `assets."ANG.txt".href`,
// "assets.*.roles", "providers[0].name" (stac-manager, Update and Transform).
type Path []Step

// Step is one step of a Path.
type Step struct {
	Key   string // of an object
	Index int    // of a list, when IsIndex
	Any   bool   // every member or element
	// IsIndex distinguishes a list's index from a key.
	IsIndex bool
}

// MaxPath bounds the steps of a path.
const MaxPath = 64

func badPath(text, what string) error {
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "path " + strconv.Quote(text) + ": " + what,
		Hint: `write properties.name, assets."key.with.dots".href, assets.*.href or providers[0].name`}
}

// ParsePath reads a path: names with dots between them, * for every member or element, [0] for an element
// and [*] for every one. A name with dots, brackets or quotes in it, or "*" or "" itself, stands in double quotes,
// inside which a backslash goes before a quote or a backslash. Errors are CodeInvalid.
func ParsePath(text string) (Path, error) {
	var p Path
	rest, err := text, error(nil)
	for {
		if len(p) > 0 || !strings.HasPrefix(rest, "[") {
			var step Step
			if step, rest, err = nextName(text, rest); err != nil {
				return nil, err
			}
			p = append(p, step)
		}
		for strings.HasPrefix(rest, "[") {
			var step Step
			if step, rest, err = nextIndex(text, rest); err != nil {
				return nil, err
			}
			p = append(p, step)
		}
		switch {
		case len(p) > MaxPath:
			return nil, badPath(text, "has more than "+strconv.Itoa(MaxPath)+" steps")
		case rest == "":
			return p, nil
		case rest[0] != '.':
			return nil, badPath(text, "a dot is missing before "+strconv.Quote(rest))
		}
		rest = rest[1:]
	}
}

// nextName takes a name or a * off the front.
func nextName(text, rest string) (Step, string, error) {
	if strings.HasPrefix(rest, `"`) {
		return nextQuoted(text, rest)
	}
	end := strings.IndexAny(rest, ".[")
	if end < 0 {
		end = len(rest)
	}
	switch key := rest[:end]; key {
	case "":
		return Step{}, "", badPath(text, "a step is empty")
	case "*":
		return Step{Any: true}, rest[end:], nil
	default:
		return Step{Key: key}, rest[end:], nil
	}
}

func nextQuoted(text, rest string) (Step, string, error) {
	var key strings.Builder
	for i := 1; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"':
			return Step{Key: key.String()}, rest[i+1:], nil
		case c != '\\':
			key.WriteByte(c)
		case i+1 < len(rest) && (rest[i+1] == '"' || rest[i+1] == '\\'):
			i++
			key.WriteByte(rest[i])
		default:
			return Step{}, "", badPath(text, `a backslash stands before neither " nor \`)
		}
	}
	return Step{}, "", badPath(text, "a quote is not closed")
}

func nextIndex(text, rest string) (Step, string, error) {
	end := strings.IndexByte(rest, ']')
	if end < 0 {
		return Step{}, "", badPath(text, "[ without ]")
	}
	inside := rest[1:end]
	if inside == "*" {
		return Step{Any: true}, rest[end+1:], nil
	}
	n, err := strconv.ParseUint(inside, 10, 31)
	if err != nil {
		return Step{}, "", badPath(text, "["+inside+"] is not an index")
	}
	return Step{Index: int(n), IsIndex: true}, rest[end+1:], nil
}

var inQuotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// String writes the path as ParsePath reads it.
func (p Path) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.IsIndex:
			b.WriteString("[" + strconv.Itoa(s.Index) + "]")
			continue
		case i > 0:
			b.WriteByte('.')
		}
		switch {
		case s.Any:
			b.WriteByte('*')
		case s.Key == "" || s.Key == "*" || strings.ContainsAny(s.Key, `.["`):
			b.WriteString(`"` + inQuotes.Replace(s.Key) + `"`)
		default:
			b.WriteString(s.Key)
		}
	}
	return b.String()
}
