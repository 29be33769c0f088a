package output

import (
	"regexp"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/pattern"
	"github.com/stepwell/stepwell/stac/summary"
)

// split says into which sub-catalogs items go: one level per part of a path.
type split []splitPart

// splitPart is a pattern, or a part of a time.
type splitPart struct {
	pattern pattern.Pattern
	time    item.Path
	layout  string
}

// timePart is a level such as {properties.datetime:year}.
var timePart = regexp.MustCompile(`^\{(properties\.[^:{}]+(?::[^:{}]+)?):(year|month|day)\}$`)

var timeLayouts = map[string]string{"year": "2006", "month": "01", "day": "02"}

// parseSplit reads "{properties.datetime:year}/{properties.platform}". Errors are CodeInvalid.
func parseSplit(text string) (split, error) {
	var s split
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(strings.Trim(text, "/"), "/")
	if len(parts) > 8 {
		return nil, stepwell.Invalid("", "split has more than 8 levels: %s", text)
	}
	for _, part := range parts {
		if found := timePart.FindStringSubmatch(part); found != nil {
			path, err := item.ParsePath(found[1])
			if err != nil {
				return nil, err
			}
			s = append(s, splitPart{time: path, layout: timeLayouts[found[2]]})
			continue
		}
		p, err := pattern.Parse(part)
		if err != nil {
			return nil, err
		}
		if part == "" || p.UsesAsset() {
			return nil, stepwell.Invalid("write {properties.name}, or {properties.datetime:year}", "split: %s does not tell items apart", part)
		}
		s = append(s, splitPart{pattern: p})
	}
	return s, nil
}

// names are the directories that an item goes into. Errors are CodeInvalid: the item does not say.
func (s split) names(it *item.Value) ([]string, error) {
	var names []string
	for _, part := range s {
		name, err := part.name(it)
		if err != nil {
			return nil, err
		}
		names = append(names, dirName(name))
	}
	return names, nil
}

func (p splitPart) name(it *item.Value) (string, error) {
	if p.layout == "" {
		return p.pattern.Expand(it, "")
	}
	text, ok := it.Find(p.time).Str()
	if !ok && p.time.String() == "properties.datetime" { // null when the item covers a time span
		text, ok = it.Get("properties").Get("start_datetime").Str()
	}
	if !ok {
		return "", stepwell.Invalid("", "split: the item has no %s", p.time.String())
	}
	t, err := summary.ParseTime(text)
	if err != nil {
		return "", stepwell.Invalid("", "split: %s is not a time: %s", p.time.String(), text)
	}
	return t.Format(p.layout), nil
}

// overflow is the name of a directory for links beyond the limit of one catalog file.
var overflow = regexp.MustCompile(`^part-[0-9]+$`)

// dirName is fileName for a directory, which must not look like a file or an overflow of ours.
func dirName(value string) string {
	name := fileName(value)
	if strings.HasSuffix(strings.ToLower(name), ".json") {
		name = name[:len(name)-5] + "%2E" + name[len(name)-4:]
	}
	if overflow.MatchString(name) {
		name = "%70" + name[1:]
	}
	return name
}
