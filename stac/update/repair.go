package update

import (
	"regexp"
	"strings"

	"github.com/stepwell/stepwell/item"
)

// blankTime is a date-time of RFC 3339 but for the blank and the zone.
var blankTime = regexp.MustCompile(`^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?) ?(Z|z|UTC|[+-]\d\d:?\d\d)?$`)

// repairTimes writes the T into date-times with a blank: texts of that form in properties and assets, whose
// names tell of a date or a time or are those of STAC.
func repairTimes(v *item.Value) bool {
	changed := repairMembers(v.Get("properties"))
	for _, asset := range v.Get("assets").Members() {
		changed = repairMembers(asset) || changed
	}
	return changed
}

func repairMembers(v *item.Value) bool {
	changed := false
	for key, val := range v.Members() {
		text, ok := val.Str()
		if !ok || len(text) < 19 || text[10] != ' ' || !temporal(key) {
			continue
		}
		m := blankTime.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		zone := m[3]
		switch {
		case zone == "" || zone == "z" || zone == "UTC":
			zone = "Z"
		case len(zone) == 5:
			zone = zone[:3] + ":" + zone[3:]
		}
		val.Replace(item.OfText(m[1] + "T" + m[2] + zone))
		changed = true
	}
	return changed
}

func temporal(name string) bool {
	switch name {
	case "created", "updated", "published", "expires", "unpublished":
		return true
	}
	name = strings.ToLower(name)
	return strings.Contains(name, "date") || strings.Contains(name, "time")
}
