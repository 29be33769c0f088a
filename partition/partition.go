// Package partition is the setting by which a pipeline says which of its parameters name the part of the data that an execution makes:
// a month, a collection (specification: stac-manager, recurring ingests; docs/partitions.md). It knows which parts there should be, and
// how they are called. Pure.
package partition

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// Limits of partitions: how many a pipeline may have, and the bytes of a Key.
const (
	Most   = 1_000_000
	maxKey = 900
)

// Setting says which parameters name a partition, and which values they have.
type Setting struct {
	By     []string          `json:"by" required:"true" minItems:"1" maxItems:"4" doc:"Names of the parameters that together name a partition, in order. They are texts."`
	Values map[string]Values `json:"values,omitempty" doc:"Which values a parameter of by has. Default: its enum."`
	Watch  []string          `json:"watch,omitempty" doc:"Ids of the steps whose change makes partitions stale. Default: all steps but those of finally."`
}

// Values are those of one parameter: a list, or the times of a calendar in UTC.
type Values struct {
	List  []string `json:"list,omitempty" spec:"dates" doc:"The values, in order."`
	Every string   `json:"every,omitempty" enum:"hour,day,week,month,year" doc:"One value for each hour (2026-03-01T05), day (2026-03-01), week (2026-W09), month (2026-03) or year (2026), in UTC."`
	From  string   `json:"from,omitempty" spec:"dates" maxLength:"20" doc:"The first one, such as 2024-01 for months."`
	Until string   `json:"until,omitempty" spec:"dates" maxLength:"40" doc:"The last one; or now, or now - 3d (also h and w). None is a partition before it is over. Default now."`
}

// Key is the name of the partition that an execution with these params makes (KeyOf). False: one of the values is no text, or empty, or all
// together are too long.
func (s *Setting) Key(params map[string]any) (string, bool) {
	values := make([]string, len(s.By))
	for i, name := range s.By {
		text, ok := params[name].(string)
		if !ok || text == "" {
			return "", false
		}
		values[i] = text
	}
	key := KeyOf(values)
	return key, len(key) <= maxKey
}

// KeyOf joins the values of a partition, in the order of By, by a slash, each escaped as in a URL's path.
func KeyOf(values []string) string {
	parts := make([]string, len(values))
	for i, text := range values {
		parts[i] = url.PathEscape(text)
	}
	return strings.Join(parts, "/")
}

// ValuesOf are the values of the partition that a key (KeyOf; one that escapes more is taken too) names. False: axes have no such one.
func ValuesOf(key string, axes [][]string) ([]string, bool) {
	parts := strings.Split(key, "/")
	if len(parts) != len(axes) {
		return nil, false
	}
	for i, text := range parts {
		value, err := url.PathUnescape(text)
		if err != nil || !slices.Contains(axes[i], value) {
			return nil, false
		}
		parts[i] = value
	}
	return parts, true
}

// Axes are the values of each parameter of By at a moment, in order; enums gives those of a parameter without Values. CodeLimit: there are more
// than Most partitions.
func (s *Setting) Axes(enums func(parameter string) []string, now time.Time) ([][]string, error) {
	axes := make([][]string, len(s.By))
	n := 1
	for i, name := range s.By {
		v, given := s.Values[name]
		switch {
		case !given:
			axes[i] = enums(name)
		case v.Every == "":
			axes[i] = v.List
		default:
			var err error
			if axes[i], err = v.times(now); err != nil {
				return nil, err
			}
		}
		if n *= len(axes[i]); n > Most {
			return nil, stepwell.Errorf(stepwell.CodeLimit, "begin later, or take longer times", "settings.partition: there are more than %d partitions", Most)
		}
	}
	return axes, nil
}

// Newest gives the parameters of By that follow a calendar the newest value that they have at a moment; none before the first one.
func (s *Setting) Newest(now time.Time) map[string]string {
	out := map[string]string{}
	for _, name := range s.By {
		v := s.Values[name]
		if v.Every == "" {
			continue
		}
		first, last, err := v.span(now)
		if err == nil && !last.Before(first) {
			out[name] = units[v.Every].format(last)
		}
	}
	return out
}

// Unknown are the names in Values that By does not have, in order.
func (s *Setting) Unknown() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.Values)), func(name string) bool { return slices.Contains(s.By, name) })
}
