package apiclient

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// maxParts limits the parts of one search.
const maxParts = 4096

// Split divides a search by time until the server reports fewer than threshold matches for each part (stac-manager,
// RequestSplitter). Parts are in order of time and meet at the same instant, so that no item is lost between them; one
// on the border comes in both, and the reader drops it. A search without bounds takes them from its collection's
// extent. A server that does not count, and a part of a second, are not split.
func (c *Client) Split(ctx context.Context, s Search, threshold int64) ([]Search, error) {
	n, err := c.matched(ctx, s)
	if err != nil || n < threshold {
		return []Search{s}, err
	}
	from, to, ok, err := c.bounds(ctx, s)
	if err != nil || !ok {
		return []Search{s}, err
	}
	var parts []Search
	var halve func(from, to time.Time, n int64) error
	halve = func(from, to time.Time, n int64) error {
		half := to.Sub(from) / 2
		if n < threshold || half < time.Second {
			if len(parts) >= maxParts {
				return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("the search falls into more than %d parts", maxParts), Hint: "raise split_at"}
			}
			part := s
			part.Datetime = interval(from, to)
			parts = append(parts, part)
			return nil
		}
		middle := from.Add(half).Truncate(time.Second)
		for _, r := range [2][2]time.Time{{from, middle}, {middle, to}} {
			part := s
			part.Datetime = interval(r[0], r[1])
			n, err := c.matched(ctx, part)
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			if err := halve(r[0], r[1], n); err != nil {
				return err
			}
		}
		return nil
	}
	if err := halve(from, to, n); err != nil {
		return nil, err
	}
	if len(parts) == 0 { // counts are approximate: nothing is left out on their word alone
		return []Search{s}, nil
	}
	return parts, nil
}

func interval(from, to time.Time) string {
	return from.UTC().Format(time.RFC3339Nano) + "/" + to.UTC().Format(time.RFC3339Nano)
}

// matched asks how many items a search has; -1 when the server does not tell.
func (c *Client) matched(ctx context.Context, s Search) (int64, error) {
	s.Limit = 1
	p, err := c.Search(ctx, s)
	if err != nil {
		return 0, err
	}
	page, err := p.Next(ctx)
	if err != nil || page == nil {
		return 0, err
	}
	if page.Matched == 0 && len(page.Features) > 0 {
		return -1, nil
	}
	return page.Matched, nil
}

// bounds are the ends of a search's time.
func (c *Client) bounds(ctx context.Context, s Search) (from, to time.Time, ok bool, err error) {
	a, b, both := strings.Cut(s.Datetime, "/")
	if s.Datetime != "" && !both {
		return from, to, false, nil // an instant
	}
	from, fromOK := Instant(a, false)
	to, toOK := Instant(b, true)
	if fromOK && toOK {
		return from, to, to.After(from), nil
	}
	if len(s.Collections) != 1 {
		return from, to, false, nil
	}
	got, err := c.Collection(ctx, s.Collections[0])
	if err != nil {
		return from, to, false, err
	}
	var doc struct {
		Extent struct {
			Temporal struct {
				Interval [][]*string `json:"interval"`
			} `json:"temporal"`
		} `json:"extent"`
	}
	if json.Unmarshal(got.Text, &doc) != nil || len(doc.Extent.Temporal.Interval) == 0 || len(doc.Extent.Temporal.Interval[0]) != 2 {
		return from, to, false, nil
	}
	ends := doc.Extent.Temporal.Interval[0]
	if !fromOK && ends[0] != nil {
		from, fromOK = Instant(*ends[0], false)
	}
	if !toOK {
		if to, toOK = time.Now().AddDate(1, 0, 0), true; ends[1] != nil {
			to, toOK = Instant(*ends[1], true)
		}
	}
	return from, to, fromOK && toOK && to.After(from), nil
}

// Instant reads an RFC 3339 time, or a year, month or day; with end, its last moment. It returns false for an open end
// ("" or "..") and for an invalid time.
func Instant(text string, end bool) (time.Time, bool) {
	text = strings.TrimSpace(text)
	if t, err := time.Parse(time.RFC3339Nano, strings.ToUpper(text)); err == nil {
		return t, true
	}
	for _, f := range []struct {
		layout       string
		years, month int
		days         int
	}{{"2006", 1, 0, 0}, {"2006-01", 0, 1, 0}, {"2006-01-02", 0, 0, 1}} {
		t, err := time.Parse(f.layout, text)
		if err != nil {
			continue
		}
		if end {
			t = t.AddDate(f.years, f.month, f.days).Add(-time.Second)
		}
		return t, true
	}
	return time.Time{}, false
}

// Interval makes an API's datetime of user input: years, months and days become whole intervals,
// "2024-01-01/2024-01-31" ends with the last second of January. Errors are CodeInvalid.
func Interval(text string) (string, error) {
	wrong := func() (string, error) {
		return "", &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("datetime %q is neither a time nor an interval", text),
			Hint: "write 2024-01-31T12:00:00Z, 2024-01, 2024-01-01/2024-01-31 or 2024-01-01/.."}
	}
	a, b, both := strings.Cut(text, "/")
	if !both {
		from, ok := Instant(a, false)
		if !ok {
			return wrong()
		}
		if strings.ContainsAny(a, "Tt") {
			return strings.TrimSpace(a), nil
		}
		to, _ := Instant(a, true) // it has been read once already
		return interval(from, to), nil
	}
	ends := [2]string{}
	var times [2]time.Time
	for i, e := range [2]string{a, b} {
		t, ok := Instant(e, i == 1)
		open := strings.TrimSpace(e) == "" || strings.TrimSpace(e) == ".."
		switch times[i] = t; {
		case ok && strings.ContainsAny(e, "Tt"):
			ends[i] = strings.TrimSpace(e)
		case ok:
			ends[i] = t.UTC().Format(time.RFC3339Nano)
		case open:
			ends[i] = ".."
		default:
			return wrong()
		}
	}
	if ends[0] == ".." && ends[1] == ".." || !times[0].IsZero() && !times[1].IsZero() && times[1].Before(times[0]) {
		return wrong()
	}
	return ends[0] + "/" + ends[1], nil
}
