package mcpapi

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

// TestTokensExpire: a token counts for ten minutes, and there are not too many.
func TestTokensExpire(t *testing.T) {
	now := time.Unix(0, 0)
	all := tokens{now: func() time.Time { return now }}
	digest := sha256.Sum256([]byte("x"))
	late, expires, err := all.give("a", digest)
	if err != nil || expires != now.Add(10*time.Minute) {
		t.Fatal(expires, err)
	}
	in, _, err := all.give("a", digest)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(10*time.Minute - 1)
	if err := all.take(in, "a", digest); err != nil {
		t.Error("a moment before:", err)
	}
	now = now.Add(1)
	if err := all.take(late, "a", digest); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Error("after ten minutes:", err)
	}
	for n := 0; ; n++ {
		if _, _, err := all.give("a", digest); stepwell.CodeOf(err) == stepwell.CodeLimit {
			if n != maxTokens/20 {
				t.Errorf("%d tokens of one caller", n)
			}
			break
		}
	}
	if _, _, err := all.give("b", digest); err != nil {
		t.Error("another caller:", err)
	}
}

// TestFit: whatever is too large is cut to what is allowed, and says so.
func TestFit(t *testing.T) {
	deep := any("x")
	for range 100 {
		deep = []any{deep, map[string]any{"a": deep}}[:1]
	}
	wide := map[string]any{}
	for i := range 5000 {
		wide[fmt.Sprint(i)] = strings.Repeat("é", 100)
	}
	for name, v := range map[string]any{"text": strings.Repeat("é", 1<<20), "list": strings.Split(strings.Repeat("x ", 100_000), " "), "deep": deep, "wide": map[string]any{"in": wide}, "top": wide} {
		text := raw(fit(cleaned(v), 10<<10))
		if len(text) > 10<<10 || !json.Valid(text) || strings.Contains(string(text), "\ufffd") {
			t.Errorf("%s: %d bytes: %.100s", name, len(text), text)
		}
		if name != "deep" && !strings.Contains(string(text), "cut") && !strings.Contains(string(text), "left out") {
			t.Errorf("%s does not say that it is cut: %.200s", name, text)
		}
	}
	small := map[string]any{"a": []any{"b", json.Number("12345678901234567890")}}
	if got := string(raw(fit(cleaned(small), 1000))); got != `{"a":["b",12345678901234567890]}` {
		t.Error(got)
	}
}

// TestPage: rows come once each, in pages that are small enough, whatever the pages of the API are.
func TestPage(t *testing.T) {
	fetch := func(cursor string) (any, error) {
		from := 0
		_, _ = fmt.Sscan(cursor, &from)
		rows := []any{}
		for i := from; i < from+100; i++ {
			rows = append(rows, map[string]any{"n": i, "text": strings.Repeat("x", i*10)})
		}
		next := fmt.Sprint(from + 100)
		if from == 900 {
			next = ""
		}
		return map[string]any{"rows": rows, "next_cursor": next}, nil
	}
	seen := 0
	for cursor := ""; ; {
		r, err := page(cursor, "rows", fetch)
		if err != nil {
			t.Fatal(err)
		}
		data := r.data.(map[string]any)
		for _, row := range data["rows"].([]any) {
			if n := row.(map[string]any)["n"].(json.Number); n.String() != fmt.Sprint(seen) {
				t.Fatalf("%s follows %d", n, seen-1)
			}
			seen++
		}
		if size := len(raw(data)); size > maxAnswer {
			t.Errorf("%d bytes", size)
		}
		if cursor = r.next; cursor == "" {
			break
		}
	}
	if seen != 1000 {
		t.Errorf("%d rows", seen)
	}
	if _, err := page("nonsense", "rows", fetch); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Error(err)
	}
}
