package apiclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/stac/stactest"
)

func featuresOf(items []json.RawMessage) []Feature {
	out := make([]Feature, len(items))
	for i, text := range items {
		out[i] = feature(text)
	}
	return out
}

// tally counts the outcomes.
func tally(results []Result) map[Outcome]int {
	n := map[Outcome]int{}
	for _, r := range results {
		n[r.Outcome]++
	}
	return n
}

// server has a collection of which five items are there, in another version.
func server(t testing.TB, o stactest.Options) *stactest.Server {
	t.Helper()
	for _, text := range stactest.Generate("made", 50)[10:15] {
		o.Items = append(o.Items, bytes.Replace(text, []byte(`"n":`), []byte(`"old":`), 1))
	}
	return stactest.Start(t, o)
}

// TestCreateAll is P14: 5 ids are there, a batch answers 409 without ids, one 413, one 202.
func TestCreateAll(t *testing.T) {
	items := featuresOf(stactest.Generate("made", 50))
	for name, o := range map[string]stactest.Options{
		"whole":      {},
		"in part":    {Partial: true},
		"too large":  {MaxBatch: 4},
		"one by one": {Single: true},
		"no search":  {NoSearch: true, Partial: true},
		"faults": {Faults: []stactest.Fault{{Kind: "create", Nth: 2, Status: 413}, {Kind: "create", Nth: 3, Status: 202, Store: true},
			{Kind: "create", Nth: 4, Status: 409}, {Kind: "create", Nth: 6, Status: 500, Store: true}, {Kind: "create", Nth: 9, Status: 503}}},
	} {
		for _, upsert := range []bool{false, true} {
			for _, trust := range []bool{false, true} {
				if trust && name == "faults" {
					continue // a server that queues what will conflict cannot be trusted
				}
				t.Run(fmt.Sprint(name, " upsert ", upsert, " trust ", trust), func(t *testing.T) {
					s := server(t, o)
					results, err := client(t, s.URL, nil).CreateAll(t.Context(), "made", items, Bulk{Upsert: upsert, Trust: trust, Batch: 10})
					if err != nil {
						t.Fatal(err)
					}
					if ids := s.IDs("made"); len(ids) != 50 || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 50 {
						t.Errorf("the server has %d", len(ids))
					}
					n := tally(results)
					old := strings.Contains(string(s.Item("made", "item-00012")), `"old"`)
					if upsert && (n[Replaced] != 5 || n[Conflict]+n[Failed] > 0 || old) || !upsert && (n[Conflict] != 5 || n[Failed] > 0 || !old) {
						t.Errorf("%v, old version %t", n, old)
					}
					if name == "faults" && n[Queued] == 0 {
						t.Errorf("none queued: %v", n)
					}
					for i, r := range results {
						if r.ID != items[i].ID || (r.Outcome == Conflict) != (!upsert && i >= 10 && i < 15) {
							t.Errorf("%d: %+v", i, r)
						}
					}
				})
			}
		}
	}
}

// TestLostAnswer has an item stored, and its answer lost: the second attempt's conflict is its own.
func TestLostAnswer(t *testing.T) {
	s := server(t, stactest.Options{Faults: []stactest.Fault{{Kind: "create", Status: 502, Store: true, Times: 2}}})
	c := client(t, s.URL, nil)
	items := featuresOf(stactest.Generate("made", 12))
	res, err := c.Create(t.Context(), "made", items[0].Text)
	if err != nil || res.Outcome != Created || res.Err != nil {
		t.Errorf("%+v, %v", res, err)
	}
	res, err = c.Create(t.Context(), "made", items[11].Text) // there in another version
	if err != nil || res.Outcome != Conflict {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestAlter replaces, patches and deletes, with and without an ETag.
func TestAlter(t *testing.T) {
	s := server(t, stactest.Options{})
	c, ctx := client(t, s.URL, nil), t.Context()
	text, etag, err := c.Item(ctx, "made", "item-00011")
	if err != nil || etag != `"rev-1"` || !bytes.Equal(text, s.Item("made", "item-00011")) {
		t.Fatal(string(text), etag, err)
	}
	res, err := c.Put(ctx, "made", "item-00011", bytes.Replace(text, []byte(`"old":`), []byte(`"new":`), 1), etag)
	if err != nil || res.Outcome != Replaced || res.ETag != `"rev-2"` {
		t.Errorf("%+v, %v", res, err)
	}
	if res, err = c.Patch(ctx, "made", "item-00011", []byte(`{"properties":{"new":null,"title":"t"}}`), etag); err != nil || res.Outcome != Conflict || StatusOf(res.Err) != 412 {
		t.Errorf("an old etag: %+v, %v", res, err)
	}
	if res, err = c.Patch(ctx, "made", "item-00011", []byte(`{"properties":{"new":null,"title":"t"}}`), ""); err != nil || res.Outcome != Replaced {
		t.Errorf("%+v, %v", res, err)
	}
	if got := string(s.Item("made", "item-00011")); strings.Contains(got, "new") || !strings.Contains(got, `"title":"t"`) {
		t.Error(got)
	}
	for range 2 { // twice is fine
		if res, err = c.Delete(ctx, "made", "item-00011", ""); err != nil || res.Outcome != Replaced || s.Item("made", "item-00011") != nil {
			t.Errorf("%+v, %v", res, err)
		}
	}
	if res, err = c.Put(ctx, "made", "nowhere", []byte(`{}`), ""); err != nil || res.Outcome != Failed || StatusOf(res.Err) != 404 {
		t.Errorf("%+v, %v", res, err)
	}
	if can, err := c.CanChange(ctx); !can || err != nil {
		t.Error(can, err)
	}
}

// TestOutage ends at once when the server fails as a whole, and says what is done.
func TestOutage(t *testing.T) {
	items := featuresOf(stactest.Generate("made", 30))
	for name, fault := range map[string]stactest.Fault{"503": {Kind: "create", Page: 0, Status: 503, Times: -1}, "401": {Kind: "create", Status: 401, Times: -1}} {
		s := stactest.Start(t, stactest.Options{Collections: []json.RawMessage{json.RawMessage(`{"id":"made"}`)}, Faults: []stactest.Fault{{Kind: "create", Nth: 1, Status: 202, Store: true}, fault}})
		results, err := client(t, s.URL, nil).CreateAll(t.Context(), "made", items, Bulk{Batch: 10})
		if n := tally(results); err == nil || n[Queued] != 10 || n[""] != 20 || s.Count("create") > 6 {
			t.Errorf("%s: %v, %d requests, %v", name, n, s.Count("create"), err)
		}
	}
	s := stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 1), Faults: []stactest.Fault{{Kind: "create", Status: 422, Times: -1}}})
	results, err := client(t, s.URL, nil).CreateAll(t.Context(), "made", items[1:5], Bulk{})
	if n := tally(results); err != nil || n[Failed] != 4 {
		t.Errorf("%v, %v", n, err)
	}
}
