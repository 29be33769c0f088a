package mcpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stepwell/stepwell"
)

// Limits of answers, in bytes of JSON.
const (
	maxAnswer = 60 << 10 // with what stands around it, less than 64 KiB
	maxPage   = 48 << 10 // of the rows of a page
	maxRow    = 8 << 10
)

// reply is what a tool answers.
type reply struct {
	data  any            // what others have written, too
	next  string         // the cursor of the rest
	plain map[string]any // what this server says itself: tokens
}

// answer is a reply, or an error, as the protocol has it.
func (s *Service) answer(r *reply, err error) *mcp.CallToolResult {
	out := map[string]any{"untrusted": true}
	if err != nil {
		code := stepwell.CodeOf(err)
		problem := map[string]any{"code": string(code), "message": err.Error()}
		if e, ok := errors.AsType[*stepwell.Error](err); ok && e.Err == nil {
			problem["message"] = e.Message
		} else if !ok {
			s.o.Log.Error("a tool of mcp failed", "error", err)
			problem["code"], problem["message"] = string(stepwell.CodeInternal), "an internal error"
		}
		if hint := stepwell.HintOf(err); hint != "" {
			problem["hint"] = hint
		}
		out["error"] = fit(cleaned(problem), maxAnswer)
	} else {
		for name, v := range r.plain {
			out[name] = v
		}
		out["data"] = fit(cleaned(r.data), maxAnswer)
		if r.next != "" {
			out["next_cursor"] = r.next
		}
	}
	text := raw(out)
	return &mcp.CallToolResult{IsError: err != nil, StructuredContent: json.RawMessage(text), Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}
}

// cleaned is a value as JSON has it, with the characters taken out of its texts that people do not see.
func cleaned(v any) any {
	text, err := json.Marshal(v)
	if err != nil {
		return nil // nothing here is not JSON
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out any
	if err := d.Decode(&out); err != nil {
		return nil
	}
	return scrubbed(out)
}

func scrubbed(v any) any {
	switch v := v.(type) {
	case string:
		return visible(v)
	case []any:
		for i := range v {
			v[i] = scrubbed(v[i])
		}
	case map[string]any:
		for name, inner := range v {
			clean := visible(name)
			if clean != name {
				delete(v, name)
			}
			v[clean] = scrubbed(inner)
		}
	}
	return v
}

// visible takes out control characters but line ends and tabs, marks that turn the direction of text, characters without width that
// join nothing, tags and private ones: texts could hide in them.
func visible(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\t' || c == 0x200C || c == 0x200D: // joiners are part of words
			return c
		case unicode.IsControl(c), unicode.Is(unicode.Cf, c), unicode.Is(unicode.Co, c), c >= 0xFE00 && c <= 0xFE0F, c >= 0xE0100 && c <= 0xE01EF:
			return -1
		}
		return c
	}, text)
}

// cuts are the longest text and the longest list of an answer that must become smaller, each smaller than the one before.
var cuts = []struct{ text, list int }{{16 << 10, 1 << 20}, {8 << 10, 500}, {2 << 10, 200}, {512, 100}, {256, 50}, {128, 20}, {64, 10}, {32, 5}, {16, 2}}

// fit cuts texts and lists of a value, which is shared with nothing, until its JSON has no more than limit bytes.
func fit(v any, limit int) any {
	if len(raw(v)) <= limit {
		return v
	}
	for _, c := range cuts {
		if v = cut(v, c.text, c.list, 0); len(raw(v)) <= limit {
			return v
		}
	}
	return fmt.Sprintf("… (left out: more than %d bytes)", limit)
}

// maxNesting is how deep what is told may be.
const maxNesting = 30

func cut(v any, text, list, depth int) any {
	switch v := v.(type) {
	case string:
		if len(v) <= text {
			return v
		}
		end := text
		for end > 0 && !utf8.RuneStart(v[end]) {
			end--
		}
		return fmt.Sprintf("%s… (cut: %d bytes)", v[:end], len(v))
	case []any:
		if depth > maxNesting {
			return "…"
		}
		if n := len(v); n > list {
			v = append(v[:list:list], fmt.Sprintf("… (cut: %d entries)", n))
		}
		for i := range v {
			v[i] = cut(v[i], text, list, depth+1)
		}
		return v
	case map[string]any:
		if depth > maxNesting {
			return "…"
		}
		for n, name := range slices.Sorted(maps.Keys(v)) {
			if n >= list && depth > 0 { // the members that this server knows stay
				delete(v, name)
				continue
			}
			v[name] = cut(v[name], text, list, depth+1)
		}
		return v
	}
	return v
}

// place is where a list goes on: the API's cursor of a page, and how many of its rows have been told.
type place struct {
	Cursor string `json:"c,omitempty"`
	Skip   int    `json:"s,omitempty"`
}

func placeOf(cursor string) (p place, err error) {
	if cursor == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil || p.Skip < 0 {
		return place{}, stepwell.Invalid("give next_cursor of the answer before, or leave it out", "the cursor is none of this tool")
	}
	return p, nil
}

// page tells as many rows of a page of the API as fit: fetch reads the page with a cursor, list is the member with its rows.
func page(cursor, list string, fetch func(cursor string) (any, error)) (*reply, error) {
	at, err := placeOf(cursor)
	if err != nil {
		return nil, err
	}
	got, err := fetch(at.Cursor)
	if err != nil {
		return nil, err
	}
	data, ok := cleaned(got).(map[string]any)
	if !ok {
		return nil, fmt.Errorf("mcp: the page %s is no object", list)
	}
	rows, _ := data[list].([]any)
	next, _ := data["next_cursor"].(string)
	delete(data, "next_cursor")
	delete(data, "previous_cursor")
	told, size := []any{}, 0
	for i := min(at.Skip, len(rows)); i < len(rows); i++ {
		row := fit(rows[i], maxRow)
		if size += len(raw(row)) + 1; size > maxPage {
			return rest(data, list, told, place{at.Cursor, i}), nil
		}
		told = append(told, row)
	}
	if next == "" {
		data[list] = told
		return &reply{data: data}, nil
	}
	return rest(data, list, told, place{Cursor: next}), nil
}

// rest is a page that is not the last one.
func rest(data map[string]any, list string, rows []any, behind place) *reply {
	data[list] = rows
	return &reply{data: data, next: base64.RawURLEncoding.EncodeToString(raw(behind))}
}
